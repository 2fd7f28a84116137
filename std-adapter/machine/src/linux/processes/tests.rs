//! Tests of the choice of processes, and of what is told of them.

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
    /// What was recorded of a process: seconds and faults in each.
    fn faults(&self, pid: u32) -> Vec<(u64, u64)> {
        self.of(&format!("{pid} sh/page faults"))
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
    assert_eq!(values.faults(100)[..2], [(8, 35), (10, 10)]);
    assert!(others.into_iter().all(|pid| values.faults(pid).is_empty()));
    assert_eq!(values.faults(7)[..2], [(1, 50), (2, 0)]);
    assert_eq!(values.faults(7)[7..], [(8, 2), (10, 0), (11, 36)]);
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
    assert_eq!(looks.end().faults(1), [(1000, 40), (1001, 30), (1003, 0)]);
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
    assert_eq!(looks.end().faults(1), [(1, 50), (2, 10)]);
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
    // A little more than a second's, as it was there for a little less.
    assert_eq!(values.faults(1), [(1000, 31), (1001, 20), (1002, 0), (1002, 41)]);
    assert_eq!(values.faults(3), [(1001, 10), (1002, 0)]);
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
        assert_eq!(looks.end().faults(1).len(), values);
    }
}

#[test]
fn nothing_is_told_of_a_process_before_its_start() {
    let mut looks = Looks::new("just-started");
    looks.at(1000);
    // In the last tick: it may be older or younger than the look.
    let ticks = looks.ticks_per_second;
    looks.machine.process(1, "sh", 30, 1001 * ticks - 1);
    looks.machine.process(2, "sh", 30, 1000 * ticks);
    looks.at(1001);
    looks.machine.process(1, "sh", 40, 1001 * ticks - 1);
    looks.at(1002);
    let values = looks.end();
    let first = |pid: u32| values.of(&format!("{pid} sh/page faults")).first().map(|(second, _)| *second);
    assert_eq!((first(1), first(2)), (Some(1001), Some(1000)));
}
