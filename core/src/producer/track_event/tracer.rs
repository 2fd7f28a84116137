//! `Tracer`: the events of one thread, and the state to read them by.

use super::clock::{Clock, Scale};
use super::event::{Event, EventType};
use super::names::{NameKind, Names};
use super::track::{Track, TrackId};
use crate::SMALL;
use crate::producer::{MessageHandle, TraceWriter};
use crate::proto::fields::{sequence_flags, trace_packet, track_event};
use core::cell::{Cell, RefCell};
use heapless::Vec;

mod at;
mod config;
mod events;
mod log;
mod on_track;
mod small_event;
mod state;

pub use at::OnTrackAt;
pub use config::{TracerConfig, TracerStats};
pub use log::{LogMessage, LogPriority};
pub use on_track::{OnTrack, TracerSliceGuard};
use small_event::SmallEvent;

/// Writes the events of one thread, or one interrupt priority. It is used through shared references because of nested
/// calls and guards.
///
/// `NAMES`, up to 127, bounds the names known at a time: any more are written out each time. `TRACKS` bounds the tracks
/// known to be described; describing more than that costs their descriptions again.
///
/// ```
/// # use tracebuf::producer::{TraceWriter, track_event::*};
/// # fn example<'a>(writer: TraceWriter<'a>, clock: impl Clock, main: &'a Track<'a>, queue: &Track<'_>) {
/// let tracer = Tracer::new(writer, clock, main, TracerConfig::new(1_000_000_000));
/// tracer.track().slice("decode", || tracer.track().instant("table full"));
/// tracer.on(queue).count(3);
/// println!("{} packets", tracer.stats().writer.packets);
/// # }
/// ```
///
/// Cost: on x86-64, with a clock that costs nothing and within a chunk, a slice's begin or end is 11 ns, on a busy
/// machine up to 31 (`--bench budgets`).
#[repr(C)]
pub struct Tracer<'a, C, const NAMES: usize = 64, const TRACKS: usize = 8> {
    reentered: Cell<usize>,
    inner: RefCell<Inner<'a, C, NAMES, TRACKS>>,
    /// Ends of guards' slices on the tracer's own track that are lost, and not made up for. Last: only guards look at
    /// it.
    owed_ends: Cell<usize>,
    /// The task that runs, by [`Events::switch`](crate::Events::switch).
    running: Cell<Option<&'a Track<'a>>>,
}

// In this order for short instructions, like the writer's.
#[repr(C)]
struct Inner<'a, C, const NAMES: usize, const TRACKS: usize> {
    /// What the state depends on, as it was when the state was written.
    generation: u32,
    /// Chunks that the producer has completed, or the writer's chunk.
    chunks: u32,
    /// Chunks of the whole producer that a state may last; 0: to the end of the writer's chunk.
    lifetime: u32,
    scale: Scale,
    states: u32,
    skipped: usize,
    track: &'a Track<'a>,
    unit_ns: u32,
    clock_id: u32,
    writer: TraceWriter<'a>,
    names: Names<'a, NAMES>,
    described: Vec<TrackId, TRACKS>,
    clock: C,
}

impl<'a, C: Clock> Tracer<'a, C> {
    /// A tracer of what happens on `track`, through `writer`, with room for 64 names and 8 tracks.
    pub fn new(writer: TraceWriter<'a>, clock: C, track: &'a Track<'a>, config: TracerConfig) -> Self {
        Self::with_tables(writer, clock, track, config)
    }
}

impl<'a, C: Clock, const N: usize, const T: usize> Tracer<'a, C, N, T> {
    /// Like [`Tracer::new`], with room for `N` names and `T` tracks, as the tracer's type says.
    pub fn with_tables(
        writer: TraceWriter<'a>,
        clock: C,
        track: &'a Track<'a>,
        config: TracerConfig,
    ) -> Self {
        let lifetime = config.lifetime(writer.producer().chunk_size());
        // Of no state: the first event starts one, whatever the writer has written before.
        let generation = writer.producer().progress().0.wrapping_sub(1);
        Tracer {
            inner: RefCell::new(Inner {
                writer,
                clock,
                scale: Scale::new(config.factor()),
                names: Names::new(),
                described: Vec::new(),
                track,
                unit_ns: config.unit_ns,
                clock_id: config.clock_id,
                lifetime,
                generation,
                chunks: 0,
                states: 0,
                skipped: 0,
            }),
            reentered: Cell::new(0),
            owed_ends: Cell::new(0),
            running: Cell::new(None),
        }
    }

    /// The tracer's own track.
    pub fn track(&self) -> OnTrack<'_, 'a, C, N, T> {
        OnTrack { tracer: self, track: None }
    }

