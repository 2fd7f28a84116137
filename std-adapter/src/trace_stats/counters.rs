//! The counters of a trace's statistics that tell of losses.

use tracebuf::proto::fields::{buffer_stats, final_flush_outcome, trace_stats};

use crate::fields::{Field, Fields, Value};

/// Buffers that are told one by one: more than sessions have. In statistics that are made for it there is one every few
/// bytes.
const MAX_BUFFERS: usize = 1024;

/// A counter of the statistics that is not zero and should be.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Counted {
    /// Its name, as Perfetto has it.
    pub name: &'static str,
    /// The buffer it is of, from 0; `None` for those of the whole trace. All from number 1,024 on are told as that one.
    pub buffer: Option<usize>,
    /// Its value.
    pub value: u64,
    /// What it means and what to do.
    pub advice: &'static str,
}

/// The number of a counter's field, its name, and what it means.
type Known = (u32, &'static str, &'static str);

pub(super) const LARGER_RING: &str =
    "the ring was full: give it more bytes, write a long trace, or record less";

/// Counters of a buffer that tell of losses.
const OF_BUFFER: [Known; 5] = [
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
const OF_TRACE: [Known; 4] = [
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

/// What a session counted, and those before it.
struct Sums<const N: usize> {
    last: [u64; N],
    before: [u64; N],
}

impl<const N: usize> Default for Sums<N> {
    fn default() -> Self {
        Self { last: [0; N], before: [0; N] }
    }
}

impl<const N: usize> Sums<N> {
    /// Takes the counters of later statistics; whether they are another session's.
    fn add(&mut self, now: [u64; N], mut is_other: bool) -> bool {
        let all_are = is_other;
        for ((before, last), now) in self.before.iter_mut().zip(self.last).zip(now) {
            // Not all counters of a session survive it, as `recover` has them: each one is looked at.
            if all_are || now < last {
                *before = before.saturating_add(last);
                is_other = true;
            }
        }
        self.last = now;
        is_other
    }

    fn losses(&self, known: [Known; N], buffer: Option<usize>) -> impl Iterator<Item = Counted> {
        let sums = self.before.into_iter().zip(self.last).map(|(before, last)| before.saturating_add(last));
        let all = known.into_iter().zip(sums);
        all.filter(|(_, value)| *value > 0).map(move |((_, name, advice), value)| Counted {
            name,
            buffer,
            value,
            advice,
        })
    }
}

/// A buffer's part of one packet of statistics.
#[derive(Clone, Copy, Default)]
struct OfBuffer {
    /// Never less than before in a session, and hardly ever 0.
    chunks_written: u64,
    losses: [u64; OF_BUFFER.len()],
}

impl OfBuffer {
    fn of(stats: &[u8]) -> Self {
        let mut this = Self::default();
        for Field { number, value, .. } in Fields::of(stats) {
            let Value::Number(value) = value else { continue };
            if number == buffer_stats::CHUNKS_WRITTEN {
                this.chunks_written = value;
            }
            set(&mut this.losses, &OF_BUFFER, number, value);
        }
        this
    }

    fn and(self, other: Self) -> Self {
        let mut losses = self.losses;
        losses.iter_mut().zip(other.losses).for_each(|(sum, value)| *sum = sum.saturating_add(value));
        Self { chunks_written: self.chunks_written.saturating_add(other.chunks_written), losses }
    }
}

/// Of a field that is there twice the last one counts.
fn set<const N: usize>(counters: &mut [u64; N], known: &[Known; N], number: u32, value: u64) {
    let counter = counters.iter_mut().zip(known).find(|(_, (known, ..))| *known == number);
    if let Some((counter, _)) = counter {
        *counter = value;
    }
}

/// All statistics of a trace so far.
#[derive(Default)]
pub(super) struct Counters {
    is_told: bool,
    trace: Sums<{ OF_TRACE.len() }>,
    flush_failed: bool,
    flush_failed_before: bool,
    /// With the chunks that the last session had written.
    buffers: Vec<(u64, Sums<{ OF_BUFFER.len() }>)>,
}

impl Counters {
    /// Takes the next packet of statistics.
    pub(super) fn add(&mut self, stats: &[u8]) {
        self.is_told = true;
        let (mut trace, mut flush_failed) = ([0; OF_TRACE.len()], false);
        let mut buffers: Vec<OfBuffer> = Vec::new();
        for Field { number, value, .. } in Fields::of(stats) {
            match value {
                Value::Bytes(stats) if number == trace_stats::BUFFER_STATS => {
                    let buffer = OfBuffer::of(stats);
                    match buffers.get_mut(MAX_BUFFERS) {
                        Some(last) => *last = last.and(buffer),
                        None => buffers.push(buffer),
                    }
                }
                Value::Number(outcome) if number == trace_stats::FINAL_FLUSH_OUTCOME => {
                    flush_failed = outcome == final_flush_outcome::FAILED;
                }
                Value::Number(value) => set(&mut trace, &OF_TRACE, number, value),
                _ => {}
            }
        }
        let mut told = buffers.iter().zip(&self.buffers);
        let is_other = told.any(|(now, (written, _))| now.chunks_written < *written);
        let mut any_is = self.trace.add(trace, is_other);
        self.buffers.resize_with(self.buffers.len().max(buffers.len()), Default::default);
        for ((written, sums), now) in self.buffers.iter_mut().zip(buffers) {
            *written = now.chunks_written;
            any_is |= sums.add(now.losses, is_other);
        }
        self.flush_failed_before |= self.flush_failed && any_is;
        self.flush_failed = flush_failed;
    }

    /// Those that are not zero; `None` without any statistics.
    pub(super) fn losses(&self) -> Option<Vec<Counted>> {
        let buffers = self.buffers.iter().zip(0..);
        let buffers = buffers.flat_map(|((_, sums), number)| sums.losses(OF_BUFFER, Some(number)));
        let mut all: Vec<_> = buffers.chain(self.trace.losses(OF_TRACE, None)).collect();
        if self.flush_failed || self.flush_failed_before {
            let (name, value) = ("final_flush_outcome", final_flush_outcome::FAILED);
            let advice = "the last flush failed: the trace may lack its end; allow it more time";
            all.push(Counted { name, buffer: None, value, advice });
        }
        self.is_told.then_some(all)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is told of statistics one after the other.
    fn told(statistics: &[&[u8]]) -> Vec<(&'static str, Option<usize>, u64)> {
        let mut counters = Counters::default();
        statistics.iter().for_each(|stats| counters.add(stats));
        let losses = counters.losses().expect("statistics");
        losses.iter().map(|counted| (counted.name, counted.buffer, counted.value)).collect()
    }

    /// The statistics of a buffer that chunks were written to, overwritten in, and packets lost before.
    fn of_buffer(written: u8, overwritten: u8, lost: u8) -> Vec<u8> {
        vec![0x0A, 7, 0x10, written, 0x18, overwritten, 0x98, 0x01, lost]
    }

    #[test]
    fn counters_of_one_session_are_those_of_its_last_statistics_and_of_several_their_sum() {
        let of =
            |statistics: &[Vec<u8>]| told(&statistics.iter().map(|stats| &stats[..]).collect::<Vec<_>>());
        let overwritten = |value| ("chunks_overwritten", Some(0), value);
        let lost = |value| ("trace_writer_packet_loss", Some(0), value);
        assert_eq!(of(&[of_buffer(9, 0, 5)]), [lost(5)]);
        assert_eq!(
            of(&[of_buffer(9, 1, 5), of_buffer(9, 1, 5), of_buffer(10, 2, 6)]),
            [overwritten(2), lost(6)]
        );
        // Another that lost nothing, one that is told by its losses, and one by what it wrote.
        assert_eq!(of(&[of_buffer(9, 0, 5), of_buffer(3, 0, 0)]), [lost(5)]);
        assert_eq!(of(&[of_buffer(9, 0, 5), of_buffer(12, 0, 4)]), [lost(9)]);
        assert_eq!(of(&[of_buffer(9, 1, 5), of_buffer(3, 1, 7)]), [overwritten(2), lost(12)]);
        assert_eq!(
            of(&[of_buffer(9, 1, 5), of_buffer(3, 0, 0), of_buffer(2, 4, 1)]),
            [overwritten(5), lost(6)]
        );
        // What is recovered of a session has what it overwrote, but not what its writers gave up.
        assert_eq!(of(&[of_buffer(9, 2, 5), of_buffer(11, 3, 0)]), [overwritten(3), lost(5)]);
        // The second has one buffer only.
        let two = [of_buffer(9, 0, 5), of_buffer(9, 1, 0)].concat();
        assert_eq!(of(&[two, of_buffer(3, 0, 1)]), [lost(6), ("chunks_overwritten", Some(1), 1)]);
    }

    #[test]
    fn what_the_whole_trace_counts_is_added_up_as_well_and_a_flush_that_failed_stays_so() {
        let (succeeded, failed) = ([0x78, 1], [0x78, 2]);
        let invalid = |count| [0x50, count];
        let flush = ("final_flush_outcome", None, final_flush_outcome::FAILED);
        let packets = |value| ("invalid_packets", None, value);
        let one = [&of_buffer(9, 0, 0)[..], &invalid(2), &failed].concat();
        let same = [&of_buffer(9, 0, 0)[..], &invalid(2), &succeeded].concat();
        let other = [&of_buffer(8, 0, 0)[..], &invalid(2), &succeeded].concat();
        assert_eq!(told(&[&one]), [packets(2), flush]);
        assert_eq!(told(&[&one, &same]), [packets(2)]);
        assert_eq!(told(&[&one, &other]), [packets(4), flush]);
        assert_eq!(told(&[&one, &invalid(1)]), [packets(3), flush]);
        assert_eq!(told(&[&same, &invalid(1)]), [packets(3)]);
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
