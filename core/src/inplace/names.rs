//! The table of names: each is copied once, and known by its address after that.
//!
//! The text is copied because a dump is often looked at when the firmware is another one. A place is taken by its second
//! word, and known by its first, which is written last: who finds the first sees all of it. If two priorities enter the
//! same name at once it has two places, which harms nothing.

use super::layout::{LINKED, NameWord, header};
use super::order::{PUBLISH, SEE, after_seeing, before_masking, before_publishing};
use super::region::Memory;
use crate::atomics::Ordering;

/// No name, or one for which there was no room.
pub(super) const NONE: u32 = 0;

/// A name of events. It never changes, and stays where it is: it is copied once, and known by its address after that.
///
/// Those of Rust are `&'static str`. For another language's, whose length is at hand only after a look at all of it,
/// implement this: the text is asked for once. See [`Writer::named`](super::Writer::named) for an example.
pub trait Name: Copy {
    /// Where it is. Nothing else is ever there.
    fn address(self) -> usize;

    /// Its bytes, if that is quickly said.
    fn known_len(self) -> Option<usize>;

    /// Its text, the same each time. An empty one is no name; it is asked for again each time.
    fn text(self) -> &'static str;

    /// Its number, if the linker gave it one, from 1,025 to 2,047: then nothing else is asked for, and it takes no place
    /// in the table. See [`linked_name!`](crate::linked_name).
    #[inline(always)]
    fn number(self) -> Option<u32> {
        None
    }

    /// Which build of the program gave it that number: a word that is another one in another build, and that the host
    /// finds in the program's file. 0: nobody knows, and the host shows numbers.
    #[inline(always)]
    fn build() -> u32 {
        0
    }
}

impl Name for &'static str {
    #[inline(always)]
    fn address(self) -> usize {
        self.as_ptr() as usize
    }

    #[inline(always)]
    fn known_len(self) -> Option<usize> {
        Some(self.len())
    }

    #[inline(always)]
    fn text(self) -> &'static str {
        self
    }
}

/// Names of a program lie one after another, so nearly all differ in their lowest bits.
#[inline(always)]
fn place_of<M: Memory>(key: u32) -> usize {
    (key ^ key >> M::NAMES.trailing_zeros()) as usize % M::NAMES
}

/// An address as 32 bits, not zero. On hosts, of more: what is lost of it is caught by the comparison of texts.
#[inline(always)]
fn key_of(name: impl Name) -> u32 {
    name.address() as u32
}

/// The number of an event's name. Cost, if it is known: some 15 instructions, and 10 for each place jumped over.
#[inline(always)]
pub(super) fn number_of<M: Memory>(region: &M, name: impl Name) -> u32 {
    if let Some(number) = name.number() {
        return number & LINKED;
    }
    // Elsewhere an address is more than a key.
    #[cfg(target_pointer_width = "32")]
    if let Some(number) = known(region, name) {
        return number;
    }
    enter(region, key_of(name), name.text(), 0)
}

/// The number of a name, if it is known by its address.
#[cfg(target_pointer_width = "32")]
#[inline(always)]
fn known<M: Memory>(region: &M, name: impl Name) -> Option<u32> {
    let key = key_of(name);
    let mut place = place_of::<M>(key);
    loop {
        let [first, second] = region.name(place);
        let found = first.load(SEE);
        after_seeing();
        let word = NameWord(second.load(Ordering::Relaxed));
        if found == key && name.known_len().map_or(word.is_verified(), |len| word.is_known(len as u32)) {
            return Some(place as u32 + 1);
        }
        // The few that go on from the last place are found otherwise.
        if found == 0 || place == 0 {
            return None;
        }
        place -= 1;
    }
}

/// The number of a track: those with the same name and the same `number` are one.
pub(super) fn number_of_track<M: Memory>(region: &M, name: &str, number: u32) -> u32 {
    // Not zero, whatever the number is.
    enter(region, number.wrapping_mul(2) | 1, name, NameWord::TRACK)
}

