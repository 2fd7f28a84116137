//! Faults of Perfetto's own buffer that this one must not have: at least one test for each.

use crate::bench::{Bench, NEXT, Notes, PREV, Sent, aborted, packet, patch, small_table, whole};
use tracebuf::buffer::{ChunkFlags, Commit, DataLoss, Refusal};

// 1. Corrupt packets.

#[test]
fn a_scraped_chunk_without_a_finished_fragment_stalls_the_packet_it_is_the_middle_of() {
    let mut b = Bench::ring(4096);
    b.commit(Sent::new(0, &[packet(b"begin")]).flags(NEXT));
    b.commit(Sent::new(1, &[packet(b"stale")]).flags(PREV).scraped().room(40));
    b.commit(Sent::new(2, &[packet(b"end")]).flags(PREV));
    assert_eq!(b.read(), whole(&[]));
    b.commit(Sent::new(1, &[packet(b"-middle-")]).flags(PREV | NEXT));
    assert_eq!(b.read(), [(b"begin-middle-end".to_vec(), DataLoss::empty())]);
}

#[test]
fn a_truncated_chunk_without_a_fragment_breaks_the_packet_it_is_the_middle_of() {
    let mut b = Bench::ring(4096);
    b.commit(Sent::new(0, &[packet(b"begin")]).flags(NEXT));
    b.commit(Sent::new(1, &[b"\x7Fbeyond the chunk".to_vec()]).flags(PREV | NEXT));
    b.commit(Sent::new(2, &[packet(b"end"), packet(b"whole")]).flags(PREV));
    let (bytes, loss) = b.read().pop().expect("the packet behind");
    assert_eq!(bytes, b"whole");
    assert!(loss.contains(DataLoss::REASSEMBLY_BROKEN_CHAIN | DataLoss::CHUNK_CORRUPTED), "{loss}");
    assert_eq!(b.sequence(1).packets_broken, 1);
}

#[test]
fn the_last_whole_packet_of_a_truncated_chunk_is_no_beginning() {
    let mut b = Bench::ring(4096);
    b.commit(Sent::new(0, &[packet(b"one"), b"\x7Fcut".to_vec()]).flags(NEXT));
    b.commit(Sent::new(1, &[packet(b"end")]).flags(PREV));
    assert_eq!(b.read(), [(b"one".to_vec(), DataLoss::empty())]);
}

#[test]
fn an_incomplete_packet_that_is_overwritten_counts_as_lost() {
    let mut b = Bench::ring(256);
    b.commit(Sent::new(0, &[packet(&[1; 40])]).flags(NEXT));
    b.commit(Sent::new(1, &[packet(&[2; 40])]).flags(PREV).scraped());
    for id in 0..4 {
        b.commit(Sent::new(id, &[packet(&[3; 60])]).writer(2));
    }
    b.commit(Sent::new(2, &[packet(b"after")]));
    let of_one: Vec<_> = b.read_all().into_iter().filter(|p| p.writer == 1).collect();
    assert_eq!(of_one.len(), 1);
    assert!(of_one[0].loss.contains(DataLoss::OVERWRITE), "{}", of_one[0].loss);
    assert_eq!(b.sequence(1).packets_broken, 1);
}

// 2. Re-admission forgets.

#[test]
fn what_was_not_read_of_an_evicted_scrape_comes_back_with_its_commit_and_is_no_loss() {
    let mut b = Bench::ring(256);
    let (one, two, three) = (packet(b"one"), packet(b"two"), packet(b"three"));
    b.commit(Sent::new(0, &[one.clone(), two.clone(), packet(b"stale")]).scraped());
    assert_eq!(b.read_some(1), [(b"one".to_vec(), DataLoss::empty())]);
    for id in 0..4 {
        b.commit(Sent::new(id, &[packet(&[3; 60])]).writer(2));
    }
    assert_eq!(b.sequence(1).packets_evicted, 1);
    assert_eq!(b.commit(Sent::new(0, &[one, two, three])), Commit::Written);
    assert_eq!(b.sequence(1).packets_evicted, 0);
    b.commit(Sent::new(1, &[packet(b"four")]));
    let expected = [&b"two"[..], b"three", b"four"];
    assert_eq!(b.read_of(1), expected.map(|bytes| (bytes.to_vec(), DataLoss::empty())));
}

