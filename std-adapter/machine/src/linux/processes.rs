//! The busiest processes: the choice of those that are followed, and what they do that Perfetto has no packet for.

use std::cmp::Reverse;
use std::collections::{HashMap, HashSet};

use super::tracks::{CounterKind, TrackId, Tracks};
use crate::proc::{Moved, Proc, Process, parse_io, parse_schedstat};

/// Processes that join the followed ones at each look, by their CPU time since the previous look.
const TOP: usize = 10;
/// Processes followed in all; those that have ended make room, then the one that does least.
const FOLLOWED: usize = 64;
/// Threads of each that are followed: those with the lowest numbers.
const THREADS: usize = 32;
/// Least nanoseconds between two looks for both to count, if the second is the last: a tick of 10 ms is a tenth of
/// them.
const NEAR: u64 = 100_000_000;

/// Who a process is: pids are used again.
type Identity = (u32, u64);

pub(super) struct Processes {
    ticks_per_second: f64,
    /// Whether it tells how long threads run.
    pub(super) has_run_times: bool,
    /// Those that were not there at the last look.
    new: Vec<u32>,
    /// When all of them were looked at.
    last: Option<u64>,
    known: HashMap<Identity, Sample>,
    followed: HashMap<Identity, Followed>,
    /// How many were among the busiest at some time.
    pub(super) followed_ever: u64,
}

/// A process as it was when it was last read.
struct Sample {
    time: u64,
    ticks: u64,
    faults: [u64; 2],
    /// It is one of [`Processes::followed_ever`].
    was_followed: bool,
}

/// What is read of followed processes only, and is not known before they are.
#[derive(Default)]
struct Followed {
    name: String,
    io: Option<(u64, Moved)>,
    /// By number: when a thread was read, and for how many nanoseconds it had run and waited.
    threads: HashMap<u32, (u64, [u64; 2])>,
}

/// A process, and what it has used since it was last read.
struct Use<'a> {
    process: &'a Process,
    ticks: u64,
    faults: [u64; 2],
    since: u64,
}

impl Process {
    fn identity(&self) -> Identity {
        (self.pid, self.started)
    }

    const fn all_faults(&self) -> [u64; 2] {
        [self.faults, self.major_faults]
    }
}

impl Processes {
    pub(super) fn new() -> Self {
        Self {
            ticks_per_second: rustix::param::clock_ticks_per_second().max(1) as f64,
            has_run_times: false,
            new: Vec::new(),
            last: None,
            known: HashMap::new(),
            followed: HashMap::new(),
            followed_ever: 0,
        }
    }

