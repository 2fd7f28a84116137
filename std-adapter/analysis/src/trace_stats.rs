//! Losses of a trace, their causes, and what to do about them: the command `tracebuf stats`.
//!
//! ```
//! use tracebuf_analysis::trace_stats::TraceReport;
//!
//! // A trace of one packet, which says that the ring was lapped before it.
//! let report = TraceReport::of(&[0x0A, 5, 0x50, 2, 0xD0, 0x02, 65]);
//! assert_eq!(report.packets, 1);
//! assert!(report.to_string().contains("overwrite"));
//! ```

mod counters;
mod ftrace;
mod reading;
mod span;
#[cfg(test)]
mod state;

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::fmt;

use tracebuf::buffer::DataLoss;
pub use tracebuf::proto::TraceFileFault;
use tracebuf::proto::fields::{ftrace_event_bundle, thread_descriptor, track_descriptor};
use tracebuf::proto::reader::{message, number};
use tracebuf::proto::{PacketView, SequenceId};
use tracebuf_std::display::Count;

pub use counters::Counted;
use counters::{Counters, LARGER_RING};
use span::{Clocks, SequenceClock, with_event};

pub use ftrace::{CpuLosses, FtraceLosses};
pub use span::TimeSpan;

/// Sequences that are listed one by one. A trace crafted for it has one every few bytes.
const MAX_SEQUENCES: usize = 1 << 16;

/// Whose a packet is: that of a sequence listed by its number, or of one of the others, which come last.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Whose {
    Sequence(u64),
    Others,
}

/// Losses of one sequence.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct SequenceLosses {
    /// The process that wrote it, if the trace says.
    pub pid: Option<i32>,
    /// The name of the thread that wrote it, if the trace says: the first that its packets give, cut if it is long.
    pub thread: Option<String>,
    /// Its packets.
    pub packets: u64,
    /// Packets that follow a loss.
    pub after_loss: u64,
    /// For each bit of [`DataLoss`], packets that name it; one can name several.
    pub causes: [u64; 16],
    /// Packets that follow a loss and name none of [`DataLoss::CAUSES`].
    pub unnamed: u64,
    /// Packets that readers skip: the names, clock or track that they need were lost before them or are not in the
    /// trace, and did not come again. Not counted for [all others together](TraceReport::others).
    pub unreadable: u64,
    /// Whether the next packet that needs these can be read.
    has_state: bool,
    clock: SequenceClock,
}

/// Losses that a trace reports: those in the buffers that it came through, and in ftrace's. Losses that other
/// data sources count in packets of their own are not looked at. `Display` is what the command prints.
///
/// ```
/// use tracebuf_session::Session;
/// use tracebuf_analysis::trace_stats::TraceReport;
///
/// let session = Session::builder().start()?;
/// session.recorder().instant("hello");
/// let mut trace = Vec::new();
/// session.snapshot()?.write(&mut trace)?;
/// let report = TraceReport::of(&trace);
/// println!("{report}");
/// assert!(!report.has_losses());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct TraceReport {
    /// Whole packets.
    pub packets: u64,
    /// Bytes of whole packets.
    pub bytes: u64,
    /// Bytes after them, if any: a packet cut short, or something else.
    pub rest: u64,
    /// The fault of those bytes: a trace that ends within a packet may have been cut short; anything else is
    /// damage, and there may be more packets after it.
    pub fault: Option<TraceFileFault>,
    /// Whether [reading](TraceReport::read) it failed: what comes after these packets is unknown.
    pub is_cut_off: bool,
    /// Sequences by their numbers: the first 65,536 in the trace.
    pub sequences: BTreeMap<u64, SequenceLosses>,
    /// All other sequences together.
    pub others: SequenceLosses,
    /// Packets that contain compressed ones which cannot be unpacked: what they report is missing here. Others count as
    /// the packets that they contain.
    pub compressed: u64,
    /// Packets with events of a processor, by the kernel's ftrace, before which it lost some.
    pub ftrace_lost: u64,
    /// What the statistics of the kernel's ftrace tell.
    pub ftrace: FtraceLosses,
    /// Counters of the statistics that report losses and are not zero; `None` without any statistics. Of several
    /// statistics the largest value of each counter is given; with several sessions it is a minimum.
    pub statistics: Option<Vec<Counted>>,
    /// The time over which its events extend; `None` if it has none whose time is known.
    pub span: Option<TimeSpan>,
    clocks: Clocks,
}

const UNREADABLE: &str = "readers skip them: names, clock or track that they need were lost before them. Give the ring \
                          more bytes, or let each chunk tell what it needs: self_contained_chunks of a session's \
                          buffer, state_every(0) of a TracerConfig";

const COMPRESSED: &str =
    "what those tell of losses is not known: they are damaged, or unpack to more than 64 MiB each";

const FTRACE: &str = "the kernel's buffer of a processor was full: give it more (--kernel-buffer of tracebuf record, \
                      buffer_size_kb of ftrace_config), read it more often, or record fewer events";

