//! Traces to look into: slices, instants, counters and lines of a log, as trace_processor would tell them.
//!
//! ```
//! use std::time::Duration;
//! use tracebuf_analysis::Trace;
//! use tracebuf_session::Session;
//!
//! let session = Session::builder().start()?;
//! let recorder = session.recorder();
//! {
//!     let _request = recorder.enter("request");
//!     recorder.instant_with("cache miss", |event| event.arg("key", 42));
//! }
//! let path = std::env::temp_dir().join("looked-into.pftrace");
//! session.snapshot()?.write_to(&path)?;
//!
//! let trace = Trace::open(&path)?;
//! let request = trace.slices().find(|slice| slice.name() == "request").expect("it is in the trace");
//! assert!(request.duration().expect("it has ended") < Duration::from_secs(1));
//! let miss = trace.instants().next().expect("it is there, too");
//! assert_eq!((miss.parent(), miss.argument("key").unwrap().as_i64()), (Some(request), Some(42)));
//! assert!(trace.faults().is_empty() && !trace.losses().has_losses());
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! | module | what it is | what it may know |
//! |---|---|---|
//! | `event` | what the public types tell | all but `reader`, `unpack` |
//! | `slices` | slices and arrows, out of begins and ends in the order of their times | `record`, `tracks` |
//! | `reader` | packets, in the order in which they lie there | `clocks`, `record`, `sequence`, `tracks` |
//! | `record` | an event as its packet tells it | `sequence` |
//! | `sequence` | names and defaults of a sequence | `tracks`, `value` |
//! | `clocks` | times of one clock as times of another | nothing |
//! | `tracks` | tracks, processes and threads | `fault` |
//! | `unpack` | traces unpacked | `fault` |
//! | `fault`, `value` | what is wrong with a trace; values of arguments | nothing |

mod clocks;
mod event;
mod fault;
mod reader;
mod record;
mod sequence;
mod slices;
mod tracks;
mod unpack;
mod value;

use std::fmt;
use std::path::Path;
use std::time::{Duration, SystemTime};

use tracebuf::proto::fields::builtin_clock;
use tracebuf::proto::{TraceFileFault, TracePackets};

use crate::trace_stats::TraceReport;
use clocks::Timeline;
pub use event::{Counter, Event, Flow, LogLine, Track};
pub use fault::{Fault, FaultKind, TraceError};
use reader::Reader;
pub use sequence::Source;
use slices::Slices;
use tracks::Tracks;
pub use value::Value;

/// A trace, read for tests and for programs that look for something in it.
///
/// Names, clocks, tracks and slices follow Perfetto's rules: what trace_processor would show in its tables `slice`,
/// `counter`, `android_logs` and `flow`, and what it would count as an error is a [fault](Self::faults). Ftrace's
/// events, process counters and Chrome's older events are not read.
///
/// Times are nanoseconds of the trace's clock, mostly boot time. [`time_of_day`](Self::time_of_day) and
/// [`monotonic`](Self::monotonic) convert them.
///
/// All of it is kept in memory, about 300 bytes for each event.
///
/// ```no_run
/// let trace = tracebuf_analysis::Trace::open("trace.pftrace")?;
/// for slice in trace.slices().filter(|slice| slice.duration().is_none()) {
///     println!("{} did not end, on {}", slice.name(), slice.track().name());
/// }
/// # Ok::<(), tracebuf_analysis::trace::TraceError>(())
/// ```
pub struct Trace {
    realtime: Timeline,
    monotonic: Timeline,
    tracks: Tracks,
    slices: Slices,
    faults: Vec<Fault>,
    losses: TraceReport,
}

impl Trace {
    /// The most bytes that compressed packets or a gzipped file may unpack to: 4 GiB, 1 GiB on 32 bits.
    pub const UNPACKED_MAX: usize = if cfg!(target_pointer_width = "64") { 4 << 30 } else { 1 << 30 };

    /// Reads a file, plain or gzipped, with compressed packets or without. Of a trace that is cut short, as after a
    /// kill, it reads the whole packets; [`losses`](Self::losses) has the rest.
    ///
    /// # Errors
    /// [`TraceError`]: the file cannot be read, or contains something other than packets.
    pub fn open(path: impl AsRef<Path>) -> Result<Self, TraceError> {
        let path = path.as_ref();
        let file = std::fs::read(path);
        Self::of(&file.map_err(|error| TraceError::File { path: path.to_owned(), error })?)
    }

