//! Values that the optimiser does not know.

/// A run of unknown bytes, read as whatever is asked for; zeros behind its end.
pub(crate) struct Input<'a> {
    bytes: &'a [u8],
}

impl<'a> Input<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Self {
        Input { bytes }
    }

    pub(crate) fn u64(&mut self) -> u64 {
        let mut value = [0; 8];
        value.iter_mut().zip(self.bytes(8)).for_each(|(to, from)| *to = *from);
        u64::from_le_bytes(value)
    }

    pub(crate) fn u32(&mut self) -> u32 {
        self.u64() as u32
    }

    pub(crate) fn u16(&mut self) -> u16 {
        self.u64() as u16
    }

    pub(crate) fn bool(&mut self) -> bool {
        self.u64() & 1 == 1
    }

    /// At most `count` bytes.
    pub(crate) fn bytes(&mut self, count: usize) -> &'a [u8] {
        let (head, tail) = self.bytes.split_at_checked(count).unwrap_or((self.bytes, &[]));
        self.bytes = tail;
        head
    }

    /// Some bytes.
    pub(crate) fn slice(&mut self) -> &'a [u8] {
        let count = self.u16();
        self.bytes(usize::from(count))
    }

    pub(crate) fn text(&mut self) -> &'a str {
        core::str::from_utf8(self.slice()).unwrap_or_default()
    }
}
