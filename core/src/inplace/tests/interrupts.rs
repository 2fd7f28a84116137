//! Two priorities: one interrupts the other before any access to the region, and does a lot.

use std::boxed::Box;
use std::cell::{Cell, RefCell};
use std::format;
use std::rc::Rc;
use std::string::String;
use std::vec::Vec;

use super::super::{ChunkView, Memory, Record, Recorder, Region, Timer, Writer};
use super::{by_writer, dump};
use crate::atomics::watched::interrupted_at;

std::thread_local! {
    static NOW: Cell<u64> = const { Cell::new(0) };
    /// What the main loop and the interrupt have read last.
    static READ: [Cell<u64>; 2] = const { [const { Cell::new(0) }; 2] };
}

/// A timer of 16 bits, as one of both reads it.
#[derive(Clone, Copy)]
struct Clock(usize);

impl Timer for Clock {
    const BITS: u32 = 16;

    fn ticks(&self) -> u32 {
        let now = pass(1);
        READ.with(|read| read[self.0].set(now));
        now as u32 & 0xFFFF
    }
}

fn pass(ticks: u64) -> u64 {
    NOW.set(NOW.get() + ticks);
    NOW.get()
}

/// A writer, and what it has finished.
struct Priority<M: Memory + 'static> {
    writer: Writer<'static, M, Clock>,
    number: usize,
    done: Vec<(u64, String)>,
}

impl<M: Memory> Priority<M> {
    fn new(region: &'static M, number: usize) -> Self {
        let recorder = Recorder { region, timer: Clock(number) };
        Self { writer: recorder.writer(["main", "interrupt"][number]), number, done: Vec::new() }
    }

    fn said(&mut self, said: String) {
        self.done.push((READ.with(|read| read[self.number].get()), said));
    }

    fn count(&mut self, values: impl Iterator<Item = i64>) {
        for value in values {
            let value = value << 1 | self.number as i64;
            self.writer.count_i64(["m", "i"][self.number], value << 32 | value);
            self.said(format!("{} {}", ["m", "i"][self.number], value << 32 | value));
        }
    }

    fn instant(&mut self, name: &'static str) {
        self.writer.instant(name);
        self.said(format!("instant {name}"));
    }

    /// All that is in the ring is what was finished, in its order, up to the newest; what is missing is a gap.
    fn check(&self, dump: &[u8], when: &str) {
        let all = by_writer(dump);
        let told = all.get(&(1, self.number as u32)).map_or(&[][..], Vec::as_slice);
        let mut expected = self.done.iter();
        let mut is_after_gap = true;
        for record in told {
            if record.1 == "gap" {
                is_after_gap = true;
                continue;
            }
            let next = expected.by_ref().position(|done| done == record);
            let is_right = if is_after_gap { next.is_some() } else { next == Some(0) };
            assert!(is_right, "{when}: {record:?} in {told:?} of {:?}", self.done);
            is_after_gap = false;
        }
        assert!(expected.next().is_none(), "{when}: the newest is missing in {told:?} of {:?}", self.done);
    }
}

/// Does what the main loop does, interrupted before each of its accesses in turn, and then a bit more of both. Some chunks
/// are taken by others.
fn at_any_access<const NAMES: usize, const CHUNKS: usize>(
    what: &str,
    taken: usize,
    main: impl Fn(&mut Priority<Region<NAMES, 32, CHUNKS, 32>>),
    interrupt: impl Fn(&mut Priority<Region<NAMES, 32, CHUNKS, 32>>) + Copy + 'static,
) {
    for access in 1.. {
        NOW.set(0);
        let region = &*Box::leak(Box::new(Region::zeroed()));
        let recorder = Recorder::new(region, Clock(0), 1_000);
        let mut low = Priority::new(region, 0);
        let high = Rc::new(RefCell::new(Priority::new(region, 1)));
        let holders: Vec<_> = (0..taken).map(|_| recorder.writer("taken")).collect();
        holders.iter().for_each(|holder| holder.end());
        let handler = Rc::clone(&high);
        let interrupt = move || {
            let mut high = handler.borrow_mut();
            interrupt(&mut high);
            // A reset may come now.
            high.check(&dump(region), &format!("within access {access}"));
        };
        let came = interrupted_at(access, interrupt, || main(&mut low));
        let mut high = high.borrow_mut();
        for more in 0..2 {
            let when = format!("{what}, access {access}, {more} later");
            let dump = dump(region);
            low.check(&dump, &when);
            high.check(&dump, &when);
            low.count(900..901);
            high.count(900..901);
        }
        assert_eq!(recorder.dropped(), 0);
        if !came {
            assert!(access > 20, "{access}");
            break;
        }
    }
}