    /// Looks at all of them; the first time only for what the next look is compared with. Returns what it has seen.
    pub(super) fn look(&mut self, time: u64, proc: &Proc, tracks: &mut Tracks) -> Vec<Process> {
        let Ok((mut processes, unread)) = proc.processes() else { return Vec::new() };
        processes.retain(|process| !self.has_just_started(process, time));
        let last = self.last.replace(time);
        let uses: Vec<Use<'_>> = processes.iter().filter_map(|process| self.used(process, last)).collect();

        let alive: HashSet<Identity> = processes.iter().map(Process::identity).collect();
        let is_gone = |who: &Identity| !alive.contains(who) && !unread.contains(&who.0);
        // Times, counters and values.
        let mut values = Vec::new();
        // Those that are gone or displaced do nothing from then on: otherwise their last values would seem to last.
        for (who, followed) in self.followed.extract_if(|who, _| is_gone(who)) {
            let since = self.known.get(&who).map_or(time, |known| known.time);
            values.extend(fault_counters(tracks, who, &followed.name).map(|counter| (since, counter, 0.0)));
            values.extend(followed.ends(tracks, who).map(|counter| (since, counter, 0.0)));
        }
        let mut top: Vec<&Use<'_>> = uses.iter().filter(|used| used.ticks > 0).collect();
        top.sort_by_key(|used| Reverse(used.ticks));
        let displaced = top.into_iter().take(TOP).filter_map(|candidate| self.follow(candidate, &uses));
        let displaced: HashMap<Identity, Followed> = displaced.collect();
        for Use { process, faults, since, .. } in &uses {
            let who = process.identity();
            let displaced = displaced.get(&who);
            if displaced.is_none() && !self.followed.contains_key(&who) {
                continue;
            }
            let faults = fault_counters(tracks, who, &process.name).into_iter().zip(faults);
            for (counter, count) in faults {
                values.push((*since, counter, *count as f64 / seconds(*since, time)));
                values.extend(displaced.map(|_| (time, counter, 0.0)));
            }
            if let Some(displaced) = displaced {
                values.extend(displaced.ends(tracks, who).map(|counter| (time, counter, 0.0)));
            }
        }
        for (who, followed) in &mut self.followed {
            followed.read_io(time, *who, proc, tracks, &mut values);
            if self.has_run_times {
                followed.read_threads(time, *who, proc, tracks, &mut values);
            }
        }
        // They count from when a process was last read: some could not be read for longer than others.
        values.sort_by_key(|(time, ..)| *time);
        for (time, counter, value) in values {
            tracks.value(counter, time, value);
        }

        let before = std::mem::take(&mut self.known);
        for process in &processes {
            let who = process.identity();
            let known = before.get(&who);
            if known.is_none() {
                self.new.push(process.pid);
            }
            let was_followed =
                self.followed.contains_key(&who) || known.is_some_and(|known| known.was_followed);
            let (ticks, faults) = (process.ticks(), process.all_faults());
            self.known.insert(who, Sample { time, ticks, faults, was_followed });
        }
        // For those that could not be read now, what was read before is kept.
        self.known.extend(before.into_iter().filter(|(who, _)| unread.contains(&who.0)));
        processes
    }

    /// The processes that have come since the last call.
    pub(super) fn take_new(&mut self) -> Vec<u32> {
        std::mem::take(&mut self.new)
    }

    /// The look that ends a recording. It is left out just after one that had values: over next to no time, a tick more
    /// or less would be a peak.
    pub(super) fn last_look(&mut self, time: u64, proc: &Proc, tracks: &mut Tracks) -> Vec<Process> {
        let is_near = self.last.is_some_and(|last| time.saturating_sub(last) < NEAR);
        if self.followed.is_empty() || !is_near { self.look(time, proc, tracks) } else { Vec::new() }
    }

    /// What a process has used, and since when. `None` if that is not known: it is older than the last look, which could
    /// not read it.
    fn used<'p>(&self, process: &'p Process, last: Option<u64>) -> Option<Use<'p>> {
        let (ticks, faults) = (process.ticks(), process.all_faults());
        if let Some(known) = self.known.get(&process.identity()) {
            let since = |now: u64, before: u64| now.saturating_sub(before);
            let faults = [since(faults[0], known.faults[0]), since(faults[1], known.faults[1])];
            return Some(Use { process, ticks: since(ticks, known.ticks), faults, since: known.time });
        }
        let started = self.after_start(process);
        last.filter(|last| started > *last).map(|_| Use { process, ticks, faults, since: started })
    }

    /// A time after the start of a process: its tick has ended, and one more for the kernel's own word of it.
    fn after_start(&self, process: &Process) -> u64 {
        (process.started.saturating_add(2) as f64 / self.ticks_per_second * 1e9) as u64
    }

    /// Whether a process is left for the next look: what is told of a process before its start, which is known to a tick
    /// only, readers take for another one's.
    fn has_just_started(&self, process: &Process, time: u64) -> bool {
        !self.known.contains_key(&process.identity()) && self.after_start(process) >= time
    }

    /// Follows one more, in place of the one that does least if there are too many; gives that one.
    fn follow(&mut self, candidate: &Use<'_>, uses: &[Use<'_>]) -> Option<(Identity, Followed)> {
        let who = candidate.process.identity();
        if self.followed.contains_key(&who) {
            return None;
        }
        let mut displaced = None;
        if self.followed.len() >= FOLLOWED {
            let followed = uses.iter().filter(|used| self.followed.contains_key(&used.process.identity()));
            let least = followed.min_by_key(|used| used.ticks);
            let least = least.filter(|least| least.ticks < candidate.ticks)?.process.identity();
            displaced = self.followed.remove(&least).map(|followed| (least, followed));
        }
        let name = candidate.process.name.clone();
        self.followed.insert(who, Followed { name, ..Followed::default() });
        if !self.known.get(&who).is_some_and(|known| known.was_followed) {
            self.followed_ever += 1;
        }
        displaced
    }
}

