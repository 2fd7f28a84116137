//! Findings of fuzzing, each as the shortest way to show it.

use crate::bench::{Bench, NEXT, Notes, PREV, Sent, aborted, packet, whole};
use tracebuf::buffer::{ChunkFlags, Commit, DataLoss, Refusal};

#[test]
fn overwriting_a_chunk_without_fragments_that_claims_to_continue_loses_nothing() {
    for observed in [false, true] {
        let mut bench = Bench::ring(64);
        bench.commit(Sent::new(0, &[]).flags(ChunkFlags::CONTINUES_ON_NEXT));
        let next = Sent::new(1, &[packet(&[7; 30])]);
        let commit =
            if observed { bench.commit_observed(next, &mut Notes::new(0)) } else { bench.commit(next) };
        assert_eq!(commit, Commit::Written);
        assert_eq!(bench.sequence(1).packets_broken, 0, "observed: {observed}");
        assert_eq!(bench.read(), whole(&[&[7; 30]]), "observed: {observed}");
    }
}

#[test]
fn a_first_chunk_that_fits_without_the_slack_that_a_scrape_saw_is_no_gap() {
    let mut bench = Bench::ring(64);
    let chunk = Sent::new(1, &[packet(b"first"), packet(b"second")]);
    assert_eq!(bench.commit(chunk.clone().scraped().room(41)), Commit::Refused(Refusal::TooLarge));
    assert_eq!(bench.commit(chunk), Commit::Written);
    assert_eq!(bench.read(), whole(&[b"first", b"second"]));
}

#[test]
fn a_gap_before_a_packet_over_two_chunks_is_reported_once() {
    let mut bench = Bench::ring(1024);
    bench.commit(Sent::new(0, &[packet(b"before")]));
    bench.commit(Sent::new(2, &[packet(b"two chu")]).flags(ChunkFlags::CONTINUES_ON_NEXT));
    bench.commit(Sent::new(3, &[packet(b"nks")]).flags(ChunkFlags::CONTINUES_FROM_PREVIOUS));
    bench.commit(Sent::new(4, &[packet(b"behind")]));
    let gap = (b"two chunks".to_vec(), DataLoss::ANY | DataLoss::READ_GAP);
    let none = DataLoss::empty();
    assert_eq!(bench.read(), [(b"before".to_vec(), none), gap, (b"behind".to_vec(), none)]);
}

#[test]
fn a_lease_ends_when_a_chunk_from_shared_memory_was_copied_over_its_packet() {
    let mut bench = Bench::ring(96);
    bench.commit(Sent::new(0, &[packet(&[])]));
    bench.commit(Sent::new(1, &[packet(&[7; 39])]));
    let lease = bench.buffer.read().lease_packet().unwrap();
    assert_eq!(bench.buffer.leased(&lease).unwrap().slices().next(), Some(&[7; 39][..]));
    // 30 bytes are copied, none of them a fragment: the chunk takes less than was touched.
    let empty = Sent::new(0, &[]).writer(2);
    assert_eq!(bench.commit_with(empty, 30, |_, target| target.fill(0xFF)), Commit::Written);
    assert!(bench.buffer.leased(&lease).is_err());
}

#[test]
fn a_lease_that_ended_stays_ended_when_less_is_copied_next() {
    let mut bench = Bench::ring(192);
    bench.commit(Sent::new(0, &[packet(&[1; 71])]));
    bench.commit(Sent::new(1, &[packet(&[7; 39])]));
    assert_eq!(bench.buffer.read().next_packet().map(|packet| packet.len()), Some(71));
    let lease = bench.buffer.read().lease_packet().unwrap();
    assert!(bench.buffer.leased(&lease).is_ok());
    // Nothing of either is kept; the second is nowhere near the packet.
    for (chunk_id, size) in [(0, 120), (1, 0)] {
        let empty = Sent::new(chunk_id, &[]).writer(2);
        assert_eq!(bench.commit_with(empty, size, |_, target| target.fill(0xFF)), Commit::Written);
        assert!(bench.buffer.leased(&lease).is_err(), "after {size} bytes");
    }
}

