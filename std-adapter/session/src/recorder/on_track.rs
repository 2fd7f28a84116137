//! Events on a track that is not a thread's.

use std::mem::ManuallyDrop;

use tracebuf::producer::track_event::{Details, Track};

use super::Recorder;
use crate::recording_gate::BufferId;

/// Records on a track of your own, from any thread: [`Recorder::on`] makes it.
///
/// ```
/// use tracebuf_session::{Session, Track, this_process};
///
/// let session = Session::builder().start()?;
/// let recorder = session.recorder();
/// let process = this_process(); // other programs may record requests, too
/// let track = Track::custom("requests").within(&process).numbered(17);
/// let request = recorder.on(&track).enter_with("request", |event| event.arg("bytes", 900));
/// std::thread::scope(|scope| {
///     scope.spawn(|| {
///         recorder.on(&track).instant("parsed");
///         drop(request); // ends here
///     });
/// });
/// # session.stop()?;
/// # Ok::<(), tracebuf_session::SessionError>(())
/// ```
///
/// Any thread may end what another one began, and a guard may be held across an `.await`. An end belongs to the slice
/// begun last on its track: slices that overlap, as requests may, need a track each, such as tracks of one name with
/// different [numbers](Track::numbered), which ui.perfetto.dev shows together. If other programs record into the same
/// trace, put the track within [this process](crate::this_process): otherwise programs end each other's slices on
/// tracks of the same name. A track need not live longer than it is used.
///
/// Each event costs what one on the thread's own track does, plus eight bytes for the track's number.
#[derive(Clone, Copy, Debug)]
pub struct TrackRecorder<'r> {
    pub(super) recorder: &'r Recorder,
    pub(super) track: &'r Track<'r>,
}

impl Recorder {
    /// Records on that track instead of the thread's.
    #[inline]
    pub fn on<'r>(&'r self, track: &'r Track<'r>) -> TrackRecorder<'r> {
        TrackRecorder { recorder: self, track }
    }
}

impl<'r> TrackRecorder<'r> {
    /// A slice that ends when the guard is dropped, by whichever thread.
    #[inline]
    pub fn enter(&self, name: &'static str) -> TrackSliceGuard<'r> {
        let buffer = self.recorder.begun(|tracer| tracer.on(self.track).enter(name).detach());
        TrackSliceGuard { on: *self, buffer }
    }

    /// The same with details: arguments, a category, flows.
    #[inline]
    pub fn enter_with(&self, name: &'static str, details: impl for<'a> Details<'a>) -> TrackSliceGuard<'r> {
        let buffer = self.recorder.begun(|tracer| tracer.on(self.track).enter_with(name, details).detach());
        TrackSliceGuard { on: *self, buffer }
    }

    /// A slice for as long as `body` runs, which may end by a panic.
    #[inline]
    pub fn slice<R>(&self, name: &'static str, body: impl FnOnce() -> R) -> R {
        let _slice = self.enter(name);
        body()
    }

    /// The same with details: arguments, a category, flows.
    #[inline]
    pub fn slice_with<R>(
        &self,
        name: &'static str,
        details: impl for<'a> Details<'a>,
        body: impl FnOnce() -> R,
    ) -> R {
        let _slice = self.enter_with(name, details);
        body()
    }

    /// Begins a slice; [`end`](Self::end) ends it. Prefer [`enter`](Self::enter): if shared memory is full and a begin
    /// or an end is lost, slices around it end in its place, or stay open.
    #[inline]
    pub fn begin(&self, name: &'static str) {
        self.recorder.with(|tracer| tracer.on(self.track).begin(name));
    }

    /// The same with details: arguments, a category, flows.
    #[inline]
    pub fn begin_with(&self, name: &'static str, details: impl for<'a> Details<'a>) {
        self.recorder.with(|tracer| tracer.on(self.track).begin_with(name, details));
    }

    /// Ends the slice begun last on this track, in the session where events go now.
    #[inline]
    pub fn end(&self) {
        self.recorder.with(|tracer| tracer.on(self.track).end());
    }

    /// The same with details that were not known when the slice began.
    #[inline]
    pub fn end_with(&self, details: impl for<'a> Details<'a>) {
        self.recorder.with(|tracer| tracer.on(self.track).end_with(details));
    }

    /// Something without a duration.
    #[inline]
    pub fn instant(&self, name: &'static str) {
        self.recorder.with(|tracer| tracer.on(self.track).instant(name));
    }

    /// The same with details: arguments, a category, flows.
    #[inline]
    pub fn instant_with(&self, name: &'static str, details: impl for<'a> Details<'a>) {
        self.recorder.with(|tracer| tracer.on(self.track).instant_with(name, details));
    }
}

/// Ends the slice begun last on its track when dropped, in whichever thread.
///
/// It ends the slice in the session where that began, unless that session is over or the begin was not recorded. If
/// events go to another session by then, only a thread that has recorded in the first one can end it.
#[must_use = "the slice ends when this is dropped"]
#[clippy::has_significant_drop]
pub struct TrackSliceGuard<'r> {
    on: TrackRecorder<'r>,
    buffer: BufferId,
}

impl TrackSliceGuard<'_> {
    /// Ends the slice with details that were not known when it began.
    pub fn end_with(self, details: impl for<'a> Details<'a>) {
        // The slice ends even if the details panic.
        let mut guard = ManuallyDrop::new(self);
        let TrackRecorder { recorder, track } = guard.on;
        recorder.with_at(&mut guard.buffer, |tracer| tracer.on(track).attach().end_with(details));
    }
}

debug_fields!(TrackSliceGuard<'_>, on);

impl Drop for TrackSliceGuard<'_> {
    #[inline]
    fn drop(&mut self) {
        self.on.recorder.with_at(&mut self.buffer, |tracer| tracer.on(self.on.track).end());
    }
}
