//! The largest ring there can be, lapped, and a packet that a trace has no room for.
#![cfg(all(target_os = "linux", target_pointer_width = "64"))]

use tracebuf::buffer::{Chunk, ChunkFlags, ChunkHeader, Commit, Config, DataLoss, FillPolicy, TraceBuffer};
use tracebuf_std::PagedMemory;
use tracebuf_std::pftrace::TraceFile;

/// Scraped chunks keep room for all that they may become, so that only the page of each header is ever touched.
#[test]
fn a_ring_of_four_gigabytes_laps_and_gives_its_packets_back() {
    const ROOM: usize = 65_000;
    let config = Config::new(FillPolicy::RingBuffer).sequences(4);
    let region = usize::try_from(config.region_size(u32::MAX)).expect("64 bits");
    let memory = PagedMemory::new(region).expect("address space");
    let mut buffer = TraceBuffer::new(memory, config).expect("a region of the right size");
    let size = buffer.stats().buffer_size;
    assert_eq!(size, u64::from(u32::MAX) & !3);
    let held = u32::try_from(size / (ROOM as u64 + 24)).expect("fewer chunks than bytes");
    // The ring's end is passed, and chunks behind it are overwritten.
    let chunks = held + held / 8;
    for chunk_id in 0..chunks {
        let header =
            ChunkHeader { producer_id: 1, writer_id: 1, chunk_id, fragments: 2, ..ChunkHeader::default() };
        let outcome = buffer.commit_with(&header, ROOM, |_, private| {
            // A packet of one byte, and one that is still being written.
            private.iter_mut().zip([1, 7, 0]).for_each(|(byte, value)| *byte = value);
        });
        assert_eq!(outcome, Commit::Written, "{chunk_id}");
    }
    buffer.check().expect("a sound buffer");
    let stats = buffer.stats();
    assert_eq!((stats.write_wrap_count, stats.chunks_offered()), (1, u64::from(chunks)));
    assert!(stats.chunks_overwritten > u64::from(held / 16));
    // A scraped chunk is waited for, so what comes out is the first one's packet.
    let mut reader = buffer.read();
    let packet = reader.next_packet().expect("a packet");
    assert_eq!((packet.len(), packet.loss().is_empty()), (1, false));
}

/// A packet's length in a trace has up to 28 bits.
#[test]
fn a_packet_that_a_trace_has_no_room_for_is_left_out_of_it_and_counted() {
    const PART: usize = 65_528;
    const PARTS: u32 = (1 << 28) / PART as u32 + 1;
    let config = Config::new(FillPolicy::RingBuffer).sequences(4);
    let region = usize::try_from(config.region_size(300 << 20)).expect("64 bits");
    let mut buffer = TraceBuffer::new(PagedMemory::new(region).expect("memory"), config).expect("a region");
    let mut commit = |chunk_id, flags, payload: &[u8]| {
        let header = ChunkHeader {
            producer_id: 1,
            chunk_id,
            fragments: 1,
            complete: true,
            flags,
            ..Default::default()
        };
        let outcome = buffer.copy_chunk_untrusted(&Chunk { header, payload });
        assert_eq!(outcome, Commit::Written, "{chunk_id}");
    };
    // A fragment's size, and fields of five bytes.
    let part: Vec<u8> =
        [0xF5, 0xFF, 0x03].into_iter().chain([0x40, 0x81, 0x80, 0x80, 0x00].repeat(PART / 5)).collect();
    for id in 0..PARTS {
        let mut flags = ChunkFlags::empty();
        flags.set(ChunkFlags::CONTINUES_FROM_PREVIOUS, id > 0);
        flags.set(ChunkFlags::CONTINUES_ON_NEXT, id < PARTS - 1);
        commit(id, flags, &part);
    }
    commit(PARTS, ChunkFlags::empty(), &[2, 0x40, 7]);
    let (mut reader, mut bytes) = (buffer.read(), Vec::new());
    let mut file = TraceFile::new(&mut bytes);
    let mut lengths = Vec::new();
    while let Some(packet) = reader.next_packet() {
        lengths.push(packet.len());
        file.write_packet(&packet).expect("a file");
    }
    assert_eq!(lengths, [PARTS as usize * (PART - 3), 2]);
    assert_eq!(file.finish(None).expect("a file"), 1);
    let told = DataLoss::READ_GAP | DataLoss::ANY;
    assert!(bytes.ends_with(&[0xD0, 0x02, told.bits() as u8]), "{bytes:x?}");
}
