//! A session's summary: what it did, and what it has lost.

use std::fmt;

use tracebuf::buffer::{BufferStats, FillPolicy, SequenceInfo};
use tracebuf::service::ProducerIdentity;

use crate::carry_over::KeptStats;
use crate::limits::OWN_PRODUCER_ID;
use crate::long_trace::LongTraceStatus;
use crate::refusals::RefusedProgram;
use crate::service::Service;
use crate::totals::{Flushes, ProducerSummary, Written};
use crate::transport::CentralBuffer;
use tracebuf::vm::RingVmStats;
use tracebuf_std::display::{Bytes, Count};

/// What a session did.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Summary {
    /// The counters of each buffer.
    pub buffers: Vec<BufferStats>,
    /// The writers of all buffers, with what each has lost.
    pub sequences: Vec<SequenceInfo>,
    /// The producers that are there, or were when the session stopped; this process's threads are the first.
    pub producers: Vec<ProducerSummary>,
    /// Programs that came and were sent away, with the reason: the first 64.
    pub refused: Vec<RefusedProgram>,
    /// How often programs were sent away, those that are not listed among them.
    pub refusals: u64,
    /// Packets that only other programs say they gave up: [`BufferStats::trace_writer_packet_loss`] has them too.
    pub packets_claimed: u64,
    /// How flushes went.
    pub flushes: Flushes,
    /// Chunks for a buffer that the producer may not write to, or from more writers than its endpoint has places for.
    pub chunks_discarded: u64,
    /// Patches for such a buffer.
    pub patches_discarded: u64,
    /// Packets left out of the trace, because no producer may write them, or because they are longer than 256 MiB.
    pub invalid_packets: u64,
    /// What is in the long trace's file, if there is one.
    pub file: Option<Written>,
    /// How the long trace is doing, or how it ended.
    pub long_trace: Option<LongTraceStatus>,
    /// Open slices whose begins rings have overwritten and that are not kept for snapshots: more than 256 on a track, on
    /// more than 16,384 tracks, or of more than 16 MiB in all. Of those within each other the outermost are kept.
    pub slices_left_out: u64,
    /// For each buffer, what it [keeps](crate::SessionBuilder::keep_descriptions) of descriptions that were overwritten.
    pub kept: Vec<Option<KeptStats>>,
    /// For each buffer, the machines with [programs](crate::RingProgram) of data sources.
    pub vms: Vec<Vec<RingVmStats>>,
    /// Such programs that were refused: there were 64 already, or they are too long, or have too little memory.
    pub vms_refused: u64,
    /// Chunks that came to a full buffer that keeps its oldest; one that is still being written comes with each flush.
    pub chunks_too_late: u64,
}

impl Summary {
    /// What was lost, from all of these counters.
    pub fn losses(&self) -> Losses {
        // What the transports of others report is among them, and may be anything.
        let buffers = |count: fn(&BufferStats) -> u64| sum(self.buffers.iter().map(count));
        let sequences = |count: fn(&SequenceInfo) -> u64| sum(self.sequences.iter().map(count));
        let long_trace = self.long_trace.as_ref();
        let refused = buffers(|buffer| buffer.chunks_refused);
        Losses {
            chunks_overwritten: buffers(|buffer| buffer.chunks_overwritten),
            bytes_overwritten: buffers(|buffer| buffer.bytes_overwritten),
            packets_given_up: buffers(|buffer| buffer.trace_writer_packet_loss)
                .saturating_sub(self.packets_claimed),
            packets_claimed: self.packets_claimed,
            programs_refused: self.refusals,
            packets_broken: sequences(|sequence| sequence.packets_broken),
            chunks_not_taken: sum([refused, self.chunks_discarded, self.chunks_too_late]),
            // Some count as both, and a writer's own counters are gone once another takes its place.
            chunks_malformed: buffers(|buffer| buffer.abi_violations)
                .max(sequences(|sequence| sequence.chunks_malformed)),
            invalid_packets: self.invalid_packets,
            packets_not_written: long_trace.map_or(0, |trace| trace.packets_not_written),
            packets_unreadable: long_trace.map_or(0, |trace| trace.packets_unreadable),
            bytes_not_written: long_trace.map_or(0, |trace| trace.bytes_given_up),
            file_is_full: long_trace.is_some_and(|trace| trace.full),
            file_error: long_trace.and_then(|trace| trace.error.clone()),
            slices_left_out: self.slices_left_out,
            programs_silent: self.silent().count() as u64,
        }
    }

    /// Producers that have not answered, except this process's threads, which are asked as one.
    #[doc(hidden)]
    pub fn silent(&self) -> impl Iterator<Item = &ProducerSummary> {
        let is_own = |identity: ProducerIdentity| identity.producer_id == OWN_PRODUCER_ID;
        self.producers.iter().filter(move |one| !one.has_answered && !one.identity.is_some_and(is_own))
    }
}

