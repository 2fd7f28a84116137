//! The `tracebuf` command.

mod files;
mod guess;
#[path = "inspect/command.rs"]
mod inspect;
mod looking_inside;
#[path = "receive/command.rs"]
mod receive;
#[path = "record/command.rs"]
mod record;
#[path = "recover/command.rs"]
mod recover;
mod terminal;
mod which;

use std::io::{self, BufRead, BufWriter, Read, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{Parser, Subcommand, ValueEnum};
use files::{check_is_other, open_any, output_path, read_any, write_over};
use terminal::{UntilClosed, beside, is_stdout, print_beside, tell};
use tracebuf::producer::{Exhaustion, Layout, MemoryError, SharedMemory, atomic_words};
use tracebuf_std::demo::Options;
use tracebuf_std::pftrace::TraceFile;
use tracebuf_std::replay::{Replay, ReplayError};
use tracebuf_std::script::parse_line;
use tracebuf_std::smb;

/// Perfetto's trace buffer on the command line.
#[derive(Parser)]
#[command(name = "tracebuf", version, arg_required_else_help = true)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Receive the trace of a device from a serial port, or from a file or a pipe of what came over one.
    ///
    /// Only packets that arrived intact are kept, and what was lost is counted. Ends with the file, when nobody has the
    /// pipe open for writing any more, or with Ctrl-C. Exit status: 0 when packets came, whatever was lost, 1 when none
    /// came, or when something could not be read or written, as when the port is gone.
    Receive(receive::Receive),
    /// Record this machine: CPU, memory, load, disks, network, and the busiest processes.
    ///
    /// Ten seconds into trace.pftrace, unless told otherwise. Ctrl-C ends it early, with all that was recorded.
    /// Exit status: 0 when the file is whole, 1 when not or when nothing could be recorded.
    Record(record::Record),
    /// Show sequences, chunks and losses of a trace or of a trace buffer's memory, and draw a map of it.
    ///
    /// Nothing is changed. Exit status: 0 when there was something to show, 1 if not.
    Inspect(inspect::Inspect),
    /// List every data loss in a trace, with its cause and what to do about it.
    ///
    /// Exit status: 0 when nothing was lost, 3 when something was, 1 when the file could not be read or is no trace. A
    /// gzipped trace that is cut is read as far as it goes, and has lost something.
    Stats(looking_inside::Stats),
    /// Say how large buffers must be for a rate, or how long a buffer lasts.
    ///
    /// Exit status: 0, or 1 when the answer could not be written.
    Size(looking_inside::Size),
    /// Run a script of recorded operations over a buffer and print what comes out.
    ///
    /// A line has one operation: new, copy, patch, read, readn, clone, stats or overwritten, with what the
    /// documentation of tracebuf_std::script says of each.
    ///
    /// Exit status: 0 when the script ran to its end, 1 when something could not be read or written, 2 when a
    /// line of the script is malformed.
    Replay {
        /// The script, plain or gzipped; - is standard input.
        script: PathBuf,
        /// Also write the packets of read and readn into this trace file; - is standard output.
        #[arg(long, value_name = "OUT", value_parser = output_path())]
        pftrace: Option<PathBuf>,
    },
    /// Shared memory images: what producers write and the service reads.
    #[command(subcommand)]
    Smb(Smb),
    /// Trace eight threads at work through 256 KiB of shared memory, and account for every packet.
    ///
    /// Exit status: 0 when the numbers agree, 1 when not or when something could not be read or written.
    Demo {
        /// The trace file to write, or a pipe; - is standard output.
        #[arg(value_parser = output_path())]
        out: PathBuf,
        /// The ring's size: 512KiB, 16MiB, 1GiB.
        #[arg(long, value_name = "SIZE", default_value = "16MiB", value_parser = ring)]
        ring: u32,
        /// What writers do when shared memory is full: wait for the service, or drop packets.
        #[arg(long, value_name = "POLICY", default_value = "stall")]
        when_full: WhenFull,
        /// How many numbers to sort.
        #[arg(long, value_name = "COUNT", default_value_t = 2 << 20)]
        numbers: usize,
        /// The folder whose source files' words are counted.
        #[arg(long, value_name = "FOLDER", default_value = ".")]
        sources: PathBuf,
    },
    /// Write what a trace buffer held when its program ended into a trace file, and say what had to be dropped.
    ///
    /// The dump is raw memory, Intel HEX or ELF, from any device. What was read out of the buffer before is not in the
    /// trace, nor what writers had not committed yet, their last moments. Exit status: 0 when there is a trace, if an
    /// empty one, 1 if not.
    Recover(recover::Recover),
}

