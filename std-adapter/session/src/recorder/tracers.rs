//! A thread's tracers, one for each buffer that it records into, and the bookkeeping after an event.
//!
//! A slice's end that a thread has lost in one buffer is made up for in another: it has one track in all of them. While
//! one of the thread's tracers in a session owes ends, the others there are put aside: a search by their buffer does not
//! find one, and makes it take over what is owed. So nothing need be asked where nothing is owed.

use std::cell::{Cell, RefCell};
use std::mem::ManuallyDrop;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use self_cell::self_cell;
use tracebuf::producer::track_event::{Tracer, TracerConfig, Track};

use super::{Recorder, ThreadTracer};
use crate::clock::BootClock;
use crate::interrupts;
use crate::producer_cell::{ProducerCell, RecorderContext};
use crate::recording_gate::{BufferId, RecordingGate, is_one_session};
use crate::this_process::thread_track;
use crate::thread_identity::ThreadIdentity;

struct Thread {
    producer: Arc<ProducerCell>,
    identity: ThreadIdentity,
    name: String,
}

self_cell!(
    /// A thread's track, which its tracer describes in each state.
    struct TrackCell {
        owner: Thread,
        #[covariant]
        dependent: Track,
    }
);

self_cell!(
    struct TracerCell {
        owner: TrackCell,
        #[not_covariant]
        dependent: ThreadTracer,
    }
);

pub(super) struct ThreadRecording {
    tracer: TracerCell,
    target: u16,
    /// How many events that came inside another one's writing are already counted as lost.
    told: AtomicUsize,
}

impl ThreadRecording {
    #[inline(always)]
    pub(super) fn with<R>(&self, f: impl for<'t, 'a> FnOnce(&'t ThreadTracer<'a>) -> R) -> R {
        // Done even if the event's details panic.
        let bookkeeping = Bookkeeping(self);
        let (result, left) =
            self.tracer.with_dependent(|_, tracer| (f(tracer), tracer.reentered() | tracer.owed_ends()));
        // Seldom anything.
        if left != 0 {
            drop(bookkeeping);
        } else {
            std::mem::forget(bookkeeping);
        }
        result
    }
}

struct Entry {
    /// The buffer that its events go to; another number while it is put aside.
    buffer: Cell<BufferId>,
    gate: Arc<RecordingGate>,
    recording: Rc<ThreadRecording>,
}

impl Drop for Entry {
    fn drop(&mut self) {
        if !self.gate.is_here() {
            // The chunk that it writes is the parent's, perhaps in shared memory: this process must not complete it.
            std::mem::forget(self.recording.clone());
        } else if self.gate.is_on() {
            // At the thread's end. Slices for whose ends there is no room stay open.
            self.recording.tracer.with_dependent(|_, tracer| tracer.make_up_for_ends());
        }
    }
}

thread_local! {
    /// Without a destructor, which would be registered at the first look, and that may be in a signal handler.
    static TRACERS: ManuallyDrop<RefCell<Vec<Entry>>> = const { ManuallyDrop::new(RefCell::new(Vec::new())) };
    static AT_END: AtEnd = const { AtEnd };
}

/// Ends the thread's writers with the thread.
struct AtEnd;

impl Drop for AtEnd {
    fn drop(&mut self) {
        let _ = TRACERS.try_with(|tracers| {
            if let Ok(mut tracers) = tracers.try_borrow_mut() {
                let gone = std::mem::take(&mut *tracers);
                // Borrowed from here on: events in other destructors are lost, and counted.
                std::mem::forget(tracers);
                drop(gone);
            }
        });
    }
}

impl Recorder {
    /// This thread's tracer for a buffer; none while the thread's locals are being destroyed.
    #[inline]
    pub(super) fn recording(&self, buffer: &mut BufferId) -> Option<Rc<ThreadRecording>> {
        TRACERS.try_with(|tracers| self.find(tracers, buffer)).ok().flatten()
    }

    /// The entry of this thread; the first one if it has only one session, as nearly always.
    #[inline]
    fn find(&self, tracers: &RefCell<Vec<Entry>>, buffer: &mut BufferId) -> Option<Rc<ThreadRecording>> {
        let known = tracers.try_borrow().ok()?;
        let is_there = |entry: &&Entry| entry.buffer.get() == *buffer;
        if let Some(entry) = known.first().filter(is_there).or_else(|| known.iter().find(is_there)) {
            return Some(entry.recording.clone());
        }
        drop(known);
        self.make(tracers, buffer)
    }

