//! What a device sends of what it records in place: its starts, its names, and its chunks, until they are packets.

mod early;

use std::collections::{BTreeMap, VecDeque};
use std::ops::Bound;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use tracebuf::inplace::{ChunkView, Hello, Message, NameView};
use tracebuf::proto::frame::Frame;

use self::early::Early;
use super::host_clock::pair;
use super::known::Known;
use super::report::ReceiveReport;
use super::timeline::Timeline;
use crate::LinkedNames;
use crate::in_place::{AllNames, Counts, Identity, StartPackets, Surroundings};

/// The least kind of a frame that is no piece of a packet.
const FIRST_KIND: u8 = 0x10;
/// So many chunks wait for their names, or for the clock.
const WAITING: usize = 256;
/// Nanoseconds for which they wait for the clock, and for names: a device sends four a second again.
const FOR_CLOCK: u64 = 6_000_000_000;
const FOR_NAMES: u64 = 20_000_000_000;
/// Starts that are remembered.
const STARTS: usize = 64;
/// A start: which one since the memory was new the last time, and how often that was.
type StartKey = (u32, u32);

/// A start of which something came.
#[derive(Debug)]
struct Start {
    packets: StartPackets,
    timeline: Timeline,
    /// Its place in the order in which packets of starts came, from 1 on.
    number: Option<u64>,
    /// The latest time that it said, in ticks.
    said: u64,
    /// Up to when the clocks have been told, by the device's.
    clocks_told: Option<u64>,
}

/// A chunk that waits.
#[derive(Debug)]
struct Waiting {
    start: StartKey,
    bytes: Vec<u8>,
    since: Option<u64>,
    /// How many hellos had come.
    hellos: u64,
}

/// How packets of a device are to be.
#[derive(Clone, Debug)]
pub(super) struct DeviceOptions {
    pub(super) identity: Identity,
    /// Ids of sequences that are taken.
    pub(super) sequences: Arc<AtomicU32>,
    /// Whether times are to be the host's.
    pub(super) at_host: bool,
    pub(super) state_every: usize,
    /// Names of its program.
    pub(super) linked: LinkedNames,
}

impl Default for DeviceOptions {
    fn default() -> Self {
        let identity = Identity::alone(None);
        let (sequences, linked) = (Arc::new(AtomicU32::new(1)), LinkedNames::default());
        Self { identity, sequences, at_host: false, state_every: usize::MAX, linked }
    }
}

/// A packet as it is in a file, and the number of its start.
pub(super) type Packets = Vec<(u64, Vec<u8>)>;

/// A device that records in place, as far as it was heard.
#[derive(Debug, Default)]
pub(super) struct Chunks {
    options: DeviceOptions,
    expected: Option<u16>,
    /// Since the memory was new: how often that was, and the newest start.
    newest: Option<StartKey>,
    frequency: u32,
    has_sums: bool,
    /// Of each memory.
    names: BTreeMap<u32, Known>,
    starts: BTreeMap<StartKey, Start>,
    /// Starts of which packets came.
    numbered: u64,
    waiting: VecDeque<Waiting>,
    counts: Counts,
    dropped: u32,
    /// There was a restart whose hello is lost: nobody knows yet whether its memory is the same.
    is_unsure: bool,
    early: Early,
}

impl Chunks {
    pub(super) fn new(options: DeviceOptions) -> Self {
        Self { options, ..Self::default() }
    }

    /// Whether a frame is one of these, and no piece of a packet.
    pub(super) fn is_of(frame: &Frame<'_>) -> bool {
        frame.flags >= FIRST_KIND
    }

