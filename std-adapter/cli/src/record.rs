//! The command `tracebuf record`.

use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use crate::failure::{Failure, status, told};
use crate::files::output_path;
use crate::options::{bytes, interval, ring};
use crate::terminal::{ProgressLine, is_stdout, print_beside, stop_on_signals};
use tracebuf_machine::ftrace::expanded;
use tracebuf_machine::{RecordOptions, record};
use tracebuf_session::{Compression, SessionError};

/// Record this machine: what each core runs and why, interrupts, processes, CPU, memory, disks, network and load.
///
/// Ten seconds into trace.pftrace, unless told otherwise, or until COMMAND ends. Ctrl-C ends it early, with all that was
/// recorded. Scheduling and interrupts come from the kernel's ftrace, for which it must run as root; without, the rest is
/// recorded. Exit status: 0 when the file is whole, 1 when not or when nothing could be recorded; with COMMAND, the
/// command's own, 128 and the signal that ended it, or 126 or 127 if it could not be run.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// How long to record: 10s, 500ms, 2m, 1h, or forever: until Ctrl-C, SIGTERM, or the end of the
    /// terminal.
    ///
    /// What is ignored at the start stays so, as Ctrl-C for what a script starts with &: end that by SIGTERM.
    ///
    /// Units: ms, s, m, h; without one seconds.
    #[arg(long, default_value = "10s", value_parser = length, conflicts_with = "command")]
    duration: Length,
    /// Time between two looks at the machine, 10ms or more.
    ///
    /// Units: ms, s, m, h; without one seconds.
    #[arg(long, default_value = "100ms", value_parser = pause)]
    interval: Duration,
    /// Keep the newest data of this size in memory, and write it at the end: 512KiB, 4MiB, 1GiB. 4KiB or more, below
    /// 4GiB. With --long the file is written each time that it is half full.
    ///
    /// Unless set, what a busy machine needs for ten seconds: 16MiB for each core, 64MiB at least, but no more than an
    /// eighth of memory or 2GiB. Memory is taken as it fills.
    ///
    /// Units: B, kB, MB, GB (of 1000), KiB, MiB, GiB or K, M, G (of 1024).
    #[arg(long, value_parser = ring)]
    ring: Option<u32>,
    /// Record these events of the kernel's ftrace: names of sets or of events, GROUP/NAME or GROUP/*, separated by commas.
    /// Without it, sched,irq,freq,idle, if they may be read.
    ///
    /// The sets: sched (what each core runs, and who woke it), irq, freq and idle (of the cores), syscalls, block, net,
    /// mem. The folder /sys/kernel/tracing/events has all events of this kernel. Those that it does not have are told.
    /// If there are none to be had it is an error.
    #[arg(long, value_name = "EVENTS", value_delimiter = ',', value_parser = events)]
    events: Vec<String>,
    /// Record no events of the kernel.
    #[arg(long, conflicts_with = "events")]
    no_ftrace: bool,
    /// The kernel's buffer for each core, which holds what happens in 100 ms: 64KiB or more. Unless set 8MiB, or 2MiB below
    /// 7GiB of memory.
    #[arg(long, value_name = "SIZE", value_parser = kernel_buffer, conflicts_with = "no_ftrace")]
    kernel_buffer: Option<u64>,
    /// Write into the file while recording, so that the beginning is kept however long the recording is. It ends early,
    /// with exit status 1, when the reader of a pipe has gone.
    #[arg(long)]
    long: bool,
    /// With --long, compress the file, to a third or so: by deflate, or by zstd, which takes a tenth less and which readers
    /// of traces know since 2026.
    #[arg(long, value_name = "HOW", num_args = 0..=1, require_equals = true, default_missing_value = "deflate",
        value_parser = compression, requires = "long")]
    compress: Option<Compression>,
    /// Let programs that connect to this socket record into the same trace. The socket is made here and removed at the
    /// end. They share a second ring, of the size
    /// of --ring if that is set and else of 4MiB.
    ///
    /// A program connects by tracebuf_ipc::Connection, or by a Follower, which waits for such a socket; it
    /// needs permission to write to the socket's file, which is made with the umask. Up to 64 programs at a time, each
    /// with 1 MiB of shared memory, which is enough for 512 threads. One that is stopped at the end is waited for, up
    /// to 5 s. For programs in containers the trace tells which of the machine's processes and threads they are.
    #[arg(long, value_name = "SOCKET")]
    listen: Option<PathBuf>,
    /// The same for programs with Perfetto's own SDK (C++, C, Rust), recording as they do into Perfetto's service.
    /// Without a SOCKET, the one where they look for it: PERFETTO_PRODUCER_SOCK_NAME if set, else
    /// /run/perfetto/traced-producer.sock if that folder exists, else /tmp/perfetto-producer.
    ///
    /// For another socket, start them with PERFETTO_PRODUCER_SOCK_NAME=SOCKET. They record what their data source
    /// "track_event" has. Nobody else may use the socket, so Perfetto's service must not run there.
    #[arg(long, value_name = "SOCKET", num_args = 0..=1, require_equals = true)]
    perfetto: Option<Option<PathBuf>>,
    /// Record only these categories of programs with Perfetto's SDK, instead of all but those tagged "slow" or "debug":
    /// names separated by commas; a * at the end of one matches anything that follows.
    #[arg(long, value_name = "NAMES", value_delimiter = ',', requires = "perfetto")]
    categories: Vec<String>,
    /// The trace file; - is standard output.
    #[arg(short, long, default_value = "trace.pftrace", value_parser = output_path())]
    output: PathBuf,
    /// Run this, and record until it ends.
    #[arg(last = true, value_name = "COMMAND")]
    command: Vec<OsString>,
}

