//! The builder of a session.

use std::collections::HashSet;
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;

use tracebuf::producer::{Exhaustion, MemoryError};
use tracebuf::service::ProducerIdentity;

use crate::buffer_config::{BufferConfig, SMALLEST};
use crate::clock::SessionClock;
use crate::drain::{Drain, Task};
use crate::ending::Ending;
use crate::error::SessionError;
use crate::in_process::InProcess;
use crate::interrupts;
use crate::limits::{BUFFERS_MAX, SHARED_MEMORY};
use crate::long_trace::LongTrace;
use crate::open_files::OpenFiles;
use crate::producer_cell::{self, ENOUGH_TO_STALL, ProducerCell, RecorderContext, Words};
use crate::queue::Queue;
use crate::recording_gate::RecordingGate;
use crate::region_file::{OwnMemory, SharedMemorySpec};
use crate::session::Session;
use crate::snapshot::{Spare, prepare};
use crate::thread_fence::thread_fence;
use crate::waits::{PATIENCE, Waker, made_by};
use tracebuf_std::process::named;
use tracebuf_std::system::user_id;

/// Sets up a session. Made by [`Session::builder`].
#[derive(Clone, Debug, Default)]
pub struct SessionBuilder {
    buffers: Vec<BufferConfig>,
    sources: Vec<(String, u16)>,
    shared_memory: Option<usize>,
    is_in_file: bool,
    exhaustion: Exhaustion,
    long_trace: Option<LongTrace>,
    prepare_snapshots: bool,
    process_name: Option<String>,
    fast_clock: bool,
    keeps: Option<usize>,
}

impl Session {
    /// A builder of a session, with one ring unless set otherwise: of 4 MiB, or 16 MiB with a long trace.
    pub fn builder() -> SessionBuilder {
        SessionBuilder::default()
    }
}

impl SessionBuilder {
    /// Adds a ring of this many bytes as the next buffer, from 2,060 to less than 4 GiB. Memory is taken as it fills.
    #[must_use]
    pub fn ring(self, bytes: u64) -> Self {
        self.buffer(BufferConfig::ring(bytes))
    }

    /// Adds the next buffer. Buffers are numbered from 0; there are up to 32.
    #[must_use]
    pub fn buffer(mut self, buffer: BufferConfig) -> Self {
        self.buffers.push(buffer);
        self
    }

    /// Maps a data source to the buffer of that number: [`Session::recorder_of`] that name records there.
    /// [`start`](Self::start) refuses a number that no buffer has, and a name that comes twice.
    #[must_use]
    pub fn data_source(mut self, name: impl Into<String>, buffer: u16) -> Self {
        self.sources.push((name.into(), buffer));
        self
    }

    /// Sets the bytes of shared memory between this process's threads and the drain thread: 4 KiB to 64 MiB; unless set
    /// 1 MiB, or some 2 MiB if threads are to [wait](Self::exhaustion), or with a [long trace](Self::long_trace) up to
    /// 8 MiB, or half of the smallest buffer if that is less. Each thread that records holds 2 KiB of it for each buffer;
    /// the rest bridges the time until the drain thread comes.
    ///
    /// On Linux, threads that are idle give theirs back when others need it, and go on in order when they record again:
    /// for some thousand threads the default is enough. Elsewhere, and in sandboxes that forbid `membarrier`, threads
    /// keep theirs until they end.
    #[must_use]
    pub fn shared_memory(mut self, bytes: usize) -> Self {
        self.shared_memory = Some(bytes);
        self
    }

    /// Puts the shared memory of this process's own threads into the first [buffer's file](BufferConfig::in_file), so
    /// that a kill loses next to nothing that a thread has finished for that buffer. What threads record for other
    /// buffers, and what other processes have not sent, is lost with the process. Not available on Windows.
    ///
    /// [`start`](Self::start) refuses it if no buffer is in a file. The file grows by the shared memory and 1 MiB; on
    /// 32-bit systems it may have to end within 2 GiB. A process can have 256 such sessions, including stopped ones of
    /// which a recorder, a [`Stopped`](crate::Stopped), or a thread's writer is left.
    ///
    /// A child created without the handlers of `pthread_atfork`, by `_Fork` or the bare system call, must not record:
    /// it would write into its parent's memory.
    ///
    /// Cost: when the system writes the file's pages back, the next event in each takes a page fault, and may wait for
    /// the disk, unless that is memory, as `/dev/shm` is. A new thread's first event may take some milliseconds.
    #[must_use]
    pub fn shared_memory_in_file(mut self) -> Self {
        self.is_in_file = true;
        self
    }

    /// Sets what a thread does when shared memory is full: drop, unless set. The drain thread always drops.
    ///
    /// With [`Exhaustion::Stall`] nothing is lost while the drain thread runs. A waiting thread gives up when nothing
    /// that could be freed has come for one second, as when threads within long packets hold all of shared memory, or
    /// idle ones where [they keep it](Self::shared_memory); then it drops for as long. With [`Exhaustion::Drop`] a
    /// thread waits for its first chunk, or for one in place of a chunk that it gave back, up to 0.1 s where that can
    /// help. In a signal handler nobody waits.
    #[must_use]
    pub fn exhaustion(mut self, exhaustion: Exhaustion) -> Self {
        self.exhaustion = exhaustion;
        self
    }

