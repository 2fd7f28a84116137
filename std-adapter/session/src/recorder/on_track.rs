//! Events on a track that is not a thread's.

use std::fmt;
use std::mem::ManuallyDrop;

use tracebuf::producer::track_event::{Details, Track};

use super::Recorder;
use crate::recording_gate::BufferId;

/// Records on a track of your own, from any thread: [`Recorder::on`] makes it.
///
/// ```
/// use tracebuf_session::{Session, Track};
///
/// static GPU: Track<'static> = Track::custom("gpu");
///
/// let session = Session::builder().start()?;
/// let recorder = session.recorder();
/// let drawing = recorder.on(&GPU).enter_with("draw", |event| event.arg("triangles", 900));
/// std::thread::scope(|scope| {
///     scope.spawn(|| {
///         recorder.on(&GPU).instant("shaders are there");
///         drop(drawing); // ends here
///     });
/// });
/// # session.stop()?;
/// # Ok::<(), tracebuf_session::SessionError>(())
/// ```
///
/// Any thread may end what another one began. An end belongs to the slice begun last on its track: slices that overlap,
/// as requests may, need a track each, such as tracks of one name with different [numbers](Track::numbered), which
/// ui.perfetto.dev shows together. If other programs record into the same trace, put the track within [this
/// process](crate::this_process): otherwise programs end each other's slices on tracks of the same name. A track need
/// not live longer than it is used:
///
/// ```
/// use tracebuf_session::{Recorder, Session, Track, this_process};
///
/// async fn serve(recorder: Recorder, number: u64) {
///     let process = this_process(); // other programs may record requests, too
///     let track = Track::custom("requests").within(&process).numbered(number);
///     let _request = recorder.on(&track).enter("request"); // as long as it takes, on whichever threads
///     wait_for_database().await;
/// }
///
/// # async fn wait_for_database() {}
/// # fn run<F: Future + Send>(_task: F) {}
/// let session = Session::builder().start()?;
/// run(serve(session.recorder(), 17));
///
/// let name = format!("camera {}", 2); // known only now
/// session.recorder().on(&Track::custom(&name)).instant("frame");
/// # Ok::<(), tracebuf_session::SessionError>(())
/// ```
///
/// Each event costs what one on the thread's own track does, plus eight bytes for the track's number.
#[derive(Clone, Copy, Debug)]
pub struct TrackRecorder<'r> {
    recorder: &'r Recorder,
    track: &'r Track<'r>,
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
/// ```
/// # use tracebuf_session::Session;
/// use tracebuf_session::{Track, TrackSliceGuard};
///
/// static QUEUE: Track<'static> = Track::custom("queue");
/// struct Job<'r>(u64, TrackSliceGuard<'r>);
///
/// # let session = Session::builder().start()?;
/// # let recorder = session.recorder();
/// let Job(number, waits) = Job(7, recorder.on(&QUEUE).enter("wait"));
/// std::thread::scope(|scope| {
///     scope.spawn(move || waits.end_with(|event| event.arg("job", number))); // a worker takes the job
/// });
/// println!("lost: {}", session.stop()?.summary().losses());
/// # Ok::<(), tracebuf_session::SessionError>(())
/// ```
///
/// It ends the slice in the session where that began, unless that session is over or the begin was not recorded. If
/// events go to another session by then, only a thread that has recorded in the first one can end it. A lost end leaves
/// the slice open.
#[must_use = "the slice ends when this is dropped"]
pub struct TrackSliceGuard<'r> {
    on: TrackRecorder<'r>,
    /// The buffer in which the slice began; none if it is not recorded.
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

impl fmt::Debug for TrackSliceGuard<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TrackSliceGuard").field("on", &self.on).finish_non_exhaustive()
    }
}

impl Drop for TrackSliceGuard<'_> {
    #[inline]
    fn drop(&mut self) {
        self.on.recorder.with_at(&mut self.buffer, |tracer| tracer.on(self.on.track).end());
    }
}
