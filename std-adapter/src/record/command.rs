//! The command `tracebuf record`.

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use crate::files::output_path;
use crate::terminal::{ProgressLine, is_stdout, print_beside, stop_on_signals, tell};
use clap::Args;
use tracebuf_std::record::{RecordOptions, record};

/// What `tracebuf record` is given.
#[derive(Args)]
pub(crate) struct Record {
    /// How long to record: 10s, 500ms, 2m, 1h, or forever: until Ctrl-C, SIGTERM, or the end of the
    /// terminal.
    #[arg(long, default_value = "10s", value_parser = length)]
    duration: Length,
    /// Time between two looks at the machine, 10ms or more.
    #[arg(long, default_value = "100ms", value_parser = pause)]
    interval: Duration,
    /// Keep the newest so much in memory, and write it at the end: 512KiB, 4MiB, 1GiB. 4KiB or more, below 4GiB.
    /// With --long it has to hold what is recorded between two writes of the file, which is a second.
    #[arg(long, default_value = "4MiB", value_parser = bytes)]
    ring: u64,
    /// Write into the file while recording, so that the beginning is kept however long it takes.
    #[arg(long)]
    long: bool,
    /// The trace file; - is standard output.
    #[arg(short, long, default_value = "trace.pftrace", value_parser = output_path())]
    output: PathBuf,
}

/// How long to record.
#[derive(Clone, Copy)]
enum Length {
    For(Duration),
    Forever,
}

/// Runs the command.
pub(crate) fn run(arguments: &Record) -> ExitCode {
    let is_stdout = match is_stdout(&arguments.output) {
        Ok(is_stdout) => is_stdout,
        Err(error) => {
            tell!("error {error}");
            return ExitCode::FAILURE;
        }
    };
    let stop = stop_on_signals();
    let mut options = RecordOptions::new(&arguments.output).interval(arguments.interval).ring(arguments.ring);
    options = match arguments.duration {
        Length::For(duration) => options.duration(duration),
        Length::Forever => options.until_told(),
    };
    if arguments.long {
        options = options.long();
    }
    let line = ProgressLine::new();
    let mut is_failing = false;
    let result = record(&options, &stop, |progress| {
        line.show(progress);
        let was_failing = std::mem::replace(&mut is_failing, progress.file_error.is_some());
        if is_failing && !was_failing {
            line.tell_unseen(progress);
        }
    });
    drop(line);
    match result {
        Ok(report) => print_beside(is_stdout, &report, ExitCode::from(u8::from(!report.is_whole()))),
        Err(error) => {
            tell!("error {error}");
            ExitCode::FAILURE
        }
    }
}

pub(crate) fn number_and_unit(text: &str) -> Result<(f64, String), String> {
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (number, unit) = text.split_at(end);
    let number = number.parse().map_err(|_| format!("'{text}' does not begin with a number"))?;
    Ok((number, unit.trim().to_ascii_lowercase()))
}

pub(crate) fn interval(text: &str) -> Result<Duration, String> {
    let (number, unit) = number_and_unit(text)?;
    let seconds = match unit.as_str() {
        "ms" => 1e-3,
        "s" | "" => 1.0,
        "m" | "min" => 60.0,
        "h" => 3600.0,
        _ => return Err(format!("'{unit}' is no unit of time: ms, s, m or h")),
    };
    Duration::try_from_secs_f64(number * seconds).map_err(|error| error.to_string())
}

/// The time between two looks.
fn pause(text: &str) -> Result<Duration, String> {
    let pause = interval(text)?;
    if pause < RecordOptions::SHORTEST_INTERVAL {
        return Err(format!("{:?} is the least", RecordOptions::SHORTEST_INTERVAL));
    }
    Ok(pause)
}

fn length(text: &str) -> Result<Length, String> {
    if text == "forever" { Ok(Length::Forever) } else { interval(text).map(Length::For) }
}

pub(crate) fn bytes(text: &str) -> Result<u64, String> {
    let (number, unit) = number_and_unit(text)?;
    let factor = match unit.as_str() {
        "" | "b" => 1.0,
        "k" | "kb" | "kib" => 1024.0,
        "m" | "mb" | "mib" => 1024.0 * 1024.0,
        "g" | "gb" | "gib" => 1024.0 * 1024.0 * 1024.0,
        _ => return Err(format!("'{unit}' is no unit of size: KiB, MiB or GiB")),
    };
    Ok((number * factor) as u64)
}
