//! The replay of a script on a real buffer, and what came out as text.
//!
//! ```
//! use std::io::Cursor;
//! use tracebuf_conformance::replay::Replay;
//!
//! let script = "new 4096 ring\ncopy 1 2 0 1 0 1 1000 10 03616263\nread\n";
//! let mut output = Vec::new();
//! let summary = Replay::new(&mut output).run(Cursor::new(script))?;
//! assert_eq!(String::from_utf8_lossy(&output), "ok\nok\npkt 1 2 1000 10 0 1 616263\nend\n");
//! assert_eq!((summary.read.packets, summary.read.bytes), (1, 3));
//! # Ok::<(), tracebuf_conformance::replay::ReplayError>(())
//! ```
//!
//! The output has a line for each result, in order:
//!
//! ```text
//! ok | fail                                          new
//! ok                                                 copy, whatever happened to the chunk
//! patch true|false                                   patch
//! pkt PRODUCER WRITER UID PID LOSS SLICES HEX        each packet of read and readn
//! end | limit                                        read: exhausted | as many as were asked for
//! cpkt PRODUCER WRITER UID PID LOSS SLICES HEX       each packet of clone
//! cend
//! stats name=value …
//! opkt PRODUCER WRITER UID PID SLICES HEX            each packet of overwritten
//! oend
//! ```
//!
//! The buffer lives in [`PagedMemory`] and has the largest sequence table that there is.

mod summary;

use std::fmt;
use std::io::{self, BufRead, Read, Write};
use std::path::Path;

use tracebuf::buffer::{
    Chunk, Config, FillPolicy, OverwriteObserver, Packet, Reader, RegionError, TraceBuffer,
};

use crate::script::{Malformed, Op, parse_line};
pub use summary::{Commits, LeftOut, Packets, ReplaySummary};
use tracebuf_analysis::pftrace::TraceFile;
use tracebuf_std::PagedMemory;
use tracebuf_std::display::Count;
use tracebuf_std::whole_file::{check_writable, write_atomically};

/// Bytes of a line, without its end. A chunk that fits a buffer has far less; a few megabytes of gzipped input can
/// become thousands of such lines.
const LONGEST_LINE: usize = 16 << 20;

/// Why a replay stopped before the end of its script.
///
/// ```
/// use tracebuf_conformance::replay::{Replay, ReplayError};
///
/// let script = "new 4096 ring\nreed\n";
/// let error = Replay::new(std::io::sink()).run(script.as_bytes()).unwrap_err();
/// assert_eq!(error.to_string(), "line 2: no operation is called 'reed'");
/// assert!(matches!(error, ReplayError::Line { number: 2, .. }));
/// ```
#[derive(Debug)]
pub enum ReplayError {
    /// A line that is no operation, or none that is allowed there.
    Line {
        /// The line's number, from 1.
        number: u64,
        /// What is wrong with it.
        reason: Malformed,
        /// Packets of the lines before it that the trace file left out, if there is one.
        refused_packets: u64,
    },
    /// The script could not be read.
    Script(io::Error),
    /// The output could not be written.
    Output(io::Error),
    /// The trace file could not be written.
    Trace(io::Error),
    /// The system has no memory for a clone.
    Clone(String),
}

impl fmt::Display for ReplayError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Line { number, reason, .. } => write!(f, "line {number}: {reason}"),
            Self::Script(error) => write!(f, "reading the script: {error}"),
            Self::Output(error) => write!(f, "writing the output: {error}"),
            Self::Trace(error) => write!(f, "writing the trace: {error}"),
            Self::Clone(error) => write!(f, "making a clone: {error}"),
        }
    }
}

impl std::error::Error for ReplayError {}

/// A replay of one script.
///
/// ```
/// use tracebuf_conformance::replay::Replay;
///
/// # let path = std::env::temp_dir().join(format!("doc-replay-{}.pftrace", std::process::id()));
/// let script = "new 4096 ring\ncopy 1 2 0 1 0 1 1000 10 024005\nread\n";
/// let mut output = Vec::new();
/// let summary = Replay::new(&mut output).run_into(&path, script.as_bytes())?;
/// println!("{summary}");
/// assert!(output.starts_with(b"ok\nok\npkt 1 2 "));
/// assert!(std::fs::metadata(&path)?.len() > 0); // the packet, and the buffer's counters
/// # std::fs::remove_file(path)?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// The output is written in small pieces: pass a buffered writer.
pub struct Replay<W> {
    output: W,
    trace: Option<TraceFile>,
    buffer: Option<TraceBuffer<PagedMemory>>,
    evicted: Evicted,
    summary: ReplaySummary,
}

impl<W> fmt::Debug for Replay<W> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Replay").field("summary", &self.summary).finish_non_exhaustive()
    }
}

impl<W: Write> Replay<W> {
    /// Makes a replay that prints its results to `output`.
    pub fn new(output: W) -> Self {
        let (evicted, summary) = (Evicted::default(), ReplaySummary::default());
        Self { output, trace: None, buffer: None, evicted, summary }
    }

