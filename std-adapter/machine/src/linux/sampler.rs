//! Looks at the machine, one after another: `/proc` becomes packets and values of counters.

use std::collections::BTreeMap;
use std::io;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use tracebuf::producer::track_event::Clock;

use super::pace::Pace;
use super::processes::Processes;
use super::tracks::{CounterKind, Tracks};
use crate::proc::{Moved, Proc, Stat, parse_loadavg, parse_net};
use crate::sources::{DataSource, ProcessStats, SourceOutput, SysStats, ThreadNumbers};
use tracebuf_session::{BootClock, Recorder};

/// The least time between two looks at all processes.
const PROCESS_PERIOD: Duration = Duration::from_millis(500);
/// A look at them may take one part in this many of the time.
const PROCESS_SHARE: u32 = 20;

/// A source of what the machine and its processes do: in Perfetto's packets, and as counters where Perfetto has no packet.
pub(super) struct Sampler {
    proc: Proc,
    pub(super) tracks: Tracks,
    pace: Pace,
    recorder: Recorder,
    sys_stats: SysStats,
    /// `None` where `/proc` has other numbers than the trace.
    process_stats: Option<ProcessStats>,
    stat: Option<Reading<Stat>>,
    interfaces: Option<Reading<BTreeMap<String, Moved>>>,
    pub(super) processes: Processes,
    threads: ThreadNumbers,
    next_processes: Instant,
    /// The files that were asked for, and whether they could ever be read.
    files: BTreeMap<&'static str, bool>,
    seen: Arc<Mutex<Seen>>,
    /// The time until the second look, after the first.
    after_first: Option<Duration>,
}

/// What was seen so far.
#[derive(Clone, Debug, Default)]
pub(super) struct Seen {
    /// Values of counters.
    pub(super) events: u64,
    /// Packets that shared memory had no room for.
    pub(super) dropped: u64,
    /// Cores that are on.
    pub(super) cores: usize,
    /// Processes that were followed.
    pub(super) processes: u64,
    /// The files that this machine does not have.
    pub(super) missing: Vec<&'static str>,
    /// Processes that record too, for which the tracks have no name: set by whoever knows them.
    pub(super) programs: Vec<u32>,
    /// Those of them that have recorded nothing, at the end.
    pub(super) silent: Vec<u32>,
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
    pub(super) fn new(proc: Proc, tracks: Tracks, recorder: Recorder, pace: Pace) -> Self {
        Self {
            proc,
            tracks,
            pace,
            recorder,
            sys_stats: SysStats::new(),
            process_stats: Some(ProcessStats::default()),
            stat: None,
            interfaces: None,
            processes: Processes::new(),
            threads: ThreadNumbers::default(),
            next_processes: Instant::now(),
            files: BTreeMap::new(),
            seen: Arc::default(),
            after_first: None,
        }
    }

    /// Puts processes that are new into this list.
    pub(super) fn tell_threads(mut self, threads: &ThreadNumbers) -> Self {
        self.threads = threads.clone();
        self
    }

    /// Says nothing of processes in packets that have the machine's numbers, because those of `/proc` are others.
    pub(super) fn in_other_namespace(mut self) -> Self {
        self.process_stats = None;
        self
    }

    /// Tells how long threads run and wait to run: where no event of the kernel does.
    pub(super) fn with_run_times(mut self) -> Self {
        self.processes.has_run_times = true;
        self
    }

    /// What it has seen: the same value, kept up to date.
    pub(super) fn seen(&self) -> Arc<Mutex<Seen>> {
        self.seen.clone()
    }

    fn read(&mut self, file: &'static str) -> Option<String> {
        let text = self.proc.read_again(file).ok();
        *self.files.entry(file).or_default() |= text.is_some();
        text
    }

    /// Looks at everything, and at the processes when it is time; the first time only for what the next look is
    /// compared with.
    fn look(&mut self, out: &mut SourceOutput) {
        self.look_at_machine(BootClock.now(), out);
        let start = Instant::now();
        if start >= self.next_processes {
            self.look_at_processes(Processes::look, out);
            self.next_processes = start + PROCESS_PERIOD.max(start.elapsed() * PROCESS_SHARE);
        }
    }

