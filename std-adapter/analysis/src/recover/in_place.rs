//! The trace of a region that firmware recorded [in place](tracebuf::inplace).

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, Write};
use std::path::Path;

use tracebuf::inplace::{ChunkView, RegionView, Text};
use tracebuf_std::whole_file::write_atomically;

use crate::LinkedNames;
use crate::in_place::{AllNames, Counts, Identity, StartPackets, Surroundings};

/// What was recorded in place, decoded: packets of a trace, and what is missing.
///
/// Each writer is a thread, each start a process of its own, because its time begins anew. Slices, instants, counters,
/// arguments, flows and lines of a log are what they are elsewhere; a task that runs is a slice on the task's track.
///
/// ```
/// use tracebuf::inplace::{Recorder, Region, RegionView};
/// use tracebuf_analysis::recover::InPlace;
///
/// static TRACE: Region<16, 32, 4> = Region::zeroed();
/// let recorder = Recorder::new(&TRACE, || 7, 1_000);
/// recorder.writer("main loop").instant("hello");
/// let dump: Vec<u8> = TRACE.words().flat_map(u32::to_ne_bytes).collect();
///
/// let found = InPlace::of(&RegionView::find(&dump).expect("a region"));
/// assert_eq!((found.events, found.missing_chunks), (1, 0));
/// assert!(found.trace().windows(5).any(|name| name == b"hello"));
/// ```
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct InPlace {
    trace: Vec<u8>,
    /// Packets of the trace.
    pub packets: u64,
    /// Events in it.
    pub events: u64,
    /// Starts of the firmware that are in it, by their numbers modulo 32.
    pub starts: BTreeSet<u32>,
    /// Chunks that are missing between others of the same writer, or before its first one: they were overwritten.
    pub missing_chunks: u64,
    /// Events that found no place when they were recorded.
    pub dropped_events: u64,
    /// Chunks of which a part is nothing that a writer writes, or that are not where they belong.
    pub damaged_chunks: u64,
    /// Names that something has overwritten.
    pub damaged_names: u64,
    /// Events and tracks whose name is not kept, because there was no room for it.
    pub unnamed: u64,
    /// Events whose name is in another build of the program than the one at hand, or none is at hand.
    pub unlinked: u64,
    /// Whether the region's header was damaged, and what it must have been is known.
    pub is_repaired: bool,
    /// The time of the first and of the last event, in nanoseconds since their start began.
    pub span: Option<(u64, u64)>,
}

/// Chunks of one writer in the order of their numbers, and how many are left out because their times are not in it, or
/// there is one of that number already: a bit of the number or of the time is another one, or what is there is the same
/// word again and again.
fn in_order(mut chunks: Vec<ChunkView<'_>>) -> (Vec<ChunkView<'_>>, u64) {
    let newest = chunks.iter().max_by_key(|chunk| chunk.time()).map_or(0, ChunkView::number);
    // Numbers wrap; of one writer there are fewer chunks than half of them.
    chunks.sort_by_key(|chunk| chunk.number().wrapping_sub(newest).wrapping_add(0x8000) & 0xFFFF);
    let all = chunks.len();
    chunks.dedup_by_key(|chunk| chunk.number());
    // The most of them whose times do not go back: of each length so far, the one that ends first.
    let (mut ends, mut before) = (Vec::<usize>::new(), vec![None; chunks.len()]);
    let time = |at: usize| chunks.get(at).map(ChunkView::time);
    for at in 0..chunks.len() {
        let len = ends.partition_point(|end| time(*end) <= time(at));
        if let Some(before) = before.get_mut(at) {
            *before = len.checked_sub(1).and_then(|last| ends.get(last).copied());
        }
        match ends.get_mut(len) {
            Some(end) => *end = at,
            None => ends.push(at),
        }
    }
    let links = std::iter::successors(ends.last().copied(), |at| before.get(*at).copied().flatten());
    let kept: BTreeSet<usize> = links.collect();
    let chunks: Vec<_> =
        chunks.into_iter().zip(0..).filter(|(_, at)| kept.contains(at)).map(|(chunk, _)| chunk).collect();
    let left_out = all - chunks.len();
    (chunks, left_out as u64)
}

