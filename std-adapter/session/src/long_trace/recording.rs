//! A period's work: pieces that the drain thread reads, and hands over to the file's thread.

use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Receiver, Sender, TryRecvError, channel};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use tracebuf::proto::TracePackets;
use tracebuf::service::Drained;

use super::output::{Message, Output, empty};
use super::turns::Turns;
use super::{LongTrace, Progress, SyncPolicy};
use crate::clock::ClockReading;
use crate::clock_pairs::ClocksWritten;
use crate::export::{BufferReport, PIECE, Piece, Readable, whole_within};
use crate::files::Opened;
use crate::process_tree::Numbers;
use crate::recording_gate::RecordingGate;
use crate::region_file::Outbox;
use crate::service::Service;
use crate::side_packets::SideRevision;
use crate::totals::{Totals, Written};
use crate::waits::{FOR_EVER, PATIENCE, POLL_INTERVAL, Wait};

pub(crate) struct Recording {
    sender: Option<Sender<Message>>,
    /// Memory of pieces that were written, for those to come: if none is left, too many are on their way.
    spare: Receiver<Vec<u8>>,
    /// For each buffer that lies in a file, the way from there to the trace's file.
    outboxes: Vec<Option<Outbox>>,
    thread: Option<JoinHandle<()>>,
    pub(crate) progress: Arc<Progress>,
    gate: Arc<RecordingGate>,
    trace: LongTrace,
    next: Instant,
    /// The flush with which this period begins, and the deadline for producers to send what belongs in it.
    flushing: Option<(u64, Instant)>,
    turns: Option<Turns>,
    piece: Piece,
    /// The newest item beside the buffers that the file tells of.
    side: SideRevision,
    numbers: Numbers,
    /// The newest clocks that the file has.
    clocks_written: ClocksWritten,
    handed_over: u64,
    /// Bytes of the clocks with which the file begins.
    clocks: u64,
    invalid_packets: u64,
    ended: bool,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Step {
    /// A piece was read: what was not left out of it is there to hand over, or already was.
    Piece,
    /// There is nothing more to read for now.
    Done,
    /// The file is behind.
    Busy,
}

/// Pieces on their way or being written. With the one being filled they are some 9 MiB.
const PIECES: usize = 8;

impl Recording {
    pub(crate) fn start(
        trace: &LongTrace,
        opened: Opened,
        gate: Arc<RecordingGate>,
        outboxes: Vec<Option<Outbox>>,
        clocks: &ClockReading,
    ) -> io::Result<Self> {
        let (written, spare) = channel();
        for _ in 0..PIECES {
            let _ = written.send(Vec::new());
        }
        let Opened { file, lock, .. } = opened;
        let mut output = Output::new(file.try_clone()?, written);
        let progress = Arc::new(Progress::default());
        let (sender, receiver) = channel();
        let shared = progress.clone();
        let thread = thread::Builder::new().name("tracebuf-file".into()).spawn(move || {
            output.run(&receiver, &shared);
            drop((output, lock));
        })?;
        let mut piece = Piece::default();
        piece.clock_reading(clocks)?;
        let clocks_written = ClocksWritten::of(clocks);
        let clocks = piece.bytes.len() as u64;
        empty(&file)?;
        Ok(Self {
            sender: Some(sender),
            spare,
            outboxes,
            thread: Some(thread),
            progress,
            gate,
            trace: trace.clone(),
            next: Instant::now() + trace.period,
            flushing: None,
            turns: None,
            piece,
            side: SideRevision::default(),
            numbers: Numbers::default(),
            clocks_written,
            handed_over: 0,
            clocks,
            invalid_packets: 0,
            ended: false,
        })
    }

    /// Does what is due, and says when to come again. Never does more than a piece at once, and never waits.
    pub(crate) fn work(&mut self, service: &mut Service) -> Duration {
        if self.ended {
            return self.trace.period;
        }
        if self.turns.is_none()
            && let Some(wait) = self.begin(service)
        {
            return wait;
        }
        match self.read_on(service, Wait::Now) {
            Step::Done => {}
            Step::Busy => return POLL_INTERVAL,
            Step::Piece if !self.hand_over(service, Wait::Now) => return POLL_INTERVAL,
            Step::Piece if self.ended => return self.trace.period,
            Step::Piece => return Duration::ZERO,
        }
        if !self.hand_over(service, Wait::Now) {
            return POLL_INTERVAL;
        }
        self.turns = None;
        if self.trace.sync == SyncPolicy::EveryPeriod {
            self.send(Message::Sync);
        }
        self.next.saturating_duration_since(Instant::now())
    }

