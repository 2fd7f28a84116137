//! Regions, sequences that come and go, clones and leases.

use crate::bench::{Bench, NEXT, PREV, Sent, packet, patch, small_table, whole};
use tracebuf::buffer::{
    ChunkFlags, Commit, DataLoss, FillPolicy, Lease, ReadOnlyTraceBuffer, Refusal, RegionError, TraceBuffer,
};

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

#[test]
fn a_producer_that_is_forgotten_leaves_its_places_to_others_and_nothing_to_tell() {
    for table in [4, 300] {
        let mut b = Bench::new(small_table().sequences(table), 4096);
        // In each round four sequences, which fill the small table: whole packets, one over three chunks, the last of
        // which never comes, one that waits for a patch, and one that was partly read.
        for round in 0..40 {
            let producer = 1 + round % 3;
            for id in 0..3 {
                let whole =
                    Sent::new(id, &[packet(b"whole"), packet(b"packets")]).producer(producer).writer(1);
                assert_eq!(b.commit(whole), Commit::Written, "{table} {round}");
            }
            let parts = [NEXT, NEXT | PREV];
            for (id, flags) in (0..).zip(parts) {
                b.commit(Sent::new(id, &[packet(b"part")]).producer(producer).writer(2).flags(flags));
            }
            let waiting = Sent::new(0, &[packet(b"waits")]).producer(producer).writer(3);
            b.commit(waiting.flags(ChunkFlags::NEEDS_PATCHING));
            b.commit(Sent::new(0, &[packet(b"read"), packet(b"left")]).producer(producer).writer(4));
            let lease = b.buffer.read().lease_packet().unwrap();
            assert!(b.buffer.leased(&lease).is_ok_and(|packet| packet.loss().is_empty()), "{table} {round}");
            assert_eq!(b.buffer.sequences().count(), 4);
            b.buffer.forget_producer(producer);
            assert_eq!(b.buffer.check().map(|ring| ring.chunks), Ok(0));
            assert_eq!(b.buffer.sequences().count(), 0);
            assert!(b.buffer.leased(&lease).is_err());
            assert_eq!(b.read(), []);
        }
        assert!(b.buffer.stats().chunks_overwritten >= 40 * 7);
    }
}

#[test]
fn a_producer_that_is_forgotten_takes_nothing_of_the_others_with_it() {
    let mut b = Bench::ring(4096);
    for id in 0..5 {
        for producer in 1..=3 {
            let name = [producer as u8, id as u8];
            b.commit(Sent::new(id, &[packet(&name)]).producer(producer));
        }
    }
    b.buffer.forget_producer(2);
    b.buffer.forget_producer(7);
    assert!(b.buffer.check().is_ok());
    // As a crash leaves it.
    let (mut buffer, salvage) = TraceBuffer::attach(b.buffer.into_memory()).unwrap();
    assert!(salvage.is_clean(), "{salvage}");
    let mut read = Vec::new();
    let mut reader = buffer.read();
    while let Some(packet) = reader.next_packet() {
        assert!(packet.loss().is_empty());
        read.push(packet.slices().collect::<Vec<_>>().concat());
    }
    let left: Vec<_> = (0..5).flat_map(|id| [vec![1, id], vec![3, id]]).collect();
    assert_eq!(read, left);
}

// Clones.

#[test]
fn a_clone_holds_what_its_original_holds_and_leaves_it_alone() {
    let config = small_table();
    #[cfg(feature = "histograms")]
    let config = config.histograms(true);
    let mut b = Bench::new(config, 1024);
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
fn a_clone_of_a_clone_holds_what_is_left_of_it() {
    let mut b = Bench::new(small_table(), 1024);
    (0..4).for_each(|id| _ = b.commit(Sent::new(id, &[packet(&[id as u8; 60])])));
    let mut clone = b.buffer.clone_read_only(vec![0u8; b.buffer.clone_size()]).unwrap();
    let first = |buffer: &mut ReadOnlyTraceBuffer<Vec<u8>>| {
        buffer.read().next_packet().map(|packet| packet.slices().flatten().copied().next().unwrap())
    };
    assert_eq!(first(&mut clone), Some(0));
    let mut again = clone.clone_read_only(vec![0u8; clone.clone_size()]).unwrap();
    assert!(clone.clone_read_only(vec![0u8; clone.clone_size() - 8]).is_err());
    assert_eq!([(); 4].map(|()| first(&mut again)), [Some(1), Some(2), Some(3), None]);
    assert_eq!(first(&mut clone), Some(1), "it has its own");
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
    b.buffer.give_up(lease, DataLoss::OVERWRITE, []);
    b.commit(Sent::new(10, &[packet(b"next")]));
    assert_eq!(b.read(), [(b"next".to_vec(), DataLoss::ANY | DataLoss::OVERWRITE)]);
    assert_eq!(b.sequence(1).packets_evicted, 1);
}

#[test]
fn a_lease_given_up_is_a_loss_of_the_next_one_that_is_held() {
    let mut b = Bench::ring(512);
    b.commit(Sent::new(0, &[packet(b"first")]));
    b.commit(Sent::new(0, &[packet(b"of another")]).writer(2));
    b.commit(Sent::new(1, &[packet(b"second"), packet(b"third")]));
    let mut reader = b.buffer.read();
    let [first, mut other, mut second, mut third] =
        [(); 4].map(|()| reader.lease_packet().expect("a packet"));
    b.buffer.give_up(first, DataLoss::OVERWRITE, [&mut other, &mut second, &mut third]);
    let told = DataLoss::ANY | DataLoss::OVERWRITE;
    let losses =
        [&other, &second, &third].map(|lease| b.buffer.leased(lease).map(|packet| packet.loss()).ok());
    assert_eq!(losses, [Some(DataLoss::empty()), Some(told), Some(DataLoss::empty())]);
    // A lease that was told of a loss passes it on.
    b.buffer.give_up(second, DataLoss::CHUNK_CORRUPTED, [&mut other, &mut third]);
    assert_eq!((other.loss(), third.loss()), (DataLoss::empty(), told | DataLoss::CHUNK_CORRUPTED));
    b.commit(Sent::new(2, &[packet(b"fourth")]));
    assert_eq!(b.read(), [(b"fourth".to_vec(), DataLoss::empty())]);
    assert_eq!(b.sequence(1).packets_evicted, 1);
}

#[test]
fn a_patch_to_what_was_read_changes_nothing_and_a_lease_gives_what_was_read() {
    let mut b = Bench::ring(1024);
    b.commit(Sent::new(0, &[packet(b"begin ")]).flags(NEXT));
    b.commit(Sent::new(1, &[packet(b"0123456789"), packet(b"more")]).flags(PREV));
    let lease = b.buffer.read().lease_packet().unwrap();
    let read = 1 + b"0123456789".len() as u32;
    for (size, offset) in [(0x03, 0), (0x14, 0), (0x01, read - 4), (0x01, read - 1)] {
        assert!(b.patch(1, &[patch(offset, [size; 4]), patch(read, *b"\x04MOR")], false), "at {offset}");
    }
    let packet = b.buffer.leased(&lease).unwrap();
    assert_eq!(packet.slices().collect::<Vec<_>>().concat(), b"begin 0123456789");
    assert_eq!(b.read(), [(b"MORe".to_vec(), DataLoss::empty())]);
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
    // Sessions in which nothing is read do not look at the sequence; their numbers wrap around.
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
