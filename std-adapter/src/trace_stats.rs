//! What a trace lost, why, and what to do about it: the command `tracebuf stats`.
//!
//! ```
//! use tracebuf_std::trace_stats::TraceReport;
//!
//! // A trace of one packet, which says that the ring was lapped before it.
//! let report = TraceReport::of(&[0x0A, 5, 0x50, 2, 0xD0, 0x02, 65]);
//! assert_eq!(report.packets, 1);
//! assert!(report.to_string().contains("overwrite"));
//! ```

use std::collections::BTreeMap;
use std::fmt;

use tracebuf::buffer::DataLoss;
use tracebuf::proto::TracePackets;
use tracebuf::proto::fields::{buffer_stats, final_flush_outcome, trace_packet, trace_stats};

use crate::fields::{Field, Fields, Value};

/// What one sequence lost.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct SequenceLosses {
    /// The process that wrote it, if the trace says.
    pub pid: Option<u64>,
    /// Its packets.
    pub packets: u64,
    /// Packets that follow a loss.
    pub after_loss: u64,
    /// For each bit of [`DataLoss`], packets that name it; one can name several.
    pub causes: [u64; 16],
    /// Packets that follow a loss and name none of [`DataLoss::CAUSES`].
    pub unnamed: u64,
}

/// What a trace says of its own losses. `Display` is what the command prints.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct TraceReport {
    /// Whole packets.
    pub packets: u64,
    /// Bytes of whole packets.
    pub bytes: u64,
    /// What follows them, if anything does: a packet cut short, or something else.
    pub rest: u64,
    /// Sequences by their numbers.
    pub sequences: BTreeMap<u64, SequenceLosses>,
    /// Counters of the last statistics in the trace that tell of losses and are not zero; `None` without any.
    pub statistics: Option<Vec<Counted>>,
}

/// A counter of the statistics that is not zero and should be.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Counted {
    /// Its name, as Perfetto has it.
    pub name: &'static str,
    /// The buffer it is of, from 0; `None` for those of the whole trace.
    pub buffer: Option<usize>,
    /// Its value.
    pub value: u64,
    /// What it means and what to do.
    pub advice: &'static str,
}

const LARGER_RING: &str = "the ring was full: give it more bytes, write a long trace, or record less";

/// Counters of a buffer that tell of losses.
const OF_BUFFER: [(u32, &str, &str); 5] = [
    (buffer_stats::CHUNKS_OVERWRITTEN, "chunks_overwritten", LARGER_RING),
    (
        buffer_stats::CHUNKS_DISCARDED,
        "chunks_discarded",
        "the buffer keeps the beginning and was full, or chunks came after they had been read: give it more bytes; \
         or there were more writers than it has places for, or malformed chunks",
    ),
    (
        buffer_stats::TRACE_WRITER_PACKET_LOSS,
        "trace_writer_packet_loss",
        "writers gave packets up for want of shared memory: give it more bytes, or let writers stall",
    ),
    (
        buffer_stats::ABI_VIOLATIONS,
        "abi_violations",
        "a producer fills its chunks wrongly: look for what writes into its shared memory",
    ),
    (
        buffer_stats::PATCHES_FAILED,
        "patches_failed",
        "sizes came for chunks that were gone, so their packets are not whole: give the ring more bytes",
    ),
];

/// Counters of the whole trace that tell of losses.
const OF_TRACE: [(u32, &str, &str); 4] = [
    (
        trace_stats::INVALID_PACKETS,
        "invalid_packets",
        "packets were malformed, or held fields that only the service may write: mend their producer",
    ),
    (
        trace_stats::CHUNKS_DISCARDED,
        "chunks_discarded",
        "a producer wrote to a buffer that is not its own: look at its targets",
    ),
    (
        trace_stats::PATCHES_DISCARDED,
        "patches_discarded",
        "a producer patched a buffer that is not its own: look at its targets",
    ),
    (
        trace_stats::FLUSHES_FAILED,
        "flushes_failed",
        "a producer did not answer in time, and what it held back may be missing: allow flushes more time",
    ),
];

/// What to do about a cause that a packet names.
fn advice(cause: DataLoss) -> &'static str {
    match cause {
        DataLoss::READ_GAP => {
            "chunks never came, or the file could not take them: see that producers end cleanly"
        }
        DataLoss::CHUNK_CORRUPTED => "a chunk or packet was malformed and left out: mend its producer",
        DataLoss::ORPHAN_CONTINUATION => {
            "the beginning of a packet is gone, mostly because it was overwritten: give the ring more bytes"
        }
        DataLoss::REASSEMBLY_GAP | DataLoss::REASSEMBLY_BROKEN_CHAIN => {
            "a part of a large packet is missing: give ring and shared memory several times its size"
        }
        DataLoss::OVERWRITE => LARGER_RING,
        DataLoss::WRITER_ABORT => {
            "a writer gave a packet up half-way: give shared memory more bytes, or let writers stall"
        }
        DataLoss::SHARED_MEMORY_FULL => {
            "shared memory was full: give it more bytes, drain it more often, or let writers stall"
        }
        // Not every version of Perfetto names causes.
        _ => {
            "whoever lost them did not say why: look at the line if it was received, or at the program that traced"
        }
    }
}

