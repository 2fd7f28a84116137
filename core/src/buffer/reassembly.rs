//! Reassembly: the fragments of a packet across the chunks that hold them.

use super::chunk_list::ChunkSeqIterator;
use super::data_loss::DataLoss;
use super::frag_iterator::FragIterator;
use super::packet::Located;
use super::region::State;
use super::tb_chunk::{Flags, Stored};

/// What became of a packet that begins at the end of a chunk.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum ChainEnd {
    /// All of it is there.
    Whole,
    /// Its end or a patch is still to come.
    Open,
    /// It will never be whole: chunks are missing.
    Gap,
    /// It will never be whole: the next chunk does not continue it.
    BrokenChain,
    /// Its writer gave it up.
    Aborted,
}

impl ChainEnd {
    /// The cause that its loss is put down to.
    pub(super) fn cause(self) -> DataLoss {
        match self {
            Self::Whole | Self::Open => DataLoss::empty(),
            Self::Gap => DataLoss::REASSEMBLY_GAP,
            Self::BrokenChain | Self::Aborted => DataLoss::REASSEMBLY_BROKEN_CHAIN,
        }
    }

    /// Whether it is lost if nothing more comes, without its writer knowing.
    pub(super) fn is_broken(self) -> bool {
        !matches!(self, Self::Whole | Self::Aborted)
    }
}

impl State<'_> {
    /// Looks ahead along the sequence, one fragment per chunk, for the packet that begins with the fragment at `start`,
    /// at the end of a chunk. Changes nothing. Puts into `located` where the packet is, as far as it is there.
    ///
    /// `forced`: nothing can be waited for, so it is followed as far as it goes.
    pub(super) fn gather(
        &self,
        chunk: &Stored,
        start: u16,
        forced: bool,
        located: &mut Located,
    ) -> Option<ChainEnd> {
        let size = chunk.valid.get().saturating_sub(start);
        *located = Located { chunk: chunk.offset, start, first_size: size, chunks: 0, size: u32::from(size) };
        let mut patched = !chunk.has(Flags::NEEDS_PATCHING);
        let mut along = ChunkSeqIterator::new(chunk, self.sequence(chunk.slot.get())?.last());
        let end = loop {
            if !patched && !forced {
                break ChainEnd::Open;
            }
            let Some((offset, chunk, gap)) = along.next_chunk(&self.ring) else { break ChainEnd::Open };
            if gap {
                break ChainEnd::Gap;
            }
            if chunk.is_empty() {
                located.chunks += 1;
                continue;
            }
            let valid = chunk.valid.get();
            if valid == 0 && chunk.has(Flags::INCOMPLETE) {
                break ChainEnd::Open;
            }
            let continues = chunk.read.get() == 0 && chunk.has(Flags::CONTINUES_FROM_PREVIOUS);
            let frag = match FragIterator::new(self.ring.payload(offset, valid)?, 0).next_frag() {
                Some(frag) if continues => frag,
                _ => {
                    let aborted = continues && valid == 0 && chunk.has(Flags::ABORTED);
                    break if aborted { ChainEnd::Aborted } else { ChainEnd::BrokenChain };
                }
            };
            let ends = frag.end() != valid || !chunk.has(Flags::CONTINUES_ON_NEXT);
            // Reading also waits for the patches of what follows in the chunk where the packet ends.
            patched &= !chunk.has(Flags::NEEDS_PATCHING) || (ends && forced);
            located.chunks += 1;
            located.size = located.size.saturating_add(u32::from(frag.size));
            if ends {
                break if patched { ChainEnd::Whole } else { ChainEnd::Open };
            }
        };
        Some(end)
    }
}
