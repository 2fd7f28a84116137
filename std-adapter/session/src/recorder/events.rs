//! Events on the thread's own track.

use std::fmt;
use std::mem::ManuallyDrop;

use tracebuf::producer::track_event::{Details, LogMessage, Track};

use super::{Recorder, ThreadTracer};
use crate::recording_gate::BufferId;

impl Recorder {
    /// A slice on this thread's track that ends when the guard is dropped. On other tracks: [`Recorder::on`].
    #[inline]
    pub fn enter(&self, name: &'static str) -> SliceGuard<'_> {
        SliceGuard::of(self, |tracer| tracer.track().enter(name).detach())
    }

    /// The same with details: arguments, a category, flows.
    #[inline]
    pub fn enter_with(&self, name: &'static str, details: impl for<'a> Details<'a>) -> SliceGuard<'_> {
        // If the details panic, the tracer's own guard ends what has begun.
        SliceGuard::of(self, |tracer| tracer.track().enter_with(name, details).detach())
    }

    /// A slice on this thread's track for as long as `body` runs, which may end by a panic.
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

    /// Begins a slice on this thread's track; [`Recorder::end`] ends it. Prefer [`enter`](Self::enter): if shared
    /// memory is full and a begin or an end is lost, slices around it end in its place, or stay open.
    #[inline]
    pub fn begin(&self, name: &'static str) {
        // Lost ends of other slices are made up for first, as by a slice with a guard.
        self.with(|tracer| tracer.track().enter(name).detach());
    }

    /// The same with details: arguments, a category, flows.
    #[inline]
    pub fn begin_with(&self, name: &'static str, details: impl for<'a> Details<'a>) {
        self.with(|tracer| {
            // Without a guard the slice goes on if the details panic.
            if tracer.make_up_for_ends() {
                tracer.track().begin_with(name, details);
            }
        });
    }

    /// Ends the slice begun last on this thread's track, in the session where events go now.
    #[inline]
    pub fn end(&self) {
        self.with(|tracer| {
            // As for a begin; whether its own begin was lost cannot be known.
            tracer.make_up_for_ends();
            tracer.track().end();
        });
    }

    /// The same with details that were not known when the slice began.
    #[inline]
    pub fn end_with(&self, details: impl for<'a> Details<'a>) {
        self.with(|tracer| {
            tracer.make_up_for_ends();
            tracer.track().end_with(details);
        });
    }

    /// Something without a duration, on this thread's track.
    #[inline]
    pub fn instant(&self, name: &'static str) {
        self.with(|tracer| tracer.track().instant(name));
    }

    /// The same with details: arguments, a category, flows.
    #[inline]
    pub fn instant_with(&self, name: &'static str, details: impl for<'a> Details<'a>) {
        self.with(|tracer| tracer.track().instant_with(name, details));
    }

    /// A log line: an instant on this thread's track, and a row in ui.perfetto.dev's list of logs.
    /// Cost: that of two instants, and of formatting the text, which takes some 20 bytes beside itself.
    #[inline]
    pub fn log(&self, name: &'static str, message: LogMessage<'static, impl fmt::Display>) {
        self.with(|tracer| tracer.log(name, message));
    }

    /// The same with details: arguments, a category, flows.
    #[inline]
    pub fn log_with(
        &self,
        name: &'static str,
        message: LogMessage<'static, impl fmt::Display>,
        details: impl for<'a> Details<'a>,
    ) {
        self.with(|tracer| tracer.log_with(name, message, details));
    }

    /// A counter's value from now on. Counters with one name are one counter, whichever program counts; for one under
    /// this program's process, see [`this_process`](crate::this_process).
    #[inline]
    pub fn count(&self, counter: &Track<'_>, value: i64) {
        self.with(|tracer| tracer.on(counter).count(value));
    }

    /// A counter's value from now on, as a fraction.
    #[inline]
    pub fn measure(&self, counter: &Track<'_>, value: f64) {
        self.with(|tracer| tracer.on(counter).measure(value));
    }
}

/// Ends the slice begun last on its thread's track when dropped. So drop guards in the reverse order of their making,
/// as nested blocks do.
///
/// It must not be held across an `.await`, where other tasks of the thread begin and end slices: they would end in each
/// other's place. So it is not `Send`, and a future that holds it cannot be spawned on several threads:
///
/// ```compile_fail
/// # let session = tracebuf_session::Session::builder().start().unwrap();
/// fn spawn(task: impl Future<Output = ()> + Send) {}
/// let recorder = session.recorder();
/// spawn(async move {
///     let _slice = recorder.enter("request");
///     std::future::ready(()).await;
/// });
/// ```
///
/// Where futures need not be `Send`, Clippy finds it: name the type in `await-holding-invalid-types` of `clippy.toml`.
/// A slice that is to go on while a task waits belongs on a track of its own, whose guard is `Send`:
///
/// ```
/// # use tracebuf_session::{Session, Track, this_process};
/// # let session = Session::builder().start()?;
/// fn spawn(task: impl Future<Output = ()> + Send) {}
/// let recorder = session.recorder();
/// spawn(async move {
///     let process = this_process();
///     let track = Track::custom("requests").within(&process).numbered(17);
///     let _slice = recorder.on(&track).enter("request");
///     std::future::ready(()).await;
/// });
/// # Ok::<(), tracebuf_session::SessionError>(())
/// ```
///
/// It ends the slice in the session where that began, wherever a [`Relay`](crate::Relay) leads by then, unless that
/// session is over or the begin was not recorded. Slices stay nested even when shared memory is full: one whose begin
/// is lost has no end, and a lost end is made up for before the thread's next slice begins or ends.
#[must_use = "the slice ends when this is dropped; one that goes on across an `.await` needs a track of its own: \
              `recorder.on(&track)`"]
#[clippy::has_significant_drop]
pub struct SliceGuard<'r> {
    recorder: &'r Recorder,
    /// The buffer in which the slice began; none if it is not recorded.
    buffer: BufferId,
    /// The slice lies on this thread's track: not `Send`.
    _thread: std::marker::PhantomData<*const ()>,
}

impl<'r> SliceGuard<'r> {
    #[inline(always)]
    fn of(recorder: &'r Recorder, begin: impl for<'t, 'a> FnOnce(&'t ThreadTracer<'a>) -> bool) -> Self {
        let buffer = recorder.begun(begin);
        Self { recorder, buffer, _thread: std::marker::PhantomData }
    }

    /// Ends the slice with details that were not known when it began.
    pub fn end_with(self, details: impl for<'a> Details<'a>) {
        // The slice ends even if the details panic.
        let mut guard = ManuallyDrop::new(self);
        let recorder = guard.recorder;
        recorder.with_at(&mut guard.buffer, |tracer| tracer.track().attach().end_with(details));
    }
}

debug_fields!(SliceGuard<'_>, recorder);

impl Drop for SliceGuard<'_> {
    #[inline(always)]
    fn drop(&mut self) {
        self.recorder.with_at(&mut self.buffer, |tracer| tracer.track().attach().end());
    }
}