/// Finds a name's place, or takes one. Cost: some 25 instructions for each place looked at, and for each word of text.
#[inline(never)]
fn enter<M: Memory>(region: &M, key: u32, name: &str, flags: u32) -> u32 {
    let name = name.as_bytes().get(..NameWord::LONGEST).unwrap_or(name.as_bytes());
    if name.is_empty() {
        return NONE;
    }
    let len = name.len() as u32;
    let mut place = place_of::<M>(key);
    for _ in 0..M::NAMES {
        let number = (place % M::NAMES) as u32 + 1;
        let [first, second] = region.name(place);
        let found = first.load(SEE);
        after_seeing();
        let word = NameWord(second.load(Ordering::Relaxed));
        if found == key && word.is_like(len, flags) {
            // Where an address fits into a key, it need not be compared again; a track's number is no address.
            let is_address = cfg!(target_pointer_width = "32") && flags & NameWord::TRACK == 0;
            let is_known = word.has(NameWord::VERIFIED) && (is_address || word.text() == NameWord::NO_TEXT);
            if is_known || with_text(region, word.text(), name, false) {
                second.fetch_or(NameWord::VERIFIED, Ordering::Relaxed);
                return number;
            }
        }
        if word.0 == 0 {
            // If somebody else gets the place, which is rare, the text is copied again for the next one.
            let word = NameWord::new(copy(region, name), len, flags | NameWord::VERIFIED);
            if second
                .compare_exchange(0, before_masking(word.0), Ordering::Relaxed, Ordering::Relaxed)
                .is_ok()
            {
                before_publishing();
                first.store(key, PUBLISH);
                return number;
            }
        }
        place = place.wrapping_sub(1);
    }
    region.header(header::UNNAMED).fetch_add(1, Ordering::Relaxed);
    NONE
}

/// Copies a text; returns where it is.
#[inline(always)]
fn copy<M: Memory>(region: &M, name: &[u8]) -> u32 {
    let words = name.len().div_ceil(4) as u32;
    let used = region.header(header::TEXT_USED);
    let at = used.fetch_add(words, Ordering::Relaxed);
    if with_text(region, at, name, true) {
        return at;
    }
    // So that shorter ones may still find room, and the count does not wrap.
    used.fetch_sub(words, Ordering::Relaxed);
    NameWord::NO_TEXT
}

/// Stores a name's text at a place, or compares it with what is there. False: it is another, or there is no room.
#[inline(never)]
fn with_text<M: Memory>(region: &M, at: u32, name: &[u8], store: bool) -> bool {
    let (mut at, mut rest) = (at as usize, name);
    while !rest.is_empty() {
        let Some(kept) = region.text().get(at) else { return false };
        let word;
        (word, rest) = first_word(rest);
        if store {
            kept.store(word, Ordering::Relaxed);
        } else if kept.load(Ordering::Relaxed) != word {
            return false;
        }
        at += 1;
    }
    true
}

/// The first four bytes of a text as a word, the first in the lowest eight bits, and the rest.
#[inline(always)]
fn first_word(mut text: &[u8]) -> (u32, &[u8]) {
    let mut word = 0;
    for shift in (0..32).step_by(8) {
        if let Some((first, rest)) = text.split_first() {
            word |= u32::from(*first) << shift;
            text = rest;
        }
    }
    (word, text)
}

/// A text, or as many of its first characters as fit into so many bytes.
pub(super) fn cut(text: &str, most: usize) -> &str {
    let mut len = text.len().min(most);
    loop {
        match text.get(..len) {
            Some(cut) => return cut,
            None => len = len.saturating_sub(1),
        }
    }
}

/// A text's bytes in words, the first in the lowest eight bits, whatever the target's byte order.
pub(super) fn words_of(text: &[u8]) -> impl ExactSizeIterator<Item = u32> {
    text.chunks(4).map(|four| four.iter().rev().fold(0, |word, byte| word << 8 | u32::from(*byte)))
}

/// After a reset: addresses may mean something else, and a place that was being taken is free.
pub(super) fn doubt_all<M: Memory>(region: &M) {
    for place in 0..M::NAMES {
        let [first, second] = region.name(place);
        let word = NameWord(second.load(Ordering::Relaxed));
        let kept = if first.load(Ordering::Relaxed) == 0 {
            0
        } else {
            word.0 & !NameWord::VERIFIED & !NameWord::SENT
        };
        second.store(kept, Ordering::Relaxed);
    }
}
