//! Recording into what was found: newest last, oldest out first, as if nothing had happened.

use super::crash::{all, attach, instants};
use super::load::{Load, Op, Rng, numbers};
use crate::buffer::region::{Mode, State};
use crate::buffer::ring::Ring;
use crate::buffer::tb_chunk::{Flags, Item};
use crate::buffer::tests::memory::{Memory, change};
use crate::buffer::*;
use std::collections::BTreeSet;
use std::vec::Vec;

const RING: u32 = 700;

fn rounds() -> std::ops::Range<u64> {
    0..if cfg!(miri) { 1 } else { 300 }
}

fn config() -> Config {
    Config::new(FillPolicy::RingBuffer).sequences(6)
}

fn new_region() -> Memory {
    let memory = Memory::filled(0, config().region_size(RING) as usize);
    TraceBuffer::new(memory, config()).expect("room").into_memory()
}

/// A region in which the ring has lapped, and the load that goes on with it.
fn lapped_region(seed: u64) -> (Memory, Load) {
    let (mut load, mut buffer) = (Load::new(seed, 5), attach(&new_region()).0);
    let laps = if cfg!(miri) { 1 } else { 3 };
    while buffer.stats().write_wrap_count < laps {
        load.next().run(&mut buffer);
    }
    (buffer.into_memory(), load)
}

/// The operations that come next, without reading: that would take another packet where one has gone.
fn next_ops(load: &Load, count: usize) -> Vec<Op> {
    let mut load = load.clone();
    let mut ops: Vec<Op> = (0..count).map(|_| load.next()).collect();
    ops.retain(|op| !matches!(op, Op::Read { .. }));
    ops
}

/// What can be read in the end after `ops` on a region that was found, when it is found again.
fn later(memory: &[u8], ops: &[Op]) -> BTreeSet<(u16, u32)> {
    let (mut buffer, _) = attach(memory);
    for op in ops {
        op.run(&mut buffer);
        buffer.check().expect("a sound buffer");
    }
    numbers(&all(&mut attach(&buffer.into_memory()).0))
}

#[test]
fn after_a_crash_at_any_store_the_oldest_still_goes_first() {
    let (seeds, steps, ahead) = if cfg!(miri) { (0..1, 3, 3) } else { (0..8, 120, 12) };
    let (mut sure, mut missing) = (0, 0);
    for seed in seeds {
        let (mut load, mut memory) = (Load::new(seed, 5), new_region());
        for _ in 0..steps {
            let op = load.next();
            let (instants, _) = instants(&memory, &op);
            let ops = next_ops(&load, ahead);
            memory = instants[instants.len() - 1].clone();
            let in_both = &later(&instants[0], &ops) & &later(&memory, &ops);
            for instant in &instants {
                sure += in_both.len();
                missing += (&in_both - &later(instant, &ops)).len();
            }
        }
    }
    // A scraped chunk that comes again grows where it is or moves to the cursor, depending on what was read of it by
    // then.
    assert!(missing * 500 <= sure, "{missing} of {sure} packets missing");
}

#[test]
fn the_cursor_is_found_by_the_chunks_alone() {
    let (mut sure, mut missing) = (0, 0);
    for seed in rounds() {
        let (mut memory, load) = lapped_region(seed);
        let ops = next_ops(&load, if cfg!(miri) { 8 } else { 16 });
        let expected = later(&memory, &ops);
        let wrong = Rng(seed).below(u64::from(RING) + 8) as u32;
        change(&mut memory, |state| state.header.write.set(wrong));
        sure += expected.len();
        missing += (&expected - &later(&memory, &ops)).len();
    }
    // A cursor farther on in the same gap is as good as the one that was.
    assert!(missing * 20 <= sure, "{missing} of {sure} packets missing");
}

/// Where the write cursor is, and the chunk after it, which goes next.
fn cursor(memory: &Memory) -> (u32, Option<u32>) {
    let mut found = (0, None);
    change(&mut memory.clone(), |state| {
        let write = state.header.write.get();
        found = (write, chunks(&state.ring).into_iter().find(|at| *at >= write));
    });
    found
}

fn chunks(ring: &Ring<'_>) -> Vec<u32> {
    let (mut at, mut chunks) = (0, Vec::new());
    while let Some(item) = ring.item(at).filter(|_| at < RING) {
        if let Item::Chunk(_) = item {
            chunks.push(at);
        }
        at += item.size();
    }
    chunks
}

