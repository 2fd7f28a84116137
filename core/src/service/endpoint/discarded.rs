//! The writers whose chunks were discarded, and commits that tell of it where the buffer cannot.

use crate::buffer::{ChunkHeader, Commit, OverwriteObserver, TraceBuffer};
use crate::producer::Payload;

/// Words of 32 writers each: for all ids of Perfetto's, which are below 1,024; on microcontrollers for those of few
/// writers. Higher ids share their bits with these.
const WORDS: usize = if cfg!(target_os = "none") { 1 } else { 32 };

/// The writers of which chunks were discarded, one bit each. Where the buffer knows nothing of one, the next of its
/// chunks has to tell of the loss: to the buffer, it would be the first.
pub(super) struct Discarded([u32; WORDS]);

impl Discarded {
    pub(super) const NONE: Self = Self([0; WORDS]);

    /// The word and the bit of a writer.
    fn place(&mut self, writer_id: u16) -> Option<(&mut u32, u32)> {
        let place = usize::from(writer_id) % (WORDS * 32);
        Some((self.0.get_mut(place / 32)?, 1 << (place % 32)))
    }

    pub(super) fn note(&mut self, writer_id: u16) {
        if let Some((word, bit)) = self.place(writer_id) {
            *word |= bit;
        }
    }

    /// Commits a chunk. Used both for moved and for scraped ones: all of the buffer's commit is compiled anew for each
    /// type that fills a chunk, which takes some KB of flash.
    pub(super) fn commit<M: AsRef<[u8]> + AsMut<[u8]>, O: OverwriteObserver>(
        &mut self,
        buffer: &mut TraceBuffer<M, O>,
        header: &ChunkHeader,
        payload: Payload<'_>,
    ) -> Commit {
        let noted = self.place(header.writer_id).filter(|(word, bit)| **word & bit != 0);
        let begins_late = noted.is_some() && !buffer.knows(header);
        buffer.make_place(header);
        let outcome = buffer.commit_with(header, payload.len(), payload.filling());
        if let Some((word, bit)) = noted.filter(|_| !matches!(outcome, Commit::Refused(_))) {
            *word &= !bit;
            if begins_late {
                buffer.begin_late(header);
            }
        }
        outcome
    }
}
