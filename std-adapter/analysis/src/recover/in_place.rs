//! The trace of a region that firmware recorded [in place](tracebuf::inplace).

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, Write};
use std::path::Path;

use tracebuf::inplace::{ChunkView, Detail, Record, RegionView, Text, Value};
use tracebuf::proto::Sink;
use tracebuf::proto::fields::{
    counter_descriptor, data_loss_reason, debug_annotation, interned_data, interned_string, log_message,
    process_descriptor, sequence_flags, thread_descriptor, trace, trace_packet, track_descriptor,
    track_event, track_event_type,
};
use tracebuf_std::whole_file::write_atomically;

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
    /// Chunks of which a part is nothing that a writer writes.
    pub damaged_chunks: u64,
    /// Events and tracks whose name is not kept, because there was no room for it.
    pub unnamed: u64,
    /// The time of the first and of the last event, in nanoseconds since their start began.
    pub span: Option<(u64, u64)>,
}

/// Which process, thread or other track something is on, as the upper bits of a track's id.
const PROCESS: u64 = 1;
const THREAD: u64 = 2;
const TRACK: u64 = 3;
const COUNTER: u64 = 4;

fn uuid(kind: u64, start: u32, number: u32) -> u64 {
    // Nobody else's ids begin like this.
    0x7B1B_0000_0000_0000 | kind << 40 | u64::from(start) << 32 | u64::from(number)
}

impl InPlace {
    /// Decodes all of a region. Cost: twice the memory of the trace.
    pub fn of(view: &RegionView<'_>) -> Self {
        let mut by_writer = BTreeMap::<(u32, u32), Vec<ChunkView<'_>>>::new();
        for chunk in view.chunks() {
            by_writer.entry((chunk.start(), chunk.writer())).or_default().push(chunk);
        }
        let mut found = Self::default();
        for (sequence, ((start, writer), mut chunks)) in (2..).zip(by_writer) {
            let newest = chunks.iter().max_by_key(|chunk| chunk.time()).map_or(0, ChunkView::number);
            // Numbers wrap; of one writer there are fewer chunks than half of them.
            chunks.sort_by_key(|chunk| chunk.number().wrapping_sub(newest).wrapping_add(0x8000) & 0xFFFF);
            found.starts.insert(start);
            Sequence::new(view, &mut found, sequence, start, writer).chunks(&chunks);
        }
        found
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
        self.damaged_chunks > 0
    }
}

/// A message within another one.
fn message(fields: impl FnOnce(&mut Vec<u8>)) -> Vec<u8> {
    let mut bytes = Vec::new();
    fields(&mut bytes);
    bytes
}

fn varint(out: &mut Vec<u8>, field: u32, value: u64) {
    let Ok(()) = out.varint(field, value);
}

fn bytes(out: &mut Vec<u8>, field: u32, value: &[u8]) {
    let Ok(()) = out.bytes(field, value);
}

fn text_of(text: Text<'_>) -> Vec<u8> {
    String::from_utf8_lossy(&text.bytes().collect::<Vec<_>>()).into_owned().into_bytes()
}

/// The packets of one writer.
struct Sequence<'v, 'f> {
    view: &'v RegionView<'v>,
    found: &'f mut InPlace,
    id: u32,
    start: u32,
    writer: u32,
    /// Causes of a loss that the next packet tells.
    loss: u32,
    is_first: bool,
    log_lines: u64,
    described: BTreeSet<u64>,
    running: u32,
    /// Details of the next event.
    track: Option<u32>,
    details: Vec<u8>,
    interned: Vec<u8>,
}

impl<'v, 'f> Sequence<'v, 'f> {
    fn new(view: &'v RegionView<'v>, found: &'f mut InPlace, id: u32, start: u32, writer: u32) -> Self {
        Self {
            view,
            found,
            id,
            start,
            writer,
            loss: 0,
            is_first: true,
            log_lines: 0,
            described: BTreeSet::new(),
            running: 0,
            track: None,
            details: Vec::new(),
            interned: Vec::new(),
        }
    }

