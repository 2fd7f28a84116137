//! The spans that each thread is in, and their slices.

use std::cell::RefCell;
use std::sync::Arc;

use tracing_core::Metadata;

use super::frontend::Frontend;
use super::late::{self, Waiting};
use super::layers::{self, have_gone, is_layer};
use super::lifetime::Life;
use super::spans::SpanData;
use tracebuf_session::parts::{BufferId, NO_BUFFER, is_one_session, without_waiting};
use tracebuf_session::{Recorder, ThreadTracer};

struct Entered {
    id: u64,
    frontend: u64,
    /// Where its slice has begun, if it has.
    buffer: BufferId,
    metadata: &'static Metadata<'static>,
    data: Option<Arc<SpanData>>,
    /// The changes of its fields that the slice's begin includes.
    seen: u64,
    waiting: Waiting,
}

impl Drop for Frontend {
    /// Exits from spans entered under a recorder's last layer are never reported, so their slices end here; on other
    /// threads, when these next come to a layer of that recorder.
    fn drop(&mut self) {
        // Spans that a child has from its parent are not ended there.
        if self.recorder.is_here() && is_layer(self.number) && layers::end(self.number) {
            let leave = |stack: &Stack| leave_all(self, stack, |number| number == self.number);
            // The code that drops it may have locked its place, as `reload` does, and code that enters spans in the
            // drain thread looks for it there. Ends that are lost are made up for later.
            without_waiting(|| {
                let _ = STACK.try_with(leave);
            });
        }
    }
}

impl Entered {
    #[inline(always)]
    fn is(&self, id: u64, frontend: &Frontend) -> bool {
        self.id == id && self.frontend == frontend.number
    }

    /// Whether it is the same span, entered by another layer too. That layer is about to exit it: if two slices end
    /// together, it makes no difference which is within the other.
    fn is_also(&self, other: &Self) -> bool {
        is_layer(self.frontend)
            && is_layer(other.frontend)
            && self.frontend != other.frontend
            && self.id == other.id
            && std::ptr::eq(self.metadata, other.metadata)
    }

    /// Begins its slice. False when nothing is recorded, or this thread has no writer. A begin that is lost for want of
    /// room leaves it begun in no buffer.
    #[inline(always)]
    fn begin(&mut self, frontend: &Frontend) -> bool {
        match &self.data {
            None => begin_plain(frontend, &mut self.buffer, self.metadata),
            Some(data) => {
                self.seen = data.changes();
                begin_with(frontend, &mut self.buffer, self.metadata, Some(data))
            }
        }
    }

    /// The same for one that was entered while nothing was recorded.
    fn begin_late(&mut self, frontend: &Frontend, parent: Option<Arc<Life>>) {
        if let Some(data) = &self.data {
            data.begin_life_late(frontend, parent);
            self.seen = data.changes();
        }
        let since = self.waiting.take();
        let (data, metadata) = (&self.data, self.metadata);
        self.buffer = late::begun(&frontend.recorder, |tracer| {
            tracer.track().at(since).begin_with(metadata.name(), |event| {
                let event = frontend.describe(metadata, event);
                match data {
                    Some(data) => data.annotate(event),
                    None => event,
                }
            });
        });
    }

    fn end(&self, recorder: &Recorder) {
        end(recorder, self.buffer, self.data.as_deref(), self.seen);
    }
}

type Stack = RefCell<Vec<Entered>>;

thread_local! {
    /// Those of all recorders: spans of different subscribers may be exited in turn.
    static STACK: Stack = const { RefCell::new(Vec::new()) };
}

#[inline(never)]
pub(super) fn enter(
    frontend: &Frontend,
    id: u64,
    metadata: &'static Metadata<'static>,
    data: Option<Arc<SpanData>>,
) {
    begin_those_that_wait(frontend);
    if let Some(data) = &data {
        data.begin_life_late(frontend, life_of_current(frontend));
    }
    let waits = !frontend.recorder.is_on() && frontend.recorder.goes_on();
    enter_by(frontend, id, || {
        let buffer = frontend.recorder.buffer_id();
        let waiting = if waits { Waiting::now(frontend) } else { Waiting::RECORDED };
        let mut entered = Entered { id, frontend: frontend.number, buffer, metadata, data, seen: 0, waiting };
        (entered.waiting.waits() || entered.begin(frontend)).then_some(entered)
    });
}

/// The same for a span that has nothing but its metadata.
#[inline(always)]
pub(super) fn enter_plain(frontend: &Frontend, id: u64, metadata: &'static Metadata<'static>) {
    if frontend.origins || !frontend.recorder.is_on() || late::is_waited_for() {
        return enter(frontend, id, metadata, None);
    }
    enter_by(frontend, id, || {
        let mut buffer = frontend.recorder.buffer_id();
        let begun = is_recorded(frontend.recorder.with_in(&mut buffer, begin_of(metadata)), &mut buffer);
        begun.then_some(Entered {
            id,
            frontend: frontend.number,
            buffer,
            metadata,
            data: None,
            seen: 0,
            waiting: Waiting::RECORDED,
        })
    });
}

