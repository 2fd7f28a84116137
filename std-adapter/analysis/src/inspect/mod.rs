//! Contents of a buffer or a trace, place by place: the command `tracebuf inspect`.
//!
//! ```
//! use tracebuf::buffer::{Chunk, ChunkHeader, Config, FillPolicy, TraceBuffer};
//! use tracebuf_analysis::inspect::Inspection;
//!
//! let mut buffer = TraceBuffer::new(vec![0u8; 4096], Config::new(FillPolicy::RingBuffer).sequences(4))?;
//! let header = ChunkHeader { producer_id: 7, fragments: 1, ..Default::default() };
//! buffer.copy_chunk_untrusted(&Chunk { header, payload: b"\x05hello" });
//!
//! let inspection = Inspection::of_file(&buffer.into_memory())?;
//! println!("{inspection}{}", inspection.map(64, 16, false));
//! assert!(inspection.to_string().contains("producer 7 writer 0"));
//! assert!(inspection.svg().starts_with("<svg"));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # The map
//! Each cell stands for as many bytes as needed, and shows what most of them are: a capital letter is a sequence's
//! unread bytes, a small one bytes that were read and not yet freed (in a chunk that is partly read), `#` padding, `.`
//! free, `?` unreadable; a blank was never written. The mark `>` is where the next chunk goes. A picture shows the
//! same: chunk by chunk as long as there are at most 6,000 of them, else in cells, each filled in proportion to what it
//! contains; shares that are lower than a pixel are drawn as one.
//!
//! Unreadable are bytes that make no sense, up to where the next sound chunk is known to begin, and chunks that
//! [`recover`](crate::recover) drops. Others are shown as they were found: scraped, or waiting for patches.

mod map;
mod programs;
mod region;
mod svg;

use std::collections::BTreeMap;
use std::fmt;

use tracebuf::buffer::AttachError;

use crate::recover::{Dump, Place, RecoverError};
use crate::trace_stats::{TraceReport, Whose};
use tracebuf_std::display::Count;

/// The name for all sequences of a trace beyond those that are listed one by one.
const OTHERS: &str = "all other sequences";

/// The kind of some bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum SpanKind {
    /// Of a sequence, by its index in the list, not yet read.
    Unread(usize),
    /// The same, and read.
    Read(usize),
    Padding,
    Free,
    Unreadable,
}

/// Bytes of one kind.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Span {
    pub(crate) offset: u64,
    pub(crate) len: u64,
    pub(crate) kind: SpanKind,
    /// Something begins here: a chunk, with its number.
    pub(crate) chunk: Option<u32>,
}

/// One sequence, as far as it is there.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct SequenceLine {
    /// Its producer and its writer, or in a trace its number.
    pub name: String,
    /// Its chunks; in a trace its packets.
    pub pieces: u64,
    /// Bytes that they take.
    pub bytes: u64,
    /// Bytes of them that were not read.
    pub unread: u64,
    /// Its losses in words; empty if nothing was lost.
    pub losses: String,
}

/// One chunk.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ChunkLine {
    /// Bytes that the write cursor has moved since; larger means older.
    pub age: u64,
    /// Its description.
    pub text: String,
}

/// A buffer or a trace that was examined. `Display` lists sequences and losses; [`map`](Self::map) and
/// [`svg`](Self::svg) draw it.
///
/// ```
/// use tracebuf_analysis::inspect::Inspection;
///
/// // A trace of one packet, which says that the ring was lapped before it.
/// let inspection = Inspection::of_file(&[0x0A, 5, 0x50, 2, 0xD0, 0x02, 65])?;
/// assert_eq!((&inspection.title[..], inspection.sequences.len()), ("trace", 1));
/// assert!(inspection.losses.iter().any(|line| line.starts_with("overwrite")));
/// # Ok::<(), tracebuf_analysis::inspect::NothingFound>(())
/// ```
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Inspection {
    /// A description in one line.
    pub title: String,
    /// Bytes of the ring, or of the trace.
    pub size: u64,
    /// Bytes of those that were ever written.
    pub used: u64,
    /// The offset of the next chunk; a trace has none.
    pub write: Option<u64>,
    /// The offset of the oldest unread chunk, if there is one.
    pub oldest_unread: Option<u64>,
    /// The sequences, by producer and writer, or by their numbers. For a trace with more than 65,536, the last line is
    /// all others together.
    pub sequences: Vec<SequenceLine>,
    /// The chunks, from the oldest; none for a trace.
    pub chunks: Vec<ChunkLine>,
    /// All losses, one entry per line.
    pub losses: Vec<String>,
    /// Programs that fold what a ring overwrites, each with its producers, its memory and its state, one entry per line.
    pub programs: Vec<String>,
    /// Further remarks, one entry per line.
    pub notes: Vec<String>,
    /// Addresses of other buffers in the dump, as in [`Found::others`](crate::recover::Found::others).
    pub others: Vec<u64>,
    /// `chunk` or `packet`.
    pieces: &'static str,
    pub(crate) spans: Vec<Span>,
}

/// The error for something that is neither a buffer nor a trace.
#[derive(Debug)]
pub struct NothingFound(RecoverError);

impl fmt::Display for NothingFound {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            RecoverError::Attach(AttachError::NoRegion) => {
                f.write_str("neither a trace nor memory with a trace buffer in it")
            }
            other => other.fmt(f),
        }
    }
}

impl std::error::Error for NothingFound {}

