//! The part of the file that is the shared memory of the session's own threads.

use std::fs::File;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tracebuf::producer::{AtomicU32, Page, SmbChunkHeader};
use tracebuf::service::ProducerIdentity;
use tracebuf_std::memory::WordsInFile;

use super::writers::{ENTRIES, Entry, changes};
use super::{BUFFER, OWN, OWN_PAGE, PAGE, PROCESS, PRODUCER, TABLE, USER, WRITERS_AT};
use crate::limits::{self, LAYOUT, WRITERS};

/// Shared memory that is to lie in the file.
#[derive(Clone, Copy)]
pub(crate) struct SharedMemorySpec {
    pub(crate) bytes: u64,
    /// The number of the buffer that the file belongs to.
    pub(crate) buffer: u16,
    pub(crate) identity: ProducerIdentity,
}

impl SharedMemorySpec {
    pub(super) fn numbers(&self) -> [(usize, u64); 7] {
        [
            (OWN, self.bytes),
            (OWN_PAGE, limits::PAGE.into()),
            (WRITERS_AT, WRITERS as u64),
            (BUFFER, self.buffer.into()),
            (PRODUCER, self.identity.producer_id.into()),
            (PROCESS, u64::from(self.identity.pid as u32)),
            (USER, self.identity.uid.into()),
        ]
    }
}

/// Shared memory in a file, preceded by a table of the buffers that its writers write to.
///
/// Threads may have it for longer than the session holds the file's lock. A child after a fork has its own copy.
#[derive(Clone)]
pub(crate) struct OwnMemory(Arc<WordsInFile>);

impl AsRef<[AtomicU32]> for OwnMemory {
    fn as_ref(&self) -> &[AtomicU32] {
        self.0.words(TABLE as usize)
    }
}

impl OwnMemory {
    /// Maps the file from this place on, where all is zero and blocks are allocated. All pages are touched.
    pub(super) fn new(file: &File, at: u64, bytes: u64) -> io::Result<Self> {
        let len = usize::try_from(TABLE.saturating_add(bytes)).map_err(|_| io::ErrorKind::OutOfMemory)?;
        let memory = Self(Arc::new(WordsInFile::new(file, at, len)?));
        // Not by loads: the first store would have to wait again.
        let pages = memory.as_ref().iter().step_by(PAGE as usize / size_of::<AtomicU32>());
        pages.for_each(|word| word.store(0, Ordering::Relaxed));
        let pages = (1..=WRITERS as u16).step_by(PAGE as usize / (ENTRIES * size_of::<AtomicU64>()));
        let first = pages.filter_map(|writer| memory.entries(writer)?.first());
        first.for_each(|word| word.store(0, Ordering::Relaxed));
        Ok(memory)
    }

    fn entries(&self, writer_id: u16) -> Option<&[AtomicU64; ENTRIES]> {
        let place = usize::from(writer_id).checked_sub(1)? * ENTRIES;
        self.0.long_words(TABLE as usize).get(place..)?.first_chunk()
    }

    /// Notes that a writer begins and will write to this buffer; only one at a time for each number.
    pub(crate) fn note_writer(&self, writer_id: u16, target: u16) {
        let Some(entries) = self.entries(writer_id) else { return };
        let now = entries.each_ref().map(|entry| Entry(u64::from_le(entry.load(Ordering::Relaxed))));
        let changes = changes(now, target, || self.newest_chunk_of(writer_id));
        for (place, Entry(value)) in changes {
            if let Some(entry) = entries.get(place) {
                // Release: each comes before the next one, and all of them before the writer's first chunk.
                entry.store(value.to_le(), Ordering::Release);
            }
        }
    }

    /// The number of the newest chunk there of a writer that writes nothing now.
    #[cold]
    fn newest_chunk_of(&self, writer_id: u16) -> Option<u32> {
        let page = limits::PAGE as usize / 4;
        let chunk = LAYOUT.chunk_size(limits::PAGE) as usize / 4;
        let chunks = self
            .as_ref()
            .chunks_exact(page)
            .flat_map(|page| page.get(Page::HEADER_SIZE / 4..).unwrap_or_default().chunks_exact(chunk));
        let its_id = |words: &[AtomicU32]| {
            let [id, packets, ..] = words else { return None };
            let writer = || {
                let packets = u32::from_le(packets.load(Ordering::Acquire));
                SmbChunkHeader::from_words([0, packets]).writer_id
            };
            let is_its = writer() == writer_id;
            let id = u32::from_le(id.load(Ordering::Acquire));
            // The drain thread may be just freeing it: the writer's number is cleared first, then the chunk's.
            (is_its && writer() == writer_id).then_some(id)
        };
        let newer = |one: u32, other: u32| if other.wrapping_sub(one) as i32 > 0 { other } else { one };
        chunks.filter_map(its_id).reduce(newer)
    }
}
