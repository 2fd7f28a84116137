//! The lines that are printed, and how times are taken.

use std::hint::black_box;
use std::process::ExitCode;
use std::time::Instant;

/// Prints the lines and counts those that are over.
pub(crate) struct Sheet {
    over: u32,
    slack: f64,
}

impl Sheet {
    /// With the slack that the command line gives; 1 if it gives none.
    pub(crate) fn new() -> Self {
        let mut arguments = std::env::args().skip_while(|argument| argument != "--slack").skip(1);
        let slack = arguments.next().map_or(1.0, |text| text.parse().expect("a factor behind --slack"));
        Self { over: 0, slack }
    }

    /// A time per something. Zero means that nothing was measured, and counts as over.
    pub(crate) fn timed_at_most(&mut self, name: &str, measured: f64, limit: f64, unit: &str) {
        let limit = limit * self.slack;
        self.line(name, measured, limit, unit, measured > 0.0 && measured <= limit);
    }

    /// A ratio of times.
    pub(crate) fn timed_at_least(&mut self, name: &str, measured: f64, limit: f64, unit: &str) {
        let limit = limit / self.slack;
        self.line(name, measured, limit, unit, measured >= limit);
    }

    /// A size.
    pub(crate) fn at_most(&mut self, name: &str, measured: f64, limit: f64, unit: &str) {
        self.line(name, measured, limit, unit, measured <= limit);
    }

    fn line(&mut self, name: &str, measured: f64, limit: f64, unit: &str, ok: bool) {
        self.over += u32::from(!ok);
        println!("budget {name} {measured:.2} {limit:.2} {unit} {}", if ok { "ok" } else { "over" });
    }

    pub(crate) fn finish(self) -> ExitCode {
        ExitCode::from(u8::from(self.over > 0))
    }
}

pub(crate) fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

pub(crate) fn seconds<T>(work: impl FnOnce() -> T) -> (f64, T) {
    let start = Instant::now();
    let result = black_box(work());
    (start.elapsed().as_secs_f64(), result)
}
