//! Observers of what is overwritten.

use crate::bench::{Bench, NEXT, Notes, PREV, Sent, packet, small_table, whole};
use tracebuf::buffer::{ChunkFlags, Commit, DataLoss};

#[test]
fn the_observer_sees_every_whole_packet_in_order_fragmented_ones_too() {
    let mut b = Bench::new(small_table(), 512);
    let mut notes = Notes::new(0);
    let mut expected = vec![];
    for id in (0..if cfg!(miri) { 40 } else { 200 }).step_by(2) {
        let (one, two) = ([id as u8; 30], [id as u8 + 1; 20]);
        b.commit_observed(Sent::new(id, &[packet(&[7]), packet(&one)]).flags(NEXT), &mut notes);
        b.commit_observed(Sent::new(id + 1, &[packet(&two), packet(&[8])]).flags(PREV), &mut notes);
        expected.extend([vec![7], [&one[..], &two].concat(), vec![8]]);
    }
    let seen = notes.shown.len();
    let shown: Vec<_> = notes.shown.into_iter().map(|(bytes, _)| bytes).collect();
    assert_eq!(shown, expected[..seen]);
    let rest: Vec<_> = b.read().into_iter().map(|(bytes, _)| bytes).collect();
    assert_eq!(rest, expected[seen..]);
    assert_eq!(b.sequence(1).packets_evicted as usize, seen);
}

#[test]
fn packets_that_the_observer_keeps_are_no_loss() {
    let mut b = Bench::new(small_table(), 256);
    let mut notes = Notes::new(1);
    for id in 0..50 {
        b.commit_observed(Sent::new(id, &[packet(&[id as u8; 50]), packet(b"x")]), &mut notes);
    }
    assert!(notes.shown.iter().all(|(_, loss)| loss.is_empty()));
    assert_eq!(b.sequence(1).packets_evicted, 0);
    let read = b.read();
    assert!(read.iter().all(|(_, loss)| loss.is_empty()), "{read:?}");
    assert_eq!(notes.shown.len() + read.len(), 100);
}

#[test]
fn what_is_lost_before_a_packet_that_the_observer_keeps_is_told_with_it_and_not_again() {
    let mut b = Bench::new(small_table(), 256);
    let mut notes = Notes::new(2);
    b.commit(Sent::new(0, &[packet(b"lost"), packet(b"kept"), packet(b"gone"), packet(b"sa")]).flags(NEXT));
    b.commit(Sent::new(1, &[packet(b"ved")]).flags(PREV));
    b.commit_observed(Sent::new(0, &[packet(&[9; 200])]).writer(2), &mut notes);
    let (none, lost) = (DataLoss::empty(), DataLoss::ANY | DataLoss::OVERWRITE);
    let shown: [(&[u8], _); 4] = [(b"lost", none), (b"kept", lost), (b"gone", none), (b"saved", lost)];
    assert_eq!(notes.shown, shown.map(|(bytes, loss)| (bytes.to_vec(), loss)));
    assert_eq!(
        (b.sequence(1).packets_evicted, b.stats().chunks_overwritten, b.stats().chunks_read),
        (2, 0, 2)
    );
    b.commit(Sent::new(2, &[packet(b"after")]));
    assert_eq!(b.read_of(1), whole(&[b"after"]));
}

#[test]
fn what_the_observer_kept_does_not_come_again_with_its_chunk() {
    for keep in [1, 2] {
        let mut b = Bench::new(small_table(), 256);
        let mut notes = Notes::new(keep);
        b.commit(Sent::new(0, &[packet(b"one"), packet(b"two"), packet(b"half")]).scraped());
        b.commit_observed(Sent::new(0, &[packet(&[9; 220])]).writer(2), &mut notes);
        assert_eq!(notes.shown.len(), 2);
        let whole_chunk = [packet(b"one"), packet(b"two"), packet(b"half"), packet(b"more")];
        assert_eq!(b.commit(Sent::new(0, &whole_chunk)), Commit::Written);
        assert_eq!(b.read_of(1), whole(&[b"half", b"more"]));
        // The first was lost, and does not come again either.
        assert_eq!(b.sequence(1).packets_evicted, keep as u64 - 1);
    }
}

#[test]
fn empty_packets_behind_one_that_the_observer_kept_are_nothing_to_come_again() {
    let mut b = Bench::new(small_table(), 256);
    let mut notes = Notes::new(1);
    let sent = || Sent::new(0, &[packet(b"kept"), packet(b""), packet(b"")]);
    b.commit(sent());
    b.commit_observed(Sent::new(0, &[packet(&[9; 220])]).writer(2), &mut notes);
    assert_eq!(b.commit(sent()), Commit::Discarded);
    b.commit(Sent::new(1, &[packet(b"after")]));
    assert_eq!(b.read_of(1), whole(&[b"after"]));
}

#[test]
fn what_was_lost_and_told_with_a_packet_that_the_observer_kept_is_not_told_again_when_it_cannot_come_back() {
    let mut b = Bench::new(small_table(), 256);
    let mut notes = Notes::new(2);
    b.commit(Sent::new(0, &[packet(&[1; 60])]));
    b.commit(Sent::new(1, &[packet(&[2; 60])]));
    b.commit(Sent::new(0, &[packet(&[9; 50])]).writer(2));
    b.commit_observed(Sent::new(1, &[packet(&[9; 50])]).writer(2), &mut notes);
    // Its place is where the one after it lies.
    assert_eq!(b.commit_observed(Sent::new(0, &[packet(&[1; 60])]), &mut notes), Commit::Discarded);
    let lost = DataLoss::ANY | DataLoss::OVERWRITE;
    assert_eq!(notes.shown, [(vec![1; 60], DataLoss::empty()), (vec![2; 60], lost)]);
    b.commit(Sent::new(2, &[packet(b"after")]));
    assert_eq!(b.read_of(1), whole(&[b"after"]));
}

#[test]
fn observed_and_unobserved_buffers_end_up_the_same() {
    let (mut seen, mut unseen) = (Bench::new(small_table(), 700), Bench::new(small_table(), 700));
    let mut notes = Notes::new(0);
    for id in 0..if cfg!(miri) { 60 } else { 300u32 } {
        let flags = [ChunkFlags::empty(), NEXT, PREV, PREV | NEXT][(id % 4) as usize];
        let fragments = [packet(&[1; 9]), packet(&[2; 33]), packet(b"")];
        let count = 1 + (id % 3) as usize;
        let sent = Sent::new(id, &fragments[..count]).flags(flags).writer(1 + (id / 50 % 2) as u16);
        seen.commit_observed(sent.clone(), &mut notes);
        unseen.commit(sent);
        assert_eq!(seen.stats(), unseen.stats());
        assert!(seen.buffer.sequences().eq(unseen.buffer.sequences()), "after chunk {id}");
    }
    assert_eq!(seen.read_all(), unseen.read_all());
}
