//! Whole regions are found as they were, whatever was committed to them: the buffer compared with itself, attached.

use std::collections::HashSet;

use tracebuf::buffer::{ReadOnlyTraceBuffer, TraceBuffer};
use tracebuf_conformance::model::ModelPacket;
use tracebuf_conformance::random::cases::{check_with, count, first_seed};
use tracebuf_conformance::random::driver::{Real, short, take};
use tracebuf_conformance::random::hostile;
use tracebuf_conformance::random::ops::{BufferOp, Setup};

/// Attaches after every fifth operation. Everything that can be read, with its losses, must be as it was.
fn run(setup: &Setup, ops: &[BufferOp]) -> Result<(), String> {
    let (mut real, mut patched) = (Real::new(setup), HashSet::new());
    for (number, op) in (1..).zip(ops) {
        match op {
            BufferOp::Patch { key, chunk_id, .. } => drop(patched.insert((*key, *chunk_id))),
            // Reading skips the rest of a chunk that a patch broke: where it grew then, nobody can say.
            BufferOp::Commit { header: h, .. } if patched.contains(&((h.producer, h.writer), h.chunk_id)) => {
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
    let expected = real.apply(&BufferOp::Clone).packets;
    let (buffer, salvage) = TraceBuffer::attach(real.buffer.into_memory()).expect("a region");
    real.buffer = buffer;
    real.buffer.check().map_err(|why| format!("check: {why}"))?;
    let found = real.apply(&BufferOp::Clone).packets;
    if !salvage.is_clean() {
        return Err(format!("salvage: {salvage}"));
    }
    if found != expected {
        return Err(format!("packets:\n  {expected:?}\n  {found:?}"));
    }
    let memory = real.buffer.into_memory();
    attach_ended(copy_of(&memory), salvage.chunks_kept, &found)?;
    real.buffer = TraceBuffer::attach(memory).expect("a region").0;
    Ok(real)
}

/// A copy that lies as the memory does: a region begins at the first multiple of 8 in it, and memory may begin anywhere.
fn copy_of(memory: &[u8]) -> Vec<u8> {
    let region = memory.get(memory.as_ptr().align_offset(8)..).expect("a region");
    let mut copy = vec![0; region.len() + 7];
    let at = copy.as_ptr().align_offset(8);
    copy.truncate(at + region.len());
    copy[at..].copy_from_slice(region);
    copy
}

/// When nothing more comes, all that could be read still can be, and what waited is out of the way for good.
fn attach_ended(memory: Vec<u8>, chunks: u32, living: &[ModelPacket]) -> Result<(), String> {
    let (ended, salvage) = ReadOnlyTraceBuffer::attach_ended(memory).expect("a region");
    let dropped = u64::from(salvage.chunks_dropped()) + salvage.bytes_unreadable;
    if dropped > 0 || salvage.chunks_reverted > 0 || salvage.chunks_kept != chunks {
        return Err(format!("salvage at the end: {salvage}"));
    }
    let (ended, again) = ReadOnlyTraceBuffer::attach_ended(ended.into_memory()).expect("a region");
    let (mut ended, living_again) = TraceBuffer::attach(ended.into_memory()).expect("a region");
    if !again.is_clean() || !living_again.is_clean() {
        return Err(format!("after the end: {again}, {living_again}"));
    }
    ended.check().map_err(|why| format!("check at the end: {why}"))?;
    let found = take(ended.read(), None).0;
    let of = |packets: &[ModelPacket], key| -> Vec<Vec<u8>> {
        let of_it = packets.iter().filter(|packet| (packet.producer, packet.writer) == key);
        of_it.map(|packet| packet.slices.concat()).collect()
    };
    for key in living.iter().map(|packet| (packet.producer, packet.writer)) {
        let (before, after) = (of(living, key), of(&found, key));
        if !after.starts_with(&before) {
            return Err(format!("at the end, of {key:?}:\n  {before:?}\n  {after:?}"));
        }
    }
    Ok(())
}

#[test]
fn a_region_is_found_as_it_was_whatever_came() {
    for seed in first_seed()..first_seed() + count(200) {
        let (setup, ops) = hostile::case(seed, false);
        check_with("attach", seed, &setup, &ops, |ops| run(&setup, ops));
    }
}