#[test]
fn a_lease_outlasts_a_scraped_chunk_that_was_changed_and_is_too_short_to_be_moved() {
    let mut bench = Bench::ring(128);
    bench.commit(Sent::new(0, &[packet(&[7; 32])]));
    bench.commit(Sent::new(0, &[packet(b"x"), packet(b""), packet(&[1; 4])]).writer(2).scraped());
    let lease = bench.buffer.read().lease_packet().unwrap();
    assert_eq!(bench.read_of(2), whole(&[b"x"]));
    // Another fragment follows what was read, but the chunk as it now is ends where that fragment was.
    let changed = Sent::new(0, &[packet(b""), packet(b""), packet(b""), packet(b"")]).writer(2).declare(3);
    assert_eq!(bench.commit(changed), Commit::Rewritten);
    assert_eq!(bench.buffer.leased(&lease).unwrap().slices().next(), Some(&[7; 32][..]));
}

#[test]
fn the_commit_of_an_erased_scrape_adds_no_loss_once_a_later_chunk_was_read() {
    let mut bench = Bench::ring(160);
    let given_up = || [packet(b"first"), aborted()];
    bench.commit(Sent::new(0, &given_up()).scraped());
    assert_eq!(bench.read(), whole(&[b"first"]));
    // Another writer laps over the scraped chunk, all of which was read.
    bench.commit(Sent::new(0, &[packet(&[9; 90])]).writer(2));
    bench.commit(Sent::new(1, &[packet(&[9; 10])]).writer(2));
    bench.commit(Sent::new(1, &[packet(b"second"), packet(b"thi")]).flags(ChunkFlags::CONTINUES_ON_NEXT));
    let lost = DataLoss::ANY | DataLoss::OVERWRITE;
    assert_eq!(bench.read_of(1), [(b"second".to_vec(), lost)]);
    assert_eq!(bench.commit(Sent::new(0, &given_up())), Commit::Discarded);
    bench.commit(Sent::new(2, &[packet(b"rd")]).flags(ChunkFlags::CONTINUES_FROM_PREVIOUS));
    assert_eq!(bench.read_of(1), whole(&[b"third"]));
}

#[test]
fn where_the_chunk_erased_last_comes_back_the_order_of_those_behind_it_stays() {
    // The farthest that a chunk may be ahead, and beyond.
    let farthest = i32::MAX as u32 - 65_536;
    for ahead in [farthest - 1, farthest, farthest + 1, i32::MAX as u32, 1 << 31] {
        let mut bench = Bench::ring(1024);
        bench.commit(Sent::new(7, &[]));
        assert_eq!(bench.read(), []);
        let far = bench.commit(Sent::new(7_u32.wrapping_add(ahead), &[packet(b"far")]));
        let taken = ahead <= farthest;
        assert_eq!(far, if taken { Commit::Written } else { Commit::Discarded }, "{ahead}");
        assert_eq!(bench.commit(Sent::new(7, &[packet(b"again")])), Commit::Written);
        bench.buffer.check().expect("a sound buffer");
        let packets: Vec<_> = bench.read().into_iter().map(|(packet, _)| packet).collect();
        let expected: &[&[u8]] = if taken { &[b"again", b"far"] } else { &[b"again"] };
        assert_eq!(packets, expected, "{ahead}");
    }
}

#[test]
fn a_chunk_that_had_only_empty_packets_more_and_cannot_be_moved_is_no_loss() {
    // Out of order: making room for the first takes the second along. An end without a beginning cannot be read, but is
    // a loss.
    let orphan = DataLoss::ANY | DataLoss::ORPHAN_CONTINUATION;
    let none = DataLoss::empty();
    for (flags, read, before) in [(ChunkFlags::empty(), whole(&[&[1; 60]]), none), (PREV, vec![], orphan)] {
        for (more, lost) in [(&b""[..], none), (b"more", DataLoss::ANY | DataLoss::OVERWRITE)] {
            let mut bench = Bench::ring(256);
            let second = || Sent::new(1, &[packet(&[2; 60])]);
            let first = || Sent::new(0, &[packet(&[1; 60]), packet(more), packet(b"")]).flags(flags);
            bench.commit(second());
            bench.commit(first().declare(2).scraped());
            assert_eq!(bench.read_of(1), read);
            bench.commit(Sent::new(0, &[packet(&[9; 50])]).writer(2));
            assert_eq!(bench.commit(first()), Commit::Discarded);
            assert_eq!(bench.commit(second()), Commit::Written);
            assert_eq!(bench.read_of(1), [(vec![2; 60], before | lost)]);
        }
    }
}

