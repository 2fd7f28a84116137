//! The command `tracebuf receive`.

mod several;

use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use crate::failure::{Failure, name_of, status};
use crate::file_kind::{ENOUGH, FileKind};
use crate::files::{check_is_other, output_path};
use crate::options::{read_program, report_other_build};
use crate::span::WithSpans;
use crate::terminal::{ProgressLine, is_stdout, print_beside, stop_on_signals};
use tracebuf_analysis::LinkedNames;
use tracebuf_analysis::receive::{ReceiveOptions, ReceiveReport, receive, receive_from};
use tracebuf_std::console::file_of;

/// Receive the trace of a device from a serial port, a debug probe's server, or a file or a pipe with what came from one.
///
/// Devices that send packets, and devices that record in place, are recognised by what comes. Only what arrived intact is
/// kept, and what was lost on the way is counted; `tracebuf stats` shows what the device itself had lost.
///
/// With tcp:HOST:PORT it comes from a server of RTT: OpenOCD's `rtt server`, or J-Link's (port 19021). With
/// tcp-listen:HOST:PORT it comes from a program that connects there, as cargo-embed does. Events of a device that
/// records in place have the host's time, unless they come from a file; the report says how exactly.
///
/// A device that restarts begins its clock anew, so each of its starts gets a trace file: OUTPUT the first, and the
/// others the same name with a number, as in trace.pftrace, trace-2.pftrace. A trace or an empty file of that name is
/// replaced, as OUTPUT is; if it is anything else, or in use, the next number is taken. What a start had not sent
/// before it was reset goes into that start's file, although it comes later. Standard output, a pipe or a device gets
/// everything. The report says which files there are, and where times do not go together.
///
/// Several PORTs are several devices, which record in place, in one trace: each is a process, with the name of its port
/// or as --device says. With --join they are in the trace of a running session.
///
/// Ends with the file or the session, when nothing has the pipe open for writing any more, or with Ctrl-C. A port or a
/// server that is not there is waited for, and again whenever it is gone, as when the device is reset or unplugged.
///
/// Exit status: 0 when packets came, whatever was lost, 1 when none came, or when something could not be read or
/// written, as with --once when the port is gone.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// A serial port, such as /dev/ttyACM0 or COM3, tcp:HOST:PORT, tcp-listen:HOST:PORT, a file, or a pipe; - is standard
    /// input.
    #[arg(required = true, value_name = "PORT")]
    ports: Vec<PathBuf>,
    /// The trace file, of the first start if there are several; - is standard output.
    #[arg(short, long, value_parser = output_path(), required_unless_present = "join")]
    output: Option<PathBuf>,
    /// Put what comes into the trace of the session that listens at this socket, such as a `record --listen`.
    #[arg(long, value_name = "SOCKET", conflicts_with = "output")]
    join: Option<PathBuf>,
    /// The device's name in the trace; for several PORTs once for each, in their order. Devices with different names can
    /// be in one trace. For devices that record in place.
    #[arg(long, value_name = "NAME")]
    device: Vec<String>,
    /// The program that the device runs, for names that only it has; for several PORTs once for each, in their order.
    #[arg(long, value_name = "ELF")]
    program: Vec<PathBuf>,
    /// Bits a second of a serial port.
    #[arg(long, default_value_t = ReceiveOptions::DEFAULT_BAUD)]
    baud: u32,
    /// The channel of RTT that J-Link's server is asked for. Other servers have a port for each.
    #[arg(long, value_name = "NUMBER")]
    rtt_channel: Option<u32>,
    /// End when the port is gone, and at once if it is not there.
    #[arg(long)]
    once: bool,
}

impl Args {
    /// The options of each line.
    fn lines(&self) -> Result<Vec<ReceiveOptions>, Failure> {
        let output = self.output.clone().unwrap_or_default();
        let names = self.device.iter().map(Some).chain(std::iter::repeat(None));
        let programs = self.program.iter().map(Some).chain(std::iter::repeat(None));
        let of_port = |((port, name), program): ((&PathBuf, Option<&String>), Option<&PathBuf>)| {
            let mut line = ReceiveOptions::new(port, &output).baud(self.baud).waits(!self.once);
            if let Some(name) = name {
                line = line.device(name);
            }
            if let Some(program) = program {
                let names = read_program(program).and_then(|elf| LinkedNames::of_program(&elf));
                line = line.linked_names(names.map_err(|error| Failure::of(program, error))?);
            }
            Ok(match self.rtt_channel {
                Some(channel) => line.channel(channel),
                None => line,
            })
        };
        self.ports.iter().zip(names).zip(programs).map(of_port).collect()
    }
}

