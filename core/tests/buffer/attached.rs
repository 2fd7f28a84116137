//! Packets and losses of regions that were found.

use crate::bench::{Bench, NEXT, PREV, Read, Sent, packet, small_table, whole};
use std::ops::Range;
use tracebuf::buffer::{
    ChunkFlags, Commit, Config, DataLoss, FillPolicy, ReadOnlyTraceBuffer, Reader, Salvage, TraceBuffer,
};

const PATCHES: ChunkFlags = ChunkFlags::NEEDS_PATCHING;

fn all(mut reader: Reader<'_>) -> Vec<Read> {
    let mut packets = Vec::new();
    while let Some(packet) = reader.next_packet() {
        packets.push((packet.slices().collect::<Vec<_>>().concat(), packet.loss()));
    }
    packets
}

/// The packets of a program that has ended after these commits. They are the same with and without checksums, and when
/// its region is found once more.
fn ended(commits: &[Sent]) -> (Salvage, Vec<Read>) {
    let [plain, checked] = [false, true].map(|crc| {
        let config = small_table().crc(crc);
        let mut b = Bench::new(config, 1024);
        for sent in commits {
            b.commit(sent.clone());
        }
        let (mut buffer, salvage) = TraceBuffer::attach_or_new(b.buffer.into_memory(), config).unwrap();
        buffer.check().expect("a sound buffer");
        let (mut again, none) = ReadOnlyTraceBuffer::attach_ended(buffer.into_memory()).unwrap();
        assert!(none.is_clean(), "{none}");
        (salvage.expect("a region"), all(again.read()))
    });
    assert_eq!(plain, checked);
    plain
}

#[test]
fn at_the_next_start_a_full_buffer_does_what_the_new_policy_says() {
    let (stops, goes_on) = (FillPolicy::Discard, FillPolicy::RingBuffer);
    let config = |policy| Config::new(policy).sequences(4);
    let chunk = |id: u8| Sent::new(id.into(), &[packet(&[id; 200])]);
    let commit = |b: &mut Bench, ids: Range<u8>| ids.map(|id| b.commit(chunk(id))).collect::<Vec<_>>();
    let numbers = |b: &mut Bench| b.read().iter().map(|(bytes, _)| bytes[0]).collect::<Vec<_>>();
    let next_start = |mut b: Bench, policy| {
        let (buffer, salvage) = TraceBuffer::attach_or_new(b.buffer.into_memory(), config(policy)).unwrap();
        assert!(salvage.is_some_and(|salvage| salvage.is_clean() && salvage.chunks_kept == 4));
        assert_eq!(buffer.policy(), policy);
        b.buffer = buffer;
        b
    };
    let (written, discarded) = ([Commit::Written; 2], [Commit::Discarded; 2]);

    // Four chunks take 912 of the 1024 bytes.
    let mut b = Bench::new(config(stops), 1024);
    assert_eq!(commit(&mut b, 0..6)[4..], discarded);
    b = next_start(b, goes_on);
    assert_eq!(commit(&mut b, 4..6), written);
    b = next_start(b, goes_on);
    assert_eq!(commit(&mut b, 6..8), written);
    // A ring that has lapped is full.
    b = next_start(b, stops);
    assert_eq!(commit(&mut b, 8..10), discarded);
    b = next_start(b, stops);
    assert_eq!(commit(&mut b, 8..10), discarded);
    assert_eq!(numbers(&mut b), [4, 5, 6, 7]);

    // The same holds wherever it will go on.
    let mut b = Bench::new(config(goes_on), 1024);
    commit(&mut b, 0..5);
    b = next_start(b, stops);
    assert_eq!(commit(&mut b, 5..7), discarded);
    assert_eq!(numbers(&mut b), [1, 2, 3, 4]);

    // A ring that has not lapped still has room.
    let mut b = Bench::new(config(goes_on), 1024);
    commit(&mut b, 0..4);
    b = next_start(b, stops);
    assert_eq!(b.commit(Sent::new(4, &[packet(&[4; 80])])), Commit::Written);
    assert_eq!(commit(&mut b, 5..7), discarded);
    assert_eq!(numbers(&mut b), [0, 1, 2, 3, 4]);
}

