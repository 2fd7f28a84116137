//! Looks at the machine, one after another: `/proc` becomes values of counters.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use tracebuf::producer::track_event::Clock;

use super::proc::{CpuTimes, Moved, Proc, Stat, parse_diskstats, parse_loadavg, parse_meminfo, parse_net};
use super::processes::Processes;
use super::tracks::{CounterKind, Tracks};
use tracebuf_session::BootClock;

/// The least time between two looks at all processes.
const PROCESS_PERIOD: Duration = Duration::from_millis(500);
/// A look at them may take one part in this many of the time.
const PROCESS_SHARE: u32 = 20;

pub(super) struct Sampler {
    proc: Proc,
    pub(super) tracks: Tracks,
    stat: Option<Reading<Stat>>,
    disks: Option<Reading<BTreeMap<String, Moved>>>,
    interfaces: Option<Reading<BTreeMap<String, Moved>>>,
    processes: Processes,
    next_processes: Instant,
    /// Whether there was swap space.
    has_swap: bool,
    /// The files that were asked for, and whether they could ever be read.
    files: BTreeMap<&'static str, bool>,
}

/// A file as it was when it could last be read: what rates are counted from.
struct Reading<T> {
    time: u64,
    value: T,
}

impl<T> Reading<T> {
    fn seconds_since(&self, before: &Self) -> f64 {
        (self.time.saturating_sub(before.time) as f64 / 1e9).max(1e-6)
    }
}

impl Sampler {
    pub(super) fn new(proc: Proc, tracks: Tracks) -> Self {
        Self {
            proc,
            tracks,
            stat: None,
            disks: None,
            interfaces: None,
            processes: Processes::new(),
            next_processes: Instant::now(),
            has_swap: false,
            files: BTreeMap::new(),
        }
    }

    /// Cores that are on, and processes that were followed.
    pub(super) fn seen(&self) -> (usize, u64) {
        (self.stat.as_ref().map_or(0, |stat| stat.value.cores.len()), self.processes.followed_ever)
    }

