//! Pages of the kernel's ring buffers into packets of a trace.

use std::collections::BTreeSet;
use std::io;

use tracebuf::proto::Sink;
use tracebuf::proto::fields::{ftrace_clock, interned_bytes, interned_data, sequence_flags, trace_packet};

use super::addresses::{ConstantTexts, KernelSymbols};
use super::bundle::{Bundle, OtherClock};
use super::compact::CompactFormat;
use super::event::{Addresses, EventMessage};
use super::format::EventFormat;
use super::page::{PageLayout, ParseStatus, Record};
use super::source::TraceFs;
use super::threads::SeenThreads;

/// The first number of an event that a trace describes itself.
const FIRST_GENERIC: u32 = 65536;
/// Trace processor refuses processors from here on.
const MAX_CPUS: u32 = 1024;

/// Takes the bytes of a `TracePacket`.
pub type PacketSink<'a> = dyn FnMut(&[u8]) + 'a;

/// The outcome of a page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PageOutcome {
    /// Events that went into the trace.
    pub events: u64,
    /// Why the rest was left out, if it was.
    pub status: Option<ParseStatus>,
}

/// What becomes of an event with a certain id.
#[derive(Debug)]
enum Target {
    Message(EventMessage),
    /// For the lists; the message for those in full.
    Switch(EventMessage),
    Waking,
}

/// Reads pages and makes packets of them: bundles of events, as Perfetto's recorder writes them.
///
/// A read pass goes over all processors once. Within it packets come in the order of each processor's events; trace
/// processor needs no other order. All packets belong on one sequence.
#[derive(Debug)]
pub struct FtraceReader {
    layout: PageLayout,
    targets: Vec<Option<Target>>,
    compact: Option<CompactFormat>,
    clock: OtherClock,
    /// Nanoseconds by which the trace's clock is ahead, where both count the time since boot.
    ahead: i64,
    addresses: Addresses,
    symbols: Option<KernelSymbols>,
    unknown: Vec<String>,
    events: u64,
    /// The threads that events name, if somebody wants to know.
    threads: Option<SeenThreads>,
    /// Whether each processor's next switch is to be in full; `None` if none is.
    in_full: Option<Vec<bool>>,
    errors: BTreeSet<ParseStatus>,
    /// Of each processor, the time of the last event in a bundle.
    ends: Vec<u64>,
    bundle: Bundle,
    page: Vec<u8>,
    message: Vec<u8>,
    interned: Vec<u8>,
    packet: Vec<u8>,
}

