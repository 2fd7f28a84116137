//! Observers of what is overwritten.

use crate::bench::{Bench, NEXT, Notes, PREV, Sent, packet, small_table, whole};
use tracebuf::buffer::{self, ChunkFlags, Commit, DataLoss, OverwriteObserver, PacketRun};

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

#[derive(Clone, Copy, Default, PartialEq, Eq)]
enum Way {
    #[default]
    Bytes,
    Packets,
    /// Short ones by their first bytes.
    Heads,
}

/// An observer that notes all that it is shown and folds it.
#[derive(Default)]
struct Folds {
    shown: Vec<(Vec<u8>, DataLoss)>,
    /// How it takes the packets of a run.
    way: Way,
    /// Takes the first of a run and leaves the others.
    is_lazy: bool,
}

impl OverwriteObserver for Folds {
    const FOLDS: bool = true;

    fn packet(&mut self, packet: &buffer::Packet<'_>) -> bool {
        self.shown.push((packet.slices().collect::<Vec<_>>().concat(), packet.loss()));
        true
    }

    fn packets(&mut self, run: &mut PacketRun<'_>) {
        if self.way == Way::Packets {
            while let Some(packet) = run.next_packet() {
                self.packet(&packet);
            }
            return;
        }
        if self.way == Way::Heads {
            return self.heads(run);
        }
        let mut loss = run.loss();
        while let Some(bytes) = run.next() {
            self.shown.push((bytes.to_vec(), loss));
            loss = run.loss();
            if self.is_lazy {
                return;
            }
        }
    }
}

impl Folds {
    fn heads(&mut self, run: &mut PacketRun<'_>) {
        let chunk = run.chunk();
        loop {
            let mut loss = run.loss();
            run.take_by_head(|head, at| {
                let bytes = &chunk[usize::from(at)..][1..=head[0].into()];
                let is_short = bytes.len() < 20;
                if is_short {
                    self.shown.push((bytes.to_vec(), std::mem::take(&mut loss)));
                }
                is_short
            });
            let loss = run.loss();
            let Some(bytes) = run.next() else { return };
            self.shown.push((bytes.to_vec(), loss));
        }
    }
}

#[test]
fn what_is_folded_is_what_would_be_kept_and_counts_as_overwritten() {
    for way in [Way::Bytes, Way::Packets, Way::Heads] {
        let mut folded = Bench::new(small_table(), 700);
        let mut kept = Bench::new(small_table(), 700);
        let (mut folds, mut notes) = (Folds { way, ..Folds::default() }, Notes::new(1));
        for id in 0..if cfg!(miri) { 60 } else { 600u32 } {
            // Packets over two and three chunks, some without a beginning or an end, and gaps.
            let flags = [ChunkFlags::empty(), NEXT, PREV | NEXT, PREV, PREV, NEXT][(id % 6) as usize];
            let fragments = [packet(&[id as u8; 9]), packet(&[2; 33]), packet(b"")];
            let count = 1 + (id % 3) as usize;
            let sent = Sent::new(id, &fragments[..count]).flags(flags).writer(1 + (id / 50 % 2) as u16);
            if id % 37 == 0 {
                continue;
            }
            folded.commit_observed(sent.clone(), &mut folds);
            kept.commit_observed(sent, &mut notes);
            assert_eq!(folds.shown, notes.shown, "after chunk {id}");
            let (f, k) = (folded.stats(), kept.stats());
            assert_eq!((f.chunks_read, f.bytes_read), (0, 0));
            assert_eq!(f.bytes_overwritten, k.bytes_read + k.bytes_overwritten);
            assert_eq!(f.chunks_overwritten, k.chunks_read + k.chunks_overwritten);
        }
        let evicted: u64 = folded.buffer.sequences().map(|sequence| sequence.packets_evicted).sum();
        assert_eq!(evicted, folds.shown.len() as u64);
        assert!(folds.shown.iter().any(|(_, loss)| !loss.is_empty()));
        let overwritten = DataLoss::ANY | DataLoss::OVERWRITE;
        let first_of = |bench: &mut Bench| {
            let mut first: Vec<(u16, DataLoss)> = vec![];
            for packet in bench.read_all() {
                if first.iter().all(|(writer, _)| *writer != packet.writer) {
                    first.push((packet.writer, packet.loss));
                }
            }
            first
        };
        let (folded, kept) = (first_of(&mut folded), first_of(&mut kept));
        let with = |(writer, loss): &(u16, DataLoss)| (*writer, *loss | overwritten);
        assert_eq!(folded, kept.iter().map(with).collect::<Vec<_>>());
    }
}