#[test]
fn a_scraped_chunk_without_fragments_is_kept_whatever_it_says_of_its_end() {
    for flags in [ChunkFlags::empty(), NEXT, PATCHES, NEXT | PATCHES] {
        let mut b = Bench::ring(1024);
        b.commit(Sent::new(0, &[packet(b"zero")]));
        b.commit(Sent::new(1, &[]).flags(flags).scraped().room(40));
        let (mut buffer, salvage) = TraceBuffer::attach(b.buffer.into_memory()).unwrap();
        assert!(salvage.is_clean(), "{flags:?}: {salvage}");
        assert_eq!(all(buffer.read()), whole(&[b"zero"]), "{flags:?}");
        // What it turns out to hold is read after that.
        b.buffer = buffer;
        b.commit(Sent::new(1, &[packet(b"one"), packet(b"two ")]).flags(flags | NEXT));
        assert!(b.patch(1, &[], false));
        b.commit(Sent::new(2, &[packet(b"and three")]).flags(PREV));
        assert_eq!(b.read(), whole(&[b"one", b"two and three"]), "{flags:?}");
    }
}

#[test]
fn at_the_end_nothing_is_given_up_for_patches_that_no_packet_waits_for() {
    // A chunk that wants patches but does not go on in the next one, and one that has nothing they could change.
    let next = Sent::new(1, &[packet(b"next")]);
    let (salvage, packets) =
        ended(&[Sent::new(0, &[packet(b"zero"), packet(b"one")]).flags(PATCHES), next.clone()]);
    assert!(salvage.is_clean(), "{salvage}");
    assert_eq!(packets, whole(&[b"zero", b"one", b"next"]));
    for flags in [PATCHES, PATCHES | NEXT, PATCHES | NEXT | PREV] {
        let (salvage, packets) = ended(&[Sent::new(0, &[]).flags(flags), next.clone()]);
        assert!(salvage.is_clean(), "{flags:?}: {salvage}");
        assert_eq!(packets, whole(&[b"next"]), "{flags:?}");
    }
}

#[test]
fn at_the_end_a_packet_that_ends_in_front_of_such_patches_comes_out() {
    let (salvage, packets) = ended(&[
        Sent::new(0, &[packet(b"over ")]).flags(NEXT),
        Sent::new(1, &[packet(b"two"), packet(b"one")]).flags(PREV | PATCHES),
    ]);
    assert!(salvage.is_clean(), "{salvage}");
    assert_eq!(packets, whole(&[b"over two", b"one"]));
}

#[test]
fn at_the_end_an_empty_beginning_is_given_up_as_any_that_waits_for_patches() {
    let (salvage, packets) = ended(&[
        Sent::new(0, &[packet(b"zero"), packet(b"")]).flags(NEXT | PATCHES),
        Sent::new(1, &[packet(b"end"), packet(b"next")]).flags(PREV),
    ]);
    assert_eq!((salvage.chunks_kept, salvage.chunks_cut), (2, 1), "{salvage}");
    let loss = DataLoss::ANY | DataLoss::WRITER_ABORT | DataLoss::ORPHAN_CONTINUATION;
    assert_eq!(packets, [(b"zero".to_vec(), DataLoss::empty()), (b"next".to_vec(), loss)]);
}

#[test]
fn at_the_end_nothing_waits_for_the_rest_of_a_scraped_chunk_behind_which_others_are() {
    let scraped = |id, packets: &[Vec<u8>]| Sent::new(id, packets).scraped().room(40);
    let lost = DataLoss::ANY | DataLoss::CHUNK_CORRUPTED;
    let (salvage, packets) = ended(&[
        scraped(0, &[packet(b"zero"), packet(b"stale")]),
        Sent::new(1, &[packet(b"one")]),
        Sent::new(2, &[packet(b"two ")]).flags(NEXT),
        scraped(3, &[packet(b"more")]).flags(PREV),
        scraped(4, &[packet(b"four"), packet(b"last"), packet(b"stale")]),
    ]);
    // The newest is as it was: its finished part comes out, and nothing follows it.
    assert_eq!((salvage.chunks_kept, salvage.chunks_cut), (5, 2), "{salvage}");
    assert_eq!(
        salvage.to_string(),
        "5 chunks of 1 sequence kept, 2 of them without their end, which was not finished"
    );
    let (first, more) = (DataLoss::empty(), lost | DataLoss::REASSEMBLY_BROKEN_CHAIN);
    let expected: [(&[u8], _); 4] = [(b"zero", first), (b"one", lost), (b"four", more), (b"last", first)];
    assert_eq!(packets, expected.map(|(bytes, loss)| (bytes.to_vec(), loss)));
}

