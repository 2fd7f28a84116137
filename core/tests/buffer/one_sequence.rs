//! Reading one sequence alone.

use crate::bench::{Bench, NEXT, PREV, Sent, packet, patch};
use tracebuf::buffer::{ChunkFlags, DataLoss};

fn read(b: &mut Bench, writer: u16) -> Vec<Vec<u8>> {
    let mut reader = b.buffer.read_sequence(1, writer);
    let mut all = Vec::new();
    while let Some(packet) = reader.next_packet() {
        assert_eq!((packet.producer_id(), packet.writer_id()), (1, writer));
        all.push(packet.slices().flatten().copied().collect());
    }
    all
}

#[test]
fn a_sequence_is_read_whole_in_its_order_and_others_stay_as_they_are() {
    let mut b = Bench::ring(4096);
    b.commit(Sent::new(1, &[packet(b"late"), packet(b"be")]).writer(2).flags(NEXT));
    b.commit(Sent::new(0, &[packet(b"other")]));
    b.commit(Sent::new(0, &[packet(b"early")]).writer(2));
    b.commit(Sent::new(2, &[packet(b"gun"), packet(b"last")]).writer(2).flags(PREV));
    assert_eq!(read(&mut b, 2), [&b"early"[..], b"late", b"begun", b"last"]);
    assert_eq!(read(&mut b, 2), [b""; 0]);
    // Neither an unknown one nor one that is empty is anything to read.
    assert_eq!((read(&mut b, 3), b.buffer.read_sequence(2, 1).next_packet().is_none()), (vec![], true));
    let mut clone = b.buffer.clone_read_only(vec![0; b.buffer.clone_size()]).expect("room");
    assert_eq!(clone.read_sequence(1, 1).next_packet().map(|packet| packet.len()), Some(5));
    assert!(clone.read().next_packet().is_none());
    assert_eq!(read(&mut b, 1), [b"other"]);
    b.check();
}

#[test]
fn what_waits_for_a_patch_waits_here_too_and_what_is_rejected_is_a_loss() {
    let mut b = Bench::ring(4096);
    let unpatched = ChunkFlags::CONTINUES_ON_NEXT | ChunkFlags::NEEDS_PATCHING;
    b.commit(Sent::new(0, &[packet(b"whole"), packet(b"?size")]).flags(unpatched));
    b.commit(Sent::new(1, &[packet(b"end")]).flags(PREV));
    assert_eq!(read(&mut b, 1), [b"whole"]);
    assert!(b.patch(0, &[patch(7, *b"!siz")], false));
    let mut reader = b.buffer.read_sequence(1, 1);
    assert!(reader.next_packet().is_some_and(|packet| packet.len() == 8));
    reader.reject_packet(DataLoss::CHUNK_CORRUPTED);
    b.commit(Sent::new(2, &[packet(b"next")]));
    let loss = b.buffer.read_sequence(1, 1).next_packet().map(|packet| packet.loss());
    assert!(loss.is_some_and(|loss| loss.contains(DataLoss::CHUNK_CORRUPTED)));
}
