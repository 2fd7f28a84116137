//! Values that trace, fail or record others while they are formatted.

use tracing::field::Empty;
use tracing::{Dispatch, Span};

use crate::{ANNOTATION, both, counts};

/// A value whose formatting traces.
struct Talkative;

impl std::fmt::Debug for Talkative {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        tracing::info_span!("formatting").in_scope(|| tracing::info!("inner"));
        f.write_str("talk")
    }
}

/// `tracing` itself keeps what this traces away from the subscriber that is at work.
#[test]
fn a_value_that_traces_while_it_is_formatted_is_recorded_whole() {
    let work = |_: &Dispatch| {
        let span = tracing::info_span!("span", value = ?Talkative);
        span.in_scope(|| tracing::info!(value = ?Talkative, "outer"));
    };
    both("talkative", false, work, |trace| {
        assert_eq!(trace.story(), "+span !outer -");
        assert!(trace.contains("talk"));
    });
}

/// A value that fails to format.
struct Failing;

impl std::fmt::Debug for Failing {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("as far as this")?;
        Err(std::fmt::Error)
    }
}

#[test]
fn a_value_that_fails_to_format_is_recorded_as_far_as_it_went() {
    let work = |_: &Dispatch| {
        let span = tracing::info_span!("span", value = ?Failing);
        span.in_scope(|| tracing::info!(value = ?Failing, "event"));
    };
    both("failing", false, work, |trace| {
        assert_eq!(trace.story(), "+span !event -");
        assert_eq!(trace.bytes.windows(14).filter(|window| window == b"as far as this").count(), 2);
    });
}

/// A value whose formatting records another.
struct Recording(Span);

impl std::fmt::Debug for Recording {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.record("inner", 2);
        f.write_str("one")
    }
}

#[test]
fn of_fields_recorded_at_the_same_time_none_is_lost() {
    let work = |_: &Dispatch| {
        let span = tracing::info_span!("span", outer = Empty, inner = Empty);
        span.record("outer", tracing::field::debug(Recording(span.clone())));
        span.in_scope(|| ());
    };
    both("at-once", false, work, |trace| assert_eq!(counts(trace, 1, ANNOTATION), [2]));
}
