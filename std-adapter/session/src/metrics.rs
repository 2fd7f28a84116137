//! A recorder for the crate `metrics`.

use std::collections::HashMap;
use std::fmt::Write;
use std::sync::{Arc, PoisonError, RwLock};

use metrics::{
    Counter, CounterFn, Gauge, GaugeFn, Histogram, HistogramFn, Key, KeyName, Metadata, SetRecorderError,
    SharedString,
};
use tracebuf::producer::track_event::Unit;

use crate::recorder::Recorder;
use crate::shared_counter::SharedCounter;

/// Records what comes through the crate `metrics` as counter tracks of this process. With the feature `metrics`.
///
/// ```
/// use tracebuf_session::{MetricsRecorder, Session};
///
/// let session = Session::builder().start()?;
/// MetricsRecorder::new(session.recorder()).init()?;
/// metrics::counter!("requests", "method" => "GET").increment(1);
/// metrics::gauge!("queue").set(5);
/// metrics::histogram!("latency").record(0.25);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// | metric | track |
/// |---|---|
/// | counter | its sum after each change |
/// | gauge | its value after each change |
/// | histogram | each value as it comes: a trace has them all, so nothing is put into buckets |
///
/// A track is named as the metric, with its labels in braces: `requests{method=GET}`. It has the unit with which the
/// metric was described before it was first used. Metrics of different labels are different tracks, each of which is
/// kept in memory for ever, as in other recorders.
///
/// Sums begin with the recorder's making, also while it records nothing. Values that are no numbers, or infinite, are
/// left out.
///
/// A program that has another recorder as well combines both with `metrics-util`'s `FanoutBuilder`.
///
/// Cost: that of a [`SharedCounter`], plus some 50 ns to find it, unless the program keeps the handle.
#[derive(Debug)]
pub struct MetricsRecorder {
    recorder: Recorder,
    // Apart, so that an error that gives the recorder back is small.
    known: Box<Known>,
}

#[derive(Debug, Default)]
struct Known {
    counters: RwLock<HashMap<(Kind, Key), Arc<Metric>>>,
    units: RwLock<HashMap<(Kind, KeyName), Unit>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Kind {
    Counter,
    Gauge,
    Histogram,
}

#[derive(Debug)]
struct Metric(SharedCounter);

impl MetricsRecorder {
    /// A recorder of all metrics.
    pub fn new(recorder: Recorder) -> Self {
        Self { recorder, known: Box::default() }
    }

    /// Makes it the program's recorder of metrics.
    ///
    /// # Errors
    /// The program has one already.
    pub fn init(self) -> Result<(), SetRecorderError<Self>> {
        metrics::set_global_recorder(self)
    }

    fn describe(&self, kind: Kind, name: KeyName, unit: Option<metrics::Unit>) {
        if let Some(unit) = unit {
            let mut units = self.known.units.write().unwrap_or_else(PoisonError::into_inner);
            units.insert((kind, name), unit_of(unit));
        }
    }

    fn metric(&self, kind: Kind, key: &Key) -> Arc<Metric> {
        let place = (kind, key.clone());
        let known = self.known.counters.read().unwrap_or_else(PoisonError::into_inner).get(&place).cloned();
        known.unwrap_or_else(|| {
            let unit = (kind, KeyName::from(key.name().to_owned()));
            let unit = self.known.units.read().unwrap_or_else(PoisonError::into_inner).get(&unit).copied();
            let counter =
                SharedCounter::new(self.recorder.clone(), name_of(key), unit.unwrap_or(Unit::Unspecified));
            let mut counters = self.known.counters.write().unwrap_or_else(PoisonError::into_inner);
            counters.entry(place).or_insert_with(|| Arc::new(Metric(counter))).clone()
        })
    }
}

/// The name and, in braces, its labels.
fn name_of(key: &Key) -> String {
    let mut name = key.name().to_owned();
    let mut before = "{";
    for label in key.labels() {
        // A string takes all.
        let _ = write!(name, "{before}{}={}", label.key(), label.value());
        before = ",";
    }
    if before == "," {
        name.push('}');
    }
    name
}

fn unit_of(unit: metrics::Unit) -> Unit {
    match unit {
        metrics::Unit::Count => Unit::Count,
        metrics::Unit::Bytes => Unit::Bytes,
        metrics::Unit::Nanoseconds => Unit::Nanoseconds,
        other => Unit::Named(other.as_canonical_label()),
    }
}

impl metrics::Recorder for MetricsRecorder {
    fn describe_counter(&self, key: KeyName, unit: Option<metrics::Unit>, _: SharedString) {
        self.describe(Kind::Counter, key, unit);
    }

    fn describe_gauge(&self, key: KeyName, unit: Option<metrics::Unit>, _: SharedString) {
        self.describe(Kind::Gauge, key, unit);
    }

    fn describe_histogram(&self, key: KeyName, unit: Option<metrics::Unit>, _: SharedString) {
        self.describe(Kind::Histogram, key, unit);
    }

    fn register_counter(&self, key: &Key, _: &Metadata<'_>) -> Counter {
        Counter::from_arc(self.metric(Kind::Counter, key))
    }

    fn register_gauge(&self, key: &Key, _: &Metadata<'_>) -> Gauge {
        Gauge::from_arc(self.metric(Kind::Gauge, key))
    }

    fn register_histogram(&self, key: &Key, _: &Metadata<'_>) -> Histogram {
        Histogram::from_arc(self.metric(Kind::Histogram, key))
    }
}

/// As large as a trace can tell.
fn whole(value: u64) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}

impl CounterFn for Metric {
    fn increment(&self, value: u64) {
        self.0.add(whole(value));
    }

    fn absolute(&self, value: u64) {
        self.0.raise_to(whole(value));
    }
}

impl GaugeFn for Metric {
    fn increment(&self, value: f64) {
        self.0.add_fraction(value);
    }

    fn decrement(&self, value: f64) {
        self.0.add_fraction(-value);
    }

    fn set(&self, value: f64) {
        self.0.set(value);
    }
}

impl HistogramFn for Metric {
    fn record(&self, value: f64) {
        self.0.set(value);
    }
}
