//! Counters that all threads add to.

use std::sync::atomic::{AtomicI64, AtomicU32, AtomicU64, Ordering};

use self_cell::self_cell;
use tracebuf::producer::track_event::{Track, Unit};

use crate::recorder::Recorder;
use crate::this_process::this_process;

struct Name {
    name: String,
    process: Track<'static>,
}

self_cell!(
    struct TrackCell {
        owner: Name,
        #[covariant]
        dependent: Track,
    }
);

/// A counter that any thread adds to or sets, on a track within this process.
///
/// ```
/// use tracebuf_session::{Session, SharedCounter, Unit};
///
/// let session = Session::builder().start()?;
/// let requests = SharedCounter::new(session.recorder(), "requests", Unit::Count);
/// std::thread::scope(|scope| {
///     for _ in 0..4 {
///         scope.spawn(|| requests.add(1)); // 1, 2, 3, 4, whichever thread comes first
///     }
/// });
/// # Ok::<(), tracebuf_session::SessionError>(())
/// ```
///
/// Values are in the trace in the order in which they were reached. If several threads change it at once, one of them
/// records for all, so a value between may be missing; the last one is there. Nothing waits.
///
/// Cost: that of [`Recorder::count`], plus two atomic additions.
#[derive(Debug)]
pub struct SharedCounter {
    recorder: Recorder,
    track: TrackCell,
    /// The sum of whole numbers.
    whole: AtomicI64,
    /// The sum of all others, as the bits of a fraction.
    rest: AtomicU64,
    /// Changes that are not recorded yet.
    changes: AtomicU32,
}

impl std::fmt::Debug for TrackCell {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.borrow_dependent().fmt(f)
    }
}

impl SharedCounter {
    /// A counter of this name, from zero. Counters of the same name share a track, but not their values.
    pub fn new(recorder: Recorder, name: impl Into<String>, unit: Unit) -> Self {
        let owner = Name { name: name.into(), process: this_process() };
        let track = TrackCell::new(owner, |owner| Track::counter(&owner.name, unit).within(&owner.process));
        let (whole, rest, changes) = (AtomicI64::new(0), AtomicU64::new(0), AtomicU32::new(0));
        Self { recorder, track, whole, rest, changes }
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.track.borrow_owner().name
    }

    /// Adds to it. It ends at the largest and the smallest number of 64 bits.
    pub fn add(&self, more: i64) {
        let add = |sum: i64| Some(sum.saturating_add(more));
        let _ = self.whole.fetch_update(Ordering::Relaxed, Ordering::Relaxed, add);
        self.record();
    }

    /// Adds a fraction to it; one that is no number, or infinite, adds nothing.
    pub fn add_fraction(&self, more: f64) {
        if more.is_finite() {
            let add = |bits| Some((f64::from_bits(bits) + more).to_bits());
            let _ = self.rest.fetch_update(Ordering::Relaxed, Ordering::Relaxed, add);
            self.record();
        }
    }

    /// Raises it to this value; it stays if it is higher.
    pub fn raise_to(&self, value: i64) {
        self.whole.fetch_max(value, Ordering::Relaxed);
        self.record();
    }

    /// Sets it; a fraction that is no number, or infinite, leaves it as it is.
    pub fn set(&self, value: f64) {
        if value.is_finite() {
            self.whole.store(0, Ordering::Relaxed);
            self.rest.store(value.to_bits(), Ordering::Relaxed);
            self.record();
        }
    }

    /// Sets it to a whole number.
    pub fn set_whole(&self, value: i64) {
        self.rest.store(0, Ordering::Relaxed);
        self.whole.store(value, Ordering::Relaxed);
        self.record();
    }

    fn record(&self) {
        // Whoever comes first records for all that come meanwhile.
        if self.changes.fetch_add(1, Ordering::AcqRel) != 0 {
            return;
        }
        let mut recorded = 1;
        loop {
            let (whole, rest) = (self.whole.load(Ordering::Relaxed), self.rest.load(Ordering::Relaxed));
            let (track, rest) = (self.track.borrow_dependent(), f64::from_bits(rest));
            // As a whole number, if it is one: that takes fewer bytes.
            if rest == 0.0 {
                self.recorder.count(track, whole);
            } else if rest.fract() == 0.0 && rest.abs() < MOST_WHOLE {
                self.recorder.count(track, whole.saturating_add(rest as i64));
            } else {
                self.recorder.measure(track, whole as f64 + rest);
            }
            let left = self.changes.fetch_sub(recorded, Ordering::AcqRel).wrapping_sub(recorded);
            if left == 0 {
                return;
            }
            recorded = left;
        }
    }
}

/// Up to here a fraction is exact if it is whole.
const MOST_WHOLE: f64 = (1u64 << 53) as f64;