    /// Moves everything into a file, every period. A buffer that [discards](BufferConfig::discard) takes nothing more
    /// once it has been full.
    #[must_use]
    pub fn long_trace(mut self, trace: LongTrace) -> Self {
        self.long_trace = Some(trace);
        self
    }

    /// Keeps descriptions beside each ring, in so many bytes of memory, 4 KiB to 256 MiB: the last description of each
    /// track, thread and process, those of a process tree (`ProcessTree`) among them, and the last value of each
    /// counter. Snapshots and a flight recorder's files have them, however long ago they were overwritten, each with
    /// its own time; so has each file of a long trace that is [cut into several](LongTrace::rotate_at_size).
    ///
    /// Then names and descriptions are no longer repeated with each quarter of a ring, so that it holds more events: the
    /// more threads and tracks, the more. Of a ring [in a file](BufferConfig::in_file) the descriptions lie in that file,
    /// too, with each thread's clock and names, and [recovery](crate::region_file) has them all. Only beside a long trace
    /// such a ring still repeats them, as do [`self_contained_chunks`](BufferConfig::self_contained_chunks). Of a ring
    /// that is found in a dump of the process, most can then not be read.
    ///
    /// A description takes some 160 bytes, a counter's value 96. When there is no more room, half of them go, those
    /// first that no writer uses any more: [`Summary::kept`](crate::Summary::kept) counts them. One that is longer than
    /// a sixteenth of the memory is not kept. In a file, that memory is there twice, and 10 bytes of each are a checksum; a
    /// thread takes some 200 bytes and its names. One whose names take more than a quarter of it repeats them.
    ///
    /// Cost: up to 2 µs of the drain thread for each description that is overwritten, and 50 ns for each counter's
    /// value; of a snapshot, some 50 µs for a thousand that are kept.
    #[must_use]
    pub fn keep_descriptions(mut self, bytes: usize) -> Self {
        self.keeps = Some(bytes);
        self
    }

    /// Has memory for a snapshot ready, its pages touched: as much as the buffers have.
    #[must_use]
    pub fn prepare_snapshots(mut self) -> Self {
        self.prepare_snapshots = true;
        self
    }

    /// Reads the time of an event from the processor's counter, in some 10 ns instead of 20 to 30, within some
    /// microseconds of the system's clock, where x86-64 Linux does so itself. The first start takes 5 ms.
    #[must_use]
    pub fn fast_clock(mut self) -> Self {
        self.fast_clock = true;
        self
    }

    /// The name of this process's track; without it, the name of its program.
    #[must_use]
    pub fn process_name(mut self, name: impl Into<String>) -> Self {
        self.process_name = Some(name.into());
        self
    }

    /// Starts the session, with its drain thread, which takes no signals. The first start in a process that has threads
    /// may take some 10 ms.
    ///
    /// # Errors
    /// A size, number or name that cannot be, no memory, no thread, no file. Files are then as they were.
    pub fn start(mut self) -> Result<Session, SessionError> {
        if self.buffers.is_empty() {
            self.buffers.push(BufferConfig::ring(if self.long_trace.is_some() { 16 << 20 } else { 4 << 20 }));
        }
        self.check()?;
        let keeps = self.keeps;
        self.long_trace.iter_mut().for_each(|trace| trace.keeps = keeps);
        let spare = if self.prepare_snapshots {
            let sizes = self.buffers.iter().filter_map(BufferConfig::region_size);
            prepare(sizes).map_err(|error| SessionError::io("memory for snapshots", error))?
        } else {
            Spare::default()
        };
        let (gate, waker) = (Arc::new(RecordingGate::new()), Waker::default());
        let clock = SessionClock::new(self.fast_clock);
        // With shared memory in a file, the producer is made over the file; otherwise files come last.
        let bytes = self.shared_memory.unwrap_or_else(|| self.enough_shared_memory());
        let wanted = SharedMemorySpec { bytes: bytes as u64, buffer: 0, identity: identity() };
        let open_files = |own| OpenFiles::new(&self.buffers, self.long_trace.as_ref(), keeps, own);
        let early = if self.is_in_file { Some(open_files(Some(wanted))?) } else { None };
        let own = early.as_ref().and_then(OpenFiles::own_memory);
        let words: Words = match &own {
            Some(memory) => Box::new(memory.clone()),
            // Before waiting for the thread: the largest may take long.
            None => producer_cell::words(bytes),
        };
        let started = self.start_drain(words, own, &gate, &waker)?;
        let producer = started.producer.map_err(|_| SessionError::SharedMemory { bytes })?;

        let beside_long_trace = self.long_trace.is_some();
        let state_every = |buffer: &BufferConfig| buffer.state_every(keeps.is_some(), beside_long_trace);
        let state_every: Vec<_> = self.buffers.iter().map(state_every).collect();
        let files = match early {
            Some(files) => files,
            None => open_files(None)?,
        };
        let (service, mut long_trace) = files.begin(&gate)?;
        if self.prepare_snapshots {
            long_trace.iter_mut().for_each(|recording| recording.keep_history(&service));
        }
        let service = service.state_every(&state_every);
        let side = service.side.clone();
        let progress = long_trace.as_ref().map(|recording| recording.progress.clone());
        let thread = Arc::new(Mutex::new(Some(started.thread)));
        let ending = match &self.long_trace {
            Some(trace) => Ending::of(&gate, &waker, &thread, &trace.signals)?,
            None => Ending::default(),
        };
        let _ = started.owner.send(Drain::new(service, long_trace, clock));

        let exhaustion = self.exhaustion;
        let context = RecorderContext { gate, producer, exhaustion, clock, state_every, announce: None };
        Ok(Session {
            context: Arc::new(context),
            sources: self.sources,
            tasks: started.tasks,
            waker,
            thread,
            ending,
            progress,
            spare,
            side,
            before_stop: Mutex::default(),
        })
    }

