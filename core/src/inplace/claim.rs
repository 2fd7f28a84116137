//! The claim of a chunk, without a lock: any priority may interrupt any other at any instruction of it.

use super::layout::{FRONT, Front, State, WRITERS_MAX, header};
use super::order::{PUBLISH, after_claiming, before_masking, before_publishing};
use super::region::Memory;
use super::sum;
use crate::atomics::Ordering;

/// Takes a chunk for a writer. `None` if all are taken.
///
/// A place may be taken when nothing in it is needed, or when its chunk was completed half a ring ago or earlier. So
/// what a slow writer has just completed is not the next to go, though its place is. Cost: some 100 instructions, and
/// 25 for each place jumped over.
pub(super) fn claim<M: Memory>(region: &M, writer: u32, time: u64, front: Front) -> Option<&M::Chunk> {
    if writer == WRITERS_MAX {
        return None;
    }
    // Each place tried makes the others older by one.
    for _ in 0..2 * M::CHUNKS {
        let position = region.header(header::POSITION).fetch_add(1, Ordering::Relaxed);
        let chunk = region.chunk(position);
        let word = M::word(chunk, 0);
        let state = State(word.load(Ordering::Relaxed));
        let may_go = state.is() == State::FREE
            || state.is() == State::COMPLETE && state.age(position) >= (M::CHUNKS / 2) as i32;
        if !may_go {
            continue;
        }
        let claimed = State(before_masking(State::new(State::CLAIMED, writer, position).0));
        if word.compare_exchange(state.0, claimed.0, Ordering::Relaxed, Ordering::Relaxed).is_ok() {
            // Who copies the chunk meanwhile must see that it is claimed if it sees any of what follows.
            after_claiming();
            let store = |index, value| M::word(chunk, index).store(value, Ordering::Relaxed);
            store(1, time as u32);
            store(2, (time >> 32) as u32);
            store(3, front.0);
            store(FRONT, 0);
            before_publishing();
            word.store(claimed.with(State::OPEN).0, PUBLISH);
            return Some(chunk);
        }
    }
    None
}

/// Says that a chunk, of which so many words are used, is complete, as of now.
pub(super) fn complete<M: Memory>(region: &M, chunk: &M::Chunk, used: u32) {
    sum::put::<M>(chunk, used);
    let word = M::word(chunk, 0);
    let writer = State(word.load(Ordering::Relaxed)).writer();
    let position = region.header(header::POSITION).load(Ordering::Relaxed);
    before_publishing();
    word.store(State::new(State::COMPLETE, writer, position).0, PUBLISH);
}