    /// The files that this machine does not have.
    pub(super) fn missing(&self) -> impl Iterator<Item = &'static str> {
        self.files.iter().filter(|(_, was_read)| !**was_read).map(|(file, _)| *file)
    }

    fn read(&mut self, file: &'static str) -> Option<String> {
        let text = self.proc.read(file).ok();
        *self.files.entry(file).or_default() |= text.is_some();
        text
    }

    /// Looks at everything, and at the processes when it is time; the first time only for what the next look is
    /// compared with.
    pub(super) fn look(&mut self) {
        self.look_at_machine(BootClock.now());
        let start = Instant::now();
        if start >= self.next_processes {
            self.processes.look(BootClock.now(), &self.proc, &mut self.tracks);
            self.next_processes = start + PROCESS_PERIOD.max(start.elapsed() * PROCESS_SHARE);
        }
    }

    /// Looks at what happened since the last look, including the processes' part.
    pub(super) fn last_look(&mut self) {
        self.look_at_machine(BootClock.now());
        self.processes.last_look(BootClock.now(), &self.proc, &mut self.tracks);
    }

    /// A file that cannot be read has no values for now. What it said before stays, for the next look that can read it.
    ///
    /// First what happened since the look before, which has that look's time; then what is so now.
    fn look_at_machine(&mut self, time: u64) {
        let stat = self.read("stat").map(|text| Reading { time, value: Stat::parse(&text) });
        let disks = self.read("diskstats");
        let disks = disks.map(|text| parse_diskstats(&text, |name| self.proc.is_disk(name)));
        let interfaces = self.read("net/dev").map(|text| parse_net(&text));
        let [memory, load] = ["meminfo", "loadavg"].map(|file| self.read(file).unwrap_or_default());
        let before = self.stat.take();
        if let (Some(now), Some(before)) = (&stat, &before) {
            self.cpus(&now.value, before);
            self.rates(now, before);
        }
        let moved = [
            ("Disk", ["read", "written"], &mut self.disks, disks),
            ("Network", ["received", "sent"], &mut self.interfaces, interfaces),
        ];
        for (group, names, last, what) in moved {
            let Some(now) = what.map(|what| Reading { time, value: what }) else { continue };
            if let Some(before) = last {
                write_moved(&mut self.tracks, group, names, &now, before);
            }
            *last = Some(now);
        }
        self.memory(time, &parse_meminfo(&memory));
        self.load(time, stat.as_ref().map(|stat| &stat.value), parse_loadavg(&load));
        self.stat = stat.or(before);
    }

    fn cpus(&mut self, now: &Stat, before: &Reading<Stat>) {
        let (time, before) = (before.time, &before.value);
        let group = self.tracks.group("CPU");
        // Nothing if no tick fell between the two looks: that is neither busy nor idle.
        let percent =
            |part: u64, all: &CpuTimes| (all.total() > 0).then(|| 100.0 * part as f64 / all.total() as f64);
        let all = now.all.since(&before.all);
        let parts = [
            ("user", all.user),
            ("system", all.system),
            ("waiting for I/O", all.iowait),
            ("stolen", all.steal),
        ];
        for (name, part) in parts {
            let Some(percent) = percent(part, &all) else { continue };
            self.tracks.put(group, &format!("all cores, {name}"), CounterKind::Percent, time, percent);
        }
        for (core, before) in &before.cores {
            let busy = match now.cores.get(core).map(|now| now.since(before)) {
                Some(times) => percent(times.total() - times.idle - times.iowait, &times),
                // It was turned off: its last value does not hold for all the time that follows.
                None => Some(0.0),
            };
            let Some(busy) = busy else { continue };
            self.tracks.put(group, &format!("core {core} busy"), CounterKind::Percent, time, busy);
        }
    }

    fn memory(&mut self, time: u64, memory: &BTreeMap<&str, u64>) {
        let group = self.tracks.group("Memory");
        let get = |key: &str| memory.get(key).copied();
        let less = |all: &str, part: &str| Some(get(all)?.saturating_sub(get(part)?));
        let has_swap = get("SwapTotal").map(|total| total > 0);
        // Once more when it is turned off: its last value does not hold for all the time that follows.
        let had_swap = has_swap.is_some_and(|has| std::mem::replace(&mut self.has_swap, has));
        let swap = less("SwapTotal", "SwapFree").filter(|_| has_swap == Some(true) || had_swap);
        let values = [
            ("used", less("MemTotal", "MemAvailable")),
            ("available", get("MemAvailable")),
            ("file cache", get("Cached")),
            ("waiting to be written", get("Dirty")),
            ("swap used", swap),
        ];
        for (name, value) in values {
            let Some(value) = value else { continue };
            self.tracks.put(group, name, CounterKind::Bytes, time, value as f64);
        }
    }

    fn load(&mut self, time: u64, stat: Option<&Stat>, load: Option<(f64, u64)>) {
        let group = self.tracks.group("Load");
        let load = load.map(|(load, threads)| [("load of a minute", load), ("threads", threads as f64)]);
        let now = stat
            .map(|stat| [("running threads", stat.running as f64), ("blocked threads", stat.blocked as f64)]);
        for (name, value) in load.into_iter().chain(now).flatten() {
            self.tracks.put(group, name, CounterKind::Count, time, value);
        }
    }

    fn rates(&mut self, now: &Reading<Stat>, before: &Reading<Stat>) {
        let group = self.tracks.group("Scheduling");
        let seconds = now.seconds_since(before);
        let (time, now, before) = (before.time, &now.value, &before.value);
        let rates = [
            ("context switches", now.context_switches, before.context_switches),
            ("interrupts", now.interrupts, before.interrupts),
            ("forks", now.forks, before.forks),
        ];
        for (name, now, before) in rates {
            self.tracks.put(
                group,
                name,
                CounterKind::PerSecond,
                time,
                now.saturating_sub(before) as f64 / seconds,
            );
        }
    }
}

/// Writes what was moved since the look before, from then on.
fn write_moved(
    tracks: &mut Tracks,
    group: &str,
    [input, output]: [&str; 2],
    now: &Reading<BTreeMap<String, Moved>>,
    before: &Reading<BTreeMap<String, Moved>>,
) {
    let (time, seconds) = (before.time, now.seconds_since(before));
    for (name, before) in &before.value {
        // One that is not there any more moves nothing: otherwise its last values would seem to last.
        let now = now.value.get(name).unwrap_or(before);
        if (now, before) == (&Moved::default(), &Moved::default()) {
            // Never used: not worth a track. One that was made anew begins at 0 too.
            continue;
        }
        let group = tracks.group(group);
        let both = [(input, now.input, before.input), (output, now.output, before.output)];
        for (what, now, before) in both {
            tracks.put(
                group,
                &format!("{name} {what}"),
                CounterKind::BytesPerSecond,
                time,
                now.saturating_sub(before) as f64 / seconds,
            );
        }
    }
}

#[cfg(test)]
mod tests;