/// Advice about a cause that a packet names.
fn advice(cause: DataLoss) -> &'static str {
    match cause {
        DataLoss::READ_GAP => {
            "chunks never came, or the file could not take them: see that producers end cleanly"
        }
        DataLoss::CHUNK_CORRUPTED => "a chunk or packet was malformed and left out: mend its producer",
        DataLoss::ORPHAN_CONTINUATION => {
            "the beginning of a packet is gone, mostly because it was overwritten: give the ring more bytes"
        }
        DataLoss::REASSEMBLY_GAP | DataLoss::REASSEMBLY_BROKEN_CHAIN => {
            "a part of a large packet is missing: give ring and shared memory several times its size"
        }
        DataLoss::OVERWRITE => LARGER_RING,
        DataLoss::WRITER_ABORT => {
            "a writer gave a packet up half-way: give shared memory more bytes, or let writers stall; if that was not \
             full, the packet was beyond a writer's limits"
        }
        DataLoss::SHARED_MEMORY_FULL => {
            "shared memory was full: give it more bytes, drain it more often, or let writers stall"
        }
        // Not every version of Perfetto names causes.
        _ => {
            "whoever lost them did not say why: look at the line if it was received, or at the program that traced"
        }
    }
}

/// Bytes of a thread's name that are kept: there are as many names as sequences. The system's have 15.
const MAX_NAME: usize = 64;

/// The name of the thread whose track this is.
fn thread_name(track: &[u8]) -> Option<String> {
    let thread = message(track, track_descriptor::THREAD).filter(|thread| !thread.is_empty())?;
    let names = [message(thread, thread_descriptor::THREAD_NAME), message(track, track_descriptor::NAME)];
    let name = names.into_iter().flatten().find(|name| !name.is_empty())?;
    Some(String::from_utf8_lossy(name.get(..MAX_NAME).unwrap_or(name)).into_owned())
}

impl TraceReport {
    /// Looks through a trace in memory. What is malformed ends only the message that contains it.
    pub fn of(trace: &[u8]) -> Self {
        Self::with(trace, |_, _, _| ())
    }

    /// The same, telling `each` for every packet where it lies, how many bytes it takes, and whose it is.
    pub(crate) fn with(trace: &[u8], mut each: impl FnMut(u64, u64, Whose)) -> Self {
        let (mut report, mut counters) = (Self::default(), Counters::default());
        (_, report.fault) = report.look_through(trace, &mut counters, &mut each);
        report.take_counters(counters);
        report.rest = trace.len() as u64 - report.bytes;
        report
    }

    /// Takes what all statistics together tell.
    fn take_counters(&mut self, counters: Counters) {
        self.statistics = counters.losses();
        self.ftrace = counters.ftrace.losses();
    }

    fn look_at(&mut self, packet: &[u8], counters: &mut Counters) -> Whose {
        let packet = PacketView::of(packet);
        let PacketView { sequence_id, loss, .. } = packet;
        let (mut pid, mut track) = (packet.pid, packet.track);
        packet.statistics.into_iter().for_each(|statistics| counters.add(statistics));
        if !packet.ftrace_stats.is_empty() {
            counters.ftrace.add(packet.ftrace_stats);
        }
        self.compressed += u64::from(packet.is_compressed);
        let ftrace_lost = number(packet.ftrace_events, ftrace_event_bundle::LOST_EVENTS);
        self.ftrace_lost += u64::from(ftrace_lost.is_some_and(|lost| lost != 0));
        let is_room = self.sequences.len() < MAX_SEQUENCES;
        let (whose, losses) = match self.sequences.entry(sequence_id) {
            Entry::Vacant(_) if !is_room => {
                // They belong to many sequences.
                (pid, track) = (None, &[]);
                (Whose::Others, &mut self.others)
            }
            entry => (Whose::Sequence(sequence_id), entry.or_default()),
        };
        losses.packets += 1;
        losses.pid = losses.pid.or(pid);
        if losses.thread.is_none() {
            losses.thread = thread_name(track);
        }
        losses.after_loss += u64::from(loss != 0);
        for (bit, count) in losses.causes.iter_mut().enumerate() {
            *count += loss >> bit & 1;
        }
        let named = DataLoss::CAUSES.iter().any(|(cause, _)| loss & u64::from(cause.bits()) != 0);
        losses.unnamed += u64::from(loss != 0 && !named);
        let is_unreadable = !packet.can_be_read(&mut losses.has_state);
        if whose == Whose::Sequence(SequenceId::SERVICE.get().into()) {
            self.clocks.add(&packet);
        } else if !is_unreadable && let Some(time) = self.clocks.time(&mut losses.clock, &packet) {
            self.span = Some(with_event(self.span, time));
        }
        // With several sequences, it is unknown which has its state.
        losses.unreadable += u64::from(is_unreadable && whose != Whose::Others);
        whose
    }

    pub(crate) fn losses_of(&self, whose: Whose) -> Option<&SequenceLosses> {
        match whose {
            Whose::Sequence(id) => self.sequences.get(&id),
            Whose::Others => Some(&self.others),
        }
    }