#[test]
fn a_commit_that_has_no_more_than_was_read_of_the_evicted_scrape_leaves_no_loss() {
    let mut b = Bench::ring(256);
    b.commit(Sent::new(0, &[packet(b"one"), vec![]]).scraped());
    assert_eq!(b.read().len(), 1);
    for id in 0..4 {
        b.commit(Sent::new(id, &[packet(&[3; 60])]).writer(2));
    }
    assert_eq!(b.commit(Sent::new(0, &[packet(b"one")])), Commit::Discarded);
    b.commit(Sent::new(1, &[packet(b"two")]));
    assert_eq!(b.read_of(1), [(b"two".to_vec(), DataLoss::empty())]);
}

#[test]
fn nothing_is_evicted_for_empty_packets_behind_what_was_read() {
    let scraped = |id, text: &[u8]| Sent::new(id, &[packet(text), vec![1]]).scraped().room(64);
    // The size as our writers write it, as a writer that had reserved four bytes does, and more than one size.
    for empty in [&[vec![0]][..], &[vec![0x80, 0x80, 0x80, 0]], &[vec![0], vec![0x80, 0], vec![0]]] {
        let completed = Sent::new(0, &[&[packet(b"read")], empty].concat());
        for shared in [false, true] {
            let mut b = Bench::ring(96);
            b.commit(scraped(0, b"read"));
            assert_eq!(b.read(), whole(&[b"read"]));
            b.commit(scraped(1, b"not read"));
            let completed = completed.clone();
            let outcome = if shared { b.commit_shared(completed) } else { b.commit(completed) };
            assert_eq!(outcome, Commit::Discarded);
            // The newer one is still there to be completed.
            let completed = b.commit(Sent::new(1, &[packet(b"not read"), packet(b"nor this")]));
            assert_eq!(completed, Commit::Rewritten);
            assert_eq!(b.read(), whole(&[b"not read", b"nor this"]));
        }
    }
}

#[test]
fn a_packet_that_begins_with_no_byte_behind_what_was_read_comes_back() {
    let mut b = Bench::ring(256);
    b.commit(Sent::new(0, &[packet(b"read"), vec![1]]).scraped());
    assert_eq!(b.read(), whole(&[b"read"]));
    for id in 0..4 {
        b.commit(Sent::new(id, &[packet(&[3; 60])]).writer(2));
    }
    assert_eq!(b.commit(Sent::new(0, &[packet(b"read"), vec![0]]).flags(NEXT)), Commit::Written);
    b.commit(Sent::new(1, &[packet(b"goes on")]).flags(PREV));
    assert_eq!(b.read_of(1), [(b"goes on".to_vec(), DataLoss::empty())]);
}

#[test]
fn an_evicted_scrape_whose_commit_never_comes_is_a_loss() {
    let mut b = Bench::ring(256);
    b.commit(Sent::new(0, &[packet(b"one"), vec![]]).scraped());
    assert_eq!(b.read().len(), 1);
    for id in 0..4 {
        b.commit(Sent::new(id, &[packet(&[3; 60])]).writer(2));
    }
    b.commit(Sent::new(1, &[packet(b"two")]));
    assert_eq!(b.read_of(1), [(b"two".to_vec(), DataLoss::ANY | DataLoss::OVERWRITE)]);
}

#[test]
fn a_chunk_evicted_with_the_packet_that_goes_on_behind_it_comes_back_and_the_packet_too() {
    let first = || Sent::new(0, &[packet(b"first"), packet(b"be")]).flags(NEXT);
    for keep in [0, 1] {
        let mut b = Bench::ring(256);
        let mut notes = Notes::new(keep);
        b.commit(first());
        b.commit(Sent::new(0, &[packet(&[9; 75])]).writer(2));
        b.commit(Sent::new(1, &[packet(b"gin"), packet(b"last")]).flags(PREV));
        b.commit(Sent::new(1, &[packet(&[9; 59])]).writer(2));
        b.commit_observed(Sent::new(2, &[packet(&[9; 11])]).writer(2), &mut notes);
        let shown: Vec<_> = notes.shown.iter().map(|(bytes, _)| bytes.as_slice()).collect();
        assert_eq!(shown, [&b"first"[..], b"begin"]);
        // As if it was scraped first, and is now committed; what an observer has kept must not come again.
        let (outcome, read) = match keep {
            0 => (Commit::Written, whole(&[b"first", b"begin", b"last"])),
            _ => (Commit::Discarded, whole(&[b"last"])),
        };
        assert_eq!(b.commit(first()), outcome);
        assert_eq!(b.read_of(1), read);
        assert_eq!((b.sequence(1).packets_evicted, b.sequence(1).packets_broken), (0, 0));
    }
}