impl TraceReport {
    /// Looks through a trace in memory. What is malformed ends what it is in, and nothing else.
    pub fn of(trace: &[u8]) -> Self {
        Self::with(trace, |_, _, _| ())
    }

    /// The same, telling `each` of every packet where it lies, how many bytes it takes, and its sequence.
    pub(crate) fn with(trace: &[u8], mut each: impl FnMut(u64, u64, u64)) -> Self {
        let mut report = Self::default();
        let mut packets = TracePackets::new(trace);
        let mut start = 0;
        while let Some(Ok(packet)) = packets.next() {
            report.packets += 1;
            let sequence = report.look_at(packet);
            let end = packets.offset() as u64;
            each(start, end - start, sequence);
            start = end;
        }
        report.bytes = packets.offset() as u64;
        report.rest = trace.len() as u64 - report.bytes;
        report
    }

    fn look_at(&mut self, packet: &[u8]) -> u64 {
        let (mut sequence, mut loss, mut pid) = (0, 0, None);
        for field in Fields::of(packet) {
            match (field.number, field.value) {
                // Of a field that is there twice the last one counts.
                (trace_packet::TRUSTED_PACKET_SEQUENCE_ID, Value::Number(id)) => sequence = id,
                (trace_packet::PREVIOUS_PACKET_DROPPED, Value::Number(bits)) => loss = bits,
                (trace_packet::TRUSTED_PID, Value::Number(number)) => pid = Some(number),
                (trace_packet::TRACE_STATS, Value::Bytes(stats)) => self.statistics = Some(counted(stats)),
                _ => {}
            }
        }
        let losses = self.sequences.entry(sequence).or_default();
        losses.packets += 1;
        losses.pid = losses.pid.or(pid);
        losses.after_loss += u64::from(loss != 0);
        for (bit, count) in losses.causes.iter_mut().enumerate() {
            *count += loss >> bit & 1;
        }
        let named = DataLoss::CAUSES.iter().any(|(cause, _)| loss & u64::from(cause.bits()) != 0);
        losses.unnamed += u64::from(loss != 0 && !named);
        sequence
    }

    /// Whether the trace says that something is missing, or does not say that nothing is.
    pub fn has_losses(&self) -> bool {
        self.rest > 0
            || self.sequences.values().any(|sequence| sequence.after_loss > 0)
            || self.statistics.as_ref().is_none_or(|counted| !counted.is_empty())
    }

    /// The losses of one cause, if there are any.
    fn fmt_losses(
        &self,
        f: &mut fmt::Formatter<'_>,
        name: &str,
        advice: &str,
        count: impl Fn(&SequenceLosses) -> u64,
    ) -> fmt::Result {
        let total: u64 = self.sequences.values().map(&count).sum();
        if total == 0 {
            return Ok(());
        }
        writeln!(f, "{name}: before {total} packets\n  {advice}")?;
        for (id, sequence) in self.sequences.iter().filter(|(_, sequence)| count(sequence) > 0) {
            let (lost, all) = (count(sequence), sequence.packets);
            write!(f, "  sequence {id}")?;
            if let Some(pid) = sequence.pid {
                write!(f, ", process {pid}")?;
            }
            writeln!(f, ": {lost} of its {all} packets")?;
        }
        Ok(())
    }
}

fn counted(stats: &[u8]) -> Vec<Counted> {
    let mut counted = Vec::new();
    let mut buffers = 0;
    for Field { number, value, .. } in Fields::of(stats) {
        match value {
            Value::Bytes(buffer) if number == trace_stats::BUFFER_STATS => {
                for Field { number, value, .. } in Fields::of(buffer) {
                    let Value::Number(value) = value else { continue };
                    let known = OF_BUFFER.iter().find(|(known, ..)| *known == number && value > 0);
                    counted.extend(known.map(|(_, name, advice)| Counted {
                        name,
                        buffer: Some(buffers),
                        value,
                        advice,
                    }));
                }
                buffers += 1;
            }
            Value::Number(value) => {
                let known = OF_TRACE.iter().find(|(known, ..)| *known == number && value > 0);
                counted.extend(known.map(|(_, name, advice)| Counted { name, buffer: None, value, advice }));
                if number == trace_stats::FINAL_FLUSH_OUTCOME && value == final_flush_outcome::FAILED {
                    let advice = "the last flush failed: the trace may lack its end; allow it more time";
                    counted.push(Counted { name: "final_flush_outcome", buffer: None, value, advice });
                }
            }
            _ => {}
        }
    }
    counted
}

