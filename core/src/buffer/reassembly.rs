//! Reassembly: the fragments of a packet over the chunks that hold them.

use super::chunk_seq_iterator::ChunkSeqIterator;
use super::data_loss::DataLoss;
use super::frag_iterator::FragIterator;
use super::packet::Located;
use super::region::State;
use super::tb_chunk::{Flags, Stored};

/// What became of a packet that begins at the end of a chunk.
pub(super) enum Chain {
    /// All of it is there.
    Whole(Located),
    /// Not yet: its end or a patch is still to come.
    Waiting,
    /// It will never be whole. As many chunks after the first are part of it, for this cause if reading found it.
    Lost { chunks: u32, cause: DataLoss, aborted: bool },
}

impl State<'_> {
    /// Looks ahead along the sequence, one fragment a chunk, for the packet that begins with the fragment of
    /// `size` bytes from `start` at the end of a chunk. Changes nothing.
    ///
    /// `forced`: nothing can be waited for, so what would wait is lost.
    pub(super) fn gather(&self, chunk: &Stored, start: u16, forced: bool) -> Option<Chain> {
        let size = chunk.valid.get().saturating_sub(start);
        let mut located =
            Located { chunk: chunk.offset, start, first_size: size, chunks: 0, size: u32::from(size) };
        let mut patched = !chunk.has(Flags::NEEDS_PATCHING);
        if !patched && !forced {
            return Some(Chain::Waiting);
        }
        let mut along = ChunkSeqIterator::new(chunk, self.sequence(chunk.slot.get())?.last());
        let mut stepped = 0;
        loop {
            let chunks = located.chunks;
            let lost = |cause, aborted| Some(Chain::Lost { chunks, cause, aborted });
            let Some((chunk, gap)) = along.next_chunk(&self.ring) else {
                return if forced { lost(DataLoss::empty(), false) } else { Some(Chain::Waiting) };
            };
            if gap {
                return lost(DataLoss::REASSEMBLY_GAP, false);
            }
            if chunk.is_empty() {
                stepped += 1;
                continue;
            }
            if chunk.valid.get() == 0 && chunk.has(Flags::INCOMPLETE) {
                return if forced { lost(DataLoss::empty(), false) } else { Some(Chain::Waiting) };
            }
            let continues = chunk.read.get() == 0 && chunk.has(Flags::CONTINUES_FROM_PREVIOUS);
            let payload = self.ring.payload(chunk.offset, chunk.valid.get())?;
            let frag = match FragIterator::new(payload, 0).next_frag() {
                Ok(frag) if continues => frag,
                _ => {
                    let aborted = continues && chunk.valid.get() == 0 && chunk.has(Flags::ABORTED);
                    return lost(DataLoss::REASSEMBLY_BROKEN_CHAIN, aborted);
                }
            };
            let ends = frag.end() != chunk.valid.get() || !chunk.has(Flags::CONTINUES_ON_NEXT);
            // Reading waits also for the patches of what follows in the chunk that the packet ends in.
            patched &= !chunk.has(Flags::NEEDS_PATCHING) || (ends && forced);
            if !patched && !forced {
                return Some(Chain::Waiting);
            }
            located.chunks += 1 + stepped;
            located.size = located.size.saturating_add(u32::from(frag.size));
            stepped = 0;
            if ends {
                if patched {
                    return Some(Chain::Whole(located));
                }
                return Some(Chain::Lost {
                    chunks: located.chunks,
                    cause: DataLoss::empty(),
                    aborted: false,
                });
            }
        }
    }
}
