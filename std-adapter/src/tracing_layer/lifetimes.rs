//! The whole life of a span, from its making to its end, as a slice on a track of its own: what an async task takes,
//! its waiting included, where its slices on threads are no more than its polls.

use std::sync::atomic::{AtomicBool, Ordering};

use tracebuf::producer::track_event::Track;
use tracing_core::Metadata;

use super::fields::KeptFields;
use super::origin::tell;
use super::owner::Owner;
use super::spans::SpanData;
use crate::session::Recorder;
use crate::session::switch::NOWHERE;

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

/// What is kept of a new span, whose life begins with this if that is recorded.
pub(super) fn begin(owner: &Owner, metadata: &'static Metadata<'static>, fields: KeptFields) -> SpanData {
    let mut span = SpanData::new(owner, metadata, fields);
    if owner.lifetimes {
        let track = track(&span);
        let place = owner.recorder.begun(|tracer| {
            let guard = tracer
                .on(&track)
                .enter_with(metadata.name(), |event| span.annotate(tell(metadata, owner.origins, event)));
            guard.detach()
        });
        span.lifetime = place.into();
    }
    span
}

/// Ends the slice of a span whose last handle is gone, as perhaps several hear, with the fields that were recorded since.
pub(super) fn end(recorder: &Recorder, span: &SpanData) {
    let mut place = span.lifetime.swap(NOWHERE, Ordering::Relaxed);
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
