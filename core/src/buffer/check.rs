//! Consistency checks of a region, for tests and fuzzing.

use super::region::State;
use super::sequence_state::{NO_SLOT, Status, slot_of_link};
use super::tb_chunk::{Flags, Item, NONE};

/// What the ring holds, in bytes.
#[doc(hidden)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RingSummary {
    /// Chunks, with headers.
    pub chunk_bytes: u64,
    /// Padding.
    pub padding_bytes: u64,
    /// Free space within the used part.
    pub free_bytes: u64,
    /// How many chunks.
    pub chunks: u64,
}

/// Walks ring, lists, table and index, and compares them with each other.
pub(super) fn check(state: &State<'_>) -> Result<RingSummary, &'static str> {
    let summary = check_ring(state)?;
    let listed = check_lists(state)?;
    if listed != summary.chunks {
        return Err("the lists do not hold all chunks of the ring");
    }
    check_empty(state)?;
    check_index(state)?;
    let counters = &state.header.counters;
    let came = counters.bytes_written.get() + counters.padding_bytes_written.get();
    let held = summary.chunk_bytes + summary.padding_bytes;
    let went =
        counters.bytes_read.get() + counters.bytes_overwritten.get() + counters.padding_bytes_cleared.get();
    if came != held + went {
        return Err("bytes written are not bytes held, read, overwritten and cleared");
    }
    Ok(summary)
}

fn check_ring(state: &State<'_>) -> Result<RingSummary, &'static str> {
    let (write, used) = (state.header.write.get(), state.header.used.get());
    let (mut at, mut on_cursor) = (0, write == used || write == 0);
    let mut summary = RingSummary::default();
    while at < used {
        on_cursor |= at == write;
        let item = state.ring.item(at).ok_or("an item outside the ring")?;
        let size = u64::from(item.size());
        match item {
            Item::Chunk(_) => {
                let chunk = state.ring.chunk(at).ok_or("a chunk outside the ring")?;
                let entry = state.sequence(chunk.slot.get()).ok_or("a chunk of no sequence")?;
                if !entry.has(Status::IN_USE) || chunk.has(Flags::BUSY) {
                    return Err("a chunk of an unused slot, or a busy one");
                }
                if chunk.read.get() > chunk.valid.get() || chunk.valid.get() > chunk.room() {
                    return Err("a chunk's sizes");
                }
                summary.chunk_bytes += size;
                summary.chunks += 1;
            }
            Item::Padding(_) => summary.padding_bytes += size,
            Item::Free(_) => summary.free_bytes += size,
        }
        if size == 0 {
            return Err("an item of no size");
        }
        at = at.checked_add(item.size()).ok_or("an item beyond the ring")?;
    }
    if at != used || used > state.header.ring_size() || !on_cursor {
        return Err("the items do not end at the used part's end, or the write cursor is not between them");
    }
    Ok(summary)
}

fn check_lists(state: &State<'_>) -> Result<u64, &'static str> {
    let mut listed = 0;
    for (slot, entry) in state.table.iter().enumerate() {
        if !entry.has(Status::IN_USE) || entry.is_empty() {
            continue;
        }
        let (mut at, mut before, mut age) = (entry.first(), NONE, 0);
        loop {
            let chunk = state.ring.chunk(at).ok_or("a link outside the ring")?;
            let links = state.ring.front(at).ok_or("a link outside the ring")?.links;
            if !matches!(state.ring.item(at), Some(Item::Chunk(_))) || usize::from(chunk.slot.get()) != slot {
                return Err("a link to something else");
            }
            if before != NONE && (links.prev.get() != before || chunk.read.get() > 0) {
                return Err("a link back, or bytes read behind the first chunk");
            }
            let here = entry.age(chunk.chunk_id.get());
            if here <= age || here > i32::MAX as u32 {
                return Err("ids out of order");
            }
            (age, before) = (here, at);
            listed += 1;
            if at == entry.last() {
                break;
            }
            at = links.next.get();
        }
    }
    Ok(listed)
}

fn check_empty(state: &State<'_>) -> Result<(), &'static str> {
    let empty = state.table.iter().filter(|entry| entry.is_empty()).count();
    let (mut slot, mut before, mut count) = (state.header.longest_empty.get(), NO_SLOT, 0);
    while let Some(entry) = state.sequence(slot) {
        if !entry.is_empty() || slot_of_link(entry.first()) != before || count > empty {
            return Err("the list of empty sequences");
        }
        (before, slot) = (slot, slot_of_link(entry.last()));
        count += 1;
    }
    if count == empty && before == state.header.latest_empty.get() {
        Ok(())
    } else {
        Err("the list of empty sequences")
    }
}

fn check_index(state: &State<'_>) -> Result<(), &'static str> {
    for (slot, entry) in state.table.iter().enumerate().filter(|(_, entry)| entry.has(Status::IN_USE)) {
        let found =
            super::sequence_table::lookup(state.table, entry.producer_id.get(), entry.writer_id.get());
        if found.map(usize::from) != Some(slot) {
            return Err("a sequence that the index does not find");
        }
    }
    Ok(())
}
