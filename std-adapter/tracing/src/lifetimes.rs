//! The whole life of a span, from its making to its end, as a slice on a track of its own: how long an async task
//! takes, including its waiting, while its slices on threads are only its polls.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tracing_core::Metadata;

use super::fields::KeptFields;
use super::life::Life;
use super::origin::tell;
use super::owner::Owner;
use super::spans::SpanData;
use tracebuf_session::Recorder;
use tracebuf_session::parts::NO_BUFFER;

/// Whether there was ever a layer that records lives: until then nothing looks for one when a span ends.
static ARE_WANTED: AtomicBool = AtomicBool::new(false);

pub(super) fn want() {
    ARE_WANTED.store(true, Ordering::Relaxed);
}

pub(super) fn are_wanted() -> bool {
    ARE_WANTED.load(Ordering::Relaxed)
}

/// Makes what is kept of a new span. Its life, if recorded, begins here, within its parent's if that is in the same
/// session.
pub(super) fn begin(
    owner: &Owner,
    metadata: &'static Metadata<'static>,
    fields: KeptFields,
    parent: impl FnOnce() -> Option<Arc<Life>>,
) -> SpanData {
    let mut span = SpanData::new(owner, metadata, fields);
    if owner.lifetimes {
        let parent = parent().filter(|parent| parent.is_in(owner.recorder.buffer_id()));
        let life = Life::within(parent.unwrap_or_else(|| owner.process()), metadata.name(), span.number);
        let buffer = owner.recorder.begun(|tracer| {
            let guard = tracer
                .on(life.track())
                .enter_with(metadata.name(), |event| span.annotate(tell(metadata, owner.origins, event)));
            guard.detach()
        });
        span.life = life.begun(buffer);
    }
    span
}

/// Ends the slice of a span whose last handle is gone, with the fields that were recorded since. Several layers may
/// hear of the same end.
pub(super) fn end(recorder: &Recorder, span: &SpanData) {
    let Some(life) = &span.life else { return };
    let mut buffer = life.take_open();
    if buffer == NO_BUFFER {
        return;
    }
    recorder.with_at(&mut buffer, |tracer| {
        if span.changes() == 0 {
            tracer.on(life.track()).end();
        } else {
            tracer.on(life.track()).end_with(|event| span.annotate_end(0, event));
        }
    });
}
