//! Whole regions are found as they were, whatever was committed to them: the buffer beside itself, attached.

use std::collections::HashSet;

use crate::support::cases::{check_with, count, first_seed};
use crate::support::driver::{Real, short};
use crate::support::hostile;
use crate::support::ops::{Op, Setup};
use tracebuf::buffer::TraceBuffer;

/// Attaches after every fifth operation. Everything that can be read, with its losses, must be as it was.
fn run(setup: &Setup, ops: &[Op]) -> Result<(), String> {
    let (mut real, mut patched) = (Real::new(setup), HashSet::new());
    for (number, op) in (1..).zip(ops) {
        match op {
            Op::Patch { key, chunk_id, .. } => drop(patched.insert((*key, *chunk_id))),
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