    /// Runs a script to its end and flushes all that is written.
    ///
    /// Takes memory for the buffer, for the longest line, which may have 16 MiB, and for the overwritten packets that
    /// no `overwritten` has asked for yet.
    ///
    /// # Errors
    /// The first line that is malformed, or the first failure to read or write.  The output of the lines before it is
    /// written.
    pub fn run(mut self, script: impl BufRead) -> Result<ReplaySummary, ReplayError> {
        let mut result = self.run_lines(script);
        result = result.and(self.output.flush().map_err(ReplayError::Output));
        if let Some(trace) = self.trace.take() {
            let told =
                self.buffer.as_ref().map(|buffer| (buffer.stats(), buffer.sequences().collect::<Vec<_>>()));
            match trace.finish(told.as_ref().map(|(stats, writers)| (stats, &writers[..]))) {
                Ok(refused) => self.summary.refused_packets = refused,
                Err(error) => result = result.and(Err(ReplayError::Trace(error))),
            }
        }
        if let Err(ReplayError::Line { refused_packets, .. }) = &mut result {
            *refused_packets = self.summary.refused_packets;
        }
        result.map(|()| self.summary)
    }

    /// Runs a script to its end, as [`run`](Self::run) does, and writes the packets of `read` and `readn` into a trace
    /// file, which appears when it is complete. If the script fails before its end, an existing file stays as it was;
    /// what went into a pipe or to a device is there.
    ///
    /// # Errors
    /// Those of `run`, and that the file cannot be written.
    pub fn run_into(self, path: &Path, script: impl BufRead) -> Result<ReplaySummary, ReplayError> {
        check_writable(path).map_err(ReplayError::Trace)?;
        let mut failed = None;
        let written = write_atomically(path, |file| {
            let vanishes = file.metadata()?.is_file();
            let replay = Self { trace: Some(TraceFile::new(file.try_clone()?)), ..self };
            replay.run(script).map_err(|mut error| {
                match &mut error {
                    ReplayError::Line { refused_packets, .. } if vanishes => *refused_packets = 0,
                    _ => {}
                }
                // Any error, so that nothing of the file stays.
                failed = Some(error);
                io::Error::other("the script failed")
            })
        });
        written.map_err(|error| failed.unwrap_or(ReplayError::Trace(error)))
    }

    fn run_lines(&mut self, mut script: impl BufRead) -> Result<(), ReplayError> {
        let mut line = Vec::new();
        for number in 1.. {
            line.clear();
            // One byte more than allowed, for the line's end or for the one that is too many.
            let mut bounded = script.by_ref().take(LONGEST_LINE as u64 + 1);
            if bounded.read_until(b'\n', &mut line).map_err(ReplayError::Script)? == 0 {
                break;
            }
            let malformed = |reason| ReplayError::Line { number, reason, refused_packets: 0 };
            if line.len() > LONGEST_LINE && !line.ends_with(b"\n") {
                return Err(malformed(Malformed::TooLong(LONGEST_LINE)));
            }
            if let Some(op) = parse_line(&line).map_err(malformed)? {
                self.summary.operations += 1;
                self.run_op(op, malformed)?;
            }
        }
        Ok(())
    }

    fn run_op(
        &mut self,
        op: Op,
        malformed: impl FnOnce(Malformed) -> ReplayError,
    ) -> Result<(), ReplayError> {
        if let Op::New { size, policy } = op {
            if self.buffer.is_some() {
                return Err(malformed(Malformed::SecondNew));
            }
            let said = match new_buffer(size, policy) {
                Ok(buffer) => {
                    self.buffer = Some(buffer);
                    "ok"
                }
                Err(why) => {
                    self.summary.not_made = Some(format!("a ring of {}: {why}", Count(size, "byte")));
                    "fail"
                }
            };
            return writeln!(self.output, "{said}").map_err(ReplayError::Output);
        }
        let Some(buffer) = &mut self.buffer else {
            let why = self.summary.not_made.take();
            return Err(malformed(why.map_or(Malformed::BeforeNew, Malformed::AfterFailedNew)));
        };
        let output = &mut self.output;
        let printed = match op {
            Op::New { .. } => Ok(()),
            Op::Copy { header, payload } => {
                let chunk = Chunk { header, payload: &payload };
                let commit = buffer.copy_chunk_untrusted_observed(&chunk, &mut self.evicted);
                self.summary.commits.count(&commit);
                writeln!(output, "ok")
            }
            Op::Patch { producer, writer, chunk, pending, patches } => {
                let done = buffer.try_patch_chunk_contents(producer, writer, chunk, &patches, pending);
                writeln!(output, "patch {done}")
            }
            Op::Read => return self.read(None),
            Op::ReadN(limit) => return self.read(Some(limit)),
            Op::Clone => return self.clone_and_read(),
            Op::Stats => writeln!(output, "{}", StatsLine(&buffer.stats())),
            Op::Overwritten => self.evicted.print(output),
        };
        printed.map_err(ReplayError::Output)
    }

