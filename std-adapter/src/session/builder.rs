//! What a session is to be: [`SessionBuilder`].

use std::collections::HashSet;
use std::io;
use std::path::Path;
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex};

use tracebuf::buffer::TraceBuffer;
use tracebuf::producer::Exhaustion;
use tracebuf::service::ProducerIdentity;

use super::Session;
use super::buffer_config::{BufferConfig, SMALLEST};
use super::central::Central;
use super::clock::ClockReading;
use super::drain::{Drain, Task};
use super::error::SessionError;
use super::in_process::InProcess;
use super::long_trace::{LongTrace, Recording, open};
use super::own_files::OwnFiles;
use super::producer_cell::{self, ENOUGH_TO_STALL, ProducerCell};
use super::session_clock::SessionClock;
use super::shared::Shared;
use super::snapshot::{Spare, prepare};
use super::switch::Switch;
use super::waits::PATIENCE;
use super::waker::Waker;
use crate::export::Piece;
use crate::limits::{BUFFERS_MAX, SHARED_MEMORY};
use crate::memory::PagedMemory;
use crate::region_file::{BufferMemory, Outbox, create};
use crate::system::{id_at, user_id};
use crate::undo::Undo;

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
        let spare = Spare::default();
        if self.prepare_snapshots {
            let sizes = self.buffers.iter().filter_map(BufferConfig::region_size);
            prepare(&spare, sizes).map_err(|error| SessionError::io("memory for snapshots", error))?;
        }
        let (switch, waker) = (Arc::new(Switch::new()), Waker::default());
        let name = self.process_name.take().unwrap_or_else(program_name);
        let shared_memory = self.shared_memory.unwrap_or(match self.exhaustion {
            Exhaustion::Drop => 1 << 20,
            _ => ENOUGH_TO_STALL,
        });
        // Before the thread is waited for: of the largest, a program that is not optimized has 16 million words to make.
        let words = producer_cell::words(shared_memory);
        let clock = SessionClock::new(self.fast_clock);

        // It waits for what it is to own: files come last, for what they hold is gone when the session starts.
        let (owner, owned) = channel::<Drain>();
        let (tasks, receiver) = channel::<Task>();
        let (made, of_thread) = channel();
        let (in_thread, its_waker, buffers) = (switch.clone(), waker.clone(), self.buffers.len() as u16);
        let thread = std::thread::Builder::new()
            .name("tracebuf-drain".into())
            .spawn(move || {
                // Made here, for it lies on the stack first, of which the thread that starts the session may have
                // little.
                let producer = ProducerCell::in_memory(words, in_thread.clone(), its_waker, name);
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
        let no_size = |_| SessionError::SharedMemory { bytes: shared_memory };
        // Not for ever: in a child after a fork, a thread that was not forked may have a lock that this one waits for.
        let producer = of_thread.recv_timeout(2 * PATIENCE).map_err(|_| SessionError::Timeout)?;
        let producer = producer.map_err(no_size)?;

        let state_every: Vec<_> = self.buffers.iter().map(BufferConfig::state_every).collect();
        let (central, long_trace) = self.open_files(&switch)?;
        let central = central.state_every(&state_every);
        let progress = long_trace.as_ref().map(|recording| recording.progress.clone());
        let _ = owner.send(Drain::new(central, long_trace, clock));

        let shared =
            Shared { switch, producer, exhaustion: self.exhaustion, clock, state_every, announce: None };
        Ok(Session {
            shared: Arc::new(shared),
            sources: self.sources,
            tasks,
            waker,
            thread: Mutex::new(Some(thread)),
            progress,
            spare,
        })
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

    /// The buffers and the long trace, or files as they were: an earlier process's last moments may be in them.
    fn open_files(&self, switch: &Arc<Switch>) -> Result<(Central, Option<Recording>), SessionError> {
        let (mut buffers, mut outboxes) = (Vec::new(), Vec::new());
        let (opened, undo) = match &self.long_trace {
            Some(trace) => {
                let (file, undo) =
                    open(&trace.path).map_err(|error| SessionError::writing(&trace.path, error))?;
                (Some((trace, file)), undo)
            }
            None => (None, None),
        };
        let long_trace = opened.as_ref().map(|(_, file)| file.id);
        let mut files = OwnFiles { long_trace, regions: Vec::new() };
        // Behind the files: what is made goes again while they are locked.
        let mut made = Vec::from_iter(undo);
        // In all files the same: by it recovery knows which trace is whose.
        let clocks = ClockReading::now();
        for (index, buffer) in self.buffers.iter().enumerate() {
            let bytes = buffer.bytes;
            let size = buffer.region_size().ok_or(SessionError::LargeBuffer { buffer: index, bytes })?;
            if let Some(path) = &buffer.file {
                // Its lock would say that another session has it.
                files.check_is_none(path).map_err(|error| in_file(path, error))?;
            }
            let (memory, outbox, undo) = memory_of(buffer, size, opened.is_some(), &clocks)?;
            made.extend(undo);
            files.regions.extend(buffer.file.as_deref().and_then(|path| id_at(path).ok()));
            buffers.push(TraceBuffer::new(memory, buffer.config()).map_err(SessionError::Buffer)?);
            outboxes.push(outbox);
        }
        let long_trace = match opened {
            Some((trace, file)) => Some(
                Recording::start(trace, file, switch.clone(), outboxes, &clocks)
                    .map_err(|error| SessionError::writing(&trace.path, error))?,
            ),
            None => None,
        };
        made.into_iter().for_each(Undo::forget);
        Ok((Central::new(buffers, files), long_trace))
    }
}

/// Who this process is, to a trace.
fn identity() -> ProducerIdentity {
    ProducerIdentity {
        producer_id: Session::OWN_PRODUCER_ID,
        uid: user_id(),
        pid: i32::try_from(std::process::id()).unwrap_or(-1),
    }
}

/// Buffers from this size on are in large pages.
const LARGE: usize = 16 << 20;

fn in_file(path: &Path, error: io::Error) -> SessionError {
    SessionError::io(format!("a buffer in {}", path.display()), error)
}

/// So many bytes of memory for a buffer; if it lies in a file, how to take that back, and if a long trace is written
/// beside it, what goes from one to the other.
fn memory_of(
    buffer: &BufferConfig,
    size: usize,
    beside_long_trace: bool,
    reading: &ClockReading,
) -> Result<(BufferMemory, Option<Outbox>, Option<Undo>), SessionError> {
    let Some(path) = &buffer.file else {
        let memory =
            PagedMemory::new(size).map_err(|error| SessionError::io("memory for a buffer", error))?;
        let memory = if size >= LARGE { memory.in_large_pages() } else { memory };
        return Ok((memory.into(), None, None));
    };
    let failed = |error| in_file(path, error);
    let mut clocks = Piece::default();
    clocks.clocks(reading).map_err(failed)?;
    let (memory, outbox, undo) =
        create(path, size as u64, beside_long_trace, &clocks.bytes).map_err(failed)?;
    Ok((memory, outbox, Some(undo)))
}

/// The program's file name, or `process` if it has none.
pub(super) fn program_name() -> String {
    let program = std::env::args_os().next();
    let name = program.as_deref().map(std::path::Path::new).and_then(std::path::Path::file_name);
    name.map_or_else(|| "process".to_owned(), |name| name.to_string_lossy().into_owned())
}
