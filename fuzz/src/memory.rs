//! Memory at any offset from an 8-byte boundary.

use zerocopy::IntoBytes;

/// `len` bytes that begin `offset` bytes after a boundary.
#[derive(Clone)]
pub struct Memory {
    words: Vec<u64>,
    offset: usize,
    len: usize,
}

impl Memory {
    /// Memory full of rubbish.
    pub fn new(len: usize, offset: usize) -> Self {
        Self { words: vec![0xA5A5_A5A5_A5A5_A5A5; (len + offset).div_ceil(8)], offset, len }
    }
}

impl AsRef<[u8]> for Memory {
    fn as_ref(&self) -> &[u8] {
        &self.words.as_bytes()[self.offset..][..self.len]
    }
}

impl AsMut<[u8]> for Memory {
    fn as_mut(&mut self) -> &mut [u8] {
        &mut self.words.as_mut_bytes()[self.offset..][..self.len]
    }
}
