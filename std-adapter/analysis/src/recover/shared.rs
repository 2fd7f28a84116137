//! Shared memory that lies before a ring, or in the file of a session's buffer.

use std::collections::BTreeSet;
use std::fmt;

use tracebuf::buffer::TraceBuffer;
use tracebuf::producer::{Bitmap, Consumer, Page, SharedMemory, SmbChunkHeader, atomic_words};
use tracebuf::service::{ProducerEndpoint, ProducerIdentity, StartMark};

use super::Aligned;
use tracebuf_session::limits::{PAGE, WRITERS};
use tracebuf_session::region_file::RecoveredSmb;
use tracebuf_std::display::Count;

/// Bytes before a ring that are looked at: more than firmware has.
const MOST: usize = 1 << 20;
/// Pages allowed in more than [`FEW`] bytes: a dump may be crafted so that each chunk costs much, and a page has up to
/// 14.
const MOST_PAGES: u32 = 780;
const FEW: u64 = 128 << 10;
/// Bytes that a chunk takes in a ring besides its payload, at most: header, checksum, and padding to the next word.
const AROUND: usize = 24 + 4 + 3;

/// Shared memory that lies before a buffer, marked by [`StartMark`], or in the [file of a session's
/// buffer](tracebuf_session::SessionBuilder::shared_memory_in_file). It holds what writers had finished when the
/// program ended and was not yet moved into the ring. Before a buffer it is found if it has less than 1 MiB and, from
/// 128 KiB on, no more than 780 pages; with more than 1,024 writers, the rest are left out.
#[derive(Clone)]
#[non_exhaustive]
pub struct SharedMemoryImage {
    /// Its address, as in [`Found::address`](super::Found::address); in a file, the offset from its start.
    pub address: u64,
    /// Chunks that contain something finished. Some may already be in the ring.
    pub chunks: u64,
    /// The number of their writers.
    pub writers: u64,
    /// Pages that something else has overwritten: what writers had in them is gone.
    pub pages_overwritten: u64,
    identity: ProducerIdentity,
    page_size: u32,
    words: Vec<u32>,
}

impl SharedMemoryImage {
    /// The shared memory that these bytes end with, if the buffer begins right after them, at `end`.
    pub(super) fn before(bytes: &[u8], end: u64) -> Option<Self> {
        let near = bytes.get(bytes.len().saturating_sub(MOST)..)?;
        // Buffers begin at 8-byte boundaries in memory, if not in the dump.
        let (_, words) = near.as_rchunks::<8>();
        let (distance, mark) = words.iter().rev().zip((0u64..).step_by(8)).find_map(|(word, distance)| {
            let mark = StartMark::from_word(u64::from_ne_bytes(*word))?;
            let is_its_own = mark.ring_offset() == distance;
            (is_its_own && (distance < FEW || mark.pages() <= MOST_PAGES)).then_some((distance, mark))
        })?;
        let start = near.len().checked_sub(usize::try_from(distance).ok()?)?;
        let size = mark.page_size() as usize * mark.pages() as usize;
        let words = near.get(start..)?.get(..size)?.as_chunks().0;
        let words = words.iter().map(|word| u32::from_ne_bytes(*word)).collect();
        // The device has no users and processes.
        let identity = ProducerIdentity { producer_id: mark.start(), uid: 0, pid: -1 };
        Self::of(words, mark.page_size(), end - distance, identity, |_| true)
    }

    /// That of a session that was killed, in the file of one of its buffers.
    pub(super) fn in_file(left: &RecoveredSmb) -> Option<Self> {
        let is_wanted = |chunk: &SmbChunkHeader| left.is_for_buffer(chunk.writer_id, chunk.chunk_id);
        Self::of(left.words(), PAGE, left.start(), left.identity, is_wanted)
    }

