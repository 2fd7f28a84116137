//! Recorders: a thread's way into a buffer of a session.

use std::sync::Arc;

use tracebuf::producer::track_event::Tracer;

use crate::clock::SessionClock;
use crate::packet_writer::PacketWriter;
use crate::producer_cell::RecorderContext;
use crate::recording_gate::{BufferId, NO_BUFFER, RecordingGate};

mod at;
mod events;
mod on_track;
mod relay;
mod tracers;

pub use at::{EventTime, TrackRecorderAt};
pub use events::SliceGuard;
pub use on_track::{TrackRecorder, TrackSliceGuard};
pub use relay::Relay;
use relay::Route;

/// The [`Tracer`] of one thread: up to 127 names, and 64 tracks known at a time. [`Recorder::with`] lends it.
pub type ThreadTracer<'a> = Tracer<'a, SessionClock, 127, 64>;

/// Records events of whichever thread calls it, each on its own track, into one buffer of a session.
///
/// ```
/// use tracebuf_session::Session;
///
/// let session = Session::builder().start()?;
/// let recorder = session.recorder();
/// std::thread::scope(|scope| {
///     let recorder = recorder.clone();
///     scope.spawn(move || {
///         let _request = recorder.enter("request");
///         recorder.instant_with("parsed", |event| event.category("net").arg("bytes", 1500));
///     });
/// });
/// session.stop()?;
/// # Ok::<(), tracebuf_session::SessionError>(())
/// ```
///
/// A thread's first event makes its writer, which holds 2 KiB of [shared memory](crate::SessionBuilder::shared_memory),
/// and a track named after the thread. The thread's end, or its first event in a later session, gives the writer back.
/// A thread that finds no chunk, or all 32,768 writers taken, loses its events until one is free.
///
/// In a signal handler events are recorded, unless the handler has interrupted its own thread's recording, or the thread
/// has not recorded into this buffer before: what a first event needs, memory above all, cannot be had there. Those are
/// lost, and counted. A handler never waits, and asks for no memory unless an event's details do.
///
/// When the session is stopped, and in a child after a fork, events go nowhere, at the cost of three loads. Events from
/// destructors of thread locals older than the thread's first event are lost, and counted. The program's allocator may
/// record, if threads drop when shared memory is full; its events for what a recorder itself allocates are lost, and
/// counted.
///
/// Cost of a slice's begin or end: 11 to 35 ns, and a reading of the clock.
#[derive(Clone)]
pub struct Recorder {
    // Every event looks at this, so it lies here, one step nearer than behind `by`.
    gate: Arc<RecordingGate>,
    /// The buffer within the session. For a relay the gate itself says which buffer it is.
    target: u16,
    by: By,
}

#[derive(Clone)]
enum By {
    Session(Arc<RecorderContext>),
    Relay(Arc<Route>),
}

impl Recorder {
    /// A recorder into the buffer of this number.
    pub fn new(context: Arc<RecorderContext>, target: u16) -> Self {
        Self { gate: context.gate.clone(), target, by: By::Session(context) }
    }

    /// A recorder into the buffer that a data source was mapped to, if it was.
    pub fn of_source(context: &Arc<RecorderContext>, sources: &[(String, u16)], name: &str) -> Option<Self> {
        let (_, buffer) = sources.iter().find(|(source, _)| source == name)?;
        Some(Self::new(context.clone(), *buffer))
    }

    /// Returns true if events are recorded: the session, or a [`Relay`]'s current one, was not stopped.
    #[inline]
    pub fn is_on(&self) -> bool {
        self.gate.is_on()
    }

    /// Returns the buffer that events go to now.
    #[inline(always)]
    pub fn buffer_id(&self) -> BufferId {
        match self.gate.buffer_id() {
            NO_BUFFER => NO_BUFFER,
            buffer => buffer | u64::from(self.target),
        }
    }

    /// The session, and its buffer.
    fn destination(&self) -> Option<(Arc<RecorderContext>, u16)> {
        match &self.by {
            By::Session(context) => Some((context.clone(), self.target)),
            By::Relay(route) => route.destination(),
        }
    }

    /// Returns true in the session's process, and false in its children.
    #[inline]
    pub fn is_here(&self) -> bool {
        self.gate.is_here()
    }

    /// Returns true if events are recorded, or may be later.
    pub fn goes_on(&self) -> bool {
        self.is_on() || matches!(self.by, By::Relay(_)) && self.is_here()
    }

    /// Returns a number that all recorders of one relay, or of one buffer of a session, share, and no others.
    pub fn identity(&self) -> u64 {
        self.gate.own() | u64::from(self.target)
    }

    /// Counts an event that this thread cannot record as lost.
    #[cold]
    pub fn lose(&self) {
        if self.is_on() {
            match &self.by {
                By::Session(context) => context.producer.drop_packet(self.target),
                By::Relay(route) => route.lose_at_once(),
            }
        }
    }