    /// Another track. Its description is written with its first event, and in each new state again.
    pub fn on<'t>(&'t self, track: &'t Track<'t>) -> OnTrack<'t, 'a, C, N, T> {
        OnTrack { tracer: self, track: Some(track) }
    }

    /// Flushes as [the writer](TraceWriter::flush) does. `None`, with nothing asked, inside an event's details.
    pub fn flush(&self) -> Option<u32> {
        Some(self.inner.try_borrow_mut().ok()?.writer.flush())
    }

    /// Counts of packets and events; zeros inside an event's details.
    pub fn stats(&self) -> TracerStats {
        self.inner.try_borrow().map_or_else(
            |_| TracerStats::default(),
            |inner| {
                let skipped = inner.skipped as u64 + self.reentered() as u64;
                TracerStats { writer: inner.writer.stats(), states: inner.states, skipped }
            },
        )
    }

    /// How many of [`TracerStats::skipped`] came inside the writing of another event, modulo 2³² on targets of 32 bits.
    #[inline]
    pub fn reentered(&self) -> usize {
        self.reentered.get()
    }

    /// Like [`Inner::plain`]. False: it is lost.
    #[cfg_attr(not(tracebuf_small), inline)]
    #[cfg_attr(tracebuf_small, inline(never))]
    fn plain(&self, track: Option<&Track<'_>>, kind: EventType, name: Option<&'a str>) -> bool {
        self.write(|inner| inner.plain(track, kind, name))
    }

    /// A counter's value.
    #[inline(never)]
    fn count(&self, track: Option<&Track<'_>>, value: i64) {
        self.write(|inner| inner.count(track, value));
    }

    /// Writes an event. False: it is lost, for want of shared memory or because it came inside another one's details.
    #[inline(always)]
    fn write(&self, f: impl FnOnce(&mut Inner<'a, C, N, T>)) -> bool {
        // Borrowed only while an event is written, so only formatting that itself traces finds it so.
        match self.inner.try_borrow_mut() {
            Ok(mut inner) => {
                inner.writer.enter();
                let inside = Inside(&mut inner);
                f(inside.0);
                // Dropped only if that panics.
                core::mem::ManuallyDrop::new(inside).0.writer.leave();
                !inner.writer.is_interrupted()
            }
            Err(_) => {
                self.reentered.set(self.reentered.get().wrapping_add(1));
                false
            }
        }
    }
}

impl<'a, C: Clock, const N: usize, const T: usize> Inner<'a, C, N, T> {
    /// An event without details.
    #[inline]
    fn plain(&mut self, track: Option<&Track<'_>>, kind: EventType, name: Option<&'a str>) {
        let Some(delta) = self.time() else { return };
        let iid = name.map_or(Some(0), |name| self.names.find(NameKind::EVENT, name));
        match (iid, SmallEvent::new(kind, delta)) {
            (Some(iid), Some(event)) if track.is_none() && event.write(iid, &mut self.writer) => {}
            // Elsewhere it would be more code than time is worth.
            #[cfg(not(tracebuf_small))]
            (Some(iid), Some(event)) if track.is_some_and(|track| self.writes_on(&event, track, iid)) => {}
            _ => drop(self.open(delta, track, kind, name)),
        }
    }

    /// Writes an event about which all else is known, or counts it as lost. False: neither.
    #[cfg(not(tracebuf_small))]
    #[inline]
    fn writes_on(&mut self, event: &SmallEvent, track: &Track<'_>, iid: u32) -> bool {
        if !self.knows(track) {
            // Where each chunk has its own state, the description may go on into the next one.
            if self.lifetime == 0 {
                return false;
            }
            if !self.is_told(Some(track)) {
                return true;
            }
        }
        event.write_on(track, iid, &mut self.writer)
    }

    /// Like [`plain`](Self::plain), with a name and a category, which nearly always are known.
    #[inline]
    fn plain_in(&mut self, kind: EventType, name: &'a str, category: &'a str) {
        let Some(delta) = self.time() else { return };
        if let (Some(name), Some(category)) =
            (self.names.find(NameKind::EVENT, name), self.names.find(NameKind::CATEGORY, category))
            && let Some(event) = SmallEvent::new(kind, delta)
            && event.write_in(name, category, &mut self.writer)
        {
            return;
        }
        let Some(open) = self.open(delta, None, kind, Some(name)) else { return };
        let (message, names) = (&mut MessageHandle::lent(&mut open.0.writer, 1), &mut open.0.names);
        Event { message, names, is_end: false }.category(category);
    }

    #[inline]
    fn count(&mut self, track: Option<&Track<'_>>, value: i64) {
        let Some(delta) = self.time() else { return };
        let kind = EventType::Counter;
        if let Some(track) = track
            && self.knows(track)
            && let Some(event) = SmallEvent::new(kind, delta)
            && event.write_count(track, value, &mut self.writer)
        {
            return;
        }
        let Some(open) = self.open(delta, track, kind, None) else { return };
        open.0.writer.number(track_event::COUNTER_VALUE, value as u64);
    }

