//! Cells of eight words: the nodes of the state, and whatever else lies in the arena.
//!
//! The memory is an array of words. A cell is named by its first word's index, a multiple of eight; the first one is
//! the header, the second the root. A node's words are its key, its content, the links of the tree that its siblings
//! form, and what it is. Other cells are a chain's (28 bytes), the log's (three entries), or free.

use crate::buffer::words::Le32;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// Words of a cell.
pub(super) const CELL: u32 = 8;

/// No cell: the header's index.
pub(super) const NONE: u32 = 0;

/// The registers' words, two for each, behind the header's; they are no part of the state.
pub(super) const FIRST_REGISTER: u32 = CELL;
pub(super) const REGISTERS: u8 = 32;

/// The root's index.
pub(super) const ROOT: u32 = FIRST_REGISTER + 2 * REGISTERS as u32;

/// The words of a node: field number, index, or key of a map, in two.
pub(super) const KEY: u32 = 0;

/// A scalar's or up to eight bytes; or, in `LOW`, the first cell of a chain or the top of the children's tree, and in
/// `HIGH`, bytes of a chain, elements of an indexed node, or a message's length while it is written.
pub(super) const LOW: u32 = 2;
pub(super) const HIGH: u32 = 3;

/// The two subtrees.
pub(super) const LEFT: u32 = 4;
pub(super) const RIGHT: u32 = 5;

/// The owner, among whose children it is (its index shifted by [`OWNER_SHIFT`]), and in the lowest bits what it is.
pub(super) const META: u32 = 6;

/// The next cell of a chain or of the free ones. A cell that a patch takes keeps it, so that an abort finds the list of
/// free cells as it was. A node's own is nobody's, but for its lowest bit.
pub(super) const LINK: u32 = 7;

/// In a link: seen by what goes over all nodes, or touched by the merge in progress.
pub(super) const MARK: u32 = 1;

/// Bytes of a chain that a cell holds: all but its link.
pub(super) const PAYLOAD: u32 = 28;

/// Cells have 24 bits in [`META`].
pub(super) const OWNER_SHIFT: u32 = 5;
pub(super) const MOST_CELLS: usize = 1 << 24;

/// The bits of [`META`] that are the kind.
pub(super) const KIND: u32 = 7;
/// With it, also a scalar's wire type or the length of bytes in the node itself.
pub(super) const WHAT: u32 = 0xFF;
/// Of bytes: they are of a state that was loaded.
pub(super) const LOADED: u32 = 8;
pub(super) const DETAIL_SHIFT: u32 = 4;

/// The most bytes that lie in the node itself, and what it tells if they are in a chain.
pub(super) const INLINE: u32 = 8;
pub(super) const LONG: u32 = INLINE + 1;

/// The kinds of nodes. From [`MESSAGE`] on they have children, and from [`INDEXED`] on they are repeated fields.
pub(super) const EMPTY: u32 = 0;
pub(super) const SCALAR: u32 = 1;
pub(super) const BYTES: u32 = 2;
pub(super) const MESSAGE: u32 = 3;
pub(super) const INDEXED: u32 = 4;
pub(super) const MAPPED: u32 = 5;

/// A cell.
#[derive(Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(transparent)]
pub(super) struct Cell([Le32; CELL as usize]);

impl Cell {
    pub(super) const EMPTY: Self = Self([Le32::new(0); CELL as usize]);

    #[inline(always)]
    pub(super) fn word(&self, word: u32) -> u32 {
        self.0.get((word % CELL) as usize).map_or(0, |word| word.get())
    }

    /// A node's key.
    #[inline(always)]
    pub(super) fn key(&self) -> u64 {
        u64::from(self.word(KEY)) | u64::from(self.word(KEY | 1)) << 32
    }

    #[inline(always)]
    pub(super) fn is(&self, key: u64) -> bool {
        self.word(KEY) == key as u32 && self.word(KEY | 1) == (key >> 32) as u32
    }

    #[inline(always)]
    pub(super) fn set(&mut self, word: u32, value: u32) {
        if let Some(word) = self.0.get_mut((word % CELL) as usize) {
            word.set(value);
        }
    }
}