pub(crate) fn summary_of(service: &Service, file: Option<Written>) -> Summary {
    let totals = service.totals();
    let (refused, refusals) = service.side.refusals.all();
    let full = service.buffers.iter().filter(|buffer| buffer.policy() == FillPolicy::Discard);
    Summary {
        buffers: totals.dropped.told(service.buffers.iter().map(CentralBuffer::stats)).collect(),
        sequences: service.buffers.iter().flat_map(CentralBuffer::sequences).collect(),
        producers: service.producers().collect(),
        refused,
        refusals,
        packets_claimed: totals.claimed,
        flushes: totals.flushes,
        chunks_discarded: totals.endpoints.chunks_discarded,
        patches_discarded: totals.endpoints.patches_discarded,
        invalid_packets: totals.invalid_packets,
        file,
        long_trace: None,
        slices_left_out: service.buffers.iter().map(|buffer| buffer.observer().left_out()).sum(),
        kept: service.buffers.iter().map(|buffer| buffer.observer().kept()).collect(),
        vms: service.buffers.iter().map(|buffer| buffer.observer().vms().lock().stats().collect()).collect(),
        vms_refused: service.buffers.iter().map(|buffer| buffer.observer().vms().lock().refused()).sum(),
        chunks_too_late: full.map(|buffer| buffer.stats().chunks_discarded).sum(),
    }
}

/// What a session has lost, and how: whatever is not 0 is missing in its traces. `Display` says it in one line.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Losses {
    /// Chunks that a full ring overwrote before all of them was read.
    pub chunks_overwritten: u64,
    /// Bytes of these.
    pub bytes_overwritten: u64,
    /// Packets that their writers gave up, most of them because shared memory was full.
    pub packets_given_up: u64,
    /// Packets that only other programs say they gave up: no more than they can have written.
    pub packets_claimed: u64,
    /// Packets that began and could not be put together, from the writers in [`Summary::sequences`].
    pub packets_broken: u64,
    /// Chunks that no buffer took: it is full and keeps its oldest, or may not take them.
    pub chunks_not_taken: u64,
    /// Chunks that break the rules of shared memory, at least this many: refused, or cut short.
    pub chunks_malformed: u64,
    /// Packets that no trace accepts: [`Summary::invalid_packets`].
    pub invalid_packets: u64,
    /// Packets given up because the long trace's file took nothing for too long.
    pub packets_not_written: u64,
    /// Packets in the long trace that readers skip, because names, clock or track that they need were lost.
    pub packets_unreadable: u64,
    /// Bytes of the long trace that could not be written when the session stopped.
    pub bytes_not_written: u64,
    /// The long trace's file has reached its largest size, and has nothing of what came later.
    pub file_is_full: bool,
    /// What went wrong with the long trace's file: some of it may not be on the disk.
    pub file_error: Option<String>,
    /// Open slices that snapshots have no begin of: [`Summary::slices_left_out`].
    pub slices_left_out: u64,
    /// Other producers that have not answered the last flush, and may have more than could be scraped.
    pub programs_silent: u64,
    /// How often programs came and were sent away: [`Summary::refused`] says which, and why.
    pub programs_refused: u64,
}

impl Losses {
    /// How many packets and chunks are lost in which way, except those overwritten.
    #[doc(hidden)]
    pub fn counts(&self) -> impl Iterator<Item = (Count, &'static str)> {
        let counts = [
            (Count(self.packets_given_up, "packet"), "given up by the writer"),
            (Count(self.packets_claimed, "packet"), "given up, as other programs say"),
            (Count(self.packets_broken, "packet"), "in part"),
            (Count(self.packets_not_written, "packet"), "that the file did not take in time"),
            (Count(self.packets_unreadable, "packet"), "that cannot be read without what was lost before"),
            (Count(self.chunks_not_taken, "chunk"), "not taken"),
            (Count(self.chunks_malformed, "chunk"), "malformed"),
            (Count(self.invalid_packets, "packet"), "malformed"),
        ];
        counts.into_iter().filter(|(count, _)| count.0 > 0)
    }

    /// Whether nothing was lost.
    pub fn is_nothing(&self) -> bool {
        *self == Self::default()
    }
}