impl FtraceReader {
    /// Reads the formats of events, named `group/name`; their clock and the layout of pages. Events that the kernel
    /// does not have are [told](Self::unknown_events) and left out. With `compact`, `sched_switch` and `sched_waking`
    /// are written as lists, which take a sixth of the space, if `sched_switch` is among the events and the kernel's
    /// formats allow it.
    ///
    /// # Errors
    /// The system's, if the layout of pages or the clock cannot be read; [`InvalidData`](io::ErrorKind::InvalidData) if the
    /// layout is not known.
    pub fn new<'e>(
        fs: &mut impl TraceFs,
        events: impl IntoIterator<Item = &'e str>,
        compact: bool,
    ) -> io::Result<Self> {
        let layout = PageLayout::parse(&fs.read("events/header_page")?).ok_or_else(|| {
            io::Error::new(io::ErrorKind::InvalidData, "events/header_page: an unknown layout")
        })?;
        let clock = clock_of(&fs.read("trace_clock")?).map(|clock| (clock, None));
        let texts = ConstantTexts::parse(&fs.read("printk_formats").unwrap_or_default());
        let mut reader = Self {
            layout,
            targets: Vec::new(),
            compact: None,
            clock,
            ahead: 0,
            addresses: Addresses { texts, ..Addresses::default() },
            symbols: None,
            unknown: Vec::new(),
            events: 0,
            threads: None,
            in_full: None,
            errors: BTreeSet::new(),
            ends: Vec::new(),
            bundle: Bundle::default(),
            page: vec![0; layout.page_len()],
            message: Vec::new(),
            interned: Vec::new(),
            packet: Vec::new(),
        };
        let mut scheduling = [None, None];
        for name in events {
            if !reader.add(fs, name, &mut scheduling) {
                reader.unknown.push(name.to_owned());
            }
        }
        if let [Some(switch), waking] = scheduling.map(|format| format.filter(|_| compact)) {
            let asked = waking.is_some();
            let waking = waking.or_else(|| format_of(fs, SCHED_WAKING));
            reader.compact = CompactFormat::new(&switch, waking.as_ref());
            if reader.compact.is_some() {
                let place = reader.targets.get_mut(usize::from(switch.id));
                if let Some(Some(Target::Message(message))) = place.map(Option::take) {
                    reader.set(switch.id, Target::Switch(message));
                }
                waking.filter(|_| asked).into_iter().for_each(|waking| reader.set(waking.id, Target::Waking));
            }
        }
        Ok(reader)
    }

    fn add(&mut self, fs: &mut impl TraceFs, name: &str, scheduling: &mut [Option<EventFormat>; 2]) -> bool {
        let Some((group, _)) = name.split_once('/') else { return false };
        let Some(format) = format_of(fs, name) else { return false };
        // Whoever reads a trace keeps the first event that it sees with a number: several sources of one trace agree.
        let generic = FIRST_GENERIC + u32::from(format.id);
        let Some(message) = EventMessage::new(group, &format, generic) else { return false };
        self.set(format.id, Target::Message(message));
        match name {
            SCHED_SWITCH => scheduling[0] = Some(format),
            SCHED_WAKING => scheduling[1] = Some(format),
            _ => {}
        }
        true
    }

    fn set(&mut self, id: u16, target: Target) {
        let len = self.targets.len().max(usize::from(id) + 1);
        self.targets.resize_with(len, || None);
        if let Some(place) = self.targets.get_mut(usize::from(id)) {
            *place = Some(target);
        }
    }

    /// Writes the names of the kernel's functions too, where events point to them.
    pub fn symbolize(&mut self, symbols: KernelSymbols) {
        self.symbols = Some(symbols);
    }

    /// Adds these nanoseconds to all times, unless the kernel's clock is another than the time since boot: what the trace's
    /// boot time is ahead of the machine's, as in a container's time namespace.
    pub fn set_ahead(&mut self, nanoseconds: i64) {
        self.ahead = if self.clock.is_none() { nanoseconds } else { 0 };
    }

    /// Writes the first switch of each processor as an event of its own, not in a list: trace processor takes what ran
    /// before from it. Perfetto's recorder writes none so. The first after a loss stays in a list, as trace processor has
    /// made up its mind of what ran: it would call the trace wrong.
    pub fn first_switch_in_full(&mut self) {
        self.in_full = Some(Vec::new());
    }

    /// Notes the threads that events name: see [`take_threads`](Self::take_threads).
    pub fn note_threads(&mut self) {
        self.threads = Some(SeenThreads::default());
    }

    /// The threads that events named for the first time, or that got another name, since the last call.
    pub fn take_threads(&mut self) -> Vec<u32> {
        self.threads.as_mut().map(SeenThreads::take_new).unwrap_or_default()
    }

    /// Events that went into the trace.
    pub const fn events(&self) -> u64 {
        self.events
    }

    /// Events that the kernel does not have, or whose format is not known, as they were asked for.
    pub fn unknown_events(&self) -> &[String] {
        &self.unknown
    }

    /// The layout of pages.
    pub const fn layout(&self) -> PageLayout {
        self.layout
    }

    /// Decodes a page; of processors from 1024 on nothing, because trace processor would refuse the trace. Its last events
    /// may stay in a bundle until [`finish`](Self::finish).
    pub fn decode(&mut self, cpu: u32, page: &[u8], out: &mut PacketSink<'_>) -> PageOutcome {
        if cpu >= MAX_CPUS {
            return PageOutcome { events: 0, status: None };
        }
        if self.bundle.is_of_another(cpu) {
            self.finish(out);
        }
        let mut events = 0;
        let (timestamp, result) = match self.layout.open(page) {
            Err(status) => (None, Err(status)),
            Ok(page) => {
                // What was lost was lost before the bundle's first event.
                if page.lost.is_some() || self.bundle.compact.has_many_names() {
                    self.finish(out);
                }
                if page.lost.is_some() {
                    self.begin(cpu, true);
                }
                let mut records = page.records();
                let result = records.try_for_each(|record| {
                    events += u64::from(self.record(cpu, &record?, out)?);
                    Ok(())
                });
                (Some(page.timestamp), result)
            }
        };
        if let Err(status) = result {
            self.errors.insert(status);
            self.begin(cpu, false);
            if self.bundle.error(timestamp, status) {
                self.finish(out);
            }
        }
        PageOutcome { events, status: result.err() }
    }

    /// Adds a record; false if nobody asked for its event.
    fn record(
        &mut self,
        cpu: u32,
        record: &Record<'_>,
        out: &mut PacketSink<'_>,
    ) -> Result<bool, ParseStatus> {
        let Some(Some(target)) = self.targets.get(usize::from(record.id)) else { return Ok(false) };
        let bundle = &mut self.bundle;
        let previous_end = self.ends.get(cpu as usize).copied().unwrap_or(0);
        let (time, data) = (record.timestamp.wrapping_add_signed(self.ahead), record.data);
        let thread = match (target, &self.compact) {
            (Target::Switch(_), Some(format)) if !is_next_in_full(&mut self.in_full, cpu) => {
                Some(bundle.compact.switch(format, time, data))
            }
            (Target::Waking, Some(format)) => Some(bundle.compact.waking(format, time, data)),
            (Target::Message(message) | Target::Switch(message), _) => {
                let event = message.event(time, data, &mut self.addresses, &mut self.message);
                let event = event.ok_or(ParseStatus::Event)?;
                bundle.begin(cpu, false, previous_end, self.clock);
                bundle.event(&event, record.id, message.descriptor.as_deref());
                self.threads.iter_mut().for_each(|seen| message.note_threads(data, seen));
                None
            }
            (Target::Waking, None) => return Ok(false),
        };
        if let Some(thread) = thread {
            let thread = thread.ok_or(ParseStatus::CompactEvent)?;
            bundle.begin(cpu, false, previous_end, self.clock);
            self.threads.iter_mut().for_each(|seen| seen.see(thread));
        }
        self.events += 1;
        if bundle.added(time) {
            self.finish(out);
        }
        Ok(true)
    }

    fn begin(&mut self, cpu: u32, has_lost: bool) {
        let previous_end = self.ends.get(cpu as usize).copied().unwrap_or(0);
        self.bundle.begin(cpu, has_lost, previous_end, self.clock);
    }

    /// Ends the bundle that is being filled, if there is one, and writes it.
    pub fn finish(&mut self, out: &mut PacketSink<'_>) {
        self.packet.clear();
        let Some((cpu, end)) = self.bundle.end(trace_packet::FTRACE_EVENTS, &mut self.packet) else { return };
        let index = cpu as usize;
        if let Some(end) = end {
            self.ends.resize(self.ends.len().max(index + 1), 0);
            self.ends.get_mut(index).into_iter().for_each(|last| *last = end.max(*last));
        }
        self.intern_symbols();
        out(&self.packet);
    }

    /// Appends the names of functions that this packet is the first to point to.
    fn intern_symbols(&mut self) {
        let Some(symbols) = &self.symbols else { return };
        let (is_first, new) = self.addresses.indices.take_new();
        self.interned.clear();
        for (number, address) in new {
            if let Some(name) = symbols.at(address) {
                self.message.clear();
                let Ok(()) = self.message.varint(interned_bytes::IID, number.into());
                let Ok(()) = self.message.bytes(interned_bytes::STR, name.as_bytes());
                let Ok(()) = self.interned.bytes(interned_data::KERNEL_SYMBOLS, &self.message);
            }
        }
        if !self.interned.is_empty() {
            let Ok(()) = self.packet.bytes(trace_packet::INTERNED_DATA, &self.interned);
        }
        // Or a number without a name would have that of the pass before.
        if is_first {
            let flags = sequence_flags::INCREMENTAL_STATE_CLEARED;
            let Ok(()) = self.packet.varint(trace_packet::SEQUENCE_FLAGS, flags);
        }
    }
}