// 3. Silent truncation.

#[test]
fn the_packet_after_a_malformed_chunk_says_so() {
    let mut b = Bench::ring(4096);
    b.commit(Sent::new(0, &[packet(b"good"), b"\x7Fbad".to_vec()]));
    b.commit(Sent::new(1, &[packet(b"next")]));
    b.commit(Sent::new(2, &[packet(b"last")]));
    let corrupted = DataLoss::ANY | DataLoss::CHUNK_CORRUPTED;
    let expected = [(&b"good"[..], DataLoss::empty()), (b"next", corrupted), (b"last", DataLoss::empty())];
    assert_eq!(b.read(), expected.map(|(bytes, loss)| (bytes.to_vec(), loss)));
    assert_eq!(b.stats().abi_violations, 1);
    assert_eq!(b.sequence(1).chunks_malformed, 1);
}

#[test]
fn a_chunk_that_declares_more_fragments_than_it_has_says_so() {
    let mut b = Bench::ring(4096);
    b.commit(Sent::new(0, &[packet(b"good")]).declare(3));
    b.commit(Sent::new(1, &[packet(b"next")]));
    let corrupted = DataLoss::ANY | DataLoss::CHUNK_CORRUPTED;
    assert_eq!(b.read(), [(b"good".to_vec(), DataLoss::empty()), (b"next".to_vec(), corrupted)]);
}

// 4. False losses.

#[test]
fn a_gap_that_was_seen_but_not_passed_and_is_filled_later_is_no_loss() {
    let mut b = Bench::ring(4096);
    b.commit(Sent::new(0, &[packet(b"zero")]));
    b.commit(Sent::new(2, &[packet(b"stale")]).scraped().room(40));
    assert_eq!(b.read(), whole(&[b"zero"]), "chunk 2 has nothing to be read yet");
    b.commit(Sent::new(1, &[packet(b"one")]));
    b.commit(Sent::new(2, &[packet(b"two")]));
    assert_eq!(b.read(), whole(&[b"one", b"two"]));
}

#[test]
fn an_abort_is_reported_behind_the_hole_and_not_before_it() {
    let mut b = Bench::ring(4096);
    b.commit(Sent::new(0, &[packet(b"before"), b"\xFF\xFF\xFF\x7F".to_vec()]));
    b.commit(Sent::new(1, &[packet(b"after")]));
    let abort = DataLoss::ANY | DataLoss::WRITER_ABORT;
    assert_eq!(b.read(), [(b"before".to_vec(), DataLoss::empty()), (b"after".to_vec(), abort)]);
    assert_eq!(b.stats().trace_writer_packet_loss, 1);
    assert_eq!(b.stats().abi_violations, 0);
}

#[test]
fn an_abort_in_a_chunk_that_was_evicted_and_comes_back_is_counted_once() {
    let sent = || Sent::new(0, &[packet(b"kept"), aborted()]);
    let mut b = Bench::new(small_table(), 128);
    // A scrape finds it complete; it is overwritten before its commit comes.
    assert_eq!(b.commit(sent()), Commit::Written);
    for chunk_id in 0..3 {
        b.commit(Sent::new(chunk_id, &[packet(&[0; 30])]).writer(2));
    }
    assert_eq!(b.commit(sent()), Commit::Written);
    assert_eq!(b.stats().trace_writer_packet_loss, 1);
}