#[derive(Subcommand)]
enum Smb {
    /// Print an image: pages, layouts, chunk states, headers, packets, and what is wrong with them.
    ///
    /// Exit status: 0, whatever is wrong with the image, 1 when it could not be read or printed.
    Dump {
        /// The image, plain or gzipped; - is standard input.
        file: PathBuf,
        /// Bytes of a page, a multiple of 4 from 64 to 65536.
        page_size: u32,
    },
    /// Write an image that our own writers made, in the middle of their work.
    ///
    /// Exit status: 0, or 1 when there is no such image or it could not be written.
    Sample {
        /// The file to write; - is standard output.
        #[arg(value_parser = output_path())]
        out: PathBuf,
        /// Bytes of the image; it has 114688 chunks at most.
        size: usize,
        /// Bytes of a page, a multiple of 4 from 64 to 65536.
        page_size: u32,
        /// The number of the pages' layout: 1 to 5 for 1, 2, 4, 7 or 14 chunks a page.
        #[arg(value_parser = clap::value_parser!(u32).range(1..=5))]
        layout: u32,
    },
}

#[derive(Clone, Copy, ValueEnum)]
enum WhenFull {
    Stall,
    Drop,
}

fn main() -> ExitCode {
    let result = match Arguments::parse().command {
        Command::Receive(arguments) => return receive::run(&arguments),
        Command::Record(arguments) => return record::run(&arguments),
        Command::Recover(arguments) => return recover::run(&arguments),
        Command::Inspect(arguments) => return inspect::run(&arguments),
        Command::Stats(arguments) => return looking_inside::stats(&arguments),
        Command::Size(arguments) => return looking_inside::size(&arguments),
        Command::Replay { script, pftrace } => replay(&script, pftrace.as_deref()),
        Command::Smb(Smb::Dump { file, page_size }) => dump(&file, page_size),
        Command::Smb(Smb::Sample { out, size, page_size, layout }) => sample(&out, size, page_size, layout),
        Command::Demo { out, ring, when_full, numbers, sources } => {
            let exhaustion = match when_full {
                WhenFull::Stall => Exhaustion::Stall,
                WhenFull::Drop => Exhaustion::Drop,
            };
            return demo(&Options { out, ring, exhaustion, numbers, sources });
        }
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        // Who reads the output has seen enough; that is no failure.
        Err(Failure::Replay(ReplayError::Output(error))) if error.kind() == io::ErrorKind::BrokenPipe => {
            ExitCode::SUCCESS
        }
        Err(Failure::Replay(error)) => {
            tell!("{error}");
            let malformed = matches!(error, ReplayError::Line { .. });
            ExitCode::from(if malformed { 2 } else { 1 })
        }
        Err(Failure::Open(path, error)) => {
            tell!("error opening {}: {error}", path.display());
            ExitCode::FAILURE
        }
        Err(Failure::Write(path, error)) => {
            tell!("error writing {}: {error}", path.display());
            ExitCode::FAILURE
        }
        Err(Failure::Output(error)) if error.kind() == io::ErrorKind::BrokenPipe => ExitCode::SUCCESS,
        Err(Failure::Output(error)) => {
            tell!("error writing: {error}");
            ExitCode::FAILURE
        }
        Err(Failure::Stdout(error)) => {
            tell!("error {error}");
            ExitCode::FAILURE
        }
        Err(Failure::Memory(error)) => {
            tell!("no such shared memory: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Why the command failed.
enum Failure {
    Open(PathBuf, io::Error),
    Write(PathBuf, io::Error),
    Replay(ReplayError),
    Output(io::Error),
    Stdout(String),
    Memory(smb::SampleError),
}

fn replay(script: &Path, pftrace: Option<&Path>) -> Result<(), Failure> {
    let reader = open_any(script).map_err(|error| Failure::Open(script.to_owned(), error))?;
    let begun = as_far_as_known(reader).map_err(ReplayError::Script);
    let (is_script, reader) = begun.map_err(Failure::Replay)?;
    let is_stdout = pftrace.map(is_stdout).transpose().map_err(Failure::Stdout)?.unwrap_or_default();
    let mut output = beside(is_stdout);
    if pftrace.is_some() {
        output = Box::new(UntilClosed::new(output));
    }
    let mut replay = Replay::new(BufWriter::with_capacity(1 << 16, output));
    if let Some(path) = pftrace {
        let write = |error| Failure::Write(path.to_owned(), error);
        check_is_other(path, script).map_err(write)?;
        if is_script {
            replay = replay.with_trace(TraceFile::create(path).map_err(write)?);
        }
    }
    let summary = replay.run(reader).map_err(Failure::Replay)?;
    tell!("{summary}");
    Ok(())
}

/// A script, and whether it may be one, by its first operation. Who names a trace in its place, and it in that of the
/// trace, is to have both afterwards.
fn as_far_as_known(mut script: impl BufRead) -> io::Result<(bool, impl BufRead)> {
    let (mut begun, mut first) = (Vec::new(), Ok(None));
    while first == Ok(None) && begun.len() < FAR_ENOUGH {
        let start = begun.len();
        let room = (FAR_ENOUGH - start) as u64;
        if script.by_ref().take(room).read_until(b'\n', &mut begun)? == 0 {
            break;
        }
        first = parse_line(begun.get(start..).unwrap_or_default());
    }
    Ok((first.is_ok(), io::Cursor::new(begun).chain(script)))
}

/// Bytes of a script in which its first operation is, unless there are very many comments before it: of a longer line
/// the beginning says what it is.
const FAR_ENOUGH: usize = 1 << 16;

fn dump(file: &Path, page_size: u32) -> Result<(), Failure> {
    let bytes = read_any(file).map_err(|error| Failure::Open(file.to_owned(), error))?;
    let mut words = smb::words(&bytes);
    let memory = SharedMemory::new(atomic_words(&mut words), page_size);
    let memory = memory.map_err(|error| Failure::Memory(error.into()))?;
    let rest = bytes.len().saturating_sub(memory.size());
    let mut out = BufWriter::with_capacity(1 << 16, io::stdout().lock());
    smb::dump_with_rest(memory, rest, &mut out).and_then(|()| out.flush()).map_err(Failure::Output)
}

fn sample(out: &Path, size: usize, page_size: u32, layout: u32) -> Result<(), Failure> {
    let layout = Layout::from_bits(layout).ok_or(Failure::Memory(MemoryError::ChunkSize.into()))?;
    let image = smb::sample(size, page_size, layout).map_err(Failure::Memory)?;
    is_stdout(out).map_err(Failure::Stdout)?;
    write_over(out, image).map_err(|error| Failure::Write(out.to_owned(), error))
}

/// The size of a ring, as `record` takes it.
fn ring(text: &str) -> Result<u32, String> {
    u32::try_from(record::bytes(text)?).map_err(|_| "a ring is less than 4GiB".to_owned())
}

fn demo(options: &Options) -> ExitCode {
    let ran = is_stdout(&options.out).and_then(|is_stdout| {
        let report = tracebuf_std::demo::run(options).map_err(|error| error.to_string())?;
        Ok((is_stdout, report))
    });
    match ran {
        Ok((is_stdout, report)) => {
            let code = ExitCode::from(u8::from(!report.agrees()));
            print_beside(is_stdout, &report.to_string().trim_end(), code)
        }
        Err(error) => {
            tell!("error: {error}");
            ExitCode::FAILURE
        }
    }
}