    /// Begins a period's work, with a flush; says how long to wait if it is not yet time, or not everything has come.
    fn begin(&mut self, service: &mut Service) -> Option<Duration> {
        let now = Instant::now();
        let (flush, deadline) = match self.flushing {
            Some(flushing) => flushing,
            None if now < self.next => return Some(self.next - now),
            None => {
                // Late by more than a period: that period is left out.
                self.next = (self.next + self.trace.period).max(now);
                (service.begin_flush(), now + self.trace.period.min(PATIENCE))
            }
        };
        self.flushing = Some((flush, deadline));
        if !service.is_flushed(flush) && now < deadline {
            return Some(POLL_INTERVAL);
        }
        self.flushing = None;
        service.end_flush(flush);
        self.add_clocks(service);
        self.turns = Some(Turns::new(service.buffers.len(), self.trace.period));
        None
    }

    /// Hands something to the file's thread; false if that is gone.
    fn send(&self, message: Message) -> bool {
        self.sender.as_ref().is_some_and(|sender| sender.send(message).is_ok())
    }

    /// Fills the piece, or a slot, as far as there is room beside what is left out.
    fn read_on(&mut self, service: &mut Service, wait: Wait) -> Step {
        let mut refused = 0;
        while let Some(at) = self.turns.as_ref().and_then(Turns::next) {
            // Before each piece: the buffers get more in between.
            self.side = self.piece.side_data(&service.side, self.side).unwrap_or(self.side);
            if self.piece.bytes.len() + refused >= PIECE {
                return Step::Piece;
            }
            if let Some(Some(outbox)) = self.outboxes.get(at) {
                if self.piece.bytes.len() > outbox.limit {
                    // A slot has no room for more: that would be a turn in which nothing is read.
                    return Step::Piece;
                }
                return self.read_into_slot(service, at, wait);
            }
            let Some(buffer) = service.buffers.get_mut(at) else { break };
            let from = self.piece.bytes.len();
            let read = self.piece.read(&mut buffer.read(), PIECE - refused);
            self.renumber(service, from);
            refused += self.count(service, read);
        }
        Step::Done
    }

    /// Puts the service's numbers of processes in containers into the piece from this byte on.
    fn renumber(&mut self, service: &Service, from: usize) {
        self.numbers.refresh(&service.side.process_tree);
        self.numbers.apply(&mut self.piece, from);
    }

    fn count(&mut self, service: &mut Service, read: io::Result<Drained>) -> usize {
        let read = read.unwrap_or(Drained { is_exhausted: true, ..Drained::default() });
        service.invalid_packets += read.left_out;
        self.invalid_packets += read.left_out;
        self.end_turn(read.is_exhausted);
        read.left_out_bytes as usize
    }

    fn end_turn(&mut self, exhausted: bool) {
        if let Some(turns) = &mut self.turns {
            turns.end(exhausted);
        }
    }

    /// Reads from a buffer in a file, so that at any instant a packet is in the valid half or in the slot.
    fn read_into_slot(&mut self, service: &mut Service, at: usize, wait: Wait) -> Step {
        let outbox = self.outboxes.get_mut(at).and_then(Option::as_mut);
        let (Some(buffer), Some(outbox)) = (service.buffers.get_mut(at), outbox) else { return Step::Done };
        let slot = if wait == Wait::Now { outbox.free_slot() } else { outbox.wait_for_slot() };
        let Some(mut slot) = slot else {
            if wait == Wait::UntilDone {
                // The file takes nothing more: what is in the buffer stays there.
                self.end_turn(true);
                return Step::Piece;
            }
            return Step::Busy;
        };
        outbox.begin(buffer.memory());
        let from = self.piece.bytes.len();
        let read = self.piece.read(&mut buffer.read(), outbox.limit);
        self.renumber(service, from);
        self.count(service, read);
        let (len, room) = (self.piece.bytes.len() as u64, self.room(service));
        let is_full = len > room;
        // If the file is full, the slot has the part that has no room there, and stays.
        let beyond = if is_full { self.cut(room) } else { Vec::new() };
        let fits = slot.fill(if is_full { &beyond } else { &self.piece.bytes });
        if let Some(outbox) = self.outboxes.get_mut(at).and_then(Option::as_mut) {
            outbox.publish(fits.then_some(&slot));
        }
        if is_full {
            slot.give_up();
            self.end(service);
            return Step::Piece;
        }
        if fits {
            self.piece.bytes.clear();
            let packets = std::mem::take(&mut self.piece.packets);
            self.send(Message::Slot(slot, packets));
            self.handed_over += len;
        } else {
            // Too large a packet, which goes the way of other buffers' packets.
            slot.give_back();
        }
        Step::Piece
    }

    /// Bytes that the file may still take. The clocks come before the room for the statistics.
    fn room(&self, service: &Service) -> u64 {
        let all = self.trace.max_file_size.saturating_sub(self.handed_over);
        let first = if self.handed_over == 0 { self.clocks.min(all) } else { 0 };
        all.saturating_sub(reserve(service)).max(first)
    }

