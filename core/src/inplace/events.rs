//! A writer as one of several kinds of recorders.

use super::names::number_of_track;
use super::region::Memory;
use super::time::Timer;
use super::writer::{TrackId, Writer};
use crate::events::{Events, NewTracks};

impl<M: Memory, T: Timer> Events for Writer<'_, M, T> {
    type Track = TrackId;

    fn begin(&self, name: &'static str) {
        self.begin(name);
    }

    fn end(&self) {
        self.end();
    }

    fn instant(&self, name: &'static str) {
        self.instant(name);
    }

    /// Of 32 bits, if the value has no more.
    fn count(&self, counter: &'static str, value: i64) {
        match i32::try_from(value) {
            Ok(value) => self.count(counter, value),
            Err(_) => self.count_i64(counter, value),
        }
    }

    fn begin_on(&self, track: TrackId, name: &'static str) {
        self.on(track).begin(name);
    }

    fn end_on(&self, track: TrackId) {
        self.on(track).end();
    }

    fn instant_on(&self, track: TrackId, name: &'static str) {
        self.on(track).instant(name);
    }

    fn switch(&self, task: Option<TrackId>) {
        self.switch_to(task);
    }
}

impl<M: Memory, T: Timer> NewTracks for Writer<'_, M, T> {
    fn track(&self, name: &str, number: u32) -> TrackId {
        self.track(name, number)
    }
}

impl<M: Memory, T: Timer> Writer<'_, M, T> {
    /// As [`Recorder::track`](super::Recorder::track).
    pub fn track(&self, name: &str, number: u32) -> TrackId {
        TrackId(number_of_track(self.region(), name, number & 0xFF_FFFF))
    }
}
