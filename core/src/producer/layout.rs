//! Layouts: how a page is divided into chunks.

use super::atomics::{AtomicU32, Ordering};

/// Bytes before a page's first chunk: the bitmap, and four reserved.
pub(super) const PAGE_HEADER: usize = 8;

/// How a page is divided into chunks; the number is the one in the page's bitmap.
///
/// ```
/// use tracebuf::producer::Layout;
///
/// let layouts = [Layout::Fourteen, Layout::Seven, Layout::Four, Layout::Two, Layout::One];
/// assert_eq!(layouts.map(|layout| layout.chunk_size(4096)), [292, 584, 1020, 2044, 4088]);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum Layout {
    /// One chunk a page.
    One = 1,
    /// Two chunks a page.
    Two = 2,
    /// Four chunks a page.
    Four = 3,
    /// Seven chunks a page.
    Seven = 4,
    /// Fourteen chunks a page.
    Fourteen = 5,
}

impl Layout {
    /// The layout of a bitmap's bits 28–30; `None` for a page not partitioned (0) and the reserved 6 and 7.
    #[inline]
    pub const fn from_bits(bits: u32) -> Option<Layout> {
        Some(match bits {
            1 => Layout::One,
            2 => Layout::Two,
            3 => Layout::Four,
            4 => Layout::Seven,
            5 => Layout::Fourteen,
            _ => return None,
        })
    }

    /// Chunks in a page of this layout.
    #[inline]
    pub const fn chunks(self) -> u32 {
        match self {
            Layout::One => 1,
            Layout::Two => 2,
            Layout::Four => 4,
            Layout::Seven => 7,
            Layout::Fourteen => 14,
        }
    }

    /// Bytes of a chunk, header included, in a page of `page_size` bytes: rounded down to a multiple of 4.
    #[inline]
    pub const fn chunk_size(self, page_size: u32) -> u32 {
        let body = page_size.saturating_sub(PAGE_HEADER as u32);
        // Constant divisors: no check for zero, no division instruction.
        let size = match self {
            Layout::One => body,
            Layout::Two => body / 2,
            Layout::Four => body / 4,
            Layout::Seven => body / 7,
            Layout::Fourteen => body / 14,
        };
        size & !3
    }
}

/// A layout in pages of one size, computed once.
#[derive(Clone, Copy)]
pub(crate) struct Division {
    /// The layout as it is in a bitmap.
    layout_bits: u32,
    pub(crate) chunks: u32,
    pub(crate) chunk_words: usize,
}

impl Division {
    #[inline]
    pub(crate) const fn new(layout: Layout, page_size: u32) -> Self {
        Division {
            layout_bits: (layout as u32) << 28,
            chunks: layout.chunks(),
            chunk_words: layout.chunk_size(page_size) as usize / 4,
        }
    }

    /// Takes a free chunk of a page for writing, partitioning the page if it is not yet.
    pub(crate) fn acquire(&self, word: &AtomicU32) -> Option<u32> {
        let mut seen = word.load(Ordering::Relaxed);
        loop {
            let bitmap = u32::from_le(seen);
            let partitioned = if bitmap == 0 { self.layout_bits } else { bitmap };
            // The two bits of a free chunk are 0; `free` has the lower one set for each.
            let free = !(partitioned | partitioned >> 1) & 0x5555_5555;
            let chunk = free.trailing_zeros() / 2;
            if partitioned >> 28 != self.layout_bits >> 28 || chunk >= self.chunks {
                return None;
            }
            let next = (partitioned | free & free.wrapping_neg()).to_le();
            // Acquire: the service zeroed the header before it freed the chunk.
            match word.compare_exchange_weak(seen, next, Ordering::Acquire, Ordering::Relaxed) {
                Ok(_) => return Some(chunk),
                Err(now) => seen = now,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chunk_sizes_are_those_of_the_abi() {
        let sizes = [Layout::One, Layout::Two, Layout::Four, Layout::Seven, Layout::Fourteen]
            .map(|l| l.chunk_size(4096));
        assert_eq!(sizes, [4088, 2044, 1020, 584, 292]);
        assert_eq!(Layout::One.chunk_size(32768), 32760);
    }
}
