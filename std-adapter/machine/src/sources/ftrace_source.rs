//! The kernel's events as a source: [`FtraceSource`].

use std::fmt;
use std::io;
use std::os::fd::BorrowedFd;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tracebuf_ipc::boot_time_ahead;
use tracebuf_std::process::pid_namespace;
use tracebuf_std::system::thread_id;

use super::data_source::{DataSource, SourceOutput};
use super::thread_numbers::ThreadNumbers;
use crate::ftrace::{
    FtraceReader, FtraceStats, FtraceStatus, Instance, InstanceOptions, KernelSymbols, StatsPhase, TraceFs,
    is_of_who_runs,
};

/// Pages of a processor that are read before others have their turn: 1 MiB, where they have 4 KiB.
const PAGES: usize = 256;
/// How full a buffer is, in percent, when it is read before its time, unless another number is set.
const WATERMARK: u8 = 50;
/// The first kernel that wakes a reader at a watermark as it should.
const WATERMARK_SINCE: (u32, u32) = (6, 9);
/// Threads of a filter, at most: the kernel takes a page of text.
const MAX_LEFT_OUT: usize = 64;

/// What to record of the kernel's events, and how.
///
/// ```
/// use std::time::Duration;
/// use tracebuf_machine::sources::{FtraceOptions, ThreadNumbers};
///
/// let named = ThreadNumbers::default();
/// let options = FtraceOptions::new(["sched/sched_switch", "irq/*"])
///     .filter("irq/softirq_raise", "vec != 9")
///     .buffer_kib(16 << 10)
///     .period(Duration::from_millis(250))
///     .tell_threads(&named);
/// # let _ = options;
/// ```
#[derive(Clone, Debug)]
pub struct FtraceOptions {
    instance: InstanceOptions,
    /// Events that are recorded if the kernel has them.
    if_there: Vec<&'static str>,
    period: Duration,
    leave_out: Vec<u32>,
    symbols: bool,
    is_verbose: bool,
    watermark: u8,
    threads: Option<ThreadNumbers>,
    /// What the trace says that is not done.
    told: String,
}

impl FtraceOptions {
    /// Records these events, each as `group/name`, `group/*` or `name`, with a buffer of 2 MiB for each processor, and
    /// looks every 100 ms, or from Linux 6.9 on when a buffer is half full.
    pub fn new(events: impl IntoIterator<Item = impl Into<String>>) -> Self {
        let events = events.into_iter().map(Into::into).collect();
        let instance = InstanceOptions { events, buffer_kib: 2048, ..InstanceOptions::default() };
        Self {
            instance,
            if_there: Vec::new(),
            period: Duration::from_millis(100),
            leave_out: Vec::new(),
            symbols: false,
            is_verbose: false,
            watermark: WATERMARK,
            threads: None,
            told: String::new(),
        }
    }

    /// Records an event only under a condition, in the kernel's words, such as `common_pid != 7`.
    #[must_use]
    pub fn filter(mut self, event: impl Into<String>, condition: impl Into<String>) -> Self {
        self.instance.filters.push((event.into(), condition.into()));
        self
    }

    /// Sets the KiB of each processor's buffer: what comes until it is read. The kernel rounds.
    #[must_use]
    pub fn buffer_kib(mut self, kib: u64) -> Self {
        self.instance.buffer_kib = kib;
        self
    }

    /// Sets the time between two looks, from 1 ms to a minute.
    #[must_use]
    pub fn period(mut self, period: Duration) -> Self {
        self.period = period.clamp(Duration::from_millis(1), Duration::from_secs(60));
        self
    }

    /// Reads before the next look when a buffer is so full, in percent up to 100. Kernels before 6.9 do not tell.
    #[must_use]
    pub fn watermark(mut self, percent: u8) -> Self {
        self.watermark = percent.min(100);
        self
    }

    /// Records these events, too, if the kernel has them.
    pub(super) fn if_there(mut self, events: Vec<&'static str>) -> Self {
        self.if_there = events;
        self
    }

    /// Has this text in a file of the set of buffers.
    pub(super) fn set(mut self, file: String, text: String) -> Self {
        self.instance.settings.push((file, text));
        self
    }

    /// Lets the trace say what was asked for and is not done.
    pub(super) fn tell(mut self, what: String) -> Self {
        self.told = what;
        self
    }

    /// What the trace says so.
    pub(super) fn told(&self) -> &str {
        &self.told
    }

    /// Leaves out what these threads cause themselves, system calls and the like, besides the source's own thread: those
    /// that write the trace would see themselves write. When they run stays in the trace. In a pid namespace of its own
    /// nothing is left out, as numbers are others there.
    #[must_use]
    pub fn leave_out(mut self, threads: impl IntoIterator<Item = u32>) -> Self {
        self.leave_out = threads.into_iter().collect();
        self
    }

    /// Writes the names of the kernel's functions too, where events point to them. The names take some 5 MB.
    #[must_use]
    pub fn symbols(mut self) -> Self {
        self.symbols = true;
        self
    }

