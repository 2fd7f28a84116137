//! Regions, sequences that come and go, observers, clones and leases.

use crate::bench::{Bench, Sent, packet, whole};
use tracebuf::buffer::{
    ChunkFlags, Commit, Config, DataLoss, FillPolicy, Lease, OverwriteObserver, Packet, Refusal, RegionError,
    TraceBuffer,
};

const PREV: ChunkFlags = ChunkFlags::CONTINUES_FROM_PREVIOUS;
const NEXT: ChunkFlags = ChunkFlags::CONTINUES_ON_NEXT;

fn small_table() -> Config {
    Config::new(FillPolicy::RingBuffer).sequences(4)
}

// Regions.

#[test]
fn two_kibibytes_hold_four_sequences_and_1600_bytes_of_chunks() {
    let config = small_table();
    assert_eq!(config.region_size(1600), 2048);
    #[repr(align(8))]
    struct Static([u8; 2048]);
    let mut memory = Static([0xFF; 2048]);
    let buffer = TraceBuffer::new(&mut memory.0[..], config).unwrap();
    assert_eq!(buffer.stats().buffer_size, 1600);
}

#[test]
fn memory_that_starts_anywhere_is_used_from_its_first_aligned_byte() {
    for skip in 0..8 {
        let mut memory = vec![0xFF; 2048 + 8];
        let mut buffer = TraceBuffer::new(&mut memory[skip..], small_table()).unwrap();
        assert!(buffer.check().is_ok());
        assert!(buffer.stats().buffer_size >= 1592);
    }
}

#[test]
fn regions_too_small_and_tables_too_small_are_errors() {
    let config = small_table();
    for size in 0..config.region_size(64) as usize {
        let mut memory = vec![0u64; size / 8 + 1];
        let bytes = zerocopy::IntoBytes::as_mut_bytes(&mut memory[..]);
        let error = TraceBuffer::new(&mut bytes[..size], config).err();
        assert_eq!(error, Some(RegionError::TooSmall { needed: 512 }), "{size}");
    }
    let few = TraceBuffer::new(vec![0u8; 4096], small_table().sequences(3)).err();
    assert_eq!(few, Some(RegionError::TooFewSequences));
}

#[test]
fn the_smallest_ring_laps_chunk_by_chunk() {
    let mut b = Bench::new(small_table(), 64);
    for id in 0..100 {
        assert_eq!(b.commit(Sent::new(id, &[packet(&[id as u8; 37])])), Commit::Written);
    }
    let overwritten = DataLoss::ANY | DataLoss::OVERWRITE;
    assert_eq!(b.read(), [(vec![99; 37], overwritten)]);
    assert_eq!(b.sequence(1).packets_evicted, 99);
}

#[test]
fn memory_that_changes_its_size_is_refused_and_nothing_panics() {
    struct Shrinking(Vec<u64>, usize);
    impl AsRef<[u8]> for Shrinking {
        fn as_ref(&self) -> &[u8] {
            &zerocopy::IntoBytes::as_bytes(&self.0[..])[..self.1]
        }
    }
    impl AsMut<[u8]> for Shrinking {
        fn as_mut(&mut self) -> &mut [u8] {
            self.1 = self.1.saturating_sub(1);
            &mut zerocopy::IntoBytes::as_mut_bytes(&mut self.0[..])[..self.1]
        }
    }
    let mut buffer = TraceBuffer::new(Shrinking(vec![0; 512], 4096), small_table()).unwrap();
    for id in 0..if cfg!(miri) { 60 } else { 3000 } {
        let sent = tracebuf::buffer::ChunkHeader { producer_id: 1, chunk_id: id, ..Default::default() };
        let commit = buffer.copy_chunk_untrusted(&tracebuf::buffer::Chunk { header: sent, payload: b"" });
        // The ring's size is rounded down to words, so the first bytes are not missed.
        assert!(id < 4 || commit == Commit::Refused(Refusal::RegionDamaged), "{id} {commit}");
        assert!(buffer.read().next_packet().is_none());
        let _ = (buffer.stats(), buffer.sequences().count(), buffer.clone_size());
    }
}

