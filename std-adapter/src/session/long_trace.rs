//! Long traces: the buffers are read every period and appended to a file.

use std::fs::File;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use tracebuf::proto::TracePackets;

use super::clock::ClockReading;
use super::drain::Core;
use super::export::Piece;
use super::in_process::Switch;
use super::snapshot::{PIECE, Readable};

/// When what was written has to be on the disk itself, not only with the system.
///
/// ```
/// use tracebuf_std::session::{LongTrace, SyncPolicy};
///
/// let trace = LongTrace::to("trace.pftrace").sync(SyncPolicy::EveryPeriod);
/// # let _ = trace;
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SyncPolicy {
    /// Never. The death of the process, `kill -9` too, loses nothing that was written; a power cut loses what
    /// the system had not written back, on Linux up to some 30 s.
    Never,
    /// Once, when the session stops.
    #[default]
    AtEnd,
    /// After each period, which waits for the disk, and at the end. A power cut loses at most a period.
    EveryPeriod,
}

/// A trace that is written while it is recorded.
///
/// ```
/// use std::time::Duration;
/// use tracebuf_std::session::{LongTrace, Session};
///
/// let path = std::env::temp_dir().join(format!("doc-long-{}.pftrace", std::process::id()));
/// let trace = LongTrace::to(&path).period(Duration::from_secs(1)).max_file_size(1 << 30);
/// let session = Session::builder().long_trace(trace).start()?;
/// session.recorder().instant("hello");
/// assert!(session.stop()?.file.unwrap().packets >= 3);
/// # std::fs::remove_file(path)?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// What is in the file is a trace up to its last whole packet, at any moment; what was not yet written when
/// the process dies is lost: a period and what the disk is behind. Memory is bounded: while the file takes
/// nothing (a full disk, a slow one), packets stay in the ring; what is overwritten there is reported in
/// the trace as any loss is. Writing is tried again every 100 ms, and the error is in
/// [`LongTraceStatus`] meanwhile.
#[derive(Clone, Debug)]
pub struct LongTrace {
    pub(crate) path: PathBuf,
    period: Duration,
    max_file_size: u64,
    sync: SyncPolicy,
}

impl LongTrace {
    /// Into this file, emptied if it is there: every 5 s, of any size, synced at the end.
    pub fn to(path: impl AsRef<Path>) -> Self {
        Self {
            path: path.as_ref().to_owned(),
            period: Duration::from_secs(5),
            max_file_size: u64::MAX,
            sync: SyncPolicy::default(),
        }
    }

    /// How often to write; not below 10 ms.
    #[must_use]
    pub fn period(mut self, period: Duration) -> Self {
        self.period = period.max(Duration::from_millis(10));
        self
    }

    /// The file's size in bytes, at most. When the next packet does not fit, the trace ends there, with its
    /// statistics, and the session records no more.
    #[must_use]
    pub fn max_file_size(mut self, bytes: u64) -> Self {
        self.max_file_size = bytes;
        self
    }

    /// When to sync the file to the disk.
    #[must_use]
    pub fn sync(mut self, sync: SyncPolicy) -> Self {
        self.sync = sync;
        self
    }
}

/// How a long trace is doing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct LongTraceStatus {
    /// Bytes of whole packets in the file.
    pub bytes: u64,
    /// Why writing does not get on now, or did not at the end.
    pub error: Option<String>,
    /// Bytes that were given up when the session stopped and could not be written.
    pub bytes_given_up: u64,
    /// The file has reached its largest size.
    pub full: bool,
}

/// [`LongTraceStatus`], shared by the drain thread, the file's thread and whoever asks.
#[derive(Default)]
pub(crate) struct Progress {
    bytes: AtomicU64,
    given_up: AtomicU64,
    full: AtomicBool,
    finishing: AtomicBool,
    error: Mutex<Option<String>>,
}

impl Progress {
    pub(crate) fn status(&self) -> LongTraceStatus {
        LongTraceStatus {
            bytes: self.bytes.load(Ordering::Relaxed),
            error: self.error.lock().unwrap_or_else(PoisonError::into_inner).clone(),
            bytes_given_up: self.given_up.load(Ordering::Relaxed),
            full: self.full.load(Ordering::Relaxed),
        }
    }

    fn set_error(&self, error: Option<String>) {
        *self.error.lock().unwrap_or_else(PoisonError::into_inner) = error;
    }
}

enum Message {
    Piece(Vec<u8>),
    Sync,
}

