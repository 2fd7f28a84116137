//! The busiest processes: the choice of those that are followed, and what they use.

use std::cmp::Reverse;
use std::collections::{HashMap, HashSet};

use super::proc::{Proc, Process};
use super::tracks::{CounterKind, TrackId, Tracks};

/// Processes that join the followed ones at each look, by their CPU time since the previous look.
const TOP: usize = 10;
/// Processes followed in all; those that have ended make room, then the one that does least.
const FOLLOWED: usize = 64;
/// Least nanoseconds between two looks for both to count, if the second is the last: a tick of 10 ms is a tenth of
/// them.
const NEAR: u64 = 100_000_000;

/// Who a process is: pids are used again.
type Identity = (u32, u64);

pub(super) struct Processes {
    ticks_per_second: f64,
    page_size: u64,
    /// When all of them were looked at.
    last: Option<u64>,
    known: HashMap<Identity, Sample>,
    followed: HashMap<Identity, String>,
    /// How many were among the busiest at some time.
    pub(super) followed_ever: u64,
}

/// A process as it was when it was last read.
struct Sample {
    time: u64,
    ticks: u64,
    /// It is one of [`Processes::followed_ever`].
    was_followed: bool,
}

/// A process, and what it has used since it was last read.
struct Use<'a> {
    process: &'a Process,
    ticks: u64,
    since: u64,
}

impl Process {
    fn identity(&self) -> Identity {
        (self.pid, self.started)
    }
}

impl Processes {
    pub(super) fn new() -> Self {
        Self {
            ticks_per_second: rustix::param::clock_ticks_per_second().max(1) as f64,
            page_size: rustix::param::page_size() as u64,
            last: None,
            known: HashMap::new(),
            followed: HashMap::new(),
            followed_ever: 0,
        }
    }

    /// Looks at all of them; the first time only for what the next look is compared with.
    pub(super) fn look(&mut self, time: u64, proc: &Proc, tracks: &mut Tracks) {
        let Ok((processes, unread)) = proc.processes() else { return };
        let last = self.last.replace(time);
        let used = |process| {
            let (ticks, since) = self.used(process, last)?;
            Some(Use { process, ticks, since })
        };
        let uses: Vec<Use<'_>> = processes.iter().filter_map(used).collect();

        let alive: HashSet<Identity> = processes.iter().map(Process::identity).collect();
        let is_gone = |who: &Identity| !alive.contains(who) && !unread.contains(&who.0);
        // Times, counters and values.
        let mut values = Vec::new();
        // Those that are gone or displaced do nothing from then on: otherwise their last values would seem to last.
        for (who, name) in self.followed.extract_if(|who, _| is_gone(who)) {
            let since = self.known.get(&who).map_or(time, |known| known.time);
            let [cpu, memory] = counters(tracks, who, &name);
            values.extend([(since, cpu, 0.0), (time, memory, 0.0)]);
        }
        let mut top: Vec<&Use<'_>> = uses.iter().filter(|used| used.ticks > 0).collect();
        top.sort_by_key(|used| Reverse(used.ticks));
        let displaced = top.into_iter().take(TOP).filter_map(|candidate| self.follow(candidate, &uses));
        let displaced: HashSet<Identity> = displaced.collect();
        for Use { process, ticks, since } in &uses {
            let who = process.identity();
            let is_displaced = displaced.contains(&who);
            if !is_displaced && !self.followed.contains_key(&who) {
                continue;
            }
            let [cpu, memory] = counters(tracks, who, &process.name);
            let seconds = (time.saturating_sub(*since) as f64 / 1e9).max(1e-6);
            values.push((*since, cpu, 100.0 * *ticks as f64 / self.ticks_per_second / seconds));
            if is_displaced {
                values.extend([(time, cpu, 0.0), (time, memory, 0.0)]);
            } else {
                values.push((time, memory, process.pages.saturating_mul(self.page_size) as f64));
            }
        }
        // CPU time counts from when a process was last read: some could not be read for longer than others.
        values.sort_by_key(|(time, ..)| *time);
        for (time, counter, value) in values {
            tracks.value(counter, time, value);
        }

        let before = std::mem::take(&mut self.known);
        for process in &processes {
            let who = process.identity();
            let was_followed =
                self.followed.contains_key(&who) || before.get(&who).is_some_and(|known| known.was_followed);
            self.known.insert(who, Sample { time, ticks: process.ticks, was_followed });
        }
        // For those that could not be read now, what was read before is kept.
        self.known.extend(before.into_iter().filter(|(who, _)| unread.contains(&who.0)));
    }