    /// The same for a file's contents.
    ///
    /// # Errors
    /// As [`open`](Self::open).
    pub fn of(file: &[u8]) -> Result<Self, TraceError> {
        let trace = unpack::unpacked(file, Self::UNPACKED_MAX)?;
        let (mut reader, mut packets, mut at) = (Reader::default(), TracePackets::new(&trace), 0);
        while let Some(packet) = packets.next() {
            match packet {
                Ok(packet) => reader.read(at, packet)?,
                Err(error) if error.fault == TraceFileFault::Truncated => break,
                Err(error) => return Err(TraceError::Damaged { at, fault: error.fault }),
            }
            at = packets.offset() as u64;
        }
        reader.finish();
        let Reader { clocks, mut tracks, events, mut faults, .. } = reader;
        let mut slices = Slices::default();
        for record in events {
            slices.take(record, &mut tracks, &mut faults);
        }
        let timeline = |clock| clocks.timeline(clock);
        let (realtime, monotonic) = (timeline(builtin_clock::REALTIME), timeline(builtin_clock::MONOTONIC));
        Ok(Self { realtime, monotonic, tracks, slices, faults, losses: TraceReport::of(&trace) })
    }

    /// The slices, in the order of their begins.
    pub fn slices(&self) -> impl Iterator<Item = Event<'_>> {
        self.events().filter(|event| !event.is_instant())
    }

    /// The first slice of this name.
    #[must_use]
    pub fn slice(&self, name: &str) -> Option<Event<'_>> {
        self.slices().find(|slice| slice.name() == name)
    }

    /// The instants, in order.
    pub fn instants(&self) -> impl Iterator<Item = Event<'_>> {
        self.events().filter(Event::is_instant)
    }

    /// Slices and instants, in order.
    pub fn events(&self) -> impl Iterator<Item = Event<'_>> {
        self.slices.events.iter().enumerate().map(|(index, data)| Event { trace: self, index, data })
    }

    fn event(&self, index: usize) -> Option<Event<'_>> {
        self.slices.events.get(index).map(|data| Event { trace: self, index, data })
    }

    /// The event that an arrow names: events are only added.
    fn event_at(&self, index: usize) -> Event<'_> {
        Event { trace: self, index, data: &self.slices.events[index] }
    }

    /// The counters that have values, in the order of their tracks.
    pub fn counters(&self) -> impl Iterator<Item = Counter<'_>> {
        self.slices.counters.iter().map(|(track, points)| Counter { track: Track::of(self, *track), points })
    }

    /// The first counter of this name.
    #[must_use]
    pub fn counter(&self, name: &str) -> Option<Counter<'_>> {
        self.counters().find(|counter| counter.name() == name)
    }

    /// The lines of logs, in order.
    pub fn logs(&self) -> impl Iterator<Item = LogLine<'_>> {
        self.slices.logs.iter().map(|data| LogLine { trace: self, data })
    }

    /// The arrows between events.
    pub fn flows(&self) -> impl Iterator<Item = Flow<'_>> {
        self.slices.flows.iter().map(|data| Flow { trace: self, data: *data })
    }

    /// The tracks, in the order of their first descriptions.
    pub fn tracks(&self) -> impl Iterator<Item = Track<'_>> {
        (0..self.tracks.list.len()).map(|index| Track::of(self, index))
    }

    /// What the trace says that was lost, as the command `tracebuf stats` tells it.
    #[must_use]
    pub fn losses(&self) -> &TraceReport {
        &self.losses
    }

    /// What readers leave out or read wrong: none, of a trace that a session wrote.
    #[must_use]
    pub fn faults(&self) -> &[Fault] {
        &self.faults
    }

    /// The time of day at a time of the trace; `None` if no clock snapshot tells it. As trace_processor's `to_realtime`
    /// it does not count back from a snapshot: before the first, it is what that says.
    #[must_use]
    pub fn time_of_day(&self, time: u64) -> Option<SystemTime> {
        let realtime = self.realtime.at(time as i64)?;
        SystemTime::UNIX_EPOCH.checked_add(Duration::from_nanos(u64::try_from(realtime).ok()?))
    }

    /// What the system's monotonic clock showed at a time of the trace; `None` if no clock snapshot tells it. Like
    /// `to_monotonic`, with the same limit.
    #[must_use]
    pub fn monotonic(&self, time: u64) -> Option<u64> {
        self.monotonic.at(time as i64).map(|time| time as u64)
    }
}

impl fmt::Debug for Trace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut trace = f.debug_struct("Trace");
        trace.field("events", &self.slices.events.len()).field("tracks", &self.tracks.list.len());
        trace.field("faults", &self.faults).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