    #[cold]
    fn make(&self, tracers: &RefCell<Vec<Entry>>, buffer: &mut BufferId) -> Option<Rc<ThreadRecording>> {
        // There, neither memory nor the thread's name can be had.
        if interrupts::are_handled() {
            return None;
        }
        AT_END.try_with(|_| ()).ok()?;
        // Borrowed from here on: what asks for memory may come here again, if the allocator records.
        let mut tracers = tracers.try_borrow_mut().ok()?;
        let (context, target) = self.destination()?;
        *buffer = context.buffer_id(target);
        if let Some(recording) = take_over(&tracers, *buffer) {
            // It was put aside, or a relay is connected elsewhere by now.
            return Some(recording);
        }
        let RecorderContext { gate, producer, exhaustion, clock, state_every, .. } = &*context;
        let identity = ThreadIdentity::current();
        let owner = Thread { producer: producer.clone(), identity, name: identity.name() };
        let state_every = state_every.get(usize::from(target)).copied().unwrap_or(u32::MAX);
        let owner = TrackCell::new(owner, |thread| {
            let process = thread.producer.process();
            thread_track(thread.identity, &thread.name).within(process)
        });
        let tracer = TracerCell::try_new(owner, |track| {
            let producer = track.borrow_owner().producer.producer();
            let writer = producer.writer(target, *exhaustion).ok_or(())?;
            let config = TracerConfig::new(BootClock::FREQUENCY).state_every(state_every);
            Ok::<_, ()>(Tracer::with_tables(writer, *clock, track.borrow_dependent(), config))
        });
        // If all writers are taken, the next event looks again.
        let tracer = tracer.ok()?;
        context.announce();
        let recording = Rc::new(ThreadRecording { tracer, target, told: AtomicUsize::new(0) });
        let entry = Entry { buffer: Cell::new(*buffer), gate: gate.clone(), recording };
        // Entries of sessions that are over give their memory back.
        let gone: Vec<Entry> = tracers.extract_if(.., |entry| !entry.gate.is_on()).collect();
        tracers.push(entry);
        let recording = take_over(&tracers, *buffer);
        drop(tracers);
        drop(gone);
        recording
    }
}

/// The tracer with which this thread began something in a buffer, if that session is not over.
pub(super) fn begun_in(buffer: BufferId) -> Option<Rc<ThreadRecording>> {
    TRACERS.try_with(|tracers| take_over(&tracers.try_borrow().ok()?, buffer)).ok().flatten()
}

/// Post-event bookkeeping, done when this is dropped. It seldom does anything, and is forgotten if there is nothing.
struct Bookkeeping<'r>(&'r ThreadRecording);

impl Drop for Bookkeeping<'_> {
    #[cold]
    #[inline(never)]
    fn drop(&mut self) {
        let left = |tracer: &ThreadTracer<'_>| (tracer.reentered(), tracer.owed_ends());
        let (reentered, owed) = self.0.tracer.with_dependent(|_, tracer| left(tracer));
        self.0.count_skipped(reentered);
        self.0.owe(owed);
    }
}

impl ThreadRecording {
    /// Counts events inside another one's writing, which only the tracer has counted so far.
    fn count_skipped(&self, reentered: usize) {
        let producer = &self.tracer.borrow_owner().borrow_owner().producer;
        // A signal handler may have come between, and told of more.
        let told = self.told.fetch_max(reentered, Ordering::Relaxed);
        for _ in told..reentered {
            producer.drop_packet(self.target);
        }
    }

    /// Puts the thread's other tracers of this session aside, if this one owes any ends.
    fn owe(&self, ends: usize) {
        if ends == 0 {
            return;
        }
        // Without effect while a tracer is being made, which takes over what is owed, or at the thread's end.
        let _ = TRACERS.try_with(|tracers| {
            let tracers = tracers.try_borrow().ok()?;
            let own = tracers.iter().find(|entry| std::ptr::eq(&*entry.recording, self))?;
            put_others_aside(&tracers, own);
            Some(())
        });
    }
}

/// Set in the buffer's id of a tracer that is put aside; no session has such a number.
const ASIDE: BufferId = 1 << 63;

impl Entry {
    /// The buffer that its events go to, or would.
    fn own_buffer(&self) -> BufferId {
        self.buffer.get() & !ASIDE
    }
}

/// The tracer of a buffer that events go to. From now on it owes what the thread's others of that session owed, except
/// for one that is in use further out, and may be writing such an end just now.
fn take_over(tracers: &[Entry], buffer: BufferId) -> Option<Rc<ThreadRecording>> {
    let entry = tracers.iter().find(|entry| entry.own_buffer() == buffer && entry.gate.is_on())?;
    let is_idle = |entry: &&Entry| Rc::strong_count(&entry.recording) == 1;
    let taken_from =
        |entry: &Entry| entry.recording.tracer.with_dependent(|_, tracer| tracer.replace_owed_ends(0));
    let owed = others(tracers, entry).filter(is_idle).map(taken_from).sum::<usize>();
    if owed > 0 {
        entry.recording.tracer.with_dependent(|_, tracer| {
            tracer.replace_owed_ends(tracer.owed_ends().saturating_add(owed));
        });
        put_others_aside(tracers, entry);
    }
    entry.buffer.set(buffer);
    Some(entry.recording.clone())
}

fn put_others_aside(tracers: &[Entry], of: &Entry) {
    others(tracers, of).for_each(|other| other.buffer.set(other.buffer.get() | ASIDE));
}

fn others<'e>(tracers: &'e [Entry], of: &'e Entry) -> impl Iterator<Item = &'e Entry> {
    let is_other =
        |entry: &&Entry| !std::ptr::eq(*entry, of) && is_one_session(entry.own_buffer(), of.own_buffer());
    tracers.iter().filter(is_other)
}