    /// The look that ends a recording. It is left out just after one that had values: over next to no time, a tick more
    /// or less would be a peak.
    pub(super) fn last_look(&mut self, time: u64, proc: &Proc, tracks: &mut Tracks) {
        let is_near = self.last.is_some_and(|last| time.saturating_sub(last) < NEAR);
        if self.followed.is_empty() || !is_near {
            self.look(time, proc, tracks);
        }
    }

    /// Ticks that a process has used, and since when. `None` if that is not known: it is older than the last look,
    /// which could not read it.
    fn used(&self, process: &Process, last: Option<u64>) -> Option<(u64, u64)> {
        if let Some(known) = self.known.get(&process.identity()) {
            return Some((process.ticks.saturating_sub(known.ticks), known.time));
        }
        // It started within this tick.
        let started = process.started.saturating_add(1) as f64 / self.ticks_per_second * 1e9;
        last.filter(|last| started > *last as f64).map(|last| (process.ticks, last))
    }

    /// Follows one more, in place of the one that does least if there are too many; gives that one.
    fn follow(&mut self, candidate: &Use<'_>, uses: &[Use<'_>]) -> Option<Identity> {
        let who = candidate.process.identity();
        if self.followed.contains_key(&who) {
            return None;
        }
        let mut displaced = None;
        if self.followed.len() >= FOLLOWED {
            let followed = uses.iter().filter(|used| self.followed.contains_key(&used.process.identity()));
            let least = followed.min_by_key(|used| used.ticks);
            let least = least.filter(|least| least.ticks < candidate.ticks)?.process.identity();
            self.followed.remove(&least);
            displaced = Some(least);
        }
        self.followed.insert(who, candidate.process.name.clone());
        if !self.known.get(&who).is_some_and(|known| known.was_followed) {
            self.followed_ever += 1;
        }
        displaced
    }
}