    /// Takes a frame that arrived at that time of the host, and returns the packets that are complete with it.
    pub(super) fn take(
        &mut self,
        frame: &Frame<'_>,
        now: Option<u64>,
        report: &mut ReceiveReport,
    ) -> Packets {
        self.count(frame.number, report);
        match Message::of(frame.flags, frame.piece) {
            Some(Message::Hello(hello)) => self.hello(&hello, frame.number, now, report),
            Some(Message::Time { start, now: ticks }) => self.time(start, ticks, now, report),
            Some(Message::Name { .. }) if self.is_unsure => self.early.keep(frame.flags, frame.piece, report),
            Some(Message::Name { number, name, .. }) => self.name(number, &name),
            Some(Message::Chunk(chunk)) => self.chunk(&chunk, frame.flags, frame.piece, now, report),
            // Of a version to come.
            _ => report.frames_unknown += 1,
        }
        self.release(now, false, report)
    }

    fn count(&mut self, number: u16, report: &mut ReceiveReport) {
        match self.expected {
            _ if number == 0 => {}
            None => report.beginning_missing = true,
            Some(expected) => {
                let gap = number.wrapping_sub(expected);
                // 0 is left out when numbers begin again.
                let gap = if number < expected { gap.wrapping_sub(1) } else { gap };
                // More is a restart whose hello was lost.
                let is_restart = gap >= 0x8000;
                self.is_unsure |= is_restart && self.newest.is_some();
                report.frames_lost += u64::from(if is_restart { number } else { gap });
            }
        }
        self.expected = Some(number.checked_add(1).unwrap_or(1));
    }

    fn hello(&mut self, hello: &Hello, number: u16, now: Option<u64>, report: &mut ReceiveReport) {
        (self.frequency, self.has_sums) = (hello.frequency(), hello.has_sums());
        let starts = hello.starts();
        // What came before a sender's first frame is not of it, nor of a memory that is known.
        if number == 0 && (self.is_unsure || starts == 1) {
            self.early.forget(report);
        }
        let newest = match self.newest {
            None => (0, starts),
            Some((memory, before)) => {
                let is_back = self.starts.get(&(memory, before)).is_some_and(|start| hello.now < start.said);
                // A sender's first hello is of a new start. One with the number of the one before is not its next.
                let is_new_memory = starts < before || starts == before && (number == 0 || is_back);
                if is_new_memory { (memory.wrapping_add(1), starts) } else { (memory, starts) }
            }
        };
        self.begin(newest, number == 0, report);
        self.names.entry(newest.0).or_default().hello(hello);
        self.dropped = hello.dropped();
        self.says(newest, hello.now, now);
        self.take_early(report);
    }

    /// Takes what came while that was not known.
    fn take_early(&mut self, report: &mut ReceiveReport) {
        self.is_unsure = false;
        for (kind, piece) in self.early.take() {
            match Message::of(kind, &piece) {
                Some(Message::Name { number, name, .. }) => self.name(number, &name),
                Some(Message::Chunk(chunk)) => self.chunk(&chunk, kind, &piece, None, report),
                _ => {}
            }
        }
    }

    /// Goes on with this start as the newest, if it is not that already.
    fn begin(&mut self, newest: StartKey, is_first: bool, report: &mut ReceiveReport) {
        if let Some(before) = self.newest.replace(newest).filter(|before| *before != newest) {
            report.restarts += 1;
            if before.0 != newest.0 {
                self.dropped = 0;
                // What waits is of these at most.
                while self.names.len() >= STARTS {
                    self.names.pop_first();
                }
            }
        }
        self.start(newest, is_first);
    }

    fn start(&mut self, key: StartKey, from_beginning: bool) -> &mut Start {
        // Of the oldest nothing more will come.
        while self.starts.len() >= STARTS && !self.starts.contains_key(&key) {
            self.starts.pop_first();
        }
        let (options, frequency) = (&self.options, self.frequency);
        self.starts.entry(key).or_insert_with(|| {
            let identity = options.identity.clone();
            let mut packets = StartPackets::new(identity, number_of(key), frequency, from_beginning);
            packets.state_every(options.state_every);
            Start { packets, timeline: Timeline::default(), number: None, said: 0, clocks_told: None }
        })
    }