    /// Lends this thread's tracer to `f`, for what recorders have no call for; `None` if nothing is recorded.
    /// Events within another one's details, into the same buffer, are lost, and counted. Names must live as long as the
    /// program; for others use [`Event::name`](tracebuf::producer::track_event::Event::name).
    #[inline]
    pub fn with<R>(&self, f: impl for<'t, 'a> FnOnce(&'t ThreadTracer<'a>) -> R) -> Option<R> {
        self.with_in(&mut self.buffer_id(), f)
    }

    /// Like [`with`](Self::with), for the buffer that events were going to; `buffer` then says where this has gone.
    #[inline]
    pub fn with_in<R>(
        &self,
        buffer: &mut BufferId,
        f: impl for<'t, 'a> FnOnce(&'t ThreadTracer<'a>) -> R,
    ) -> Option<R> {
        if *buffer == NO_BUFFER {
            return None;
        }
        match self.recording(buffer) {
            Some(recording) => Some(recording.with(f)),
            None => {
                self.lose();
                None
            }
        }
    }

    /// Begins a slice, and returns its buffer: none if `begin` was not called, or returned false.
    #[inline(always)]
    pub fn begun(&self, begin: impl for<'t, 'a> FnOnce(&'t ThreadTracer<'a>) -> bool) -> BufferId {
        let mut buffer = self.buffer_id();
        if self.with_in(&mut buffer, begin) != Some(true) {
            buffer = NO_BUFFER;
        }
        buffer
    }

    /// Like [`with_in`](Self::with_in), for the buffer in which this thread began something, wherever events go now.
    #[inline]
    pub fn with_at<R>(
        &self,
        buffer: &mut BufferId,
        f: impl for<'t, 'a> FnOnce(&'t ThreadTracer<'a>) -> R,
    ) -> Option<R> {
        if self.gate.leads_to(*buffer, self.target) {
            self.with_in(buffer, f)
        } else {
            Self::with_begun(*buffer, f)
        }
    }

    #[cold]
    #[inline(never)]
    fn with_begun<R>(buffer: BufferId, f: impl for<'t, 'a> FnOnce(&'t ThreadTracer<'a>) -> R) -> Option<R> {
        Some(tracers::begun_in(buffer)?.with(f))
    }

    /// Returns a writer of whole packets, for programs that make these themselves; `None` if all writers are taken or
    /// the session is over. It stays in that session, wherever a [`Relay`] leads later.
    pub fn packet_writer(&self) -> Option<PacketWriter> {
        let (context, target) = self.destination().filter(|(context, _)| context.gate.is_on())?;
        let writer =
            PacketWriter::new(context.producer.clone(), context.gate.clone(), target, context.exhaustion)?;
        context.announce();
        Some(writer)
    }
}

debug_fields!(Recorder, target);

#[cfg(test)]
mod tests {
    use crate::Session;
    use crate::limits::WRITERS;

    #[test]
    #[ignore = "takes more than five seconds"]
    fn a_thread_that_found_no_free_writer_records_once_there_is_one() {
        let session = Session::builder().ring(1 << 20).start().expect("a session");
        let recorder = session.recorder();
        let writers: Vec<_> = std::iter::from_fn(|| recorder.packet_writer()).collect();
        assert_eq!(writers.len(), WRITERS);
        for _ in 0..3 {
            assert_eq!(recorder.with(|_| ()), None);
        }
        let lost = || session.summary().expect("a summary").buffers[0].trace_writer_packet_loss;
        assert_eq!(lost(), 3);
        drop(writers);
        session.flush(std::time::Duration::from_secs(5)).expect("a flush");
        assert_eq!((recorder.with(|_| ()), lost()), (Some(()), 3));
    }

    #[test]
    fn events_within_the_making_of_another_are_counted_as_lost() {
        let session = Session::builder().ring(1 << 20).ring(1 << 20).data_source("other", 1).start();
        let session = session.expect("a session");
        let (recorder, other) = (session.recorder(), session.recorder_of("other").expect("a source"));
        let lost = || {
            let buffers = session.summary().expect("a summary").buffers;
            [0, 1].map(|buffer| buffers[buffer].trace_writer_packet_loss)
        };
        recorder.with(|tracer| {
            tracer.track().instant_with("outer", |event| {
                recorder.instant("by the recorder");
                recorder.with(|tracer| {
                    tracer.track().begin("twice");
                    tracer.track().end();
                });
                tracer.track().instant("by the tracer");
                // The other buffer has another tracer.
                other.instant("elsewhere");
                event
            });
        });
        assert_eq!(lost(), [4, 0]);
        recorder.instant("afterwards");
        assert_eq!(lost(), [4, 0]);
        let panics = || {
            recorder.instant_with("outer", |_| {
                recorder.instant("inner");
                std::panic::resume_unwind(Box::new("in the midst of it"))
            });
        };
        std::panic::catch_unwind(std::panic::AssertUnwindSafe(panics)).expect_err("a panic");
        assert_eq!(lost(), [5, 0]);
        let stats = recorder.with(|tracer| tracer.stats()).expect("it is on");
        assert_eq!((stats.skipped, stats.writer.dropped), (5, 0));
    }
}