/// At the end of a thread, when the stack is gone, nothing begins, because nothing would end it: begin and end are
/// lost.
#[inline(always)]
fn enter_by(frontend: &Frontend, id: u64, begin: impl FnOnce() -> Option<Entered>) {
    let entered = STACK.try_with(|stack| match begin() {
        Some(entered) => push(stack, entered),
        None => enter_again(frontend, id, stack),
    });
    if entered.is_err() {
        frontend.recorder.lose();
    }
}

/// Remembers a span. Like everything that borrows the stack, it calls nothing meanwhile that may allocate or free
/// memory: the program's allocator may enter spans.
#[inline(always)]
fn push(stack: &Stack, entered: Entered) {
    let mut entries = stack.borrow_mut();
    while entries.len() == entries.capacity() {
        drop(entries);
        grow(stack);
        entries = stack.borrow_mut();
    }
    entries.push(entered);
}

#[cold]
#[inline(never)]
fn grow(stack: &Stack) {
    let known = stack.borrow().len();
    let mut larger = Vec::with_capacity((2 * known).max(4));
    let mut entries = stack.borrow_mut();
    // The allocator may have enlarged it meanwhile.
    if entries.capacity() < larger.capacity() {
        larger.append(&mut entries);
        std::mem::swap(&mut larger, &mut entries);
    }
    drop(entries);
}

pub(super) fn enter_while_off(frontend: &Frontend, id: u64) {
    let _ = STACK.try_with(|stack| enter_again(frontend, id, stack));
}

/// A span without a slice is remembered only where the thread is in that span already: its exit must not end the
/// earlier slice, in a session that a relay has left and that goes on.
#[cold]
#[inline(never)]
fn enter_again(frontend: &Frontend, id: u64, stack: &Stack) {
    let again = |known: &Entered| Entered {
        id,
        frontend: known.frontend,
        buffer: NO_BUFFER,
        metadata: known.metadata,
        data: None,
        seen: 0,
        waiting: Waiting::RECORDED,
    };
    let again = stack.borrow().iter().find(|entered| entered.is(id, frontend)).map(again);
    if let Some(again) = again {
        push(stack, again);
    }
}

/// Begins the slices of spans that the thread entered while nothing was recorded, each at its own time.
#[inline(always)]
pub(super) fn begin_those_that_wait(frontend: &Frontend) {
    if late::is_waited_for() && frontend.recorder.is_on() {
        begin_late(frontend);
    }
}

#[cold]
#[inline(never)]
fn begin_late(frontend: &Frontend) {
    let _ = STACK.try_with(|stack| {
        // Spans that are entered meanwhile have a stack of their own.
        let mut entries = stack.take();
        let mut life = None;
        for entered in entries.iter_mut().filter(|entered| entered.frontend == frontend.number) {
            if entered.waiting.waits() {
                entered.begin_late(frontend, life.take());
            }
            life = entered.data.as_ref().and_then(|data| data.life()).or(life);
        }
        for entered in stack.replace(entries) {
            push(stack, entered);
        }
    });
}

/// The life of the innermost span of this frontend that the thread is in.
fn life_of_current(frontend: &Frontend) -> Option<Arc<Life>> {
    if frontend.lifetimes { of_innermost(frontend, |entered| entered.data.as_ref()?.life()) } else { None }
}

#[inline]
pub(super) fn exit(frontend: &Frontend, id: u64) {
    begin_those_that_wait(frontend);
    let exited = STACK.try_with(|stack| {
        let top = stack.borrow_mut().pop_if(|top| top.is(id, frontend));
        match top {
            // In parts: as a whole it would be copied on the way.
            Some(Entered { buffer, data, seen, .. }) => {
                end(&frontend.recorder, buffer, data.as_deref(), seen)
            }
            None => exit_below(frontend, id, stack),
        }
    });
    if exited.is_err() {
        frontend.recorder.lose();
    }
}

/// Exits a span before those that were entered later: slices on a track are nested, so those are ended with it and
/// begun again, each in its own buffer. Spans in other sessions are not affected.
#[cold]
#[inline(never)]
fn exit_below(frontend: &Frontend, id: u64, stack: &Stack) {
    // Not for a subscriber: spans that the allocator enters may come here while the list of layers allocates.
    if is_layer(frontend.number) && have_gone() {
        leave_gone(frontend, stack);
    }
    leave(frontend, stack, |entered| entered.is(id, frontend));
}

/// Before a layer enters a span, leaves those entered under layers that are gone, which do not contain it.
#[inline(always)]
pub(super) fn leave_those_of_gone_layers(frontend: &Frontend) {
    if have_gone() {
        let _ = STACK.try_with(|stack| leave_gone(frontend, stack));
    }
}

