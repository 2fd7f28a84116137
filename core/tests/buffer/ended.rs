//! Producers that end in the middle of something.

use crate::bench::{Bench, NEXT, PREV, Sent, aborted, packet, small_table, whole};
use tracebuf::buffer::{ChunkFlags, Commit, DataLoss};

fn bench() -> Bench {
    Bench::new(small_table(), 1024)
}

/// What comes out once producer 1 has ended, and whether all of its chunks are gone then.
fn ended(b: &mut Bench) -> Vec<(Vec<u8>, DataLoss)> {
    b.buffer.end_producer(1);
    let packets = b.read();
    assert_eq!(b.buffer.check().expect("a sound region").chunks, 0);
    packets
}

#[test]
fn a_packet_whose_patch_never_comes_is_given_up_and_those_behind_it_come_out() {
    let mut b = bench();
    b.commit(Sent::new(0, &[packet(b"one"), packet(&[0; 4])]).flags(NEXT | ChunkFlags::NEEDS_PATCHING));
    b.commit(Sent::new(1, &[packet(b"end"), packet(b"two")]).flags(PREV));
    assert_eq!(b.read(), whole(&[b"one"]));
    let loss = DataLoss::WRITER_ABORT | DataLoss::ORPHAN_CONTINUATION | DataLoss::ANY;
    assert_eq!(ended(&mut b), [(b"two".to_vec(), loss)]);
    assert_eq!((b.buffer.stats().trace_writer_packet_loss, b.sequence(1).packets_broken), (1, 0));
}

#[test]
fn a_packet_whose_end_never_comes_is_given_up_also_with_nothing_behind_it() {
    let middle = |chunk_id, flags| Sent::new(chunk_id, &[packet(b"some")]).flags(flags);
    let nothing = |chunk_id| Sent::new(chunk_id, &[]);
    for rest in [
        &[][..],
        &[middle(1, PREV | NEXT)],
        &[nothing(1), nothing(2)],
        &[middle(1, PREV | NEXT), nothing(2)],
        // Scraped before there was a whole fragment in it.
        &[middle(1, PREV).scraped()],
        &[middle(1, PREV | NEXT), middle(2, PREV).scraped()],
        // The same for a chunk that has nothing to do with the packet, as a hostile producer may claim.
        &[nothing(1).scraped()],
        &[middle(1, NEXT).scraped()],
        &[middle(1, PREV | NEXT), nothing(2), nothing(3).scraped()],
    ] {
        let mut b = bench();
        b.commit(middle(0, NEXT));
        for sent in rest {
            b.commit(sent.clone());
        }
        assert_eq!((b.read(), ended(&mut b)), (vec![], vec![]));
        assert_eq!(b.buffer.stats().trace_writer_packet_loss, 1);
    }
}

#[test]
fn a_packet_that_waits_for_patches_in_many_chunks_is_given_up_once() {
    let patched = ChunkFlags::NEEDS_PATCHING;
    for last in [PREV, PREV | NEXT, PREV | NEXT | patched] {
        let mut b = bench();
        for (chunk_id, flags) in
            [NEXT | patched, PREV | NEXT | patched, PREV | NEXT, last].into_iter().enumerate()
        {
            b.commit(Sent::new(chunk_id as u32, &[packet(b"some")]).flags(flags));
        }
        assert_eq!(ended(&mut b), []);
        let given_up = b.buffer.stats().trace_writer_packet_loss;
        assert_eq!((given_up, b.sequence(1).packets_broken), (1, 0), "{last:?}");
    }
    // A packet that begins after the end of another is a second one.
    let mut b = bench();
    b.commit(Sent::new(0, &[packet(b"some")]).flags(NEXT | patched));
    b.commit(Sent::new(1, &[packet(b"some"), packet(b"other")]).flags(PREV | NEXT | patched));
    assert_eq!(ended(&mut b), []);
    assert_eq!(b.buffer.stats().trace_writer_packet_loss, 2);
}

#[test]
fn a_packet_that_waits_for_a_patch_and_was_given_up_by_its_writer_counts_once() {
    for between in [&[][..], &[Sent::new(1, &[packet(b"some")]).flags(PREV | NEXT)], &[Sent::new(1, &[])]] {
        let mut b = bench();
        b.commit(Sent::new(0, &[packet(&[0; 4])]).flags(NEXT | ChunkFlags::NEEDS_PATCHING));
        for sent in between {
            b.commit(sent.clone());
        }
        b.commit(Sent::new(1 + between.len() as u32, &[aborted()]).flags(PREV));
        assert_eq!(b.stats().trace_writer_packet_loss, 1);
        assert_eq!(ended(&mut b), []);
        assert_eq!(b.stats().trace_writer_packet_loss, 1);
    }
}

