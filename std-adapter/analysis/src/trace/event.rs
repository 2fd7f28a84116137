//! Views of a trace's parts: events, tracks, counters, arrows, lines of a log.

use std::fmt;
use std::time::Duration;

use super::Trace;
use super::sequence::Source;
use super::slices::{EventData, FlowData, LogData};
use super::tracks::TrackData;
use super::value::Value;

/// A slice or an instant.
///
/// ```
/// use tracebuf_analysis::Trace;
/// # let session = tracebuf_session::Session::builder().start()?;
/// # drop((session.recorder().enter("request"), session.recorder().enter_with("query", |e| e.arg("rows", 3))));
/// # let mut bytes = Vec::new();
/// # session.snapshot()?.write(&mut bytes)?;
/// let trace = Trace::of(&bytes)?;
/// let query = trace.slice("query").expect("it was recorded");
/// assert_eq!(query.parent().map(|parent| parent.name()), Some("request"));
/// assert_eq!(query.argument("rows").and_then(|rows| rows.as_i64()), Some(3));
/// assert!(query.duration().is_some(), "it has ended");
/// assert_eq!(query.ancestors().count(), 1);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy)]
pub struct Event<'t> {
    pub(super) trace: &'t Trace,
    pub(super) index: usize,
    pub(super) data: &'t EventData,
}

impl<'t> Event<'t> {
    /// Its name; empty if it has none.
    #[must_use]
    pub fn name(&self) -> &'t str {
        self.data.name.as_deref().unwrap_or_default()
    }

    /// Its category; several are joined by commas. Empty if it has none.
    #[must_use]
    pub fn category(&self) -> &'t str {
        self.data.category.as_deref().unwrap_or_default()
    }

    /// When it began, in nanoseconds of the trace's clock: trace_processor's `ts`.
    #[must_use]
    pub fn begin(&self) -> u64 {
        self.data.time as u64
    }

    /// How long it took; `None` if it did not end in the trace. That of an instant is zero.
    #[must_use]
    pub fn duration(&self) -> Option<Duration> {
        self.data.duration.map(|duration| Duration::from_nanos(duration.max(0) as u64))
    }

    /// When it ended, in nanoseconds of the trace's clock.
    #[must_use]
    pub fn end(&self) -> Option<u64> {
        self.data.duration.map(|duration| self.data.time.saturating_add(duration) as u64)
    }

    /// Whether it is a moment.
    #[must_use]
    pub fn is_instant(&self) -> bool {
        self.data.is_instant
    }

    /// The track that it happens on.
    #[must_use]
    pub fn track(&self) -> Track<'t> {
        Track::of(self.trace, self.data.track)
    }

    /// The slice of the same track that it lies in.
    #[must_use]
    pub fn parent(&self) -> Option<Event<'t>> {
        self.trace.event(self.data.parent?)
    }

    /// The slices that it lies in, the innermost first.
    pub fn ancestors(&self) -> impl Iterator<Item = Event<'t>> + use<'t> {
        std::iter::successors(self.parent(), Event::parent)
    }

    /// How many slices of its track it lies in.
    #[must_use]
    pub fn depth(&self) -> usize {
        self.data.depth
    }

    /// The slices and instants that lie directly in it, in order. Cost: a look at each later event.
    pub fn children(&self) -> impl Iterator<Item = Event<'t>> + use<'t> {
        let (trace, parent) = (self.trace, self.index);
        trace.events().skip(parent).filter(move |event| event.data.parent == Some(parent))
    }

    /// The argument of this name; the last of several.
    #[must_use]
    pub fn argument(&self, name: &str) -> Option<&'t Value> {
        self.arguments().filter(|(key, _)| *key == name).last().map(|(_, value)| value)
    }

    /// All arguments: those of the begin, and then those of the end.
    pub fn arguments(&self) -> impl Iterator<Item = (&'t str, &'t Value)> + use<'t> {
        self.data.arguments.iter().map(|(name, value)| (&**name, value))
    }

    /// Where in the program's source it was recorded.
    #[must_use]
    pub fn source(&self) -> Option<&'t Source> {
        self.data.source.as_ref()
    }
}