    /// Begins an event of any kind, which ends when the result is dropped. `None`: its track could not be described.
    #[inline(never)]
    fn open(
        &mut self,
        mut delta: u32,
        track: Option<&Track<'_>>,
        kind: EventType,
        name: Option<&'a str>,
    ) -> Option<OpenEvent<'_, 'a, C, N, T>> {
        // On microcontrollers the call is less code than another look.
        let is_known = !SMALL && track.is_none_or(|track| self.knows(track));
        if !is_known && self.told_beside_state(track)? {
            delta = 0;
        }
        #[cfg(not(tracebuf_small))]
        if self.opens_at_once(delta, track, kind, name) {
            return Some(OpenEvent(self));
        }
        let writer = &mut self.writer;
        writer.begin();
        writer.number(trace_packet::TIMESTAMP, delta.into());
        Some(self.open_behind_time(track, kind, name))
    }

    /// Goes on with an event's packet, of which the time is written.
    #[inline(always)]
    fn open_behind_time(
        &mut self,
        track: Option<&Track<'_>>,
        kind: EventType,
        name: Option<&'a str>,
    ) -> OpenEvent<'_, 'a, C, N, T> {
        let writer = &mut self.writer;
        writer.number(trace_packet::SEQUENCE_FLAGS, sequence_flags::NEEDS_INCREMENTAL_STATE);
        writer.open(trace_packet::TRACK_EVENT);
        writer.number(track_event::TYPE, kind as u64);
        if let Some(track) = track {
            track.write_id(track_event::TRACK_UUID, writer);
        }
        if let Some(name) = name {
            match self.names.intern(NameKind::EVENT, name) {
                Some(iid) => writer.number(track_event::NAME_IID, u64::from(iid)),
                None => writer.bytes(track_event::NAME, name.as_bytes()),
            }
        }
        OpenEvent(self)
    }

    /// Describes a track, in the chunk of the state where each has its own. True: the description went on into the next
    /// chunk, so that one has a state too, just begun. `None`: it could not be described.
    #[inline]
    fn told_beside_state(&mut self, track: Option<&Track<'_>>) -> Option<bool> {
        let next_packet = self.writer.packets();
        if !self.is_told(track) {
            return None;
        }
        let has_moved = self.lifetime == 0 && self.writer.packets() != next_packet && !self.is_beside_state();
        if has_moved && !(self.start_state(self.scale.last()) && self.is_told(track)) {
            return None;
        }
        Some(has_moved)
    }

    /// Begins an event whose track is described, if its name is known and it fits the chunk.
    #[cfg(not(tracebuf_small))]
    #[inline]
    fn opens_at_once(
        &mut self,
        delta: u32,
        track: Option<&Track<'_>>,
        kind: EventType,
        name: Option<&'a str>,
    ) -> bool {
        let iid = name.map_or(Some(0), |name| self.names.find(NameKind::EVENT, name));
        match (iid, SmallEvent::new(kind, delta), track) {
            (Some(iid), Some(event), None) => event.open(iid, &mut self.writer),
            (Some(iid), Some(event), Some(track)) => event.open_on(track, iid, &mut self.writer),
            _ => false,
        }
    }
}

/// Leaves the chunk when an event's details panic.
struct Inside<'i, 'a, C, const N: usize, const T: usize>(&'i mut Inner<'a, C, N, T>);

impl<C, const N: usize, const T: usize> Drop for Inside<'_, '_, C, N, T> {
    fn drop(&mut self) {
        self.0.writer.finish();
        self.0.writer.leave();
    }
}

/// An event being written. It also ends when its details panic: the names that they have interned are written.
struct OpenEvent<'i, 'a, C, const N: usize, const T: usize>(&'i mut Inner<'a, C, N, T>);

impl<C, const N: usize, const T: usize> Drop for OpenEvent<'_, '_, C, N, T> {
    #[cfg_attr(tracebuf_small, inline(never))]
    fn drop(&mut self) {
        #[cfg(not(tracebuf_small))]
        if self.0.names.take_used_up() {
            // The state is as old as it may become: the next event begins another one.
            self.0.chunks = self.0.chunks.wrapping_sub(self.0.lifetime);
        }
        #[cfg(not(tracebuf_small))]
        if !self.0.names.has_unwritten() && self.0.writer.end_at_once() {
            return;
        }
        self.0.writer.close_levels(0);
        // Decoders read a packet's names before its event, wherever they are.
        self.0.names.write(&mut self.0.writer);
        self.0.writer.finish();
    }
}
