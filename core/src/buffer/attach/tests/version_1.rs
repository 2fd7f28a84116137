//! A region of version 1, in which the pending causes of loss are in the status of a sequence's entry.

use super::again::cut_short;
use super::load::Rng;
use crate::buffer::tests::memory::Memory;
use crate::buffer::*;
use std::string::String;
use std::vec::Vec;

/// As a buffer of version 1 left it: four sequences, of which one has lost packets to the ring, and one malformed
/// chunks.
#[rustfmt::skip]
const REGION: [u32; 176] = [
    0x4655_4254, 0x0100_0001, 0x0000_01c0, 0x0000_0100, 0x0030_0004, 0x0018_0000, 4, 0x0000_00d4,
    0x0000_0100, 0, 0, 0xffff_0003, 0x0001_ffff, 0x5654_1755, 0x0000_01d4, 0,
    0, 0, 0, 0, 0, 0, 0x0000_01cc, 0,
    0x0000_00a0, 0, 0x0000_0058, 0, 0x0000_0060, 0, 0x0000_0034, 0,
    0x0000_000d, 0, 0, 0, 0, 0, 4, 0,
    0, 0, 3, 0, 0, 0, 1, 0,
    0, 0, 0, 0, 0, 0, 0, 0,
    2, 0, 0, 0, 0, 0, 0, 0,
    0x0001_0007, 0x0000_03e8, 0x0000_002a, 0x0000_0078, 0x0000_0078, 1, 3, 0xffff_0501,
    3, 0, 0, 2, 0x0002_0007, 0x0000_03e8, 0x0000_002a, 0,
    0x0000_0050, 9, 0x0001_0000, 0xffff_0341, 0, 4, 0, 0,
    0x0003_0007, 0x0000_03e8, 0x0000_002a, 0x0000_0098, 0x0000_00b4, 0xc000_0000, 0, 0xffff_0001,
    2, 0, 0, 0, 0, 0, 0, 0,
    0, 0, 0, 0, 1, 0, 0, 0,
    0x0220_000d, 0x0000_000a, 0x0000_000d, 0x0001_0001, 0x0000_00d0, 0x0000_0028, 0x6361_700c, 0x2074_656b,
    0x202e_6f6e, 0x0000_0034, 0x0220_000d, 0x0000_000b, 0x0000_000d, 0x0001_0001, 0, 0x0000_0050,
    0x6361_700c, 0x2074_656b, 0x202e_6f6e, 0xffff_ff35, 0x0220_000d, 0x0000_000c, 0x0000_000d, 0x0001_0001,
    0x0000_0028, 0xffff_ffff, 0x6361_700c, 0x2074_656b, 0x202e_6f6e, 0x2074_6536, 0x0220_0005, 2,
    5, 0x0001_0000, 0xffff_ffff, 0xffff_ffff, 0x7865_6e04, 0x0000_0074, 0x0221_0004, 0,
    4, 2, 0xffff_ffff, 0x0000_00b4, 0x646e_6503, 0x0220_0006, 1, 6,
    0x0001_0002, 0x0000_0098, 0xffff_ffff, 0x6f68_7705, 0x8000_656c, 0xc000_0009, 0x0000_000d, 0x0001_0001,
    0x0000_00a8, 0, 0x6361_700c, 0x2074_656b, 0x202e_6f6e, 0x0000_0033, 0xc000_0002, 0,
];
const HEADER: usize = 256;
const MALFORMED: std::ops::Range<usize> = HEADER + 44..HEADER + 48;

fn memory() -> Memory {
    let bytes: Vec<u8> = REGION.iter().flat_map(|word| word.to_le_bytes()).collect();
    Memory::from(&bytes[..])
}

fn config() -> Config {
    Config::new(FillPolicy::RingBuffer).sequences(4)
}

type Found = (Vec<SequenceInfo>, Vec<(u16, String, DataLoss)>);

fn found(memory: Memory) -> Found {
    let (mut buffer, salvage) = TraceBuffer::attach(memory).expect("a region");
    assert!(salvage.is_clean(), "{salvage}");
    buffer.check().expect("a sound buffer");
    let (sequences, mut packets) = (buffer.sequences().collect(), Vec::new());
    let mut reader = buffer.read();
    while let Some(packet) = reader.next_packet() {
        let bytes = packet.slices().flatten().copied().collect();
        packets.push((packet.writer_id(), String::from_utf8(bytes).expect("text"), packet.loss()));
    }
    (sequences, packets)
}

#[test]
fn a_region_of_version_1_has_its_packets_and_losses_still() {
    let (sequences, packets) = found(memory());
    let counts = |of: &SequenceInfo| (of.writer_id, of.packets_evicted, of.chunks_malformed, of.pending);
    let overwritten = DataLoss::ANY | DataLoss::OVERWRITE;
    assert_eq!(
        sequences.iter().map(counts).collect::<Vec<_>>(),
        [(1, 0, 2, DataLoss::empty()), (2, 4, 0, overwritten), (3, 0, 0, DataLoss::empty())]
    );
    let none = DataLoss::empty();
    let expected = [
        (2, "packet no. 4", overwritten),
        (2, "packet no. 5", none),
        (2, "packet no. 6", none),
        (1, "next", DataLoss::ANY | DataLoss::CHUNK_CORRUPTED),
        (3, "whole", DataLoss::ANY | DataLoss::ORPHAN_CONTINUATION),
    ];
    assert_eq!(packets, expected.map(|(writer, text, loss)| (writer, String::from(text), loss)));
}

#[test]
fn a_region_of_version_1_can_be_looked_at_as_it_is() {
    let memory = memory();
    let view = RingView::find(&memory).expect("a region");
    let chunks = view.items().filter(|item| matches!(item.content, RingContent::Chunk(_)));
    assert_eq!((view.size(), chunks.count()), (256, 6));
    let region = RingView::place(&memory).expect("a region");
    assert_eq!((region.start, region.end), (HEADER + 4 * 48, memory.len()));
}

#[test]
fn a_reset_while_a_region_becomes_one_of_this_version_changes_nothing() {
    let mut many = memory();
    many[MALFORMED].copy_from_slice(&200_000_u32.to_le_bytes());
    for (memory, malformed) in [(memory(), 2), (many, u64::from(u16::MAX))] {
        let expected = found(memory.clone());
        assert_eq!(expected.0[0].chunks_malformed, malformed);
        let moments = cut_short(&memory, config(), &mut Rng(1));
        assert!(moments.iter().any(|moment| moment[4] == 1) && moments.iter().any(|moment| moment[4] == 2));
        for moment in moments.into_iter().step_by(if cfg!(miri) { 3 } else { 1 }) {
            assert_eq!(found(moment), expected);
        }
    }
}