#[cold]
#[inline(never)]
fn leave_gone(frontend: &Frontend, stack: &Stack) {
    // Layers that a child has from its parent record nothing.
    if frontend.recorder.is_here() {
        layers::leave_gone(|is_gone| leave_all(frontend, stack, is_gone));
    }
}

fn leave_all(frontend: &Frontend, stack: &Stack, is_left: impl Fn(u64) -> bool) {
    while leave(frontend, stack, |entered| is_left(entered.frontend)) {}
}

/// Leaves the innermost of these spans, if there is one.
fn leave(frontend: &Frontend, stack: &Stack, is_left: impl Fn(&Entered) -> bool) -> bool {
    let at = stack.borrow().iter().rposition(is_left);
    let Some(at) = at else { return false };
    // Spans that are entered meanwhile have a stack of their own.
    let mut entries = stack.take();
    end_below(frontend, entries.get_mut(at..).unwrap_or_default());
    let exited = entries.remove(at);
    for entered in stack.replace(entries) {
        push(stack, entered);
    }
    drop(exited);
    true
}

/// Ends the slice of the first entry; those above are ended with it and begun again.
fn end_below(frontend: &Frontend, entries: &mut [Entered]) {
    let Some((exited, above)) = entries.split_first_mut() else { return };
    let is_above = |entered: &Entered| {
        let is_there = exited.buffer != NO_BUFFER && is_one_session(entered.buffer, exited.buffer);
        is_there && !entered.is_also(exited)
    };
    let are_above = above.iter().rev().filter(|entered| is_above(entered));
    are_above.for_each(|entered| entered.end(&frontend.recorder));
    exited.end(&frontend.recorder);
    for entered in above.iter_mut().filter(|entered| is_above(entered)) {
        entered.begin(frontend);
    }
}

/// The innermost span of this frontend that the thread is in.
pub(super) fn current(frontend: &Frontend) -> Option<(u64, &'static Metadata<'static>)> {
    of_innermost(frontend, |entered| Some((entered.id, entered.metadata)))
}

/// What is kept of that span, if it has this id. Needs no lock.
pub(super) fn data_of_current(frontend: &Frontend, id: u64) -> Option<Arc<SpanData>> {
    of_innermost(frontend, |entered| entered.data.clone().filter(|_| entered.id == id))
}

fn of_innermost<T>(frontend: &Frontend, f: impl Fn(&Entered) -> Option<T>) -> Option<T> {
    let is_own = |entered: &&Entered| entered.frontend == frontend.number;
    let innermost = |stack: &Stack| stack.borrow().iter().rfind(is_own).and_then(&f);
    STACK.try_with(innermost).ok().flatten()
}

fn begin_plain(frontend: &Frontend, buffer: &mut BufferId, metadata: &'static Metadata<'static>) -> bool {
    if frontend.origins {
        return begin_with(frontend, buffer, metadata, None);
    }
    is_recorded(frontend.recorder.with_at(buffer, begin_of(metadata)), buffer)
}

/// Begins a slice of a span that has nothing but its metadata; false if that is lost.
#[inline(always)]
fn begin_of(metadata: &'static Metadata<'static>) -> impl for<'t, 'a> FnOnce(&'t ThreadTracer<'a>) -> bool {
    move |tracer: &ThreadTracer<'_>| {
        tracer.track().enter_in(metadata.name(), metadata.level().as_str()).detach()
    }
}

#[inline(never)]
fn begin_with(
    frontend: &Frontend,
    buffer: &mut BufferId,
    metadata: &'static Metadata<'static>,
    data: Option<&SpanData>,
) -> bool {
    let begun = frontend.recorder.with_at(buffer, |tracer| {
        let guard = tracer.track().enter_with(metadata.name(), |event| {
            let event = frontend.describe(metadata, event);
            match data {
                Some(data) => data.annotate(event),
                None => event,
            }
        });
        guard.detach()
    });
    is_recorded(begun, buffer)
}

#[inline(always)]
fn is_recorded(begun: Option<bool>, buffer: &mut BufferId) -> bool {
    if begun == Some(false) {
        *buffer = NO_BUFFER;
    }
    begun.is_some()
}

/// Ends a slice. Fields recorded since its begin go to the end, because there may be no other slice.
#[inline(always)]
fn end(recorder: &Recorder, mut buffer: BufferId, data: Option<&SpanData>, seen: u64) {
    match data {
        Some(data) if data.changes() != seen => end_with(recorder, &mut buffer, data, seen),
        _ => drop(recorder.with_at(&mut buffer, |tracer| tracer.track().attach().end())),
    }
}

#[inline(never)]
fn end_with(recorder: &Recorder, buffer: &mut BufferId, data: &SpanData, seen: u64) {
    recorder.with_at(buffer, |tracer| {
        tracer.track().attach().end_with(|event| data.annotate_end(seen, event));
    });
}
