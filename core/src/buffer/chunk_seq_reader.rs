//! `ChunkSeqReader`: reads and consumes a sequence in the order of its chunk ids, up to a target chunk.

use super::data_loss::DataLoss;
use super::frag_iterator::{Frag, FragIterator};
use super::packet::Located;
use super::reassembly::ChainEnd;
use super::region::{Intact, State};
use super::ring::fence;
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

/// A walk over one sequence, from its first chunk to the one whose id is `target`.
pub(super) struct ChunkSeqReader {
    pub(super) slot: u16,
    target: u32,
    /// The chunk that the last packet came from, while nothing stands between that packet and the next.
    within: Option<Within>,
}

/// A place inside a chunk where a fragment that is not the first starts and no loss is pending.
struct Within {
    offset: u32,
    read: u16,
    valid: u16,
}

impl ChunkSeqReader {
    pub(super) fn new(slot: u16, target: u32) -> Self {
        Self { slot, target, within: None }
    }

    /// The next whole packet, like [`read_next_packet`](Self::read_next_packet), but without a look at the sequence
    /// where the packet before has shown that none is needed. Puts where it is into `found`.
    #[inline]
    pub(super) fn next_packet(&mut self, state: &mut State<'_>, found: &mut Located) -> Option<DataLoss> {
        let Some(located) = self.next_within(state) else { return self.read_next_packet(state, found) };
        *found = located;
        Some(DataLoss::empty())
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

    /// The next whole packet, consumed, with the causes it carries. `None` when the target is done with, or when the
    /// sequence has to wait and was marked as stalled.
    fn read_next_packet(&mut self, state: &mut State<'_>, found: &mut Located) -> Option<DataLoss> {
        self.within = None;
        loop {
            let first = state.first_up_to(self.slot, self.target)??;
            let mut chunk = state.ring.front(first)?.stored_at(first);
            if let Some(loss) = self.read_first(state, &mut chunk, found)? {
                return Some(loss);
            }
        }
    }

    /// Consumes the next fragment of a sequence's first chunk with the rest of its packet, or the chunk if it has none.
    /// If that was a packet, returns the causes it carries and puts where it is into `found`.
    #[inline]
    fn read_first(
        &mut self,
        state: &mut State<'_>,
        chunk: &mut Stored,
        found: &mut Located,
    ) -> Intact<Option<DataLoss>> {
        let (valid, read) = (chunk.valid.get(), chunk.read.get());
        let (mut end, mut cause, mut broken) = (valid, DataLoss::empty(), false);
        (found.chunks, found.size) = (0, 0);
        if read < valid {
            let mut frags = FragIterator::new(state.ring.payload(chunk.offset, valid)?, read);
            // A patch can break a size field: then the rest of the chunk means nothing.
            cause = DataLoss::CHUNK_CORRUPTED;
            if let Some(frag) = frags.next_frag() {
                let kind = kind_of(chunk, read, frag);
                if kind == FragKind::Begin {
                    let chain = state.look_ahead(chunk, frag.start, found)?;
                    if chain == ChainEnd::Open {
                        return state.stall(self.slot);
                    }
                    (cause, broken) = (chain.cause(), chain.is_broken());
                } else {
                    // After an empty packet, nothing is looked at: otherwise each of many would look at all the others.
                    end = if frag.size > 0 { frags.end_before(chunk) } else { frags.position() };
                    cause = DataLoss::ORPHAN_CONTINUATION;
                    if kind == FragKind::Whole {
                        *found = Located::whole(chunk.offset, frag);
                        cause = DataLoss::empty();
                    }
                }
            }
        } else if chunk.has(Flags::INCOMPLETE) {
            return state.stall(self.slot);
        }
        state.arrive(chunk);
        if !cause.is_empty() {
            let entry = state.sequence_mut(self.slot)?;
            entry.lose(cause);
            entry.malformed.saturating_add(u16::from(cause == DataLoss::CHUNK_CORRUPTED));
            if broken {
                entry.open_broken();
            }
        }
        state.advance(chunk, end)?;
        state.consume_chain(self.slot, found.chunks)?;
        if !cause.is_empty() || found.size == 0 {
            return Some(None);
        }
        if !SMALL && end < valid {
            self.within = Some(Within { offset: chunk.offset, read: end, valid });
        }
        // Not before all of it is read: after a crash in between, the next packet reports the losses before this one,
        // and this one.
        fence();
        Some(Some(state.sequence_mut(self.slot)?.take_pending()))
    }
}

impl State<'_> {
    /// The first fragment of a chunk is about to be consumed: losses before it are now certain.
    #[cfg_attr(not(tracebuf_small), inline)]
    #[cfg_attr(tracebuf_small, inline(never))]
    pub(super) fn arrive(&mut self, chunk: &Stored) {
        if chunk.read.get() == 0
            && let Some(entry) = self.sequence_mut(chunk.slot.get())
        {
            entry.arrive(chunk.chunk_id.get());
            if entry.has(Status::BROKEN_OPEN) {
                settle_broken(entry, chunk);
            }
        }
    }

