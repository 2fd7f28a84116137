//! What lies where in a buffer or a trace: the command `tracebuf inspect`.
//!
//! ```
//! use tracebuf::buffer::{Chunk, ChunkHeader, Config, FillPolicy, TraceBuffer};
//! use tracebuf_std::inspect::Inspection;
//!
//! let mut buffer = TraceBuffer::new(vec![0u8; 4096], Config::new(FillPolicy::RingBuffer).sequences(4))?;
//! let header = ChunkHeader { producer_id: 7, fragments: 1, complete: true, ..Default::default() };
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
//! Each cell stands for as many bytes as fit, and shows what most of them are: a capital letter is a sequence's
//! unread bytes, a small one bytes that were read and not yet freed (of a chunk that is read in part), `#`
//! padding, `.` free, `?` unreadable, a blank was never written. The mark `>` is where the next chunk goes. A
//! picture shows the same: chunk by chunk as long as there are at most 6,000 of them, else in cells.

mod map;
mod svg;

use std::collections::BTreeMap;
use std::fmt;

use tracebuf::buffer::{AttachError, BufferStats, RingContent, RingView, Salvage, SequenceInfo};

use crate::recover::{Dump, Found, Place, RecoverError};
use crate::trace_stats::TraceReport;

/// Bytes of a chunk before its payload.
const CHUNK_HEADER: u64 = 24;

/// What bytes are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Kind {
    /// Of a sequence, by its place in the list, not yet read.
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
    pub(crate) kind: Kind,
    /// Something begins here: a chunk, with its number.
    pub(crate) chunk: Option<u32>,
}

/// One sequence, as far as it is there.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct SequenceLine {
    /// Who writes it.
    pub name: String,
    /// Its chunks; in a trace its packets.
    pub pieces: u64,
    /// Bytes that they take.
    pub bytes: u64,
    /// Bytes of them that nobody has read.
    pub unread: u64,
    /// What was lost on it, in words; empty if nothing was.
    pub losses: String,
}

/// One chunk.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ChunkLine {
    /// Bytes that the write cursor has moved since; the larger the older.
    pub age: u64,
    /// What is to be said of it.
    pub text: String,
}

/// A buffer or a trace, looked at. `Display` lists sequences and losses; [`map`](Self::map) and
/// [`svg`](Self::svg) draw it.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Inspection {
    /// What it is, in a line.
    pub title: String,
    /// Bytes of the ring, or of the trace.
    pub size: u64,
    /// Bytes of those that were ever written.
    pub used: u64,
    /// Where the next chunk goes; a trace has no such place.
    pub write: Option<u64>,
    /// Where the oldest unread chunk lies, if there is one.
    pub oldest_unread: Option<u64>,
    /// The sequences, by producer and writer.
    pub sequences: Vec<SequenceLine>,
    /// The chunks, from the oldest; none of a trace.
    pub chunks: Vec<ChunkLine>,
    /// What was lost altogether, a line each.
    pub losses: Vec<String>,
    /// `chunks` or `packets`.
    pieces: &'static str,
    pub(crate) spans: Vec<Span>,
}

/// What is neither a buffer nor a trace.
#[derive(Debug)]
pub struct NothingFound(RecoverError);

impl fmt::Display for NothingFound {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            RecoverError::Attach(AttachError::NoRegion) => {
                f.write_str("neither a trace nor memory with a trace buffer in it")
            }
            other => write!(f, "{other}"),
        }
    }
}

impl std::error::Error for NothingFound {}

impl Inspection {
    /// Looks at a file's contents: a trace, a region, or a dump of memory that holds a region somewhere.
    ///
    /// # Errors
    /// [`NothingFound`] if it is none of these.
    pub fn of_file(bytes: &[u8]) -> Result<Self, NothingFound> {
        let (of_trace, report) = Self::of_trace(bytes);
        if report.packets > 0 && report.rest == 0 {
            return Ok(of_trace);
        }
        match Dump::parse(bytes).and_then(|dump| dump.find(Place::Anywhere)) {
            Ok(found) => Ok(Self::of_region(found)),
            // A trace that was cut short.
            Err(_) if report.packets > 0 => Ok(of_trace),
            Err(error) => Err(NothingFound(error)),
        }
    }

