//! The counters of a trace's statistics that tell of losses.

use super::ftrace::FtraceCounters;
use tracebuf::proto::fields::{buffer_stats, final_flush_outcome, trace_stats};
use tracebuf::proto::reader::{Field, FieldValue, Fields};

/// Buffers that are listed one by one: more than sessions have. Statistics crafted for it have one every few bytes.
const MAX_BUFFERS: usize = 1024;

/// A counter of the statistics that should be zero and is not.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Counted {
    /// Its name, as Perfetto has it.
    pub name: &'static str,
    /// The buffer it belongs to, from 0; `None` for those of the whole trace. Buffers from number 1,024 on are listed
    /// as that one.
    pub buffer: Option<usize>,
    /// Its value.
    pub value: u64,
    /// Its meaning, and advice.
    pub advice: &'static str,
}

/// The number of a counter's field, its name, and what it means.
type LossCounter = (u32, &'static str, &'static str);

pub(super) const LARGER_RING: &str = "the ring was full: give it more bytes, write a long trace, or a long one more \
                                      often, or record less; or it had no place for one more writer: give it more \
                                      sequences";

/// Counters of a buffer that report losses.
const OF_BUFFER: [LossCounter; 6] = [
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
        "writers gave packets up for want of shared memory: give it more bytes, or let writers stall; or there were \
         more threads than writers, or events inside the details of another event, or long ones that were not over \
         at the end",
    ),
    (
        buffer_stats::ABI_VIOLATIONS,
        "abi_violations",
        "a producer fills its chunks wrongly: look for what writes into its shared memory; or, in a trace that was \
         recovered, parts of the memory were damaged or missing",
    ),
    (
        buffer_stats::PATCHES_FAILED,
        "patches_failed",
        "sizes came for chunks that were gone, or of packets of more than 4,096 chunks, so they are not whole: give \
         the ring more bytes, or write smaller packets",
    ),
    (
        buffer_stats::OVERSIZED_PACKETS_DROPPED,
        "oversized_packets_dropped",
        "packets were longer than the service takes: write smaller ones",
    ),
];

/// Counters of the whole trace that report losses.
const OF_TRACE: [LossCounter; 4] = [
    (
        trace_stats::INVALID_PACKETS,
        "invalid_packets",
        "packets were malformed, held fields that only the service may write, or were too long for a trace: mend their \
         producer",
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
        "a producer did not answer in time, and what it held back may be late or missing: allow flushes more time, or a \
         long trace a longer period",
    ),
];

/// If a field occurs twice, the last one counts.
fn set<const N: usize>(counters: &mut [u64; N], known: &[LossCounter; N], number: u32, value: u64) {
    let counter = counters.iter_mut().zip(known).find(|(_, (known, ..))| *known == number);
    if let Some((counter, _)) = counter {
        *counter = value;
    }
}

/// The largest of each counter in the statistics of a trace so far.
#[derive(Default)]
pub(super) struct Counters {
    is_told: bool,
    trace: [u64; OF_TRACE.len()],
    flush_failed: bool,
    buffers: Vec<[u64; OF_BUFFER.len()]>,
    pub(super) ftrace: FtraceCounters,
}

impl Counters {
    /// Takes the next packet of statistics.
    pub(super) fn add(&mut self, stats: &[u8]) {
        self.is_told = true;
        let mut trace = [0; OF_TRACE.len()];
        let mut buffers: Vec<[u64; OF_BUFFER.len()]> = Vec::new();
        for Field { number, value, .. } in Fields::of(stats) {
            match value {
                FieldValue::Bytes(stats) if number == trace_stats::BUFFER_STATS => {
                    let mut buffer = [0; OF_BUFFER.len()];
                    for Field { number, value, .. } in Fields::of(stats) {
                        let FieldValue::Number(value) = value else { continue };
                        set(&mut buffer, &OF_BUFFER, number, value);
                    }
                    match buffers.get_mut(MAX_BUFFERS) {
                        Some(all) => {
                            all.iter_mut().zip(buffer).for_each(|(sum, n)| *sum = sum.saturating_add(n))
                        }
                        None => buffers.push(buffer),
                    }
                }
                FieldValue::Number(outcome) if number == trace_stats::FINAL_FLUSH_OUTCOME => {
                    self.flush_failed |= outcome == final_flush_outcome::FAILED;
                }
                FieldValue::Number(value) => set(&mut trace, &OF_TRACE, number, value),
                _ => {}
            }
        }
        raise(&mut self.trace, trace);
        self.buffers.resize(self.buffers.len().max(buffers.len()), Default::default());
        self.buffers.iter_mut().zip(buffers).for_each(|(counters, now)| raise(counters, now));
    }

