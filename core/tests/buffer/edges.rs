//! Edges that random work rarely reaches: each is a change to the code that no other test noticed.

use crate::bench::{Bench, NEXT, PREV, Sent, aborted, packet, whole};
use tracebuf::buffer::{
    AttachError, Chunk, ChunkHeader, Commit, Config, DataLoss, FillPolicy, Refusal, RingContent, RingView,
    TraceBuffer,
};
use tracebuf::proto::{TraceFileFault, TracePackets};

#[test]
fn a_packet_s_chunks_may_have_empty_ones_between_them() {
    let mut b = Bench::ring(1024);
    b.commit(Sent::new(0, &[packet(b"one packet ")]).flags(NEXT));
    b.commit(Sent::new(1, &[]));
    b.commit(Sent::new(2, &[]));
    b.commit(Sent::new(3, &[packet(b"in two parts"), packet(b"another")]).flags(PREV));
    assert_eq!(b.read(), whole(&[b"one packet in two parts", b"another"]));
    assert_eq!(b.sequence(1).packets_broken, 0);
}

#[test]
fn a_chunk_that_just_fits_is_stored_also_where_full_buffers_discard() {
    let mut b = Bench::discard(128);
    for id in 0..2 {
        // 24 bytes of header, one of size.
        assert_eq!(b.commit(Sent::new(id, &[packet(&[id as u8; 39])])), Commit::Written);
    }
    assert_eq!(b.commit(Sent::new(2, &[packet(b"")])), Commit::Discarded);
    assert_eq!(b.read(), whole(&[&[0; 39], &[1; 39]]));
}

#[test]
fn a_chunk_older_than_its_sequence_that_finds_no_room_is_told_also_where_full_buffers_discard() {
    for sealed_before in [false, true] {
        let mut b = Bench::discard(256);
        b.commit(Sent::new(1, &[packet(b"second")]));
        if sealed_before {
            b.commit(Sent::new(0, &[packet(&[9; 230])]).writer(2));
        }
        assert_eq!(b.commit(Sent::new(0, &[packet(&[0; 219])])), Commit::Discarded);
        assert_eq!(b.read(), [(b"second".to_vec(), DataLoss::ANY | DataLoss::OVERWRITE)]);
    }
    // With room for it nothing is lost.
    let mut b = Bench::discard(256);
    b.commit(Sent::new(1, &[packet(b"second")]));
    b.commit(Sent::new(0, &[packet(b"first")]));
    assert_eq!(b.read(), whole(&[b"first", b"second"]));
}

#[test]
fn what_was_before_a_sequence_s_first_chunk_is_told_also_when_that_comes_back() {
    let first = || Sent::new(1, &[packet(b"second"), packet(b"and more")]);
    let mut b = Bench::ring(128);
    b.commit(Sent::new(1, &[packet(b"second"), packet(&[0; 40])]).scraped());
    b.commit(Sent::new(0, &[packet(&[9; 63])]).writer(2));
    // Too late: the one after it is already gone.
    assert_eq!(b.commit(Sent::new(0, &[packet(b"first")])), Commit::Discarded);
    assert_eq!(b.commit(first()), Commit::Written);
    let told = (b"second".to_vec(), DataLoss::ANY | DataLoss::OVERWRITE);
    assert_eq!(b.read_of(1), [told, (b"and more".to_vec(), DataLoss::empty())]);
    // With the one after it back, unread, it is in time.
    let mut b = Bench::ring(128);
    b.commit(Sent::new(1, &[packet(b"second"), packet(&[0; 40])]).scraped());
    b.commit(Sent::new(0, &[packet(&[9; 63])]).writer(2));
    b.commit(first());
    assert_eq!(b.commit(Sent::new(0, &[packet(b"first")])), Commit::Written);
    assert_eq!(b.read_of(1), whole(&[b"first", b"second", b"and more"]));
}