    /// Looks at a region that was found.
    pub fn of_region(found: Found) -> Self {
        let Found { address, salvage, buffer, .. } = found;
        let (stats, infos): (_, Vec<SequenceInfo>) = (buffer.stats(), buffer.sequences().collect());
        let memory = buffer.into_memory();
        let view = RingView::find(memory.as_ref());
        let mut this = Self {
            title: format!("trace buffer at {address:#x}"),
            size: stats.buffer_size,
            used: 0,
            write: None,
            oldest_unread: None,
            sequences: Vec::new(),
            chunks: Vec::new(),
            losses: losses_of(&stats, &infos, &salvage),
            pieces: "chunks",
            spans: Vec::new(),
        };
        let mut numbers = BTreeMap::new();
        for info in &infos {
            numbers.insert((info.producer_id, info.writer_id), 0);
        }
        // In the order of producers and writers.
        numbers.values_mut().zip(0..).for_each(|(number, next)| *number = next);
        this.sequences.resize_with(numbers.len(), SequenceLine::default);
        for info in &infos {
            let number = numbers.get(&(info.producer_id, info.writer_id)).copied().unwrap_or(0);
            if let Some(line) = this.sequences.get_mut(number) {
                (line.name, line.losses) = (name_of(info), losses_of_sequence(info));
            }
        }
        if let Ok(view) = view {
            this.look_at(&view, &numbers);
        }
        this
    }

    fn look_at(&mut self, view: &RingView<'_>, numbers: &BTreeMap<(u16, u16), usize>) {
        (self.used, self.write) = (u64::from(view.used()), Some(u64::from(view.write_cursor())));
        if view.is_sealed() {
            self.losses.push("it was full and keeps the beginning: what came later is not in it".to_owned());
        }
        let mut oldest = 0;
        for item in view.items() {
            let (offset, len) = (u64::from(item.offset), u64::from(item.size));
            let chunk = match item.content {
                RingContent::Chunk(chunk) => chunk,
                other => {
                    let kind = match other {
                        RingContent::Padding => Kind::Padding,
                        RingContent::Free => Kind::Free,
                        _ => Kind::Unreadable,
                    };
                    self.spans.push(Span { offset, len, kind, chunk: None });
                    continue;
                }
            };
            let number = numbers.get(&(chunk.producer_id, chunk.writer_id)).copied().unwrap_or(0);
            let read = match chunk.read {
                0 => 0,
                read => (CHUNK_HEADER + u64::from(read)).min(len),
            };
            if let Some(line) = self.sequences.get_mut(number) {
                line.pieces += 1;
                line.bytes += len;
                line.unread += len - read;
            }
            let mut id = Some(chunk.chunk_id);
            if read > 0 {
                self.spans.push(Span { offset, len: read, kind: Kind::Read(number), chunk: id.take() });
            }
            if len > read {
                let kind = Kind::Unread(number);
                self.spans.push(Span { offset: offset + read, len: len - read, kind, chunk: id });
            }
            if chunk.read < chunk.valid && item.age > oldest {
                (oldest, self.oldest_unread) = (item.age, Some(offset));
            }
            let mut text = format!(
                "at {offset}: chunk {} of producer {} writer {}, {} packets, {} bytes, {} read",
                chunk.chunk_id, chunk.producer_id, chunk.writer_id, chunk.packets, chunk.valid, chunk.read
            );
            for (name, _) in chunk.flags.iter_names() {
                text.push_str(", ");
                text.push_str(&name.to_ascii_lowercase().replace('_', " "));
            }
            for (is, what) in [
                (!chunk.complete, ", scraped"),
                (chunk.truncated, ", truncated"),
                (chunk.aborted, ", aborted"),
            ] {
                text.push_str(if is { what } else { "" });
            }
            self.chunks.push(ChunkLine { age: item.age, text });
        }
        self.chunks.sort_by_key(|chunk| std::cmp::Reverse(chunk.age));
    }

    /// Looks at a trace.
    fn of_trace(bytes: &[u8]) -> (Self, TraceReport) {
        let mut numbers = BTreeMap::new();
        let mut spans: Vec<(u64, u64, u64)> = Vec::new();
        let report = TraceReport::with(bytes, |offset, len, sequence| {
            let (count, total) = numbers.entry(sequence).or_insert((0u64, 0u64));
            (*count, *total) = (*count + 1, *total + len);
            match spans.last_mut() {
                Some((_, last, same)) if *same == sequence => *last += len,
                _ => spans.push((offset, len, sequence)),
            }
        });
        let place: BTreeMap<u64, usize> = numbers.keys().copied().zip(0..).collect();
        let mut spans: Vec<Span> = spans
            .into_iter()
            .map(|(offset, len, sequence)| {
                let kind = Kind::Unread(place.get(&sequence).copied().unwrap_or(0));
                Span { offset, len, kind, chunk: None }
            })
            .collect();
        if report.rest > 0 {
            let (offset, len) = (report.bytes, report.rest);
            spans.push(Span { offset, len, kind: Kind::Unreadable, chunk: None });
        }
        let sequences = numbers.iter().map(|(id, (pieces, bytes))| {
            let known = report.sequences.get(id);
            let pid = known.and_then(|sequence| sequence.pid);
            let losses = match known.map_or(0, |sequence| sequence.after_loss) {
                0 => String::new(),
                count => format!("{count} packets follow a loss"),
            };
            let name = match (id, pid) {
                (1, _) => "the service".to_owned(),
                (_, Some(pid)) => format!("sequence {id}, process {pid}"),
                (_, None) => format!("sequence {id}"),
            };
            SequenceLine { name, pieces: *pieces, bytes: *bytes, unread: *bytes, losses }
        });
        let this = Self {
            title: "trace".to_owned(),
            size: bytes.len() as u64,
            used: bytes.len() as u64,
            write: None,
            oldest_unread: None,
            sequences: sequences.collect(),
            chunks: Vec::new(),
            losses: report.to_string().lines().skip(1).map(str::to_owned).collect(),
            pieces: "packets",
            spans,
        };
        (this, report)
    }