/// The drain thread's part: reads, and hands pieces over.
pub(crate) struct Recording {
    sender: Option<SyncSender<Message>>,
    thread: Option<JoinHandle<()>>,
    pub(crate) progress: Arc<Progress>,
    switch: Arc<Switch>,
    period: Duration,
    max_file_size: u64,
    sync: SyncPolicy,
    next: Instant,
    /// The buffer that is being read, in the midst of a period's work.
    at: Option<usize>,
    piece: Piece,
    handed_over: u64,
    pub(crate) invalid_packets: u64,
    ended: bool,
}

/// How long to wait for a file that is behind.
const BEHIND: Duration = Duration::from_millis(5);
const RETRY: Duration = Duration::from_millis(100);

impl Recording {
    /// Creates the file and its thread.
    pub(crate) fn start(trace: &LongTrace, switch: Arc<Switch>) -> io::Result<Self> {
        let mut file = Output::create(&trace.path)?;
        let progress = Arc::new(Progress::default());
        // Two pieces on their way: with the one being filled and the one being written, 4 MiB at most.
        let (sender, receiver) = sync_channel(2);
        let shared = progress.clone();
        let thread = thread::Builder::new()
            .name("tracebuf-file".into())
            .spawn(move || file.run(&receiver, &shared))?;
        let mut piece = Piece::default();
        piece.clocks(&ClockReading::now())?;
        Ok(Self {
            sender: Some(sender),
            thread: Some(thread),
            progress,
            switch,
            period: trace.period,
            max_file_size: trace.max_file_size,
            sync: trace.sync,
            next: Instant::now() + trace.period,
            at: None,
            piece,
            handed_over: 0,
            invalid_packets: 0,
            ended: false,
        })
    }

    /// Does what is due, and says when to come again.
    pub(crate) fn work(&mut self, core: &mut Core) -> Duration {
        let now = Instant::now();
        if self.ended {
            return self.period;
        }
        if self.at.is_none() {
            if now < self.next {
                return self.next - now;
            }
            // Late by more than a period: that one is left out.
            self.next = (self.next + self.period).max(now);
            core.flush(now + self.period);
            let _ = self.piece.clocks(&ClockReading::now());
            self.at = Some(0);
        }
        while self.read_on(core) {
            if !self.hand_over(core, false) {
                return BEHIND;
            }
            if self.ended {
                return self.period;
            }
            // Reading a large ring takes a while; shared memory must not fill up meanwhile.
            core.drain();
        }
        if !self.hand_over(core, false) {
            return BEHIND;
        }
        self.at = None;
        if self.sync == SyncPolicy::EveryPeriod {
            let _ = self.sender.as_ref().map(|sender| sender.try_send(Message::Sync));
        }
        self.next.saturating_duration_since(Instant::now())
    }

    /// Fills the piece; false when there is nothing more to read for now.
    fn read_on(&mut self, core: &mut Core) -> bool {
        while let Some(buffer) = self.at.and_then(|at| core.buffers.get_mut(at)) {
            if self.piece.bytes.len() >= PIECE {
                return true;
            }
            let read = self.piece.read(&mut buffer.read(), PIECE);
            let (exhausted, refused) = read.unwrap_or((true, 0));
            core.invalid_packets += refused;
            self.invalid_packets += refused;
            if exhausted {
                self.at = self.at.map(|at| at + 1);
            }
        }
        false
    }

    /// Gives the piece to the file's thread; false if that is busy.
    fn hand_over(&mut self, core: &mut Core, wait: bool) -> bool {
        if self.piece.bytes.is_empty() {
            return true;
        }
        let room = self.max_file_size.saturating_sub(self.handed_over).saturating_sub(reserve(core));
        if self.piece.bytes.len() as u64 > room {
            self.cut_and_end(core, room);
            return true;
        }
        let len = self.piece.bytes.len() as u64;
        let bytes = std::mem::take(&mut self.piece.bytes);
        let Some(sender) = &self.sender else { return true };
        let returned = if wait {
            sender.send(Message::Piece(bytes)).err().map(|error| error.0)
        } else {
            match sender.try_send(Message::Piece(bytes)) {
                Ok(()) => None,
                Err(TrySendError::Full(message) | TrySendError::Disconnected(message)) => Some(message),
            }
        };
        match returned {
            Some(Message::Piece(bytes)) => {
                self.piece.bytes = bytes;
                false
            }
            _ => {
                self.handed_over += len;
                true
            }
        }
    }