impl fmt::Debug for Event<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut event = f.debug_struct(if self.is_instant() { "Instant" } else { "Slice" });
        event.field("name", &self.name()).field("category", &self.category()).field("begin", &self.begin());
        event.field("duration", &self.duration()).field("track", &self.track().name());
        event.field("arguments", &self.data.arguments).finish()
    }
}

impl PartialEq for Event<'_> {
    fn eq(&self, other: &Self) -> bool {
        std::ptr::eq(self.data, other.data)
    }
}

/// A timeline: a thread's, a process's, a counter's, or one of the program's own.
///
/// ```
/// use tracebuf_analysis::Trace;
/// # let session = tracebuf_session::Session::builder().start()?;
/// # session.recorder().instant("hello");
/// # let mut bytes = Vec::new();
/// # session.snapshot()?.write(&mut bytes)?;
/// let trace = Trace::of(&bytes)?;
/// let track = trace.instants().next().expect("hello").track();
/// assert_eq!(track.pid(), Some(i64::from(std::process::id())));
/// assert!(track.tid().is_some() && !track.is_counter());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy)]
pub struct Track<'t> {
    trace: &'t Trace,
    data: &'t TrackData,
    index: usize,
}

impl<'t> Track<'t> {
    pub(super) fn of(trace: &'t Trace, index: usize) -> Self {
        // Indexes are those of `list`, of which nothing is taken away.
        Self { trace, data: &trace.tracks.list[index], index }
    }

    /// The number that it has in this trace.
    #[must_use]
    pub fn uuid(&self) -> u64 {
        self.data.uuid
    }

    /// The name of the track, of its thread or of its process; empty if it has none.
    #[must_use]
    pub fn name(&self) -> &'t str {
        let own = self.data.name.as_deref();
        let own = own.or_else(|| if self.data.tid.is_some() { self.thread_name() } else { None });
        own.or_else(|| if self.data.pid.is_some() { self.process_name() } else { None }).unwrap_or_default()
    }

    /// The track above it, described or not.
    #[must_use]
    pub fn parent(&self) -> Option<Track<'t>> {
        let (parent, _) = self.trace.tracks.upwards(self.index).nth(1)?;
        Some(Self::of(self.trace, parent))
    }

    /// Names of the tracks above it, the nearest first.
    pub fn parents(&self) -> impl Iterator<Item = &'t str> + use<'t> {
        let trace = self.trace;
        trace.tracks.upwards(self.index).skip(1).map(move |(index, _)| Track::of(trace, index).name())
    }

    /// The nearest description, its own or one above, that says what it is of.
    fn nearest(&self, is: impl Fn(&TrackData) -> bool) -> Option<&'t TrackData> {
        self.trace.tracks.upwards(self.index).map(|(_, track)| track).find(|track| is(track))
    }

    /// The thread that it is of, itself or by a track above it: its number outside of namespaces, if the trace tells.
    #[must_use]
    pub fn tid(&self) -> Option<i64> {
        self.trace.tracks.pid_and_tid(self.nearest(|track| track.tid.is_some())?).1
    }

    /// The name of that thread.
    #[must_use]
    pub fn thread_name(&self) -> Option<&'t str> {
        let thread = self.nearest(|track| track.tid.is_some())?;
        self.trace.tracks.thread_name(thread, self.tid()?).map(|name| &**name)
    }

    /// The process that it is of, itself or by a track above it: its number outside of namespaces, if the trace tells.
    #[must_use]
    pub fn pid(&self) -> Option<i64> {
        self.trace.tracks.pid_and_tid(self.nearest(|track| track.pid.is_some())?).0
    }

    /// The name of that process.
    #[must_use]
    pub fn process_name(&self) -> Option<&'t str> {
        let process = self.nearest(|track| track.pid.is_some())?;
        self.trace.tracks.process_name(process, self.pid()?).map(|name| &**name)
    }

    /// Whether its events are a counter's values.
    #[must_use]
    pub fn is_counter(&self) -> bool {
        self.data.counter.is_some()
    }
}

