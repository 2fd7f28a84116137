//! The packets of one writer.

use std::collections::{BTreeSet, VecDeque};

use tracebuf::inplace::{ChunkView, Detail, LINKED_NAMES, Record};
use tracebuf::proto::Sink;
use tracebuf::proto::fields::{
    counter_descriptor, data_loss_reason, process_descriptor, sequence_flags, thread_descriptor, trace,
    trace_packet, track_descriptor, track_event, track_event_type,
};

use super::details::{Details, bytes, message, varint};
use super::identity::Kind;
use super::names::Names;
use super::surroundings::{Process, Surroundings};

/// So many chunks of a writer are remembered: its newest may come again, with more in it.
const REMEMBERED: usize = 8;

/// A chunk that came.
#[derive(Debug)]
struct Taken {
    number: u32,
    /// How many of its records were taken.
    records: usize,
    /// There may be more in it than came.
    is_open: bool,
}

/// A writer, as far as its chunks came.
#[derive(Debug)]
pub(super) struct Sequence {
    id: u32,
    writer: u32,
    /// The number of the next chunk, if that is known.
    expected: Option<u32>,
    taken: VecDeque<Taken>,
    /// Causes of a loss that the next packet tells.
    loss: u32,
    begins_state: bool,
    since_state: usize,
    log_lines: u64,
    described: BTreeSet<u64>,
    running: u32,
    /// Up to when that task was seen, if something after that is missing: others may have run since.
    running_until: Option<u64>,
    /// The time of the last event.
    last: u64,
}

impl Sequence {
    pub(super) fn new(id: u32, first: &ChunkView<'_>, is_from_beginning: bool) -> Self {
        Self {
            id,
            writer: first.writer(),
            expected: is_from_beginning.then_some(0),
            taken: VecDeque::new(),
            loss: 0,
            begins_state: true,
            since_state: 0,
            log_lines: 0,
            described: BTreeSet::new(),
            running: 0,
            running_until: None,
            last: 0,
        }
    }

    /// Takes a chunk, or what is new in it.
    pub(super) fn chunk<N: Names>(
        &mut self,
        process: &Process,
        chunk: &ChunkView<'_>,
        around: &mut Surroundings<'_, N>,
    ) {
        let number = chunk.number();
        let missing = &mut around.counts.missing_chunks;
        let before = match self.taken.iter_mut().find(|taken| taken.number == number) {
            Some(known) => {
                // If others have come since, its rest was counted as missing.
                let is_late = self.expected != Some(number.wrapping_add(1));
                *missing -= u64::from(is_late && known.is_open && !chunk.is_open()).min(*missing);
                known.is_open = chunk.is_open();
                known.records
            }
            None => {
                self.count_missing(number, missing);
                self.taken.push_back(Taken { number, records: 0, is_open: chunk.is_open() });
                if self.taken.len() > REMEMBERED {
                    self.taken.pop_front();
                }
                0
            }
        };
        let mut taken = before;
        if self.since_state > process.state_every {
            self.described.clear();
            (self.begins_state, self.since_state) = (true, 0);
        }
        let mut writing = Writing { sequence: self, process, around, details: Details::default() };
        let is_intact = chunk.is_intact().unwrap_or(chunk.is_open() || !writing.around.has_sums);
        if !is_intact {
            writing.damaged();
            return;
        }
        writing.describe_thread(chunk.track());
        // What was taken when the chunk came before ends with an event, so all details before that belong to it.
        for (record, at) in chunk.records().zip(1..).skip(before) {
            match record {
                Ok((_, Record::Detail(detail))) => {
                    writing.detail(detail);
                    continue;
                }
                Ok((ticks, record)) => writing.record(process.nanoseconds(ticks), record),
                Err(_) => writing.damaged(),
            }
            taken = at;
        }
        if let Some(known) = self.taken.iter_mut().find(|known| known.number == number) {
            known.records = taken;
        }
    }

    /// Something is missing here, and why.
    fn lost(&mut self, why: u32) {
        self.loss |= data_loss_reason::PRESENT | why;
        self.running_until.get_or_insert(self.last);
    }

    fn count_missing(&mut self, number: u32, missing: &mut u64) {
        let ahead = number.wrapping_sub(self.expected.unwrap_or(number)) & 0xFFFF;
        if ahead >= 0x8000 {
            // It was overtaken, and counted as missing.
            *missing = missing.saturating_sub(1);
            return;
        }
        // The rest of one that was still open is missing, too: it comes again when it is complete.
        let last = self.expected.map(|next| next.wrapping_sub(1));
        let is_rest_missing = self.taken.iter().any(|taken| taken.is_open && Some(taken.number) == last);
        let ahead = ahead + u32::from(is_rest_missing);
        if ahead > 0 {
            *missing += u64::from(ahead);
            self.lost(data_loss_reason::OVERWRITE);
        }
        self.expected = Some(number.wrapping_add(1));
    }
}