// Sequences.

#[test]
fn a_fifth_sequence_is_refused_while_four_have_chunks_and_it_says_so_later() {
    let mut b = Bench::new(small_table(), 4096);
    for writer in 1..=4 {
        b.commit(Sent::new(0, &[packet(b"x")]).writer(writer));
    }
    let full = Commit::Refused(Refusal::TableFull);
    assert_eq!(b.commit(Sent::new(0, &[packet(b"lost")]).writer(5)), full);
    assert_eq!((b.stats().chunks_refused, b.stats().abi_violations), (1, 0));
    b.read();
    assert_eq!(b.commit(Sent::new(1, &[packet(b"kept")]).writer(5)), Commit::Written);
    assert_eq!(b.read(), [(b"kept".to_vec(), DataLoss::ANY | DataLoss::READ_GAP)]);
}

#[test]
fn the_sequence_that_has_been_empty_for_longest_is_forgotten_first() {
    let mut b = Bench::new(small_table(), 4096);
    for writer in [3, 1, 4, 2] {
        b.commit(Sent::new(0, &[packet(b"x")]).writer(writer));
        b.read();
    }
    b.commit(Sent::new(1, &[packet(b"x")]).writer(3));
    b.read();
    b.commit(Sent::new(0, &[packet(b"new")]).writer(5));
    let mut writers: Vec<_> = b.buffer.sequences().map(|s| s.writer_id).collect();
    writers.sort_unstable();
    assert_eq!(writers, [2, 3, 4, 5], "writer 1 has been empty for longest");
    assert_eq!(b.read(), whole(&[b"new"]));
}

#[test]
fn a_forgotten_sequence_that_goes_on_starts_with_a_gap_and_one_that_starts_again_does_not() {
    let mut b = Bench::new(small_table(), 4096);
    for writer in 1..=6 {
        b.commit(Sent::new(0, &[packet(b"x")]).writer(writer));
        b.read();
    }
    b.commit(Sent::new(1, &[packet(b"goes on")]).writer(1));
    assert_eq!(b.read(), [(b"goes on".to_vec(), DataLoss::ANY | DataLoss::READ_GAP)]);
    b.commit(Sent::new(0, &[packet(b"starts again")]).writer(2));
    assert_eq!(b.read(), whole(&[b"starts again"]));
}

#[test]
fn the_identity_of_a_sequence_is_that_of_its_first_commit() {
    let mut b = Bench::ring(4096);
    b.commit(Sent::new(0, &[packet(b"x")]));
    let sequence = b.sequence(1);
    assert_eq!((sequence.uid, sequence.pid), (1000, 42));
}

// Observers.

/// Notes what it is shown and keeps every `keep`-th.
struct Notes {
    shown: Vec<(Vec<u8>, DataLoss)>,
    keep: usize,
}

impl OverwriteObserver for Notes {
    fn packet(&mut self, packet: &Packet<'_>) -> bool {
        self.shown.push((packet.slices().collect::<Vec<_>>().concat(), packet.loss()));
        self.keep != 0 && self.shown.len().is_multiple_of(self.keep)
    }
}