/// Runs the command.
pub(crate) fn run(arguments: &Args) -> Result<ExitCode, Failure> {
    let Args { ports, output, device, .. } = arguments;
    if device.len() > ports.len() {
        return Err(Failure::new("there are more names than devices").of_arguments());
    }
    if arguments.program.len() > ports.len() {
        return Err(Failure::new("there are more programs than devices").of_arguments());
    }
    match (&ports[..], output) {
        ([port], Some(output)) => one(arguments, port, output),
        _ => several::run(arguments),
    }
}

/// One device, into a file for each of its starts.
fn one(arguments: &Args, port: &Path, output: &Path) -> Result<ExitCode, Failure> {
    let options = arguments.lines()?.pop().unwrap_or_else(|| ReceiveOptions::new(port, output));
    let stop = stop_on_signals();
    let line = ProgressLine::new();
    let mut was_waiting = false;
    let (mut report, mut beside) = (None, false);
    let progress = |so_far: &ReceiveReport| {
        line.show(so_far);
        if so_far.is_waiting && !was_waiting {
            line.print_unseen(&format_args!("waiting for {}", name_of(port)));
        }
        was_waiting = so_far.is_waiting;
        report = Some(so_far.clone());
    };
    let result = std::iter::once(port)
        .chain(arguments.program.iter().map(PathBuf::as_path))
        .try_for_each(|input| check_is_other(output, input))
        .map_err(|error| Failure::writing(output, error))
        .and_then(|()| is_stdout(output))
        .and_then(|is_stdout| {
            beside = is_stdout;
            let received = if port == Path::new("-") {
                file_of(io::stdin()).and_then(|input| {
                    let is_live = !input.metadata()?.is_file();
                    receive_from(input, &options.named("standard input").live(is_live), &stop, progress)
                })
            } else {
                receive(&options, &stop, progress)
            };
            received.map_err(|error| Failure::of_library(output, error))
        });
    drop(line);
    if !arguments.device.is_empty()
        && report.as_ref().is_some_and(|report| report.packets > 0 && report.events == 0)
    {
        status!(
            "note: --device names devices that record in place: this one sends packets, which keep what they say"
        );
    }
    if let (Some(program), Some(report)) = (arguments.program.first(), &report)
        && report.events_unlinked > 0
    {
        report_other_build(program, report.events_unlinked);
    }
    // A device that is unplugged is an error; what came until then, and what was lost, is still worth knowing.
    let code = ExitCode::SUCCESS;
    let printed = report.as_ref().map_or(Ok(code), |report| {
        // Without a frame, what is there is from before.
        let files = if report.frames == 0 { &[][..] } else { &report.files };
        print_beside(beside, &WithSpans(report, files), code)
    });
    let Err(failure) = result else { return printed };
    if let Err(printing) = printed {
        printing.report();
    }
    let is_other = port.is_file() && report.as_ref().is_some_and(|report| report.frames == 0);
    let kind = is_other.then(|| beginning(port).ok()).flatten().map(|file| FileKind::of(&file));
    Err(failure.followed_by(kind.map_or(String::new(), |kind| kind.to_string())))
}

/// Enough of a file to see what it is.
fn beginning(file: &Path) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    File::open(file)?.take(ENOUGH).read_to_end(&mut bytes)?;
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_a_large_file_that_is_no_line_only_the_beginning_is_read() {
        let path = std::env::temp_dir().join(format!("tracebuf-beginning-{}", std::process::id()));
        let file = File::create(&path).expect("a file");
        for (len, read) in [(1000, 1000), (1 << 40, ENOUGH)] {
            // All of it is a hole.
            file.set_len(len).expect("it is the test's own");
            assert_eq!(beginning(&path).expect("a file").len() as u64, read);
        }
        std::fs::remove_file(path).expect("it is there");
    }
}
