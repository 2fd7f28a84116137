//! A tracer on one track: slices, instants and counts there.

use super::Tracer;
use crate::producer::track_event::event::EventType;
use crate::producer::track_event::names::Names;
use crate::producer::track_event::{Clock, Details, Event, Track};
use crate::producer::{MessageHandle, TraceWriter};
use crate::proto::fields::track_event;

/// A tracer's events on one track.
///
/// A slice is a call of [`slice`](Self::slice), a guard by [`enter`](Self::enter), or a pair of [`begin`](Self::begin)
/// and [`end`](Self::end). Each of the three, and an [`instant`](Self::instant), may have a category (`_in`, on the
/// tracer's own track as quick as without), or any details (`_with`). With details, an empty name is left out, so that
/// [`Event::name`] can give one that does not live as long as the tracer.
///
/// ```
/// # use tracebuf::producer::track_event::*;
/// // Of a tracer of any clock and size; `OnTrack<'_, '_, impl Clock>` is that of one of the default sizes.
/// fn receive<const N: usize, const T: usize>(track: OnTrack<'_, '_, impl Clock, N, T>, packet: &[u8]) {
///     let _slice = track.enter_in("receive", "net");
///     track.slice_with("check", |event| event.arg("bytes", packet.len()), || { /* … */ });
///     track.instant("acknowledged");
/// }
/// ```
pub struct OnTrack<'t, 'a, C, const NAMES: usize = 64, const TRACKS: usize = 8> {
    pub(super) tracer: &'t Tracer<'a, C, NAMES, TRACKS>,
    pub(super) track: Option<&'t Track<'t>>,
}

impl<C, const N: usize, const T: usize> Clone for OnTrack<'_, '_, C, N, T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<C, const N: usize, const T: usize> Copy for OnTrack<'_, '_, C, N, T> {}

/// Ends a slice when dropped: the one begun last on its track, as [`OnTrack::end`] does. So drop guards in the reverse
/// order of their making, and hold none across an `.await`, where another task may go on with the track.
///
/// ```
/// # use tracebuf::producer::track_event::*;
/// fn load<const N: usize, const T: usize>(track: OnTrack<'_, '_, impl Clock, N, T>) -> std::io::Result<usize> {
///     let _slice = track.enter("load");
///     let text = std::fs::read_to_string("settings")?; // if this fails, the slice ends here
///     Ok(track.slice("parse", || text.lines().count()))
/// }
/// ```
///
/// Slices stay nested even when events are lost: a slice whose begin is lost has no end, and on the tracer's own track
/// a lost end is written before the next guard begins or ends a slice, with that time. After a lost
/// [`end`](OnTrack::end) or begin without a guard, slices end with those around them.
#[must_use = "the slice ends when this is dropped"]
pub struct TracerSliceGuard<'t, 'a, C: Clock, const NAMES: usize = 64, const TRACKS: usize = 8> {
    on: OnTrack<'t, 'a, C, NAMES, TRACKS>,
    has_begun: bool,
}

impl<'a, C: Clock, const N: usize, const T: usize> TracerSliceGuard<'_, 'a, C, N, T> {
    /// Ends the slice with details that were not known when it began.
    ///
    /// ```
    /// # use tracebuf::producer::track_event::*;
    /// # fn example<const N: usize, const T: usize>(track: OnTrack<'_, '_, impl Clock, N, T>) {
    /// let request = track.enter("request");
    /// let status = 200;
    /// request.end_with(|event| event.arg("status", status));
    /// # }
    /// ```
    pub fn end_with(self, details: impl Details<'a>) {
        let on = self.on;
        if self.detach() {
            on.end_by(|on| {
                // If the details panic, the slice has ended all the same, unless the end is lost.
                let at_panic = AtPanic(on, |on, is_written| {
                    if !is_written {
                        on.owe_end();
                    }
                });
                let is_written = on.event(EventType::SliceEnd, "", details);
                core::mem::forget(at_panic);
                is_written
            });
        }
    }

    /// Ends the slice, as dropping the guard does.
    #[inline(always)]
    pub fn end(self) {
        let on = self.on;
        if self.detach() {
            on.end_by(OnTrack::write_end);
        }
    }

    /// Lets the slice go on without the guard, until one that is [attached](OnTrack::attach) ends it. Returns false if
    /// there is no slice, because its begin is lost.
    #[inline(always)]
    pub fn detach(self) -> bool {
        // There is nothing in it except references.
        core::mem::ManuallyDrop::new(self).has_begun
    }
}

impl<C: Clock, const N: usize, const T: usize> Drop for TracerSliceGuard<'_, '_, C, N, T> {
    #[inline]
    fn drop(&mut self) {
        if self.has_begun {
            self.on.end_by(OnTrack::write_end);
        }
    }
}

