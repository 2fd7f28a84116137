//! Cells of 32 bytes: the nodes of the state, and whatever else lies in the arena.
//!
//! A node is a cell, linked into the balanced tree of its siblings by `left` and `right`. Its content is in two words:
//! a scalar's bits, up to eight bytes as they are, the first cell of a chain and its length, or the top of the tree of
//! its children. Other cells are a chain's (28 bytes and the next one's index in `link`), records of the journal (a
//! node as it was, with its index for a key), pieces of the patch's log, or free.

use crate::buffer::words::{Le32, Le64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// The index that means none: that of the root, to which nothing links.
pub(super) const NONE: u32 = 0;

/// Bytes of a chain that a cell holds: all but its link.
pub(super) const PAYLOAD: usize = 28;

/// The most bytes that lie in the node itself, and where.
const INLINE: u32 = 8;
const INLINE_AT: u32 = 8;

/// In `len`: the bytes are in a chain.
const LONG: u8 = 0xFF;

/// No cell's index: flat bytes.
pub(super) const FLAT: u32 = u32::MAX;

/// A stretch of bytes: in a chain of cells from byte `at` of `cell`, or in the flat bytes if the cell is [`FLAT`].
#[derive(Clone, Copy, Debug)]
pub(super) struct Span {
    pub(super) cell: u32,
    pub(super) at: u32,
    pub(super) len: u32,
}

impl Span {
    /// A stretch of the flat bytes.
    pub(super) const fn flat(at: u32, len: u32) -> Self {
        Self { cell: FLAT, at, len }
    }

    pub(super) const EMPTY: Self = Self::flat(0, 0);
}

/// The kinds of nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Empty,
    Bytes,
    Scalar,
    Message,
    Indexed,
    Mapped,
}

impl Kind {
    pub(super) const fn of(byte: u8) -> Option<Self> {
        Some(match byte {
            0 => Self::Empty,
            1 => Self::Bytes,
            2 => Self::Scalar,
            3 => Self::Message,
            4 => Self::Indexed,
            5 => Self::Mapped,
            _ => return None,
        })
    }

    /// A repeated field's node, which has no tag of its own.
    pub(super) const fn is_list(self) -> bool {
        matches!(self, Self::Indexed | Self::Mapped)
    }

    pub(super) const fn has_children(self) -> bool {
        matches!(self, Self::Message) || self.is_list()
    }
}

/// A child's place in its tree's upper node, or in the node whose children the tree holds.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Side {
    Left,
    Right,
    Content,
}

impl Side {
    pub(super) const fn other(self) -> Self {
        match self {
            Self::Left => Self::Right,
            _ => Self::Left,
        }
    }
}

/// What a node holds, without its place.
#[derive(Clone, Copy, Default, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub(super) struct Content {
    /// The content's lower word: a chain's first cell, or the top of the children's tree.
    pub(super) low: Le32,
    /// Its upper word: a chain's length in bytes, an indexed node's number of elements, a message's length while it is
    /// written.
    pub(super) high: Le32,
}

/// A cell.
#[derive(Clone, Copy, Default, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub(super) struct Cell {
    /// Field number, index, or key of a map.
    pub(super) key: Le64,
    pub(super) content: Content,
    pub(super) left: Le32,
    pub(super) right: Le32,
    pub(super) kind: u8,
    /// A scalar's wire type; of bytes, whether they are of a loaded state.
    pub(super) wire: u8,
    /// Of the subtree whose top it is.
    pub(super) height: u8,
    /// Of bytes in the node itself, or [`LONG`].
    pub(super) len: u8,
    /// A node's stamp during a patch, and the way up during a walk; the next cell of a chain or a list.
    pub(super) link: Le32,
}

impl Cell {
    pub(super) fn kind(&self) -> Kind {
        Kind::of(self.kind).unwrap_or(Kind::Empty)
    }

    pub(super) fn scalar(&self) -> u64 {
        u64::from(self.content.low.get()) | u64::from(self.content.high.get()) << 32
    }

    /// Makes it a node of that kind with nothing in it.
    pub(super) fn become_empty(&mut self, kind: Kind) {
        (self.kind, self.wire, self.len) = (kind as u8, 0, 0);
        self.content = Content::default();
    }

    pub(super) fn become_scalar(&mut self, wire: u8, value: u64) {
        self.become_empty(Kind::Scalar);
        self.wire = wire;
        self.content.low.set(value as u32);
        self.content.high.set((value >> 32) as u32);
    }

    /// Makes it bytes that fit into the node, given where they go; `None` if they do not fit.
    pub(super) fn become_short(&mut self, len: u32) -> Option<&mut [u8]> {
        self.become_empty(Kind::Bytes);
        self.len = u8::try_from(len).ok().filter(|_| len <= INLINE)?;
        self.content.as_mut_bytes().get_mut(..usize::from(self.len))
    }

    pub(super) fn become_long(&mut self, first: u32, len: u32) {
        self.become_empty(Kind::Bytes);
        self.len = LONG;
        self.content.low.set(first);
        self.content.high.set(len);
    }

    /// Whether it is bytes of a state that was loaded. They count up to where they are malformed, as Perfetto's do; a
    /// loaded state would else be stuck.
    pub(super) fn is_loaded(&self) -> bool {
        self.kind() == Kind::Bytes && self.wire != 0
    }

    /// Takes over another node's content.
    pub(super) fn take_content(&mut self, from: &Self) {
        (self.kind, self.wire, self.len, self.content) = (from.kind, from.wire, from.len, from.content);
    }

    /// The first cell of its chain.
    pub(super) fn chain(&self) -> Option<u32> {
        (self.kind() == Kind::Bytes && self.len == LONG).then(|| self.content.low.get())
    }

    /// The top of the tree of its children.
    pub(super) fn children(&self) -> u32 {
        if self.kind().has_children() { self.content.low.get() } else { NONE }
    }

    /// The place of its bytes; empty unless it is bytes. `at` is the cell's own index.
    pub(super) fn bytes(&self, at: u32) -> Span {
        match self.chain() {
            Some(first) => Span { cell: first, at: 0, len: self.content.high.get() },
            None if self.kind() == Kind::Bytes => {
                Span { cell: at, at: INLINE_AT, len: u32::from(self.len).min(INLINE) }
            }
            None => Span::EMPTY,
        }
    }

    /// Whether the length that it tells fits its form.
    pub(super) fn is_sound(&self) -> bool {
        match Kind::of(self.kind) {
            Some(Kind::Bytes) if self.len == LONG => self.content.high.get() > INLINE,
            Some(Kind::Bytes) => u32::from(self.len) <= INLINE,
            Some(Kind::Scalar) => matches!(self.wire, 0 | 1 | 5),
            kind => kind.is_some(),
        }
    }

    pub(super) fn side_mut(&mut self, side: Side) -> &mut Le32 {
        match side {
            Side::Left => &mut self.left,
            Side::Right => &mut self.right,
            Side::Content => &mut self.content.low,
        }
    }

    /// All but the link, of a cell that is no node.
    pub(super) fn payload(&self) -> &[u8] {
        self.as_bytes().get(..PAYLOAD).unwrap_or_default()
    }

    pub(super) fn payload_mut(&mut self) -> &mut [u8] {
        self.as_mut_bytes().get_mut(..PAYLOAD).unwrap_or_default()
    }
}