    fn chunks(mut self, chunks: &[ChunkView<'_>]) {
        let Some(first) = chunks.first() else { return };
        let start = self.start;
        self.describe(uuid(PROCESS, start, 0), |out| {
            let process = message(|out| {
                varint(out, process_descriptor::PID, u64::from(start));
                bytes(out, process_descriptor::PROCESS_NAME, b"firmware");
            });
            bytes(out, track_descriptor::PROCESS, &process);
        });
        let (name, tid) = (self.name(first.track()), u64::from(self.writer) + 1);
        self.describe(uuid(THREAD, start, self.writer), |out| {
            let thread = message(|out| {
                varint(out, thread_descriptor::PID, u64::from(start));
                varint(out, thread_descriptor::TID, tid);
                bytes(out, thread_descriptor::THREAD_NAME, &name);
            });
            bytes(out, track_descriptor::THREAD, &thread);
            varint(out, track_descriptor::PARENT_UUID, uuid(PROCESS, start, 0));
        });
        let mut expected = 0;
        for chunk in chunks {
            let missing = chunk.number().wrapping_sub(expected) & 0xFFFF;
            if missing > 0 {
                self.found.missing_chunks += u64::from(missing);
                self.loss |= data_loss_reason::PRESENT | data_loss_reason::OVERWRITE;
            }
            expected = chunk.number().wrapping_add(1);
            self.forget_details();
            for record in chunk.records() {
                match record {
                    Ok((ticks, record)) => self.record(self.nanoseconds(ticks), record),
                    Err(_) => {
                        self.found.damaged_chunks += 1;
                        self.loss |= data_loss_reason::PRESENT | data_loss_reason::CHUNK_CORRUPTED;
                    }
                }
            }
        }
    }

    /// Details without their event are of one that was never finished.
    fn forget_details(&mut self) {
        self.track = None;
        self.details.clear();
        self.interned.clear();
    }

    fn nanoseconds(&self, ticks: u64) -> u64 {
        match self.view.frequency() {
            0 => ticks,
            frequency => {
                (u128::from(ticks) * 1_000_000_000 / u128::from(frequency)).try_into().unwrap_or(u64::MAX)
            }
        }
    }

    fn name(&mut self, number: u32) -> Vec<u8> {
        let name = self.view.name(number);
        if let Some(text) = name.and_then(|name| name.text) {
            return text_of(text);
        }
        self.found.unnamed += 1;
        // Whoever has the program can still look the address up.
        name.map_or_else(|| b"?".to_vec(), |name| format!("{:#010x}", name.key).into_bytes())
    }

    fn describe(&mut self, uuid: u64, fields: impl FnOnce(&mut Vec<u8>)) {
        if self.described.insert(uuid) {
            let descriptor = message(|out| {
                varint(out, track_descriptor::UUID, uuid);
                fields(out);
            });
            self.packet(None, |out| bytes(out, trace_packet::TRACK_DESCRIPTOR, &descriptor));
        }
    }

    /// A track of that name within the process.
    fn named_track(&mut self, kind: u64, number: u32) -> u64 {
        let (id, start) = (uuid(kind, self.start, number), self.start);
        if !self.described.contains(&id) {
            let name = self.name(number);
            self.describe(id, |out| {
                bytes(out, track_descriptor::NAME, &name);
                varint(out, track_descriptor::PARENT_UUID, uuid(PROCESS, start, 0));
                if kind == COUNTER {
                    let unit = message(|out| varint(out, counter_descriptor::UNIT_MULTIPLIER, 1));
                    bytes(out, track_descriptor::COUNTER, &unit);
                }
            });
        }
        id
    }

    fn record(&mut self, time: u64, record: Record<'_>) {
        match record {
            Record::Begin { name } => self.named_event(time, track_event_type::SLICE_BEGIN, name),
            Record::Instant { name } => self.named_event(time, track_event_type::INSTANT, name),
            Record::End => self.event(time, track_event_type::SLICE_END, None, |_| {}),
            Record::Count { counter, value } => {
                let track = self.named_track(COUNTER, counter);
                self.event(time, track_event_type::COUNTER, Some(track), |out| {
                    varint(out, track_event::COUNTER_VALUE, value as u64);
                });
            }
            Record::Measure { counter, value } => {
                let track = self.named_track(COUNTER, counter);
                self.event(time, track_event_type::COUNTER, Some(track), |out| {
                    let Ok(()) = out.double(track_event::DOUBLE_COUNTER_VALUE, f64::from(value));
                });
            }
            Record::Switch { task } => self.switch(time, task),
            Record::Lost { events } => {
                self.found.dropped_events += u64::from(events);
                self.loss |= data_loss_reason::PRESENT | data_loss_reason::SMB_FULL;
            }
            Record::Detail(detail) => self.detail(detail),
            _ => {}
        }
    }

    fn detail(&mut self, detail: Detail<'_>) {
        match detail {
            Detail::Track(track) => self.track = Some(track),
            Detail::Flow(flow) => {
                let Ok(()) = self.details.fixed64(track_event::FLOW_IDS, u64::from(flow));
            }
            Detail::Arg(name, value) => {
                let name = self.name(name);
                let arg = message(|out| {
                    bytes(out, debug_annotation::NAME, &name);
                    match value {
                        Value::I32(value) => {
                            let Ok(()) = out.int(debug_annotation::INT_VALUE, i64::from(value));
                        }
                        Value::F32(value) => {
                            let Ok(()) = out.double(debug_annotation::DOUBLE_VALUE, f64::from(value));
                        }
                        Value::Text(value) => bytes(out, debug_annotation::STRING_VALUE, &text_of(value)),
                        _ => {}
                    }
                });
                bytes(&mut self.details, track_event::DEBUG_ANNOTATIONS, &arg);
            }
            Detail::Log(priority, line) => {
                self.log_lines += 1;
                let body = message(|out| {
                    varint(out, interned_string::IID, self.log_lines);
                    bytes(out, interned_string::NAME, &text_of(line));
                });
                bytes(&mut self.interned, interned_data::LOG_MESSAGE_BODY, &body);
                let log = message(|out| {
                    varint(out, log_message::BODY_IID, self.log_lines);
                    varint(out, log_message::PRIO, u64::from(priority));
                });
                bytes(&mut self.details, track_event::LOG_MESSAGE, &log);
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
        if self.running > 0 {
            let track = self.named_track(TRACK, self.running);
            self.event(time, track_event_type::SLICE_END, Some(track), |_| {});
        }
        if task > 0 {
            let track = self.named_track(TRACK, task);
            self.event(time, track_event_type::SLICE_BEGIN, Some(track), |out| {
                bytes(out, track_event::NAME, b"runs");
            });
        }
        self.running = task;
    }

    fn event(&mut self, time: u64, kind: u64, track: Option<u64>, fields: impl FnOnce(&mut Vec<u8>)) {
        let track = match (track, self.track) {
            (Some(track), _) => track,
            (None, Some(named)) => self.named_track(TRACK, named),
            (None, None) => uuid(THREAD, self.start, self.writer),
        };
        let event = message(|out| {
            varint(out, track_event::TYPE, kind);
            varint(out, track_event::TRACK_UUID, track);
            fields(out);
            out.extend_from_slice(&self.details);
        });
        self.found.events += 1;
        let (first, last) = self.found.span.unwrap_or((time, time));
        self.found.span = Some((first.min(time), last.max(time)));
        self.packet(Some(time), |out| bytes(out, trace_packet::TRACK_EVENT, &event));
        self.forget_details();
    }

    fn packet(&mut self, time: Option<u64>, fields: impl FnOnce(&mut Vec<u8>)) {
        let loss = std::mem::take(&mut self.loss);
        // Lines of a log are interned, so there has to be a state, and a new one after a loss.
        let begins = std::mem::take(&mut self.is_first) || loss != 0;
        let flags = if begins { sequence_flags::INCREMENTAL_STATE_CLEARED } else { 0 }
            | if self.interned.is_empty() { 0 } else { sequence_flags::NEEDS_INCREMENTAL_STATE };
        let packet = message(|out| {
            if let Some(time) = time {
                varint(out, trace_packet::TIMESTAMP, time);
            }
            varint(out, trace_packet::TRUSTED_PACKET_SEQUENCE_ID, u64::from(self.id));
            if flags != 0 {
                varint(out, trace_packet::SEQUENCE_FLAGS, flags);
            }
            if loss != 0 {
                varint(out, trace_packet::PREVIOUS_PACKET_DROPPED, u64::from(loss));
            }
            if time.is_some() && !self.interned.is_empty() {
                bytes(out, trace_packet::INTERNED_DATA, &self.interned);
            }
            fields(out);
        });
        bytes(&mut self.found.trace, trace::PACKET, &packet);
        self.found.packets += 1;
    }
}

#[cfg(test)]
mod tests;
