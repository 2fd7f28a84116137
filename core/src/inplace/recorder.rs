//! The recorder: a region that was laid out, or found, and what its writers share.

use super::claim::complete;
use super::layout::{Front, SUMS, State, VERSION, WRITERS_MAX, check, header};
use super::names;
use super::region::Memory;
use super::sum;
use super::time::{Moment, Timer};
use super::writer::{TrackId, Writer};
use crate::atomics::Ordering;

/// A region in which writers record: a handle, to be copied to whoever makes writers.
///
/// See [the module](super) for an example.
pub struct Recorder<'a, M, T> {
    pub(super) region: &'a M,
    pub(super) timer: T,
}

impl<M, T: Copy> Clone for Recorder<'_, M, T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<M, T: Copy> Copy for Recorder<'_, M, T> {}

/// What was in a region before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Found {
    /// Nothing that could be used: power was off, or another program was here.
    Nothing,
    /// What earlier starts recorded, so many with this one. It stays until it is overwritten.
    Start(u32),
}

fn geometry<M: Memory>() -> u32 {
    VERSION
        | M::WORDS.trailing_zeros() << 8
        | M::CHUNKS.trailing_zeros() << 16
        | M::NAMES.trailing_zeros() << 24
}

const fn text<M: Memory>() -> u32 {
    M::TEXT as u32 | if sum::HAS { SUMS } else { 0 }
}

impl<'a, M: Memory, T: Timer> Recorder<'a, M, T> {
    /// Lays a region out, whatever is in it. `frequency` is the timer's, in ticks per second.
    ///
    /// No writer of the region may be in use, of this call or of an earlier one: its events would be garbled, or lost.
    /// Cost: two stores for each chunk and name.
    pub fn new(region: &'a M, timer: T, frequency: u32) -> Self {
        // Not valid until all of it is there.
        let set = |index, value| region.header(index).store(value, Ordering::Relaxed);
        (0..super::layout::HEADER).for_each(|index| set(index, 0));
        for place in 0..M::NAMES {
            region.name(place).iter().for_each(|word| word.store(0, Ordering::Relaxed));
        }
        for place in 0..M::CHUNKS {
            // Without a front, a free chunk is one that never was anything else.
            M::word(region.chunk(place), 0).store(0, Ordering::Relaxed);
            M::word(region.chunk(place), 3).store(0, Ordering::Relaxed);
        }
        set(header::MAGIC, super::layout::MAGIC);
        set(header::GEOMETRY, geometry::<M>());
        set(header::TEXT, text::<M>());
        set(header::FREQUENCY, frequency);
        set(header::STARTS, 1);
        let recorder = Self { region, timer };
        recorder.set_halves();
        set(header::CHECK, check(geometry::<M>(), text::<M>(), frequency));
        recorder
    }

    /// Finds what an earlier start recorded and goes on behind it, or lays the region out.
    ///
    /// Everything that was finished before the reset is kept, at whatever instruction that came. A region of other
    /// sizes, of another frequency, or of a build with another feature `inplace-crc`, is laid out anew.
    ///
    /// Cost: some 20 instructions for each chunk and name.
    pub fn attach_or_new(region: &'a M, timer: T, frequency: u32) -> (Self, Found) {
        let get = |index| region.header(index).load(Ordering::Relaxed);
        let wanted = check(geometry::<M>(), text::<M>(), frequency);
        let is_same = get(header::MAGIC) == super::layout::MAGIC
            && get(header::CHECK) == wanted
            && get(header::GEOMETRY) == geometry::<M>()
            && get(header::TEXT) == text::<M>()
            && get(header::FREQUENCY) == frequency;
        if !is_same {
            return (Self::new(region, timer, frequency), Found::Nothing);
        }
        let starts = get(header::STARTS).wrapping_add(1);
        for place in 0..M::CHUNKS {
            let chunk = region.chunk(place);
            let [word, front] = [0, 3].map(|index| M::word(chunk, index));
            let is = State(word.load(Ordering::Relaxed)).is();
            // Its front may be half written, and its events may be old ones: without a front it holds nothing. And what
            // 32 starts ago recorded would be taken for this one's.
            if is == State::CLAIMED || Front(front.load(Ordering::Relaxed)).start() == starts & 31 {
                front.store(0, Ordering::Relaxed);
                word.store(0, Ordering::Relaxed);
            } else if is == State::OPEN {
                complete(region, chunk, sum::used::<M>(chunk));
            }
        }
        names::doubt_all(region);
        region.header(header::WRITERS).store(0, Ordering::Relaxed);
        let recorder = Self { region, timer };
        recorder.set_halves();
        region.header(header::STARTS).store(starts, Ordering::Relaxed);
        (recorder, Found::Start(starts))
    }

    /// A region that this start has laid out, or found, already: for whoever has no handle, such as an interrupt's
    /// handler. `None` if nothing is there. What an earlier start left looks the same:
    /// [`attach_or_new`](Self::attach_or_new) comes first.
    pub fn existing(region: &'a M, timer: T) -> Option<Self> {
        let get = |index| region.header(index).load(Ordering::Relaxed);
        let (frequency, wanted) = (get(header::FREQUENCY), get(header::CHECK));
        let is_there = get(header::MAGIC) == super::layout::MAGIC
            && get(header::GEOMETRY) == geometry::<M>()
            && wanted == check(geometry::<M>(), text::<M>(), frequency);
        is_there.then_some(Self { region, timer })
    }

    /// The first half period, or the second.
    fn set_halves(&self) {
        let half = self.timer.ticks() >> (T::BITS - 1) & 1;
        self.region.header(header::HALVES).store(half, Ordering::Relaxed);
    }

    /// A writer for one priority, core or task, with a track of this name.
    ///
    /// It takes 24 bytes beside the timer's. Its first event takes a chunk of the ring. A start may have
    /// [`WRITERS_MAX`](super::WRITERS_MAX); what those beyond record is counted as dropped.
    pub fn writer(&self, track: &str) -> Writer<'a, M, T> {
        let number = self.region.header(header::WRITERS).fetch_add(1, Ordering::Relaxed).min(WRITERS_MAX);
        let start = self.region.header(header::STARTS).load(Ordering::Relaxed);
        // Of writers with the same name, each has its own track.
        let name = names::number_of_track(self.region, track, 0x7F00_0000 | number);
        Writer::new(self.region, self.timer, number, Front::new(name, start))
    }

    /// A track for events of other things than the writer's own: a task, a device. Those with the same name and `number`
    /// are one; a task that is created anew under another name has another.
    ///
    /// The name is copied. Cost: some 30 instructions for each place of the table that is looked at.
    pub fn track(&self, name: &str, number: u32) -> TrackId {
        TrackId(names::number_of_track(self.region, name, number & 0xFF_FFFF))
    }

    /// Keeps the time: it must be called, or an event recorded, in each ⅜ of the timer's period at least.
    pub fn keep_time(&self) {
        Moment::settle(self.region, self.timer);
    }

    /// Ticks of the timer since its first half period began, in 64 bits.
    pub fn now(&self) -> u64 {
        Moment::settle(self.region, self.timer).ticks::<T>()
    }

    /// What is lost: events that found no place since the region was laid out.
    pub fn dropped(&self) -> u32 {
        self.region.header(header::DROPPED).load(Ordering::Relaxed)
    }
}
