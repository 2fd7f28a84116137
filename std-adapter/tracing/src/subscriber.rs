//! The subscriber that needs no registry.

use std::fmt;
use std::sync::Arc;

use tracing_core::span::{Attributes, Current, Id, Record};
use tracing_core::{Event, Interest, Level, LevelFilter, Metadata, Subscriber};
use tracing_subscriber::filter::Targets;

use super::callsites;
use super::fields::KeptFields;
use super::instants::instant;
use super::life::Life;
use super::lifetimes;
use super::owner::Owner;
use super::spans::{SpanData, Spans};
use super::stack;
use tracebuf_session::Recorder;

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
/// Cost: a span without fields needs no memory, and its id says only where it was made: when a thread enters one twice,
/// with others between, and exits the first one first, the slice of the second ends. With fields, flows or lifetimes,
/// each span is an entry in a table, some 200 ns more, and ends its own slices in any order.
pub struct TraceSubscriber {
    owner: Owner,
    spans: Spans,
    filter: Targets,
}

impl TraceSubscriber {
    /// Records all levels and targets, without flows, lifetimes, origins and logs.
    pub fn new(recorder: Recorder) -> Self {
        let filter = Targets::new().with_default(LevelFilter::TRACE);
        Self { owner: Owner::subscriber(recorder), spans: Spans::new(), filter }
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

    /// Joins the slices of a span, and those of one that follows from it, by arrows: flows, whose ids are 64 bits that
    /// look random, so that they practically never equal those of your own or of other processes.
    #[must_use]
    pub fn flows(mut self, flows: bool) -> Self {
        self.owner.flows = flows;
        self
    }

    /// Makes the whole life of each span a slice too, from its making to the end of its last handle, on a track of its
    /// own. This shows how long an async request takes, waiting included, and which requests overlap. The track lies
    /// within that of the span's parent, if the parent's life is recorded in the same session, whether it has ended or
    /// not; otherwise within the process, beside its threads. ui.perfetto.dev groups tracks with the same name. A track
    /// lies within at most eight others; deeper ones lie within the eighth, beside their parent. A span made while
    /// nothing is recorded has none, and one whose end is lost stays open. If events go to another session when the
    /// span ends, only a thread that has recorded in the span's own session ends it.
    ///
    /// With [flows](Self::flows) an arrow leads from it to the span's first slice, and on to the others, showing which
    /// polls belong to it. Without flows nothing does, and each of these slices is 10 bytes shorter.
    ///
    /// ```
    /// # use tracebuf_session::Session;
    /// # use tracebuf_tracing::TraceSubscriber;
    /// let session = Session::builder().start()?;
    /// let subscriber = TraceSubscriber::new(session.recorder()).lifetimes(true).flows(true);
    /// tracing::subscriber::with_default(subscriber, || {
    ///     let request = tracing::info_span!("request");
    ///     // On a track within the request's, whichever threads poll them.
    ///     let query = tracing::info_span!(parent: &request, "query");
    ///     query.in_scope(|| tracing::info!("polled"));
    /// });
    /// # Ok::<(), tracebuf_session::SessionError>(())
    /// ```
    ///
    /// Cost: some 450 ns and 80 bytes a span; where a thread switches between many such tasks, also some 100 ns and 40
    /// bytes for each life that the next one lies within.
    #[must_use]
    pub fn lifetimes(mut self, lifetimes: bool) -> Self {
        self.owner.lifetimes = lifetimes;
        self
    }

    /// Adds to each slice and instant where in the program it comes from: its file and line as the source location,
    /// which ui.perfetto.dev shows among the details, and its target as another category, for searching and querying.
    ///
    /// Cost: some 60 ns a span or event, and 5 bytes while its place and target find room among the thread's 127 names.
    #[must_use]
    pub fn origins(mut self, origins: bool) -> Self {
        self.owner.origins = origins;
        self
    }

    /// Makes each event a log line too: its message followed by its fields, in ui.perfetto.dev's list of logs, which
    /// can be filtered by level and text.
    ///
    /// Cost: that of another event, plus some 20 bytes and the line.
    #[must_use]
    pub fn logs(mut self, logs: bool) -> Self {
        self.owner.logs = logs;
        self
    }

    /// Makes a span that has something to keep, or is the first of its callsite.
    #[inline(never)]
    fn make(&self, span: &Attributes<'_>) -> Id {
        let metadata = span.metadata();
        if !self.owner.keeps(metadata)
            && let Some(number) = callsites::number(metadata)
        {
            return Id::from_non_zero_u64(number);
        }
        let mut fields = KeptFields::with_room(metadata.fields().len());
        span.record(&mut fields);
        let data = lifetimes::begin(&self.owner, metadata, fields, || self.life_of_parent(span));
        Id::from_u64(self.spans.insert(data))
    }

    /// The life of the span that a new one is within, if it is recorded.
    fn life_of_parent(&self, span: &Attributes<'_>) -> Option<Arc<Life>> {
        let parent = match span.parent() {
            Some(parent) => parent.into_u64(),
            None if span.is_contextual() => stack::current(&self.owner)?.0,
            None => return None,
        };
        let data = stack::data_of_current(&self.owner, parent).or_else(|| self.spans.get(parent))?;
        data.life.clone()
    }

    /// Makes a span that may be entered once a relay is connected; its fields are not kept meanwhile.
    #[cold]
    fn make_while_off(&self, metadata: &'static Metadata<'static>) -> Id {
        let number = if self.owner.recorder.goes_on() { callsites::number(metadata) } else { None };
        number.map_or(Id::from_u64(Spans::NONE), Id::from_non_zero_u64)
    }

    #[inline(never)]
    fn enter_kept(&self, id: &Id) {
        if !self.owner.recorder.is_on() {
            stack::enter_while_off(&self.owner, id.into_u64());
        } else if let Some(data) = self.kept(id) {
            stack::enter(&self.owner, id.into_u64(), data.metadata, Some(data));
        }
    }

    /// What is kept of a span, if anything is recorded, or may be later.
    fn kept(&self, id: &Id) -> Option<Arc<SpanData>> {
        if self.owner.recorder.goes_on() { self.spans.get(id.into_u64()) } else { None }
    }

    /// Drops a handle of a span with something to keep. True: it was the last.
    #[inline(never)]
    fn drop_handle(&self, id: &Id) -> bool {
        let gone = self.spans.drop_reference(id.into_u64());
        if let Some(gone) = &gone {
            lifetimes::end(&self.owner.recorder, gone);
        }
        gone.is_some()
    }

    /// Whether handles of a span are counted. They are even after the session is over: the last one frees the memory.
    fn is_counted(&self, id: &Id) -> bool {
        id.into_u64() >= Spans::FIRST && self.owner.recorder.is_here()
    }

    fn lets_through(&self, metadata: &Metadata<'_>) -> bool {
        self.filter.would_enable(metadata.target(), metadata.level())
    }
}

impl fmt::Debug for TraceSubscriber {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { owner, filter, .. } = self;
        let mut told = f.debug_struct("TraceSubscriber");
        told.field("owner", owner).field("filter", filter).finish_non_exhaustive()
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
        if !self.owner.recorder.is_on() {
            return self.make_while_off(metadata);
        }
        match callsites::known(metadata) {
            Some(number) if !self.owner.keeps(metadata) => Id::from_non_zero_u64(number),
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
        instant(&self.owner, event);
    }

    #[inline]
    fn enter(&self, span: &Id) {
        let id = span.into_u64();
        if id < Spans::FIRST {
            if let Some(metadata) = callsites::metadata(id) {
                stack::enter_plain(&self.owner, id, metadata);
            }
        } else {
            self.enter_kept(span);
        }
    }

    #[inline]
    fn exit(&self, span: &Id) {
        stack::exit(&self.owner, span.into_u64());
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
        match stack::current(&self.owner) {
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
