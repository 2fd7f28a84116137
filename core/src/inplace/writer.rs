//! A writer: events of one priority, core or task, each published by one store.

use core::cell::Cell;

use super::claim::{claim, complete};
use super::layout::{FRONT, Front, LINKED, STEPS_BITS, detail, detail_word, head, header, kind};
use super::linked;
use super::names::{Name, number_of};
use super::order::{PUBLISH, after_reading, before_publishing};
use super::region::Memory;
use super::sum;
use super::time::{Moment, Timer};
use crate::atomics::Ordering;

/// Records events of one priority, core or task. Made by [`Recorder::writer`](super::Recorder::writer).
///
/// It may move to where it is used, but is not shared: two that interrupt each other would garble each other's events.
/// Nothing it does waits, masks interrupts (but for the atomics of cores without compare-and-swap) or panics. An event
/// that finds no chunk is counted, and the next one says so.
pub struct Writer<'a, M: Memory, T: Timer> {
    region: &'a M,
    timer: T,
    chunk: Cell<&'a M::Chunk>,
    /// The timer, and its half periods, at the last event.
    last: Cell<u32>,
    halves: Cell<u32>,
    front: Cell<Front>,
    lost: Cell<u16>,
    /// The chunk's word for the next event. Its size: the writer has no chunk.
    at: Cell<u8>,
    number: u8,
}

/// A track that [`Recorder::track`](super::Recorder::track) returned.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct TrackId(pub(super) u32);

impl<'a, M: Memory, T: Timer> Writer<'a, M, T> {
    pub(super) fn new(region: &'a M, timer: T, number: u32, front: Front) -> Self {
        Self {
            region,
            timer,
            chunk: Cell::new(region.chunk(0)),
            last: Cell::new(0),
            halves: Cell::new(0),
            front: Cell::new(front),
            lost: Cell::new(0),
            at: Cell::new(M::WORDS as u8),
            number: number as u8,
        }
    }