    /// Those that are not zero; `None` without any statistics.
    pub(super) fn losses(&self) -> Option<Vec<Counted>> {
        let buffers = self.buffers.iter().zip(0..);
        let buffers = buffers.flat_map(|(counters, number)| losses(counters, OF_BUFFER, Some(number)));
        let mut all: Vec<_> = buffers.chain(losses(&self.trace, OF_TRACE, None)).collect();
        if self.flush_failed {
            let (name, value) = ("final_flush_outcome", final_flush_outcome::FAILED);
            let advice = "the last flush failed, or the file was full: the trace may lack its end; allow more time, or \
                          room";
            all.push(Counted { name, buffer: None, value, advice });
        }
        self.is_told.then_some(all)
    }
}

fn raise<const N: usize>(counters: &mut [u64; N], now: [u64; N]) {
    counters.iter_mut().zip(now).for_each(|(most, value)| *most = value.max(*most));
}

fn losses<const N: usize>(
    counters: &[u64; N],
    known: [LossCounter; N],
    buffer: Option<usize>,
) -> impl Iterator<Item = Counted> {
    let all = known.into_iter().zip(*counters).filter(|(_, value)| *value > 0);
    all.map(move |((_, name, advice), value)| Counted { name, buffer, value, advice })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is reported for statistics one after the other.
    fn told(statistics: &[&[u8]]) -> Vec<(&'static str, Option<usize>, u64)> {
        let mut counters = Counters::default();
        statistics.iter().for_each(|stats| counters.add(stats));
        let losses = counters.losses().expect("statistics");
        losses.iter().map(|counted| (counted.name, counted.buffer, counted.value)).collect()
    }

    /// The statistics of a buffer in which chunks were overwritten, and packets lost before it.
    fn of_buffer(overwritten: u8, lost: u8) -> Vec<u8> {
        vec![0x0A, 5, 0x18, overwritten, 0x98, 0x01, lost]
    }

    #[test]
    fn the_largest_of_each_counter_is_told() {
        let of =
            |statistics: &[Vec<u8>]| told(&statistics.iter().map(|stats| &stats[..]).collect::<Vec<_>>());
        let overwritten = |value| ("chunks_overwritten", Some(0), value);
        let lost = |value| ("trace_writer_packet_loss", Some(0), value);
        assert_eq!(of(&[of_buffer(0, 5)]), [lost(5)]);
        // Later ones of the same session, or of another that lost less.
        assert_eq!(of(&[of_buffer(1, 5), of_buffer(1, 5), of_buffer(2, 6)]), [overwritten(2), lost(6)]);
        assert_eq!(of(&[of_buffer(0, 5), of_buffer(0, 0)]), [lost(5)]);
        // What is recovered of a session has what it overwrote, but not all that its writers gave up.
        assert_eq!(of(&[of_buffer(2, 5), of_buffer(3, 2)]), [overwritten(3), lost(5)]);
        // The second has one buffer only.
        let two = [of_buffer(0, 5), of_buffer(1, 0)].concat();
        assert_eq!(of(&[two, of_buffer(0, 1)]), [lost(5), ("chunks_overwritten", Some(1), 1)]);
    }

    #[test]
    fn packets_that_only_perfettos_own_service_counts_are_told() {
        let oversized = [0x0A, 3, 0xB0, 0x01, 7];
        assert_eq!(told(&[&oversized]), [("oversized_packets_dropped", Some(0), 7)]);
    }

    #[test]
    fn what_the_whole_trace_counts_is_told_as_well_and_a_flush_that_failed_stays_so() {
        let (succeeded, failed) = ([0x78, 1], [0x78, 2]);
        let invalid = |count| [0x50, count];
        let flush = ("final_flush_outcome", None, final_flush_outcome::FAILED);
        let packets = |value| ("invalid_packets", None, value);
        let one = [&of_buffer(0, 0)[..], &invalid(2), &failed].concat();
        let other = [&of_buffer(0, 0)[..], &invalid(3), &succeeded].concat();
        assert_eq!(told(&[&one]), [packets(2), flush]);
        assert_eq!(told(&[&other]), [packets(3)]);
        assert_eq!(told(&[&one, &other]), [packets(3), flush]);
        assert_eq!(told(&[&one, &invalid(1)]), [packets(2), flush]);
    }

    #[test]
    fn what_is_there_a_million_times_is_told_once() {
        assert_eq!(told(&[&[0x50, 1].repeat(1_000_000)]), [("invalid_packets", None, 1)]);
        let buffer = [&[0x0A, 0x80, 0x89, 0x7A][..], &[0x18, 1].repeat(1_000_000)].concat();
        assert_eq!(told(&[&buffer]), [("chunks_overwritten", Some(0), 1)]);
        let buffers = [0x0A, 2, 0x18, 1].repeat(1_000_000);
        let counted = told(&[&buffers]);
        assert_eq!((counted.len(), counted[MAX_BUFFERS - 1].2), (MAX_BUFFERS + 1, 1));
        let rest = (1_000_000 - MAX_BUFFERS) as u64;
        assert_eq!(counted[MAX_BUFFERS], ("chunks_overwritten", Some(MAX_BUFFERS), rest));
    }
}
