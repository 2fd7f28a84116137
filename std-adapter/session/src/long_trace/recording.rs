//! A period's work: pieces that the drain thread reads, and hands over to the file's thread.

mod statistics;

use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::channel;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use tracebuf::buffer::BufferStats;
use tracebuf::service::Drained;

use super::backlog::{Message, Sender, backlog};
use super::compression::Packer;
use super::history::History;
use super::output::{Output, Series, empty};
use super::past::Past;
use super::rotation::Names;
use super::turns::Turns;
use super::{LongTrace, Progress, SyncPolicy};
use crate::carry_over::CarryOver;
use crate::clock::ClockReading;
use crate::clock_pairs::ClocksWritten;
use crate::export::{PIECE, Piece};
use crate::files::Opened;
use crate::process_tree::Numbers;
use crate::recording_gate::RecordingGate;
use crate::region_file::Outbox;
use crate::service::Service;
use crate::side_packets::{SideData, SideRevision};
use crate::waits::{FOR_EVER, GRACE, PATIENCE, POLL_INTERVAL, Wait};

pub(crate) struct Recording {
    sender: Option<Sender>,
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
    /// Bytes of a piece.
    most: usize,
    /// The newest item beside the buffers that the file tells of.
    side: SideRevision,
    numbers: Numbers,
    /// The newest clocks that the file has.
    clocks_written: ClocksWritten,
    handed_over: u64,
    /// For each buffer, after how many bytes it is read before the period is over, and how many it had the last time.
    halves: Vec<(u64, u64)>,
    invalid_packets: u64,
    ended: bool,
    /// What was read, if snapshots are to hold it.
    pub(crate) history: Option<History>,
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

impl Recording {
    pub(crate) fn start(
        trace: &LongTrace,
        opened: Opened,
        names: Option<Names>,
        gate: Arc<RecordingGate>,
        outboxes: Vec<Option<Outbox>>,
        clocks: &ClockReading,
        side: &SideData,
    ) -> io::Result<Self> {
        let progress = Arc::new(Progress::default());
        progress.files.store(1, Ordering::Relaxed);
        let mut head = Piece::default();
        head.clock_reading(clocks)?;
        let max_file_size = if names.is_some() { u64::MAX } else { trace.max_file_size };
        let has_room = head.bytes.len() as u64 <= max_file_size;
        if !has_room {
            // A file that has no room for the clocks stays empty.
            progress.full.store(true, Ordering::Relaxed);
            gate.off();
            head = Piece::default();
        }
        let handed_over = head.bytes.len() as u64;
        let series = names.map(|names| {
            let (rotation, sync, head) = (trace.rotation.clone(), trace.sync, head.clone());
            Series { rotation, names, head, sync, side: side.clone(), begun: Instant::now() }
        });
        series.iter().for_each(Series::remove_old);
        let packer = Packer::new(trace.compression)?;
        let file = opened.file.try_clone()?;
        let mut output = Output::new(opened, packer, progress.clone()).in_series(series);
        let ((is_emptied, emptied), (begun, is_begun)) = (channel::<()>(), channel());
        // Small enough for a file to end near its size.
        let share = trace.rotation.size().map_or(u64::MAX, |size| size / 8);
        let most = usize::try_from(share).unwrap_or(PIECE).clamp(4 << 10, PIECE);
        let keeps = trace.keeps.filter(|_| trace.rotation.is_on());
        let past = Past::of(CarryOver::default().keeping(keeps));
        let (sender, receiver) = backlog(trace.backlog, most, past, progress.clone());
        let thread = thread::Builder::new().name("tracebuf-file".into()).spawn(move || {
            if emptied.recv().is_err() {
                return;
            }
            let is_begun = output.begin(&head);
            let _ = begun.send(());
            if !is_begun {
                output.write(&head.bytes, head.packets);
            }
            output.run(&receiver);
        })?;
        // Nothing that can fail comes after it.
        empty(&file)?;
        let _ = is_emptied.send(());
        // From the first moment it is a trace. A pipe may take nothing yet.
        let _ = is_begun.recv_timeout(GRACE);
        Ok(Self {
            sender: Some(sender),
            outboxes,
            thread: Some(thread),
            progress,
            gate,
            trace: LongTrace { max_file_size, ..trace.clone() },
            next: Instant::now() + trace.period,
            flushing: None,
            turns: None,
            piece: Piece::default(),
            most,
            side: SideRevision::default(),
            numbers: Numbers::default(),
            clocks_written: ClocksWritten::of(clocks),
            handed_over,
            halves: Vec::new(),
            invalid_packets: 0,
            ended: !has_room,
            history: None,
        })
    }

    /// From now on, keeps what is read, as much as the buffers have room for.
    pub(crate) fn keep_history(&mut self, service: &Service) {
        self.history.get_or_insert_with(|| History::of(service, self.trace.keeps));
    }