#[test]
fn a_clone_that_waits_for_nothing_gives_what_lies_before_a_packet_that_is_being_written() {
    let mut b = bench();
    b.commit(Sent::new(0, &[packet(b"one"), packet(b"tw")]).flags(NEXT));
    let flags = PREV | NEXT | ChunkFlags::NEEDS_PATCHING;
    b.commit(Sent::new(1, &[packet(b"o"), packet(b"three"), packet(&[0; 4])]).flags(flags));
    b.commit(Sent::new(2, &[packet(b"four")]).flags(PREV | NEXT));
    assert_eq!(b.read(), whole(&[b"one"]));
    let mut clone = b.buffer.clone_read_only(vec![0; b.buffer.clone_size()]).expect("room");
    assert!(clone.read().next_packet().is_none());
    clone.stop_waiting();
    let mut reader = clone.read();
    for packet in [&b"two"[..], b"three"] {
        let read = reader.next_packet().expect("a packet");
        assert_eq!(
            (read.slices().collect::<Vec<_>>().concat(), read.loss()),
            (packet.to_vec(), DataLoss::empty())
        );
    }
    assert!(reader.next_packet().is_none());
    assert_eq!(clone.stats().trace_writer_packet_loss, 0);
    assert!(clone.sequences().all(|sequence| sequence.packets_broken == 0));
}

#[test]
fn how_a_scraped_chunk_ends_is_told_all_the_same() {
    let mut b = bench();
    b.commit(Sent::new(0, &[packet(b"one"), aborted(), packet(b"")]).scraped());
    b.buffer.end_producer(1);
    b.commit(Sent::new(1, &[packet(b"two")]));
    let loss = DataLoss::WRITER_ABORT | DataLoss::ANY;
    assert_eq!(b.read(), [(b"one".to_vec(), DataLoss::empty()), (b"two".to_vec(), loss)]);
}

#[test]
fn what_a_full_buffer_has_not_taken_was_not_given_up_by_its_writer() {
    let started = [
        Sent::new(0, &[packet(b"one"), packet(b"some")]).flags(NEXT),
        Sent::new(0, &[packet(b"one"), packet(&[0; 4])]).flags(NEXT | ChunkFlags::NEEDS_PATCHING),
        Sent::new(0, &[packet(b"one"), packet(b"some"), packet(b"")]).flags(NEXT).scraped(),
    ];
    for (sent, is_full) in started.iter().flat_map(|sent| [(sent, true), (sent, false)]) {
        let mut b = Bench::discard(256);
        b.commit(sent.clone());
        if is_full {
            assert_eq!(b.commit(Sent::new(1, &[packet(&[1; 200])]).flags(PREV)), Commit::Discarded);
        }
        assert_eq!(ended(&mut b).first(), Some(&(b"one".to_vec(), DataLoss::empty())));
        let stats = b.stats();
        let given_up = u64::from(!is_full && !sent.header().flags.is_empty() && sent.header().complete);
        assert_eq!((stats.chunks_discarded, stats.trace_writer_packet_loss), (u64::from(is_full), given_up));
    }
}

#[test]
fn the_place_of_a_scraped_chunk_that_was_read_is_free_again() {
    let mut b = bench();
    // More producers than the table has places.
    for producer in 1..=20 {
        b.commit(Sent::new(0, &[packet(b"one"), packet(b"not yet")]).producer(producer).scraped());
        assert_eq!(b.read(), whole(&[b"one"]));
        b.buffer.end_producer(producer);
    }
    let stats = b.buffer.stats();
    assert_eq!((stats.chunks_written, stats.chunks_refused, stats.trace_writer_packet_loss), (20, 0, 0));
}

#[test]
fn what_comes_all_the_same_is_taken() {
    let mut b = bench();
    let sent = || Sent::new(0, &[packet(b"one"), packet(b"two")]);
    b.commit(sent().scraped());
    b.buffer.end_producer(1);
    assert_eq!(b.commit(sent()), Commit::Rewritten);
    b.commit(Sent::new(1, &[packet(b"three")]));
    assert_eq!(b.read(), whole(&[b"one", b"two", b"three"]));
}

#[cfg(feature = "histograms")]
#[test]
fn a_chunk_that_is_cut_counts_with_the_size_that_is_left() {
    let mut b = Bench::new(small_table().histograms(true), 1024);
    b.commit(Sent::new(0, &[packet(b"one"), packet(&[0; 60])]).flags(NEXT));
    b.buffer.end_producer(1);
    let histogram = b.sequence(1).histogram.expect("one is kept");
    assert_eq!((histogram.counts[0], histogram.sums[0], histogram.counts.iter().sum::<u64>()), (1, 4, 1));
}

#[test]
fn places_that_a_forgotten_producer_had_are_given_out_first() {
    let mut b = bench();
    b.commit(Sent::new(0, &[packet(b"one")]));
    assert_eq!(b.read(), whole(&[b"one"]));
    for writer in 1..=3 {
        b.commit(Sent::new(0, &[packet(b"other")]).producer(2).writer(writer));
    }
    b.buffer.forget_producer(2);
    b.commit(Sent::new(0, &[packet(b"new")]).producer(3));
    // Nothing is missing before it: its sequence, which was read empty, still knows that.
    b.commit(Sent::new(1, &[packet(b"two")]));
    assert_eq!(b.read(), whole(&[b"new", b"two"]));
    assert!(b.buffer.check().is_ok());
}
