//! The state as a message: measured in one walk, written in another.

use super::arena::Arena;
use super::cell::{
    BYTES, DETAIL_SHIFT, EMPTY, HIGH, INDEXED, KEY, LOW, MESSAGE, META, NONE, ROOT, SCALAR, WHAT,
};
use super::wire::{LENGTH, Span, VARINT};
use crate::proto::Sink;

/// In a visit, which is a node, of a walk through all in order: it comes from below.
const LEAVES: u32 = 1;

/// Room for a tag and a varint, or a fixed number.
type Head = [u8; 16];

/// Appends a varint.
#[cfg_attr(tracebuf_size, inline(never))]
fn put_varint(head: &mut Head, len: &mut usize, mut value: u64) {
    loop {
        let byte = value as u8 & 0x7F;
        value >>= 7;
        if let Some(place) = head.get_mut(*len) {
            *place = byte | u8::from(value != 0) << 7;
        }
        *len = len.wrapping_add(1);
        if value == 0 {
            break;
        }
    }
}

impl Arena<'_> {
    #[cfg_attr(tracebuf_size, inline(never))]
    fn next_visit(&self, visit: u32) -> u32 {
        let (mut owner, mut next) = (visit & !LEAVES, NONE);
        if visit != owner {
            let key = self.key(owner);
            owner = self.owner(owner);
            if let Some(from) = key.checked_add(1) {
                next = self.first_from(owner, from);
            }
        } else if self.kind(owner) >= MESSAGE {
            next = self.first_from(owner, 0);
        }
        if next == NONE { owner | LEAVES } else { next }
    }

    /// Its bytes, or those of its children together; none of a scalar or a list.
    #[cfg_attr(tracebuf_size, inline(never))]
    fn content(&self, at: u32) -> Span {
        match self.kind(at) {
            BYTES => self.bytes(at),
            MESSAGE => Span { at: 0, len: self.word(at, HIGH) },
            _ => Span::default(),
        }
    }

    /// What comes before a node's bytes or children, or is all of it; how many bytes.
    #[cfg_attr(tracebuf_size, inline(never))]
    fn head(&self, at: u32, head: &mut Head) -> usize {
        let kind = self.kind(at);
        if kind == EMPTY || kind >= INDEXED || at == ROOT {
            return 0;
        }
        let wire = if kind == SCALAR { (self.word(at, META) & WHAT) >> DETAIL_SHIFT } else { LENGTH };
        // An element is written as its list's field.
        let owner = self.owner(at);
        let named = if self.kind(owner) >= INDEXED { owner } else { at };
        let mut len = 0;
        put_varint(head, &mut len, u64::from(self.word(named, KEY)) << 3 | u64::from(wire));
        let value = u64::from(self.word(at, LOW)) | u64::from(self.word(at, HIGH)) << 32;
        if wire == LENGTH {
            put_varint(head, &mut len, self.content(at).len.into());
        } else if wire == VARINT {
            put_varint(head, &mut len, value);
        } else {
            if let Some(place) = head.get_mut(len..).and_then(|rest| rest.first_chunk_mut()) {
                *place = value.to_le_bytes();
            }
            len = len.wrapping_add(if wire == 1 { 8 } else { 4 });
        }
        len
    }

    /// Leaves each message's length in it. Returns the whole state's.
    #[cfg_attr(tracebuf_size, inline(never))]
    pub(super) fn measure(&mut self) -> u32 {
        let mut visit = ROOT;
        loop {
            let at = visit & !LEAVES;
            let inside = self.content(at).len;
            if visit != at {
                if at == ROOT {
                    return inside;
                }
                let mut around = self.owner(at);
                if self.kind(around) >= INDEXED {
                    around = self.owner(around);
                }
                let len = (self.head(at, &mut Head::default()) as u32).wrapping_add(inside);
                self.set(around | HIGH, self.word(around, HIGH).wrapping_add(len));
            } else if self.kind(at) == MESSAGE {
                self.set(at | HIGH, 0);
            }
            visit = self.next_visit(visit);
        }
    }

    /// Writes what was measured.
    pub(super) fn write<S: Sink>(&self, out: &mut S) -> Result<(), S::Error> {
        let mut visit = ROOT;
        while visit != ROOT | LEAVES {
            if visit & LEAVES == 0 {
                let mut head = Head::default();
                let len = self.head(visit, &mut head);
                out.put(head.get(..len).unwrap_or_default())?;
                let mut bytes = if self.kind(visit) == BYTES { self.bytes(visit) } else { Span::default() };
                while bytes.len > 0 {
                    let len = bytes.len.min(4) as usize;
                    out.put(self.next_word(&mut bytes).to_le_bytes().get(..len).unwrap_or_default())?;
                }
            }
            visit = self.next_visit(visit);
        }
        Ok(())
    }
}
