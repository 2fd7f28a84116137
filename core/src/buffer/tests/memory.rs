//! Memory that can be copied and cut off, and is a region wherever it lies.

use crate::buffer::region::{RegionLayout, State};
use std::ops::{Deref, DerefMut};
use std::vec::Vec;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// On targets of 32 bits `u64` may be aligned to 4 bytes only.
#[derive(Clone, Copy, Debug, FromBytes, Immutable, IntoBytes, KnownLayout)]
#[repr(C, align(8))]
struct Word([u8; 8]);

/// Bytes that start at an 8-byte boundary wherever they are moved, as those of a static or a mapping do.
#[derive(Clone, Debug)]
pub(in crate::buffer) struct Memory {
    words: Vec<Word>,
    len: usize,
}

impl Memory {
    pub(in crate::buffer) fn filled(byte: u8, len: usize) -> Self {
        Self { words: std::vec![Word([byte; 8]); len.div_ceil(8)], len }
    }

    pub(in crate::buffer) fn truncate(&mut self, len: usize) {
        self.len = self.len.min(len);
    }

    pub(in crate::buffer) fn extend(&mut self, bytes: &[u8]) {
        let old = self.len;
        self.len += bytes.len();
        self.words.resize(self.len.div_ceil(8), Word([0; 8]));
        self[old..].copy_from_slice(bytes);
    }
}

impl From<&[u8]> for Memory {
    fn from(bytes: &[u8]) -> Self {
        let mut memory = Self::filled(0, bytes.len());
        memory.copy_from_slice(bytes);
        memory
    }
}

impl Deref for Memory {
    type Target = [u8];
    fn deref(&self) -> &[u8] {
        &self.words.as_bytes()[..self.len]
    }
}

impl DerefMut for Memory {
    fn deref_mut(&mut self) -> &mut [u8] {
        &mut self.words.as_mut_bytes()[..self.len]
    }
}

impl AsRef<[u8]> for Memory {
    fn as_ref(&self) -> &[u8] {
        self
    }
}

impl AsMut<[u8]> for Memory {
    fn as_mut(&mut self) -> &mut [u8] {
        self
    }
}

impl PartialEq for Memory {
    fn eq(&self, other: &Self) -> bool {
        self[..] == other[..]
    }
}

/// Changes what lies in a region.
pub(in crate::buffer) fn change(memory: &mut Memory, work: impl FnOnce(&mut State<'_>)) {
    let layout = RegionLayout::find(memory, crate::buffer::region::RingEnd::Required).expect("a region");
    work(&mut layout.state(memory).expect("a region"));
}