    fn look_at_processes(
        &mut self,
        how: fn(&mut Processes, u64, &Proc, &mut Tracks) -> Vec<crate::proc::Process>,
        out: &mut SourceOutput,
    ) {
        let time = BootClock.now();
        let looked_at = how(&mut self.processes, time, &self.proc, &mut self.tracks);
        if let Some(stats) = &mut self.process_stats {
            stats.look(time, &self.proc, &looked_at).iter().for_each(|packet| out.message(packet));
            self.threads.add(self.processes.take_new());
        }
    }

    /// Looks at what happened since the last look, including the processes' part.
    fn last_look(&mut self, out: &mut SourceOutput) {
        self.look_at_machine(BootClock.now(), out);
        self.look_at_processes(Processes::last_look, out);
    }

    /// A file that cannot be read has no values for now. What it said before stays, for the next look that can read it.
    ///
    /// First what happened since the look before, which has that look's time; then what is so now.
    fn look_at_machine(&mut self, time: u64, out: &mut SourceOutput) {
        let [stat, meminfo, disks] = ["stat", "meminfo", "diskstats"].map(|file| self.read(file));
        let files = [&stat, &meminfo, &disks].map(Option::as_deref);
        out.message(&self.sys_stats.look(&self.proc, files, || BootClock.now()));
        let stat = stat.map(|text| Reading { time, value: Stat::parse(&text) });
        let interfaces = self.read("net/dev").map(|text| Reading { time, value: parse_net(&text) });
        let load = self.read("loadavg").unwrap_or_default();
        let before = self.stat.take();
        if let (Some(now), Some(before)) = (&stat, &before) {
            self.rates(now, before);
        }
        if let Some(now) = interfaces {
            if let Some(before) = &self.interfaces {
                write_moved(&mut self.tracks, &now, before);
            }
            self.interfaces = Some(now);
        }
        self.load(time, stat.as_ref().map(|stat| &stat.value), parse_loadavg(&load));
        self.stat = stat.or(before);
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
        let (seconds, count) = (now.seconds_since(before), |stat: &Stat| stat.context_switches);
        let rate = count(&now.value).saturating_sub(count(&before.value)) as f64 / seconds;
        self.tracks.put(group, "context switches", CounterKind::PerSecond, before.time, rate);
    }

    /// Notes what was seen, and learns which programs record too.
    fn note(&mut self) {
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        self.tracks.programs(seen.programs.iter().copied());
        seen.events = self.tracks.events;
        seen.dropped = self.tracks.dropped();
        seen.cores = self.stat.as_ref().map_or(0, |stat| stat.value.cores);
        seen.processes = self.processes.followed_ever;
        seen.missing = self.files.iter().filter(|(_, was_read)| !**was_read).map(|(file, _)| *file).collect();
    }
}

impl DataSource for Sampler {
    fn name(&self) -> &'static str {
        "linux.sys_stats"
    }

    /// The first look, with which the next one is compared.
    fn start(&mut self, out: &mut SourceOutput) -> io::Result<()> {
        self.after_first = Some(self.drain(out));
        Ok(())
    }

    fn drain(&mut self, out: &mut SourceOutput) -> Duration {
        if let Some(pause) = self.after_first.take() {
            return pause;
        }
        // It is part of the trace, so that the cost of recording is seen in it.
        let recorder = self.recorder.clone();
        let _look = recorder.enter("look at /proc");
        let begun = Instant::now();
        self.look(out);
        self.note();
        self.pace.looked(begun, Instant::now())
    }

    /// What comes is told at the next look.
    fn flush(&mut self, _: &mut SourceOutput) {}

    fn stop(&mut self, out: &mut SourceOutput) {
        let recorder = self.recorder.clone();
        let _look = recorder.enter("look at /proc");
        self.last_look(out);
        self.note();
        let silent = std::mem::take(&mut self.seen.lock().unwrap_or_else(PoisonError::into_inner).silent);
        self.tracks.silent(silent.into_iter());
    }
}

/// Writes what interfaces moved since the look before, from then on.
fn write_moved(
    tracks: &mut Tracks,
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
        let group = tracks.group("Network");
        for (what, now, before) in
            [("received", now.input, before.input), ("sent", now.output, before.output)]
        {
            let rate = now.saturating_sub(before) as f64 / seconds;
            tracks.put(group, &format!("{name} {what}"), CounterKind::BytesPerSecond, time, rate);
        }
    }
}

#[cfg(test)]
mod tests;
