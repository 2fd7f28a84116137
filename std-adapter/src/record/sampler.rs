//! One look at the machine after the other: what `/proc` says becomes values of counters.

use std::collections::BTreeMap;
use std::io;
use std::time::{Duration, Instant};

use tracebuf::producer::track_event::Clock;

use super::proc::{CpuTimes, Moved, Proc, Stat, parse_diskstats, parse_loadavg, parse_meminfo, parse_net};
use super::processes::Processes;
use super::tracks::{Kind, Tracks};
use crate::session::BootClock;

/// The least time between two looks at all processes.
const PROCESS_PERIOD: Duration = Duration::from_millis(500);
/// That look may take one part of so many of the time.
const PROCESS_SHARE: u32 = 20;

pub(super) struct Sampler {
    proc: Proc,
    tracks: Tracks,
    last: Option<Last>,
    processes: Processes,
    next_processes: Instant,
    /// What is not to be had on this machine.
    missing: Vec<&'static str>,
}

/// What rates are counted from.
struct Last {
    time: u64,
    stat: Stat,
    disks: BTreeMap<String, Moved>,
    interfaces: BTreeMap<String, Moved>,
}

impl Sampler {
    /// # Errors
    /// There is no `/proc/stat`.
    pub(super) fn new(tracks: Tracks) -> io::Result<Self> {
        let proc = Proc::new();
        proc.read("stat")?;
        Ok(Self {
            proc,
            tracks,
            last: None,
            processes: Processes::new(),
            next_processes: Instant::now(),
            missing: Vec::new(),
        })
    }

    pub(super) fn tracks(&self) -> &Tracks {
        &self.tracks
    }

    /// Cores that are on, and processes that were followed.
    pub(super) fn seen(&self) -> (usize, u64) {
        (self.last.as_ref().map_or(0, |last| last.stat.cores.len()), self.processes.followed_ever())
    }

    pub(super) fn missing(&self) -> &[&'static str] {
        &self.missing
    }

    fn read(&mut self, file: &'static str) -> String {
        self.proc.read(file).unwrap_or_else(|_| {
            if !self.missing.contains(&file) {
                self.missing.push(file);
            }
            String::new()
        })
    }

    /// Looks once at everything; the first time only for what the next is compared with.
    pub(super) fn sample(&mut self) {
        let time = BootClock.now();
        let stat = Stat::parse(&self.read("stat"));
        let disks = parse_diskstats(&self.read("diskstats"), |name| self.proc.is_disk(name));
        let interfaces = parse_net(&self.read("net/dev"));
        let (memory, load) = (self.read("meminfo"), self.read("loadavg"));
        self.memory(time, &parse_meminfo(&memory));
        self.load(time, &stat, parse_loadavg(&load));
        if let Some(last) = self.last.take() {
            let seconds = (time.saturating_sub(last.time) as f64 / 1e9).max(1e-6);
            self.cpus(time, &stat, &last.stat);
            self.rates(time, seconds, &stat, &last.stat);
            self.moved("Disk", ["read", "written"], time, seconds, &disks, &last.disks);
            self.moved("Network", ["received", "sent"], time, seconds, &interfaces, &last.interfaces);
        }
        self.last = Some(Last { time, stat, disks, interfaces });
        let start = Instant::now();
        if start >= self.next_processes {
            self.processes.look(BootClock.now(), &self.proc, &mut self.tracks);
            self.next_processes = start + PROCESS_PERIOD.max(start.elapsed() * PROCESS_SHARE);
        }
    }

    fn cpus(&mut self, time: u64, stat: &Stat, last: &Stat) {
        let group = self.tracks.group("CPU");
        let percent = |part: u64, all: &CpuTimes| 100.0 * part as f64 / all.total().max(1) as f64;
        let all = stat.all.since(&last.all);
        let parts = [
            ("user", all.user),
            ("system", all.system),
            ("waiting for I/O", all.iowait),
            ("stolen", all.steal),
        ];
        for (name, part) in parts {
            let counter = self.tracks.counter(group, &format!("all cores, {name}"), Kind::Percent);
            self.tracks.value(counter, time, percent(part, &all));
        }
        for (core, times) in &stat.cores {
            let Some(before) = last.cores.get(core) else { continue };
            let times = times.since(before);
            let counter = self.tracks.counter(group, &format!("core {core} busy"), Kind::Percent);
            self.tracks.value(counter, time, percent(times.total() - times.idle - times.iowait, &times));
        }
    }

    fn memory(&mut self, time: u64, memory: &BTreeMap<&str, u64>) {
        let group = self.tracks.group("Memory");
        let get = |key: &str| memory.get(key).copied();
        let less = |all: &str, part: &str| Some(get(all)?.saturating_sub(get(part)?));
        let values = [
            ("used", less("MemTotal", "MemAvailable")),
            ("available", get("MemAvailable")),
            ("file cache", get("Cached")),
            ("waiting to be written", get("Dirty")),
            ("swap used", less("SwapTotal", "SwapFree").filter(|_| get("SwapTotal") != Some(0))),
        ];
        for (name, value) in values {
            let Some(value) = value else { continue };
            let counter = self.tracks.counter(group, name, Kind::Bytes);
            self.tracks.value(counter, time, value as f64);
        }
    }

    fn load(&mut self, time: u64, stat: &Stat, load: Option<(f64, u64)>) {
        let group = self.tracks.group("Load");
        let load = load.map(|(load, threads)| [("load of a minute", load), ("threads", threads as f64)]);
        let now = [("running threads", stat.running as f64), ("blocked threads", stat.blocked as f64)];
        for (name, value) in load.into_iter().flatten().chain(now) {
            let counter = self.tracks.counter(group, name, Kind::Count);
            self.tracks.value(counter, time, value);
        }
    }

    fn rates(&mut self, time: u64, seconds: f64, stat: &Stat, last: &Stat) {
        let group = self.tracks.group("Scheduling");
        let rates = [
            ("context switches", stat.context_switches, last.context_switches),
            ("interrupts", stat.interrupts, last.interrupts),
            ("forks", stat.forks, last.forks),
        ];
        for (name, now, before) in rates {
            let counter = self.tracks.counter(group, name, Kind::PerSecond);
            self.tracks.value(counter, time, now.saturating_sub(before) as f64 / seconds);
        }
    }

    fn moved(
        &mut self,
        group: &str,
        [input, output]: [&str; 2],
        time: u64,
        seconds: f64,
        now: &BTreeMap<String, Moved>,
        before: &BTreeMap<String, Moved>,
    ) {
        for (name, now) in now {
            let Some(before) = before.get(name) else { continue };
            if (now.input, now.output) == (0, 0) {
                // Never used: not worth a track.
                continue;
            }
            let group = self.tracks.group(group);
            let both = [(input, now.input, before.input), (output, now.output, before.output)];
            for (what, now, before) in both {
                let counter = self.tracks.counter(group, &format!("{name} {what}"), Kind::BytesPerSecond);
                self.tracks.value(counter, time, now.saturating_sub(before) as f64 / seconds);
            }
        }
    }
}