impl fmt::Display for Losses {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut separator = "";
        let mut say = |is_so: bool, what: fmt::Arguments<'_>| -> fmt::Result {
            if is_so {
                write!(f, "{separator}{what}")?;
                separator = "; ";
            }
            Ok(())
        };
        let (chunks, bytes) = (Count(self.chunks_overwritten, "chunk"), Bytes(self.bytes_overwritten));
        say(chunks.0 > 0, format_args!("{chunks} ({bytes}) overwritten"))?;
        for (count, what) in self.counts() {
            say(true, format_args!("{count} {what}"))?;
        }
        let not_written = self.bytes_not_written;
        say(not_written > 0, format_args!("{} that could not be written", Bytes(not_written)))?;
        say(self.file_is_full, format_args!("what came when the file was full"))?;
        if let Some(error) = &self.file_error {
            say(true, format_args!("perhaps some of the file: {error}"))?;
        }
        let left_out = Count(self.slices_left_out, "open slice");
        say(left_out.0 > 0, format_args!("{left_out} overwritten"))?;
        let silent = Count(self.programs_silent, "program");
        say(silent.0 > 0, format_args!("perhaps the last packets of {silent} without an answer"))?;
        let refused = Count(self.programs_refused, "program");
        say(refused.0 > 0, format_args!("what {refused} would have recorded, which were sent away"))?;
        if self.is_nothing() { f.write_str("nothing") } else { Ok(()) }
    }
}

/// The sum of counts that others may have made up: it does not overflow.
fn sum(counts: impl IntoIterator<Item = u64>) -> u64 {
    counts.into_iter().fold(0, u64::saturating_add)
}

#[cfg(test)]
mod tests {
    use tracebuf::service::{EndpointStats, ProducerIdentity};

    use super::*;
    use crate::{LongTraceStatus, ProducerSummary, Session};

    #[test]
    fn each_counter_of_a_loss_is_told_and_no_other() {
        let summary = |change: fn(&mut Summary)| {
            let mut summary = Summary { buffers: vec![BufferStats::default(); 2], ..Summary::default() };
            change(&mut summary);
            summary.losses()
        };
        let of_file = |change: fn(&mut LongTraceStatus)| {
            let mut long_trace = LongTraceStatus::default();
            change(&mut long_trace);
            Summary { long_trace: Some(long_trace), ..Summary::default() }.losses()
        };
        for (losses, told) in [
            (summary(|summary| summary.buffers[1].chunks_discarded = 1), "nothing"),
            (summary(|summary| summary.buffers[1].chunks_read = 1), "nothing"),
            (of_file(|_| {}), "nothing"),
            (
                summary(|summary| {
                    (summary.buffers[1].chunks_overwritten, summary.buffers[1].bytes_overwritten) = (1, 4096);
                }),
                "1 chunk (4 KiB) overwritten",
            ),
            (
                summary(|summary| {
                    summary.buffers.iter_mut().for_each(|buffer| buffer.trace_writer_packet_loss = 1);
                    summary.invalid_packets = 1;
                }),
                "2 packets given up by the writer; 1 packet malformed",
            ),
            (
                summary(|summary| {
                    summary.buffers[0].trace_writer_packet_loss = 7;
                    summary.packets_claimed = 5;
                }),
                "2 packets given up by the writer; 5 packets given up, as other programs say",
            ),
            (
                summary(|summary| summary.refusals = 2),
                "what 2 programs would have recorded, which were sent away",
            ),
            (
                summary(|summary| {
                    (summary.buffers[0].chunks_refused, summary.buffers[0].abi_violations) = (2, 1);
                }),
                "2 chunks not taken; 1 chunk malformed",
            ),
            (summary(|summary| summary.chunks_discarded = 1), "1 chunk not taken"),
            (summary(|summary| summary.chunks_too_late = 1), "1 chunk not taken"),
            (summary(|summary| summary.slices_left_out = 1), "1 open slice overwritten"),
            (
                of_file(|file| (file.packets_not_written, file.packets_unreadable) = (2, 1)),
                "2 packets that the file did not take in time; 1 packet that cannot be read without what was lost before",
            ),
            (of_file(|file| file.bytes_given_up = 1), "1 byte that could not be written"),
            (of_file(|file| file.full = true), "what came when the file was full"),
            (
                of_file(|file| file.error = Some("cannot sync".into())),
                "perhaps some of the file: cannot sync",
            ),
            // Of this process's own producer there is no doubt.
            (
                summary(|summary| {
                    let silent =
                        |producer_id| (Some(ProducerIdentity { producer_id, uid: 0, pid: 1 }), false);
                    let all = [silent(Session::OWN_PRODUCER_ID), silent(2), (None, true), (None, false)];
                    summary.producers.extend(all.map(|(identity, has_answered)| ProducerSummary {
                        identity,
                        has_answered,
                        packets_dropped: 0,
                        endpoint: EndpointStats::default(),
                    }));
                }),
                "perhaps the last packets of 2 programs without an answer",
            ),
        ] {
            assert_eq!(losses.to_string(), told);
            assert_eq!(losses.is_nothing(), told == "nothing");
        }
    }
}