#[test]
fn what_was_before_a_sequence_s_first_chunk_is_told_by_none_that_it_was_not_before() {
    let first = || Sent::new(2, &[packet(b"third"), packet(b"and more")]);
    let begun = || Sent::new(2, &[packet(b"third"), packet(&[0; 40])]).scraped();
    let second = || Sent::new(1, &[packet(b"second")]);
    let filler = || Sent::new(0, &[packet(&[9; 63])]).writer(2);
    // One of its packets is out already: after that packet nothing is missing.
    let mut b = Bench::ring(128);
    b.commit(begun());
    assert_eq!(b.read(), whole(&[b"third"]));
    b.commit(filler());
    assert_eq!(b.commit(second()), Commit::Discarded);
    assert_eq!(b.commit(first()), Commit::Written);
    assert_eq!(b.read_of(1), whole(&[b"and more"]));
    // A chunk that is older still is late as well: it would have to report what was lost after it.
    let mut b = Bench::ring(128);
    b.commit(begun());
    b.commit(filler());
    assert_eq!(b.commit(second()), Commit::Discarded);
    assert_eq!(b.commit(first()), Commit::Written);
    assert_eq!(b.commit(Sent::new(0, &[packet(b"first")])), Commit::Discarded);
    assert_eq!(b.commit(second()), Commit::Discarded);
    let told = (b"third".to_vec(), DataLoss::ANY | DataLoss::OVERWRITE);
    assert_eq!(b.read_of(1), [told, (b"and more".to_vec(), DataLoss::empty())]);
}

#[test]
fn a_sequence_s_first_chunk_that_does_not_fit_is_told_by_the_one_behind_it() {
    let gap = DataLoss::ANY | DataLoss::READ_GAP;
    let mut b = Bench::ring(128);
    assert_eq!(b.commit(Sent::new(0, &[packet(&[0; 120])])), Commit::Refused(Refusal::TooLarge));
    b.commit(Sent::new(1, &[packet(b"second")]));
    assert_eq!(b.read(), [(b"second".to_vec(), gap)]);
    // Nothing is missing before a sequence's very first chunk.
    let mut b = Bench::ring(128);
    assert_eq!(b.commit(Sent::new(0, &[packet(&[0; 120])])), Commit::Refused(Refusal::TooLarge));
    b.commit(Sent::new(0, &[packet(b"first")]));
    assert_eq!(b.read(), whole(&[b"first"]));
}

#[test]
fn an_empty_packet_whose_beginning_is_evicted_is_no_loss() {
    let mut b = Bench::ring(256);
    b.commit(Sent::new(0, &[packet(b"")]).flags(NEXT));
    b.commit(Sent::new(1, &[packet(b""), packet(b"next")]).flags(PREV));
    b.commit(Sent::new(0, &[packet(&[9; 170])]).writer(2));
    // Only the first has to go for this one.
    b.commit(Sent::new(1, &[packet(b"x")]).writer(2));
    assert_eq!(b.stats().chunks_overwritten, 1);
    assert_eq!(b.read_of(1), whole(&[b"next"]));
}

#[test]
fn the_same_bytes_again_change_nothing_and_count_nothing_whatever_they_declare() {
    let mut b = Bench::ring(256);
    b.commit(Sent::new(0, &[packet(b"one")]));
    assert_eq!(b.commit(Sent::new(0, &[packet(b"one")]).declare(2)), Commit::Unchanged);
    b.commit(Sent::new(1, &[packet(b"two")]));
    assert_eq!(b.stats().abi_violations, 0);
    assert_eq!(b.read(), whole(&[b"one", b"two"]));
}

#[test]
fn a_broken_packet_that_its_writer_gave_up_behind_an_empty_chunk_is_not_counted_as_broken() {
    let mut b = Bench::ring(128);
    b.commit(Sent::new(0, &[packet(b"never ended")]).flags(NEXT));
    // Overwritten while its end is still to come.
    b.commit(Sent::new(0, &[packet(&[1; 60])]).writer(2));
    b.commit(Sent::new(1, &[packet(&[1; 60])]).writer(2));
    assert_eq!(b.sequence(1).packets_broken, 1);
    // Then its writer says that it had given up the packet.
    b.commit(Sent::new(1, &[]));
    b.commit(Sent::new(2, &[aborted()]).flags(PREV));
    b.read();
    assert_eq!(b.sequence(1).packets_broken, 0);
}

#[test]
#[cfg_attr(miri, ignore = "tens of thousands of packets, and nothing unsafe")]
fn as_many_packets_as_a_chunk_can_hold_are_taken_back_when_it_comes_again_but_for_one() {
    const WHOLE: usize = 32_767;
    let mut b = Bench::ring(70_000);
    let mut frags = vec![packet(b"x"); WHOLE];
    frags.push(packet(b""));
    let begin = || Sent::new(0, &frags).flags(NEXT);
    assert_eq!(b.commit(begin()), Commit::Written);
    // Between the two, so that the first can come back and leaves the second where it is.
    b.commit(Sent::new(0, &[packet(&[8; 39])]).writer(3));
    b.commit(Sent::new(1, &[packet(b"end"), packet(b"more")]).flags(PREV));
    for id in 0.. {
        b.commit(Sent::new(id, &[packet(b"y")]).writer(2));
        if b.stats().chunks_overwritten > 0 {
            break;
        }
    }
    // Including the one that goes on in the second chunk.
    assert_eq!((b.stats().chunks_overwritten, b.sequence(1).packets_evicted), (1, WHOLE as u64 + 1));
    assert_eq!(b.commit(begin()), Commit::Written);
    // The packets that went with a chunk are counted in 15 bits.
    assert_eq!(b.sequence(1).packets_evicted, 1);
    let read = b.read_of(1);
    assert_eq!(read.len(), WHOLE + 2);
    assert!(read.iter().all(|(_, loss)| loss.is_empty()));
}