/// Of four chunks two are taken, so that both want the same one.
#[test]
fn a_chunk_that_an_interrupt_claims_in_the_midst_of_a_claim_is_its_own() {
    for values in [1, 9, 13, 20, 31] {
        at_any_access::<16, 4>(
            &format!("{values}"),
            2,
            |low| low.count(0..22),
            move |high| high.count(0..values),
        );
    }
}

/// An interrupt may take longer than many periods of the timer, and keeps the time meanwhile.
#[test]
fn half_periods_that_an_interrupt_counts_are_counted_once() {
    for events in [1, 2, 7] {
        let main = |low: &mut Priority<_>| {
            for value in 0..6 {
                low.count(value..value + 1);
                pass(0x5000);
            }
        };
        at_any_access::<16, 16>(&format!("{events}"), 0, main, move |high| {
            for value in 0..events {
                pass(if value == 0 { 0x0FFF } else { 0x5800 });
                high.count(value..value + 1);
            }
        });
    }
}

/// Of the names some want the same place, and one is the same.
#[test]
fn names_that_both_enter_at_once_have_their_own_text() {
    const LETTERS: &str = "abcdefghijklmnopqrstuvwxyz0123456789";
    for from in 0..29 {
        let main = |low: &mut Priority<_>| {
            low.instant(&LETTERS[..5]);
            low.instant(&LETTERS[2..4]);
        };
        at_any_access::<16, 8>(&format!("{from}"), 0, main, move |high| {
            high.instant(&LETTERS[from..from + 5]);
            high.instant(&LETTERS[from..from + 7]);
        });
    }
}

#[test]
fn a_copy_is_of_one_chunk_whatever_an_interrupt_overwrites() {
    const FULL: i32 = if cfg!(feature = "inplace-crc") { 12 } else { 13 };
    for access in 1.. {
        let region = &*Box::leak(Box::new(Region::<16, 32, 4, 32>::zeroed()));
        let recorder = Recorder::new(region, || 0, 1_000);
        let writer = Rc::new(recorder.writer("w"));
        (0..3 * FULL + 5).for_each(|value| writer.count("n", value));
        let interrupting = Rc::clone(&writer);
        let (mut copy, mut is_copied) = ([0; 32], false);
        let came = interrupted_at(
            access,
            move || (3 * FULL + 5..8 * FULL + 8).for_each(|value| interrupting.count("n", value)),
            || is_copied = recorder.copy_chunk(&mut copy).is_some(),
        );
        let bytes: Vec<u8> = copy.iter().flat_map(|word| word.to_le_bytes()).collect();
        let records = ChunkView::of(&bytes).expect("a chunk").records();
        let values = records.map(|record| match record {
            Ok((_, Record::Count { value, .. })) => value,
            other => panic!("{access}: {other:?}"),
        });
        assert!(is_copied);
        let values: Vec<_> = values.collect();
        let first = values.first().copied().expect("some");
        assert!(first % i64::from(FULL) == 0 && values.len() as i32 == FULL, "{access}: {values:?}");
        assert!(values.iter().copied().eq(first..first + i64::from(FULL)), "{access}: {values:?}");
        if !came {
            assert!(access > 30, "{access}");
            break;
        }
    }
}