    /// Writes each switch as an event of its own, not in lists that take a sixth of the room.
    #[must_use]
    pub fn verbose(mut self) -> Self {
        self.is_verbose = true;
        self
    }

    /// Puts the threads that events name into this list, for a [`ProcessTreeSource`](super::ProcessTreeSource) that runs
    /// after this source.
    #[must_use]
    pub fn tell_threads(mut self, threads: &ThreadNumbers) -> Self {
        self.threads = Some(threads.clone());
        self
    }
}

/// Why there are no events of the kernel. Its `Display` says what to do about it.
#[derive(Debug)]
pub struct Unavailable(io::Error);

impl fmt::Display for Unavailable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0.kind() {
            io::ErrorKind::PermissionDenied => write!(
                f,
                "/sys/kernel/tracing needs root: run it with sudo, or let your user have it: \
                 sudo mount -o remount,uid=$UID /sys/kernel/tracing"
            ),
            io::ErrorKind::NotFound => write!(
                f,
                "the kernel's tracefs is not mounted: sudo mount -t tracefs nodev /sys/kernel/tracing; containers mostly \
                 have none"
            ),
            io::ErrorKind::ReadOnlyFilesystem => write!(
                f,
                "/sys/kernel/tracing is read-only here: sudo mount -o remount,rw /sys/kernel/tracing, or, where a \
                 container may not, record outside of it"
            ),
            _ => write!(f, "/sys/kernel/tracing: {}", self.0),
        }
    }
}

impl std::error::Error for Unavailable {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        Some(&self.0)
    }
}

/// Records the kernel's events, in a set of buffers of its own: nothing else that traces is disturbed. The set
/// disappears with the source, however that ends; after `kill -9`, with the next source that is made on this machine.
///
/// Its thread reads pages and makes Perfetto's bundles of them, and writes statistics at the begin and the end, from which
/// readers know what was lost. The first switch of each processor is an event of its own, so that what ran before it is
/// known too.
#[derive(Debug)]
pub struct FtraceSource {
    options: FtraceOptions,
    instance: Option<Instance>,
    reader: Option<FtraceReader>,
    begun: Option<FtraceStats>,
    has_watermark: bool,
    status: Arc<Mutex<FtraceStatus>>,
}

impl FtraceSource {
    /// Makes the set of buffers, which record nothing yet. Removes those that killed processes have left.
    ///
    /// # Errors
    /// There is no tracefs, or it may not be used.
    pub fn new(options: FtraceOptions) -> Result<Self, Unavailable> {
        let make = || {
            let top = Instance::find()?;
            Instance::remove_dead(&top);
            Instance::create(&top)
        };
        let instance = Some(make().map_err(Unavailable)?);
        Ok(Self {
            options,
            instance,
            reader: None,
            begun: None,
            has_watermark: false,
            status: Arc::default(),
        })
    }

    /// Leaves out what these threads cause too: see [`FtraceOptions::leave_out`].
    #[must_use]
    pub fn leave_out(mut self, threads: impl IntoIterator<Item = u32>) -> Self {
        self.options.leave_out.extend(threads);
        self
    }

    /// Whether the kernel has any of the events that were asked for.
    pub fn has_events(&self) -> bool {
        let Some(instance) = &self.instance else { return false };
        let mut events = self.options.instance.events.iter().flat_map(|event| instance.expanded(event));
        events.any(|event| instance.has(&event))
    }

    /// What it does, for whoever started it: the same value, kept up to date.
    pub fn status(&self) -> Arc<Mutex<FtraceStatus>> {
        self.status.clone()
    }