#[test]
fn a_packet_is_copied_whole_or_not_at_all() {
    let mut b = Bench::ring(256);
    b.commit(Sent::new(0, &[packet(b"four")]));
    let mut reader = b.buffer.read();
    let found = reader.next_packet().expect("a packet");
    let mut target = [0; 5];
    assert_eq!((found.copy_to(&mut target[..3]), target), (None, [0; 5]));
    assert_eq!((found.copy_to(&mut target), &target), (Some(4), b"four\0"));
}

#[test]
fn what_is_no_region_and_what_is_no_trace_is_said_to_be_none() {
    assert_eq!(RingView::find(&[0; 1024]).err(), Some(AttachError::NoRegion));
    let error = TracePackets::new(&[0x80]).next().expect("an error").expect_err("half a tag");
    assert_eq!((error.fault, error.offset), (TraceFileFault::Truncated, 0));
}

#[test]
fn gaps_and_the_ring_s_place_are_told_of_memory_as_it_was_found() {
    let config = Config::new(FillPolicy::RingBuffer).sequences(4);
    let mut buffer = TraceBuffer::new(vec![0u8; 1024], config).expect("a region");
    let chunk = |chunk_id, payload| Chunk {
        header: ChunkHeader { producer_id: 1, chunk_id, fragments: 1, ..ChunkHeader::default() },
        payload,
    };
    buffer.copy_chunk_untrusted(&chunk(0, b"\x05hello"));
    buffer.copy_chunk_untrusted(&chunk(1, b"\x06chunks"));
    let mut reader = buffer.read();
    assert!(reader.next_packet().is_some_and(|packet| packet.len() == 5 && !packet.is_empty()));
    assert!(reader.next_packet().is_some_and(|packet| packet.len() == 6));
    assert!(reader.next_packet().is_none());
    buffer.copy_chunk_untrusted(&chunk(2, b"\x04more"));
    let sizes: Vec<_> = buffer.inspect().items().map(|item| (item.offset, item.size)).collect();
    let memory = buffer.into_memory();
    let start = memory.windows(4).position(|bytes| bytes == RingView::MAGIC).expect("a region");
    let ring = RingView::place(&memory[start..]).expect("that of the region");
    // Whole words, wherever the allocator has put the bytes.
    assert_eq!((ring.start as u64, ring.end), (config.region_size(0), (memory.len() - start) & !3));
    let gap = |offset: u32| {
        let at = start + ring.start + offset as usize;
        RingContent::of_gap(*memory[at..].first_chunk().expect("a word"))
    };
    let ((chunk, _), gaps) = sizes.split_last().expect("the last chunk, and before it what was read");
    assert!(!gaps.is_empty() && gap(*chunk).is_none());
    assert!(gaps.iter().all(|(offset, size)| gap(*offset) == Some((RingContent::Free, *size))));
    // No such gap is in a sound ring.
    assert_eq!(RingContent::of_gap([0, 0, 0, 0x80]), None);
    assert_eq!(RingView::place(&memory[start + 4..]), Err(AttachError::NoRegion));
    assert_eq!(RingView::place(&memory[start..start + 255]), Err(AttachError::NoRegion));
}

#[test]
fn a_region_takes_what_its_parts_take() {
    let config = Config::new(FillPolicy::RingBuffer).sequences(10);
    assert_eq!(config.region_size(1000), 256 + 10 * 48 + 1000);
    #[cfg(feature = "histograms")]
    assert_eq!(config.histograms(true).region_size(1000), 256 + 10 * (48 + 176) + 1000);
}

#[test]
fn a_chunk_may_take_the_whole_ring() {
    let mut b = Bench::ring(128);
    b.commit(Sent::new(0, &[packet(&[0; 30])]));
    for id in 1..3 {
        assert_eq!(b.commit(Sent::new(id, &[packet(&[id as u8; 103])])), Commit::Written);
    }
    assert_eq!(b.commit(Sent::new(3, &[packet(&[3; 104])])), Commit::Refused(Refusal::TooLarge));
    let read = b.read();
    assert_eq!(read.len(), 1);
    assert_eq!(b.buffer.stats().bytes_overwritten, 24 + 31 + 1 + 128);
}

