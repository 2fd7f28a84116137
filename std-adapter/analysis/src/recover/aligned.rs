//! Memory of a region at an address as it needs.

use std::fmt;

/// Bytes that start at an 8-byte boundary, as a [buffer](tracebuf::buffer::ReadOnlyTraceBuffer) needs them.
pub struct Aligned {
    bytes: Vec<u8>,
    start: usize,
}

impl Aligned {
    pub(crate) fn copy_of(source: &[u8]) -> Self {
        let mut bytes = vec![0; source.len() + 8];
        let start = bytes.as_ptr().align_offset(8).min(8);
        bytes[start..start + source.len()].copy_from_slice(source);
        bytes.truncate(start + source.len());
        Self { bytes, start }
    }
}

impl fmt::Debug for Aligned {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Aligned").field("len", &self.as_ref().len()).finish_non_exhaustive()
    }
}

impl From<Vec<u8>> for Aligned {
    /// Without a copy where the bytes are already aligned, as large vectors always are.
    fn from(bytes: Vec<u8>) -> Self {
        if bytes.as_ptr().align_offset(8) == 0 { Self { bytes, start: 0 } } else { Self::copy_of(&bytes) }
    }
}

impl AsRef<[u8]> for Aligned {
    fn as_ref(&self) -> &[u8] {
        &self.bytes[self.start..]
    }
}

impl AsMut<[u8]> for Aligned {
    fn as_mut(&mut self) -> &mut [u8] {
        &mut self.bytes[self.start..]
    }
}