/// How long to record.
#[derive(Clone, Copy)]
enum Length {
    For(Duration),
    Forever,
}

/// Runs the command.
pub(crate) fn run(arguments: &Args) -> Result<ExitCode, Failure> {
    let is_stdout = is_stdout(&arguments.output)?;
    let stop = stop_on_signals();
    let mut options = RecordOptions::new(&arguments.output).interval(arguments.interval);
    if let Some(ring) = arguments.ring {
        options = options.ring(ring.into());
    }
    if arguments.no_ftrace {
        options = options.no_ftrace();
    } else if !arguments.events.is_empty() {
        options = options.events(&arguments.events);
    }
    if let Some(bytes) = arguments.kernel_buffer {
        options = options.kernel_buffer(bytes);
    }
    if !arguments.command.is_empty() {
        options = options.command(&arguments.command);
    }
    options = match arguments.duration {
        Length::For(duration) => options.duration(duration),
        Length::Forever => options.until_told(),
    };
    if arguments.long {
        options = options.long().compress(arguments.compress.unwrap_or_default());
    }
    if let Some(socket) = &arguments.listen {
        options = options.listen(socket);
    }
    if let Some(socket) = arguments.perfetto.clone() {
        options = match socket {
            Some(path) => options.perfetto(path),
            None => options.perfetto_where_expected(),
        };
        options = options.categories(&arguments.categories);
    }
    let line = ProgressLine::new();
    let mut is_failing = false;
    let mut notes = 0;
    let result = record(&options, &stop, |progress| {
        for note in progress.notes.iter().skip(notes) {
            status!("{note}");
        }
        notes = progress.notes.len();
        line.show(progress);
        let was_failing = std::mem::replace(&mut is_failing, progress.file_error.is_some());
        if is_failing && !was_failing {
            line.print_unseen(progress);
        }
    });
    drop(line);
    let mut report = result.map_err(|error| failure_of(&arguments.output, &arguments.command, error))?;
    report.output = told(&report.output).to_owned();
    let is_whole = ExitCode::from(u8::from(!report.is_whole()));
    match report.command {
        // Standard output is the command's.
        Some(ended) => print_beside(true, &report, ended.map_or(ExitCode::FAILURE, ExitCode::from)),
        None => print_beside(is_stdout, &report, is_whole),
    }
}

/// The failure of a recording; of a command that could not be run, with the exit status that shells have for it.
fn failure_of(output: &Path, command: &[OsString], error: SessionError) -> Failure {
    let kind = match &error {
        SessionError::Io { error, what } if !command.is_empty() && what.starts_with("running ") => {
            Some(error.kind())
        }
        _ => None,
    };
    let failure = Failure::of_library(output, error);
    match kind {
        Some(io::ErrorKind::NotFound) => failure.with_status(127),
        Some(_) => failure.with_status(126),
        None => failure,
    }
}

/// The time between two looks.
fn pause(text: &str) -> Result<Duration, String> {
    let pause = interval(text)?;
    if pause < RecordOptions::SHORTEST_INTERVAL {
        return Err(format!("{:?} is the least", RecordOptions::SHORTEST_INTERVAL));
    }
    Ok(pause)
}

fn compression(text: &str) -> Result<Compression, String> {
    match text {
        "none" => Ok(Compression::None),
        #[cfg(feature = "deflate")]
        "deflate" => Ok(Compression::Deflate),
        #[cfg(feature = "zstd")]
        "zstd" => Ok(Compression::Zstd),
        #[cfg(not(feature = "deflate"))]
        "deflate" => Err("this command was built without the feature deflate".to_owned()),
        #[cfg(not(feature = "zstd"))]
        "zstd" => Err("this command was built without the feature zstd".to_owned()),
        _ => Err("none, deflate and zstd are known".to_owned()),
    }
}

fn length(text: &str) -> Result<Length, String> {
    if text == "forever" { Ok(Length::Forever) } else { interval(text).map(Length::For) }
}

/// A set of the kernel's events, or one of them.
fn events(text: &str) -> Result<String, String> {
    expanded(text).map(|_| text.to_owned())
}

/// The size of the kernel's buffer for each core.
fn kernel_buffer(text: &str) -> Result<u64, String> {
    bytes(text)?
        .checked_next_multiple_of(1024)
        .filter(|size| (64 << 10..1 << 40).contains(size))
        .ok_or_else(|| "it has 64 KiB at least, and less than 1 TiB".to_owned())
}
