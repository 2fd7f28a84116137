//! The front end that layer and subscriber share: a recorder, an identity, and what of spans and events they record.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use tracebuf::producer::track_event::Event;
use tracing_core::Metadata;

use super::counters::Counters;
use super::layers::{self, MOST, WHICH};
use super::lifetime::Life;
use super::origin::Origin;
use super::slow::SlowRules;
use tracebuf_session::Recorder;

/// A layer or subscriber, which records spans and makes their ids.
#[derive(Debug)]
pub(super) struct Frontend {
    pub(super) recorder: Recorder,
    /// The recorder's identity and, in the upper 16 bits, which of its layers or subscribers this is. In one number,
    /// because it is checked whenever a span is entered or exited.
    pub(super) number: u64,
    pub(super) flows: bool,
    pub(super) lifetimes: bool,
    pub(super) origins: bool,
    pub(super) logs: bool,
    pub(super) counters: Counters,
    pub(super) slow: SlowRules,
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
        let (process, counters, slow) = (OnceLock::new(), Counters::default(), SlowRules::default());
        let (flows, lifetimes, origins, logs) = (false, false, false, false);
        Self { recorder, number, flows, lifetimes, origins, logs, counters, slow, process }
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
        event.category(metadata.level().as_str());
        if self.origins {
            Origin::of(metadata).describe(event);
        }
        event
    }

    /// Whether there is something to keep of a span with this metadata.
    pub(super) fn keeps(&self, metadata: &Metadata<'_>) -> bool {
        self.flows || self.lifetimes || !metadata.fields().is_empty() || self.slow.watch(metadata)
    }
}

/// The options of whatever has a front end.
macro_rules! options {
    () => {
        /// Records what async programs need: [lifetimes](Self::lifetimes), [flows](Self::flows), [logs](Self::logs) and
        /// [origins](Self::origins). Threads only show the polls of a request; its own track shows how long it takes.
        pub fn for_async(recorder: Recorder) -> Self {
            Self::new(recorder).lifetimes(true).flows(true).logs(true).origins(true)
        }

        /// Has a flight recorder write a snapshot `slow-NAME` when a span of this name takes longer than this, from its
        /// making to the end of its last handle: for an async span the waiting is included.
        ///
        /// The snapshot reaches from 100 ms before the span to 100 ms after it, as far as the ring does, whatever else
        /// is set. An instant with the span's name, duration and fields marks the end. Of several rules that a span
        /// breaks, the first counts. How many snapshots stay and how soon one may follow another, the flight recorder
        /// says; once it is gone, there are none.
        ///
        /// A span that hangs has a snapshot `open-NAME` besides, once it has been open for twice its limit, and a second
        /// more than that at least: a thread looks four times a second, at up to 256 such spans at a time.
        ///
        /// Cost: for these spans an entry, as with fields, and two readings of the clock and a lock that
        /// nobody waits for; for others a comparison of
        /// names.
        #[must_use]
        pub fn slow(self, name: impl Into<String>, limit: Duration, flight: &FlightRecorder) -> Self {
            self.watch($crate::slow::Which::Name(name.into()), limit, flight)
        }

        /// The same for spans of a target, such as a module, and of those within it.
        #[must_use]
        pub fn slow_in(self, target: impl Into<String>, limit: Duration, flight: &FlightRecorder) -> Self {
            self.watch($crate::slow::Which::Target(target.into()), limit, flight)
        }

        /// The same for all spans. Each name is a reason of its own, of which a flight recorder has 64 at most.
        #[must_use]
        pub fn slow_any(self, limit: Duration, flight: &FlightRecorder) -> Self {
            self.watch($crate::slow::Which::Any, limit, flight)
        }

        fn watch(mut self, which: $crate::slow::Which, limit: Duration, flight: &FlightRecorder) -> Self {
            self.frontend.slow.add(which, limit, flight);
            $crate::lifetime::ARE_WANTED.store(true, std::sync::atomic::Ordering::Relaxed);
            self
        }

        /// Joins the slices of a span, and those of one that follows from it, by arrows: flows. Their ids are 64 bits
        /// that look random, so they practically never equal your own or those of other processes.
        ///
        /// Cost: some 200 ns a span.
        #[must_use]
        pub fn flows(mut self, flows: bool) -> Self {
            self.frontend.flows = flows;
            self
        }

        /// Makes the whole life of each span a slice too, from its making to the end of its last handle, on a track of
        /// its own: how long an async request takes, waiting included, and which requests overlap.
        ///
        /// The track lies within that of the span's parent, if the parent's life is recorded in the same session, even
        /// when it has ended; otherwise within the process, beside its threads. ui.perfetto.dev groups tracks with the
        /// same name. Tracks are nested eight deep at most; deeper ones lie beside their parent. A span made while a
        /// relay led nowhere has its life once it is entered in a session, and one whose end is lost stays open. If
        /// events go to another session when the span ends, only a thread that has recorded in the span's own session
        /// ends it.
        ///
        /// With [flows](Self::flows), arrows lead from it to the span's slices, each 10 bytes longer.
        ///
        /// Cost: some 450 ns and 80 bytes a span; where a thread switches between many such tasks, also some 100 ns
        /// and 40 bytes for each life that the next one lies within.
        #[must_use]
        pub fn lifetimes(mut self, lifetimes: bool) -> Self {
            self.frontend.lifetimes = lifetimes;
            if lifetimes {
                $crate::lifetime::ARE_WANTED.store(true, std::sync::atomic::Ordering::Relaxed);
            }
            self
        }

        /// Adds to each slice and instant its file and line as the source location, which ui.perfetto.dev shows among
        /// the details, and its target as another category, for searching and querying.
        ///
        /// Cost: some 60 ns a span or event, and 5 bytes while its place and target find room among the thread's 127
        /// names.
        #[must_use]
        pub fn origins(mut self, origins: bool) -> Self {
            self.frontend.origins = origins;
            self
        }

        /// Makes each event a log line too: its message followed by its fields, in ui.perfetto.dev's list of logs,
        /// which can be filtered by level and text.
        ///
        /// Cost: that of another event, plus some 20 bytes and the line.
        #[must_use]
        pub fn logs(mut self, logs: bool) -> Self {
            self.frontend.logs = logs;
            self
        }
    };
}
pub(super) use options;