    /// The file is full: what fits, the statistics, and no more.
    fn cut_and_end(&mut self, core: &mut Core, room: u64) {
        let mut packets = TracePackets::new(&self.piece.bytes);
        let mut end = 0;
        while packets.next().is_some_and(|packet| packet.is_ok()) && packets.offset() as u64 <= room {
            end = packets.offset();
        }
        let beyond = TracePackets::new(self.piece.bytes.get(end..).unwrap_or_default()).count();
        self.piece.packets = self.piece.packets.saturating_sub(beyond as u64);
        self.piece.bytes.truncate(end);
        self.progress.full.store(true, Ordering::Relaxed);
        self.switch.off();
        self.end(core);
    }

    fn end(&mut self, core: &mut Core) {
        self.ended = true;
        let reports: Vec<_> = core.buffers.iter().map(Readable::report).collect();
        let _ = self.piece.stats(&core.totals(), &reports, ClockReading::now().boottime);
        let bytes = std::mem::take(&mut self.piece.bytes);
        if let Some(sender) = &self.sender {
            let _ = sender.send(Message::Piece(bytes));
        }
    }

    /// Writes all there is, and the statistics, and waits for the file. Packets in it.
    pub(crate) fn finish(&mut self, core: &mut Core) -> u64 {
        self.progress.finishing.store(true, Ordering::Relaxed);
        if !self.ended {
            self.at = Some(0);
            while self.read_on(core) && !self.ended {
                self.hand_over(core, true);
            }
            if !self.ended {
                self.hand_over(core, true);
            }
            if !self.ended {
                self.end(core);
            }
        }
        if self.sync != SyncPolicy::Never {
            let _ = self.sender.as_ref().map(|sender| sender.send(Message::Sync));
        }
        self.sender = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
        self.piece.packets
    }
}

impl Drop for Recording {
    fn drop(&mut self) {
        self.sender = None;
    }
}

/// Room for the statistics: some 250 bytes a buffer, up to 300 a writer.
fn reserve(core: &Core) -> u64 {
    let writers: usize = core.buffers.iter().map(|buffer| buffer.sequences().count()).sum();
    1024 + 300 * (core.buffers.len() + writers) as u64
}

/// The file's thread.
struct Output {
    file: File,
    /// Bytes of whole packets.
    good: u64,
}

impl Output {
    fn create(path: &Path) -> io::Result<Self> {
        Ok(Self { file: File::create(path)?, good: 0 })
    }

    fn run(&mut self, messages: &Receiver<Message>, progress: &Progress) {
        for message in messages {
            match message {
                Message::Piece(bytes) => self.write(&bytes, progress),
                Message::Sync => {
                    if let Err(error) = self.sync() {
                        progress.set_error(Some(format!("cannot sync: {error}")));
                    }
                }
            }
        }
    }

    fn write(&mut self, bytes: &[u8], progress: &Progress) {
        loop {
            let last_try = progress.finishing.load(Ordering::Relaxed);
            match self.file.write_all(bytes) {
                Ok(()) => {
                    self.good += bytes.len() as u64;
                    progress.bytes.store(self.good, Ordering::Relaxed);
                    progress.set_error(self.is_removed().then(|| "the file was removed".to_owned()));
                    return;
                }
                Err(error) => {
                    progress.set_error(Some(error.to_string()));
                    self.cut();
                    if last_try {
                        progress.given_up.fetch_add(bytes.len() as u64, Ordering::Relaxed);
                        return;
                    }
                    thread::sleep(RETRY);
                }
            }
        }
    }

    /// Takes back what was written of a piece that did not go in whole.
    fn cut(&mut self) {
        use std::io::Seek;
        // A pipe or a device cannot be cut, and has no half packets on a disk either.
        let _ = self.file.set_len(self.good);
        let _ = self.file.seek(io::SeekFrom::Start(self.good));
    }

    fn sync(&self) -> io::Result<()> {
        match self.file.sync_data() {
            // A pipe or a device: there is nothing to sync.
            Err(error) if error.kind() == io::ErrorKind::InvalidInput => Ok(()),
            other => other,
        }
    }

    /// Whether what is written will be gone when it is closed.
    fn is_removed(&self) -> bool {
        #[cfg(unix)]
        {
            use std::os::unix::fs::MetadataExt;
            self.file.metadata().is_ok_and(|metadata| metadata.is_file() && metadata.nlink() == 0)
        }
        #[cfg(not(unix))]
        false
    }
}
