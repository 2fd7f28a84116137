//! Tests of looks at a machine whose files say what a test wants.

use super::*;
use crate::linux::tests::machine::{Machine, Recording, SECOND, Values};

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
fn swap_space_that_is_turned_off_is_not_used_from_then_on() {
    let machine = Machine::new("swap");
    let swap = |total: u64, free: u64| {
        machine.says("meminfo", &format!("SwapTotal: {total} kB\nSwapFree: {free} kB\n"));
    };
    let (values, _) = look(
        &machine,
        &[
            &|| swap(0, 0),
            &|| swap(8, 5),
            &|| machine.cannot_say("meminfo"),
            &|| swap(0, 0),
            &|| swap(0, 0),
            &|| swap(8, 8),
        ],
    );
    assert_eq!(values.of("Memory/swap used"), [(2, 3072), (4, 0), (6, 0)]);
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
