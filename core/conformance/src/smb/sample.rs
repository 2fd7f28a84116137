//! A shared memory image made by our own writer, for others to read.

use std::fmt;
use tracebuf::producer::*;

/// Sends nothing: what is written stays where it is.
struct Silent;

impl CommitSink for Silent {
    fn commit(&self, _: &CommitRequest<'_>) {}
}

/// The most chunks of an image: those of the largest shared memory that Perfetto's service takes, 32 MiB in pages of 4
/// KiB, divided as finely as possible.
const CHUNKS: usize = (32 << 20) / 4096 * 14;

/// Why there is no such image.
///
/// ```
/// use tracebuf::producer::{Layout, MemoryError};
/// use tracebuf_conformance::smb::{SampleError, sample};
///
/// // Pages have 64 KiB at most.
/// assert_eq!(sample(4 << 20, 1 << 20, Layout::Four), Err(SampleError::Memory(MemoryError::PageSize)));
/// let error = sample(64 << 20, 4096, Layout::Fourteen).unwrap_err();
/// assert_eq!(error, SampleError::Chunks);
/// println!("{error}");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum SampleError {
    /// There is no such shared memory.
    Memory(MemoryError),
    /// It would have more than 114,688 chunks.
    Chunks,
}

impl From<MemoryError> for SampleError {
    fn from(error: MemoryError) -> Self {
        match error {
            // Too little storage means more chunks than an image may have.
            MemoryError::Storage => SampleError::Chunks,
            error => SampleError::Memory(error),
        }
    }
}

impl fmt::Display for SampleError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SampleError::Memory(error) => error.fmt(f),
            SampleError::Chunks => {
                write!(f, "a sample has {CHUNKS} chunks at most: take fewer or larger ones")
            }
        }
    }
}

impl std::error::Error for SampleError {}

/// Returns an image of `size` bytes as two writers leave it in the middle of their work.
///
/// About three quarters of the chunks are used. There are packets of 0 to some thousand bytes (an empty one is no
/// packet), nested up to three deep and over several chunks; size fields for which a patch was promised; the last
/// packet of each writer is unfinished. Bytes beyond whole pages stay zero.
///
/// # Errors
/// If there is no such shared memory: see [`MemoryError`]. If it would have more than 114,688 chunks, the number in 32
/// MiB with pages of 4 KiB and 14 chunks each.
///
/// ```
/// use tracebuf::producer::Layout;
///
/// let image = tracebuf_conformance::smb::sample(65_536, 4096, Layout::Four)?;
/// assert_eq!(image.len(), 65_536);
/// # Ok::<(), tracebuf_conformance::smb::SampleError>(())
/// ```
pub fn sample(size: usize, page_size: u32, layout: Layout) -> Result<Vec<u8>, SampleError> {
    // Memory for more than an image can have is not even requested.
    if !(SharedMemory::MIN_PAGE..=SharedMemory::MAX_PAGE).contains(&page_size) {
        return Err(MemoryError::PageSize.into());
    }
    if size / page_size as usize > SharedMemory::MAX_PAGES {
        return Err(MemoryError::TooManyPages.into());
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
    while !are_used(memory, &writers, enough) {
        for writer in &mut writers {
            number += 1;
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            // Most are small; none is so large that it fills memory.
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

// Fields of `TracePacket`; its `TestEvent` has a string and a payload that nests.
const TIMESTAMP: u32 = 8;
const FOR_TESTING: u32 = 900;
const STRING: u32 = 1;
const PAYLOAD: u32 = 5;
const PAYLOAD_STRING: u32 = 1;
const PAYLOAD_NESTED: u32 = 2;

fn write(packet: &mut PacketHandle<'_, '_>, number: u64, size: usize, depth: u32) {
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

fn nested(payload: &mut MessageHandle<'_, '_>, text: &str, depth: u32) {
    payload.string(PAYLOAD_STRING, text);
    if depth > 0 {
        nested(&mut payload.message(PAYLOAD_NESTED), text, depth - 1);
    }
}

/// Whether so many chunks are in use. Looking at all of them each time would take minutes for a large image.
fn are_used(memory: SharedMemory<'_>, writers: &[TraceWriter<'_>], enough: u64) -> bool {
    // Nobody takes them. Besides the completed ones a writer has at most two: the current one, and one held back.
    let completed: u64 = writers.iter().map(|writer| writer.stats().chunks).sum();
    let chunks = memory.all_pages().flat_map(|page| page.chunks());
    let used = chunks.filter(|chunk| chunk.state() != ChunkState::Free);
    completed + 2 * writers.len() as u64 >= enough && used.count() as u64 >= enough
}