/// How many of a writer's chunks, in their order, have in them what it cannot have recorded, though it looks like events.
/// What is no event, or has another sum, is counted where packets are made.
fn unlikely(view: &RegionView<'_>, chunks: &[ChunkView<'_>]) -> u64 {
    let is_likely = |(at, chunk): &(usize, &ChunkView<'_>)| {
        let is_checked = chunk.is_intact().is_some() || view.has_sums() && !chunk.is_open();
        let is_next = |next: &&ChunkView<'_>| next.number() == chunk.number().wrapping_add(1) & 0xFFFF;
        let next = chunks.get(at + 1).filter(is_next);
        let goes_on = view.has_sums() || next.is_none_or(|next| chunk.may_precede(next));
        is_checked || chunk.records().any(|record| record.is_err()) || goes_on && view.is_likely(chunk)
    };
    chunks.iter().enumerate().filter(|chunk| !is_likely(chunk)).count() as u64
}

/// Names of the table that are no text, because something has overwritten them. A letter that is another one is none.
fn names_damaged(view: &RegionView<'_>) -> usize {
    let is_text = |text: Text<'_>| {
        let bytes: Vec<u8> = text.bytes().collect();
        let is_text = |bytes: &[u8]| std::str::from_utf8(bytes).map(|text| !text.contains(char::is_control));
        // A long one is cut anywhere.
        is_text(&bytes).unwrap_or_else(|error| {
            let (whole, _) = bytes.split_at(error.valid_up_to());
            error.error_len().is_none() && is_text(whole) == Ok(true)
        })
    };
    // The most that there may be.
    let names = (1..=1024).filter_map(|number| view.name(number)?.text);
    names.filter(|text| !is_text(*text)).count()
}

impl InPlace {
    /// Decodes all of a region. Cost: twice the memory of the trace.
    pub fn of(view: &RegionView<'_>) -> Self {
        Self::with_names(view, &LinkedNames::default())
    }

    /// The same for firmware some of whose [names](tracebuf::linked_name) are only in its program. Starts of another build
    /// get numbers in their place.
    pub fn with_names(view: &RegionView<'_>, linked: &LinkedNames) -> Self {
        let mut by_writer = BTreeMap::<(u32, u32), Vec<ChunkView<'_>>>::new();
        for chunk in view.chunks() {
            by_writer.entry((chunk.start(), chunk.writer())).or_default().push(chunk);
        }
        let mut found = Self { is_repaired: view.is_repaired(), ..Self::default() };
        let mut counts = Counts::default();
        let (mut starts, mut sequences) = (BTreeMap::new(), 1);
        for ((start, writer), chunks) in by_writer {
            let (chunks, misplaced) = in_order(chunks);
            counts.damaged_chunks += misplaced;
            // A bit of it is another one, so that it seems to be of a writer that nobody knows.
            if chunks.len() == 1 && !view.has_writer(start, writer) {
                counts.damaged_chunks += 1;
                continue;
            }
            counts.damaged_chunks += unlikely(view, &chunks);
            let new = || StartPackets::new(Identity::alone(None), start, view.frequency(), true);
            let packets = starts.entry(start).or_insert_with(new);
            let linked = Some(linked).filter(|linked| linked.are_of(view.build(start)));
            let names = AllNames { kept: view, linked };
            for chunk in chunks {
                packets.chunk(
                    &chunk,
                    &mut Surroundings {
                        names: &names,
                        has_sums: view.has_sums(),
                        time: &mut |time| time,
                        next_sequence: &mut || {
                            sequences += 1;
                            sequences
                        },
                        out: &mut |packet| found.trace.extend_from_slice(packet),
                        counts: &mut counts,
                    },
                );
            }
        }
        let Counts {
            packets,
            events,
            missing_chunks,
            dropped_events,
            damaged_chunks,
            unnamed,
            unknown,
            unlinked,
            span,
        } = counts;
        let damaged_chunks = damaged_chunks + view.chunks_erased() as u64;
        let damaged_names = (names_damaged(view) + unknown.len()) as u64;
        let starts = starts.into_keys().collect();
        Self {
            packets,
            events,
            starts,
            missing_chunks,
            dropped_events,
            damaged_chunks,
            damaged_names,
            unnamed,
            unlinked,
            span,
            ..found
        }
    }

    /// The packets, as a trace file has them.
    pub fn trace(&self) -> &[u8] {
        &self.trace
    }

    /// Writes the trace into a file that appears when it is complete.
    ///
    /// # Errors
    /// What the file system says.
    pub fn write_to(&self, path: &Path) -> io::Result<()> {
        write_atomically(path, |file| file.write_all(&self.trace))
    }

    /// Whether something was overwritten by something else, so that the trace lacks what it should have.
    pub fn is_damaged(&self) -> bool {
        self.damaged_chunks + self.damaged_names > 0 || self.is_repaired
    }
}

#[cfg(test)]
mod tests;