impl fmt::Debug for Track<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut track = f.debug_struct("Track");
        track.field("name", &self.name()).field("tid", &self.tid()).field("pid", &self.pid());
        track.field("parents", &self.parents().collect::<Vec<_>>()).finish()
    }
}

impl PartialEq for Track<'_> {
    fn eq(&self, other: &Self) -> bool {
        std::ptr::eq(self.data, other.data)
    }
}

/// A counter and its values.
///
/// ```
/// use tracebuf_analysis::Trace;
/// use tracebuf_session::{Session, Track, Unit};
///
/// let session = Session::builder().start()?;
/// session.recorder().count(&Track::counter("queue", Unit::Count), 3);
/// let mut bytes = Vec::new();
/// session.snapshot()?.write(&mut bytes)?;
/// let trace = Trace::of(&bytes)?;
/// let queue = trace.counter("queue").expect("it was counted");
/// assert_eq!((queue.unit(), queue.values().collect::<Vec<_>>()), ("count", vec![3.0]));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Counter<'t> {
    pub(super) track: Track<'t>,
    pub(super) points: &'t [(u64, f64)],
}

impl<'t> Counter<'t> {
    /// Its name.
    #[must_use]
    pub fn name(&self) -> &'t str {
        self.track.name()
    }

    /// What it counts: `ns`, `count`, `bytes`, or a unit of its own; empty if it is of none.
    #[must_use]
    pub fn unit(&self) -> &'t str {
        self.track.data.counter.as_ref().map_or("", |counter| &counter.unit)
    }

    /// Its track.
    #[must_use]
    pub fn track(&self) -> Track<'t> {
        self.track
    }

    /// Its values in order, each with its time in nanoseconds of the trace's clock. Distances are added up.
    #[must_use]
    pub fn points(&self) -> &'t [(u64, f64)] {
        self.points
    }

    /// Its values in order.
    pub fn values(&self) -> impl DoubleEndedIterator<Item = f64> + use<'t> {
        self.points.iter().map(|(_, value)| *value)
    }
}

/// An arrow from one event to another.
#[derive(Clone, Copy, Debug)]
pub struct Flow<'t> {
    pub(super) trace: &'t Trace,
    pub(super) data: FlowData,
}

impl<'t> Flow<'t> {
    /// The number that both events have.
    #[must_use]
    pub fn id(&self) -> u64 {
        self.data.id
    }

    /// The earlier event.
    #[must_use]
    pub fn from(&self) -> Event<'t> {
        self.trace.event_at(self.data.from)
    }

    /// The later event.
    #[must_use]
    pub fn to(&self) -> Event<'t> {
        self.trace.event_at(self.data.to)
    }
}

/// A line of a log.
#[derive(Clone, Copy, Debug)]
pub struct LogLine<'t> {
    pub(super) trace: &'t Trace,
    pub(super) data: &'t LogData,
}

impl<'t> LogLine<'t> {
    /// When it was recorded, in nanoseconds of the trace's clock.
    #[must_use]
    pub fn time(&self) -> u64 {
        self.data.time as u64
    }

    /// Its text.
    #[must_use]
    pub fn text(&self) -> &'t str {
        &self.data.log.text
    }

    /// How much it matters, from 2, verbose, to 7, fatal: Android's priorities, of which 4 is information.
    #[must_use]
    pub fn priority(&self) -> u8 {
        self.data.log.priority
    }

    /// Where in the program's source it comes from.
    #[must_use]
    pub fn source(&self) -> Option<&'t Source> {
        self.data.log.source.as_ref()
    }

    /// The track that it was recorded on.
    #[must_use]
    pub fn track(&self) -> Track<'t> {
        Track::of(self.trace, self.data.track)
    }

    /// The instant that it came with: its name, category and arguments.
    #[must_use]
    pub fn event(&self) -> Option<Event<'t>> {
        self.trace.event(self.data.event?)
    }
}
