//! Spans that are still open long after they should have ended: a thread looks for them.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, Weak};
use std::thread;
use std::time::Duration;

/// How long after its limit a span hangs, at least.
const GRACE: Duration = Duration::from_secs(1);

/// Time between two looks.
const INTERVAL: Duration = Duration::from_millis(250);

/// Spans that are looked at, at a time.
const SPANS: usize = 256;

/// Places that are tried for a new one.
const TRIES: usize = 8;

/// How long a span may be open that is to take so long.
pub(super) fn patience(limit: Duration) -> Duration {
    limit.saturating_mul(2).max(limit.saturating_add(GRACE))
}

/// A span that is measured.
pub(super) trait Measured: Send + Sync + 'static {
    /// Triggers if it has been open for too long.
    fn look(&self);
}

/// The spans that may hang. A place is free again when its span is gone: that costs the span's end nothing.
pub(super) struct Open<S> {
    places: Box<[Mutex<Weak<S>>]>,
    next: AtomicUsize,
    has_thread: AtomicBool,
}

impl<S: Measured> Open<S> {
    pub(super) fn new() -> Self {
        let places = (0..SPANS).map(|_| Mutex::new(Weak::new())).collect();
        Self { places, next: AtomicUsize::new(0), has_thread: AtomicBool::new(false) }
    }

    /// Has a span looked at from now on, if a place is free nearby. It waits for nobody.
    pub(super) fn add(self: &Arc<Self>, span: &Arc<S>) {
        self.start();
        let first = self.next.fetch_add(1, Ordering::Relaxed);
        let places = self.places.iter().cycle().skip(first % SPANS).take(TRIES);
        let mut locked = places.filter_map(|place| place.try_lock().ok());
        if let Some(mut place) = locked.find(|place| place.strong_count() == 0) {
            *place = Arc::downgrade(span);
        }
    }

    /// Starts the thread, once.
    fn start(self: &Arc<Self>) {
        if self.has_thread.load(Ordering::Relaxed) || self.has_thread.swap(true, Ordering::Relaxed) {
            return;
        }
        let open = Arc::downgrade(self);
        let look = move || {
            while let Some(open) = open.upgrade() {
                open.look();
                drop(open);
                thread::sleep(INTERVAL);
            }
        };
        // Without it, what hangs triggers at its end only.
        let _ = thread::Builder::new().name("tracebuf-slow".into()).spawn(look);
    }

    fn look(&self) {
        for place in &self.places {
            // Not while it triggers: a new span would find the place locked.
            let span = place.lock().ok().and_then(|place| place.upgrade());
            span.iter().for_each(|span| span.look());
        }
    }
}