#[test]
fn at_the_end_a_scraped_chunk_that_was_read_is_closed_also_if_it_was_committed_late() {
    let mut b = Bench::ring(1024);
    b.commit(Sent::new(1, &[packet(b"one")]));
    b.commit(Sent::new(0, &[packet(b"zero"), packet(b"stale")]).scraped().room(40));
    assert_eq!(b.read(), whole(&[b"zero"]));
    let (mut buffer, salvage) = ReadOnlyTraceBuffer::attach_ended(b.buffer.into_memory()).unwrap();
    assert_eq!((salvage.chunks_kept, salvage.chunks_cut), (2, 1), "{salvage}");
    assert_eq!(all(buffer.read()), [(b"one".to_vec(), DataLoss::ANY | DataLoss::CHUNK_CORRUPTED)]);
}

/// Five chunks, of which the one with this number was damaged after `read` packets had been read, and a sixth that
/// comes after the region was found again. Returns the numbers of the packets, with what was lost before each.
fn around_a_damaged_chunk(damaged: usize, read: usize) -> Vec<(u8, DataLoss)> {
    let mut b = Bench::new(small_table().crc(true), 1024);
    let chunk = |id: u8| Sent::new(id.into(), &[packet(&[2 * id; 10]), packet(&[2 * id + 1; 10])]);
    (0..5).for_each(|id| assert_eq!(b.commit(chunk(id)), Commit::Written));
    let at = b.buffer.inspect().items().nth(damaged).unwrap().offset as usize;
    assert_eq!(b.read_packets(read).len(), read);
    let ring = b.stats().buffer_size as usize;
    let mut memory = b.buffer.into_memory();
    let start = memory.len() - ring;
    memory[start + at + 24 + 5] ^= 1;
    let (again, salvage) = TraceBuffer::attach(memory).unwrap();
    assert_eq!((salvage.chunks_checksum_wrong, salvage.chunks_dropped()), (1, 1), "{salvage}");
    b.buffer = again;
    b.commit(chunk(5));
    b.read().into_iter().map(|(bytes, loss)| (bytes[0], loss)).collect()
}

#[test]
fn the_loss_of_a_damaged_chunk_is_told_with_the_first_packet_behind_it_only() {
    for (damaged, read) in [(0, 0), (1, 0), (2, 0), (3, 0), (4, 0), (2, 4), (2, 3), (3, 1), (4, 4)] {
        let packets = around_a_damaged_chunk(damaged, read);
        let (first, hole) = (read as u8, 2 * damaged as u8);
        let expected = (first..12).filter(|number| number / 2 != damaged as u8).map(|number| {
            let behind = number == hole + 2;
            (number, if behind { DataLoss::ANY | DataLoss::READ_GAP } else { DataLoss::empty() })
        });
        assert_eq!(packets, expected.collect::<Vec<_>>(), "{damaged} {read}");
    }
}

#[test]
fn the_loss_of_all_chunks_of_a_sequence_is_told_with_the_next_packet() {
    let mut b = Bench::new(small_table().crc(true), 1024);
    b.commit(Sent::new(0, &[packet(b"zero")]));
    let ring = b.stats().buffer_size as usize;
    let mut memory = b.buffer.into_memory();
    let start = memory.len() - ring;
    memory[start + 24 + 2] ^= 1;
    b.buffer = TraceBuffer::attach(memory).unwrap().0;
    b.commit(Sent::new(1, &[packet(b"one")]));
    assert_eq!(b.read(), [(b"one".to_vec(), DataLoss::ANY | DataLoss::READ_GAP)]);
}

#[test]
fn a_chunk_turned_away_before_all_others_of_its_sequence_is_told_also_where_these_came_in_another_order() {
    let told = |from: u32, second: u32| {
        let mut b = Bench::discard(256);
        b.commit(Sent::new(from, &[packet(b"one")]));
        b.commit(Sent::new(second, &[packet(b"other")]));
        assert_eq!(b.commit(Sent::new(0, &[packet(&[0; 230])])), Commit::Discarded);
        let (mut found, salvage) = TraceBuffer::attach(b.buffer.into_memory()).unwrap();
        assert!(salvage.is_clean());
        all(found.read()).iter().map(|(_, loss)| *loss).collect::<Vec<_>>()
    };
    let lost = DataLoss::ANY | DataLoss::OVERWRITE;
    assert_eq!(told(1, 2), [lost, DataLoss::empty()]);
    assert_eq!(told(2, 1), [lost, DataLoss::empty()]);
}
