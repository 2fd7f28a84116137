//! Whole regions are found as they were, whatever was committed to them: the buffer beside itself, attached.

use std::collections::HashSet;

use crate::support::cases::{check_with, count, first_seed};
use crate::support::driver::{Real, short};
use crate::support::hostile;
use crate::support::ops::{Op, Setup};
use tracebuf::buffer::{RingContent, TraceBuffer};

type Id = ((u16, u16), u32);

/// Whether a patch changes bytes that were read: it may make sizes of them that contradict what is left.
fn comes_late(real: &Real, id: Id, patches: &[(u64, [u8; 4])]) -> bool {
    real.buffer.inspect().items().any(|item| {
        let RingContent::Chunk(chunk) = item.content else { return false };
        let is_it = ((chunk.producer_id, chunk.writer_id), chunk.chunk_id) == id;
        is_it && patches.iter().any(|(at, _)| *at < u64::from(chunk.read))
    })
}

/// Attaches after every fifth operation. Everything that can be read, with its losses, must be as it was.
fn run(setup: &Setup, ops: &[Op]) -> Result<(), String> {
    let (mut real, mut patched) = (Real::new(setup), HashSet::new());
    for (number, op) in (1..).zip(ops) {
        match op {
            Op::Patch { key, chunk_id, patches, .. } => {
                if comes_late(&real, (*key, *chunk_id), patches) {
                    continue;
                }
                patched.insert((*key, *chunk_id));
            }
            // Of a chunk that a patch broke reading skips the rest: where it grew then, nobody can say.
            Op::Commit { header: h, .. } if patched.contains(&((h.producer, h.writer), h.chunk_id)) => {
                continue;
            }
            _ => {}
        }
        real.apply(op);
        if number % 5 == 0 {
            real =
                attach(real).map_err(|what| format!("after operation {number} ({}): {what}", short(op)))?;
        }
    }
    Ok(())
}

fn attach(mut real: Real) -> Result<Real, String> {
    let expected = real.apply(&Op::Clone).packets;
    let (buffer, salvage) = TraceBuffer::attach(real.buffer.into_memory()).expect("a region");
    real.buffer = buffer;
    real.buffer.check().map_err(|why| format!("check: {why}"))?;
    let found = real.apply(&Op::Clone).packets;
    if !salvage.is_clean() {
        return Err(format!("salvage: {salvage}"));
    }
    if found == expected { Ok(real) } else { Err(format!("packets:\n  {expected:?}\n  {found:?}")) }
}

#[test]
fn a_region_is_found_as_it_was_whatever_came() {
    for seed in first_seed()..first_seed() + count(200) {
        let (setup, ops) = hostile::case(seed, false);
        check_with("attach", seed, &setup, &ops, |ops| run(&setup, ops));
    }
}