#[test]
fn the_observer_sees_every_whole_packet_in_order_fragmented_ones_too() {
    let mut b = Bench::new(small_table(), 512);
    let mut notes = Notes { shown: vec![], keep: 0 };
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
    let mut notes = Notes { shown: vec![], keep: 1 };
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
    let mut notes = Notes { shown: vec![], keep: 2 };
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
        let mut notes = Notes { shown: vec![], keep };
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
    let mut notes = Notes { shown: vec![], keep: 1 };
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
    let mut notes = Notes { shown: vec![], keep: 2 };
    b.commit(Sent::new(0, &[packet(&[1; 60])]));
    b.commit(Sent::new(1, &[packet(&[2; 60])]));
    b.commit(Sent::new(0, &[packet(&[9; 50])]).writer(2));
    b.commit_observed(Sent::new(1, &[packet(&[9; 50])]).writer(2), &mut notes);
    // Its place is that of the one behind it.
    assert_eq!(b.commit_observed(Sent::new(0, &[packet(&[1; 60])]), &mut notes), Commit::Discarded);
    let lost = DataLoss::ANY | DataLoss::OVERWRITE;
    assert_eq!(notes.shown, [(vec![1; 60], DataLoss::empty()), (vec![2; 60], lost)]);
    b.commit(Sent::new(2, &[packet(b"after")]));
    assert_eq!(b.read_of(1), whole(&[b"after"]));
}