impl Inspection {
    /// Examines a file's contents: a trace, a region, or a memory dump that holds a region somewhere.
    ///
    /// # Errors
    /// [`NothingFound`] if it is none of these.
    pub fn of_file(bytes: &[u8]) -> Result<Self, NothingFound> {
        let (of_trace, report) = Self::of_trace(bytes);
        if report.packets > 0 && report.rest == 0 {
            return Ok(of_trace);
        }
        let of_region = Dump::parse(bytes).and_then(|dump| Self::of_dump(&dump, Place::Anywhere));
        // Or a trace that was cut short.
        of_region.or_else(|error| if report.packets > 0 { Ok(of_trace) } else { Err(NothingFound(error)) })
    }

    /// Looks at a trace.
    fn of_trace(bytes: &[u8]) -> (Self, TraceReport) {
        let mut numbers = BTreeMap::new();
        let mut spans: Vec<(u64, u64, Whose)> = Vec::new();
        let report = TraceReport::with(bytes, |offset, len, whose| {
            let (count, total) = numbers.entry(whose).or_insert((0u64, 0u64));
            (*count, *total) = (*count + 1, *total + len);
            match spans.last_mut() {
                Some((_, last, same)) if *same == whose => *last += len,
                _ => spans.push((offset, len, whose)),
            }
        });
        let place: BTreeMap<_, usize> = numbers.keys().copied().zip(0..).collect();
        let mut spans: Vec<Span> = spans
            .into_iter()
            .map(|(offset, len, whose)| {
                let kind = SpanKind::Unread(place.get(&whose).copied().unwrap_or(0));
                Span { offset, len, kind, chunk: None }
            })
            .collect();
        if report.rest > 0 {
            let (offset, len) = (report.bytes, report.rest);
            spans.push(Span { offset, len, kind: SpanKind::Unreadable, chunk: None });
        }
        let sequences = numbers.iter().map(|(whose, (pieces, bytes))| {
            let known = report.losses_of(*whose);
            let pid = known.and_then(|sequence| sequence.pid);
            let losses = match known.map_or(0, |sequence| sequence.after_loss) {
                0 => String::new(),
                1 => "1 packet follows a loss".to_owned(),
                count => format!("{count} packets follow a loss"),
            };
            let name = match (whose, pid) {
                (Whose::Sequence(1), _) => "the service".to_owned(),
                (Whose::Sequence(id), Some(pid)) => format!("sequence {id}, process {pid}"),
                (Whose::Sequence(id), None) => format!("sequence {id}"),
                (Whose::Others, _) => OTHERS.to_owned(),
            };
            SequenceLine { name, pieces: *pieces, bytes: *bytes, unread: *bytes, losses }
        });
        let this = Self {
            title: "trace".to_owned(),
            size: bytes.len() as u64,
            used: bytes.len() as u64,
            sequences: sequences.collect(),
            losses: report.to_string().lines().skip(1).map(str::to_owned).collect(),
            programs: programs::of_trace(bytes),
            pieces: "packet",
            spans,
            ..Self::default()
        };
        (this, report)
    }

    /// The number of sequences.
    fn counted(&self) -> String {
        match self.sequences.split_last() {
            Some((last, told)) if last.name == OTHERS => {
                format!("more than {}", Count(told.len() as u64, "sequence"))
            }
            _ => Count(self.sequences.len() as u64, "sequence").to_string(),
        }
    }

    /// The map as text; see [the module](self). With `colour`, it is coloured by escape sequences.
    pub fn map(&self, columns: usize, rows: usize, colour: bool) -> String {
        map::draw(self, columns, rows, colour)
    }

    /// The map as a picture.
    pub fn svg(&self) -> String {
        svg::draw(self)
    }

    /// Bytes of a kind that belongs to no sequence.
    pub(crate) fn bytes_of(&self, kind: SpanKind) -> u64 {
        self.spans.iter().filter(|span| span.kind == kind).map(|span| span.len).sum()
    }
}

impl fmt::Display for Inspection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}, {} used", self.title, Count(self.size, "byte"), self.used)?;
        if let Some(write) = self.write {
            write!(f, ", write cursor at {write}")?;
        }
        match self.oldest_unread {
            Some(oldest) => writeln!(f, ", oldest unread chunk at {oldest}")?,
            None => writeln!(f)?,
        }
        if self.write.is_some() {
            let of = |kind| self.bytes_of(kind);
            let (padding, free, lost) = (of(SpanKind::Padding), of(SpanKind::Free), of(SpanKind::Unreadable));
            writeln!(f, "padding {padding}, free {free}, unreadable {lost} bytes")?;
        }
        writeln!(f, "{}", self.counted())?;
        for (line, number) in self.sequences.iter().zip(0..) {
            let SequenceLine { name, pieces, bytes, unread, losses } = line;
            let letter = map::letter(number);
            let (pieces, bytes) = (Count(*pieces, self.pieces), Count(*bytes, "byte"));
            write!(f, "  {letter} {name}: {pieces}, {bytes}")?;
            if self.write.is_some() {
                write!(f, ", {unread} unread")?;
            }
            writeln!(f, "{}{losses}", if losses.is_empty() { "" } else { "; lost: " })?;
        }
        self.programs.iter().chain(&self.notes).try_for_each(|note| writeln!(f, "{note}"))?;
        if self.losses.is_empty() {
            return writeln!(f, "nothing was lost");
        }
        self.losses.iter().try_for_each(|loss| writeln!(f, "{loss}"))
    }
}