/// Does what is left to do when an event's details panic; the event may have been lost all the same.
struct AtPanic<'o, 't, 'a, C: Clock, const N: usize, const T: usize>(
    &'o OnTrack<'t, 'a, C, N, T>,
    fn(&OnTrack<'t, 'a, C, N, T>, bool),
);

impl<C: Clock, const N: usize, const T: usize> Drop for AtPanic<'_, '_, '_, C, N, T> {
    fn drop(&mut self) {
        let inner = self.0.tracer.inner.try_borrow();
        (self.1)(self.0, inner.is_ok_and(|inner| !inner.writer.is_interrupted()));
    }
}

impl<'t, 'a, C: Clock, const N: usize, const T: usize> OnTrack<'t, 'a, C, N, T> {
    /// A slice as long as `body` runs, even if that panics.
    #[inline]
    pub fn slice<R>(&self, name: &'a str, body: impl FnOnce() -> R) -> R {
        let _slice = self.enter(name);
        body()
    }

    /// A slice of a category, as long as `body` runs.
    #[inline]
    pub fn slice_in<R>(&self, name: &'a str, category: &'a str, body: impl FnOnce() -> R) -> R {
        let _slice = self.enter_in(name, category);
        body()
    }

    /// A slice with details, as long as `body` runs.
    pub fn slice_with<R>(&self, name: &'a str, details: impl Details<'a>, body: impl FnOnce() -> R) -> R {
        let _slice = self.enter_with(name, details);
        body()
    }

    /// A slice that ends with the guard.
    #[inline]
    pub fn enter(&self, name: &'a str) -> TracerSliceGuard<'t, 'a, C, N, T> {
        self.begin_by(|on| on.write_begin(name))
    }

    /// A slice of a category, that ends with the guard.
    #[inline]
    pub fn enter_in(&self, name: &'a str, category: &'a str) -> TracerSliceGuard<'t, 'a, C, N, T> {
        self.begin_by(|on| on.plain_in(EventType::SliceBegin, name, category))
    }

    /// A slice with details, that ends with the guard.
    pub fn enter_with(&self, name: &'a str, details: impl Details<'a>) -> TracerSliceGuard<'t, 'a, C, N, T> {
        self.begin_by(|on| {
            // When the details panic, the slice has begun and must end, unless the begin is lost.
            let at_panic = AtPanic(on, |on, is_written| {
                if is_written {
                    on.attach().end();
                }
            });
            let is_written = on.event(EventType::SliceBegin, name, details);
            core::mem::forget(at_panic);
            is_written
        })
    }

    /// A guard for the slice begun last on this track, from which another one was [detached](TracerSliceGuard::detach).
    ///
    /// ```
    /// # use tracebuf::producer::track_event::*;
    /// # fn example<const N: usize, const T: usize>(tracer: &Tracer<'_, impl Clock, N, T>) {
    /// let has_begun = tracer.track().enter("request").detach();
    /// // Later, where the guard could not be kept:
    /// if has_begun {
    ///     tracer.track().attach().end();
    /// }
    /// # }
    /// ```
    #[inline]
    pub fn attach(&self) -> TracerSliceGuard<'t, 'a, C, N, T> {
        TracerSliceGuard { on: *self, has_begun: true }
    }

    /// Begins a slice that [`OnTrack::end`] or [`OnTrack::end_with`] ends.
    ///
    /// If one of the two is lost, for want of shared memory, the slices around it end in its place, or stay open: guards
    /// keep slices within each other.
    #[inline]
    pub fn begin(&self, name: &'a str) {
        self.write_begin(name);
    }

    /// Begins a slice of a category.
    #[inline]
    pub fn begin_in(&self, name: &'a str, category: &'a str) {
        self.plain_in(EventType::SliceBegin, name, category);
    }

    /// Begins a slice with details. If they panic, it has begun all the same.
    pub fn begin_with(&self, name: &'a str, details: impl Details<'a>) {
        self.event(EventType::SliceBegin, name, details);
    }

    /// Ends the slice begun last.
    #[inline]
    pub fn end(&self) {
        self.write_end();
    }

    /// Ends the slice begun last, with details that were not known when it began.
    ///
    /// ```
    /// # use tracebuf::producer::track_event::*;
    /// # fn example<const N: usize, const T: usize>(track: OnTrack<'_, '_, impl Clock, N, T>) {
    /// track.begin("request");
    /// let status = 200;
    /// track.end_with(|event| event.arg("status", status));
    /// # }
    /// ```
    pub fn end_with(&self, details: impl Details<'a>) {
        self.event(EventType::SliceEnd, "", details);
    }

    /// Something that has no duration.
    #[inline]
    pub fn instant(&self, name: &'a str) {
        self.tracer.plain(self.track, EventType::Instant, Some(name));
    }

