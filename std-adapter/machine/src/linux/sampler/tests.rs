//! Tests of looks at a machine whose files say what a test wants.

use super::*;
use tracebuf::proto::fields::trace_packet;

use crate::linux::tests::machine::{Machine, Recording, SECOND, Values};

fn sampler(machine: &Machine, recording: &Recording, tracks: Tracks) -> Sampler {
    let pace = Pace::new(Duration::from_millis(100), Instant::now());
    Sampler::new(machine.proc(), tracks, recording.recorder(), pace)
}

/// Looks at a machine once a second, with a function that changes it before each look. Gives the recording, and
/// what could never be read.
fn look(machine: &Machine, changes: &[&dyn Fn()]) -> (Values, Vec<&'static str>) {
    let (recording, tracks) = Recording::start();
    let (mut sampler, mut out) = (sampler(machine, &recording, tracks), recording.output());
    for (second, change) in (1..).zip(changes) {
        change();
        sampler.look_at_machine(second * SECOND, &mut out);
    }
    sampler.note();
    let missing = sampler.seen.lock().expect("it").missing.clone();
    drop((sampler, out));
    (recording.values(), missing)
}

#[test]
fn rates_are_from_the_look_before_and_the_rest_from_this_one_in_the_order_of_their_times() {
    let machine = Machine::new("times");
    let at = |second: u64| {
        machine.says("stat", &format!("cpu0 {0} 0 0 {0}\nctxt {0}\nprocs_running 2\n", 10 * second));
        machine.says("net/dev", &format!("eth0: 0 0 0 0 0 0 0 0 {}\n", 30 * second));
        machine.process(1, "sh", 10 * second, 0);
    };
    let (recording, tracks) = Recording::start();
    let (mut sampler, mut out) = (sampler(&machine, &recording, tracks), recording.output());
    for second in 1..8 {
        at(second);
        sampler.look_at_machine(second * SECOND, &mut out);
        // Less often.
        if second % 3 == 1 {
            sampler.processes.look(second * SECOND, &machine.proc(), &mut sampler.tracks);
        }
    }
    drop((sampler, out));
    let values = recording.values();
    let seconds = |counter| values.of(counter).into_iter().map(|(second, _)| second).collect::<Vec<_>>();
    for counter in ["Scheduling/context switches", "Network/eth0 sent"] {
        assert_eq!(seconds(counter), [1, 2, 3, 4, 5, 6], "{counter}");
    }
    assert_eq!(seconds("Load/running threads"), [1, 2, 3, 4, 5, 6, 7]);
    assert_eq!(seconds("1 sh/page faults"), [1, 4]);
    assert!(values.are_in_order());
}

#[test]
fn a_file_that_could_not_be_read_once_leaves_out_a_look_and_nothing_else() {
    let machine = Machine::new("hiccup");
    let at = |second: u64| {
        machine.says("stat", &format!("cpu0 1 0 0 1\nctxt {0}\nprocs_running 2\n", 10 * second));
        machine.says("net/dev", &format!("eth0: 0 0 0 0 0 0 0 0 {}\n", 30 * second));
        machine.says("loadavg", "0.50 0.40 0.30 2/345 999\n");
        machine.says("diskstats", "");
    };
    let none = || ["stat", "net/dev", "diskstats"].iter().for_each(|file| machine.cannot_say(file));
    let (values, missing) = look(&machine, &[&|| at(100), &|| at(101), &none, &|| at(103), &|| at(104)]);
    let same = |value| [(1, value), (2, value), (4, value)];
    assert_eq!(values.of("Scheduling/context switches"), same(10));
    assert_eq!(values.of("Network/eth0 sent"), same(30));
    assert_eq!(values.of("Load/running threads"), [1, 2, 4, 5].map(|second| (second, 2)));
    assert_eq!(values.of("Load/threads").len(), 5);
    assert_eq!(missing, ["meminfo"]);
}

#[test]
fn what_is_not_there_any_more_does_nothing_from_then_on() {
    let machine = Machine::new("gone");
    let both = |amount: u64| {
        let line = |name| format!("{name}: {amount} 0 0 0 0 0 0 0 1\n");
        machine.says("net/dev", &["eth0", "eth1"].map(line).concat());
        let text = std::fs::read_to_string(machine.file_in_proc("net/dev")).expect("a file");
        machine.says("net/dev", &format!("{text}tun0: {amount} 0 0 0 0 0 0 0 0\nidle: 0 0 0 0 0 0 0 0 0\n"));
    };
    let one = |amount: u64| {
        // `tun0` is the same only by its name.
        machine.says("net/dev", &format!("eth0: {amount} 0 0 0 0 0 0 0 1\ntun0: 0 0 0 0 0 0 0 0 0\n"));
    };
    let (values, _) = look(
        &machine,
        &[&|| both(1000), &|| both(1001), &|| one(1002), &|| one(1003), &|| both(1004), &|| both(1005)],
    );
    let stays = [(1, 1), (2, 1), (3, 1), (4, 1), (5, 1)];
    assert_eq!(values.of("Network/eth0 received"), stays);
    assert_eq!(values.of("Network/eth1 received"), [(1, 1), (2, 0), (5, 1)]);
    assert_eq!(values.of("Network/tun0 received"), [(1, 1), (2, 0), (4, 1004), (5, 1)]);
    // Never used.
    assert_eq!(values.of("Network/idle received"), []);
}

#[test]
fn each_look_has_statistics_of_the_machine_and_of_its_processes_and_the_last_one_too() {
    let machine = Machine::new("last");
    machine.says("stat", "cpu0 1 2 3 4\n");
    machine.process(1, "sh", 0, 0);
    machine.says("1/status", "Tgid:\t1\n");
    let (recording, tracks) = Recording::start();
    let threads = ThreadNumbers::default();
    let (mut sampler, mut out) =
        (sampler(&machine, &recording, tracks).tell_threads(&threads), recording.output());
    let seen = sampler.seen();
    sampler.start(&mut out).expect("a start");
    machine.process(1, "sh", 50, 0);
    // By itself it would not be time for another one.
    sampler.stop(&mut out);
    assert_eq!(seen.lock().expect("it").processes, 1);
    assert_eq!(threads.take(), [1]);
    drop((sampler, out));
    let values = recording.values();
    assert_eq!(values.of("1 sh/page faults").len(), 1);
    assert_eq!(
        (values.packets(trace_packet::SYS_STATS), values.packets(trace_packet::PROCESS_STATS)),
        (2, 2)
    );
}

#[test]
fn where_numbers_are_others_nothing_is_told_of_processes_in_packets_with_the_machines() {
    let machine = Machine::new("namespace");
    machine.process(1, "sh", 0, 0);
    machine.says("1/status", "Tgid:\t1\n");
    let (recording, tracks) = Recording::start();
    let threads = ThreadNumbers::default();
    let sampler = sampler(&machine, &recording, tracks).tell_threads(&threads);
    let (mut sampler, mut out) = (sampler.in_other_namespace(), recording.output());
    sampler.stop(&mut out);
    assert!(threads.take().is_empty());
    drop((sampler, out));
    assert_eq!(recording.values().packets(trace_packet::PROCESS_STATS), 0);
}
