//! Every instant of every operation: the program ends there, and the region is found.
//!
//! An operation is run again and again from the same memory, until the first fence, the second, and so on, and
//! the memory is taken as it is then. Between two fences the compiler may order stores as it likes, so any
//! subset of the words that differ may have been stored: single ones, all but one, and random subsets are tried.

use super::dropped::{found, header, region_of};
use super::load::{Buffer, Load, Op, Packets, Rng, numbers, read};
use crate::buffer::region::RegionLayout;
use crate::buffer::tests::memory::Memory;
use crate::buffer::tests::with_options;
use crate::buffer::*;
use std::cell::Cell;
use std::collections::BTreeSet;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::vec::Vec;

std::thread_local! {
    /// Fences until the program ends; 0: it does not.
    static LEFT: Cell<u64> = const { Cell::new(0) };
}

struct Crash;

/// Called at every fence.
pub(in crate::buffer) fn crash_here() {
    LEFT.with(|left| match left.get() {
        0 => {}
        1 => {
            left.set(0);
            // No message: this is no failure.
            resume_unwind(std::boxed::Box::new(Crash));
        }
        more => left.set(more - 1),
    });
}

/// Runs something that works on `memory` up to its fence number `fences`. False if it ended before.
pub(super) fn crash_at(fences: u64, work: impl FnOnce()) -> bool {
    LEFT.with(|left| left.set(fences));
    let ended = catch_unwind(AssertUnwindSafe(work));
    LEFT.with(|left| left.set(0));
    match ended {
        Ok(()) => false,
        Err(payload) if payload.is::<Crash>() => true,
        Err(payload) => resume_unwind(payload),
    }
}

pub(super) fn attach(memory: &[u8]) -> (Buffer, Salvage) {
    let (mut buffer, salvage) = TraceBuffer::attach(Memory::from(memory)).expect("a region");
    buffer.check().expect("a sound buffer");
    (buffer, salvage)
}

pub(super) fn all(buffer: &mut Buffer) -> Packets {
    read(&mut buffer.read(), usize::MAX)
}

/// The region at each fence of an operation, from before it to after it, and what it handed out.
pub(super) fn instants(memory: &[u8], op: &Op) -> (Vec<Memory>, Packets) {
    let mut instants = std::vec![Memory::from(memory)];
    for fence in 1.. {
        let region = Memory::from(memory);
        let layout = RegionLayout::find(&region, crate::buffer::region::RingEnd::Required).expect("a region");
        let mut buffer = TraceBuffer { memory: region, layout, observer: Unobserved };
        let mut out = Packets::new();
        let crashed = crash_at(fence, || out = op.run(&mut buffer));
        instants.push(buffer.into_memory());
        if !crashed {
            return (instants, out);
        }
    }
    unreachable!("an operation has an end")
}

/// Memory between two fences: some of the words that differ are stored already.
pub(super) fn between(before: &[u8], after: &[u8], rng: &mut Rng, mut look: impl FnMut(&[u8])) {
    let words = before.chunks(4).zip(after.chunks(4)).enumerate();
    let differ: Vec<usize> = words.filter(|(_, (old, new))| old != new).map(|(at, _)| at * 4).collect();
    let mut look_at = |stored: &dyn Fn(usize) -> bool| {
        let mut memory = before.to_vec();
        for (_, at) in differ.iter().enumerate().filter(|(index, _)| stored(*index)) {
            let end = (at + 4).min(after.len());
            memory[*at..end].copy_from_slice(&after[*at..end]);
        }
        look(&memory);
    };
    let (single, random) = if cfg!(miri) { (0, 1) } else { (6, 3) };
    for one in 0..differ.len().min(single) {
        look_at(&|index| index == one);
        look_at(&|index| index != one);
        look_at(&|index| index < one);
    }
    for _ in 0..random {
        let seed = rng.below(u64::MAX);
        look_at(&|index| Rng(seed ^ index as u64).below(2) == 0);
    }
}

/// What readers got and what they missed.
#[derive(Default)]
struct Seen {
    instants: u64,
    kept: u64,
    false_losses: u64,
    place: std::string::String,
    /// Packets that operations have handed out.
    delivered: BTreeSet<(u16, u32)>,
}

impl Seen {
    /// A packet must say that something was lost before it if, and if possible only if, numbers are missing.
    fn compare_losses(&mut self, found: &Packets, what: &str) {
        for (writer, packets) in found {
            let delivered = self.delivered.range((*writer, 0)..=(*writer, u32::MAX)).next_back();
            let mut before = delivered.map_or(0, |(_, number)| *number);
            for (number, loss) in packets {
                let missing = *number > before + 1;
                self.false_losses += u64::from(!missing && !loss.is_empty());
                let silent = missing && loss.is_empty();
                assert!(!silent, "{what}: {writer} lost what is before {number}, silently");
                before = *number;
            }
        }
    }
}