#[test]
fn a_gap_is_reported_once_and_by_the_first_packet_behind_it() {
    let mut b = Bench::ring(4096);
    b.commit(Sent::new(7, &[packet(b"first")]));
    b.commit(Sent::new(9, &[packet(b"behind"), packet(b"more")]));
    let gap = DataLoss::ANY | DataLoss::READ_GAP;
    let expected = [(&b"first"[..], DataLoss::empty()), (b"behind", gap), (b"more", DataLoss::empty())];
    assert_eq!(b.read(), expected.map(|(bytes, loss)| (bytes.to_vec(), loss)));
}

// 5. Time of check.

#[test]
fn memory_that_changes_between_looks_is_judged_by_the_copy_alone() {
    let mut b = Bench::ring(4096);
    let mut calls = 0;
    let commit = b.commit_with(Sent::new(0, &[]).declare(2), 64, |_, target| {
        calls += 1;
        target.fill(if calls == 1 { 0x10 } else { 0xFF });
    });
    assert_eq!((commit, calls), (Commit::Written, 1));
    let read = b.read();
    assert_eq!(read.len(), 2);
    assert!(read.iter().all(|(bytes, _)| bytes == &[0x10; 16]));
}

#[test]
fn a_recommit_from_changing_memory_keeps_what_was_decided_and_takes_only_what_is_new() {
    let mut b = Bench::ring(4096);
    let first = b"\x03one\x03two";
    b.commit_with(Sent::new(0, &[]).declare(2).scraped(), 64, |offset, target| {
        target.fill(0);
        for (to, from) in target.iter_mut().zip(&first[offset..]) {
            *to = *from;
        }
    });
    // The producer has since made the first packet larger; nobody looks.
    let second = b"\x7Fxxx\x03two";
    let commit = b.commit_with(Sent::new(0, &[]).declare(2), 64, |offset, target| {
        target.fill(0);
        for (to, from) in target.iter_mut().zip(&second[offset..]) {
            *to = *from;
        }
    });
    assert_eq!(commit, Commit::Rewritten);
    assert_eq!(b.read(), whole(&[b"one", b"two"]));
}

// 6. Half-applied patches.

#[test]
fn a_batch_with_one_bad_patch_changes_nothing() {
    let mut b = Bench::ring(4096);
    b.commit(Sent::new(0, &[packet(b"0123456789")]));
    assert!(!b.patch(0, &[patch(1, *b"ABCD"), patch(8, *b"EFGH")], false), "the payload has 11 bytes");
    assert!(!b.patch(0, &[patch(1, *b"ABCD"), patch(u32::MAX, *b"EFGH")], false));
    assert_eq!((b.stats().patches_succeeded, b.stats().patches_failed), (0, 2));
    assert!(b.patch(0, &[patch(7, *b"EFGH")], false), "up to the last byte");
    assert_eq!(b.read(), whole(&[b"012345EFGH"]));
}

// 7. Packets of no bytes.

#[test]
fn a_packet_whose_fragments_are_all_empty_is_swallowed() {
    let mut b = Bench::ring(4096);
    b.commit(Sent::new(0, &[packet(b"one"), packet(b"")]).flags(NEXT));
    b.commit(Sent::new(1, &[packet(b""), packet(b""), packet(b"two")]).flags(PREV));
    assert_eq!(b.read(), whole(&[b"one", b"two"]));
}

// 8. Sealed DISCARD buffers.

#[test]
fn a_sealed_buffer_still_takes_the_completion_of_a_scraped_chunk_and_patches() {
    let mut b = Bench::discard(256);
    b.commit(Sent::new(0, &[packet(b"one"), packet(b"st")]).scraped().room(40));
    b.commit(Sent::new(0, &[packet(b"begin")]).writer(2).flags(NEXT | ChunkFlags::NEEDS_PATCHING));
    assert_eq!(b.commit(Sent::new(1, &[packet(&[1; 200])])), Commit::Discarded, "sealed now");
    assert_eq!(b.commit(Sent::new(5, &[packet(b"small")])), Commit::Discarded, "for good");
    assert_eq!(b.commit(Sent::new(0, &[packet(b"one"), packet(b"two")])), Commit::Rewritten);
    assert!(b.patch_of(2, 0, &[patch(1, *b"BEGI")], false));
    assert_eq!(b.read_of(1), whole(&[b"one", b"two"]));
}

// 9. Crashes.

