//! Events with a time of their own.

use std::time::{Duration, Instant, SystemTime};

use tracebuf::producer::track_event::{Clock, Details, OnTrackAt, Track};

use super::{Recorder, TrackRecorder};
use crate::clock::BootClock;

/// A moment, in the time of a trace: nanoseconds of boot time.
///
/// ```
/// use std::time::{Duration, Instant};
/// use tracebuf_session::EventTime;
///
/// let begun = Instant::now();
/// let (now, then) = (EventTime::now(), EventTime::from(begun));
/// assert!(then <= now && EventTime::nanoseconds(now.as_nanoseconds()) == now);
/// assert!(EventTime::from(begun + Duration::from_secs(1)) > now);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct EventTime(u64);

impl EventTime {
    /// This moment.
    #[must_use]
    pub fn now() -> Self {
        Self(BootClock.now())
    }

    /// Nanoseconds since the machine started, as [`BootClock`] counts them. For a device with a clock of its own, add
    /// how far the two are apart.
    #[must_use]
    pub const fn nanoseconds(boot_time: u64) -> Self {
        Self(boot_time)
    }

    /// The same as a number.
    #[must_use]
    pub const fn as_nanoseconds(self) -> u64 {
        self.0
    }

    /// So long before or after now.
    fn beside_now(before: Duration, after: Duration) -> Self {
        let nanoseconds = |distance: Duration| u64::try_from(distance.as_nanos()).unwrap_or(u64::MAX);
        Self(BootClock.now().saturating_sub(nanoseconds(before)).saturating_add(nanoseconds(after)))
    }
}

/// Exact to what two readings of the clock take, and wrong by what the machine has slept since, as far as `Instant` does
/// not count sleep.
impl From<Instant> for EventTime {
    fn from(instant: Instant) -> Self {
        let now = Instant::now();
        Self::beside_now(now.saturating_duration_since(instant), instant.saturating_duration_since(now))
    }
}

/// Wrong by what the time of day was set since.
impl From<SystemTime> for EventTime {
    fn from(time: SystemTime) -> Self {
        let now = SystemTime::now();
        let since = |later: SystemTime, earlier| later.duration_since(earlier).unwrap_or_default();
        Self::beside_now(since(now, time), since(time, now))
    }
}

/// Records on a track at a time that the program knows: [`TrackRecorder::at`] makes it.
///
/// ```
/// use std::time::Duration;
/// use tracebuf_session::{EventTime, Session, Track, Unit, this_process};
///
/// let session = Session::builder().start()?;
/// let recorder = session.recorder();
/// let process = this_process();
/// let gpu = Track::custom("gpu").within(&process);
/// let memory = Track::counter("gpu memory", Unit::Bytes).within(&process);
/// // What the device has done, when it tells of it.
/// let submitted = EventTime::now();
/// recorder.on(&gpu).at(submitted).slice_with("draw", Duration::from_micros(700), |event| event.arg("triangles", 1200));
/// recorder.on(&memory).at(submitted).count(4 << 20);
/// # Ok::<(), tracebuf_session::SessionError>(())
/// ```
#[derive(Clone, Copy, Debug)]
#[must_use = "it records nothing by itself"]
pub struct TrackRecorderAt<'r> {
    recorder: &'r Recorder,
    track: &'r Track<'r>,
    time: EventTime,
}

impl<'r> TrackRecorder<'r> {
    /// The same track at a time that the program knows: of a device, of a replay, or of what happened earlier.
    ///
    /// Readers bring all events in the order of their times, so events need not come in order, except for slices: on one
    /// track they must be disjoint or in one another. So use a track of its own for them, not one on which slices begin
    /// and end as they happen, whose order such a slice would break.
    ///
    /// An event is as new as its recording, not as its time: a ring overwrites what was recorded first.
    ///
    /// Cost: 10 bytes more than others, and no reading of the clock.
    pub fn at(&self, time: impl Into<EventTime>) -> TrackRecorderAt<'r> {
        TrackRecorderAt { recorder: self.recorder, track: self.track, time: time.into() }
    }
}

impl TrackRecorderAt<'_> {
    /// A slice of that duration.
    pub fn slice(&self, name: &'static str, duration: Duration) {
        self.slice_with(name, duration, |event| event);
    }

    /// The same with details: arguments, a category, flows.
    pub fn slice_with(&self, name: &'static str, duration: Duration, details: impl for<'a> Details<'a>) {
        let nanoseconds = u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX);
        let end = self.time.0.saturating_add(nanoseconds);
        self.recorder.with(|tracer| {
            let track = tracer.on(self.track);
            track.at(self.time.0).begin_with(name, details);
            track.at(end).end();
        });
    }

    /// Begins a slice; [`end`](Self::end), at a later time, ends it.
    pub fn begin(&self, name: &'static str) {
        self.with(|track| track.begin(name));
    }

    /// The same with details: arguments, a category, flows.
    pub fn begin_with(&self, name: &'static str, details: impl for<'a> Details<'a>) {
        self.with(|track| track.begin_with(name, details));
    }

    /// Ends the slice of this track that began last before that time.
    pub fn end(&self) {
        self.with(|track| track.end());
    }

    /// The same with details that were not known when the slice began.
    pub fn end_with(&self, details: impl for<'a> Details<'a>) {
        self.with(|track| track.end_with(details));
    }

    /// Something without a duration.
    pub fn instant(&self, name: &'static str) {
        self.with(|track| track.instant(name));
    }

    /// The same with details: arguments, a category, flows.
    pub fn instant_with(&self, name: &'static str, details: impl for<'a> Details<'a>) {
        self.with(|track| track.instant_with(name, details));
    }

    /// A counter's value from that time on; the track is a counter.
    pub fn count(&self, value: i64) {
        self.with(|track| track.count(value));
    }

    /// A counter's value from that time on, as a fraction; the track is a counter.
    pub fn measure(&self, value: f64) {
        self.with(|track| track.measure(value));
    }

    fn with(&self, f: impl for<'t, 'a> FnOnce(OnTrackAt<'t, 'a, crate::SessionClock, 127, 64>)) {
        self.recorder.with(|tracer| f(tracer.on(self.track).at(self.time.0)));
    }
}
