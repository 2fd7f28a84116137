//! Memory at any offset from an 8-byte boundary, and the check of buffers in it.

use tracebuf::buffer::TraceBuffer;
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

/// Checks that ring, lists, table and counters agree, that every chunk offered was counted once, and that the twin, of
/// which overwriting is watched or not, is no different.
pub fn check(buffer: &mut TraceBuffer<Memory>, twin: Option<&mut TraceBuffer<Memory>>, offered: u64) {
    buffer.check().expect("a consistent region");
    let stats = buffer.stats();
    assert_eq!(stats.chunks_offered(), offered, "{stats:?}");
    if let Some(twin) = twin {
        twin.check().expect("a consistent twin");
        assert_eq!(twin.stats(), stats, "watching changes counters");
        assert!(twin.sequences().eq(buffer.sequences()), "watching changes sequences");
    }
}
