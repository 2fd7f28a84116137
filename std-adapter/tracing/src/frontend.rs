//! What layer and subscriber have in common: a recorder, an identity, and what of spans and events they record.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use tracebuf::producer::track_event::Event;
use tracing_core::{Level, Metadata};

use super::layers::{self, MOST, WHICH};
use super::lifetime::Life;
use tracebuf_session::Recorder;

/// A layer or subscriber, which records spans and makes their ids.
#[derive(Debug)]
pub(super) struct Frontend {
    pub(super) recorder: Recorder,
    /// The recorder's identity and, in the upper 16 bits, which of its layers or subscribers this is. In one number,
    /// because it is checked whenever a span is entered or exited.
    pub(super) number: u64,
    /// Whether a span's slices are joined by flows.
    pub(super) flows: bool,
    /// Whether a span's whole life is a slice too.
    pub(super) lifetimes: bool,
    /// Whether slices and instants say where in the program they come from.
    pub(super) origins: bool,
    /// Whether events are lines of a log too.
    pub(super) logs: bool,
    /// The process's track, which contains lives.
    process: OnceLock<Arc<Life>>,
}

impl Frontend {
    /// All layers of a recorder that exist at the same time count as one: the ids are their registry's, and stay when
    /// one layer replaces another.
    pub(super) fn layer(recorder: Recorder) -> Self {
        Self::new(layers::begin(recorder.identity()), recorder)
    }

    /// Two subscribers that record to one place make the same ids. A number is used again after 32,767 of them.
    pub(super) fn subscriber(recorder: Recorder) -> Self {
        static SUBSCRIBERS: AtomicU64 = AtomicU64::new(0);
        let which = SUBSCRIBERS.fetch_add(1, Ordering::Relaxed) % MOST + 1;
        Self::new(which << WHICH | recorder.identity(), recorder)
    }

    fn new(number: u64, recorder: Recorder) -> Self {
        let process = OnceLock::new();
        Self { recorder, number, flows: false, lifetimes: false, origins: false, logs: false, process }
    }

    /// Made when the first life begins; by then a session has given it its name. Others do not wait for it: a traced
    /// allocator may come here again.
    pub(super) fn process(&self) -> Arc<Life> {
        if let Some(known) = self.process.get() {
            return known.clone();
        }
        let made = Arc::new(Life::process());
        let _ = self.process.set(made.clone());
        made
    }

    /// Adds the level to an event and, if origins are wanted, the target, file and line.
    pub(super) fn describe<'x, 'e, 'w, 'a>(
        &self,
        metadata: &'static Metadata<'static>,
        event: &'x mut Event<'e, 'w, 'a>,
    ) -> &'x mut Event<'e, 'w, 'a> {
        event.category(category(metadata.level()));
        if self.origins {
            event.category(metadata.target());
            if let Some(file) = metadata.file() {
                event.source_location(file, metadata.line().unwrap_or(0));
            }
        }
        event
    }

    /// Whether there is something to keep of a span with this metadata.
    pub(super) fn keeps(&self, metadata: &Metadata<'_>) -> bool {
        self.flows || self.lifetimes || !metadata.fields().is_empty()
    }
}

/// A level's name, as a category.
pub(super) fn category(level: &Level) -> &'static str {
    level.as_str()
}