    pub(super) fn region(&self) -> &'a M {
        self.region
    }

    /// The beginning of a slice. The name is copied once, and known by its address after that.
    #[inline]
    pub fn begin(&self, name: &'static str) {
        self.event(head(kind::BEGIN, 0), name);
    }

    /// The end of the slice that was begun last.
    #[inline]
    pub fn end(&self) {
        self.event(head(kind::END, 0), "");
    }

    /// A slice that ends with the guard.
    #[inline]
    pub fn enter(&self, name: &'static str) -> SliceGuard<'_, 'a, M, T> {
        self.begin(name);
        SliceGuard { writer: self }
    }

    /// An instant.
    #[inline]
    pub fn instant(&self, name: &'static str) {
        self.event(head(kind::INSTANT, 0), name);
    }

    /// A counter's value.
    #[inline]
    pub fn count(&self, counter: &'static str, value: i32) {
        self.value(head(kind::COUNT, 0), counter, [value as u32]);
    }

    /// A counter's value of 64 bits.
    #[inline]
    pub fn count_i64(&self, counter: &'static str, value: i64) {
        self.value(head(kind::COUNT_64, 0), counter, [value as u32, (value >> 32) as u32]);
    }

    /// A counter's value with a fraction.
    #[inline]
    pub fn measure(&self, counter: &'static str, value: f32) {
        self.value(head(kind::MEASURE, 0), counter, [value.to_bits()]);
    }

    /// The task that runs from here on, on the track of that name; `None` when none does.
    #[inline]
    pub fn switch_to(&self, task: Option<TrackId>) {
        self.event(head(kind::SWITCH, task.map_or(0, |task| task.0)), "");
    }

    #[inline(always)]
    pub(super) fn head(&self, kind: u32, name: impl Name) -> u32 {
        head(kind, self.number_of(name))
    }

    #[inline(always)]
    pub(super) fn number_of<N: Name>(&self, name: N) -> u32 {
        let Some(number) = name.number() else { return self.look_up(name) };
        linked::of_build::<M, N>(self.region);
        number & LINKED
    }

    #[inline(never)]
    fn look_up(&self, name: impl Name) -> u32 {
        number_of(self.region, name)
    }

    /// Writes an event of one word. An empty name is none.
    ///
    /// The name is looked up here, because calls are a large part of the time that an event takes.
    #[inline(never)]
    pub(super) fn event(&self, head: u32, name: &'static str) {
        let name = if name.is_empty() { 0 } else { number_of(self.region, name) };
        self.event_here(head, name);
    }

    /// Writes an event of one word, with a number of the linker's in its head. With nothing to look up, what all share is
    /// as fast.
    #[inline(never)]
    pub(super) fn numbered<N: Name>(&self, head: u32) {
        // Each branch ends in a call, so that nothing need be put aside.
        if linked::is_of(self.region, N::build()) {
            self.event(head, "");
        } else {
            self.first_numbered::<N>(head);
        }
    }

    #[cold]
    #[inline(never)]
    fn first_numbered<N: Name>(&self, head: u32) {
        linked::of_build::<M, N>(self.region);
        self.event(head, "");
    }

    /// The same where it is called, with the name's number.
    #[inline(always)]
    pub(super) fn event_here(&self, head: u32, name: u32) {
        let Some((at, steps)) = self.place(1) else { return };
        let chunk = self.chunk.get();
        store::<M>(chunk, at + 1, 0);
        self.publish(chunk, at, 1, head | name << 18 | steps);
    }

    /// Writes an event with a value of so many words.
    #[inline(never)]
    fn value<const WORDS: usize>(&self, head: u32, name: &'static str, value: [u32; WORDS]) {
        self.value_here(head, number_of(self.region, name), value);
    }

    /// The same with the name's number in the head.
    #[inline(never)]
    pub(super) fn numbered_value<N: Name, const WORDS: usize>(&self, head: u32, value: [u32; WORDS]) {
        linked::of_build::<M, N>(self.region);
        self.value_here(head, 0, value);
    }

    #[inline(always)]
    pub(super) fn value_here<const WORDS: usize>(&self, head: u32, name: u32, value: [u32; WORDS]) {
        let Some((at, steps)) = self.place(1 + WORDS as u32) else { return };
        let chunk = self.chunk.get();
        store::<M>(chunk, at + 1, value[0]);
        if let Some(second) = value.get(1) {
            store::<M>(chunk, at + 2, *second);
        }
        store::<M>(chunk, at + 1 + WORDS as u32, 0);
        self.publish(chunk, at, 1 + WORDS as u32, head | name << 18 | steps);
    }

    /// Writes details, the first of which is at hand, and the event that they belong to: all of it or nothing.
    #[inline(never)]
    pub(super) fn detailed(&self, details: &[u32], head: u32) {
        let len = details.len() as u32;
        let Some((at, steps)) = self.place(1 + len) else { return };
        let (chunk, event) = (self.chunk.get(), head | steps);
        details.iter().zip(at..).skip(1).for_each(|(word, at)| store::<M>(chunk, at, *word));
        if len > 0 {
            store::<M>(chunk, at + len, event);
        }
        store::<M>(chunk, at + len + 1, 0);
        self.publish(chunk, at, len + 1, details.first().copied().unwrap_or(event));
    }

    /// Where an event of `len` words goes, with room behind it for a zero, and the steps since the one before. `None`:
    /// there is no place, which is counted.
    #[inline(always)]
    fn place(&self, len: u32) -> Option<(u32, u32)> {
        loop {
            let low = self.timer.ticks();
            after_reading();
            // After the timer: if it is what it was at the last event, nobody had counted a half period by then.
            let halves = self.region.header(header::HALVES).load(Ordering::Relaxed);
            let (last, at) = (self.last.get(), u32::from(self.at.get()));
            let steps = low.wrapping_sub(last);
            let is_far = halves ^ self.halves.get() | (low ^ last) >> (T::BITS - 1) | steps >> STEPS_BITS;
            if is_far == 0 && at + len + sum::WORDS < M::WORDS {
                self.last.set(low);
                return Some((at, steps));
            }
            if !self.begin_anew(len) {
                return None;
            }
        }
    }

    /// A time of its own, or a new chunk, for which there was no room. False if there is none.
    #[cold]
    #[inline(never)]
    fn begin_anew(&self, len: u32) -> bool {
        let moment = Moment::settle(self.region, self.timer);
        let time = moment.ticks::<T>();
        self.last.set(moment.low);
        self.halves.set(moment.halves);
        let (at, chunk) = (u32::from(self.at.get()), self.chunk.get());
        if at + 3 + len + sum::WORDS >= M::WORDS {
            return self.new_chunk(time);
        }
        store::<M>(chunk, at + 1, time as u32);
        store::<M>(chunk, at + 2, (time >> 32) as u32);
        store::<M>(chunk, at + 3, 0);
        self.publish(chunk, at, 3, detail_word(detail::TIME, 0));
        true
    }

    /// Completes the chunk and claims another one.
    fn new_chunk(&self, time: u64) -> bool {
        self.leave();
        let (region, front) = (self.region, self.front.get());
        let Some(chunk) = claim(region, u32::from(self.number), time, front) else {
            region.header(header::DROPPED).fetch_add(1, Ordering::Relaxed);
            self.lost.set(self.lost.get().saturating_add(1));
            return false;
        };
        self.front.set(front.next());
        self.chunk.set(chunk);
        self.at.set(FRONT as u8);
        let lost = self.lost.take();
        if lost > 0 {
            store::<M>(chunk, FRONT + 1, 0);
            self.publish(chunk, FRONT, 1, detail_word(detail::LOST, u32::from(lost)));
        }
        true
    }

    /// Completes the chunk, if there is one.
    fn leave(&self) {
        let used = u32::from(self.at.replace(M::WORDS as u8));
        if used != M::WORDS {
            complete(self.region, self.chunk.get(), used);
        }
    }

    /// Makes what begins at `at` part of the chunk, by storing its first word last, after the zero behind.
    #[inline(always)]
    fn publish(&self, chunk: &M::Chunk, at: u32, len: u32, first: u32) {
        before_publishing();
        M::word(chunk, at).store(first, PUBLISH);
        self.at.set((at + len) as u8);
    }
}

#[inline(always)]
fn store<M: Memory>(chunk: &M::Chunk, at: u32, word: u32) {
    M::word(chunk, at).store(word, Ordering::Relaxed);
}

impl<M: Memory, T: Timer> Drop for Writer<'_, M, T> {
    /// Completes its chunk, which would keep its place for ever.
    fn drop(&mut self) {
        self.leave();
    }
}

/// Ends a slice when it is dropped.
#[must_use = "the slice ends when this is dropped"]
pub struct SliceGuard<'w, 'a, M: Memory, T: Timer> {
    pub(super) writer: &'w Writer<'a, M, T>,
}

impl<M: Memory, T: Timer> Drop for SliceGuard<'_, '_, M, T> {
    #[inline]
    fn drop(&mut self) {
        self.writer.end();
    }
}
