//! Shared memory found in the file of a session that was killed.

use tracebuf::service::ProducerIdentity;

use super::writers::{ENTRIES, Entry, target_of};
use super::{BUFFER, OWN_PAGE, PROCESS, PRODUCER, Places, TABLE, USER, WRITERS_AT, number};
use crate::limits::{PAGE, SHARED_MEMORY, WRITERS};

/// Shared memory as it was found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecoveredSmb {
    /// The number of the buffer that the file is of.
    pub(super) buffer: u16,
    /// The producer whose writers wrote into it.
    pub identity: ProducerIdentity,
    /// Where it lies, including the table of writers before it.
    pub(super) place: (u64, u64),
    /// The table and the memory.
    pub(super) bytes: Vec<u8>,
}

impl RecoveredSmb {
    pub(super) fn told(page: &[u8], places: Places) -> Option<Self> {
        let bytes = usize::try_from(places.own).ok().filter(|bytes| SHARED_MEMORY.contains(bytes))?;
        if (number(page, OWN_PAGE)?, number(page, WRITERS_AT)?) != (PAGE.into(), WRITERS as u64) {
            return None;
        }
        let identity = ProducerIdentity {
            producer_id: number(page, PRODUCER)?.try_into().ok()?,
            uid: number(page, USER)?.try_into().ok()?,
            pid: u32::try_from(number(page, PROCESS)?).ok()? as i32,
        };
        Some(Self {
            buffer: number(page, BUFFER)?.try_into().ok()?,
            identity,
            place: (places.own_at(), TABLE.saturating_add(bytes as u64)),
            bytes: Vec::new(),
        })
    }

    /// Returns where in the file it begins.
    pub fn start(&self) -> u64 {
        self.place.0.saturating_add(TABLE)
    }

    /// Returns the memory.
    pub fn words(&self) -> Vec<u32> {
        let memory = self.bytes.get(TABLE as usize..).unwrap_or_default();
        memory.as_chunks().0.iter().map(|word| u32::from_ne_bytes(*word)).collect()
    }

    /// Returns true if a writer's chunk is for the file's buffer, as far as is known.
    pub fn is_for_buffer(&self, writer_id: u16, chunk_id: u32) -> bool {
        let entries = |writer_id: u16| {
            let table = self.bytes.get(..TABLE as usize)?.as_chunks().0;
            table.get(usize::from(writer_id).checked_sub(1)? * ENTRIES..)?.first_chunk::<ENTRIES>()
        };
        let Some(entries) = entries(writer_id) else { return false };
        target_of(&entries.map(|entry| Entry(u64::from_le_bytes(entry))), chunk_id) == Some(self.buffer)
    }
}