    /// The kernel's filters: those that were asked for, and that our own threads are left out.
    fn filters<'e>(&self, events: impl Iterator<Item = &'e String>) -> Vec<(String, String)> {
        let mut filters = self.options.instance.filters.clone();
        if pid_namespace() != 0 {
            return filters;
        }
        let mut threads = self.options.leave_out.clone();
        threads.push(thread_id());
        threads.sort_unstable();
        threads.dedup();
        let conditions: Vec<_> =
            threads.iter().take(MAX_LEFT_OUT).map(|thread| format!("common_pid != {thread}")).collect();
        let condition = conditions.join(" && ");
        for event in events.filter(|event| is_of_who_runs(event)) {
            match filters.iter_mut().find(|(filtered, _)| filtered == event) {
                Some((_, asked)) => *asked = format!("({asked}) && {condition}"),
                None => filters.push((event.clone(), condition.clone())),
            }
        }
        filters
    }

    /// Reads what there is: of each processor so many pages at most. Returns whether there may be more.
    fn read(&mut self, pages: usize, out: &mut SourceOutput) -> bool {
        let (Some(instance), Some(reader)) = (&mut self.instance, &mut self.reader) else { return false };
        reader.begin_pass(instance);
        let mut is_more = false;
        for cpu in instance.cpus().unwrap_or_default() {
            is_more |= reader.read_cpu(instance, cpu, pages, &mut |packet| out.bytes(packet)) >= pages;
        }
        if let Some(threads) = &self.options.threads {
            threads.add(reader.take_threads());
        }
        self.status.lock().unwrap_or_else(PoisonError::into_inner).events = reader.events();
        is_more
    }

    fn statistics(&mut self, phase: StatsPhase) -> Option<FtraceStats> {
        let (instance, reader) = (self.instance.as_mut()?, self.reader.as_ref()?);
        let mut stats = reader.stats(instance, phase).ok()?;
        if phase == StatsPhase::Start {
            stats.failed_events = instance.failed_events().to_vec();
            stats.error.clone_from(&self.options.told);
        }
        let asked = self.options.instance.buffer_kib.saturating_mul(1024);
        stats.asked_pages = asked.div_ceil(reader.layout().page_len() as u64);
        Some(stats)
    }

    /// Writes the statistics of the begin and of now: of several pairs readers take the first and the last, and a ring that
    /// went round has lost the first ones.
    fn write_statistics(&mut self, out: &mut SourceOutput) {
        let now = self.statistics(StatsPhase::End);
        for stats in self.begun.iter().chain(&now) {
            FtraceReader::write_stats(stats, &mut |packet| out.bytes(packet));
        }
        let (Some(begun), Some(now)) = (&self.begun, now) else { return };
        let mut status = self.status.lock().unwrap_or_else(PoisonError::into_inner);
        status.faults = now.parse_errors.len();
        let before = |cpu| begun.cpus.iter().find(|before| before.cpu == cpu).copied().unwrap_or_default();
        let lost = now.cpus.iter().map(|cpu| cpu.since(&before(cpu.cpu)));
        status.lost = lost.filter(|cpu| cpu.lost() > 0).collect();
    }
}

impl DataSource for FtraceSource {
    fn name(&self) -> &'static str {
        "linux.ftrace"
    }

    fn start(&mut self, out: &mut SourceOutput) -> io::Result<()> {
        let Some(mut instance) = self.instance.take() else { return Err(io::ErrorKind::NotFound.into()) };
        let mut options = self.options.instance.clone();
        options.events = options.events.iter().flat_map(|event| instance.expanded(event)).collect();
        let if_there = self.options.if_there.iter().flat_map(|event| instance.expanded(event));
        options.events.extend(if_there.filter(|event| instance.has(event)));
        options.filters = self.filters(options.events.iter().filter(|event| instance.has(event)));
        // Twice the same event would be enabled twice, and told twice.
        let mut known = std::collections::HashSet::new();
        options.events.retain(|event| known.insert(event.clone()));
        self.has_watermark = kernel_version() >= Some(WATERMARK_SINCE)
            && instance.set_watermark(self.options.watermark).is_ok();
        let events = instance.start(&options)?;
        let mut reader =
            FtraceReader::new(&mut instance, events.iter().map(String::as_str), !self.options.is_verbose)?;
        reader.first_switch_in_full();
        reader.set_ahead(boot_time_ahead());
        if self.options.threads.is_some() {
            reader.note_threads();
        }
        if self.options.symbols {
            reader.symbolize(KernelSymbols::parse(
                &std::fs::read_to_string("/proc/kallsyms").unwrap_or_default(),
            ));
        }
        {
            let mut status = self.status.lock().unwrap_or_else(PoisonError::into_inner);
            status.unknown = reader.unknown_events().to_vec();
            status.failed = instance.failed_events().to_vec();
            status.buffer_kib = instance.buffer_kib();
        }
        (self.instance, self.reader) = (Some(instance), Some(reader));
        self.begun = self.statistics(StatsPhase::Start);
        if let Some(stats) = &self.begun {
            FtraceReader::write_stats(stats, &mut |packet| out.bytes(packet));
        }
        Ok(())
    }

    fn drain(&mut self, out: &mut SourceOutput) -> Duration {
        if self.read(PAGES, out) { Duration::ZERO } else { self.options.period }
    }

    fn flush(&mut self, out: &mut SourceOutput) {
        // What comes meanwhile is not waited for: a buffer of each processor at most.
        let page = self.reader.as_ref().map_or(4096, |reader| reader.layout().page_len()) as u64;
        let pages = self.options.instance.buffer_kib.saturating_mul(1024).div_ceil(page);
        self.read(usize::try_from(pages).unwrap_or(usize::MAX).max(PAGES), out);
        self.write_statistics(out);
    }

    fn stop(&mut self, out: &mut SourceOutput) {
        let _ = self.instance.as_ref().map(Instance::stop);
        self.read(usize::MAX, out);
        self.write_statistics(out);
        (self.instance, self.reader) = (None, None);
    }

    fn wakes_on(&self) -> Vec<BorrowedFd<'_>> {
        self.instance.as_ref().filter(|_| self.has_watermark).map(Instance::pipes).unwrap_or_default()
    }
}

/// The first two numbers of the kernel's version.
fn kernel_version() -> Option<(u32, u32)> {
    let name = rustix::system::uname();
    let mut numbers = name.release().to_str().ok()?.split(|c: char| !c.is_ascii_digit());
    Some((numbers.next()?.parse().ok()?, numbers.next()?.parse().ok()?))
}

#[cfg(test)]
mod tests;