/// A writer whose packets are being written. Details without their event are of one that was never finished, and are
/// dropped with this.
struct Writing<'w, 's, N> {
    sequence: &'w mut Sequence,
    process: &'w Process,
    around: &'w mut Surroundings<'s, N>,
    details: Details,
}

impl<N: Names> Writing<'_, '_, N> {
    fn damaged(&mut self) {
        self.around.counts.damaged_chunks += 1;
        self.sequence.lost(data_loss_reason::CHUNK_CORRUPTED);
    }

    fn name(&mut self, number: u32) -> Vec<u8> {
        let names = self.around.names;
        if !names.has_text(number) {
            let counts = &mut *self.around.counts;
            let count =
                if LINKED_NAMES.contains(&number) { &mut counts.unlinked } else { &mut counts.unnamed };
            *count += 1;
            if number != 0 && names.name(number).is_none() {
                counts.unknown.insert(number);
            }
        }
        names.name(number).unwrap_or_else(|| b"?".to_vec())
    }

    fn describe(&mut self, uuid: u64, fields: impl FnOnce(&mut Vec<u8>)) {
        if self.sequence.described.insert(uuid) {
            let descriptor = message(|out| {
                varint(out, track_descriptor::UUID, uuid);
                fields(out);
            });
            self.packet(None, |out| bytes(out, trace_packet::TRACK_DESCRIPTOR, &descriptor));
        }
    }

    fn thread(&self) -> u64 {
        self.process.uuid(Kind::Thread, self.sequence.writer)
    }

    fn describe_thread(&mut self, track: u32) {
        let (thread, writer, process) = (self.thread(), self.sequence.writer, self.process);
        if self.sequence.described.contains(&thread) {
            return;
        }
        let (identity, start) = (&process.identity, process.start);
        self.describe(process.id(), |out| {
            let process = message(|out| {
                varint(out, process_descriptor::PID, identity.pid(start));
                bytes(out, process_descriptor::PROCESS_NAME, identity.name().as_bytes());
            });
            bytes(out, track_descriptor::PROCESS, &process);
        });
        let name = self.name(track);
        self.describe(thread, |out| {
            let thread = message(|out| {
                varint(out, thread_descriptor::PID, identity.pid(start));
                varint(out, thread_descriptor::TID, identity.tid(start, writer));
                bytes(out, thread_descriptor::THREAD_NAME, &name);
            });
            bytes(out, track_descriptor::THREAD, &thread);
            varint(out, track_descriptor::PARENT_UUID, process.id());
        });
    }

    /// A track of that name within the process.
    fn named_track(&mut self, number: u32) -> u64 {
        let id = self.process.uuid(Kind::Track, number);
        if !self.sequence.described.contains(&id) {
            let name = self.name(number);
            self.describe_track(id, &name, |_| {});
        }
        id
    }

    /// The track of a counter. The same text may lie at several addresses, in one program as in those before an update.
    fn counter(&mut self, number: u32) -> u64 {
        let (names, process) = (self.around.names, self.process);
        let name = names.name(number).filter(|_| names.has_text(number));
        let id = match &name {
            Some(name) => process.identity.uuid_of(Kind::Counter, process.start, name),
            None => process.uuid(Kind::Counter, number),
        };
        if !self.sequence.described.contains(&id) {
            let name = name.unwrap_or_else(|| self.name(number));
            let unit = message(|out| varint(out, counter_descriptor::UNIT_MULTIPLIER, 1));
            self.describe_track(id, &name, |out| bytes(out, track_descriptor::COUNTER, &unit));
        }
        id
    }

    fn describe_track(&mut self, id: u64, name: &[u8], fields: impl FnOnce(&mut Vec<u8>)) {
        let process = self.process.id();
        self.describe(id, |out| {
            bytes(out, track_descriptor::NAME, name);
            varint(out, track_descriptor::PARENT_UUID, process);
            fields(out);
        });
    }