    fn time(&mut self, start: u32, ticks: u64, now: Option<u64>, report: &mut ReceiveReport) {
        // Before the first hello, nobody knows what a tick is.
        let Some((memory, newest)) = self.newest else { return };
        let ahead = start.wrapping_sub(newest) & 0xFFFF;
        // If it is another one, its hello was lost.
        let key = (memory, newest.wrapping_add(ahead));
        let is_back = ahead == 0 && self.starts.get(&key).is_some_and(|start| ticks < start.said);
        self.is_unsure |= is_back;
        if ahead < 0x8000 && !(self.is_unsure && ahead == 0) {
            if self.is_unsure {
                self.take_early(report);
            }
            self.begin(key, false, report);
            self.says(key, ticks, now);
        }
    }

    /// The device says what time it is.
    fn says(&mut self, key: StartKey, ticks: u64, now: Option<u64>) {
        if let Some(start) = self.starts.get_mut(&key) {
            start.said = start.said.max(ticks);
        }
        self.sample(key, ticks, now);
    }

    fn sample(&mut self, key: StartKey, ticks: u64, now: Option<u64>) {
        if let (Some(start), Some(now)) = (self.starts.get_mut(&key), now) {
            let device = start.packets.nanoseconds(ticks);
            start.timeline.sample(device, now);
        }
    }

    fn name(&mut self, number: u32, name: &NameView<'_>) {
        let memory = self.newest.map_or(0, |(memory, _)| memory);
        self.names.entry(memory).or_default().name(number, name);
    }

    fn chunk(
        &mut self,
        chunk: &ChunkView<'_>,
        kind: u8,
        piece: &[u8],
        now: Option<u64>,
        report: &mut ReceiveReport,
    ) {
        // What a tick is comes with the next hello, which does not take long.
        let Some((memory, newest)) = self.newest else { return self.early.keep(kind, piece, report) };
        let behind = newest.wrapping_sub(chunk.start()) & 31;
        // It is the next one's, whose hello and times were lost; but not before there were that many.
        let is_next = behind == 31 && newest < 31;
        if self.is_unsure {
            if !is_next {
                return self.early.keep(kind, piece, report);
            }
            self.take_early(report);
        }
        let key = (memory, if is_next { newest + 1 } else { newest.saturating_sub(behind) });
        if is_next {
            self.begin(key, false, report);
        } else {
            self.start(key, false);
        }
        if Some(key) == self.newest
            && let Some(last) = last_ticks(chunk)
        {
            self.sample(key, last, now);
        }
        let hellos = self.names.get(&memory).map_or(0, Known::hellos);
        self.waiting.push_back(Waiting { start: key, bytes: piece.to_vec(), since: now, hellos });
    }

    /// The packets of chunks that need not wait any longer, or of `all`.
    pub(super) fn release(&mut self, now: Option<u64>, all: bool, report: &mut ReceiveReport) -> Packets {
        let mut packets = Packets::new();
        if all {
            self.early.forget(report);
        }
        while let Some(first) = self.waiting.front() {
            let waited = now.zip(first.since).map_or(0, |(now, since)| now.saturating_sub(since));
            let must_go = all || self.waiting.len() > WAITING;
            let has_time = waited > FOR_CLOCK || self.is_settled(first.start);
            let has_names = || {
                let chunk = ChunkView::of(&first.bytes);
                let memory = first.start.0;
                // Of a memory that is gone, no names will come.
                let is_over = waited > FOR_NAMES || self.newest.is_some_and(|(newest, _)| newest != memory);
                let names = self.names.get(&memory);
                let is_build_known = self.options.linked.is_empty()
                    || names.is_some_and(|names| names.hellos() > first.hellos)
                    || chunk.is_none_or(|chunk| !Known::has_linked(&chunk));
                let are_known = chunk.is_none_or(|chunk| names.is_some_and(|names| names.cover(&chunk)));
                is_over || is_build_known && are_known
            };
            if !(must_go || has_time && has_names()) {
                break;
            }
            self.relate_earlier(first.start);
            if let Some(first) = self.waiting.pop_front() {
                self.packets_of(&first, &mut packets);
            }
        }
        self.tell(report);
        packets
    }

