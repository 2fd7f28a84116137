//! The bytes of a chunk on offer: private ones, or shared memory that is only looked at after it was copied.

use super::frag_iterator::size_field;
use super::tb_chunk::Flags;
use crate::proto::varint::{self, ABORTED_SIZE};
use crate::steps::step;

/// Where a chunk's bytes come from.
pub(super) trait Source {
    /// Bytes in all, at most 65,535 for a chunk that is looked at.
    fn size(&self) -> usize;
    /// The bytes, if nobody can change them any more.
    fn private(&self) -> Option<&[u8]>;
    /// Copies the bytes from `offset` on.
    fn copy(&mut self, offset: usize, target: &mut [u8]);
}

/// Private memory.
pub(super) struct Bytes<'p>(pub(super) &'p [u8]);

impl Source for Bytes<'_> {
    #[inline]
    fn size(&self) -> usize {
        self.0.len()
    }
    #[inline]
    fn private(&self) -> Option<&[u8]> {
        Some(self.0)
    }
    #[inline]
    fn copy(&mut self, offset: usize, target: &mut [u8]) {
        if let Some(bytes) = offset.checked_add(target.len()).and_then(|end| self.0.get(offset..end)) {
            target.copy_from_slice(bytes);
        }
    }
}

/// Memory that the producer may be changing, reached through a closure. Only the copy is ever looked at.
pub(super) struct Shared<F> {
    pub(super) size: usize,
    pub(super) fill: F,
}

impl<F: FnMut(usize, &mut [u8])> Source for Shared<F> {
    fn size(&self) -> usize {
        self.size
    }
    fn private(&self) -> Option<&[u8]> {
        None
    }
    fn copy(&mut self, offset: usize, target: &mut [u8]) {
        (self.fill)(offset, target);
    }
}

/// What can be said about a chunk before it is copied.
pub(super) struct Look {
    /// Bytes up to the end of the last well-formed fragment.
    pub(super) valid: u16,
    /// Bytes up to the end of the last one that is not empty.
    pub(super) filled: u16,
    /// End marks, if it has any.
    pub(super) flags: Flags,
    /// Whether a fragment, or the rest, starts at the offset that was asked about.
    pub(super) fits: bool,
}

impl Look {
    /// Whether the offset that was asked about lies between two fragments, or before the first.
    pub(super) fn goes_on_at(&self, offset: u16) -> bool {
        self.fits && self.valid > offset
    }
}

/// Splits what is on offer into fragments by copying the size fields alone. What was read of an earlier copy, up to
/// `offset`, can only be skipped if it is whole fragments of this one, too.
#[inline(never)]
pub(super) fn probe<S: Source>(source: &mut S, declared: u32, offset: u16) -> Look {
    let size = source.size();
    let mut look = Look { valid: 0, filled: 0, flags: Flags::empty(), fits: offset == 0 };
    for _ in 0..declared {
        step();
        let (mut field, at) = ([0; varint::MAX_LEN], usize::from(look.valid));
        let Some(field) = field.get_mut(..varint::MAX_LEN.min(size.saturating_sub(at))) else { break };
        source.copy(at, field);
        let (frag, header) = size_field(field);
        let end = at.wrapping_add(header).wrapping_add(frag as usize);
        if end > size {
            look.flags = if frag == ABORTED_SIZE { Flags::ABORTED } else { Flags::TRUNCATED };
            break;
        }
        look.valid = end as u16;
        if frag > 0 {
            look.filled = look.valid;
        }
        look.fits |= look.valid == offset;
    }
    look
}