    /// The wanted part of its content.
    fn of(
        mut words: Vec<u32>,
        page_size: u32,
        address: u64,
        identity: ProducerIdentity,
        is_wanted: impl Fn(&SmbChunkHeader) -> bool,
    ) -> Option<Self> {
        let page_words = page_size as usize / 4;
        if page_words == 0 {
            return None;
        }
        // Here nothing has checked the pages, unlike in the program that wrote them, where they were its own memory.
        let mut pages_overwritten = 0;
        for page in words.chunks_mut(page_words).filter(|page| !is_page(page)) {
            page.fill(0);
            pages_overwritten += 1;
        }
        let memory = SharedMemory::new(atomic_words(&mut words), page_size).ok()?;
        let mut consumer = Consumer::new(memory);
        consumer.reclaim();
        let others = consumer.visible().filter(|chunk| !is_wanted(&chunk.header()));
        let others: Vec<_> = others.map(|chunk| chunk.position()).collect();
        for (page, chunk) in others {
            let Some(words) = words.get_mut(page as usize * page_words..) else { continue };
            disown(words, chunk, page_size);
        }
        let memory = SharedMemory::new(atomic_words(&mut words), page_size).ok()?;
        let consumer = Consumer::new(memory);
        let chunks = writers(&consumer).count() as u64;
        let writers = writers(&consumer).collect::<BTreeSet<_>>().len() as u64;
        Some(Self { address, chunks, writers, pages_overwritten, identity, page_size, words })
    }

    /// Its description, without the memory itself.
    pub(super) fn emptied(&self) -> Self {
        Self { words: Vec::new(), ..*self }
    }

    /// The most bytes of a ring that all of it takes.
    pub(super) fn room(&self) -> usize {
        let chunks = usize::try_from(self.chunks).unwrap_or(usize::MAX);
        chunks.saturating_mul(AROUND).saturating_add(size_of_val(&self.words[..]))
    }

    /// Puts into the ring what it does not have. Returns how many chunks that were, and how many were refused without
    /// the ring's knowing, because they make no sense.
    pub(super) fn move_into(mut self, ring: TraceBuffer<Aligned>) -> (TraceBuffer<Aligned>, u64, u64) {
        let Ok(memory) = SharedMemory::new(atomic_words(&mut self.words), self.page_size) else {
            return (ring, 0, 0);
        };
        let consumer = Consumer::new(memory);
        let writers: BTreeSet<u16> = writers(&consumer).collect();
        let mut endpoint = ProducerEndpoint::<WRITERS>::new(consumer, self.identity);
        endpoint.allow(0);
        for writer in writers {
            endpoint.register_counting_writer(writer, 0);
        }
        let before = taken(&ring);
        let mut rings = [ring];
        endpoint.disconnect(&mut rings);
        let [ring] = rings;
        let chunks = taken(&ring).saturating_sub(before);
        (ring, chunks, endpoint.stats().chunks_discarded)
    }
}

/// Chunks from which a ring has taken something.
fn taken(ring: &TraceBuffer<Aligned>) -> u64 {
    let stats = ring.stats();
    [stats.chunks_written, stats.chunks_rewritten, stats.chunks_relocated]
        .into_iter()
        .fold(0, u64::saturating_add)
}

/// The writer of each chunk that contains something finished. A chunk without a writer was just being freed.
fn writers(consumer: &Consumer<'_>) -> impl Iterator<Item = u16> {
    consumer.visible().map(|chunk| chunk.header().writer_id).filter(|writer| *writer > 0)
}

/// Makes a chunk of a page one without a writer.
fn disown(page: &mut [u32], chunk: u32, page_size: u32) {
    let layout = page.first().and_then(|bitmap| Bitmap(u32::from_le(*bitmap)).layout());
    let size = layout.map_or(0, |layout| layout.chunk_size(page_size));
    let start = (Page::HEADER_SIZE + chunk as usize * size as usize) / 4;
    let header = page.get_mut(start..).and_then(|words| words.get_mut(..SmbChunkHeader::SIZE / 4));
    header.unwrap_or_default().fill(0);
}

/// Returns true if a page begins as writers leave it. If not, something else has overwritten it.
pub(super) fn is_page(page: &[u32]) -> bool {
    let [bitmap, reserved, ..] = page else { return false };
    let bitmap = Bitmap(u32::from_le(*bitmap));
    *reserved == 0 && !bitmap.reserved_bit() && !bitmap.has_stray_states()
}

impl fmt::Display for SharedMemoryImage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (chunks, writers) = (Count(self.chunks, "chunk"), Count(self.writers, "writer"));
        write!(f, "shared memory at {:#x}: {chunks} of {writers}", self.address)?;
        match self.pages_overwritten {
            0 => Ok(()),
            pages => write!(f, ", {} overwritten by something else", Count(pages, "page")),
        }
    }
}

impl fmt::Debug for SharedMemoryImage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SharedMemoryImage({self})")
    }
}
