//! Events with a time of their own: of a device, or of what happened earlier.

use super::{Inner, OnTrack, OpenEvent};
use crate::producer::MessageHandle;
use crate::producer::track_event::event::EventType;
use crate::producer::track_event::{Clock, Details, Event, Track};
use crate::proto::fields::{trace_packet, track_event};

/// Events on one track at a time that the program knows: [`OnTrack::at`] makes it.
///
/// ```
/// # use tracebuf::producer::track_event::*;
/// static GPU: Track<'static> = Track::custom("gpu");
/// # fn example<'a>(tracer: &Tracer<'a, impl Clock>, begin: u64, end: u64) {
/// // What the device has done, when it tells of it.
/// tracer.on(&GPU).at(begin).begin_with("draw", |event| event.arg("triangles", 1200));
/// tracer.on(&GPU).at(end).end();
/// # }
/// ```
pub struct OnTrackAt<'t, 'a, C, const NAMES: usize = 64, const TRACKS: usize = 8> {
    on: OnTrack<'t, 'a, C, NAMES, TRACKS>,
    time: u64,
}

impl<C, const N: usize, const T: usize> Clone for OnTrackAt<'_, '_, C, N, T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<C, const N: usize, const T: usize> Copy for OnTrackAt<'_, '_, C, N, T> {}

impl<'t, 'a, C: Clock, const N: usize, const T: usize> OnTrack<'t, 'a, C, N, T> {
    /// The same track at a time that the program knows, in nanoseconds of the clock that the tracer's events are in
    /// ([`TracerConfig::clock_id`](super::TracerConfig::clock_id), boot time unless it says otherwise). It may be
    /// earlier or later than other events' and need not be in order with those of other tracks.
    ///
    /// Readers bring all events in the order of their times, so within a track, a slice's end must not be earlier than
    /// its begin, nor a slice outlive the one that it lies in. Of what is on a track of a thread, which goes on by
    /// itself, only instants fit in. What happened before the oldest event of a ring may be in it, and a time in the
    /// future lengthens the trace.
    ///
    /// Cost: 10 bytes more than others, and no reading of the clock.
    #[must_use]
    pub const fn at(&self, time: u64) -> OnTrackAt<'t, 'a, C, N, T> {
        OnTrackAt { on: *self, time }
    }
}

impl<'a, C: Clock, const N: usize, const T: usize> OnTrackAt<'_, 'a, C, N, T> {
    /// Begins a slice that [`end`](Self::end) ends.
    pub fn begin(&self, name: &'a str) {
        self.begin_with(name, |event| event);
    }

    /// Begins a slice with details.
    pub fn begin_with(&self, name: &'a str, details: impl Details<'a>) {
        self.event(EventType::SliceBegin, name, details);
    }

    /// Ends the slice begun last before that time.
    pub fn end(&self) {
        self.end_with(|event| event);
    }

    /// Ends it with details that were not known when it began.
    pub fn end_with(&self, details: impl Details<'a>) {
        self.event(EventType::SliceEnd, "", details);
    }

    /// Something that has no duration.
    pub fn instant(&self, name: &'a str) {
        self.instant_with(name, |event| event);
    }

    /// Something that has no duration, with details.
    pub fn instant_with(&self, name: &'a str, details: impl Details<'a>) {
        self.event(EventType::Instant, name, details);
    }

    /// A counter's value from that time on; the track is a counter.
    pub fn count(&self, value: i64) {
        self.value(|message| message.varint(track_event::COUNTER_VALUE, value as u64));
    }

    /// A counter's value from that time on, as a fraction; the track is a counter.
    pub fn measure(&self, value: f64) {
        self.value(|message| message.double(track_event::DOUBLE_COUNTER_VALUE, value));
    }

    fn value(&self, put: impl FnOnce(&mut MessageHandle<'_, 'a>)) {
        self.on.tracer.write(|inner| {
            if let Some(open) = inner.open_at(self.time, self.on.track, EventType::Counter, None) {
                put(&mut MessageHandle::lent(&mut open.0.writer, 1));
            }
        });
    }

    fn event(&self, kind: EventType, name: &'a str, details: impl Details<'a>) {
        let name = Some(name).filter(|name| !name.is_empty());
        let is_end = kind == EventType::SliceEnd;
        self.on.tracer.write(|inner| {
            if let Some(open) = inner.open_at(self.time, self.on.track, kind, name) {
                let Inner { writer, names, .. } = &mut *open.0;
                details(&mut Event { message: &mut MessageHandle::lent(writer, 1), names, is_end });
            }
        });
    }
}

impl<'a, C: Clock, const N: usize, const T: usize> Inner<'a, C, N, T> {
    /// Begins an event of that time. The sequence's own times count from one to the next, so this one has another clock,
    /// and those after it know nothing of it.
    fn open_at(
        &mut self,
        time: u64,
        track: Option<&Track<'_>>,
        kind: EventType,
        name: Option<&'a str>,
    ) -> Option<OpenEvent<'_, 'a, C, N, T>> {
        // As of now: what is the case with its track and its names must hold in this state.
        if !self.has_state() && !self.begin_state() {
            return None;
        }
        self.told_beside_state(track)?;
        let clock = u64::from(self.clock_id);
        let writer = &mut self.writer;
        writer.begin();
        writer.number(trace_packet::TIMESTAMP, time);
        writer.number(trace_packet::TIMESTAMP_CLOCK_ID, clock);
        Some(self.open_behind_time(track, kind, name))
    }

    /// Whether the state that was written last holds for another event.
    fn has_state(&self) -> bool {
        let (generation, chunks) = self.writer.producer().progress();
        let is_young = match self.lifetime {
            0 => self.is_beside_state(),
            lifetime => chunks.wrapping_sub(self.chunks) < lifetime,
        };
        is_young && !self.writer.is_interrupted() && self.generation == generation
    }

    fn begin_state(&mut self) -> bool {
        let ticks = self.clock.now();
        self.start_state(ticks)
    }
}
