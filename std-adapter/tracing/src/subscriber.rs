//! The subscriber that needs no registry: [`TraceSubscriber`].

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use tracing_core::span::{Attributes, Current, Id, Record};
use tracing_core::{Event, Interest, Level, LevelFilter, Metadata, Subscriber};
use tracing_subscriber::filter::Targets;

use super::events::instant;
use super::fields::KeptFields;
use super::frontend::{Frontend, options};
use super::ids;
use super::lifetime::Life;
use super::spans::{SpanData, Spans};
use super::stack;
use tracebuf_session::{FlightRecorder, Recorder};

/// Records all spans and events, and nothing else: no registry, no other layers.
///
/// ```
/// use tracebuf_session::Session;
/// use tracebuf_tracing::TraceSubscriber;
///
/// let session = Session::builder().fast_clock().start()?;
/// let subscriber = TraceSubscriber::new(session.recorder())
///     .targets("hyper=warn,my_program=trace".parse()?)
///     .flows(true);
/// tracing::subscriber::with_default(subscriber, || tracing::info!("not of these targets"));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// What the filter refuses costs only what `tracing` itself takes: the answer is kept with each callsite.
///
/// Cost: a span without fields needs no memory. With fields, flows or lifetimes, each span is an entry in a table, some
/// 200 ns more. Without them its id says only where it was made: see [the limits](crate#limits) of exits out of order.
pub struct TraceSubscriber {
    frontend: Frontend,
    spans: Spans,
    filter: Targets,
}

impl TraceSubscriber {
    /// Records all levels and targets, without flows, lifetimes, origins and logs.
    pub fn new(recorder: Recorder) -> Self {
        let filter = Targets::new().with_default(LevelFilter::TRACE);
        Self { frontend: Frontend::subscriber(recorder), spans: Spans::new(), filter }
    }

    /// Records nothing more verbose than this level.
    #[must_use]
    pub fn max_level(self, level: Level) -> Self {
        self.targets(Targets::new().with_default(level))
    }

    /// Records only what these targets let through.
    #[must_use]
    pub fn targets(mut self, targets: Targets) -> Self {
        self.filter = targets;
        self
    }

    options!();

    /// Makes a span that has something to keep, or is the first of its callsite.
    #[inline(never)]
    fn make(&self, span: &Attributes<'_>) -> Id {
        let metadata = span.metadata();
        if !self.frontend.keeps(metadata)
            && let Some(number) = ids::callsite(metadata)
        {
            return Id::from_non_zero_u64(number);
        }
        let mut fields = KeptFields::with_room(metadata.fields().len());
        span.record(&mut fields);
        let data = SpanData::begin(&self.frontend, metadata, fields, || self.life_of_parent(span));
        Id::from_u64(self.spans.insert(data))
    }

    /// The life of the span that a new one is within, if it is recorded.
    fn life_of_parent(&self, span: &Attributes<'_>) -> Option<Arc<Life>> {
        let parent = match span.parent() {
            Some(parent) => parent.into_u64(),
            None if span.is_contextual() => stack::current(&self.frontend)?.0,
            None => return None,
        };
        let data = stack::data_of_current(&self.frontend, parent).or_else(|| self.spans.get(parent))?;
        data.life.clone()
    }

    /// Makes a span that may be entered once a relay is connected; its fields are not kept meanwhile.
    #[cold]
    fn make_while_off(&self, metadata: &'static Metadata<'static>) -> Id {
        let number = if self.frontend.recorder.goes_on() { ids::callsite(metadata) } else { None };
        number.map_or(Id::from_u64(Spans::NONE), Id::from_non_zero_u64)
    }

    #[inline(never)]
    fn enter_kept(&self, id: &Id) {
        if !self.frontend.recorder.is_on() {
            stack::enter_while_off(&self.frontend, id.into_u64());
        } else if let Some(data) = self.kept(id) {
            stack::enter(&self.frontend, id.into_u64(), data.metadata, Some(data));
        }
    }

    /// What is kept of a span, if anything is recorded, or may be later.
    fn kept(&self, id: &Id) -> Option<Arc<SpanData>> {
        if self.frontend.recorder.goes_on() { self.spans.get(id.into_u64()) } else { None }
    }

    /// Drops a handle of a span with something to keep. True: it was the last.
    #[inline(never)]
    fn drop_handle(&self, id: &Id) -> bool {
        let gone = self.spans.drop_reference(id.into_u64());
        if let Some(gone) = &gone {
            gone.end(&self.frontend.recorder);
        }
        gone.is_some()
    }

    /// Whether handles of a span are counted. They are even after the session is over: the last one frees the memory.
    fn is_counted(&self, id: &Id) -> bool {
        id.into_u64() >= Spans::FIRST && self.frontend.recorder.is_here()
    }

    fn lets_through(&self, metadata: &Metadata<'_>) -> bool {
        self.filter.would_enable(metadata.target(), metadata.level())
    }
}