    /// Bytes of shared memory unless set. With a long trace there is room for what busy threads record until the drain
    /// thread comes, but no more than half a ring takes at once.
    fn enough_shared_memory(&self) -> usize {
        let rings = self.buffers.iter().map(|buffer| buffer.bytes).min().unwrap_or_default();
        let for_file = self.long_trace.as_ref().map_or(0, |_| (rings / 2).min(8 << 20) & !0xFFFF) as usize;
        let enough = if self.exhaustion == Exhaustion::Drop { 1 << 20 } else { ENOUGH_TO_STALL };
        enough.max(for_file)
    }

    /// Starts the drain thread, which makes the producer.
    fn start_drain(
        &self,
        words: Words,
        own: Option<OwnMemory>,
        gate: &Arc<RecordingGate>,
        waker: &Waker,
    ) -> Result<Started, SessionError> {
        // As long as there are few threads, it is soon done for the first time.
        let _ = thread_fence();
        let (owner, owned) = channel::<Drain>();
        let (tasks, receiver) = channel::<Task>();
        let (made, of_thread) = channel();
        let (in_thread, its_waker) = (gate.clone(), waker.clone());
        let (name, buffers) = (named(self.process_name.as_deref()), self.buffers.len() as u16);
        let thread = std::thread::Builder::new()
            .name("tracebuf-drain".into())
            .spawn(move || {
                interrupts::keep_away();
                // Made here, because it first lies on the stack, of which the caller may have little.
                let queue = Queue::new(its_waker, in_thread.clone(), own);
                let producer = ProducerCell::new(words, queue, name).map(Arc::new);
                let own = producer.as_ref().ok().cloned();
                let _ = made.send(producer);
                let transport = Box::new(InProcess::new(own?, identity(), buffers));
                let mut drain = owned.recv().ok()?;
                drain.service.attach(transport);
                Some(drain.run(&receiver, in_thread))
            })
            .map_err(|error| SessionError::io("starting the drain thread", error))?;
        waker.set(thread.thread().clone());
        let producer = made_by(&of_thread, 2 * PATIENCE)?;
        Ok(Started { producer, owner, tasks, thread })
    }

    fn check(&self) -> Result<(), SessionError> {
        let count = self.buffers.len();
        if count > BUFFERS_MAX {
            return Err(SessionError::BufferCount { count });
        }
        for (index, buffer) in self.buffers.iter().enumerate() {
            let bytes = buffer.bytes;
            if buffer.region_size().is_none() {
                return Err(SessionError::LargeBuffer { buffer: index, bytes });
            }
            if bytes < SMALLEST {
                return Err(SessionError::SmallBuffer { buffer: index, bytes, needed: SMALLEST });
            }
        }
        if self.is_in_file && self.buffers.iter().all(|buffer| buffer.file.is_none()) {
            return Err(SessionError::NoFile);
        }
        let mut names = HashSet::new();
        for (name, buffer) in &self.sources {
            let data_source = name.clone();
            if usize::from(*buffer) >= count {
                return Err(SessionError::NoSuchBuffer { data_source, buffer: *buffer, last: count - 1 });
            }
            if !names.insert(name) {
                return Err(SessionError::DataSourceTwice { data_source });
            }
        }
        match self.shared_memory {
            Some(bytes) if !SHARED_MEMORY.contains(&bytes) => Err(SessionError::SharedMemory { bytes }),
            _ => Ok(()),
        }
    }
}

struct Started {
    producer: Result<Arc<ProducerCell>, MemoryError>,
    /// Gives the thread what it is to own; it waits for that, and ends without it.
    owner: Sender<Drain>,
    tasks: Sender<Task>,
    thread: JoinHandle<Option<Drain>>,
}

fn identity() -> ProducerIdentity {
    ProducerIdentity {
        producer_id: Session::OWN_PRODUCER_ID,
        uid: user_id(),
        pid: i32::try_from(std::process::id()).unwrap_or(-1),
    }
}
