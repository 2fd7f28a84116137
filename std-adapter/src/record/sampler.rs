//! One look at the machine after another: what `/proc` says becomes values of counters.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use tracebuf::producer::track_event::Clock;

use super::proc::{CpuTimes, Moved, Proc, Stat, parse_diskstats, parse_loadavg, parse_meminfo, parse_net};
use super::processes::Processes;
use super::tracks::{Kind, Tracks};
use crate::session::BootClock;

/// The least time between two looks at all processes.
const PROCESS_PERIOD: Duration = Duration::from_millis(500);
/// A look at them may take one part in this many of the time.
const PROCESS_SHARE: u32 = 20;

pub(super) struct Sampler {
    proc: Proc,
    tracks: Tracks,
    stat: Option<Reading<Stat>>,
    disks: Option<Reading<BTreeMap<String, Moved>>>,
    interfaces: Option<Reading<BTreeMap<String, Moved>>>,
    processes: Processes,
    next_processes: Instant,
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
            files: BTreeMap::new(),
        }
    }

    pub(super) fn tracks(&self) -> &Tracks {
        &self.tracks
    }

    /// Names these programs, which have recorded nothing.
    pub(super) fn silent(&mut self, pids: impl Iterator<Item = u32>) {
        self.tracks.silent(pids);
    }

    /// Sets which programs record into the session now.
    pub(super) fn programs(&mut self, pids: impl Iterator<Item = u32>) {
        self.tracks.programs(pids);
    }

    /// Cores that are on, and processes that were followed.
    pub(super) fn seen(&self) -> (usize, u64) {
        (self.stat.as_ref().map_or(0, |stat| stat.value.cores.len()), self.processes.followed_ever())
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
            let counter = self.tracks.counter(group, &format!("all cores, {name}"), Kind::Percent);
            self.tracks.value(counter, time, percent);
        }
        for (core, before) in &before.cores {
            let busy = match now.cores.get(core).map(|now| now.since(before)) {
                Some(times) => percent(times.total() - times.idle - times.iowait, &times),
                // It was turned off: its last value does not hold for all the time that follows.
                None => Some(0.0),
            };
            let Some(busy) = busy else { continue };
            let counter = self.tracks.counter(group, &format!("core {core} busy"), Kind::Percent);
            self.tracks.value(counter, time, busy);
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

    fn load(&mut self, time: u64, stat: Option<&Stat>, load: Option<(f64, u64)>) {
        let group = self.tracks.group("Load");
        let load = load.map(|(load, threads)| [("load of a minute", load), ("threads", threads as f64)]);
        let now = stat
            .map(|stat| [("running threads", stat.running as f64), ("blocked threads", stat.blocked as f64)]);
        for (name, value) in load.into_iter().chain(now).flatten() {
            let counter = self.tracks.counter(group, name, Kind::Count);
            self.tracks.value(counter, time, value);
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
            let counter = self.tracks.counter(group, name, Kind::PerSecond);
            self.tracks.value(counter, time, now.saturating_sub(before) as f64 / seconds);
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
            let counter = tracks.counter(group, &format!("{name} {what}"), Kind::BytesPerSecond);
            tracks.value(counter, time, now.saturating_sub(before) as f64 / seconds);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::machine::{Machine, Recording, SECOND, Values};

    const SPENT: &str = "cpu  0 0 0 0\n";

    /// Looks at a machine once a second, with a function that changes it before each look. Gives the recording, and
    /// what could never be read.
    fn look(machine: &Machine, changes: &[&dyn Fn()]) -> (Values, Vec<&'static str>) {
        let (recording, tracks) = Recording::start();
        let mut sampler = Sampler::new(machine.proc(), tracks);
        for (second, change) in (1..).zip(changes) {
            change();
            sampler.look_at_machine(second * SECOND);
        }
        let missing = sampler.missing().collect();
        drop(sampler);
        (recording.values(), missing)
    }

    #[test]
    fn without_a_tick_between_two_looks_nothing_is_said_of_a_core() {
        let machine = Machine::new("ticks");
        let stat = |busy: u64, idle: u64| {
            machine.says("stat", &format!("cpu  {busy} 0 0 {idle}\ncpu0 {busy} 0 0 {idle}\n"));
        };
        let (values, _) =
            look(&machine, &[&|| stat(100, 100), &|| stat(103, 101), &|| stat(103, 101), &|| stat(103, 102)]);
        for counter in ["CPU/core 0 busy", "CPU/all cores, user"] {
            assert_eq!(values.of(counter), [(1, 75), (3, 0)], "{counter}");
        }
    }

    #[test]
    fn rates_are_from_the_look_before_and_the_rest_from_this_one_in_the_order_of_their_times() {
        let machine = Machine::new("times");
        machine.disk("sda");
        let at = |second: u64| {
            machine.says("stat", &format!("cpu0 {0} 0 0 {0}\nctxt {0}\nprocs_running 2\n", 10 * second));
            machine.says("diskstats", &format!("8 0 sda 1 0 {} 0 1 0 0 0\n", 2 * second));
            machine.says("meminfo", &format!("Cached: {second} kB\n"));
            machine.process(1, "sh", 10 * second, 0);
        };
        let (recording, tracks) = Recording::start();
        let mut sampler = Sampler::new(machine.proc(), tracks);
        for second in 1..8 {
            at(second);
            sampler.look_at_machine(second * SECOND);
            // Less often.
            if second % 3 == 1 {
                sampler.processes.look(second * SECOND, &machine.proc(), &mut sampler.tracks);
            }
        }
        drop(sampler);
        let values = recording.values();
        let seconds = |counter| values.of(counter).into_iter().map(|(second, _)| second).collect::<Vec<_>>();
        for counter in ["CPU/core 0 busy", "Scheduling/context switches", "Disk/sda read"] {
            assert_eq!(seconds(counter), [1, 2, 3, 4, 5, 6], "{counter}");
        }
        for counter in ["Memory/file cache", "Load/running threads"] {
            assert_eq!(seconds(counter), [1, 2, 3, 4, 5, 6, 7], "{counter}");
        }
        assert_eq!(seconds("1 sh/CPU (100% is one core)"), [1, 4]);
        assert_eq!(seconds("1 sh/memory"), [4, 7]);
        assert!(values.are_in_order());
    }

    #[test]
    fn a_file_that_could_not_be_read_once_leaves_out_a_look_and_nothing_else() {
        let machine = Machine::new("hiccup");
        let at = |second: u64| {
            let stat = format!("cpu0 {0} 0 0 {0}\nctxt {1}\nprocs_running 2\n", 50 * second, 10 * second);
            machine.says("stat", &stat);
            machine.says("diskstats", &format!("8 0 sda 1 0 {} 0 1 0 0 0\n", 2 * second));
            machine.says("net/dev", &format!("eth0: 0 0 0 0 0 0 0 0 {}\n", 30 * second));
            machine.says("loadavg", "0.50 0.40 0.30 2/345 999\n");
        };
        machine.disk("sda");
        let none = || ["stat", "diskstats", "net/dev"].iter().for_each(|file| machine.cannot_say(file));
        let (values, missing) = look(&machine, &[&|| at(100), &|| at(101), &none, &|| at(103), &|| at(104)]);
        let same = |value| [(1, value), (2, value), (4, value)];
        assert_eq!(values.of("CPU/core 0 busy"), same(50));
        assert_eq!(values.of("Scheduling/context switches"), same(10));
        assert_eq!(values.of("Disk/sda read"), same(1024));
        assert_eq!(values.of("Network/eth0 sent"), same(30));
        assert_eq!(values.of("Load/running threads"), [1, 2, 4, 5].map(|second| (second, 2)));
        assert_eq!(values.of("Load/threads").len(), 5);
        assert_eq!(missing, ["meminfo"]);
    }

    #[test]
    fn what_is_not_there_any_more_does_nothing_from_then_on() {
        let machine = Machine::new("gone");
        ["sda", "sdb", "sdc"].iter().for_each(|disk| machine.disk(disk));
        let both = |amount: u64| {
            machine.says("stat", &format!("{SPENT}cpu0 {amount} 0 0 0\ncpu1 {amount} 0 0 0\n"));
            let disks = ["sda", "sdb"].map(|disk| format!("8 0 {disk} 1 0 {amount} 0 1 0 0 0\n"));
            machine.says("diskstats", &format!("{}8 0 sdc 0 0 0 0 0 0 0 0\n", disks.concat()));
            machine.says(
                "net/dev",
                &format!(
                    "eth0: {amount} 0 0 0 0 0 0 0 1\neth1: {amount} 0 0 0 0 0 0 0 1\n\
                     tun0: {amount} 0 0 0 0 0 0 0 0\n"
                ),
            );
        };
        let one = |amount: u64| {
            machine.says("stat", &format!("{SPENT}cpu0 {amount} 0 0 0\n"));
            machine.says("diskstats", &format!("8 0 sda 1 0 {amount} 0 1 0 0 0\n"));
            // `tun0` is the same only by its name.
            machine.says("net/dev", &format!("eth0: {amount} 0 0 0 0 0 0 0 1\ntun0: 0 0 0 0 0 0 0 0 0\n"));
        };
        let (values, _) = look(
            &machine,
            &[&|| both(1000), &|| both(1001), &|| one(1002), &|| one(1003), &|| both(1004), &|| both(1005)],
        );
        let stays = |value| [(1, value), (2, value), (3, value), (4, value), (5, value)];
        let goes = |value| [(1, value), (2, 0), (5, value)];
        assert_eq!(values.of("CPU/core 0 busy"), stays(100));
        assert_eq!(values.of("CPU/core 1 busy"), goes(100));
        assert_eq!(values.of("Disk/sda read"), stays(512));
        assert_eq!(values.of("Disk/sdb read"), goes(512));
        assert_eq!(values.of("Network/eth0 received"), stays(1));
        assert_eq!(values.of("Network/eth1 received"), goes(1));
        assert_eq!(values.of("Network/tun0 received"), [(1, 1), (2, 0), (4, 1004), (5, 1)]);
        // Never used.
        assert_eq!(values.of("Disk/sdc read"), []);
    }

    #[test]
    fn the_last_look_is_at_processes_too() {
        let machine = Machine::new("last");
        machine.process(1, "sh", 0, 0);
        let (recording, tracks) = Recording::start();
        let mut sampler = Sampler::new(machine.proc(), tracks);
        sampler.look();
        machine.process(1, "sh", 50, 0);
        // By itself it would not be time for another one.
        sampler.last_look();
        assert_eq!(sampler.seen().1, 1);
        drop(sampler);
        assert_eq!(recording.values().of("1 sh/CPU (100% is one core)").len(), 1);
    }
}
