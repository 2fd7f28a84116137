//! What a session is to be: [`SessionBuilder`].

use std::collections::HashSet;
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;

use tracebuf::producer::{Exhaustion, MemoryError};
use tracebuf::service::ProducerIdentity;

use super::Session;
use super::buffer_config::{BufferConfig, SMALLEST};
use super::drain::{Drain, Task};
use super::error::SessionError;
use super::in_process::InProcess;
use super::long_trace::LongTrace;
use super::open_files::OpenFiles;
use super::producer_cell::{self, ENOUGH_TO_STALL, ProducerCell, Words};
use super::session_clock::SessionClock;
use super::shared::Shared;
use super::snapshot::{Spare, prepare};
use super::switch::Switch;
use super::waits::{PATIENCE, made_by};
use super::waker::Waker;
use crate::limits::{BUFFERS_MAX, SHARED_MEMORY};
use crate::region_file::{OwnMemory, WantedMemory};
use crate::system::user_id;
use crate::this_process::named;

/// What a session is to be. Made by [`Session::builder`].
///
/// ```
/// use tracebuf_std::session::Session;
///
/// let session = Session::builder().ring(64 << 20).shared_memory(4 << 20).start()?;
/// # Ok::<(), tracebuf_std::session::SessionError>(())
/// ```
#[derive(Clone, Debug)]
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
}

impl SessionBuilder {
    pub(super) fn new() -> Self {
        Self {
            buffers: Vec::new(),
            sources: Vec::new(),
            shared_memory: None,
            is_in_file: false,
            exhaustion: Exhaustion::Drop,
            long_trace: None,
            prepare_snapshots: false,
            process_name: None,
            fast_clock: false,
        }
    }

    /// A ring of so many bytes as the next buffer: from 2,060 to less than 4 GiB, which [`start`](Self::start) checks.
    /// Memory is taken as it fills.
    #[must_use]
    pub fn ring(self, bytes: u64) -> Self {
        self.buffer(BufferConfig::ring(bytes))
    }

    /// The next buffer; they are numbered from 0, up to 32 of them, which [`start`](Self::start) checks. Without any
    /// there is a ring of 4 MiB.
    #[must_use]
    pub fn buffer(mut self, buffer: BufferConfig) -> Self {
        self.buffers.push(buffer);
        self
    }

    /// What records under this name goes to the buffer of that number; a name has one. See [`Session::recorder_of`].
    /// [`start`](Self::start) refuses a number that no buffer has, and a name that comes twice.
    #[must_use]
    pub fn data_source(mut self, name: impl Into<String>, buffer: u16) -> Self {
        self.sources.push((name.into(), buffer));
        self
    }

    /// Bytes of shared memory between this process's threads and the drain thread, from 4 KiB to 64 MiB, which
    /// [`start`](Self::start) checks; 1 MiB if nothing is said. Each thread that records holds 2 KiB of it; the rest
    /// bridges the time that the drain thread takes to come. Of an event of more than two such chunks, some 4 KB, the
    /// sizes are sent behind it, and a thread has a list of 16 for them: while another thread is sending, one that
    /// records many such events may give one up however much is free, unless it [waits](Self::exhaustion).
    ///
    /// Where threads are to [wait](Self::exhaustion) and nothing is said it is 2 MiB and a page, which is enough for
    /// all that can record at a time: 1,024, each of them counted for each buffer that it records into.
    #[must_use]
    pub fn shared_memory(mut self, bytes: usize) -> Self {
        self.shared_memory = Some(bytes);
        self
    }

    /// Has the shared memory of this process's own threads lie in the file of the first buffer that is [in a
    /// file](BufferConfig::in_file), so that a kill costs next to nothing that a thread has finished: what had not come
    /// into that buffer yet, [recovery](crate::recover::Survivor) brings in. Only what is for that buffer: what threads
    /// record for others is lost with the process, be these in files or not. So is what programs in other processes
    /// have not sent, whose shared memory is their own, and [a long event](crate::region_file#with-shared-memory-in-it)
    /// if it was finished just before.
    ///
    /// [`start`](Self::start) refuses it where no buffer is in a file. The file is larger by the shared memory and 32
    /// KiB; on 32-bit systems it may have to end within 2 GiB. A process can have 256 such sessions; one that has
    /// stopped counts as long as there is a recorder of it, what it was [stopped](Session::stop) with, or a thread that
    /// recorded into it and not into a later one.
    ///
    /// A child that is made past the handlers of `pthread_atfork`, by `_Fork` or the bare system call, must not record:
    /// it would write into its parent's memory.
    ///
    /// Cost: an event takes as long as with shared memory on the heap, but not always. Whenever the system begins to
    /// write the file's pages back, on Linux after 30 s, the next event in each of them takes a page fault, and may
    /// have to wait until the disk has the page, or the file system has room in its journal. Where no thread that
    /// records may wait for a disk, the file belongs into a file system in memory, such as `/dev/shm`: what lies there
    /// survives the process, if not the machine. A new thread's first event looks at all chunks if another thread, which
    /// has ended, recorded into another buffer by the same number: some milliseconds with 64 MiB.
    ///
    /// Not on Windows.
    #[cfg(unix)]
    #[must_use]
    pub fn shared_memory_in_file(mut self) -> Self {
        self.is_in_file = true;
        self
    }