const SCHED_SWITCH: &str = "sched/sched_switch";
const SCHED_WAKING: &str = "sched/sched_waking";

fn format_of(fs: &mut impl TraceFs, name: &str) -> Option<EventFormat> {
    EventFormat::parse(&fs.read(&format!("events/{name}/format")).ok()?)
}

/// Whether a processor's next switch is to be in full; the one after it is not.
fn is_next_in_full(in_full: &mut Option<Vec<bool>>, cpu: u32) -> bool {
    let (Some(cpus), index) = (in_full, cpu as usize) else { return false };
    if cpus.len() <= index {
        cpus.resize(index + 1, true);
    }
    cpus.get_mut(index).is_some_and(std::mem::take)
}

/// The clock that `trace_clock` has in brackets, as a value of `FtraceClock`; `None` if it is the trace's.
fn clock_of(trace_clock: &str) -> Option<u64> {
    let current = trace_clock.split_once('[').and_then(|(_, rest)| rest.split_once(']'));
    match current?.0 {
        "boot" => None,
        "global" => Some(ftrace_clock::GLOBAL),
        "local" => Some(ftrace_clock::LOCAL),
        "mono_raw" => Some(ftrace_clock::MONO_RAW),
        _ => Some(ftrace_clock::UNKNOWN),
    }
}

mod passes;
mod statistics;
#[cfg(test)]
mod tests;
