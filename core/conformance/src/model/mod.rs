//! A trace buffer that is slow and plain enough to be read and believed.
//!
//! It shares no code with the real buffer: chunks live in a map, each sequence has a sorted vector, the ring is a map of
//! what lies where. Whatever the real buffer keeps in flags, links and cursors is computed afresh here from the bytes of
//! the chunk.
//!
//! Most names are those of `tracebuf::buffer`. Others are `Outcome` for its `Commit`, `Why` for `Refusal`, `Header` for
//! `ChunkHeader`, `FIRST_CONTINUES` for `CONTINUES_FROM_PREVIOUS`, and `LAST_CONTINUES` for `CONTINUES_ON_NEXT`.
#![allow(missing_docs)] // names say it, or are those of `tracebuf::buffer`

mod chunk;
mod commit;
mod erase;
mod place;
mod read;
mod ring;

use std::collections::{BTreeMap, BTreeSet};

use chunk::{StoredChunk, Tokens};
use ring::Ring;

/// Bytes besides the payload of each stored chunk: a header of 16 and two links of 4.
pub const OVERHEAD: u64 = 24;

pub const FIRST_CONTINUES: u8 = 1;
pub const LAST_CONTINUES: u8 = 2;
pub const NEEDS_PATCHING: u8 = 4;

pub const ANY: u16 = 1;
pub const READ_GAP: u16 = 2;
pub const CHUNK_CORRUPTED: u16 = 4;
pub const ORPHAN_CONTINUATION: u16 = 8;
pub const REASSEMBLY_GAP: u16 = 16;
pub const REASSEMBLY_BROKEN_CHAIN: u16 = 32;
pub const OVERWRITE: u16 = 64;
pub const WRITER_ABORT: u16 = 128;

/// `a` comes before `b` in the wrapping order of chunk ids.
pub fn precedes(a: u32, b: u32) -> bool {
    (a.wrapping_sub(b) as i32) < 0
}