    /// What a thread does when shared memory is full: drop, unless said otherwise. The drain thread, on which a
    /// [`Transport`](super::Transport) or a panic hook may record, always drops: it would wait for itself.
    ///
    /// With [`Exhaustion::Stall`] nothing is lost, as long as the drain thread runs and there are no more threads than
    /// [`shared_memory`](Self::shared_memory) tells of, those beyond which drop. If shared memory was made smaller than
    /// it is by default then, threads that keep their part of it and record nothing may have it all; so may those
    /// that stay within the details of a long event. A thread that waits gives up when for one second nothing came that
    /// could be freed, and drops, counted, until something does: so nobody waits for a thread that sleeps. That holds for
    /// [`Exhaustion::StallThenDrop`] too, which else would wait for longer.
    #[must_use]
    pub fn exhaustion(mut self, exhaustion: Exhaustion) -> Self {
        self.exhaustion = exhaustion;
        self
    }

    /// Has everything moved into a file, every period. It is not in the buffers any more then: there can be no
    /// [`FlightRecorder`](super::FlightRecorder), and a [snapshot](Session::snapshot) holds what was recorded since.
    /// A buffer that [discards](BufferConfig::discard) takes no more for that once it has been full: all that comes
    /// later is missing in the file, and counted.
    ///
    /// Who wants snapshots of a ring beside it has two sessions and records into both, at twice the cost:
    ///
    /// ```
    /// use tracebuf_std::session::{LongTrace, Session};
    ///
    /// # let path = std::env::temp_dir().join(format!("doc-both-{}.pftrace", std::process::id()));
    /// let ring = Session::builder().ring(16 << 20).start()?;
    /// let long = Session::builder().long_trace(LongTrace::to(&path)).start()?;
    /// let both = [ring.recorder(), long.recorder()];
    /// {
    ///     let _request = both.each_ref().map(|recorder| recorder.enter("request"));
    /// }
    /// # let mut trace = Vec::new();
    /// # assert!(ring.snapshot()?.write(&mut trace)?.packets >= 3);
    /// # assert!(long.stop()?.file.unwrap().packets >= 3);
    /// # std::fs::remove_file(path)?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn long_trace(mut self, trace: LongTrace) -> Self {
        self.long_trace = Some(trace);
        self
    }

    /// Has memory for a snapshot ready, touched: as much as the buffers have.
    #[must_use]
    pub fn prepare_snapshots(mut self) -> Self {
        self.prepare_snapshots = true;
        self
    }

    /// Reads the processor's counter for the time of an event, some 10 ns instead of 20 to 30, where that is a
    /// clock: on x86-64 Linux that uses it as its own. Elsewhere nothing changes, nor in the children of a process
    /// that has done so. Times are within some microseconds of the system's clock; starting takes 5 ms the first
    /// time.
    #[must_use]
    pub fn fast_clock(mut self) -> Self {
        self.fast_clock = true;
        self
    }

    /// The name of this process's track; else that of its program.
    #[must_use]
    pub fn process_name(mut self, name: impl Into<String>) -> Self {
        self.process_name = Some(name.into());
        self
    }

    /// Starts the session, with its drain thread.
    ///
    /// # Errors
    /// A size or a number that cannot be, a data source named twice, no memory, no thread, or one that does not begin
    /// in 10 s, or no file for a buffer or the long trace. What was in the files is there still then.
    pub fn start(mut self) -> Result<Session, SessionError> {
        if self.buffers.is_empty() {
            self.buffers.push(BufferConfig::ring(4 << 20));
        }
        self.check()?;
        let spare = self.spare()?;
        let (switch, waker) = (Arc::new(Switch::new()), Waker::default());
        let clock = SessionClock::new(self.fast_clock);
        // With shared memory in a file, what the producer is made over is there only when the file is; else files come
        // last. In either case what they held is there until the session starts.
        let bytes = self.bytes_of_shared_memory();
        let wanted = WantedMemory { bytes: bytes as u64, buffer: 0, identity: identity() };
        let early = if self.is_in_file { Some(self.open_files(Some(wanted))?) } else { None };
        let memory = match early.as_ref().and_then(OpenFiles::own_memory) {
            Some(memory) => Memory::InFile(memory),
            // Before the thread is waited for: of the largest, a program that is not optimized has 16 million words to
            // make.
            None => Memory::OnHeap(producer_cell::words(bytes)),
        };
        let started = self.start_drain(memory, &switch, &waker)?;
        let producer = started.producer.map_err(|_| SessionError::SharedMemory { bytes })?;

        let state_every: Vec<_> = self.buffers.iter().map(BufferConfig::state_every).collect();
        let files = match early {
            Some(files) => files,
            None => self.open_files(None)?,
        };
        let (central, long_trace) = files.begin(&switch)?;
        let central = central.state_every(&state_every);
        #[cfg(any(target_os = "linux", target_os = "android"))]
        let process_tree = central.process_tree.clone();
        let progress = long_trace.as_ref().map(|recording| recording.progress.clone());
        let _ = started.owner.send(Drain::new(central, long_trace, clock));

        let shared =
            Shared { switch, producer, exhaustion: self.exhaustion, clock, state_every, announce: None };
        Ok(Session {
            shared: Arc::new(shared),
            sources: self.sources,
            tasks: started.tasks,
            waker,
            thread: Mutex::new(Some(started.thread)),
            progress,
            spare,
            #[cfg(any(target_os = "linux", target_os = "android"))]
            process_tree,
        })
    }

    /// Memory for a snapshot of each buffer, where it is to be there beforehand.
    fn spare(&self) -> Result<Spare, SessionError> {
        let spare = Spare::default();
        if self.prepare_snapshots {
            let sizes = self.buffers.iter().filter_map(BufferConfig::region_size);
            prepare(&spare, sizes).map_err(|error| SessionError::io("memory for snapshots", error))?;
        }
        Ok(spare)
    }

    fn bytes_of_shared_memory(&self) -> usize {
        self.shared_memory.unwrap_or(match self.exhaustion {
            Exhaustion::Drop => 1 << 20,
            _ => ENOUGH_TO_STALL,
        })
    }

    fn open_files(&self, own: Option<WantedMemory>) -> Result<OpenFiles<'_>, SessionError> {
        OpenFiles::new(&self.buffers, self.long_trace.as_ref(), own)
    }

    /// Starts the drain thread, which makes the producer.
    fn start_drain(
        &self,
        memory: Memory,
        switch: &Arc<Switch>,
        waker: &Waker,
    ) -> Result<Started, SessionError> {
        let (owner, owned) = channel::<Drain>();
        let (tasks, receiver) = channel::<Task>();
        let (made, of_thread) = channel();
        let (in_thread, its_waker) = (switch.clone(), waker.clone());
        let (name, buffers) = (named(self.process_name.as_deref()), self.buffers.len() as u16);
        let thread = std::thread::Builder::new()
            .name("tracebuf-drain".into())
            .spawn(move || {
                // Made here, for it lies on the stack first, of which the thread that starts the session may have
                // little.
                let switch = in_thread.clone();
                let producer = match memory {
                    Memory::OnHeap(words) => ProducerCell::in_memory(words, switch, its_waker, name),
                    Memory::InFile(memory) => ProducerCell::in_file(memory, switch, its_waker, name),
                };
                let producer = producer.map(Arc::new);
                let own = producer.as_ref().ok().cloned();
                let _ = made.send(producer);
                let transport = Box::new(InProcess::new(own?, identity(), buffers));
                let mut drain = owned.recv().ok()?;
                drain.central.attach(transport);
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

/// What a session's threads write into.
enum Memory {
    OnHeap(Words),
    InFile(Arc<OwnMemory>),
}

/// The drain thread, which has begun.
struct Started {
    producer: Result<Arc<ProducerCell>, MemoryError>,
    /// Gives it what it is to own, for which it waits. Without that it ends.
    owner: Sender<Drain>,
    tasks: Sender<Task>,
    thread: JoinHandle<Option<Drain>>,
}

/// Who this process is, to a trace.
fn identity() -> ProducerIdentity {
    ProducerIdentity {
        producer_id: Session::OWN_PRODUCER_ID,
        uid: user_id(),
        pid: i32::try_from(std::process::id()).unwrap_or(-1),
    }
}
