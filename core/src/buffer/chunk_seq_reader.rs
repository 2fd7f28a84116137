//! `ChunkSeqReader`: reads and consumes a sequence in the order of its chunk ids, up to a target chunk.

use super::data_loss::DataLoss;
use super::frag_iterator::{Frag, FragIterator};
use super::packet::Located;
use super::reassembly::{Chain, ChainEnd};
use super::region::State;
use super::sequence_state::{SequenceState, Status};
use super::tb_chunk::{Flags, Stored, TBChunk};
use crate::SMALL;

/// What a fragment is to its packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum FragKind {
    Whole,
    Begin,
    /// The middle or the end of a packet that begins in an earlier chunk.
    Continuation,
}

/// The kind of a fragment whose size field is at `from`.
#[inline]
pub(super) fn kind_of(chunk: &TBChunk, from: u16, frag: Frag) -> FragKind {
    if from == 0 && chunk.has(Flags::CONTINUES_FROM_PREVIOUS) {
        FragKind::Continuation
    } else if frag.end() == chunk.valid.get() && chunk.has(Flags::CONTINUES_ON_NEXT) {
        FragKind::Begin
    } else {
        FragKind::Whole
    }
}

/// A walk over one sequence, from its first chunk to the one that the walk in buffer order has come to.
pub(super) struct ChunkSeqReader {
    pub(super) slot: u16,
    /// The id of the chunk to stop behind.
    target: u32,
    /// The chunk that the last packet came from, while nothing stands between that packet and the next.
    within: Option<Within>,
}

/// A place inside a chunk at which no loss is pending and a fragment starts that is not the first.
struct Within {
    offset: u32,
    read: u16,
    valid: u16,
}

impl ChunkSeqReader {
    pub(super) fn new(slot: u16, target: u32) -> Self {
        Self { slot, target, within: None }
    }

    /// The next whole packet, as [`read_next_packet`](Self::read_next_packet), without a look at the sequence
    /// where the packet before it has shown that none is needed.
    #[inline]
    pub(super) fn next_packet(&mut self, state: &mut State<'_>) -> Option<(Located, DataLoss)> {
        match self.next_within(state) {
            Some(located) => Some((located, DataLoss::empty())),
            None => self.read_next_packet(state),
        }
    }

    /// The next packet of the same chunk, if it is whole, not empty, and followed by another fragment.
    #[inline]
    fn next_within(&mut self, state: &mut State<'_>) -> Option<Located> {
        if SMALL {
            return None;
        }
        let within = self.within.as_mut()?;
        let offset = within.offset;
        let mut frags = FragIterator::new(state.ring.payload(offset, within.valid)?, within.read);
        let frag = frags.next_frag()?;
        if frag.size == 0 || frags.may_be_over() {
            return None;
        }
        within.read = frag.end();
        state.ring.set_read(offset, frag.end());
        Some(Located::whole(offset, frag))
    }

    /// Forgets where the last packet came from: a loss is pending now.
    pub(super) fn look_again(&mut self) {
        self.within = None;
    }

    /// The next whole packet, consumed, with the causes it carries. `None` when the target is done with or
    /// the sequence has to wait; then it is marked as stalled.
    fn read_next_packet(&mut self, state: &mut State<'_>) -> Option<(Located, DataLoss)> {
        self.within = None;
        loop {
            let first = state.first_up_to(self.slot, self.target)??;
            let mut chunk = state.ring.front(first)?.stored_at(first);
            if let Some(packet) = self.read_first(state, &mut chunk)? {
                return Some(packet);
            }
        }
    }

    /// Consumes the next fragment of a sequence's first chunk, and what follows it of a packet; or that chunk, if
    /// it has no more.
    #[inline]
    fn read_first(
        &mut self,
        state: &mut State<'_>,
        chunk: &mut Stored,
    ) -> Option<Option<(Located, DataLoss)>> {
        let valid = chunk.valid.get();
        if chunk.read.get() >= valid {
            if chunk.has(Flags::INCOMPLETE) {
                return state.stall(self.slot);
            }
            state.arrive(chunk)?;
            state.retire(chunk)?;
            return Some(None);
        }
        let mut frags = FragIterator::new(state.ring.payload(chunk.offset, valid)?, chunk.read.get());
        let Some(frag) = frags.next_frag() else {
            state.skip_corrupted(chunk)?;
            return Some(None);
        };
        let kind = kind_of(chunk, chunk.read.get(), frag);
        if kind == FragKind::Begin {
            return state.read_fragmented(chunk, frag);
        }
        // Trailing empty fragments go with the last packet, so that a chunk read to the end counts as read.
        let last = frags.only_empty_left() && !chunk.has(Flags::CONTINUES_ON_NEXT);
        let end = if last { valid } else { frag.end() };
        state.arrive(chunk)?;
        let entry = state.sequence_mut(self.slot)?;
        let packet = if kind == FragKind::Continuation {
            entry.lose(DataLoss::ORPHAN_CONTINUATION);
            None
        } else if frag.size > 0 {
            Some((Located::whole(chunk.offset, frag), entry.take_pending()))
        } else {
            None
        };
        state.advance(chunk, end)?;
        if !SMALL && packet.is_some() && end < valid {
            self.within = Some(Within { offset: chunk.offset, read: end, valid });
        }
        Some(packet)
    }
}

