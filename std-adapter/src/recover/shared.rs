//! Shared memory that lies before a ring.

use std::collections::BTreeSet;
use std::fmt;

use tracebuf::buffer::TraceBuffer;
use tracebuf::producer::{Bitmap, Consumer, SharedMemory, atomic_words};
use tracebuf::service::{ProducerEndpoint, ProducerIdentity, StartMark};

use super::Aligned;
use crate::figures::Count;

/// Bytes before a ring that are looked at, more than firmware has: a dump may be made so that each chunk costs much.
const MOST: usize = 128 << 10;
/// Writers whose chunks are brought in: those of more tasks and interrupts than one device has.
const WRITERS: usize = 256;
/// Bytes that a chunk takes in a ring beside its payload, at most: header, checksum, and up to the next word.
const AROUND: usize = 24 + 4 + 3;

/// Shared memory that lies before a buffer, as [`StartMark`] says: in it is what writers had finished when the program
/// ended, and nobody had moved into the ring. It is found if it has less than 128 KiB; of more than 256 writers the
/// others are left out.
///
/// Its text is a line: `shared memory at 0x20000008: 3 chunks of 2 writers`.
#[derive(Clone)]
#[non_exhaustive]
pub struct Shared {
    /// Where it begins, as [`Found::address`](super::Found::address) has it.
    pub address: u64,
    /// Chunks with something finished in them. Some may be in the ring already.
    pub chunks: u64,
    /// How many writers they are of.
    pub writers: u64,
    /// The start's number.
    producer_id: u16,
    page_size: u32,
    words: Vec<u32>,
}

impl Shared {
    /// That which these bytes end with, if the buffer begins behind them, at `end`.
    pub(super) fn before(bytes: &[u8], end: u64) -> Option<Self> {
        let near = bytes.get(bytes.len().saturating_sub(MOST)..)?;
        // Buffers begin at 8-byte boundaries of memory, if not of the dump.
        let (_, words) = near.as_rchunks::<8>();
        let (distance, mark) = words.iter().rev().zip((0u64..).step_by(8)).find_map(|(word, distance)| {
            let mark = StartMark::from_word(u64::from_ne_bytes(*word))?;
            (mark.ring_offset() == distance).then_some((distance, mark))
        })?;
        let start = near.len().checked_sub(usize::try_from(distance).ok()?)?;
        let size = mark.page_size() as usize * mark.pages() as usize;
        let words = near.get(start..)?.get(..size)?.as_chunks().0;
        let mut words: Vec<u32> = words.iter().map(|word| u32::from_ne_bytes(*word)).collect();
        // Other than on the device, where it is this program's own memory, nobody has looked at it.
        words
            .chunks_mut(mark.page_size() as usize / 4)
            .filter(|page| !is_page(page))
            .for_each(|page| page.fill(0));
        let memory = SharedMemory::new(atomic_words(&mut words), mark.page_size()).ok()?;
        let mut consumer = Consumer::new(memory);
        consumer.reclaim();
        let (chunks, writers) = (writers(&consumer).count(), writers(&consumer).collect::<BTreeSet<_>>());
        Some(Self {
            address: end - distance,
            chunks: chunks as u64,
            writers: writers.len() as u64,
            producer_id: mark.start(),
            page_size: mark.page_size(),
            words,
        })
    }

    /// Bytes of a ring that all of it takes, at most.
    pub(super) fn room(&self) -> usize {
        let chunks = usize::try_from(self.chunks).unwrap_or(usize::MAX);
        chunks.saturating_mul(AROUND).saturating_add(size_of_val(&self.words[..]))
    }

    /// Puts into the ring what that does not have, and gives how many chunks that were.
    pub(super) fn move_into(mut self, ring: TraceBuffer<Aligned>) -> (TraceBuffer<Aligned>, u64) {
        let Ok(memory) = SharedMemory::new(atomic_words(&mut self.words), self.page_size) else {
            return (ring, 0);
        };
        let consumer = Consumer::new(memory);
        let writers: BTreeSet<u16> = writers(&consumer).collect();
        // Of a device without users and processes.
        let identity = ProducerIdentity { producer_id: self.producer_id, uid: 0, pid: -1 };
        let mut endpoint = ProducerEndpoint::<WRITERS>::new(consumer, identity);
        endpoint.allow(0);
        for writer in writers {
            endpoint.register_counting_writer(writer, 0);
        }
        let before = taken(&ring);
        let mut rings = [ring];
        endpoint.disconnect(&mut rings);
        let [ring] = rings;
        let chunks = taken(&ring).saturating_sub(before);
        (ring, chunks)
    }
}

/// Chunks of which a ring has taken something.
fn taken(ring: &TraceBuffer<Aligned>) -> u64 {
    let stats = ring.stats();
    [stats.chunks_written, stats.chunks_rewritten, stats.chunks_relocated]
        .into_iter()
        .fold(0, u64::saturating_add)
}

/// Who has written each chunk that there is something finished in. A chunk of nobody was just being freed.
fn writers(consumer: &Consumer<'_>) -> impl Iterator<Item = u16> {
    consumer.visible().map(|chunk| chunk.header().writer_id).filter(|writer| *writer > 0)
}

/// Whether a page begins as writers leave it. One that does not was overwritten by something else.
fn is_page(page: &[u32]) -> bool {
    let [bitmap, reserved, ..] = page else { return false };
    let bitmap = Bitmap(u32::from_le(*bitmap));
    *reserved == 0 && !bitmap.reserved_bit() && !bitmap.has_stray_states()
}

impl fmt::Display for Shared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (chunks, writers) = (Count(self.chunks, "chunk"), Count(self.writers, "writer"));
        write!(f, "shared memory at {:#x}: {chunks} of {writers}", self.address)
    }
}

impl fmt::Debug for Shared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { address, chunks, writers, .. } = self;
        f.debug_struct("Shared")
            .field("address", address)
            .field("chunks", chunks)
            .field("writers", writers)
            .finish_non_exhaustive()
    }
}
