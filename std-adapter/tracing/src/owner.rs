//! What records spans and events, and how.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use tracing_core::Metadata;

use super::layers::{self, MOST, WHICH};
use super::life::Life;
use tracebuf_session::Recorder;

/// A layer or subscriber, which records spans and makes their ids.
#[derive(Debug)]
pub(super) struct Owner {
    pub(super) recorder: Recorder,
    /// The recorder's identity and, in the upper 16 bits, which of its owners this is. In one number, because it is
    /// checked whenever a span is entered or exited.
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

impl Owner {
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

    /// Whether there is something to keep of a span with this metadata.
    pub(super) fn keeps(&self, metadata: &Metadata<'_>) -> bool {
        self.flows || self.lifetimes || !metadata.fields().is_empty()
    }
}