    /// Keeps what was read from a buffer into the piece, after so many bytes.
    fn keep(&mut self, buffer: usize, from: usize) {
        if let Some(history) = &mut self.history {
            history.keep(buffer, self.piece.bytes.get(from..).unwrap_or_default());
        }
    }

    /// Does what is due, and says when to come again. Reads no more than a piece at once, unless a buffer is half full,
    /// and never waits.
    pub(crate) fn work(&mut self, service: &mut Service) -> Duration {
        if self.ended {
            return self.trace.period;
        }
        if self.turns.is_none()
            && let Some(wait) = self.begin(service)
        {
            return wait;
        }
        loop {
            match self.read_on(service, Wait::Now) {
                Step::Done => break,
                Step::Busy => return POLL_INTERVAL,
                Step::Piece => {
                    self.hand_over(service, Wait::Now);
                    if self.ended {
                        return self.trace.period;
                    }
                    // More than a piece may have come for each that was read.
                    if !service.buffers.iter().any(|buffer| is_half_full(&buffer.stats())) {
                        return Duration::ZERO;
                    }
                }
            }
        }
        self.hand_over(service, Wait::Now);
        self.turns = None;
        if self.trace.sync == SyncPolicy::EveryPeriod {
            self.send(Message::Sync);
        }
        self.next.saturating_duration_since(Instant::now())
    }

    /// Begins a period's work, with a flush; says how long to wait if it is not yet time, or not everything has come.
    fn begin(&mut self, service: &mut Service) -> Option<Duration> {
        let now = Instant::now();
        if self.flushing.is_none() && now < self.next && self.has_taken_half(service) {
            // What is not complete comes with the period.
            self.turns = Some(Turns::new(service.buffers.len(), self.trace.period));
            return None;
        }
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
        self.has_taken_half(service);
        if self.trace.rotation.is_on() {
            self.renew_end_of_file(service);
        }
        self.turns = Some(Turns::new(service.buffers.len(), self.trace.period));
        None
    }

    /// Whether a buffer has taken half of its size since it was read the last time, which begins anew if so.
    fn has_taken_half(&mut self, service: &Service) -> bool {
        self.halves.resize(service.buffers.len(), (0, 0));
        let mut is_due = false;
        let taken = || service.buffers.iter().map(|buffer| buffer.stats());
        for ((half, before), stats) in self.halves.iter_mut().zip(taken()) {
            *half = stats.buffer_size / 2;
            is_due |= stats.bytes_written.saturating_sub(*before) >= *half;
        }
        if is_due {
            for ((_, before), stats) in self.halves.iter_mut().zip(taken()) {
                *before = stats.bytes_written;
            }
        }
        is_due
    }

    /// Hands something to the file's thread; false if that is gone.
    fn send(&self, message: Message) -> bool {
        self.sender.as_ref().is_some_and(|sender| sender.send(message))
    }

    /// Fills the piece, or a slot, as far as there is room beside what is left out.
    fn read_on(&mut self, service: &mut Service, wait: Wait) -> Step {
        let mut refused = 0;
        while let Some(at) = self.turns.as_ref().and_then(Turns::next) {
            // Before each piece: the buffers get more in between.
            self.side = self.piece.side_data(&service.side, self.side).unwrap_or(self.side);
            if self.piece.bytes.len() + refused >= self.most {
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
            let read = self.piece.read(&mut buffer.read(), self.most - refused);
            self.keep(at, from);
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
        self.keep(at, from);
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

    /// Gives the piece to the file's thread, and takes an empty one.
    fn hand_over(&mut self, service: &mut Service, wait: Wait) {
        if self.piece.bytes.is_empty() {
            return;
        }
        let room = self.room(service);
        let len = self.piece.bytes.len() as u64;
        if len > room {
            self.cut(room);
            self.end(service);
            return;
        }
        let lost = |stats: BufferStats| {
            stats.chunks_overwritten | stats.trace_writer_packet_loss | stats.abi_violations
        };
        if service.buffers.iter().any(|buffer| lost(buffer.stats()) > 0) {
            self.progress.has_losses.store(true, Ordering::Relaxed);
        }
        let waits = wait == Wait::UntilDone;
        if !self.sender.as_ref().is_some_and(|sender| sender.piece(&mut self.piece, waits)) {
            // The file's thread is gone.
            self.progress.given_up.fetch_add(len, Ordering::Relaxed);
            self.piece = Piece::default();
        }
        self.handed_over += len;
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

/// Whether half of a buffer is not read yet.
fn is_half_full(stats: &BufferStats) -> bool {
    let gone = [stats.bytes_overwritten, stats.bytes_read, stats.padding_bytes_cleared];
    let came = stats.bytes_written.saturating_add(stats.padding_bytes_written);
    let held = gone.into_iter().fold(came, u64::saturating_sub);
    held > stats.buffer_size / 2
}
