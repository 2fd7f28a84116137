//! A tracer as one of several kinds of recorders.

use super::Tracer;
use crate::events::Events;
use crate::producer::track_event::{Clock, Track, Unit};

/// Counters are tracks of their names. A task that runs is a slice `runs` on its track.
impl<'a, C: Clock, const N: usize, const T: usize> Events for Tracer<'a, C, N, T> {
    type Track = &'a Track<'a>;

    fn begin(&self, name: &'static str) {
        self.track().begin(name);
    }

    fn end(&self) {
        self.track().end();
    }

    fn instant(&self, name: &'static str) {
        self.track().instant(name);
    }

    fn count(&self, counter: &'static str, value: i64) {
        self.on(&Track::counter(counter, Unit::Count)).count(value);
    }

    fn begin_on(&self, track: &'a Track<'a>, name: &'static str) {
        self.on(track).begin(name);
    }

    fn end_on(&self, track: &'a Track<'a>) {
        self.on(track).end();
    }

    fn instant_on(&self, track: &'a Track<'a>, name: &'static str) {
        self.on(track).instant(name);
    }

    fn switch(&self, task: Option<&'a Track<'a>>) {
        if let Some(task) = self.running.replace(task) {
            self.on(task).end();
        }
        if let Some(task) = task {
            self.on(task).begin("runs");
        }
    }
}