impl fmt::Display for TraceReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (packets, bytes, sequences) = (self.packets, self.bytes, self.sequences.len());
        writeln!(f, "{packets} packets of {sequences} sequences, {bytes} bytes")?;
        if !self.has_losses() {
            return write!(f, "nothing was lost");
        }
        if self.rest > 0 {
            writeln!(f, "the last {} bytes are no whole packet: writing was cut short there", self.rest)?;
        }
        for (cause, name) in DataLoss::CAUSES {
            let bit = cause.bits().trailing_zeros() as usize;
            let count = |sequence: &SequenceLosses| sequence.causes.get(bit).copied().unwrap_or(0);
            self.fmt_losses(f, name, advice(cause), count)?;
        }
        self.fmt_losses(f, "no cause named", advice(DataLoss::ANY), |sequence| sequence.unnamed)?;
        match &self.statistics {
            None => write!(f, "no statistics: the trace was not completed, so its end may be missing"),
            Some(counted) => {
                for Counted { name, buffer, value, advice } in counted {
                    match buffer {
                        Some(buffer) => {
                            writeln!(f, "statistics: {name} of buffer {buffer} is {value}\n  {advice}")?
                        }
                        None => writeln!(f, "statistics: {name} is {value}\n  {advice}")?,
                    }
                }
                write!(f, "what else is in the trace is whole")
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn packet(fields: &[u8]) -> Vec<u8> {
        [&[0x0A, fields.len() as u8], fields].concat()
    }

    #[test]
    fn a_whole_trace_without_losses_says_so() {
        // sequence 2; statistics with an empty buffer
        let trace = [packet(&[0x50, 2]), packet(&[0x50, 1, 0x9A, 0x02, 2, 0x0A, 0])].concat();
        let report = TraceReport::of(&trace);
        assert!(!report.has_losses(), "{report}");
        assert!(report.to_string().ends_with("nothing was lost"));
    }

    #[test]
    fn every_cause_has_its_name_and_something_to_do() {
        for (cause, name) in DataLoss::CAUSES {
            let bits = cause.bits() | 1;
            let trace = packet(&[0x50, 2, 0xD0, 0x02, bits as u8 | 0x80, (bits >> 7) as u8]);
            let text = TraceReport::of(&trace).to_string();
            assert!(text.contains(&format!("{name}: before 1 packets")), "{text}");
            assert!(text.contains(advice(cause)) && !text.contains("no cause"), "{text}");
        }
    }

    #[test]
    fn a_loss_that_names_no_cause_is_listed_too() {
        // Without any bit but that of every loss, with one that is no cause (512), and with both a cause and that.
        for (loss, unnamed) in [([0x81, 0], 1), ([0x80, 4], 1), ([0xC0, 4], 0), ([0x80, 0], 0)] {
            // sequence 2; statistics with an empty buffer
            let field = [0x50, 2, 0xD0, 0x02, loss[0], loss[1]];
            let trace = [packet(&[0x50, 2]), packet(&field), packet(&[0x50, 1, 0x9A, 0x02, 0])].concat();
            let report = TraceReport::of(&trace);
            assert_eq!(report.sequences[&2].unnamed, unnamed, "{loss:?}");
            let block = format!(
                "\nno cause named: before 1 packets\n  {}\n  sequence 2: 1 of its 2 packets\nwhat else",
                advice(DataLoss::ANY)
            );
            assert_eq!(report.to_string().contains(&block), unnamed > 0, "{report}");
        }
    }

    #[test]
    fn counters_of_losses_are_told_with_their_buffer() {
        // two buffers, the second with chunks_overwritten 5; invalid_packets 2
        let stats = [0x0A, 2, 0x10, 9, 0x0A, 2, 0x18, 5, 0x50, 2];
        let trace = packet(&[&[0x9A, 0x02, stats.len() as u8][..], &stats].concat());
        let report = TraceReport::of(&trace);
        let counted = report.statistics.as_deref().expect("statistics");
        let said: Vec<_> =
            counted.iter().map(|counted| (counted.name, counted.buffer, counted.value)).collect();
        assert_eq!(said, [("chunks_overwritten", Some(1), 5), ("invalid_packets", None, 2)]);
    }

    #[test]
    fn a_cut_or_malformed_trace_is_told_as_far_as_it_goes() {
        let whole = packet(&[0x50, 2]);
        for len in 1..whole.len() {
            let trace = [&whole[..], &whole[..len]].concat();
            let report = TraceReport::of(&trace);
            assert_eq!((report.packets, report.rest), (1, len as u64));
            assert!(report.has_losses());
        }
        assert_eq!(TraceReport::of(b"no trace at all").packets, 0);
        assert_eq!(TraceReport::of(&packet(&[0xFF; 20])).packets, 1);
    }
}
