//! The layer on top of a registry: [`TraceLayer`].

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use tracing_core::span::{Attributes, Id, Record};
use tracing_core::{Event, Subscriber};
use tracing_subscriber::Layer;
use tracing_subscriber::layer::Context;
use tracing_subscriber::registry::{LookupSpan, SpanRef};

use super::events::instant;
use super::fields::KeptFields;
use super::frontend::{Frontend, options};
use super::lifetime::{self, Life};
use super::spans::SpanData;
use super::stack;
use tracebuf_session::{FlightRecorder, Recorder};

/// Records what passes through it, on top of a registry.
///
/// ```
/// use tracebuf_session::Session;
/// use tracebuf_tracing::TraceLayer;
/// use tracing_subscriber::filter::LevelFilter;
/// use tracing_subscriber::prelude::*;
///
/// let session = Session::builder().start()?;
/// let layer = TraceLayer::new(session.recorder()).flows(true).with_filter(LevelFilter::INFO);
/// tracing::subscriber::with_default(tracing_subscriber::registry().with(layer), || {
///     tracing::info!("recorded");
///     tracing::debug!("not recorded");
/// });
/// # Ok::<(), tracebuf_session::SessionError>(())
/// ```
///
/// A span without fields, flows and lifetimes adds nothing to what the registry keeps of it.
///
/// Two registries with layers of the same session number their spans alike: a thread that exits spans of both out of
/// order may end the slice of one instead of the other's (with a buffer for each layer, only if both spans are of the
/// same place in the program), and a life may lie within one of the other registry's.
#[derive(Debug)]
pub struct TraceLayer {
    frontend: Frontend,
}

impl TraceLayer {
    /// Records without flows, lifetimes, origins and logs.
    pub fn new(recorder: Recorder) -> Self {
        Self { frontend: Frontend::layer(recorder) }
    }

    options!();

    fn data_of<S: Subscriber + for<'l> LookupSpan<'l>>(
        &self,
        id: &Id,
        context: &Context<'_, S>,
    ) -> Option<Arc<SpanData>> {
        let span = context.span(id)?;
        let extensions = span.extensions();
        let kept = extensions.get::<SpanExtension>()?;
        kept.of(&self.frontend).next().cloned()
    }

    /// The life of a span as layers of the same recorder have recorded it; the first, if several have.
    fn life_of<'r, S: LookupSpan<'r>>(
        &self,
        span: &SpanRef<'r, S>,
        current: Option<&Id>,
    ) -> Option<Arc<Life>> {
        // Mostly it is the current span, whose extensions another layer may have locked while it writes a value into
        // them that traces as it is formatted. They are looked at only where there are other layers of this recorder.
        let of_others = || {
            let extensions = span.extensions();
            extensions.get::<SpanExtension>()?.of(&self.frontend).find_map(|data| data.life.clone())
        };
        match stack::data_of_current(&self.frontend, span.id().into_u64()) {
            Some(data) => data.life.clone().or_else(of_others),
            None if current == Some(&span.id()) => None,
            None => of_others(),
        }
    }
}

/// Kept in a span's extensions, which all layers of a registry share, with the identity of each layer's recorder.
#[derive(Clone)]
struct SpanExtension {
    first: (u64, Arc<SpanData>),
    /// Those of other layers of the crate, which are few.
    others: Vec<(u64, Arc<SpanData>)>,
}

impl SpanExtension {
    fn of(&self, frontend: &Frontend) -> impl Iterator<Item = &Arc<SpanData>> {
        let identity = frontend.recorder.identity();
        let all = std::iter::once(&self.first).chain(&self.others);
        all.filter(move |(of, _)| *of == identity).map(|(_, data)| data)
    }
}

impl<S: Subscriber + for<'l> LookupSpan<'l>> Layer<S> for TraceLayer {
    fn on_new_span(&self, attributes: &Attributes<'_>, id: &Id, context: Context<'_, S>) {
        let metadata = attributes.metadata();
        if !self.frontend.recorder.is_on() || !self.frontend.keeps(metadata) {
            return;
        }
        let mut fields = KeptFields::with_room(metadata.fields().len());
        attributes.record(&mut fields);
        if let Some(span) = context.span(id) {
            let parent = || self.life_of(&span.parent()?, context.current_span().id());
            let data = Arc::new(SpanData::begin(&self.frontend, metadata, fields, parent));
            let data = (self.frontend.recorder.identity(), data);
            let mut extensions = span.extensions_mut();
            match extensions.get_mut::<SpanExtension>() {
                Some(kept) => kept.others.push(data),
                None => extensions.insert(SpanExtension { first: data, others: Vec::new() }),
            }
        }
    }

    fn on_record(&self, id: &Id, values: &Record<'_>, context: Context<'_, S>) {
        if self.frontend.recorder.goes_on()
            && let Some(data) = self.data_of(id, &context)
        {
            data.record(values);
        }
    }

    fn on_follows_from(&self, id: &Id, follows: &Id, context: Context<'_, S>) {
        if self.frontend.recorder.goes_on()
            && let (Some(span), Some(follows)) = (self.data_of(id, &context), self.data_of(follows, &context))
        {
            span.follow(&follows);
        }
    }

    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        instant(&self.frontend, event);
    }

    fn on_enter(&self, id: &Id, context: Context<'_, S>) {
        stack::leave_those_of_gone_layers(&self.frontend);
        if !self.frontend.recorder.is_on() {
            return stack::enter_while_off(&self.frontend, id.into_u64());
        }
        let Some(span) = context.span(id) else { return };
        let metadata = span.metadata();
        let data = if self.frontend.keeps(metadata) { self.data_of(id, &context) } else { None };
        stack::enter(&self.frontend, id.into_u64(), metadata, data);
    }

    fn on_close(&self, id: Id, context: Context<'_, S>) {
        // Also lives that another layer of this recorder has begun, even if that layer is gone.
        if !lifetime::ARE_WANTED.load(Ordering::Relaxed) || !self.frontend.recorder.goes_on() {
            return;
        }
        let Some(span) = context.span(&id) else { return };
        // No lock is held while an event is written.
        let kept = span.extensions().get::<SpanExtension>().cloned();
        for data in kept.iter().flat_map(|kept| kept.of(&self.frontend)) {
            data.end(&self.frontend.recorder);
        }
    }

    fn on_exit(&self, id: &Id, _: Context<'_, S>) {
        stack::exit(&self.frontend, id.into_u64());
    }
}
