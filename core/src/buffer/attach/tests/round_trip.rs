//! Intact regions.

use super::load::Load;
use crate::buffer::tests::memory::Memory;
use crate::buffer::tests::with_options;
use crate::buffer::*;

/// Runs the same operations on a buffer and on one that was attached to a copy of it in between.
fn compare(config: Config, ring: u32, seed: u64) {
    let mut load = Load::new(seed, 7);
    let mut buffer =
        TraceBuffer::new(Memory::filled(0, config.region_size(ring) as usize), config).expect("room for it");
    for _ in 0..if cfg!(miri) { 1 } else { 60 } {
        for _ in 0..17 {
            load.next().run(&mut buffer);
        }
        let memory = buffer.into_memory();
        let (mut twin, salvage) = TraceBuffer::attach(memory.clone()).expect("a region");
        assert!(salvage.is_clean(), "seed {seed}: {salvage}");
        twin.check().expect("a sound buffer");
        let layout = super::super::RegionLayout::find(&memory, crate::buffer::region::RingEnd::Required)
            .expect("a region");
        buffer = TraceBuffer { memory, layout, observer: Unobserved };
        assert_eq!(twin.stats(), buffer.stats());
        for _ in 0..if cfg!(miri) { 12 } else { 40 } {
            let op = load.next();
            assert_eq!(op.run(&mut twin), op.run(&mut buffer), "seed {seed}: {op:?}");
        }
        assert_eq!(twin.stats(), buffer.stats(), "seed {seed}");
    }
}

#[test]
fn a_region_that_was_attached_again_goes_on_as_if_nothing_had_happened() {
    for seed in 0..if cfg!(miri) { 1 } else { 40 } {
        for policy in [FillPolicy::RingBuffer, FillPolicy::Discard] {
            let config = with_options(Config::new(policy), seed % 3 == 0, seed % 2 == 0);
            compare(config.sequences(4 + (seed % 5) as u16), 500 + 170 * (seed % 9) as u32, seed);
        }
    }
}

// Three megabytes of table.
#[cfg(not(miri))]
#[test]
fn a_region_with_the_largest_table_is_attached_too() {
    let config = Config::new(FillPolicy::RingBuffer).sequences(u16::MAX);
    let mut buffer =
        TraceBuffer::new(Memory::filled(0, config.region_size(400) as usize), config).expect("room");
    let header = ChunkHeader { producer_id: 1, fragments: 1, ..ChunkHeader::default() };
    buffer.copy_chunk_untrusted(&Chunk { header, payload: b"\x05hello" });
    let (mut buffer, salvage) = TraceBuffer::attach(buffer.into_memory()).expect("a region");
    assert!(salvage.is_clean() && salvage.chunks_kept == 1, "{salvage}");
    assert!(buffer.read().next_packet().is_some());
}

#[test]
fn where_no_patches_will_come_the_packets_in_front_of_the_one_that_waits_come_out() {
    let config = with_options(Config::new(FillPolicy::RingBuffer), true, false);
    let mut buffer =
        TraceBuffer::new(Memory::filled(0, config.region_size(400) as usize), config).expect("room");
    let header = |chunk_id, flags| ChunkHeader {
        producer_id: 1,
        writer_id: 1,
        chunk_id,
        fragments: 3,
        flags,
        ..ChunkHeader::default()
    };
    // A packet across the first two chunks, one in the second, and the beginning of another, whose size is not yet
    // there; its end, and two more.
    let (begun, goes_on) = (ChunkFlags::CONTINUES_ON_NEXT, ChunkFlags::CONTINUES_FROM_PREVIOUS);
    let chunks = [
        (header(0, begun), &b"\x01a\x02bb\x01p"[..]),
        (header(1, goes_on | begun | ChunkFlags::NEEDS_PATCHING), b"\x01q\x01c\x07\x0a\x80\x80\x80\x00cc"),
        (header(2, goes_on), b"\x02cc\x01d\x01e"),
    ];
    for (header, payload) in &chunks {
        buffer.copy_chunk_untrusted(&Chunk { header: *header, payload });
    }
    let memory = buffer.into_memory();
    let packets = |reader: &mut Reader<'_>| {
        let mut packets = std::vec::Vec::new();
        while let Some(packet) = reader.next_packet() {
            packets.push((packet.slices().next().expect("bytes").to_vec(), packet.loss()));
        }
        packets
    };
    let (mut living, salvage) = TraceBuffer::attach(memory.clone()).expect("a region");
    assert!(salvage.is_clean());
    assert_eq!(packets(&mut living.read()).len(), 2, "the patch may still come");

    let (mut ended, salvage) = ReadOnlyTraceBuffer::attach_ended(memory.clone()).expect("a region");
    assert_eq!((salvage.chunks_cut, salvage.chunks_kept), (1, 3));
    let found = packets(&mut ended.read());
    let (mut second_start, salvage) = TraceBuffer::attach_or_new(memory, config).expect("a region");
    assert_eq!(salvage.map(|salvage| salvage.chunks_cut), Some(1));
    assert_eq!(packets(&mut second_start.read()), found);
    let texts: std::vec::Vec<_> = found.iter().map(|(bytes, _)| &bytes[..]).collect();
    assert_eq!(texts, [&b"a"[..], b"bb", b"p", b"c", b"d", b"e"]);
    let losses: std::vec::Vec<_> = found.iter().map(|(_, loss)| !loss.is_empty()).collect();
    assert_eq!(losses, [false, false, false, false, true, false]);
}
