//! The part of the file that is the shared memory of the session's own threads.
#![allow(unsafe_code)]

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::slice;
use std::sync::atomic::{AtomicU64, Ordering};

use memmap2::{MmapOptions, MmapRaw};
use rustix::param::page_size;
use tracebuf::producer::{AtomicU32, Page, SmbChunkHeader};

use super::writers::{ENTRIES, Entry, changes};
use super::{BUFFER, OWN, OWN_PAGE, PAGE, PROCESS, PRODUCER, TABLE, USER, WRITERS_AT, WantedMemory};
use crate::closed_in_children::ClosedInChildren;
use crate::fork;
use crate::limits::{self, LAYOUT, WRITERS};

impl WantedMemory {
    /// What the first page says of it, and where.
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
pub(crate) struct OwnMemory {
    map: MmapRaw,
    /// Where the first of its pages begins.
    start: usize,
    /// The file from which children get the copy.
    _file: ClosedInChildren,
}

impl OwnMemory {
    /// Maps the file from this place on, where all is zero and blocks are allocated. All pages are touched, so that no
    /// thread that records has to wait for the system to provide one.
    pub(super) fn new(file: &File, at: u64, bytes: u64) -> io::Result<Self> {
        let len = usize::try_from(TABLE.saturating_add(bytes)).map_err(|_| io::ErrorKind::OutOfMemory)?;
        let map = MmapOptions::new().offset(at).len(len).map_raw(file)?;
        let file = ClosedInChildren::new(file.try_clone()?);
        let (start, whole, at) = from_a_page_on(map.as_ptr() as usize, len, at, page_size());
        fork::copy_in_children(start, whole, file.get()?.as_raw_fd(), at)?;
        let memory = Self { map, start, _file: file };
        // Not by loads: the first store would have to wait again.
        let pages = memory.words().iter().step_by(PAGE as usize / size_of::<AtomicU32>());
        pages.for_each(|word| word.store(0, Ordering::Relaxed));
        let pages = (1..=WRITERS as u16).step_by(PAGE as usize / (ENTRIES * size_of::<AtomicU64>()));
        let first = pages.filter_map(|writer| memory.entries(writer)?.first());
        first.for_each(|word| word.store(0, Ordering::Relaxed));
        Ok(memory)
    }

    /// What threads write into.
    pub(crate) fn words(&self) -> &[AtomicU32] {
        let (start, bytes) = (self.map.as_ptr(), self.map.len() - TABLE as usize);
        // SAFETY: so many bytes are mapped from there on, a multiple of a page after the start of one, readable and
        // writable for as long as `self` lives. In this process they are touched only by atomic operations of this
        // width. What `control` says about other programs holds here too.
        unsafe { slice::from_raw_parts(start.wrapping_add(TABLE as usize).cast(), bytes / 4) }
    }

    /// A writer's entries.
    fn entries(&self, writer_id: u16) -> Option<&[AtomicU64; ENTRIES]> {
        // SAFETY: as above, for the bytes before those: they are mapped from a page's start on, and touched only by
        // atomic operations of this width.
        let table = unsafe { slice::from_raw_parts(self.map.as_ptr().cast(), TABLE as usize / 8) };
        let place = usize::from(writer_id).checked_sub(1)? * ENTRIES;
        table.get(place..)?.first_chunk()
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
            .words()
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

impl Drop for OwnMemory {
    fn drop(&mut self) {
        fork::leave_memory_to_children(self.start);
    }
}

/// The mapping for so many bytes of memory, from a place in a file on: in pages of the system's, which may be larger
/// than the file's.
fn from_a_page_on(start: usize, len: usize, at: u64, page: usize) -> (usize, usize, u64) {
    let before = start % page;
    (start - before, len + before, at.saturating_sub(before as u64))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_that_begins_within_a_page_of_the_system_is_mapped_from_that_page_on() {
        for page in [4 << 10, 16 << 10, 64 << 10] {
            for at in (0..40).map(|pages| pages * PAGE) {
                // Like a mapping: as far within a page in memory as in the file.
                let (memory, len) = ((17 << 16) + (at as usize % page), 3 << 12);
                let (start, whole, from) = from_a_page_on(memory, len, at, page);
                assert_eq!((start % page, from as usize % page), (0, 0));
                assert_eq!((start + whole, from + whole as u64), (memory + len, at + len as u64));
            }
        }
        // This system's own page size.
        let file = tempfile();
        file.set_len(1 << 20).expect("room");
        let memory = OwnMemory::new(&file, 5 * PAGE, 64 << 10).expect("a mapping");
        assert!(memory.start.is_multiple_of(page_size()) && memory.words().len() == 16 << 10);
    }

    fn tempfile() -> File {
        let path = std::env::temp_dir().join(format!("tracebuf-own-memory-{}", std::process::id()));
        let options =
            std::fs::OpenOptions::new().read(true).write(true).create(true).truncate(true).open(&path);
        std::fs::remove_file(&path).expect("it is there");
        options.expect("a file")
    }
}