/// Whether what is read from a region found after a crash is what must be there.
fn judge(memory: &[u8], before: &Packets, after: &Packets, op: &Op, seen: &mut Seen) {
    let what = std::format!("{} {op:?}", seen.place);
    let (mut buffer, salvage) = attach(memory);
    assert_eq!((salvage.chunks_dropped(), salvage.bytes_unreadable), (0, 0), "{what}: {salvage}");
    let found = all(&mut buffer);
    buffer.check().expect("a sound buffer");
    if matches!(op, Op::Read { .. }) {
        // A packet that comes again because it was not delivered reports the losses that it would have reported.
        for (writer, packets) in before {
            if let (Some(first), Some(now)) =
                (packets.first(), found.get(writer).and_then(|found| found.first()))
            {
                let untold = first.0 == now.0 && !first.1.is_empty() && now.1.is_empty();
                assert!(!untold, "{what}: {first:?} of writer {writer} tells nothing");
            }
        }
    }
    let (before, after, numbers) = (numbers(before), numbers(after), numbers(&found));
    let missing: Vec<_> = before.intersection(&after).filter(|packet| !numbers.contains(packet)).collect();
    assert!(missing.is_empty(), "{what}: {missing:?} missing");
    let strange: Vec<_> =
        numbers.iter().filter(|packet| !before.contains(packet) && !after.contains(packet)).collect();
    // What had to wait for a packet that is given up now waits no longer.
    assert!(strange.is_empty() || salvage.chunks_cut > 0, "{what}: {strange:?} are in neither");
    let twice: Vec<_> = numbers.intersection(&seen.delivered).collect();
    assert!(twice.is_empty(), "{what}: {twice:?} were read before");
    for (writer, packets) in &found {
        for two in packets.windows(2) {
            assert!(two[0].0 < two[1].0, "{what}: order within writer {writer}");
        }
    }
    if !matches!(op, Op::Read { .. }) {
        seen.compare_losses(&found, &what);
    }
    seen.instants += 1;
    seen.kept += numbers.len() as u64;
}

fn crash_everywhere(config: Config, ring: u32, seeds: std::ops::Range<u64>, steps: usize) {
    let (seeds, steps) = if cfg!(miri) { (seeds.start..seeds.start + 1, 2) } else { (seeds, steps) };
    let mut seen = Seen::default();
    for seed in seeds {
        let mut load = Load::new(seed, 5);
        seen.delivered.clear();
        let mut rng = Rng(seed ^ 0xF00D);
        let mut memory = Memory::filled(0xA5, config.region_size(ring) as usize);
        memory = TraceBuffer::new(memory, config).expect("room").into_memory();
        for step in 0..steps + 2 {
            let op = match step.checked_sub(steps) {
                None => load.next(),
                Some(0) => Op::End,
                Some(_) => Op::Forget,
            };
            seen.place = std::format!("seed {seed}, step {step}:");
            let (instants, out) = instants(&memory, &op);
            let (first, last) = (&instants[0], &instants[instants.len() - 1]);
            let (before, after) = (all(&mut attach(first).0), all(&mut attach(last).0));
            for two in instants.windows(2) {
                judge(&two[1], &before, &after, &op, &mut seen);
                between(&two[0], &two[1], &mut rng, |memory| judge(memory, &before, &after, &op, &mut seen));
            }
            memory = last.clone();
            seen.delivered.extend(numbers(&out));
        }
    }
    let Seen { instants, kept, false_losses, .. } = seen;
    std::eprintln!("{instants} instants, {kept} packets, {false_losses} false losses");
    assert!(cfg!(miri) || seen.instants > 1000 && seen.kept > seen.instants, "too little happened to tell");
}

#[test]
fn a_crash_at_any_store_loses_nothing_outside_the_range_being_overwritten() {
    let config = Config::new(FillPolicy::RingBuffer).sequences(5);
    crash_everywhere(config, 600, 0..6, 120);
    crash_everywhere(with_options(config.sequences(8), false, true), 1800, 100..103, 200);
}

#[cfg(feature = "crc")]
#[test]
fn a_crash_at_any_store_loses_nothing_with_checksums_either() {
    let config = Config::new(FillPolicy::RingBuffer).sequences(5).crc(true);
    crash_everywhere(config, 700, 0..5, 120);
}

#[test]
fn a_crash_at_any_store_of_a_buffer_that_stops_loses_nothing() {
    crash_everywhere(Config::new(FillPolicy::Discard).sequences(8), 1200, 0..8, 60);
}

struct Keeper;

impl OverwriteObserver for Keeper {
    fn packet(&mut self, _packet: &Packet<'_>) -> bool {
        true
    }
}

#[test]
fn a_packet_that_an_observer_keeps_in_a_crash_comes_again_and_says_of_losses_what_it_would_have_said() {
    // The first of its chunks was overwritten; the next one is about to be.
    let ids: Vec<u32> = (0..22).collect();
    let before = region_of(&ids);
    let (_, expected) = found(before.clone());
    assert_eq!(expected.len(), 42);
    let (first, mut again) = (&expected[0], 0);
    assert!(first.2, "{first:?} says nothing");
    let chunk = Chunk { header: header(2, 0), payload: &[1, 7, 1, 8] };
    for fence in 1.. {
        let region = before.clone();
        let layout = RegionLayout::find(&region, crate::buffer::region::RingEnd::Required).expect("a region");
        let mut buffer = TraceBuffer { memory: region, layout, observer: Unobserved };
        let crashed = crash_at(fence, || {
            buffer.copy_chunk_untrusted_observed(&chunk, &mut Keeper);
        });
        let (salvage, now) = found(buffer.into_memory());
        assert!(salvage.is_clean(), "{salvage}");
        if now.iter().filter(|packet| packet.0 == 1).count() == expected.len() {
            again += u32::from(crashed);
            assert!(!crashed || now[0].2, "fence {fence}: {:?} says nothing", now[0]);
        }
        if !crashed {
            break;
        }
    }
    assert!(again > 1, "it never came again");
}
