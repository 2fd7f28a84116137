//! Long traces: the buffers are read every period and appended to a file.

mod output;
mod status;

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Receiver, Sender, TryRecvError, channel};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use tracebuf::proto::TracePackets;

use super::clock::ClockReading;
use super::drain::Core;
use super::export::Piece;
use super::in_process::Switch;
use super::snapshot::PIECE;
use super::{FOR_EVER, PATIENCE};
use crate::region_file::Outbox;
use output::{Message, Output, empty};

pub(super) use output::open;
pub use status::LongTraceStatus;
pub(crate) use status::Progress;

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
/// the process dies is lost, a period and what the disk is behind, unless the buffer is
/// [in a file](super::BufferConfig::in_file) too: [`region_file`](crate::region_file). Memory is bounded: while the
/// file takes nothing (a full disk, a slow one), packets stay in the ring; what is overwritten there is reported in
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
    /// Into this file, emptied if it is there and the session starts: every 5 s, of any size, synced at the end.
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
        self.period = period.clamp(Duration::from_millis(10), FOR_EVER);
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

/// The drain thread's part: reads, and hands pieces over.
pub(crate) struct Recording {
    sender: Option<Sender<Message>>,
    /// Memory of pieces that were written, for those to come: without any left, too many are on their way.
    spare: Receiver<Vec<u8>>,
    /// For each buffer that lies in a file, the way from there.
    outboxes: Vec<Option<Outbox>>,
    thread: Option<JoinHandle<()>>,
    pub(crate) progress: Arc<Progress>,
    switch: Arc<Switch>,
    period: Duration,
    max_file_size: u64,
    sync: SyncPolicy,
    next: Instant,
    /// Until when producers have time to send what is to be in this period.
    flushing: Option<Instant>,
    /// The buffer that is being read, in the midst of a period's work.
    at: Option<usize>,
    piece: Piece,
    handed_over: u64,
    pub(crate) invalid_packets: u64,
    ended: bool,
}

/// How reading gets on.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Step {
    /// There is something to hand over, or it was.
    Piece,
    /// There is nothing more to read for now.
    Done,
    /// The file is behind.
    Busy,
}

/// How long to wait before looking again at a file that is behind, or for a producer's answer.
const MOMENT: Duration = Duration::from_millis(1);

/// Pieces on their way or being written: with the one being filled, 9 MiB at most. Where producers keep all cores
/// busy the file's thread may have to wait for some milliseconds.
const PIECES: usize = 8;

impl Recording {
    /// Starts the file's thread and, when all else is there, empties the file.
    pub(crate) fn start(
        trace: &LongTrace,
        file: File,
        switch: Arc<Switch>,
        outboxes: Vec<Option<Outbox>>,
    ) -> io::Result<Self> {
        let (written, spare) = channel();
        for _ in 0..PIECES {
            let _ = written.send(Vec::new());
        }
        let mut output = Output::new(file.try_clone()?, written);
        let progress = Arc::new(Progress::default());
        let (sender, receiver) = channel();
        let shared = progress.clone();
        let thread = thread::Builder::new()
            .name("tracebuf-file".into())
            .spawn(move || output.run(&receiver, &shared))?;
        let mut piece = Piece::default();
        piece.clocks(&ClockReading::now())?;
        empty(&file)?;
        Ok(Self {
            sender: Some(sender),
            spare,
            outboxes,
            thread: Some(thread),
            progress,
            switch,
            period: trace.period,
            max_file_size: trace.max_file_size,
            sync: trace.sync,
            next: Instant::now() + trace.period,
            flushing: None,
            at: None,
            piece,
            handed_over: 0,
            invalid_packets: 0,
            ended: false,
        })
    }

    /// Does what is due, and says when to come again. Never more than a piece at once, nor by waiting: shared memory
    /// must not fill up meanwhile, and others ask for things.
    pub(crate) fn work(&mut self, core: &mut Core) -> Duration {
        if self.ended {
            return self.period;
        }
        if self.at.is_none()
            && let Some(wait) = self.begin(core)
        {
            return wait;
        }
        match self.read_on(core, false) {
            Step::Done => {}
            Step::Busy => return MOMENT,
            Step::Piece if !self.hand_over(core, false) => return MOMENT,
            Step::Piece if self.ended => return self.period,
            Step::Piece => return Duration::ZERO,
        }
        if !self.hand_over(core, false) {
            return MOMENT;
        }
        self.at = None;
        if self.sync == SyncPolicy::EveryPeriod {
            let _ = self.sender.as_ref().map(|sender| sender.send(Message::Sync));
        }
        self.next.saturating_duration_since(Instant::now())
    }

