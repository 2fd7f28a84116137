//! Several devices in one trace, or devices in the trace of a running session.

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::{Mutex, PoisonError};

use super::Args;
use crate::failure::{Failure, name_of, status};
use crate::files::check_is_other;
use crate::options::report_other_build;
use crate::span::WithSpans;
use crate::terminal::{ProgressLine, is_stdout, print_beside, stop_on_signals};
use tracebuf_analysis::receive::{Destination, ReceiveReport, receive_all};
use tracebuf_session::Recorder;
use tracebuf_std::display::Escaped;

/// Runs the command with several ports, or into a session.
pub(super) fn run(arguments: &Args) -> Result<ExitCode, Failure> {
    let Args { ports, output, join, .. } = arguments;
    if ports.iter().any(|port| port == Path::new("-")) {
        let alone = "standard input cannot be one of several devices, nor join a session: give a named pipe";
        return Err(Failure::new(alone).of_arguments());
    }
    let mut beside = false;
    if let Some(output) = output {
        ports
            .iter()
            .chain(&arguments.program)
            .try_for_each(|port| check_is_other(output, port))
            .map_err(|error| Failure::writing(output, error))?;
        beside = is_stdout(output)?;
    }
    match (join, output) {
        (Some(socket), _) => {
            joined(socket, |recorder| receive(arguments, &Destination::Session(recorder), beside))
        }
        (None, Some(output)) => receive(arguments, &Destination::File(output.clone()), beside),
        // The arguments are checked for that.
        (None, None) => Err(Failure::new("there is no output").of_arguments()),
    }
}

/// Connects to a session; what was recorded is there when this returns.
#[cfg(any(target_os = "linux", target_os = "android"))]
fn joined(
    socket: &Path,
    receive: impl FnOnce(Recorder) -> Result<ExitCode, Failure>,
) -> Result<ExitCode, Failure> {
    use tracebuf_ipc::Connection;
    use tracebuf_session::Exhaustion;

    let connection = Connection::builder().process_name("tracebuf receive").exhaustion(Exhaustion::Stall);
    let connection = connection.open(socket).map_err(|error| Failure::of_library(socket, error))?;
    receive(connection.recorder())
}

#[cfg(not(any(target_os = "linux", target_os = "android")))]
fn joined(socket: &Path, _: impl FnOnce(Recorder) -> Result<ExitCode, Failure>) -> Result<ExitCode, Failure> {
    Err(Failure::of(socket, "sessions of other programs can be joined on Linux and Android"))
}

/// What a line has come to.
#[derive(Default)]
struct Line {
    report: ReceiveReport,
    was_waiting: bool,
    sent_packets: bool,
}

fn receive(arguments: &Args, into: &Destination, beside: bool) -> Result<ExitCode, Failure> {
    let options = arguments.lines()?;
    let (stop, progress) = (stop_on_signals(), ProgressLine::new());
    let ports = &arguments.ports;
    let lines: Mutex<Vec<Line>> = Mutex::new(ports.iter().map(|_| Line::default()).collect());
    let received = receive_all(&options, into, &stop, |at, report| {
        let mut lines = lines.lock().unwrap_or_else(PoisonError::into_inner);
        let (Some(line), Some(port)) = (lines.get_mut(at), ports.get(at)) else { return };
        if report.is_waiting && !line.was_waiting {
            progress.print_unseen(&format_args!("waiting for {}", name_of(port)));
        }
        // As soon as that is known: it may go on for long.
        if report.packets_refused > 0 && !line.sent_packets {
            progress.print_unseen(&format_args!(
                "{} sends packets, which are left out: only devices that record in place can be in a trace with others",
                name_of(port)
            ));
        }
        *line = Line {
            report: report.clone(),
            was_waiting: report.is_waiting,
            sent_packets: report.packets_refused > 0,
        };
        let sum =
            |count: fn(&ReceiveReport) -> u64| lines.iter().map(|line| count(&line.report)).sum::<u64>();
        let waiting = sum(|report| report.is_waiting.into());
        let (events, bytes) = (sum(|report| report.events), sum(|report| report.bytes));
        let refused = sum(|report| report.packets_refused);
        progress.show(&format_args!(
            "{events} events from {bytes} bytes of {} devices, {waiting} waited for, {refused} packets left out",
            ports.len()
        ));
    });
    drop(progress);
    let received = received.map_err(|error| match into {
        Destination::File(output) => Failure::of_library(output, error),
        Destination::Session(_) => Failure::new(error),
    })?;
    let lines = lines.into_inner().unwrap_or_else(PoisonError::into_inner);
    let (mut told, mut code) = (String::new(), ExitCode::SUCCESS);
    for ((port, line), result) in ports.iter().zip(&lines).zip(&received) {
        told.push_str(&format!("{}: {}\n", Escaped(port.display()), line.report));
        if let Err(error) = result {
            status!("error: {error}");
            code = ExitCode::FAILURE;
        }
    }
    for (program, line) in arguments.program.iter().zip(&lines) {
        if line.report.events_unlinked > 0 {
            report_other_build(program, line.report.events_unlinked);
        }
    }
    let files: Vec<PathBuf> = match into {
        Destination::File(output) if lines.iter().any(|line| line.report.packets > 0) => vec![output.clone()],
        _ => Vec::new(),
    };
    print_beside(beside, &WithSpans(&told.trim_end(), &files), code)
}