#[test]
fn what_was_folded_does_not_come_again_and_what_was_lost_after_it_is_told_apart() {
    let mut b = Bench::new(small_table(), 256);
    let mut folds = Folds::default();
    let known = |b: &Bench| b.sequence(1).pending_since_folded;
    b.commit(Sent::new(0, &[packet(b"one"), packet(b"two"), packet(b"half")]).scraped());
    b.commit_observed(Sent::new(0, &[packet(&[9; 220])]).writer(2), &mut folds);
    assert_eq!(folds.shown.len(), 2);
    // What is still to come of the chunk would be lost with it.
    let overwritten = DataLoss::ANY | DataLoss::OVERWRITE;
    assert_eq!((b.sequence(1).pending, known(&b)), (overwritten, overwritten));
    let whole_chunk = [packet(b"one"), packet(b"two"), packet(b"half"), packet(b"more")];
    b.commit(Sent::new(0, &whole_chunk));
    assert_eq!((b.sequence(1).pending, known(&b)), (overwritten, DataLoss::empty()));
    let read = b.read_of(1);
    assert_eq!(read, [(b"half".to_vec(), overwritten), (b"more".to_vec(), DataLoss::empty())]);
    assert_eq!(b.sequence(1).packets_evicted, 2);
}

#[test]
fn what_an_observer_leaves_of_a_run_is_folded_too_and_one_that_does_not_look_sees_nothing() {
    struct Blind;
    impl OverwriteObserver for Blind {
        const FOLDS: bool = true;
        fn looks(&self) -> bool {
            false
        }
        fn packet(&mut self, _: &buffer::Packet<'_>) -> bool {
            panic!("it does not look");
        }
    }
    let sent = |id: u32| {
        Sent::new(id, &[packet(b"one"), packet(b"two")]).flags(if id.is_multiple_of(2) { NEXT } else { PREV })
    };
    let mut folds = Folds { is_lazy: true, ..Folds::default() };
    let mut b = Bench::new(small_table(), 256);
    let (mut blind, mut unseen) = (Bench::new(small_table(), 256), Bench::new(small_table(), 256));
    for id in 0..100 {
        b.commit_observed(sent(id), &mut folds);
        blind.commit_observed(sent(id), &mut Blind);
        unseen.commit(sent(id));
    }
    // In each second chunk the first of the run is the second fragment.
    assert!(folds.shown.iter().all(|(_, loss)| loss.is_empty()));
    assert!(b.sequence(1).pending_since_folded.is_empty());
    assert_eq!(blind.stats(), unseen.stats());
    assert_eq!(blind.read_all(), unseen.read_all());
}

#[test]
fn a_buffer_with_an_observer_of_its_own_shows_it_what_a_new_sequence_takes_the_place_of() {
    let buffer = Bench::new(small_table(), 4096).buffer;
    let mut buffer = buffer.observed_by(Folds::default());
    for writer_id in 1..=5 {
        let header = buffer::ChunkHeader {
            producer_id: 1,
            writer_id,
            fragments: 1,
            complete: true,
            ..Default::default()
        };
        buffer.make_place(&header);
        buffer.copy_chunk_untrusted(&buffer::Chunk { header, payload: &[1, writer_id as u8] });
    }
    assert_eq!(buffer.observer().shown, [(vec![1], DataLoss::empty())]);
    assert_eq!(std::mem::take(&mut buffer.observer_mut().shown).len(), 1);
}
