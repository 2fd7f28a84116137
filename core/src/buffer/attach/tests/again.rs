//! A reset while a region is being taken over: the next start finds what this one would have.

use super::crash::{all, between, crash_at, instants};
use super::dropped::{OUTER, ROOM, change_chunk, found, region};
use super::load::{Load, Rng};
use crate::buffer::tests::memory::Memory;
use crate::buffer::tests::with_options;
use crate::buffer::*;
use std::vec::Vec;

fn take_over(memory: Memory, config: Config) -> TraceBuffer<Memory> {
    let (buffer, salvage) = TraceBuffer::attach_or_new(memory, config).expect("room");
    assert!(salvage.is_some(), "a region");
    buffer
}

/// The packets of each writer by number, and whether something was lost before. The cause is left out: what was given
/// up may be taken for what was being patched.
fn packets(memory: Memory, config: Config) -> Vec<(u16, u32, bool)> {
    let mut buffer = take_over(memory, config);
    buffer.check().expect("a sound buffer");
    let of_writer = |(writer, packets): (u16, Vec<(u32, DataLoss)>)| {
        packets.into_iter().map(move |(number, loss)| (writer, number, !loss.is_empty()))
    };
    all(&mut buffer).into_iter().flat_map(of_writer).collect()
}

/// Memory that is looked at after the program that worked on it has ended.
struct Shared<'m>(&'m mut Memory);

impl AsRef<[u8]> for Shared<'_> {
    fn as_ref(&self) -> &[u8] {
        self.0
    }
}

impl AsMut<[u8]> for Shared<'_> {
    fn as_mut(&mut self) -> &mut [u8] {
        self.0
    }
}

/// The region at each fence of being taken over, and at some moments between.
pub(super) fn cut_short(memory: &Memory, config: Config, rng: &mut Rng) -> Vec<Memory> {
    let (mut moments, mut last) = (Vec::new(), memory.clone());
    for fence in 1.. {
        let mut region = memory.clone();
        let crashed = crash_at(fence, || {
            let _ = TraceBuffer::attach_or_new(Shared(&mut region), config);
        });
        between(&last, &region, rng, |memory| moments.push(Memory::from(memory)));
        moments.push(region.clone());
        last = region;
        if !crashed {
            break;
        }
    }
    moments
}

fn reset_everywhere(config: Config, seeds: std::ops::Range<u64>) {
    let (seeds, steps) = if cfg!(miri) { (seeds.start..seeds.start + 1, 2) } else { (seeds, 60) };
    let mut kept = 0;
    for seed in seeds {
        let (mut load, mut rng) = (Load::new(seed, 5), Rng(seed ^ 0xF00D));
        let mut memory = Memory::filled(0xA5, config.region_size(600) as usize);
        memory = TraceBuffer::new(memory, config).expect("room").into_memory();
        for step in 0..steps {
            let (instants, _) = instants(&memory, &load.next());
            let memory_then = &instants[rng.below(instants.len() as u64) as usize];
            let expected = packets(memory_then.clone(), config);
            for moment in cut_short(memory_then, config, &mut rng) {
                assert_eq!(packets(moment, config), expected, "seed {seed}, step {step}");
                kept += expected.len();
            }
            memory = instants[instants.len() - 1].clone();
        }
    }
    assert!(cfg!(miri) || kept > 10_000, "too little happened to tell");
}

#[test]
fn a_reset_while_a_region_is_taken_over_costs_nothing_more() {
    let config = Config::new(FillPolicy::RingBuffer).sequences(5);
    reset_everywhere(config, 0..20);
    reset_everywhere(with_options(config, true, false), 20..40);
    reset_everywhere(Config::new(FillPolicy::Discard).sequences(5), 40..50);
}

#[test]
fn what_was_dropped_is_told_also_after_a_reset_just_then() {
    let config = Config::new(FillPolicy::RingBuffer).sequences(4);
    let (mut malformed, mut twice) = (region(false), region(false));
    change_chunk(&mut malformed, 0, |chunk, _| chunk.valid.set(ROOM as u16 + 1));
    // The second of its sequence says that it is the first.
    change_chunk(&mut twice, 2 * (OUTER - 4), |chunk, _| chunk.chunk_id.set(0));
    for memory in [malformed, twice] {
        let (salvage, expected) = found(memory.clone());
        assert_eq!(salvage.chunks_dropped(), 1);
        assert!(expected.iter().any(|(_, _, lost)| *lost), "{expected:?}");
        let moments = cut_short(&memory, config, &mut Rng(1));
        for moment in moments.into_iter().step_by(if cfg!(miri) { 3 } else { 1 }) {
            assert_eq!(found(moment).1, expected);
        }
    }
}