    /// Whether times of this start may be told.
    fn is_settled(&self, key: StartKey) -> bool {
        let is_settled = |key| self.starts.get(&key).is_some_and(|start: &Start| start.timeline.is_settled());
        // Those of one that was not heard while it ran come from the next one's.
        !self.options.at_host || is_settled(key) || self.newest.is_some_and(is_settled)
    }

    fn packets_of(&mut self, waiting: &Waiting, packets: &mut Packets) {
        let Some(chunk) = ChunkView::of(&waiting.bytes) else { return };
        let Some(start) = self.starts.get_mut(&waiting.start) else { return };
        let number = *start.number.get_or_insert_with(|| {
            self.numbered += 1;
            self.numbered
        });
        let Start { packets: writers, timeline, clocks_told, .. } = start;
        let none = Known::default();
        let DeviceOptions { identity, sequences, at_host, linked, .. } = &self.options;
        let kept = self.names.get(&waiting.start.0).unwrap_or(&none);
        let linked = Some(linked).filter(|linked| linked.are_of(kept.build(chunk.start())));
        if *at_host {
            let told = pair(timeline, identity.clock(number_of(waiting.start)), clocks_told);
            packets.extend(told.map(|packet| (number, packet)));
        }
        writers.chunk(
            &chunk,
            &mut Surroundings {
                names: &AllNames { kept, linked },
                has_sums: self.has_sums,
                time: &mut |time| if *at_host { timeline.host(time) } else { time },
                next_sequence: &mut || sequences.fetch_add(1, Ordering::Relaxed).wrapping_add(1),
                out: &mut |packet| packets.push((number, packet.to_vec())),
                counts: &mut self.counts,
            },
        );
    }

    /// An earlier start of which nothing was heard while it ran: its last event was, at the latest, when the next start
    /// began.
    fn relate_earlier(&mut self, key: StartKey) {
        let Some(start) = self.starts.get(&key).filter(|start| !start.timeline.is_known()) else { return };
        let chunks = self.waiting.iter().filter(|waiting| waiting.start == key);
        let views = chunks.filter_map(|waiting| ChunkView::of(&waiting.bytes));
        let last = views.filter_map(|chunk| last_ticks(&chunk)).max();
        let last = start.packets.nanoseconds(last.unwrap_or_default());
        let later = self.starts.range((Bound::Excluded(key), Bound::Unbounded)).map(|(_, start)| start);
        let begun = later.filter_map(|start| start.timeline.beginning()).next();
        if let (Some(begun), Some(start)) = (begun, self.starts.get_mut(&key)) {
            start.timeline.sample(last, begun);
        }
    }

    fn tell(&self, report: &mut ReceiveReport) {
        let Counts { events, missing_chunks, dropped_events, damaged_chunks, unnamed, unlinked, .. } =
            self.counts;
        report.events = events;
        report.chunks_missing = missing_chunks;
        report.chunks_damaged = damaged_chunks;
        report.events_dropped = dropped_events.max(self.dropped.into());
        report.events_unnamed = unnamed;
        report.events_unlinked = unlinked;
        if self.options.at_host {
            let known = self.starts.values().filter(|start| start.timeline.is_known());
            report.clock_error = known.map(|start| start.timeline.error()).max();
        }
    }
}

/// The number of a start's process: starts of different memories have the same numbers.
fn number_of((memory, start): StartKey) -> u32 {
    start.wrapping_add(memory.wrapping_mul(256))
}

/// The time of the last event.
fn last_ticks(chunk: &ChunkView<'_>) -> Option<u64> {
    chunk.records().filter_map(|record| record.ok().map(|(ticks, _)| ticks)).max()
}

#[cfg(test)]
mod tests;
