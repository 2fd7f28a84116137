//! Interned names: written once, then referred to by number.

use crate::SMALL;
use crate::producer::TraceWriter;
use crate::proto::fields::{interned_data, interned_string, source_location, trace_packet};
use heapless::Vec;

/// What a name is for.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct NameKind {
    field: Field,
    /// The line, for a source file.
    line: Line,
}

/// Where it is in the interned data.
#[derive(Clone, Copy, PartialEq, Eq)]
#[repr(u32)]
enum Field {
    Category = interned_data::EVENT_CATEGORIES,
    Event = interned_data::EVENT_NAMES,
    Annotation = interned_data::DEBUG_ANNOTATION_NAMES,
    Source = interned_data::SOURCE_LOCATIONS,
}

impl NameKind {
    pub(super) const CATEGORY: NameKind = NameKind { field: Field::Category, line: Line::NONE };
    pub(super) const EVENT: NameKind = NameKind { field: Field::Event, line: Line::NONE };
    pub(super) const ANNOTATION: NameKind = NameKind { field: Field::Annotation, line: Line::NONE };

    /// For a source file and this line of it; `None` where these are not interned.
    pub(super) fn source(line: u32) -> Option<NameKind> {
        Some(NameKind { field: Field::Source, line: Line::of(line)? })
    }

    /// An event's name and its category must not take each other's place, nor must lines of a file that are close.
    fn hash(self) -> usize {
        (self.field as usize) << 3 ^ self.line.number() as usize
    }
}

// One message serves for all.
const _: () = assert!(
    interned_string::IID == source_location::IID && interned_string::NAME == source_location::FILE_NAME
);

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
    /// How many had no room, since the list was begun or this was asked for.
    #[cfg(not(tracebuf_small))]
    spelt_out: usize,
    list: Vec<(NameKind, &'a str), N>,
}

/// A line of a source file, where these are interned. On microcontrollers they are not: each program that traces would
/// have 46 bytes of code for it, and few use it. There, a line is nothing and takes no code.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Line(#[cfg(not(tracebuf_small))] u32);

#[cfg(not(tracebuf_small))]
impl Line {
    const NONE: Line = Line(0);

    const fn of(line: u32) -> Option<Line> {
        Some(Line(line))
    }

    const fn number(self) -> u32 {
        self.0
    }
}

#[cfg(tracebuf_small)]
impl Line {
    const NONE: Line = Line();

    const fn of(_: u32) -> Option<Line> {
        None
    }

    const fn number(self) -> u32 {
        0
    }
}

const HINTS: usize = if SMALL { 8 } else { 32 };

impl<'a, const N: usize> Names<'a, N> {
    pub(super) const fn new() -> Self {
        // Numbers of one byte.
        const { assert!(N <= 127, "at most 127 names") };
        Names {
            list: Vec::new(),
            hints: [0; HINTS],
            written: 0,
            #[cfg(not(tracebuf_small))]
            spelt_out: 0,
        }
    }

    pub(super) fn clear(&mut self) {
        self.list.clear();
        self.written = 0;
        #[cfg(not(tracebuf_small))]
        {
            self.spelt_out = 0;
        }
    }

    /// The number of a known name, from 1.
    #[cfg_attr(not(tracebuf_small), inline)]
    pub(super) fn find(&mut self, kind: NameKind, name: &'a str) -> Option<u32> {
        let is =
            |&(k, n): &(NameKind, &str)| k == kind && n.as_ptr() == name.as_ptr() && n.len() == name.len();
        // Names of a program lie close to each other: the low bits tell them apart.
        let hash = name.as_ptr() as usize ^ name.len() << 2 ^ kind.hash();
        let hint = self.hints.get_mut(hash % HINTS)?;
        if self.list.get(usize::from(*hint)).is_some_and(is) {
            return Some(u32::from(*hint) + 1);
        }
        *hint = self.list.iter().position(is)? as u8;
        Some(u32::from(*hint) + 1)
    }

    /// The number of a name, known or new; `None` when there is no room for a new one.
    pub(super) fn intern(&mut self, kind: NameKind, name: &'a str) -> Option<u32> {
        if let Some(iid) = self.find(kind, name) {
            return Some(iid);
        }
        if self.list.push((kind, name)).is_err() {
            #[cfg(not(tracebuf_small))]
            {
                self.spelt_out = self.spelt_out.wrapping_add(1);
            }
            return None;
        }
        Some(self.list.len() as u32)
    }

    /// Whether so many names had no room that it pays to begin anew, with those that are used now: for a list that may
    /// last for as long as the program runs. Once.
    #[cfg(not(tracebuf_small))]
    #[inline]
    pub(super) fn take_used_up(&mut self) -> bool {
        let is_so = self.spelt_out > 2 * N + 32;
        if is_so {
            self.spelt_out = 0;
        }
        is_so
    }

    /// Whether there are names that were not yet written.
    #[cfg(not(tracebuf_small))]
    #[inline]
    pub(super) fn has_unwritten(&self) -> bool {
        self.written < self.list.len()
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
            writer.open(kind.field as u32);
            writer.number(interned_string::IID, index as u64);
            writer.bytes(interned_string::NAME, name.as_bytes());
            if kind.line != Line::NONE {
                writer.number(source_location::LINE_NUMBER, kind.line.number().into());
            }
            writer.close_innermost();
        }
    }
}
