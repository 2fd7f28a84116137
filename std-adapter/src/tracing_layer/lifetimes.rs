//! The whole life of a span, from its making to its end, as a slice on a track of its own: what an async task takes,
//! its waiting included, where its slices on threads are no more than its polls.

use std::sync::atomic::{AtomicBool, Ordering};

use tracebuf::producer::track_event::Track;

use super::origin::tell;
use super::spans::SpanData;
use super::stack::Owner;
use crate::session::Recorder;
use crate::session::switch::{NOWHERE, Place};

/// Whether there was ever a layer that records lives: until then none looks for one where a span ends.
static ARE_WANTED: AtomicBool = AtomicBool::new(false);

pub(super) fn want() {
    ARE_WANTED.store(true, Ordering::Relaxed);
}

pub(super) fn are_wanted() -> bool {
    ARE_WANTED.load(Ordering::Relaxed)
}

/// Lives of spans of one name overlap, so that each has a track.
fn track(span: &SpanData) -> Track<'static> {
    Track::custom(span.metadata.name()).numbered(span.number)
}

/// Begins the slice of a span that has just been made, and says where: nowhere when that is not recorded.
pub(super) fn begin(owner: &Owner, span: &SpanData) -> Place {
    let track = track(span);
    owner.recorder.begun(|tracer| {
        let guard = tracer.on(&track).enter_with(span.metadata.name(), |event| {
            span.annotate(tell(span.metadata, owner.origins, event))
        });
        guard.detach()
    })
}

/// Ends the slice of a span that is gone, with the fields that were recorded since.
pub(super) fn end(mut place: Place, recorder: &Recorder, span: &SpanData) {
    if place == NOWHERE {
        return;
    }
    let track = track(span);
    recorder.with_at(&mut place, |tracer| {
        if span.changes() == 0 {
            tracer.on(&track).end();
        } else {
            tracer.on(&track).end_with(|event| span.annotate_end(0, event));
        }
    });
}
