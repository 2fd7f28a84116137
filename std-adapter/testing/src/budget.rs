//! The lines of a benchmark: `budget NAME MEASURED LIMIT UNIT ok|over`.

use std::process::ExitCode;
use std::time::Instant;

/// A part of a benchmark, by its name.
pub type Part<'a> = (&'a str, fn(&mut Sheet));

/// A benchmark's lines, with the number of those that are over.
pub struct Sheet {
    over: u32,
    slack: f64,
}

impl Sheet {
    /// Runs the parts that are named on the command line, or all of them; the exit code is 1 if a line is over.
    /// `--slack F` multiplies the limits by F.
    pub fn run(parts: &[Part<'_>]) -> ExitCode {
        let mut slack = std::env::args().skip_while(|argument| argument != "--slack");
        let slack = slack.nth(1).and_then(|factor| factor.parse().ok()).unwrap_or(1.0);
        let mut sheet = Self { over: 0, slack };
        let wanted = |name: &str| std::env::args().any(|argument| argument == name);
        let all = !parts.iter().any(|(name, _)| wanted(name));
        for (_, part) in parts.iter().filter(|(name, _)| all || wanted(name)) {
            part(&mut sheet);
        }
        ExitCode::from(u8::from(sheet.over > 0))
    }

    /// Zero means that nothing was measured, and counts as over.
    pub fn at_most(&mut self, name: &str, measured: f64, limit: f64, unit: &str) {
        let limit = limit * self.slack;
        self.line(name, measured, limit, unit, measured > 0.0 && measured <= limit);
    }

    pub fn at_least(&mut self, name: &str, measured: f64, limit: f64, unit: &str) {
        let limit = limit / self.slack;
        self.line(name, measured, limit, unit, measured >= limit);
    }

    pub fn line(&mut self, name: &str, measured: f64, limit: f64, unit: &str, ok: bool) {
        self.over += u32::from(!ok);
        println!("budget {name} {measured:.2} {limit:.2} {unit} {}", if ok { "ok" } else { "over" });
    }
}

pub fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

/// Nanoseconds of one call: the median over rounds, each short enough to be undisturbed now and then.
pub fn nanoseconds(mut work: impl FnMut()) -> f64 {
    const ROUND: u32 = 2_000;
    let round = |work: &mut dyn FnMut()| {
        let start = Instant::now();
        (0..ROUND).for_each(|_| work());
        start.elapsed().as_secs_f64() * 1e9 / f64::from(ROUND)
    };
    (0..50).for_each(|_| work());
    median((0..301).map(|_| round(&mut work)).collect())
}