    fn read(&mut self, limit: Option<u64>) -> Result<(), ReplayError> {
        let Some(buffer) = &mut self.buffer else { return Ok(()) };
        let mut reader = buffer.read();
        let mut left = limit;
        let end = loop {
            if left == Some(0) {
                break "limit";
            }
            let Some(packet) = reader.next_packet() else { break "end" };
            left = left.map(|left| left.saturating_sub(1));
            self.summary.read.count(&packet);
            print_packet("pkt", &packet, &mut self.output).map_err(ReplayError::Output)?;
            if let Some(trace) = &mut self.trace {
                trace.write_packet(&packet).map_err(ReplayError::Trace)?;
            }
        };
        writeln!(self.output, "{end}").map_err(ReplayError::Output)
    }

    fn clone_and_read(&mut self) -> Result<(), ReplayError> {
        let Some(buffer) = &self.buffer else { return Ok(()) };
        let memory =
            PagedMemory::new(buffer.clone_size()).map_err(|error| ReplayError::Clone(error.to_string()))?;
        let mut clone =
            buffer.clone_read_only(memory).map_err(|error| ReplayError::Clone(error.to_string()))?;
        let mut reader: Reader<'_> = clone.read();
        while let Some(packet) = reader.next_packet() {
            self.summary.cloned.count(&packet);
            print_packet("cpkt", &packet, &mut self.output).map_err(ReplayError::Output)?;
        }
        writeln!(self.output, "cend").map_err(ReplayError::Output)
    }
}

/// Makes a buffer with exactly `size` bytes for chunks, or says why that is impossible.
fn new_buffer(size: u64, policy: FillPolicy) -> Result<TraceBuffer<PagedMemory>, String> {
    let config = Config::new(policy).sequences(u16::MAX);
    let size = u32::try_from(size).map_err(|_| "it has to be less than 4 GiB")?;
    let region = usize::try_from(config.region_size(size)).map_err(|_| "there is no memory as large")?;
    let memory = PagedMemory::new(region).map_err(|error| error.to_string())?;
    TraceBuffer::new(memory, config).map_err(|error| match error {
        RegionError::TooSmall { .. } => "it is too small for any chunk".to_owned(),
        error => error.to_string(),
    })
}

fn print_packet(kind: &str, packet: &Packet<'_>, output: &mut impl Write) -> io::Result<()> {
    let (producer, writer) = (packet.producer_id(), packet.writer_id());
    let (uid, pid, loss) = (packet.uid(), packet.pid(), packet.loss().bits());
    let slices = packet.slices().count();
    write!(output, "{kind} {producer} {writer} {uid} {pid} {loss} {slices} ")?;
    print_bytes(packet, output)
}

/// The bytes of a packet and the end of the line.
fn print_bytes(packet: &Packet<'_>, output: &mut impl Write) -> io::Result<()> {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    // Digits of 256 bytes at a time: a call of the writer for each byte would take most of the time.
    let mut digits = [0; 512];
    let mut any = false;
    for slice in packet.slices() {
        for part in slice.chunks(digits.len() / 2) {
            any = true;
            for (pair, byte) in digits.as_chunks_mut::<2>().0.iter_mut().zip(part) {
                *pair = [DIGITS[usize::from(byte >> 4)], DIGITS[usize::from(byte & 15)]];
            }
            output.write_all(&digits[..part.len() * 2])?;
        }
    }
    output.write_all(if any { b"\n" } else { b"-\n" })
}

/// Whole packets that overwriting dropped, already in their printed form.
#[derive(Default)]
struct Evicted {
    lines: Vec<u8>,
}

impl Evicted {
    fn print(&mut self, output: &mut impl Write) -> io::Result<()> {
        output.write_all(&self.lines)?;
        self.lines = Vec::new();
        writeln!(output, "oend")
    }

    fn record(&mut self, packet: &Packet<'_>) -> io::Result<()> {
        let (producer, writer) = (packet.producer_id(), packet.writer_id());
        let (uid, pid, slices) = (packet.uid(), packet.pid(), packet.slices().count());
        write!(self.lines, "opkt {producer} {writer} {uid} {pid} {slices} ")?;
        print_bytes(packet, &mut self.lines)
    }
}

impl OverwriteObserver for Evicted {
    fn packet(&mut self, packet: &Packet<'_>) -> bool {
        // Writing to a vector has no errors to report.
        let _ = self.record(packet);
        // It was only looked at: for the buffer's readers it is lost.
        false
    }
}

/// All counters on one line.
struct StatsLine<'a>(&'a tracebuf::buffer::BufferStats);

impl fmt::Display for StatsLine<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("stats")?;
        for (name, value) in self.0.named() {
            write!(f, " {name}={value}")?;
        }
        Ok(())
    }
}
