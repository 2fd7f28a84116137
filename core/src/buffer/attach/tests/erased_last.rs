//! What a sequence says of the chunk that was erased last, and what the chunks say.

use super::crash::attach;
use super::dropped::{OUTER, ROOM, change_chunk, header, kept, mended_once, region, region_of};
use crate::buffer::sequence_state::{SequenceState, Status};
use crate::buffer::tests::memory::change;
use crate::buffer::*;

#[test]
fn what_is_said_of_the_chunk_erased_last_is_believed_if_it_can_be_true() {
    let at_first = |work: fn(&mut SequenceState)| {
        let mut memory = region(false);
        change(&mut memory, |state| work(state.sequence_mut(0).expect("a sequence")));
        let (mut buffer, salvage) = TraceBuffer::attach(memory).expect("a region");
        let evicted = buffer.sequences().next().expect("a sequence").packets_evicted;
        let loss = buffer.read().next_packet().expect("a packet").loss();
        (salvage, evicted, !loss.is_empty())
    };
    // A gap of that size before the first chunk is one, a larger one is nonsense.
    assert_eq!(at_first(|entry| entry.erase(0u32.wrapping_sub(1 << 24), 0)), (kept(6), 0, true));
    assert_eq!(at_first(|entry| entry.erase(0u32.wrapping_sub((1 << 24) + 1), 0)), (kept(6), 0, false));
    let open = |entry: &mut SequenceState| {
        entry.erase(0u32.wrapping_sub((1 << 24) + 1), 0);
        entry.insert(Status::TENTATIVE_OVERWRITE | Status::BROKEN_OPEN);
    };
    assert_eq!(at_first(open), (kept(6), 0, false));
    // It was about to be erased: then it is not lost.
    assert_eq!(at_first(|entry| entry.evict_whole(0, 2)), (kept(6), 0, false));
    // There are older ones.
    assert_eq!(at_first(|entry| entry.erase(2, 0)), (kept(6), 0, false));
}

#[test]
fn what_is_said_of_the_chunk_erased_last_is_outvoted_by_the_chunks() {
    // Ids in the order in which they lie in the ring, and how many of them can be kept if 5 was erased last.
    for (ids, keep) in [(&[6, 0, 1, 2, 3, 4][..], 6), (&[6, 7, 8, 0, 1, 2], 3), (&[6, 7, 8, 0, 1], 3)] {
        let mut memory = region_of(ids);
        change(&mut memory, |state| state.table[0].erase(5, 0));
        let salvage = attach(&memory).1;
        let dropped = ids.len() as u32 - keep;
        assert_eq!((salvage.chunks_kept, salvage.chunks_out_of_order), (keep, dropped), "{ids:?}");
    }
}

#[test]
fn a_chunk_far_from_the_one_erased_last_does_not_follow_that_even_if_it_is_still_there() {
    for (far, kept) in [(1, 2), (1 << 24, 2), ((1 << 30) - 1, 2), (1 << 30, 1), (0x6E00_0000, 1)] {
        let mut memory = region_of(&[1, 0]);
        change_chunk(&mut memory, 0, |chunk, _| chunk.chunk_id.set(far));
        change(&mut memory, |state| state.table[0].erase(0, 0));
        assert_eq!(mended_once(&memory), kept, "{far:#x}");
    }
}

#[test]
fn a_chunk_that_was_about_to_be_erased_is_the_oldest() {
    let older = || Chunk { header: header(1, u32::MAX), payload: &[1, 7, 1, 8] };
    let mut memory = region(false);
    change(&mut memory, |state| state.table[0].evict_whole(0, 2));
    let (mut buffer, salvage) = attach(&memory);
    assert_eq!((salvage, buffer.copy_chunk_untrusted(&older())), (kept(6), Commit::Discarded));
    // Also where another was dropped.
    let mut damaged = memory.clone();
    change_chunk(&mut damaged, 4 * (OUTER - 4), |chunk, _| chunk.valid.set(ROOM as u16 + 1));
    let (mut buffer, salvage) = attach(&damaged);
    assert_eq!((salvage.chunks_kept, salvage.chunks_malformed), (5, 1));
    assert_eq!(buffer.copy_chunk_untrusted(&older()), Commit::Discarded);
    // Where none was ever erased, the number means nothing.
    change(&mut memory, |state| state.table[0].remove(Status::HAS_ERASED));
    let (mut buffer, salvage) = attach(&memory);
    assert_eq!((salvage, buffer.copy_chunk_untrusted(&older())), (kept(6), Commit::Written));
}
