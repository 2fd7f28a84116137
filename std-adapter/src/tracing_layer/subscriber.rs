//! The subscriber of its own.

use tracing_core::span::{Attributes, Current, Id, Record};
use tracing_core::{Event, Interest, Level, LevelFilter, Metadata, Subscriber};
use tracing_subscriber::filter::Targets;

use super::fields::KeptFields;
use super::spans::{SpanData, Spans};
use super::{callsites, stack};
use crate::session::Recorder;

/// Records all spans and events, and nothing else: no registry, no other layers.
///
/// ```
/// use tracebuf_std::session::Session;
/// use tracebuf_std::tracing_layer::TraceSubscriber;
///
/// let session = Session::builder().fast_clock().start()?;
/// let subscriber = TraceSubscriber::new(session.recorder())
///     .targets("hyper=warn,my_program=trace".parse()?)
///     .flows(true);
/// tracing::subscriber::with_default(subscriber, || tracing::info!("not of these targets"));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// What the filter refuses costs what `tracing` itself takes: the answer is kept with each callsite.
///
/// Cost: a span without fields needs no memory, and its id says only where it was made. With fields, and with
/// flows, each span is an entry in a table, some 100 ns more.
pub struct TraceSubscriber {
    recorder: Recorder,
    spans: Spans,
    filter: Targets,
    flows: bool,
}

impl TraceSubscriber {
    /// All levels and targets, without flows.
    pub fn new(recorder: Recorder) -> Self {
        let filter = Targets::new().with_default(LevelFilter::TRACE);
        Self { recorder, spans: Spans::new(), filter, flows: false }
    }

    /// Nothing more verbose than this level.
    #[must_use]
    pub fn max_level(self, level: Level) -> Self {
        self.targets(Targets::new().with_default(level))
    }

    /// What these targets let through.
    #[must_use]
    pub fn targets(mut self, targets: Targets) -> Self {
        self.filter = targets;
        self
    }

    /// Joins the slices of a span, and those of one that follows from it, by arrows.
    #[must_use]
    pub fn flows(mut self, flows: bool) -> Self {
        self.flows = flows;
        self
    }

    /// A span with something to keep.
    #[inline(never)]
    fn keep(&self, span: &Attributes<'_>) -> Id {
        let mut fields = KeptFields::default();
        if self.recorder.is_on() {
            span.record(&mut fields);
        }
        Id::from_u64(self.spans.insert(SpanData::new(span.metadata(), fields, self.flows)))
    }

    #[inline(never)]
    fn enter_kept(&self, id: u64) {
        if let Some(data) = self.spans.get(id) {
            stack::enter(&self.recorder, id, data.metadata, Some(data));
        }
    }

    fn lets_through(&self, metadata: &Metadata<'_>) -> bool {
        self.filter.would_enable(metadata.target(), metadata.level())
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
        if !self.flows
            && metadata.fields().is_empty()
            && let Some(number) = callsites::number(metadata)
        {
            return Id::from_u64(number);
        }
        self.keep(span)
    }

    fn record(&self, span: &Id, values: &Record<'_>) {
        if let Some(data) = self.spans.get(span.into_u64()) {
            data.record(values);
        }
    }

    fn record_follows_from(&self, span: &Id, follows: &Id) {
        if let (Some(span), Some(follows)) =
            (self.spans.get(span.into_u64()), self.spans.get(follows.into_u64()))
        {
            span.follow(&follows);
        }
    }

    fn event(&self, event: &Event<'_>) {
        stack::instant(&self.recorder, event);
    }

    #[inline]
    fn enter(&self, span: &Id) {
        let id = span.into_u64();
        if id < Spans::FIRST {
            if let Some(metadata) = callsites::metadata(id) {
                stack::enter_plain(&self.recorder, id, metadata);
            }
        } else {
            self.enter_kept(id);
        }
    }

    #[inline]
    fn exit(&self, span: &Id) {
        stack::exit(&self.recorder, span.into_u64());
    }

    #[inline]
    fn clone_span(&self, span: &Id) -> Id {
        if span.into_u64() >= Spans::FIRST {
            self.spans.add_reference(span.into_u64());
        }
        span.clone()
    }

    #[inline]
    fn try_close(&self, span: Id) -> bool {
        span.into_u64() < Spans::FIRST || self.spans.drop_reference(span.into_u64())
    }

    fn current_span(&self) -> Current {
        match stack::current(&self.recorder) {
            Some((id, metadata)) => Current::new(Id::from_u64(id), metadata),
            None => Current::none(),
        }
    }
}
