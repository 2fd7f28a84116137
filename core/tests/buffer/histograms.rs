//! Histograms of chunk sizes, by writer.

use crate::bench::{Bench, Sent, packet, small_table, whole};
use tracebuf::buffer::{Chunk, ChunkHeader, ChunkHistogram, Commit, TraceBuffer};
use tracebuf::proto::trace_stats::{CHUNK_HISTOGRAM_BOUNDS, CHUNK_HISTOGRAM_BUCKETS};

fn bench(ring: u32) -> Bench {
    Bench::new(small_table().histograms(true), ring)
}

fn of(bench: &Bench, writer: u16) -> ChunkHistogram {
    bench.sequence(writer).histogram.expect("one is kept")
}

/// Fragments of this many bytes in all: one, and empty ones.
fn of_size(size: usize) -> Vec<Vec<u8>> {
    let large = (0..size).rev().map(|len| packet(&vec![7; len])).find(|packet| packet.len() <= size);
    let mut fragments = vec![large.expect("room for a size")];
    fragments.resize(1 + size - fragments[0].len(), packet(b""));
    fragments
}

#[test]
fn a_payload_counts_in_the_first_bucket_that_is_large_enough() {
    let mut b = bench(1 << 17);
    let sizes = CHUNK_HISTOGRAM_BOUNDS.map(|bound| [bound, bound + 1]);
    for (chunk_id, size) in (0..).zip(sizes.as_flattened()) {
        assert_eq!(b.commit(Sent::new(chunk_id, &of_size(*size as usize))), Commit::Written);
    }
    let mut expected = ChunkHistogram::default();
    for size in sizes.as_flattened() {
        let bucket = CHUNK_HISTOGRAM_BOUNDS.iter().position(|bound| size <= bound);
        let bucket = bucket.unwrap_or(CHUNK_HISTOGRAM_BUCKETS - 1);
        expected.counts[bucket] += 1;
        expected.sums[bucket] += u64::from(*size);
    }
    assert_eq!((expected.counts[0], expected.counts[9], expected.counts[10]), (1, 2, 1));
    assert_eq!(of(&b, 1), expected);

    let memory = b.buffer.into_memory();
    let (buffer, _) = TraceBuffer::attach(memory).expect("a region");
    assert_eq!(buffer.sequences().next().and_then(|sequence| sequence.histogram), Some(expected));
}

#[test]
fn histograms_begin_empty_whatever_the_memory_held_and_those_of_nobody_are_not_touched() {
    let config = small_table().histograms(true);
    let mut buffer = TraceBuffer::new(vec![0xA5; config.region_size(1024) as usize], config).expect("room");
    let (header, payload) =
        (ChunkHeader { producer_id: 1, writer_id: 1, fragments: 1, ..Default::default() }, b"\x05hello");
    assert_eq!(buffer.copy_chunk_untrusted(&Chunk { header, payload }), Commit::Written);
    let expected = buffer.sequences().next().and_then(|of| of.histogram).expect("one is kept");
    assert_eq!((expected.counts.iter().sum::<u64>(), expected.sums.iter().sum::<u64>()), (1, 6));
    let untouched = buffer.into_memory().iter().filter(|byte| **byte == 0xA5).count();
    assert!(untouched >= 3 * 176 + 900, "{untouched}");
}

#[test]
fn a_scraped_chunk_that_grows_in_place_or_elsewhere_counts_once_with_its_new_size() {
    for (is_read, outcome) in [(false, Commit::Rewritten), (true, Commit::Relocated)] {
        let mut b = bench(1024);
        let sent = || Sent::new(0, &[packet(b"one"), packet(&[7; 60])]);
        b.commit(sent().scraped());
        assert_eq!((of(&b, 1).counts[0], of(&b, 1).sums[0]), (1, 4));
        if is_read {
            assert_eq!(b.read(), whole(&[b"one"]));
        }
        assert_eq!(b.commit(sent()), outcome);
        let mut expected = ChunkHistogram::default();
        (expected.counts[2], expected.sums[2]) = (1, 65);
        assert_eq!(of(&b, 1), expected);
    }
}

#[test]
fn a_sequence_in_the_place_of_a_forgotten_one_begins_with_nothing() {
    let mut b = bench(1024);
    for writer in 1..=5 {
        b.commit(Sent::new(0, &[packet(&[1; 20])]).writer(writer));
        b.read();
    }
    let sequences: Vec<_> = b.buffer.sequences().collect();
    assert_eq!(sequences.len(), 4);
    for sequence in sequences {
        assert_eq!(sequence.histogram.map(|histogram| histogram.counts[1]), Some(1));
    }
}