#[test]
fn no_sequence_is_refused_and_half_of_none_is_not() {
    let mut b = Bench::ring(4096);
    let null = Commit::Refused(Refusal::NullSequence);
    assert_eq!(b.commit(Sent::new(0, &[packet(b"x")]).producer(0).writer(0)), null);
    assert_eq!(b.commit(Sent::new(0, &[packet(b"x")]).producer(0).writer(1)), Commit::Written);
    assert_eq!(b.commit(Sent::new(0, &[packet(b"x")]).producer(1).writer(0)), Commit::Written);
    assert_eq!(b.stats().chunks_refused, 1);
}

#[test]
fn payloads_of_65535_bytes_are_stored_and_larger_ones_refused() {
    let mut b = Bench::ring(200_000);
    let largest = [packet(&[1; 65_532])];
    assert_eq!(largest[0].len(), 65_535);
    assert_eq!(b.commit(Sent::new(0, &largest)), Commit::Written);
    assert_eq!(b.read()[0].0.len(), 65_532);
    let larger = [packet(&[1; 65_533])];
    assert_eq!(b.commit(Sent::new(1, &larger)), Commit::Refused(Refusal::TooLarge));
    assert_eq!(b.stats().abi_violations, 1);
}

#[test]
fn a_chunk_larger_than_the_buffer_is_refused_and_changes_nothing() {
    let mut b = Bench::ring(256);
    b.commit(Sent::new(0, &[packet(b"kept")]));
    assert_eq!(b.commit(Sent::new(1, &[packet(&[1; 240])])), Commit::Refused(Refusal::TooLarge));
    assert_eq!(b.read(), whole(&[b"kept"]));
    assert_eq!(b.commit(Sent::new(1, &[packet(&[1; 230])])), Commit::Written, "24 + 232 bytes fit exactly");
}

// 10. Counters that add up: checked by the bench after every operation; here, that each outcome counts once.

#[test]
fn every_chunk_offered_is_counted_once() {
    let mut b = Bench::ring(512);
    b.commit(Sent::new(0, &[packet(b"one"), packet(b"stale")]).scraped());
    assert_eq!(b.commit(Sent::new(0, &[packet(b"one"), packet(b"stale")]).scraped()), Commit::Unchanged);
    assert_eq!(b.commit(Sent::new(0, &[packet(b"one"), packet(b"two")])), Commit::Rewritten);
    b.read();
    assert_eq!(b.commit(Sent::new(0, &[packet(b"one"), packet(b"two")])), Commit::Discarded);
    b.commit(Sent::new(1, &[packet(b"three"), packet(b"stale")]).scraped());
    b.read();
    assert_eq!(b.commit(Sent::new(1, &[packet(b"three"), packet(b"four")])), Commit::Relocated);
    assert_eq!(b.commit(Sent::new(1, &[packet(b"three")])), Commit::Refused(Refusal::Shrinks));
    let stats = b.stats();
    let counts = [
        stats.chunks_written,
        stats.chunks_unchanged,
        stats.chunks_rewritten,
        stats.chunks_discarded,
        stats.chunks_relocated,
        stats.chunks_refused,
    ];
    assert_eq!(counts, [2, 1, 1, 1, 1, 1]);
    assert_eq!(b.read(), whole(&[b"four"]));
}

// 11. Cost: the walk is cut off; that nothing else grows is for the benchmarks to show.

#[test]
#[cfg_attr(miri, ignore = "takes 4,200 chunks")]
fn a_straggler_is_placed_within_4096_chunks_of_the_newest_and_refused_beyond() {
    let mut b = Bench::ring(1 << 20);
    b.quick();
    b.commit(Sent::new(0, &[packet(b"0")]));
    for id in 0..4200 {
        b.commit(Sent::new(10 + 2 * id, &[packet(b"x")]));
    }
    let newest = 10 + 2 * 4199;
    assert_eq!(b.commit(Sent::new(newest - 2 * 4094 - 1, &[packet(b"y")])), Commit::Written);
    let too_far = Commit::Refused(Refusal::TooFarOutOfOrder);
    assert_eq!(b.commit(Sent::new(newest - 2 * 4096 - 1, &[packet(b"y")])), too_far);
    assert_eq!(b.commit(Sent::new(5, &[packet(b"z")])), too_far, "it is in the list's range but too far");
    b.check();
}
