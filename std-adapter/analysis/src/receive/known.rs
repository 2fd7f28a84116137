//! What a device's memory has for all of its starts, as far as it was sent: names, and its header.

use std::collections::HashMap;

use tracebuf::inplace::{ChunkView, Detail, HeaderView, Hello, LINKED_NAMES, NameView, Record};

use crate::in_place::{Names, address, text_of};

/// The most names that a device has.
const NAMES: u32 = 1024;

/// Names as they were sent, and what the newest hello said.
#[derive(Debug, Default)]
pub(super) struct Known {
    names: HashMap<u32, (u32, Option<Vec<u8>>)>,
    header: Option<HeaderView>,
    hellos: u64,
}

impl Names for Known {
    fn name(&self, number: u32) -> Option<Vec<u8>> {
        let (key, text) = self.names.get(&number)?;
        Some(text.clone().unwrap_or_else(|| address(*key)))
    }

    fn has_text(&self, number: u32) -> bool {
        self.names.get(&number).is_some_and(|(_, text)| text.is_some())
    }
}

/// The number of a record's name; 0 if it has none.
fn name_of(record: &Record<'_>) -> u32 {
    match *record {
        Record::Begin { name: number }
        | Record::Instant { name: number }
        | Record::Count { counter: number, .. }
        | Record::Measure { counter: number, .. }
        | Record::Switch { task: number }
        | Record::Detail(Detail::Track(number) | Detail::Arg(number, _)) => number,
        _ => 0,
    }
}

fn names_of(chunk: &ChunkView<'_>) -> impl Iterator<Item = u32> {
    chunk.records().flatten().map(|(_, record)| name_of(&record))
}

impl Known {
    pub(super) fn hello(&mut self, hello: &Hello) {
        self.header = Some(**hello);
        self.hellos += 1;
    }

    /// How many hellos have come.
    pub(super) fn hellos(&self) -> u64 {
        self.hellos
    }

    pub(super) fn name(&mut self, number: u32, name: &NameView<'_>) {
        if (1..=NAMES).contains(&number) {
            self.names.insert(number, (name.key, name.text.map(text_of)));
        }
    }

    /// The build whose linker numbered the names of a start. It is of all that was sent before the newest hello.
    pub(super) fn build(&self, start: u32) -> Option<u32> {
        self.header?.build(start)
    }

    /// Whether all names in a chunk are known, or cannot be.
    pub(super) fn cover(&self, chunk: &ChunkView<'_>) -> bool {
        let is_known = |number| number == 0 || number > NAMES || self.names.contains_key(&number);
        is_known(chunk.track()) && names_of(chunk).all(is_known)
    }

    /// Whether a chunk has names that the linker numbered.
    pub(super) fn has_linked(chunk: &ChunkView<'_>) -> bool {
        names_of(chunk).any(|number| LINKED_NAMES.contains(&number))
    }
}