    /// Begins a period's work, with a flush; says how long to wait if it is not yet time, or not all has come.
    fn begin(&mut self, core: &mut Core) -> Option<Duration> {
        let now = Instant::now();
        let deadline = match self.flushing {
            Some(deadline) => deadline,
            None if now < self.next => return Some(self.next - now),
            None => {
                // Late by more than a period: that one is left out.
                self.next = (self.next + self.period).max(now);
                core.ask_flush();
                now + self.period.min(PATIENCE)
            }
        };
        self.flushing = Some(deadline);
        if !core.is_flushed() && now < deadline {
            return Some(MOMENT);
        }
        self.flushing = None;
        core.end_flush(deadline);
        let _ = self.piece.clocks(&ClockReading::now());
        self.at = Some(0);
        None
    }

    /// Fills the piece, or a slot.
    fn read_on(&mut self, core: &mut Core, wait: bool) -> Step {
        while let Some(at) = self.at.filter(|at| *at < core.buffers.len()) {
            if self.piece.bytes.len() >= PIECE {
                return Step::Piece;
            }
            if self.outboxes.get(at).is_some_and(Option::is_some) {
                return self.read_into_slot(core, at, wait);
            }
            let Some(buffer) = core.buffers.get_mut(at) else { break };
            let read = self.piece.read(&mut buffer.read(), PIECE);
            self.count(core, read, at);
        }
        Step::Done
    }

    fn count(&mut self, core: &mut Core, read: io::Result<(bool, u64)>, at: usize) {
        let (exhausted, refused) = read.unwrap_or((true, 0));
        core.invalid_packets += refused;
        self.invalid_packets += refused;
        if exhausted {
            self.at = Some(at + 1);
        }
    }

    /// Reads from a buffer in a file, so that at any instant a packet is in the buffer or in the slot.
    fn read_into_slot(&mut self, core: &mut Core, at: usize, wait: bool) -> Step {
        let outbox = self.outboxes.get_mut(at).and_then(Option::as_mut);
        let (Some(buffer), Some(outbox)) = (core.buffers.get_mut(at), outbox) else { return Step::Done };
        let Some(mut slot) = outbox.slot(wait) else {
            if wait {
                // The file takes nothing more: what is in the buffer stays there.
                self.at = Some(at + 1);
                return Step::Piece;
            }
            return Step::Busy;
        };
        outbox.turn();
        let read = self.piece.read(&mut buffer.read(), outbox.limit);
        self.count(core, read, at);
        let (len, room) = (self.piece.bytes.len() as u64, self.room(core));
        let fits = len <= room && slot.fill(&self.piece.bytes);
        if let Some(outbox) = self.outboxes.get_mut(at).and_then(Option::as_mut) {
            outbox.publish(fits.then_some(&slot));
        }
        let Some(sender) = &self.sender else { return Step::Done };
        if fits {
            self.piece.bytes.clear();
            let _ = sender.send(Message::Slot(slot, std::mem::take(&mut self.piece.packets)));
            self.handed_over += len;
            return Step::Piece;
        }
        slot.give_back();
        if len > room {
            self.cut_and_end(core, room);
        }
        // Too large a packet, which goes as those of other buffers do.
        Step::Piece
    }

    /// Bytes that the file may still take.
    fn room(&self, core: &Core) -> u64 {
        self.max_file_size.saturating_sub(self.handed_over).saturating_sub(reserve(core))
    }

    /// Gives the piece to the file's thread; false if that is busy.
    fn hand_over(&mut self, core: &mut Core, wait: bool) -> bool {
        if self.piece.bytes.is_empty() {
            return true;
        }
        let room = self.room(core);
        let len = self.piece.bytes.len() as u64;
        if len > room {
            self.cut_and_end(core, room);
            return true;
        }
        let spare = if wait {
            self.spare.recv().map_err(|_| TryRecvError::Disconnected)
        } else {
            self.spare.try_recv()
        };
        if spare == Err(TryRecvError::Empty) {
            return false;
        }
        let empty = Piece { bytes: spare.unwrap_or_default(), packets: 0 };
        let piece = std::mem::replace(&mut self.piece, empty);
        let sent = self.sender.as_ref().is_some_and(|sender| sender.send(Message::Piece(piece)).is_ok());
        if !sent {
            // The file's thread is gone.
            self.progress.given_up.fetch_add(len, Ordering::Relaxed);
        }
        self.handed_over += len;
        true
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
        let _ = self.piece.stats(&core.totals(), &core.reports(), Some(ClockReading::now().boottime));
        if let Some(sender) = &self.sender {
            let _ = sender.send(Message::Piece(std::mem::take(&mut self.piece)));
        }
    }

    /// Writes all there is, and the statistics, and waits for the file. Packets in it.
    pub(crate) fn finish(&mut self, core: &mut Core) -> u64 {
        self.progress.finishing.store(true, Ordering::Relaxed);
        if !self.ended {
            self.at = Some(0);
            while !self.ended && self.read_on(core, true) == Step::Piece {
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
        self.progress.packets.load(Ordering::Relaxed)
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