#[test]
fn a_chunk_that_comes_back_from_changing_memory_is_judged_by_what_was_copied() {
    let fragments = [packet(b"one"), packet(b"two"), packet(b"three")];
    let full = fragments.concat();
    // The third packet's size goes beyond the chunk; the first one's takes in the second.
    let (mut shorter, other) = (full.clone(), [packet(&[0; 9]), packet(&[0; 3])].concat());
    shorter[8] = 0x7F;
    for (copied, outcome) in
        [(shorter, Commit::Discarded), (other, Commit::Refused(Refusal::ChangesFragments))]
    {
        let mut b = Bench::ring(128);
        b.commit(Sent::new(0, &fragments).scraped());
        assert_eq!(b.read(), whole(&[b"one", b"two"]));
        for id in 0..2 {
            b.commit(Sent::new(id, &[packet(&[1; 60])]).writer(2));
        }
        // When asked for size fields first, it is as it was.
        let commit = b.commit_with(Sent::new(0, &fragments), full.len(), |offset, target| {
            let bytes = if target.len() == full.len() { &copied } else { &full };
            target.copy_from_slice(&bytes[offset..][..target.len()]);
        });
        assert_eq!(commit, outcome);
    }
}

#[test]
fn a_chunk_whose_time_is_over_while_it_is_moved_is_a_loss() {
    let mut b = Bench::ring(128);
    // Out of order: an empty chunk lies where the ring goes on, and before it in the sequence there is one that was
    // scraped.
    b.commit(Sent::new(1, &[]));
    b.commit(Sent::new(0, &[packet(b"one"), packet(b"two")]).scraped());
    assert_eq!(b.read(), whole(&[b"one"]));
    b.commit(Sent::new(0, &[packet(&[7; 47])]).writer(2));
    // It has grown and would move to the cursor, but the empty one, which is newer, has to go for that.
    assert_eq!(b.commit(Sent::new(0, &[packet(b"one"), packet(b"two")])), Commit::Discarded);
    b.commit(Sent::new(2, &[packet(b"three")]));
    assert_eq!(b.read_of(1), [(b"three".to_vec(), DataLoss::ANY | DataLoss::OVERWRITE)]);
}

#[test]
fn a_packet_that_its_writer_gave_up_is_not_counted_as_broken_before_its_end_is_seen_either() {
    let mut b = Bench::ring(128);
    b.commit(Sent::new(0, &[packet(b"never ended")]).flags(NEXT));
    b.commit(Sent::new(1, &[aborted()]).flags(PREV));
    b.commit(Sent::new(0, &[packet(&[1; 43])]).writer(2));
    // Only the first has to go for this one.
    b.commit(Sent::new(1, &[packet(b"x")]).writer(2));
    assert_eq!((b.stats().chunks_overwritten, b.sequence(1).packets_broken), (1, 0));
}

#[test]
fn a_look_at_the_ring_tells_its_size_where_the_next_chunk_goes_and_whether_it_is_full() {
    let mut b = Bench::discard(128);
    let look = |b: &Bench| {
        let ring = b.buffer.inspect();
        (ring.size(), ring.used(), ring.write_cursor(), ring.is_sealed())
    };
    assert_eq!(look(&b), (128, 0, 0, false));
    for (id, expected) in [(0, (128, 64, 64, false)), (1, (128, 128, 128, false)), (2, (128, 128, 128, true))]
    {
        b.commit(Sent::new(id, &[packet(&[7; 39])]));
        assert_eq!(look(&b), expected);
    }
}

#[test]
#[cfg(feature = "crc")]
fn the_largest_payload_leaves_room_for_the_checksum() {
    for (crc, most) in [(false, 65_535), (true, 65_531)] {
        let mut b = Bench::new(Config::new(FillPolicy::RingBuffer).sequences(4).crc(crc), 1 << 17);
        for (id, size) in [(0, most), (1, most + 1)] {
            // A size of three bytes.
            let outcome = b.commit(Sent::new(id, &[packet(&vec![7; size - 3])]));
            let fits = size <= most;
            assert_eq!(outcome, if fits { Commit::Written } else { Commit::Refused(Refusal::TooLarge) });
        }
        assert_eq!(b.read().len(), 1);
    }
}