    /// Gives the piece to the file's thread; false if that is busy.
    fn hand_over(&mut self, service: &mut Service, wait: Wait) -> bool {
        if self.piece.bytes.is_empty() {
            return true;
        }
        let room = self.room(service);
        let len = self.piece.bytes.len() as u64;
        if len > room {
            self.cut(room);
            self.end(service);
            return true;
        }
        let spare = match wait {
            Wait::UntilDone => self.spare.recv().map_err(|_| TryRecvError::Disconnected),
            Wait::Now => self.spare.try_recv(),
        };
        if spare == Err(TryRecvError::Empty) {
            return false;
        }
        let empty = Piece { bytes: spare.unwrap_or_default(), packets: 0 };
        let piece = std::mem::replace(&mut self.piece, empty);
        if !self.send(Message::Piece(piece)) {
            // The file's thread is gone.
            self.progress.given_up.fetch_add(len, Ordering::Relaxed);
        }
        self.handed_over += len;
        true
    }

    /// The file is full: keeps only what fits of the piece, and nothing more is recorded. Returns the rest.
    fn cut(&mut self, room: u64) -> Vec<u8> {
        let beyond = self.piece.bytes.split_off(whole_within(&self.piece.bytes, room));
        self.piece.packets = self.piece.packets.saturating_sub(TracePackets::new(&beyond).count() as u64);
        self.progress.full.store(true, Ordering::Relaxed);
        self.gate.off();
        beyond
    }

    /// Adds the statistics, if they fit, and nothing more. A file that has no room for the clocks stays empty.
    fn end(&mut self, service: &mut Service) {
        self.ended = true;
        if self.handed_over == 0 && self.piece.bytes.is_empty() {
            return;
        }
        let mut reports: Vec<_> = service.buffers.iter().map(Readable::report).collect();
        let mut totals = service.totals();
        if self.progress.full.load(Ordering::Relaxed) {
            // The format has no other word for what is missing at the end, whatever became of the flushes.
            totals.flushes.last = Some(false);
        }
        if !self.stats(service, &totals, &reports) {
            // More writers came than there was room left for. Losses are reported without them.
            self.progress.full.store(true, Ordering::Relaxed);
            reports.iter_mut().for_each(|report| report.sequences.clear());
            self.stats(service, &totals, &reports);
        }
        if !self.piece.bytes.is_empty() {
            let piece = std::mem::take(&mut self.piece);
            self.send(Message::Piece(piece));
        }
    }

    /// Adds the pairs of clocks that the file does not have yet.
    fn add_clocks(&mut self, service: &mut Service) {
        let written = self.piece.clocks(&mut service.clocks, self.clocks_written);
        self.clocks_written = written.unwrap_or(self.clocks_written);
    }

    /// Adds the last clocks and the statistics, if the file still has room for them.
    fn stats(&mut self, service: &mut Service, totals: &Totals, reports: &[BufferReport]) -> bool {
        let (len, packets) = (self.piece.bytes.len(), self.piece.packets);
        let written = self.clocks_written;
        self.add_clocks(service);
        let _ = self.piece.stats(totals, reports, Some(self.clocks_written.boottime()));
        let fits = self.piece.bytes.len() as u64 <= self.trace.max_file_size.saturating_sub(self.handed_over);
        if !fits {
            self.piece.bytes.truncate(len);
            self.piece.packets = packets;
            self.clocks_written = written;
        }
        fits
    }

    pub(crate) fn written(&self) -> Written {
        Written {
            packets: self.progress.packets.load(Ordering::Relaxed),
            carried: 0,
            bytes: self.progress.status().bytes,
            invalid_packets: self.invalid_packets,
        }
    }

    pub(crate) fn finish(&mut self, service: &mut Service) {
        self.progress.finishing.store(true, Ordering::Relaxed);
        self.turns = Some(Turns::new(service.buffers.len(), FOR_EVER));
        while !self.ended && self.read_on(service, Wait::UntilDone) == Step::Piece {
            self.hand_over(service, Wait::UntilDone);
        }
        if !self.ended {
            self.hand_over(service, Wait::UntilDone);
        }
        if !self.ended {
            self.end(service);
        }
        if self.trace.sync != SyncPolicy::Never {
            self.send(Message::Sync);
        }
        self.sender = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// Room for the statistics: some 250 bytes per buffer, up to 300 per writer.
fn reserve(service: &Service) -> u64 {
    let writers: usize = service.buffers.iter().map(|buffer| buffer.sequences().count()).sum();
    1024 + 300 * (service.buffers.len() + writers) as u64
}