fn set_laps(state: &mut State<'_>, mut lap: impl FnMut(bool) -> bool) {
    for at in chunks(&state.ring) {
        let chunk = state.ring.chunk(at).expect("a chunk");
        let mut flags = chunk.flags();
        flags.set(Flags::LAP, lap(flags.contains(Flags::LAP)));
        state.ring.set_flags(&chunk, flags);
    }
}

#[test]
fn what_has_been_attached_is_attached_again_without_a_change() {
    for seed in rounds() {
        let ((mut memory, _), mut rng) = (lapped_region(seed), Rng(seed));
        let wrong = rng.below(u64::from(RING) + 8) as u32;
        let (before, _) = cursor(&memory);
        // Laps that change back and forth, and a cursor that is nowhere.
        let (mut laps, mut count) = (Vec::new(), 0);
        change(&mut memory, |state| {
            set_laps(state, |lap| {
                laps.push(lap ^ (rng.below(4) == 0));
                laps[laps.len() - 1]
            });
            if seed % 2 == 0 {
                state.header.write.set(wrong);
            }
            count = chunks(&state.ring).len();
        });
        let mut once = attach(&memory).0.into_memory();
        change(&mut once, |state| assert_eq!(chunks(&state.ring).len(), count, "seed {seed}"));
        if seed % 2 != 0 && laps.windows(2).filter(|two| two[0] != two[1]).count() > 1 {
            assert_eq!(cursor(&once).0, before, "seed {seed}: the header knows better");
        }
        let twice = attach(&once).0.into_memory();
        assert_eq!(once[..], twice[..], "seed {seed}");
        // The laps are right now, so that the cursor can be found by them.
        let expected = cursor(&once).1;
        change(&mut once, |state| state.header.write.set(wrong));
        assert_eq!(cursor(&attach(&once).0.into_memory()).1, expected, "seed {seed}");
    }
}

#[test]
fn where_all_chunks_are_of_the_lap_before_the_new_one_begins_at_the_start() {
    for seed in rounds() {
        let mut memory = lapped_region(seed).0;
        let mut first = 0;
        change(&mut memory, |state| {
            first = chunks(&state.ring)[0];
            let lap = state.header.mode().contains(Mode::LAP);
            set_laps(state, |_| !lap);
        });
        assert!(cursor(&attach(&memory).0.into_memory()).0 <= first, "seed {seed}");
    }
}

#[test]
fn a_ring_that_has_not_lapped_goes_on_where_it_ended() {
    for seed in rounds() {
        let (mut load, mut buffer) = (Load::new(seed, 5), attach(&new_region()).0);
        for _ in 0..6 {
            load.next().run(&mut buffer);
        }
        let mut memory = buffer.into_memory();
        let (end, _) = cursor(&memory);
        change(&mut memory, |state| {
            state.header.write.set(seed as u32 * 4 % end.max(1));
            state.header.position.set(seed.wrapping_mul(u64::MAX / 7));
            state.header.set_mode(state.header.mode() ^ Mode::LAP);
        });
        let mut memory = attach(&memory).0.into_memory();
        assert_eq!(cursor(&memory).0, end, "seed {seed}");
        change(&mut memory, |state| assert_eq!(state.header.position.get(), u64::from(end), "seed {seed}"));
    }
}

#[test]
fn how_much_was_written_is_kept_if_it_can_be_true() {
    let memory = (0..).map(|seed| lapped_region(seed).0).find(|memory| cursor(memory).0 > 0);
    let memory = memory.expect("one of them");
    let write = u64::from(cursor(&memory).0);
    let most = u64::MAX / 2;
    for (position, is_kept) in [
        (write - 1, false),
        (write, true),
        (1 << 40, true),
        (most, true),
        (most + 1, false),
        (u64::MAX, false),
    ] {
        let mut memory = memory.clone();
        change(&mut memory, |state| state.header.position.set(position));
        let mut memory = attach(&memory).0.into_memory();
        let expected = if is_kept { position } else { u64::from(RING) + write };
        change(&mut memory, |state| assert_eq!(state.header.position.get(), expected, "{position}"));
    }
}

#[test]
fn what_was_copied_before_the_crash_ends_no_lease_after_it() {
    let (mut memory, _) = lapped_region(1);
    change(&mut memory, |state| state.header.touched.set(u64::MAX));
    let mut buffer = attach(&memory).0;
    let lease = buffer.read().lease_packet().expect("a packet");
    assert!(buffer.leased(&lease).is_ok());
}