#[test]
fn observed_and_unobserved_buffers_end_up_the_same() {
    let (mut seen, mut unseen) = (Bench::new(small_table(), 700), Bench::new(small_table(), 700));
    let mut notes = Notes { shown: vec![], keep: 0 };
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

// Clones.

#[test]
fn a_clone_holds_what_its_original_holds_and_leaves_it_alone() {
    let mut b = Bench::new(small_table().histograms(true), 1024);
    for id in 0..40 {
        b.commit(Sent::new(id, &[packet(&[id as u8; 60]), packet(b"y")]));
    }
    b.read_some(3);
    let mut clone = b.buffer.clone_read_only(vec![0u8; b.buffer.clone_size()]).unwrap();
    let (ours, theirs) = (b.stats(), clone.stats());
    assert_eq!((theirs.chunks_read, theirs.bytes_read), (0, 0));
    assert_eq!((theirs.chunks_written, theirs.buffer_size), (ours.chunks_written, 1024));
    assert!(b.buffer.sequences().eq(clone.sequences()));
    let mut cloned = vec![];
    let mut reader = clone.read();
    while let Some(packet) = reader.next_packet() {
        cloned.push((packet.slices().collect::<Vec<_>>().concat(), packet.loss()));
    }
    assert_eq!(b.stats(), ours);
    assert_eq!(b.read(), cloned);
}

#[test]
fn a_clone_needs_room_for_the_used_part_only() {
    let mut b = Bench::new(small_table(), 1 << 20);
    b.commit(Sent::new(0, &[packet(b"x")]));
    let needed = 256 + 4 * 48 + 28;
    assert_eq!(b.buffer.clone_size(), needed + 7, "wherever the memory starts");
    for size in [0, 8, needed - 1] {
        let memory = vec![0u8; size];
        assert!(matches!(b.buffer.clone_read_only(memory), Err(RegionError::TooSmall { .. })));
    }
}

#[test]
fn a_clone_s_memory_may_start_anywhere() {
    let mut b = Bench::new(small_table(), 256);
    b.commit(Sent::new(0, &[packet(b"copied")]));
    let size = b.buffer.clone_size();
    for start in 0..8 {
        let mut memory = vec![0xA5; size + 8];
        let mut clone = b.buffer.clone_read_only(&mut memory[start..][..size]).unwrap();
        let mut reader = clone.read();
        let found = reader.next_packet().map(|packet| packet.slices().collect::<Vec<_>>().concat());
        assert_eq!(found.as_deref(), Some(&b"copied"[..]), "memory that starts at {start}");
    }
}

// Leases.

#[test]
fn a_lease_gives_the_packet_or_nothing_through_any_number_of_laps() {
    let mut b = Bench::new(small_table(), 1000);
    let mut leases: Vec<(Lease, Vec<u8>)> = vec![];
    let (mut held, mut expired) = (0, 0);
    let rounds = if cfg!(miri) { 100 } else { 2000 };
    for id in 0..rounds {
        let size = 1 + (id * 37 % 90) as usize;
        let flags = if id % 2 == 0 { NEXT } else { PREV };
        b.commit(Sent::new(id, &[packet(&vec![id as u8; size])]).flags(flags));
        if id % 2 == 1 && id % 3 == 0 {
            let lease = b.buffer.read().lease_packet().expect("a packet of two fragments");
            let bytes = b.buffer.leased(&lease).unwrap().slices().collect::<Vec<_>>().concat();
            assert_eq!(bytes.len(), lease.len());
            leases.push((lease, bytes));
        }
        leases.retain(|(lease, bytes)| match b.buffer.leased(lease) {
            Ok(packet) => {
                held += 1;
                assert_eq!(packet.slices().collect::<Vec<_>>().concat(), *bytes);
                true
            }
            Err(_) => {
                expired += 1;
                false
            }
        });
    }
    assert!(held > rounds / 4 && expired > rounds / 20, "{held} {expired}");
}

#[test]
fn a_lease_given_up_is_a_loss_of_the_next_packet() {
    let mut b = Bench::new(small_table(), 256);
    b.commit(Sent::new(0, &[packet(b"slow")]));
    let lease = b.buffer.read().lease_packet().unwrap();
    for id in 1..10 {
        b.commit(Sent::new(id, &[packet(&[1; 60])]));
        b.read();
    }
    assert!(b.buffer.leased(&lease).is_err());
    b.buffer.give_up(lease);
    b.commit(Sent::new(10, &[packet(b"next")]));
    assert_eq!(b.read(), [(b"next".to_vec(), DataLoss::ANY | DataLoss::OVERWRITE)]);
    assert_eq!(b.sequence(1).packets_evicted, 1);
}

#[test]
fn a_lease_carries_what_was_lost_before_its_packet() {
    let mut b = Bench::new(small_table(), 256);
    b.commit(Sent::new(0, &[packet(b"first")]));
    b.commit(Sent::new(2, &[packet(b"after a gap")]));
    let mut reader = b.buffer.read();
    let losses = [(); 2].map(|()| reader.lease_packet().expect("a packet").loss());
    assert_eq!(losses, [DataLoss::empty(), DataLoss::ANY | DataLoss::READ_GAP]);
}

// Read sessions.

#[test]
#[cfg_attr(miri, ignore = "takes 65,536 sessions")]
fn a_sequence_that_had_to_wait_65535_sessions_ago_is_not_taken_for_one_that_waits_now() {
    let mut b = Bench::new(small_table(), 256);
    b.quick();
    b.commit(Sent::new(0, &[packet(b"at last ")]).flags(NEXT));
    assert_eq!(b.read(), [], "it waits for its packet's end");
    b.commit(Sent::new(1, &[packet(b"whole")]).flags(PREV));
    // Sessions in which nothing is read do not look at the sequence; their numbers go round.
    for _ in 0..65_534 {
        b.buffer.read();
    }
    assert_eq!(b.read(), whole(&[b"at last whole"]));
}

#[test]
fn a_packet_is_written_to_an_output_whole() {
    let mut b = Bench::new(small_table(), 256);
    b.commit(Sent::new(0, &[packet(b"two ")]).flags(NEXT));
    b.commit(Sent::new(1, &[packet(b"parts")]).flags(PREV));
    let mut output = [0; 16];
    let mut rest = &mut output[..];
    b.buffer.read().next_packet().expect("a packet").write_to(&mut rest).expect("room");
    assert_eq!((rest.len(), &output[..9]), (7, &b"two parts"[..]));
    b.commit(Sent::new(2, &[packet(b"too long")]));
    let error = b.buffer.read().next_packet().expect("a packet").write_to(&mut &mut output[..7]);
    assert!(error.is_err());
}

#[test]
fn the_policy_is_the_one_that_it_was_made_with() {
    assert_eq!(Bench::ring(256).buffer.policy(), FillPolicy::RingBuffer);
    assert_eq!(Bench::discard(256).buffer.policy(), FillPolicy::Discard);
}
