//! Words and texts of a device, in its byte order, as the host reads them.

/// Words in memory, in the byte order of their device.
#[derive(Clone, Copy, Debug)]
pub(super) struct Words<'b> {
    pub(super) bytes: &'b [u8],
    pub(super) is_big: bool,
}

impl<'b> Words<'b> {
    pub(super) fn get(self, index: usize) -> Option<u32> {
        let word = self.bytes.get(index.checked_mul(4)?..)?.first_chunk::<4>()?;
        Some(if self.is_big { u32::from_be_bytes(*word) } else { u32::from_le_bytes(*word) })
    }

    pub(super) fn part(self, from: usize, words: usize) -> Option<Self> {
        let bytes = self.bytes.get(from * 4..(from + words) * 4)?;
        Some(Self { bytes, ..self })
    }
}

/// A text of the device. Its bytes are its own: nothing says that they are UTF-8.
#[derive(Clone, Copy, Debug)]
pub struct Text<'b> {
    pub(super) words: Words<'b>,
    pub(super) len: usize,
}

impl<'b> Text<'b> {
    /// The bytes, which a device of the other byte order keeps in another order.
    pub fn bytes(self) -> impl Iterator<Item = u8> + 'b {
        (0..self.len).map_while(move |at| Some((self.words.get(at / 4)? >> (at % 4 * 8)) as u8))
    }
}
