//! The end of a file: its largest size, and the statistics that still fit.

use std::sync::PoisonError;
use std::sync::atomic::Ordering;

use tracebuf::proto::TracePackets;

use super::{Message, Recording};
use crate::clock::ClockReading;
use crate::export::{BufferReport, Piece, Readable, whole_within};
use crate::service::Service;
use crate::totals::{Totals, Written};

impl Recording {
    /// Has ready what a file ends with that is followed by another: the buffers' counters, without those of writers.
    pub(super) fn renew_end_of_file(&self, service: &Service) {
        let (reports, totals) = self.reports(service);
        let reports: Vec<_> = reports.into_iter().map(BufferReport::without_sequences).collect();
        let mut end = Piece::default();
        if end.stats(&totals, &reports, Some(ClockReading::now().boottime)).is_ok() {
            *self.progress.end_of_file.lock().unwrap_or_else(PoisonError::into_inner) = end;
        }
    }

    /// Counters for the statistics. What the file did not take in time is lost as if its writers had given it up.
    fn reports(&self, service: &Service) -> (Vec<BufferReport>, Totals) {
        let mut totals = service.totals();
        let lost = self.progress.lost.load(Ordering::Relaxed);
        totals.dropped.0[0] = totals.dropped.0[0].saturating_add(lost);
        (service.buffers.iter().map(Readable::report).collect(), totals)
    }

    /// Bytes that the file may still take, beside the statistics.
    pub(super) fn room(&self, service: &Service) -> u64 {
        self.left().saturating_sub(reserve(service))
    }

    pub(super) fn left(&self) -> u64 {
        let growth = self.progress.growth.load(Ordering::Relaxed);
        self.trace.max_file_size.saturating_sub(self.handed_over.saturating_add_signed(growth))
    }

    /// The file is full: keeps only what fits of the piece, and nothing more is recorded. Returns the rest.
    pub(super) fn cut(&mut self, room: u64) -> Vec<u8> {
        let beyond = self.piece.bytes.split_off(whole_within(&self.piece.bytes, room));
        self.piece.packets = self.piece.packets.saturating_sub(TracePackets::new(&beyond).count() as u64);
        self.progress.full.store(true, Ordering::Relaxed);
        self.gate.off();
        beyond
    }

    /// Adds the statistics, if they fit, and nothing more. A file that has no room for the clocks stays empty.
    pub(super) fn end(&mut self, service: &mut Service) {
        self.ended = true;
        if self.handed_over == 0 && self.piece.bytes.is_empty() {
            return;
        }
        let (mut reports, mut totals) = self.reports(service);
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
    pub(super) fn add_clocks(&mut self, service: &mut Service) {
        let written = self.piece.clocks(&mut service.clocks, self.clocks_written);
        self.clocks_written = written.unwrap_or(self.clocks_written);
    }

    /// Adds the last clocks and the statistics, if the file still has room for them.
    fn stats(&mut self, service: &mut Service, totals: &Totals, reports: &[BufferReport]) -> bool {
        let (len, packets) = (self.piece.bytes.len(), self.piece.packets);
        let written = self.clocks_written;
        self.add_clocks(service);
        let _ = self.piece.stats(totals, reports, Some(self.clocks_written.boottime()));
        let fits = self.piece.bytes.len() as u64 <= self.left();
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
}

/// Room for the statistics: some 250 bytes per buffer, up to 300 per writer.
fn reserve(service: &Service) -> u64 {
    let writers: usize = service.buffers.iter().map(|buffer| buffer.sequences().count()).sum();
    1024 + 300 * (service.buffers.len() + writers) as u64
}