    /// The picture's or the map's text for a terminal; see [the module](self). With `colour`, by escape sequences.
    pub fn map(&self, columns: usize, rows: usize, colour: bool) -> String {
        map::draw(self, columns, rows, colour)
    }

    /// The same as a picture.
    pub fn svg(&self) -> String {
        svg::draw(self)
    }

    /// Bytes of a kind that is no sequence's.
    pub(crate) fn bytes_of(&self, kind: Kind) -> u64 {
        self.spans.iter().filter(|span| span.kind == kind).map(|span| span.len).sum()
    }
}

impl fmt::Display for Inspection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {} bytes, {} used", self.title, self.size, self.used)?;
        if let Some(write) = self.write {
            write!(f, ", write cursor at {write}")?;
        }
        match self.oldest_unread {
            Some(oldest) => writeln!(f, ", oldest unread chunk at {oldest}")?,
            None => writeln!(f)?,
        }
        if self.write.is_some() {
            let of = |kind| self.bytes_of(kind);
            let (padding, free, lost) = (of(Kind::Padding), of(Kind::Free), of(Kind::Unreadable));
            writeln!(f, "padding {padding}, free {free}, unreadable {lost} bytes")?;
        }
        writeln!(f, "{} sequences", self.sequences.len())?;
        for (line, number) in self.sequences.iter().zip(0..) {
            let SequenceLine { name, pieces, bytes, unread, losses } = line;
            let letter = map::letter(number);
            write!(f, "  {letter} {name}: {pieces} {}, {bytes} bytes", self.pieces)?;
            if self.write.is_some() {
                write!(f, ", {unread} unread")?;
            }
            writeln!(f, "{}{losses}", if losses.is_empty() { "" } else { "; lost: " })?;
        }
        if self.losses.is_empty() {
            return writeln!(f, "nothing was lost");
        }
        self.losses.iter().try_for_each(|loss| writeln!(f, "{loss}"))
    }
}

fn name_of(info: &SequenceInfo) -> String {
    let mut name = format!("producer {} writer {}", info.producer_id, info.writer_id);
    if info.pid != -1 {
        name.push_str(&format!(", process {}", info.pid));
    }
    name
}

fn losses_of_sequence(info: &SequenceInfo) -> String {
    let counts = [
        (info.packets_evicted, "packets overwritten"),
        (info.packets_broken, "packets in pieces"),
        (info.packets_malformed, "chunks malformed"),
    ];
    let said = counts.iter().filter(|(count, _)| *count > 0).map(|(count, what)| format!("{count} {what}"));
    said.collect::<Vec<_>>().join(", ")
}

fn losses_of(stats: &BufferStats, infos: &[SequenceInfo], salvage: &Salvage) -> Vec<String> {
    let sum = |count: fn(&SequenceInfo) -> u64| infos.iter().map(count).sum::<u64>();
    let counters = [
        (stats.chunks_overwritten, "chunks were overwritten unread"),
        (stats.chunks_discarded, "chunks came too late or did not fit"),
        (stats.chunks_refused, "chunks were refused"),
        (stats.abi_violations, "chunks broke the rules"),
        (stats.patches_failed, "patches came too late"),
        (stats.trace_writer_packet_loss, "packets were given up by their writers"),
        // No counter of the buffer has what readers find.
        (sum(|info| info.packets_broken), "packets could not be put together"),
        (sum(|info| info.packets_malformed), "chunks were malformed"),
    ];
    let counted =
        counters.iter().filter(|(count, _)| *count > 0).map(|(count, what)| format!("{count} {what}"));
    let mut losses: Vec<String> = counted.collect();
    if !salvage.is_clean() {
        losses.push(format!("when it was found: {salvage}"));
    }
    losses
}
