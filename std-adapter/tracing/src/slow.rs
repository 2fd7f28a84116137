//! Slow spans: those that take longer than they may, or hang, have a flight recorder write what led to it.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use tracebuf_session::{Details, FlightHandle, FlightRecorder};
use tracing_core::Metadata;

use super::hanging::{Measured, Open, patience};

/// How much of what was before a slow span's begin, and of what follows its end, is in its snapshot.
const MARGIN: Duration = Duration::from_millis(100);

/// Most bytes of a span's name in the name of a file.
const MAX_NAME: usize = 80;

#[derive(Clone, Debug)]
pub(super) enum Which {
    Name(String),
    /// And the modules within it.
    Target(String),
    Any,
}

impl Which {
    fn is(&self, metadata: &Metadata<'_>) -> bool {
        match self {
            Self::Name(name) => metadata.name() == name,
            Self::Target(target) => {
                let rest = metadata.target().strip_prefix(&**target);
                rest.is_some_and(|rest| rest.is_empty() || rest.starts_with("::"))
            }
            Self::Any => true,
        }
    }
}

#[derive(Clone)]
struct Rule {
    which: Which,
    limit: Duration,
    flight: FlightHandle,
}

impl fmt::Debug for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} longer than {:?}", self.which, self.limit)
    }
}

/// Which spans may take how long; shared by those that have begun.
#[derive(Clone, Default)]
pub(super) struct SlowRules(Option<Arc<Rules>>);

struct Rules {
    list: Vec<Rule>,
    open: Arc<Open<Watched>>,
}

impl fmt::Debug for SlowRules {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("SlowRules").field(&self.0.as_ref().map(|rules| &rules.list)).finish()
    }
}

impl SlowRules {
    /// Adds a rule; of those that a span breaks the first counts.
    pub(super) fn add(&mut self, which: Which, limit: Duration, flight: &FlightRecorder) {
        let mut list = self.0.as_ref().map_or_else(Vec::new, |rules| rules.list.clone());
        list.push(Rule { which, limit, flight: flight.handle() });
        self.0 = Some(Arc::new(Rules { list, open: Arc::new(Open::new()) }));
    }

    /// Whether there is one for such spans.
    #[inline]
    pub(super) fn watch(&self, metadata: &Metadata<'_>) -> bool {
        self.0.as_ref().is_some_and(|rules| rules.list.iter().any(|rule| rule.which.is(metadata)))
    }

    /// Begins to measure a span, if there is a rule for it.
    pub(super) fn begin(&self, metadata: &'static Metadata<'static>) -> Option<Arc<Watched>> {
        let rules = self.0.as_ref().filter(|_| self.watch(metadata))?;
        let [has_ended, hangs] = Default::default();
        let span = Watched { rules: rules.clone(), metadata, begun: Instant::now(), has_ended, hangs };
        let span = Arc::new(span);
        rules.open.add(&span);
        Some(span)
    }
}

/// A span that is measured, from its making on.
pub(super) struct Watched {
    rules: Arc<Rules>,
    metadata: &'static Metadata<'static>,
    begun: Instant,
    has_ended: AtomicBool,
    /// Whether it has triggered while it was open.
    hangs: AtomicBool,
}

impl Watched {
    /// Triggers if it took too long; once, because several layers may hear of the same end.
    pub(super) fn end(&self, annotate: impl for<'a> Details<'a>) {
        let (took, metadata) = (self.begun.elapsed(), self.metadata);
        let broken = |rule: &&Rule| took > rule.limit && rule.which.is(metadata);
        let Some(rule) = self.rules.list.iter().find(broken) else { return };
        if self.has_ended.swap(true, Ordering::Relaxed) {
            return;
        }
        rule.flight.trigger_window_with(&reason("slow-", metadata.name()), took + MARGIN, MARGIN, |event| {
            event.arg("span", metadata.name()).arg("duration_ms", milliseconds(took));
            annotate(event.arg("limit_ms", milliseconds(rule.limit)))
        });
    }
}

impl Measured for Watched {
    // Once: it may never end.
    fn look(&self) {
        let (open, metadata) = (self.begun.elapsed(), self.metadata);
        let broken = |rule: &&Rule| open > patience(rule.limit) && rule.which.is(metadata);
        let Some(rule) = self.rules.list.iter().find(broken) else { return };
        if self.has_ended.load(Ordering::Relaxed) || self.hangs.swap(true, Ordering::Relaxed) {
            return;
        }
        rule.flight.trigger_window_with(&reason("open-", metadata.name()), open + MARGIN, MARGIN, |event| {
            let event = event.arg("span", metadata.name()).arg("open_ms", milliseconds(open));
            event.arg("limit_ms", milliseconds(rule.limit))
        });
    }
}

fn milliseconds(time: Duration) -> f64 {
    time.as_secs_f64() * 1000.0
}

/// The reason of a span's snapshots: a name may have what names of files cannot, as `GET /index` does.
fn reason(prefix: &str, name: &str) -> String {
    let is_plain = |letter: char| letter.is_alphanumeric() || "-_. ".contains(letter);
    let plain = name.chars().map(|letter| if is_plain(letter) { letter } else { '_' });
    let mut reason: String = prefix.chars().chain(plain).collect();
    reason.truncate((0..=MAX_NAME.min(reason.len())).rfind(|end| reason.is_char_boundary(*end)).unwrap_or(0));
    reason
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_span_s_name_becomes_a_name_that_files_can_have() {
        for (name, expected) in [
            ("request", "slow-request"),
            ("GET /a/b?c:d\\e", "slow-GET _a_b_c_d_e"),
            ("../../etc", "slow-.._.._etc"),
            ("größe\0", "slow-größe_"),
        ] {
            assert_eq!(reason("slow-", name), expected);
        }
        let long = reason("slow-", &"é".repeat(100));
        assert_eq!((long.len(), &long[..7]), (79, "slow-é"));
    }
}