impl State<'_> {
    /// The sequence is skipped until the next read session.
    fn stall<T>(&mut self, slot: u16) -> Option<T> {
        let generation = self.header.generation;
        self.sequence_mut(slot)?.stalled = generation;
        None
    }

    /// The first fragment of a chunk is about to be consumed: losses before it are certain now.
    #[cfg_attr(not(target_os = "none"), inline)]
    #[cfg_attr(target_os = "none", inline(never))]
    pub(super) fn arrive(&mut self, chunk: &Stored) -> Option<()> {
        if chunk.read.get() == 0 {
            let entry = self.sequence_mut(chunk.slot.get())?;
            entry.arrive(chunk.chunk_id.get());
            if entry.has(Status::BROKEN_OPEN) {
                settle_broken(entry, chunk);
            }
        }
        Some(())
    }

    /// Moves the read position of a sequence's first chunk; a complete chunk read to its end is erased.
    #[cfg_attr(not(target_os = "none"), inline)]
    #[cfg_attr(target_os = "none", inline(never))]
    fn advance(&mut self, chunk: &mut Stored, end: u16) -> Option<()> {
        if end < chunk.valid.get() {
            self.ring.set_read(chunk.offset, end);
            return Some(());
        }
        self.header.counters.chunks_read.add(u32::from(end > 0));
        if chunk.has(Flags::INCOMPLETE) {
            self.ring.set_read(chunk.offset, end);
            return Some(());
        }
        chunk.header.read.set(end);
        self.retire(chunk)
    }

    /// Erases the first chunk of a sequence, all of which was read: its end is passed.
    #[cfg_attr(not(target_os = "none"), inline)]
    #[cfg_attr(target_os = "none", inline(always))]
    pub(super) fn retire(&mut self, chunk: &Stored) -> Option<()> {
        if chunk.has(Flags::END_MARKS) {
            self.sequence_mut(chunk.slot.get())?.pass_end(chunk.flags());
        }
        self.erase_first(chunk, Status::empty())
    }

    /// A patch broke a size field: the rest of the chunk says nothing any more.
    fn skip_corrupted(&mut self, chunk: &mut Stored) -> Option<()> {
        self.arrive(chunk)?;
        let entry = self.sequence_mut(chunk.slot.get())?;
        entry.lose(DataLoss::CHUNK_CORRUPTED);
        entry.malformed.saturating_add(1);
        self.advance(chunk, chunk.valid.get())
    }

    #[cfg_attr(not(target_os = "none"), inline(never))]
    #[cfg_attr(target_os = "none", inline(always))]
    fn read_fragmented(&mut self, chunk: &mut Stored, frag: Frag) -> Option<Option<(Located, DataLoss)>> {
        let slot = chunk.slot.get();
        let Chain { located, end, cause } = self.gather(chunk, frag.start, false)?;
        let counters = &mut self.header.counters;
        let counter = match end {
            ChainEnd::Whole => &mut counters.readaheads_succeeded,
            _ => &mut counters.readaheads_failed,
        };
        counter.add(1);
        if end == ChainEnd::Open {
            return self.stall(slot);
        }
        self.arrive(chunk)?;
        let entry = self.sequence_mut(slot)?;
        let mut packet = None;
        if end != ChainEnd::Whole {
            entry.lose(cause);
            if end != ChainEnd::Aborted {
                entry.broken.saturating_add(1);
                entry.insert(Status::BROKEN_OPEN);
            }
        } else if located.size > 0 {
            packet = Some((located, entry.take_pending()));
        }
        self.advance(chunk, chunk.valid.get())?;
        self.consume_chain(slot, located.chunks, false)?;
        Some(packet)
    }

    /// Where a chunk's first fragment ends, together with all behind it if that is only empty ones.
    pub(super) fn first_frag_end(&self, chunk: &Stored) -> Option<u16> {
        let mut frags = FragIterator::new(self.ring.payload(chunk.offset, chunk.valid.get())?, 0);
        let _ = frags.next_frag();
        let rest_is_empty = frags.only_empty_left() && !chunk.has(Flags::CONTINUES_ON_NEXT);
        Some(if rest_is_empty { chunk.valid.get() } else { frags.position() })
    }

    /// Consumes one fragment in each of a sequence's first chunks: what a packet that began before them has there.
    ///
    /// `evicted`: they are not read but make room.
    pub(super) fn consume_chain(&mut self, slot: u16, chunks: u32, evicted: bool) -> Option<()> {
        for _ in 0..chunks {
            let first = self.sequence(slot)?.first();
            let mut chunk = self.ring.front(first)?.stored_at(first);
            if chunk.read.get() > 0 {
                // The one before is still there, as only a scraped chunk can be, which ends no chain: what says
                // so is damaged, and its read position must not go back.
                return None;
            }
            self.arrive(&chunk)?;
            let end = self.first_frag_end(&chunk)?;
            if !evicted {
                self.advance(&mut chunk, end)?;
            } else if end < chunk.valid.get() || chunk.has(Flags::INCOMPLETE) {
                self.ring.set_read(first, end);
            } else {
                self.erase_unread(&chunk, false)?;
            }
        }
        Some(())
    }
}

/// Whether a packet counted as broken, whose end was not seen, was in truth given up by its writer (and counted
/// there), or is over with this chunk.
fn settle_broken(entry: &mut SequenceState, chunk: &TBChunk) {
    let continues = chunk.has(Flags::CONTINUES_FROM_PREVIOUS);
    if chunk.valid.get() == 0 && chunk.has(Flags::ABORTED) && continues {
        entry.uncount_broken();
    }
    if !chunk.is_empty() && !chunk.is_middle() {
        entry.remove(Status::BROKEN_OPEN);
    }
}
