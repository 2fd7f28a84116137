//! A packet that a trace has no room for.

use tracebuf::buffer::{Chunk, ChunkFlags, ChunkHeader, Commit, Config, FillPolicy, TraceBuffer};

use tracebuf_std::PagedMemory;

/// Bytes of a chunk, three of which are its fragment's size: [`SIZE`].
pub const PART: usize = 65_528;
/// A fragment's size, without these bytes.
pub const SIZE: [u8; 3] = [0xF5, 0xFF, 0x03];
/// Chunks of one packet, whose length in a trace has up to 28 bits.
pub const PARTS: u32 = (1 << 28) / PART as u32 + 1;

/// A buffer with this packet of producer 1, which has this `part` in each of its chunks.
pub fn in_buffer(part: &[u8]) -> TraceBuffer<PagedMemory> {
    let config = Config::new(FillPolicy::RingBuffer).sequences(4);
    let region = usize::try_from(config.region_size(300 << 20)).expect("64 bits");
    let mut buffer = TraceBuffer::new(PagedMemory::new(region).expect("memory"), config).expect("a region");
    for chunk_id in 0..PARTS {
        let mut flags = ChunkFlags::empty();
        flags.set(ChunkFlags::CONTINUES_FROM_PREVIOUS, chunk_id > 0);
        flags.set(ChunkFlags::CONTINUES_ON_NEXT, chunk_id < PARTS - 1);
        commit(&mut buffer, chunk_id, flags, part);
    }
    buffer
}

/// Commits a chunk of one fragment.
pub fn commit(buffer: &mut TraceBuffer<PagedMemory>, chunk_id: u32, flags: ChunkFlags, payload: &[u8]) {
    let header =
        ChunkHeader { producer_id: 1, chunk_id, fragments: 1, complete: true, flags, ..Default::default() };
    let outcome = buffer.copy_chunk_untrusted(&Chunk { header, payload });
    assert_eq!(outcome, Commit::Written, "{chunk_id}");
}