#[test]
fn a_packet_whose_beginning_comes_back_before_its_middle_is_not_told_as_lost() {
    for (observed, fragments) in [(false, 2), (true, 2), (false, 1), (true, 1)] {
        let mut bench = Bench::ring(192);
        let begin = [packet(b"first"), packet(b"be")][2 - fragments..].to_vec();
        let begin = || Sent::new(0, &begin).flags(NEXT);
        bench.commit(begin());
        bench.commit(Sent::new(0, &[packet(&[9; 80])]).writer(2));
        bench.commit(Sent::new(2, &[packet(b"ning")]).flags(PREV));
        // The other writer laps over the first chunk, after which one is missing.
        let lap = Sent::new(1, &[packet(&[9; 20])]).writer(2);
        let lap = if observed { bench.commit_observed(lap, &mut Notes::new(0)) } else { bench.commit(lap) };
        assert_eq!(lap, Commit::Written);
        assert_eq!(bench.sequence(1).packets_broken, 1);
        bench.commit(Sent::new(1, &[packet(b"gin")]).flags(PREV | NEXT));
        assert_eq!(bench.commit(begin()), Commit::Written);
        assert_eq!(bench.read_of(1), whole(&[&b"first"[..], b"beginning"][2 - fragments..]));
        assert_eq!(bench.sequence(1).packets_broken, 0);
    }
}

#[test]
fn a_chunk_older_than_all_others_that_finds_no_place_is_told_before_what_is_kept_of_these() {
    for keeps in [false, true] {
        let mut bench = Bench::ring(256);
        bench.commit(Sent::new(1, &[packet(&[1; 50])]));
        bench.commit(Sent::new(2, &[packet(&[2; 50])]));
        bench.commit(Sent::new(0, &[packet(&[9; 60])]).writer(2));
        let mut notes = Notes::new(1);
        let late = Sent::new(0, &[packet(&[0; 45])]);
        let late = if keeps { bench.commit_observed(late, &mut notes) } else { bench.commit(late) };
        assert_eq!(late, Commit::Discarded);
        // The loss comes with the first packet kept, or with the first one read if none was kept.
        let (lost, none) = (DataLoss::ANY | DataLoss::OVERWRITE, DataLoss::empty());
        assert_eq!(notes.shown, if keeps { vec![(vec![1; 50], lost)] } else { vec![] });
        assert_eq!(bench.read_of(1), [(vec![2; 50], if keeps { none } else { lost })]);
        bench.commit(Sent::new(3, &[packet(b"behind")]));
        assert_eq!(bench.read_of(1), whole(&[b"behind"]));
    }
}

#[test]
fn a_chunk_older_than_all_others_that_is_too_large_is_told_and_one_that_is_stored_is_not() {
    for (size, outcome) in [(100, Commit::Written), (300, Commit::Refused(Refusal::TooLarge))] {
        let mut bench = Bench::ring(256);
        bench.commit(Sent::new(1, &[packet(b"first")]));
        assert_eq!(bench.commit(Sent::new(0, &[packet(&vec![0; size])])), outcome);
        bench.commit(Sent::new(2, &[packet(b"second")]));
        let told = match outcome {
            Commit::Written => DataLoss::empty(),
            _ => DataLoss::ANY | DataLoss::OVERWRITE,
        };
        let mut packets = bench.read();
        packets.retain(|(packet, _)| packet.len() < 100);
        assert_eq!(packets, [(b"first".to_vec(), told), (b"second".to_vec(), DataLoss::empty())]);
    }
}
