//! A shared memory image made by our own writer, for others to read.

use tracebuf::producer::*;

/// Sends nothing: what is written stays where it is.
struct Silent;

impl CommitSink for Silent {
    fn commit(&self, _: &CommitRequest<'_>) {}
}

/// Chunks that an image can have.
const CHUNKS: usize = 65_536;

/// An image of `size` bytes as two writers leave it in the middle of their work.
///
/// About three quarters of the chunks are used. There are packets of 0 to some thousand bytes (an empty one is
/// no packet), nested up to three deep and over several chunks; size fields that a patch was promised for; the
/// last packet of each writer is not finished. What `size` has beyond whole pages stays zero.
///
/// # Errors
/// If there is no such shared memory: see [`MemoryError`].
///
/// ```
/// use tracebuf::producer::Layout;
///
/// let image = tracebuf_std::smb::sample(65_536, 4096, Layout::Four)?;
/// assert_eq!(image.len(), 65_536);
/// # Ok::<(), tracebuf::producer::MemoryError>(())
/// ```
pub fn sample(size: usize, page_size: u32, layout: Layout) -> Result<Vec<u8>, MemoryError> {
    // Memory for more than an image can have is not even asked for.
    if !(SharedMemory::MIN_PAGE..=SharedMemory::MAX_PAGE).contains(&page_size) {
        return Err(MemoryError::PageSize);
    }
    if size / page_size as usize > SharedMemory::MAX_PAGES {
        return Err(MemoryError::PageCount);
    }
    let mut words = vec![0u32; size / 4];
    let memory = SharedMemory::new(atomic_words(&mut words), page_size)?;
    let storage = Box::new(ProducerStorage::<CHUNKS, 2>::new());
    let producer = Producer::new(memory, layout, &storage, &Silent)?;
    let mut writers: Vec<_> = [(); 2].iter().filter_map(|()| producer.writer(0, Exhaustion::Drop)).collect();
    let enough = u64::from(memory.chunks(layout)) * 3 / 4;
    let largest = u32::try_from(memory.size() / 16).unwrap_or(u32::MAX);
    let mut state = 1u32;
    let mut number = 0u64;
    while used(memory) < enough {
        for writer in &mut writers {
            number += 1;
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            // Most are small; none is so large that memory is full with it.
            let size = (state >> 8) % (8 << ((state >> 4) % 10)).min(largest);
            write(&mut writer.packet(), number, size as usize, state % 4);
        }
    }
    for writer in &mut writers {
        let mut packet = writer.packet();
        packet.varint(TIMESTAMP, number);
        std::mem::forget(packet);
    }
    // Dropping them would send their chunks.
    writers.into_iter().for_each(std::mem::forget);
    let mut image: Vec<u8> = words.into_iter().flat_map(u32::to_ne_bytes).collect();
    image.resize(size, 0);
    Ok(image)
}

// Of `TracePacket`; `TestEvent` in it has a string and a payload that nests.
const TIMESTAMP: u32 = 8;
const FOR_TESTING: u32 = 900;
const STRING: u32 = 1;
const PAYLOAD: u32 = 5;
const PAYLOAD_STRING: u32 = 1;
const PAYLOAD_NESTED: u32 = 2;

fn write(packet: &mut Packet<'_, '_>, number: u64, size: usize, depth: u32) {
    packet.varint(TIMESTAMP, number);
    let letter = char::from(b'a' + (number % 26) as u8);
    let text: String = std::iter::repeat_n(letter, size).collect();
    let mut event = packet.message(FOR_TESTING);
    if depth == 0 {
        event.string(STRING, &text);
    } else {
        nested(&mut event.message(PAYLOAD), &text, depth - 1);
    }
}

fn nested(payload: &mut Message<'_, '_>, text: &str, depth: u32) {
    payload.string(PAYLOAD_STRING, text);
    if depth > 0 {
        nested(&mut payload.message(PAYLOAD_NESTED), text, depth - 1);
    }
}

fn used(memory: SharedMemory<'_>) -> u64 {
    let chunks = memory.all_pages().flat_map(|page| page.chunks());
    chunks.filter(|chunk| chunk.state() != ChunkState::Free).count() as u64
}
