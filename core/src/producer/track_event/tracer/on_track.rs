use super::Tracer;
use crate::producer::track_event::names::Names;
use crate::producer::track_event::{Clock, Event, Track};
use crate::producer::{Message, TraceWriter};
use crate::proto::fields::{track_event, track_event_type};

/// A tracer's events on one track.
pub struct OnTrack<'t, 'a, C, const NAMES: usize = 64, const TRACKS: usize = 8> {
    pub(super) tracer: &'t Tracer<'a, C, NAMES, TRACKS>,
    pub(super) track: Option<&'a Track<'a>>,
}

impl<C, const N: usize, const T: usize> Clone for OnTrack<'_, '_, C, N, T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<C, const N: usize, const T: usize> Copy for OnTrack<'_, '_, C, N, T> {}

/// Ends its slice when dropped.
#[must_use = "the slice ends when this is dropped"]
pub struct SliceGuard<'t, 'a, C: Clock, const NAMES: usize = 64, const TRACKS: usize = 8> {
    on: OnTrack<'t, 'a, C, NAMES, TRACKS>,
}

impl<C: Clock, const N: usize, const T: usize> Drop for SliceGuard<'_, '_, C, N, T> {
    fn drop(&mut self) {
        self.on.end();
    }
}

impl<'t, 'a, C: Clock, const N: usize, const T: usize> OnTrack<'t, 'a, C, N, T> {
    /// A slice as long as `body` runs, also when it panics.
    #[inline]
    pub fn slice<R>(&self, name: &'a str, body: impl FnOnce() -> R) -> R {
        let _slice = self.enter(name);
        body()
    }

    /// A slice that ends with the guard.
    #[inline]
    pub fn enter(&self, name: &'a str) -> SliceGuard<'t, 'a, C, N, T> {
        self.begin(name);
        SliceGuard { on: *self }
    }

    /// A slice with details, that ends with the guard.
    pub fn enter_with(
        &self,
        name: &'a str,
        details: impl for<'x, 'e, 'w> FnOnce(&'x mut Event<'e, 'w, 'a>) -> &'x mut Event<'e, 'w, 'a>,
    ) -> SliceGuard<'t, 'a, C, N, T> {
        // Before the details: when they panic, the slice has begun and must end.
        let guard = SliceGuard { on: *self };
        self.event(track_event_type::SLICE_BEGIN, name, details);
        guard
    }

    /// Begins a slice that [`OnTrack::end`] or [`OnTrack::end_with`] ends.
    #[inline]
    pub fn begin(&self, name: &'a str) {
        self.tracer.plain(self.track, track_event_type::SLICE_BEGIN as u32, Some(name));
    }

    /// Begins a slice of a category; as quick as one without, on the tracer's own track.
    #[inline]
    pub fn begin_in(&self, name: &'a str, category: &'a str) {
        let kind = track_event_type::SLICE_BEGIN;
        match self.track {
            None => self.tracer.with(|inner| inner.plain_in(kind as u32, name, category)),
            Some(_) => self.event(kind, name, |event| event.category(category)),
        }
    }

    /// Ends the slice begun last.
    #[inline]
    pub fn end(&self) {
        self.tracer.plain(self.track, track_event_type::SLICE_END as u32, None);
    }

    /// Ends the slice begun last, with details that were not known when it began.
    ///
    /// ```
    /// # use tracebuf::producer::track_event::*;
    /// # fn example(track: OnTrack<'_, '_, impl Clock>) {
    /// track.begin("request");
    /// let status = 200;
    /// track.end_with(|event| event.arg("status", status));
    /// # }
    /// ```
    pub fn end_with(
        &self,
        details: impl for<'x, 'e, 'w> FnOnce(&'x mut Event<'e, 'w, 'a>) -> &'x mut Event<'e, 'w, 'a>,
    ) {
        self.event(track_event_type::SLICE_END, "", details);
    }

    /// Something that has no duration.
    #[inline]
    pub fn instant(&self, name: &'a str) {
        self.tracer.plain(self.track, track_event_type::INSTANT as u32, Some(name));
    }

    /// Something that has no duration, with details.
    pub fn instant_with(
        &self,
        name: &'a str,
        details: impl for<'x, 'e, 'w> FnOnce(&'x mut Event<'e, 'w, 'a>) -> &'x mut Event<'e, 'w, 'a>,
    ) {
        self.event(track_event_type::INSTANT, name, details);
    }

    /// A counter's value from now on; the track is a counter.
    pub fn count(&self, value: i64) {
        self.tracer.count(self.track, value);
    }

    /// A counter's value from now on, as a fraction; the track is a counter.
    pub fn measure(&self, value: f64) {
        self.full(track_event_type::COUNTER, None, |writer, _| {
            Message::at(writer, 1).double(track_event::DOUBLE_COUNTER_VALUE, value);
        });
    }

    /// `name` is left out when empty: the details may have another.
    fn event(
        &self,
        kind: u64,
        name: &'a str,
        details: impl for<'x, 'e, 'w> FnOnce(&'x mut Event<'e, 'w, 'a>) -> &'x mut Event<'e, 'w, 'a>,
    ) {
        let name = Some(name).filter(|name| !name.is_empty());
        self.full(kind, name, |writer, names| {
            details(&mut Event { message: &mut Message::at(writer, 1), names });
        });
    }

    fn full(
        &self,
        kind: u64,
        name: Option<&'a str>,
        details: impl FnOnce(&mut TraceWriter<'a>, &mut Names<'a, N>),
    ) {
        self.tracer.with(|inner| {
            if let Some(delta) = inner.time()
                && let Some(open) = inner.open(delta, self.track, kind as u32, name)
            {
                details(&mut open.0.writer, &mut open.0.names);
            }
        });
    }
}
