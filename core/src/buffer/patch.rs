//! Patches of stored chunks: sizes that were not known at the commit.

use super::change::ChangeKind;
use super::chunk_list::Place;
use super::region::State;
use super::sequence_table::lookup;
use super::tb_chunk::Flags;

/// Four bytes to put into a chunk's payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct Patch {
    /// Where in the payload, in bytes.
    pub offset: u32,
    /// What to write there.
    pub data: [u8; 4],
}

impl State<'_> {
    pub(super) fn patch(
        &mut self,
        producer_id: u16,
        writer_id: u16,
        chunk_id: u32,
        patches: &[Patch],
        more_pending: bool,
    ) -> Option<()> {
        let slot = lookup(self.table, producer_id, writer_id)?;
        let Place::Existing(offset) = self.place(slot, chunk_id)? else { return None };
        let chunk = self.ring.front(offset)?.stored_at(offset);
        // All or none: check before the first byte changes.
        let valid = chunk.valid.get();
        let end = u32::from(valid.saturating_sub(3));
        let mut from = u32::from(valid);
        for patch in patches {
            if patch.offset >= end {
                return None;
            }
            from = from.min(patch.offset);
        }
        let (mut flags, mut kind) = (chunk.flags(), ChangeKind::Growth);
        if !patches.is_empty() {
            (flags, kind) = (flags | Flags::PATCHED, ChangeKind::Patch);
        }
        if !more_pending {
            flags -= Flags::NEEDS_PATCHING;
        }
        self.begin_change(&chunk, from as u16, kind)?;
        let payload = self.ring.payload_mut(offset, valid)?;
        for patch in patches {
            // What was read has nothing left to patch, and a lease of it needs it as it was.
            if patch.offset >= u32::from(chunk.read.get()) {
                let target = payload.get_mut(patch.offset as usize..)?.first_chunk_mut::<4>()?;
                *target = patch.data;
            }
        }
        self.end_change(&chunk, flags);
        Some(())
    }
}