    /// Something that has no duration, of a category.
    #[inline]
    pub fn instant_in(&self, name: &'a str, category: &'a str) {
        self.plain_in(EventType::Instant, name, category);
    }

    /// Something that has no duration, with details.
    pub fn instant_with(&self, name: &'a str, details: impl Details<'a>) {
        self.event(EventType::Instant, name, details);
    }

    /// A counter's value from now on; the track is a counter.
    pub fn count(&self, value: i64) {
        self.tracer.count(self.track, value);
    }

    /// A counter's value from now on, as a fraction; the track is a counter.
    pub fn measure(&self, value: f64) {
        self.full(EventType::Counter, None, |writer, _| {
            MessageHandle::lent(writer, 1).double(track_event::DOUBLE_COUNTER_VALUE, value);
        });
    }

    #[inline(always)]
    fn begin_by(&self, begin: impl FnOnce(&Self) -> bool) -> TracerSliceGuard<'t, 'a, C, N, T> {
        TracerSliceGuard { on: *self, has_begun: self.is_made_up_for() && begin(self) }
    }

    #[inline(always)]
    fn end_by(&self, end: impl FnOnce(&Self) -> bool) {
        let has_ended = self.is_made_up_for() && end(self);
        if !has_ended {
            self.owe_end();
        }
    }

    #[inline(always)]
    fn owe_end(&self) {
        if self.track.is_none() {
            self.tracer.owe_end();
        }
    }

    #[inline(always)]
    fn write_begin(&self, name: &'a str) -> bool {
        self.tracer.plain(self.track, EventType::SliceBegin, Some(name))
    }

    #[inline(always)]
    pub(super) fn write_end(&self) -> bool {
        self.tracer.plain(self.track, EventType::SliceEnd, None)
    }

    /// Whether no slice on this track waits for its end.
    #[inline]
    fn is_made_up_for(&self) -> bool {
        self.track.is_some() || self.tracer.make_up_for_ends()
    }

    #[inline]
    fn plain_in(&self, kind: EventType, name: &'a str, category: &'a str) -> bool {
        match self.track {
            None => self.tracer.write(|inner| inner.plain_in(kind, name, category)),
            Some(_) => self.event(kind, name, |event| event.category(category)),
        }
    }

    /// `name` is left out when empty: the details may have another.
    fn event(&self, kind: EventType, name: &'a str, details: impl Details<'a>) -> bool {
        let name = Some(name).filter(|name| !name.is_empty());
        let is_end = kind == EventType::SliceEnd;
        self.full(kind, name, |writer, names| {
            details(&mut Event { message: &mut MessageHandle::lent(writer, 1), names, is_end });
        })
    }

    fn full(
        &self,
        kind: EventType,
        name: Option<&'a str>,
        details: impl FnOnce(&mut TraceWriter<'a>, &mut Names<'a, N>),
    ) -> bool {
        self.tracer.write(|inner| {
            if let Some(delta) = inner.time()
                && let Some(open) = inner.open(delta, self.track, kind, name)
            {
                details(&mut open.0.writer, &mut open.0.names);
            }
        })
    }
}

// Ends of slices that are lost, and are made up for so that the slices around them do not end in their place.
impl<C: Clock, const N: usize, const T: usize> Tracer<'_, C, N, T> {
    /// How many ends of guards' slices on the tracer's own track are lost and not yet written.
    ///
    /// If several tracers write to one track, move what one owes to the one that is next to begin or end a slice: ends
    /// have no names.
    #[inline]
    pub fn owed_ends(&self) -> usize {
        self.owed_ends.get()
    }

    /// Sets how many ends the tracer owes, and returns how many it owed before.
    pub fn replace_owed_ends(&self, ends: usize) -> usize {
        self.owed_ends.replace(ends)
    }

    /// Notes that the end of a slice on the tracer's own track is lost.
    #[cold]
    #[inline(never)]
    pub(super) fn owe_end(&self) {
        self.owed_ends.set(self.owed_ends.get().saturating_add(1));
    }

    /// Writes the lost ends, as guards do themselves before they begin or end a slice on the tracer's own track. Returns
    /// false if there is no room for them yet: what comes next is lost too, and the end that was tried counts for it.
    #[inline]
    pub fn make_up_for_ends(&self) -> bool {
        self.owed_ends.get() == 0 || self.write_owed_ends()
    }

    #[cold]
    #[inline(never)]
    fn write_owed_ends(&self) -> bool {
        while self.owed_ends.get() != 0 {
            if !self.track().write_end() {
                return false;
            }
            // Not the number from before: while it was written, the clock or the sink may have come to another's end.
            self.owed_ends.set(self.owed_ends.get().wrapping_sub(1));
        }
        true
    }
}