/// Stored chunks are identified by the number they got when stored, never by their place.
pub(crate) type Handle = u64;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Header {
    pub producer: u16,
    pub writer: u16,
    pub chunk_id: u32,
    pub fragments: u16,
    pub flags: u8,
    pub complete: bool,
    pub uid: u32,
    pub pid: i32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    Written,
    Rewritten,
    Relocated,
    Unchanged,
    Discarded,
    Refused(Why),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Why {
    NullSequence,
    TooLarge,
    Shrinks,
    ExceedsReservedRoom,
    ClearsFlags,
    ChangesFragments,
    TableFull,
    /// Only from the real buffer: a reason that the model does not know.
    Other(usize),
}

#[derive(Clone, PartialEq, Eq)]
pub struct ModelPacket {
    pub producer: u16,
    pub writer: u16,
    pub uid: u32,
    pub pid: i32,
    pub loss: u16,
    /// The fragments that are not empty.
    pub slices: Vec<Vec<u8>>,
}

impl ModelPacket {
    pub fn bytes(&self) -> Vec<u8> {
        self.slices.concat()
    }
}

impl std::fmt::Debug for ModelPacket {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let bytes = self.bytes();
        let (start, len, slices) = (&bytes[..bytes.len().min(8)], bytes.len(), self.slices.len());
        write!(f, "{}/{} loss {} {start:x?}… {len} in {slices}", self.producer, self.writer, self.loss)
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    pub buffer_size: u64,
    pub bytes_written: u64,
    pub bytes_overwritten: u64,
    pub bytes_read: u64,
    pub padding_bytes_written: u64,
    pub padding_bytes_cleared: u64,
    pub chunks_written: u64,
    pub chunks_rewritten: u64,
    pub chunks_relocated: u64,
    pub chunks_unchanged: u64,
    pub chunks_refused: u64,
    pub chunks_overwritten: u64,
    pub chunks_discarded: u64,
    pub chunks_read: u64,
    pub chunks_committed_out_of_order: u64,
    pub write_wrap_count: u64,
    pub patches_succeeded: u64,
    pub patches_failed: u64,
    pub readaheads_succeeded: u64,
    pub readaheads_failed: u64,
    pub abi_violations: u64,
    pub trace_writer_packet_loss: u64,
}

/// Bytes in the ring by what they are, headers included.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HeldBytes {
    pub chunks: u64,
    pub padding: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SequenceReport {
    pub producer: u16,
    pub writer: u16,
    pub uid: u32,
    pub pid: i32,
    pub evicted: u64,
    pub broken: u64,
    pub malformed: u64,
    pub pending: u16,
}

/// The last chunk of a sequence that left the buffer.
#[derive(Clone, Copy, Debug)]
struct LastErased {
    id: u32,
    /// The first that left: nothing is known of what was before it.
    first: bool,
    /// Payload bytes that really were read from it.
    read: usize,
    /// It was a scraped copy, and no commit has said since that there was no more of it.
    open: bool,
    /// How it ended, which has been counted.
    tokens: Tokens,
    /// Packets beginning in it that overwriting took: its re-admission takes them back.
    evicted: u64,
    broken: u64,
    malformed: u64,
}

#[derive(Clone, Debug, Default)]
struct Sequence {
    producer: u16,
    writer: u16,
    uid: u32,
    pid: i32,
    /// In the order of chunk ids.
    chunks: Vec<Handle>,
    pending: u16,
    tentative: u16,
    last: Option<LastErased>,
    /// The table forgot or refused this sequence before.
    unknown_start: bool,
    /// When the last chunk left, counted in emptyings since the buffer was made.
    emptied: u64,
    evicted: u64,
    broken: u64,
    malformed: u64,
}

/// Asked for each whole packet that overwriting drops; true means that it was kept and is no loss.
pub type Observer<'a> = &'a mut dyn FnMut(&ModelPacket) -> bool;

#[derive(Clone, Debug)]
pub struct Model {
    discard: bool,
    sealed: bool,
    table: usize,
    /// Sequences that the table forgot or refused.
    forgotten: BTreeSet<(u16, u16)>,
    ring: Ring,
    next_handle: Handle,
    emptyings: u64,
    chunks: BTreeMap<Handle, StoredChunk>,
    sequences: Vec<Sequence>,
    stats: Stats,
}

impl Model {
    /// A buffer for `size` bytes of chunks, headers included, and `table` sequences.
    pub fn new(size: u64, discard: bool, table: usize) -> Self {
        let size = size / 4 * 4;
        Model {
            discard,
            sealed: false,
            table,
            forgotten: BTreeSet::new(),
            ring: Ring::new(size),
            next_handle: 0,
            emptyings: 0,
            chunks: BTreeMap::new(),
            sequences: Vec::new(),
            stats: Stats { buffer_size: size, ..Stats::default() },
        }
    }

    pub fn stats(&self) -> Stats {
        self.stats
    }

    pub fn held(&self) -> HeldBytes {
        self.ring.held()
    }

    /// Whether the table was ever too small.
    pub fn has_forgotten(&self) -> bool {
        !self.forgotten.is_empty()
    }

    /// In the order of producer and writer.
    pub fn sequences(&self) -> Vec<SequenceReport> {
        let mut all: Vec<_> = self.sequences.iter().map(Sequence::report).collect();
        all.sort_by_key(|s| (s.producer, s.writer));
        all
    }

    /// The same content and loss state, as if nothing of it was ever read by a reader.
    pub fn clone_read_only(&self) -> Model {
        let mut copy = self.clone();
        copy.stats.bytes_read = 0;
        copy.stats.chunks_read = 0;
        copy.stats.readaheads_succeeded = 0;
        copy.stats.readaheads_failed = 0;
        copy
    }

    /// Overwrites 4 bytes at each offset of a stored chunk: all of them or none.
    pub fn patch(&mut self, key: (u16, u16), chunk_id: u32, patches: &[(u64, [u8; 4])], more: bool) -> bool {
        let found = self.find_chunk(key, chunk_id).and_then(|h| self.chunks.get_mut(&h));
        let Some(chunk) = found else {
            self.stats.patches_failed += 1;
            return false;
        };
        let size = chunk.payload.len() as u64;
        if patches.iter().any(|(at, _)| at.checked_add(4).is_none_or(|end| end > size)) {
            self.stats.patches_failed += 1;
            return false;
        }
        // What was read stays as it was.
        for (at, data) in patches.iter().filter(|(at, _)| *at >= chunk.read as u64) {
            let at = *at as usize;
            chunk.payload[at..at + 4].copy_from_slice(data);
        }
        if !more {
            chunk.flags &= !NEEDS_PATCHING;
        }
        self.stats.patches_succeeded += patches.len() as u64;
        true
    }

    /// Whether patches changed a stored chunk's fragments from those committed.
    pub fn is_broken(&self, key: (u16, u16), chunk_id: u32) -> bool {
        self.find_chunk(key, chunk_id).is_some_and(|h| {
            let chunk = &self.chunks[&h];
            let now = chunk::tokenise(&chunk.payload, Default::default(), usize::MAX);
            (now.fragments, now.valid) != (chunk.tokens.fragments, chunk.tokens.valid)
        })
    }

    fn find_sequence(&self, key: (u16, u16)) -> Option<usize> {
        self.sequences.iter().position(|s| (s.producer, s.writer) == key)
    }

    fn find_chunk(&self, key: (u16, u16), id: u32) -> Option<Handle> {
        let sequence = &self.sequences[self.find_sequence(key)?];
        sequence.chunks.iter().copied().find(|h| self.chunks[h].id == id)
    }
}

impl Sequence {
    fn report(&self) -> SequenceReport {
        SequenceReport {
            producer: self.producer,
            writer: self.writer,
            uid: self.uid,
            pid: self.pid,
            evicted: self.evicted,
            broken: self.broken,
            malformed: self.malformed,
            pending: self.pending,
        }
    }
}
