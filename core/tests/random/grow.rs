//! A copy with more room is what the buffer was, and takes as much more before it overwrites anything.

use crate::support::cases::{check_with, count, first_seed};
use crate::support::driver::{Real, short};
use crate::support::hostile;
use crate::support::ops::{Op, Setup};
use tracebuf::buffer::{ChunkHeader, Commit, FillPolicy, TraceBuffer};

/// Goes over to a larger ring now and then. Everything that can be read, with its losses, must be as it was.
fn run(setup: &Setup, ops: &[Op]) -> Result<(), String> {
    let mut real = Real::new(setup);
    for (number, op) in (1..).zip(ops) {
        real.apply(op);
        if number % 17 == 0 {
            real = grow(real, number % 5 * 20)
                .map_err(|what| format!("after operation {number} ({}): {what}", short(op)))?;
        }
    }
    Ok(())
}

fn grow(mut real: Real, more: usize) -> Result<Real, String> {
    let (size, counters) = (real.buffer.stats().buffer_size, real.buffer.stats());
    let expected = real.apply(&Op::Clone).packets;
    let found = real.buffer.into_read_only();
    let memory = vec![0xEE; found.grown_size(more)];
    let buffer = found.grow(memory).map_err(|error| error.to_string())?;
    // What is committed into the room that was asked for overwrites nothing.
    room_is_free(found.grow(vec![0; found.grown_size(more)]).expect("room"), more)?;
    real.buffer = buffer;
    real.buffer.check().map_err(|why| format!("check: {why}"))?;
    let mut stats = real.buffer.stats();
    let grown = std::mem::replace(&mut stats.buffer_size, size);
    if grown < size + more as u64 || stats != counters {
        return Err(format!("counters:\n  {counters:?}\n  {stats:?}"));
    }
    let found = real.apply(&Op::Clone).packets;
    if found == expected { Ok(real) } else { Err(format!("packets:\n  {expected:?}\n  {found:?}")) }
}

fn room_is_free(mut buffer: TraceBuffer<Vec<u8>>, more: usize) -> Result<(), String> {
    let is_ring = buffer.policy() == FillPolicy::RingBuffer;
    let header = ChunkHeader { producer_id: 99, fragments: 1, complete: true, ..ChunkHeader::default() };
    let before = buffer.stats();
    // A chunk of 28 bytes each.
    for chunk_id in 0..more as u32 / 28 {
        let commit = buffer.commit_with(&ChunkHeader { chunk_id, ..header }, 3, |at, to| {
            to.iter_mut().zip([2, 0x40, 5].into_iter().skip(at)).for_each(|(to, from)| *to = from);
        });
        // The table may be full of others.
        if is_ring && !matches!(commit, Commit::Written | Commit::Refused(_)) {
            return Err(format!("{commit:?}"));
        }
    }
    let after = buffer.stats();
    if (after.chunks_overwritten, after.bytes_overwritten)
        != (before.chunks_overwritten, before.bytes_overwritten)
    {
        return Err(format!("overwritten:\n  {before:?}\n  {after:?}"));
    }
    buffer.check().map(drop).map_err(|why| format!("check with more: {why}"))
}

#[test]
fn a_buffer_in_more_memory_is_what_it_was_and_has_more_room() {
    for seed in first_seed()..first_seed() + count(200) {
        let (setup, ops) = hostile::case(seed, false);
        check_with("grow", seed, &setup, &ops, |ops| run(&setup, ops));
    }
}