/// A process's counters: of its CPU time and of its memory.
fn counters(tracks: &mut Tracks, (pid, started): Identity, name: &str) -> [TrackId; 2] {
    let process = tracks.process(pid, started, name);
    [("CPU (100% is one core)", CounterKind::Percent), ("memory", CounterKind::Bytes)]
        .map(|(name, kind)| tracks.counter(process, name, kind))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::linux::tests::machine::{Machine, Recording, SECOND, Values};

    /// Looks at the processes of a machine of files, at times of the test's choice.
    struct Looks {
        machine: Machine,
        recording: Recording,
        tracks: Tracks,
        processes: Processes,
        ticks_per_second: u64,
    }

    impl Looks {
        fn new(test: &str) -> Self {
            let (recording, tracks) = Recording::start();
            let processes = Processes::new();
            let ticks_per_second = processes.ticks_per_second as u64;
            Self { machine: Machine::new(test), recording, tracks, processes, ticks_per_second }
        }

        /// Adds a process that has used this many percent of a second, and started at a second.
        fn process(&self, pid: u32, percent: u64, started: u64) {
            let ticks = percent * self.ticks_per_second / 100;
            self.machine.process(pid, "sh", ticks, started * self.ticks_per_second);
        }

        /// A look at this second.
        fn at(&mut self, second: u64) {
            self.processes.look(second * SECOND, &self.machine.proc(), &mut self.tracks);
        }

        fn end(self) -> Values {
            drop(self.tracks);
            self.recording.values()
        }
    }

    impl Values {
        /// What was recorded of a process: seconds and percent.
        fn cpu(&self, pid: u32) -> Vec<(u64, u64)> {
            self.of(&format!("{pid} sh/CPU (100% is one core)"))
        }

        /// Returns true if a process had memory, at each look.
        fn memory(&self, pid: u32) -> Vec<bool> {
            self.of(&format!("{pid} sh/memory")).into_iter().map(|(_, bytes)| bytes > 0).collect()
        }
    }

    #[test]
    fn a_busy_process_takes_the_place_of_the_one_that_does_least() {
        let mut looks = Looks::new("full");
        let all = 1..=FOLLOWED as u32;
        let others = 101..=200;
        all.clone().chain([100]).chain(others.clone()).for_each(|pid| looks.process(pid, 0, 0));
        looks.at(1);
        // Ten become busy at a time, until as many are followed as can be.
        let mut second = 1;
        for ten in all.clone().collect::<Vec<_>>().chunks(TOP) {
            ten.iter().for_each(|pid| looks.process(*pid, 50, 0));
            second += 1;
            looks.at(second);
        }
        // One of them does least.
        all.clone().filter(|pid| *pid != 7).for_each(|pid| looks.process(pid, 60, 0));
        looks.process(7, 54, 0);
        looks.process(100, 70, 0);
        looks.at(10);
        assert_eq!((looks.processes.followed.len(), looks.processes.followed_ever), (FOLLOWED, 65));
        // Those that do no more than the others take no place of theirs; one that comes back is not counted again.
        all.clone().filter(|pid| *pid != 7).for_each(|pid| looks.process(pid, 70, 0));
        looks.process(100, 80, 0);
        others.clone().for_each(|pid| looks.process(pid, 10, 0));
        looks.at(11);
        assert_eq!(looks.processes.followed_ever, 65);
        looks.process(7, 90, 0);
        looks.at(12);
        assert_eq!((looks.processes.followed.len(), looks.processes.followed_ever), (FOLLOWED, 65));
        let values = looks.end();
        assert_eq!(values.cpu(100)[..2], [(8, 35), (10, 10)]);
        assert!(others.into_iter().all(|pid| values.cpu(pid).is_empty()));
        assert_eq!(values.cpu(7)[..2], [(1, 50), (2, 0)]);
        assert_eq!(values.cpu(7)[7..], [(8, 2), (10, 0), (11, 36)]);
        let memory = values.memory(7);
        assert_eq!(memory.iter().position(|has| !has), Some(memory.len() - 2), "{memory:?}");
    }

    #[test]
    fn one_that_cannot_be_read_has_no_values_and_goes_on_when_it_can() {
        let mut looks = Looks::new("unread");
        looks.process(1, 7_200_000, 0);
        looks.at(1000);
        looks.process(1, 7_200_040, 0);
        looks.at(1001);
        looks.machine.cannot_say("1/stat");
        looks.at(1002);
        looks.process(1, 7_200_100, 0);
        looks.at(1003);
        assert_eq!(looks.processes.followed_ever, 1);
        looks.machine.has_no("1");
        looks.at(1004);
        assert_eq!(looks.end().cpu(1), [(1000, 40), (1001, 30), (1003, 0)]);
    }

    #[test]
    fn a_folder_that_cannot_be_read_is_no_end_of_any_process() {
        let mut looks = Looks::new("folder");
        looks.process(1, 0, 0);
        looks.at(1);
        looks.process(1, 50, 0);
        looks.at(2);
        let nowhere = Proc::at("/no such folder", "/no such folder");
        looks.processes.look(3 * SECOND, &nowhere, &mut looks.tracks);
        looks.process(1, 70, 0);
        looks.at(4);
        assert_eq!(looks.end().cpu(1), [(1, 50), (2, 10)]);
    }

    #[test]
    fn of_one_that_is_new_all_its_time_counts_only_if_it_started_since() {
        let mut looks = Looks::new("new");
        looks.machine.process(3, "sh", 0, 0);
        looks.machine.cannot_say("3/stat");
        looks.at(1000);
        looks.process(1, 30, 1000);
        // It was there, and could not be read.
        looks.process(3, 7_200_000, 5);
        looks.at(1001);
        looks.process(1, 50, 1000);
        looks.process(3, 7_200_010, 5);
        looks.at(1002);
        // The number of one that has ended.
        looks.process(1, 40, 1002);
        looks.at(1003);
        let values = looks.end();
        assert_eq!(values.cpu(1), [(1000, 30), (1001, 20), (1002, 0), (1002, 40)]);
        assert_eq!(values.cpu(3), [(1001, 10), (1002, 0)]);
    }

    #[test]
    fn a_last_look_just_after_another_adds_no_peak() {
        for (after, values) in [(NEAR, 2), (NEAR - 1, 1)] {
            let mut looks = Looks::new("near");
            looks.process(1, 0, 0);
            looks.at(1);
            looks.process(1, 10, 0);
            looks.at(2);
            looks.process(1, 11, 0);
            let Looks { machine, tracks, processes, .. } = &mut looks;
            processes.last_look(2 * SECOND + after, &machine.proc(), tracks);
            assert_eq!(looks.end().cpu(1).len(), values);
        }
    }
}