/// Times, counters and values.
type Values = Vec<(u64, TrackId, f64)>;

fn seconds(since: u64, time: u64) -> f64 {
    (time.saturating_sub(since) as f64 / 1e9).max(1e-6)
}

/// A process's counters of page faults: of all, and of those for which something had to be read.
fn fault_counters(tracks: &mut Tracks, (pid, started): Identity, name: &str) -> [TrackId; 2] {
    let process = tracks.process(pid, started, name);
    ["page faults", "major page faults"].map(|name| tracks.counter(process, name, CounterKind::PerSecond))
}

impl Followed {
    fn io_counters(&self, tracks: &mut Tracks, (pid, started): Identity) -> [TrackId; 2] {
        let process = tracks.process(pid, started, &self.name);
        ["read from disks", "written to disks"]
            .map(|name| tracks.counter(process, name, CounterKind::BytesPerSecond))
    }

    fn thread_counters(&self, tracks: &mut Tracks, (pid, started): Identity, thread: u32) -> [TrackId; 2] {
        let process = tracks.process(pid, started, &self.name);
        ["runs", "waits to run"]
            .map(|what| tracks.counter(process, &format!("thread {thread} {what}"), CounterKind::Percent))
    }

    /// The counters that it has besides those of page faults.
    fn ends(&self, tracks: &mut Tracks, who: Identity) -> impl Iterator<Item = TrackId> {
        let mut counters = Vec::new();
        if self.io.is_some() {
            counters.extend(self.io_counters(tracks, who));
        }
        for thread in self.threads.keys() {
            counters.extend(self.thread_counters(tracks, who, *thread));
        }
        counters.into_iter()
    }

    /// Those of other users cannot be read.
    fn read_io(&mut self, time: u64, who: Identity, proc: &Proc, tracks: &mut Tracks, values: &mut Values) {
        let Some(now) = proc.read_again(&format!("{}/io", who.0)).ok().and_then(|text| parse_io(&text))
        else {
            return;
        };
        if let Some((since, before)) = self.io.replace((time, now)) {
            let moved = [now.input.saturating_sub(before.input), now.output.saturating_sub(before.output)];
            for (counter, bytes) in self.io_counters(tracks, who).into_iter().zip(moved) {
                values.push((since, counter, bytes as f64 / seconds(since, time)));
            }
        }
    }

    fn read_threads(
        &mut self,
        time: u64,
        who: Identity,
        proc: &Proc,
        tracks: &mut Tracks,
        values: &mut Values,
    ) {
        let mut before = std::mem::take(&mut self.threads);
        for thread in proc.numbers(format!("{}/task", who.0)).into_iter().take(THREADS) {
            let text = proc.read_again(&format!("{}/task/{thread}/schedstat", who.0)).unwrap_or_default();
            let Some((ran, waited)) = parse_schedstat(&text) else { continue };
            self.threads.insert(thread, (time, [ran, waited]));
            let Some((since, was)) = before.remove(&thread) else { continue };
            let counters = self.thread_counters(tracks, who, thread).into_iter();
            for ((counter, now), was) in counters.zip([ran, waited]).zip(was) {
                let share = now.saturating_sub(was) as f64 / 1e9 / seconds(since, time);
                values.push((since, counter, 100.0 * share));
            }
        }
        for (thread, (since, _)) in before {
            values.extend(self.thread_counters(tracks, who, thread).map(|counter| (since, counter, 0.0)));
        }
    }
}

#[cfg(test)]
mod tests;