    /// Moves the read position of a sequence's first chunk; a complete chunk that is done with is erased.
    #[cfg_attr(not(tracebuf_small), inline)]
    #[cfg_attr(tracebuf_small, inline(never))]
    fn advance(&mut self, chunk: &mut Stored, end: u16) -> Option<()> {
        let is_over = end >= chunk.valid.get();
        if is_over {
            self.header.counters.chunks_read.add(u32::from(chunk.read.get() < end));
        }
        if !is_over || chunk.has(Flags::INCOMPLETE) {
            self.ring.set_read(chunk.offset, end);
            return Some(());
        }
        chunk.header.read.set(end);
        self.erase_first(chunk, Status::of_end(chunk.flags()))
    }

    /// Looks along the sequence for the rest of the packet that begins at the end of a chunk, and counts the attempt.
    #[inline(always)]
    fn look_ahead(&mut self, chunk: &Stored, start: u16, found: &mut Located) -> Option<ChainEnd> {
        // Where registers are plenty, `found` stays in them unless its address is taken.
        let mut packet = Located::default();
        let end = self.gather(chunk, start, false, if SMALL { found } else { &mut packet })?;
        if !SMALL {
            *found = packet;
        }
        let counters = &mut self.header.counters;
        let (succeeded, failed) = (&mut counters.readaheads_succeeded, &mut counters.readaheads_failed);
        if end == ChainEnd::Whole { succeeded } else { failed }.add(1);
        Some(end)
    }

    /// Consumes one fragment in each of a sequence's first `chunks` chunks: the parts there of a packet that began
    /// before them.
    pub(super) fn consume_chain(&mut self, slot: u16, chunks: u32) -> Option<()> {
        for _ in 0..chunks {
            let first = self.sequence(slot)?.first();
            let mut chunk = self.ring.front(first)?.stored_at(first);
            if chunk.read.get() > 0 {
                // The one before is still there, as only a scraped chunk can be, which ends no chain: what says
                // so is damaged, and its read position must not go back.
                return None;
            }
            self.arrive(&chunk);
            let mut frags = FragIterator::new(self.ring.payload(chunk.offset, chunk.valid.get())?, 0);
            let _ = frags.next_frag();
            let end = frags.end_before(&chunk);
            self.advance(&mut chunk, end)?;
        }
        Some(())
    }
}

/// Settles a packet that was counted as broken before its end was seen: its writer may have given it up (which is
/// counted there), or it is over with this chunk.
fn settle_broken(entry: &mut SequenceState, chunk: &TBChunk) {
    let continues = chunk.has(Flags::CONTINUES_FROM_PREVIOUS);
    if chunk.valid.get() == 0 && chunk.has(Flags::ABORTED) && continues {
        entry.uncount_broken();
    }
    if !chunk.is_empty() && !chunk.is_middle() {
        entry.remove(Status::BROKEN_OPEN);
    }
}