impl fmt::Debug for TraceSubscriber {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { frontend, filter, .. } = self;
        let mut told = f.debug_struct("TraceSubscriber");
        told.field("frontend", frontend).field("filter", filter).finish_non_exhaustive()
    }
}

impl Subscriber for TraceSubscriber {
    fn register_callsite(&self, metadata: &'static Metadata<'static>) -> Interest {
        if self.lets_through(metadata) { Interest::always() } else { Interest::never() }
    }

    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        self.lets_through(metadata)
    }

    fn max_level_hint(&self) -> Option<LevelFilter> {
        self.filter.iter().map(|(_, level)| level).chain(self.filter.default_level()).max()
    }

    #[inline]
    fn new_span(&self, span: &Attributes<'_>) -> Id {
        let metadata = span.metadata();
        if !self.frontend.recorder.is_on() {
            return self.make_while_off(metadata);
        }
        match ids::known_callsite(metadata) {
            Some(number) if !self.frontend.keeps(metadata) => Id::from_non_zero_u64(number),
            _ => self.make(span),
        }
    }

    fn record(&self, span: &Id, values: &Record<'_>) {
        if let Some(data) = self.kept(span) {
            data.record(values);
        }
    }

    fn record_follows_from(&self, span: &Id, follows: &Id) {
        if let (Some(span), Some(follows)) = (self.kept(span), self.kept(follows)) {
            span.follow(&follows);
        }
    }

    fn event(&self, event: &Event<'_>) {
        instant(&self.frontend, event);
    }

    #[inline]
    fn enter(&self, span: &Id) {
        let id = span.into_u64();
        if id < Spans::FIRST {
            if let Some(metadata) = ids::metadata(id) {
                stack::enter_plain(&self.frontend, id, metadata);
            }
        } else {
            self.enter_kept(span);
        }
    }

    #[inline]
    fn exit(&self, span: &Id) {
        stack::exit(&self.frontend, span.into_u64());
    }

    #[inline]
    fn clone_span(&self, span: &Id) -> Id {
        if self.is_counted(span) {
            self.spans.add_reference(span.into_u64());
        }
        span.clone()
    }

    #[inline]
    fn try_close(&self, span: Id) -> bool {
        !self.is_counted(&span) || self.drop_handle(&span)
    }

    fn current_span(&self) -> Current {
        match stack::current(&self.frontend) {
            Some((id, metadata)) => Current::new(Id::from_u64(id), metadata),
            None => Current::none(),
        }
    }
}

#[cfg(test)]
mod tests {
    use tracing::{Dispatch, info_span};

    use super::*;
    use tracebuf_session::Session;

    fn under(session: &Session, work: impl FnOnce(&TraceSubscriber)) {
        let dispatch = Dispatch::new(TraceSubscriber::new(session.recorder()).flows(true));
        let subscriber = dispatch.downcast_ref().expect("the subscriber");
        tracing::dispatcher::with_default(&dispatch, || work(subscriber));
    }

    #[cfg(unix)]
    #[test]
    fn in_a_child_no_span_waits_for_a_thread_that_is_not_there() {
        use tracebuf_testing::fork::in_child;

        let session = Session::builder().start().expect("a session");
        under(&session, |subscriber| {
            let use_all = |spans: &[tracing::Span]| {
                for span in spans {
                    span.record("field", 2);
                    span.follows_from(&spans[0]);
                    span.clone().in_scope(|| tracing::info!("within"));
                }
            };
            // One for each lock, and more that are made in the child.
            let spans = || (0..16).map(|_| info_span!("span", field = 1)).collect::<Vec<_>>();
            let before = spans();
            // This is not about the crate's own locks, which it takes when something is first used.
            use_all(&before);
            std::thread::scope(|scope| {
                let (locked, told) = std::sync::mpsc::channel();
                let (end, ended) = std::sync::mpsc::channel::<()>();
                scope.spawn(move || {
                    let _shard = subscriber.spans.shard(0);
                    locked.send(()).expect("the test waits");
                    let _ = ended.recv();
                });
                told.recv().expect("a lock");
                let mut before = Some(before);
                let done = in_child(|| {
                    let after = spans();
                    for spans in [before.take().unwrap_or_default(), after] {
                        use_all(&spans);
                    }
                    true
                });
                drop(end);
                assert!(done);
            });
        });
    }

    #[test]
    fn spans_that_outlive_their_session_give_their_memory_back() {
        let session = Session::builder().start().expect("a session");
        under(&session, |subscriber| {
            let span = info_span!("span", field = 1);
            let id = span.id().expect("an id").into_u64();
            let again = span.clone();
            session.stop().expect("a stop");
            drop(span);
            assert!(subscriber.spans.get(id).is_some());
            drop(again);
            assert!(subscriber.spans.get(id).is_none());
        });
    }
}