    fn record(&mut self, time: u64, record: Record<'_>) {
        match record {
            Record::Begin { name } => self.named_event(time, track_event_type::SLICE_BEGIN, name),
            Record::Instant { name } => self.named_event(time, track_event_type::INSTANT, name),
            Record::End => self.event(time, track_event_type::SLICE_END, None, |_| {}),
            Record::Count { counter, value } => {
                let track = self.counter(counter);
                self.event(time, track_event_type::COUNTER, Some(track), |out| {
                    varint(out, track_event::COUNTER_VALUE, value as u64);
                });
            }
            Record::Measure { counter, value } => {
                let track = self.counter(counter);
                self.event(time, track_event_type::COUNTER, Some(track), |out| {
                    let Ok(()) = out.double(track_event::DOUBLE_COUNTER_VALUE, f64::from(value));
                });
            }
            Record::Switch { task } => self.switch(time, task),
            Record::Lost { events } => {
                self.around.counts.dropped_events += u64::from(events);
                self.sequence.lost(data_loss_reason::SMB_FULL);
            }
            // Details have been taken out; what is new is not known here.
            _ => {}
        }
    }

    fn detail(&mut self, detail: Detail<'_>) {
        match detail {
            Detail::Track(track) => self.details.track = Some(track),
            Detail::Flow(flow) => self.details.flow(flow),
            Detail::Arg(name, value) => {
                let name = self.name(name);
                self.details.arg(&name, value);
            }
            Detail::Log(priority, line) => {
                self.sequence.log_lines += 1;
                self.details.log(self.sequence.log_lines, priority, line);
            }
            _ => {}
        }
    }

    fn named_event(&mut self, time: u64, kind: u64, name: u32) {
        let name = self.name(name);
        self.event(time, kind, None, |out| bytes(out, track_event::NAME, &name));
    }

    /// The end of the task that ran, and the beginning of another one.
    fn switch(&mut self, time: u64, task: u32) {
        let before = std::mem::replace(&mut self.sequence.running, task);
        let until = self.sequence.running_until.take().unwrap_or(time);
        if before > 0 {
            let track = self.named_track(before);
            self.event(until, track_event_type::SLICE_END, Some(track), |_| {});
        }
        if task > 0 {
            let track = self.named_track(task);
            self.event(time, track_event_type::SLICE_BEGIN, Some(track), |out| {
                bytes(out, track_event::NAME, b"runs");
            });
        }
    }

    fn event(&mut self, time: u64, kind: u64, track: Option<u64>, fields: impl FnOnce(&mut Vec<u8>)) {
        let Details { track: named, event, interned } = std::mem::take(&mut self.details);
        let track = match (track, named) {
            (Some(track), _) => track,
            (None, Some(named)) => self.named_track(named),
            (None, None) => self.thread(),
        };
        let event = message(|out| {
            varint(out, track_event::TYPE, kind);
            varint(out, track_event::TRACK_UUID, track);
            fields(out);
            out.extend_from_slice(&event);
        });
        self.sequence.last = time;
        let counts = &mut *self.around.counts;
        counts.events += 1;
        let (first, last) = counts.span.unwrap_or((time, time));
        counts.span = Some((first.min(time), last.max(time)));
        let time = (self.around.time)(time);
        self.packet(Some((time, &interned)), |out| bytes(out, trace_packet::TRACK_EVENT, &event));
    }

    /// A packet, of an event with its time and what it interns, or of none.
    fn packet(&mut self, event: Option<(u64, &[u8])>, fields: impl FnOnce(&mut Vec<u8>)) {
        let sequence = &mut *self.sequence;
        let loss = std::mem::take(&mut sequence.loss);
        let interned = event.map_or(&[][..], |(_, interned)| interned);
        // Lines of a log are interned, so there has to be a state, and a new one after a loss.
        let begins = std::mem::take(&mut sequence.begins_state) || loss != 0;
        let flags = if begins { sequence_flags::INCREMENTAL_STATE_CLEARED } else { 0 }
            | if interned.is_empty() { 0 } else { sequence_flags::NEEDS_INCREMENTAL_STATE };
        let packet = message(|out| {
            if let Some((time, _)) = event {
                varint(out, trace_packet::TIMESTAMP, time);
            }
            varint(out, trace_packet::TRUSTED_PACKET_SEQUENCE_ID, u64::from(sequence.id));
            if flags != 0 {
                varint(out, trace_packet::SEQUENCE_FLAGS, flags);
            }
            if loss != 0 {
                varint(out, trace_packet::PREVIOUS_PACKET_DROPPED, u64::from(loss));
            }
            if !interned.is_empty() {
                bytes(out, trace_packet::INTERNED_DATA, interned);
            }
            fields(out);
        });
        sequence.since_state += packet.len();
        let mut file = Vec::with_capacity(packet.len() + 8);
        bytes(&mut file, trace::PACKET, &packet);
        (self.around.out)(&file);
        self.around.counts.packets += 1;
    }
}
