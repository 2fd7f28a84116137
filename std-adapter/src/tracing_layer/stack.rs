//! What each thread has entered, and how that becomes slices.

use std::cell::RefCell;
use std::sync::Arc;

use tracing_core::Metadata;

use super::fields::{category, with_fields};
use super::spans::SpanData;
use crate::session::Recorder;

/// A span that this thread is in.
struct Entered {
    id: u64,
    metadata: &'static Metadata<'static>,
    data: Option<Arc<SpanData>>,
}

thread_local! {
    /// Those of all recorders: spans of different subscribers are exited in turn.
    static STACK: RefCell<Vec<Entered>> = const { RefCell::new(Vec::new()) };
}

/// Begins a slice of a span and remembers it.
pub(super) fn enter(
    recorder: &Recorder,
    id: u64,
    metadata: &'static Metadata<'static>,
    data: Option<Arc<SpanData>>,
) {
    if begin(recorder, metadata, data.as_deref()) {
        remember(Entered { id, metadata, data });
    }
}

/// The same of a span that has nothing but its metadata.
#[inline(always)]
pub(super) fn enter_plain(recorder: &Recorder, id: u64, metadata: &'static Metadata<'static>) {
    if begin_plain(recorder, metadata) {
        remember(Entered { id, metadata, data: None });
    }
}

#[inline(always)]
fn remember(entered: Entered) {
    let _ = STACK.try_with(|stack| stack.borrow_mut().push(entered));
}

/// Ends the slice of a span.
#[inline]
pub(super) fn exit(recorder: &Recorder, id: u64) {
    let _ = STACK.try_with(|stack| {
        let mut stack = stack.borrow_mut();
        if stack.last().is_some_and(|top| top.id == id) {
            recorder.end();
            stack.pop();
        } else {
            exit_below(recorder, id, &mut stack);
        }
    });
}

/// Exited before what was entered later: slices on a track are nested, so those are ended with it and begun again.
#[cold]
#[inline(never)]
fn exit_below(recorder: &Recorder, id: u64, stack: &mut Vec<Entered>) {
    let Some(at) = stack.iter().rposition(|entered| entered.id == id) else { return };
    for _ in at..stack.len() {
        recorder.end();
    }
    stack.remove(at);
    for above in stack.iter().skip(at) {
        begin(recorder, above.metadata, above.data.as_deref());
    }
}

/// The innermost span that this thread is in.
pub(super) fn current() -> Option<(u64, &'static Metadata<'static>)> {
    STACK.try_with(|stack| stack.borrow().last().map(|top| (top.id, top.metadata))).ok().flatten()
}

/// False when nothing is recorded, or this thread has no writer.
fn begin(recorder: &Recorder, metadata: &'static Metadata<'static>, data: Option<&SpanData>) -> bool {
    match data {
        None => begin_plain(recorder, metadata),
        Some(data) => begin_with(recorder, metadata.name(), category(metadata.level()), data),
    }
}

#[inline(always)]
fn begin_plain(recorder: &Recorder, metadata: &'static Metadata<'static>) -> bool {
    let category = category(metadata.level());
    recorder.with(|tracer| tracer.track().begin_in(metadata.name(), category)).is_some()
}

#[inline(never)]
fn begin_with(recorder: &Recorder, name: &'static str, category: &'static str, data: &SpanData) -> bool {
    let begun = recorder.with(|tracer| {
        let slice = tracer.track().enter_with(name, |event| data.annotate(event.category(category)));
        // It is ended by the exit of the span.
        std::mem::forget(slice);
    });
    begun.is_some()
}

/// An instant, named by its message.
pub(super) fn instant(recorder: &Recorder, event: &tracing_core::Event<'_>) {
    if !recorder.is_on() {
        return;
    }
    let metadata = event.metadata();
    with_fields(event, |fields| {
        // Without a message, where it is.
        let named = fields.message.is_empty();
        recorder.with(|tracer| {
            tracer.track().instant_with(if named { metadata.name() } else { "" }, |event| {
                if !named {
                    event.name(&fields.message);
                }
                event.category(category(metadata.level()));
                fields.rest.annotate(event);
                event
            });
        });
    });
}