    /// Returns true if the trace says that something is missing, or does not say that nothing is.
    pub fn has_losses(&self) -> bool {
        self.rest > 0
            || self.is_cut_off
            || self.compressed > 0
            || self.ftrace_lost > 0
            || self.ftrace.has_losses()
            || self.all_sequences().any(|sequence| sequence.after_loss > 0 || sequence.unreadable > 0)
            || self.statistics.as_ref().is_none_or(|counted| !counted.is_empty())
    }

    fn all_sequences(&self) -> impl Iterator<Item = &SequenceLosses> {
        self.sequences.values().chain([&self.others])
    }

    /// Returns true if there may be more packets after the damage.
    fn is_damaged(&self) -> bool {
        self.fault.is_some_and(|fault| fault != TraceFileFault::Truncated)
    }

    /// The reason why there are no more packets, if there may be some.
    fn fmt_end(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (at, rest) = (self.bytes, Count(self.rest, "byte"));
        if self.is_damaged() {
            writeln!(f, "damaged at byte {at}: from there on nothing was looked at, {rest}")?;
        } else if self.rest > 0 && !self.is_cut_off {
            // A damaged size may also be too large.
            writeln!(
                f,
                "no whole packet in the last {rest}: writing was cut short there, or the size at byte {at} is damaged"
            )?;
        }
        if self.is_cut_off {
            writeln!(f, "it could not be read to its end: what follows is not known")?;
        }
        Ok(())
    }

    /// The losses of one cause, or another count of each sequence, if there are any.
    fn fmt_losses(
        &self,
        f: &mut fmt::Formatter<'_>,
        name: &str,
        advice: &str,
        count: impl Fn(&SequenceLosses) -> u64,
    ) -> fmt::Result {
        let total: u64 = self.all_sequences().map(&count).sum();
        if total == 0 {
            return Ok(());
        }
        writeln!(f, "{name} {}\n  {advice}", Count(total, "packet"))?;
        for (id, sequence) in self.sequences.iter().filter(|(_, sequence)| count(sequence) > 0) {
            let (lost, all) = (count(sequence), Count(sequence.packets, "packet"));
            write!(f, "  sequence {id}")?;
            if let Some(thread) = &sequence.thread {
                // Escaped: the trace may contain anything.
                write!(f, ", thread {thread:?}")?;
            }
            if let Some(pid) = sequence.pid {
                write!(f, ", process {pid}")?;
            }
            writeln!(f, ": {lost} of its {all}")?;
        }
        let (lost, all) = (count(&self.others), Count(self.others.packets, "packet"));
        if lost == 0 { Ok(()) } else { writeln!(f, "  all other sequences: {lost} of their {all}") }
    }
}

impl fmt::Display for TraceReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (packets, bytes) = (Count(self.packets, "packet"), Count(self.bytes, "byte"));
        let sequences = Count(self.sequences.len() as u64, "sequence");
        let more = if self.others.packets > 0 { "more than " } else { "" };
        writeln!(f, "{packets} of {more}{sequences}, {bytes}")?;
        self.span.into_iter().try_for_each(|span| writeln!(f, "{span}"))?;
        ftrace::fmt_not_recorded(&self.ftrace.not_recorded, f)?;
        if !self.has_losses() {
            return write!(f, "nothing was lost");
        }
        self.fmt_end(f)?;
        if self.compressed > 0 {
            let compressed = Count(self.compressed, "packet");
            writeln!(f, "compressed: {compressed} with others within\n  {COMPRESSED}")?;
        }
        for (cause, name) in DataLoss::CAUSES {
            let bit = cause.bits().trailing_zeros() as usize;
            let count = |sequence: &SequenceLosses| sequence.causes.get(bit).copied().unwrap_or(0);
            self.fmt_losses(f, &format!("{name}: before"), advice(cause), count)?;
        }
        if self.ftrace_lost > 0 {
            writeln!(f, "ftrace: events lost before {}\n  {FTRACE}", Count(self.ftrace_lost, "packet"))?;
        }
        write!(f, "{}", self.ftrace)?;
        self.fmt_losses(f, "no cause named: before", advice(DataLoss::ANY), |sequence| sequence.unnamed)?;
        self.fmt_losses(f, "cannot be read:", UNREADABLE, |sequence| sequence.unreadable)?;
        match &self.statistics {
            None if self.is_cut_off || self.is_damaged() => write!(f, "no statistics before that"),
            None if self.compressed > 0 => write!(f, "no statistics beside them"),
            None => write!(f, "no statistics: the trace was not completed, so its end may be missing"),
            Some(counted) => {
                for Counted { name, buffer, value, advice } in counted {
                    let of = buffer.map_or_else(String::new, |buffer| format!(" of buffer {buffer}"));
                    writeln!(f, "statistics: {name}{of} is {value}\n  {advice}")?;
                }
                let read = if self.is_cut_off || self.is_damaged() { "was read" } else { "is in the trace" };
                write!(f, "what else {read} is whole")
            }
        }
    }
}

#[cfg(test)]
mod tests;
