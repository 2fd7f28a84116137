//! Sums of complete chunks, for memory that a reset may leave damaged. Without the feature `inplace-crc`, nothing.

use super::crc;
use super::layout::{FRONT, State, detail, detail_word, len_of};
use super::order::{PUBLISH, before_publishing};
use super::region::Memory;
use crate::atomics::Ordering;

/// Words that a sum takes, for which each chunk keeps room.
pub(super) const WORDS: u32 = if HAS { 2 } else { 0 };
/// Whether complete chunks have sums.
pub(super) const HAS: bool = cfg!(feature = "inplace-crc");

/// Adds its sum to a chunk of which so many words are used. Cost: 40 instructions a word.
#[inline(always)]
pub(super) fn put<M: Memory>(chunk: &M::Chunk, used: u32) {
    if HAS {
        add::<M>(chunk, used);
    }
}

#[cold]
#[inline(never)]
fn add<M: Memory>(chunk: &M::Chunk, used: u32) {
    let load = |at| M::word(chunk, at).load(Ordering::Relaxed);
    let first = crc::add(crc::NOTHING, State(load(0)).writer(), 4);
    let sum = (1..used).fold(first, |sum, at| crc::add(sum, load(at), 4));
    M::word(chunk, used + 1).store(!sum, Ordering::Relaxed);
    M::word(chunk, used + 2).store(0, Ordering::Relaxed);
    before_publishing();
    M::word(chunk, used).store(detail_word(detail::SUM, 0), PUBLISH);
}

/// How many words of an open chunk are used, if that is needed: it may have got its sum already.
pub(super) fn used<M: Memory>(chunk: &M::Chunk) -> u32 {
    let mut at = FRONT;
    while HAS && at < M::WORDS - WORDS {
        match M::word(chunk, at).load(Ordering::Relaxed) {
            0 => break,
            word if word >> 18 == detail::SUM => break,
            word => at += len_of(word),
        }
    }
    at.min(M::WORDS - 1 - WORDS)
}
