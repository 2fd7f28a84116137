//! Views of rings, whole and damaged.

use super::super::{Chunk, ChunkHeader, Config, FillPolicy};
use super::*;
use std::vec;
use std::vec::Vec;

fn buffer(ring: u32) -> TraceBuffer<Vec<u8>> {
    let config = Config::new(FillPolicy::RingBuffer).sequences(4);
    TraceBuffer::new(vec![0u8; config.region_size(ring) as usize], config).unwrap()
}

fn commit(buffer: &mut TraceBuffer<Vec<u8>>, writer_id: u16, chunk_id: u32, payload: usize) {
    let header = ChunkHeader { producer_id: 1, writer_id, chunk_id, fragments: 1, ..Default::default() };
    let mut bytes = vec![7u8; payload];
    bytes[0] = payload as u8 - 1;
    buffer.copy_chunk_untrusted(&Chunk { header, payload: &bytes });
}

#[test]
fn the_items_lie_one_behind_the_other_up_to_what_is_used() {
    let mut buffer = buffer(1024);
    // Fewer under Miri, but still more than a lap.
    for chunk_id in 0..if cfg!(miri) { 30 } else { 100 } {
        commit(&mut buffer, 1 + (chunk_id % 3) as u16, chunk_id / 3, 5 + chunk_id as usize % 90);
        if cfg!(miri) && chunk_id % 4 != 0 {
            continue;
        }
        let ring = buffer.inspect();
        let mut end = 0;
        for item in ring.items() {
            assert_eq!(item.offset, end);
            assert!(!matches!(item.content, RingContent::Unreadable));
            end += item.size;
        }
        assert_eq!(end, ring.used());
        let summary = buffer.check().unwrap();
        let is_chunk = |item: &RingItem| matches!(item.content, RingContent::Chunk(_));
        assert_eq!(buffer.inspect().items().filter(is_chunk).count() as u64, summary.chunks);
    }
    assert!(buffer.stats().write_wrap_count > 0);
}

#[test]
fn a_later_chunk_is_younger_wherever_it_lies() {
    let mut buffer = buffer(1024);
    (0..50).for_each(|chunk_id| commit(&mut buffer, 1, chunk_id, 60));
    let mut chunks: Vec<_> = buffer
        .inspect()
        .items()
        .filter_map(|item| match item.content {
            RingContent::Chunk(chunk) => Some((item.age, chunk.chunk_id)),
            _ => None,
        })
        .collect();
    chunks.sort_unstable();
    let ids: Vec<u32> = chunks.iter().rev().map(|(_, id)| *id).collect();
    let first = *ids.first().unwrap();
    assert!(first > 0 && ids.len() > 5);
    assert_eq!(ids, (first..50).collect::<Vec<_>>());
}

#[test]
fn what_was_read_is_free() {
    let mut buffer = buffer(1024);
    (0..3).for_each(|chunk_id| commit(&mut buffer, 1, chunk_id, 60));
    let mut reader = buffer.read();
    while reader.next_packet().is_some() {}
    assert!(buffer.inspect().items().all(|item| item.content == RingContent::Free));
}

#[test]
fn a_damaged_ring_ends_with_an_unreadable_item() {
    let mut buffer = buffer(1024);
    (0..3).for_each(|chunk_id| commit(&mut buffer, 1, chunk_id, 60));
    let second = buffer.inspect().items().nth(1).unwrap().offset;
    let used = buffer.inspect().used();
    let mut memory = buffer.into_memory();
    let start = memory.as_ptr().align_offset(8) + 256 + 4 * 48;
    for word in [0x8000_0000u32, 0xFFFF_FFFF, 0x0000_FFFF] {
        let at = start + second as usize;
        memory[at..at + 4].copy_from_slice(&word.to_le_bytes());
        let items: Vec<_> = RingView::find(&memory).unwrap().items().collect();
        let last = items.last().unwrap();
        assert_eq!((items.len(), last.content), (2, RingContent::Unreadable), "{word:x}");
        assert_eq!(last.offset + last.size, used);
    }
}
