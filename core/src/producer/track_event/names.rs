//! Names that are written once and then told by number.

use crate::producer::TraceWriter;
use crate::proto::fields::{interned_data, interned_string, trace_packet};
use heapless::Vec;

/// What a name is for, as the number of its field in the interned data.
#[derive(Clone, Copy, PartialEq, Eq)]
#[repr(u32)]
pub(super) enum Kind {
    Category = interned_data::EVENT_CATEGORIES,
    Event = interned_data::EVENT_NAMES,
    Annotation = interned_data::DEBUG_ANNOTATION_NAMES,
}

/// The names that the current incremental state has a number for.
///
/// A name is known by where it is, not by what it says: the same text elsewhere gets another number, which
/// costs some bytes and no time.
#[repr(C)]
pub(super) struct Names<'a, const N: usize> {
    /// For each hash of an address, where its name was found last.
    hints: [u8; HINTS],
    /// How many of them have been written out.
    written: usize,
    list: Vec<(Kind, &'a str), N>,
}

const HINTS: usize = if size_of::<usize>() < 8 { 8 } else { 32 };

impl<'a, const N: usize> Names<'a, N> {
    pub(super) const fn new() -> Self {
        // Numbers of one byte.
        const { assert!(N <= 127, "at most 127 names") };
        Names { list: Vec::new(), hints: [0; HINTS], written: 0 }
    }

    pub(super) fn clear(&mut self) {
        self.list.clear();
        self.written = 0;
    }

    /// The number of a known name, from 1.
    #[cfg_attr(target_pointer_width = "64", inline)]
    pub(super) fn find(&mut self, kind: Kind, name: &'a str) -> Option<u32> {
        let is = |&(k, n): &(Kind, &str)| k == kind && n.as_ptr() == name.as_ptr() && n.len() == name.len();
        // Names of a program lie close to each other: the low bits tell them apart. An event's name and its category
        // must not take each other's place.
        let hash = name.as_ptr() as usize ^ name.len() << 2 ^ (kind as usize) << 3;
        let hint = self.hints.get_mut(hash % HINTS)?;
        if self.list.get(usize::from(*hint)).is_some_and(is) {
            return Some(u32::from(*hint) + 1);
        }
        *hint = self.list.iter().position(is)? as u8;
        Some(u32::from(*hint) + 1)
    }

    /// The number of a name, known or new; `None` when there is no room for a new one.
    pub(super) fn intern(&mut self, kind: Kind, name: &'a str) -> Option<u32> {
        if let Some(iid) = self.find(kind, name) {
            return Some(iid);
        }
        self.list.push((kind, name)).ok()?;
        Some(self.list.len() as u32)
    }

    /// Writes the names that were not yet written into the open packet.
    pub(super) fn write(&mut self, writer: &mut TraceWriter<'_>) {
        let mut index = self.written;
        self.written = self.list.len();
        if index < self.written {
            writer.open(trace_packet::INTERNED_DATA);
        }
        while let Some((kind, name)) = self.list.get(index) {
            index += 1;
            writer.open(*kind as u32);
            writer.number(interned_string::IID, index as u64);
            writer.bytes(interned_string::NAME, name.as_bytes());
            writer.close_innermost();
        }
    }
}
