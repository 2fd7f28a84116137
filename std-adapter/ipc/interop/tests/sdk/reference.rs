//! What these tests expect is what Perfetto's own service records.

use std::collections::BTreeMap;

use crate::harness::by_perfettos_service;
use crate::reading::{Sequence, assert_same, sequences_of};
use crate::recording::{COMMANDS, assert_all_is_there, service};

/// The process id in packets of the process that contains the service.
const THEIR_PID: u64 = 0;

#[test]
fn perfettos_own_service_gives_what_these_tests_expect() {
    let trace = by_perfettos_service("perfetto-all", &COMMANDS);
    assert_all_is_there(&trace, THEIR_PID);
}

#[test]
fn our_service_and_perfettos_get_the_same_of_a_program() {
    let commands = ["events 0 0 60 20", "packets 0 20 9000"];
    let theirs = by_perfettos_service("perfetto-some", &commands);
    let service = service("same");
    let mut program = service.run(&[]);
    let pid = program.pid();
    commands.iter().for_each(|command| program.does(command));
    let ours = service.stop();
    let (ours, theirs) = (sequences_of(&ours, pid), sequences_of(&theirs, THEIR_PID));
    let (ours, theirs) = (by_what_they_hold(&ours), by_what_they_hold(&theirs));
    assert_same(ours[&true].lines(), theirs[&true].lines().map(String::from));
    assert_eq!(ours[&true].count, theirs[&true].count);
    assert_eq!(ours[&false].packets, theirs[&false].packets);
}

/// Separates track events from packets of the program's own data source.
fn by_what_they_hold(sequences: &BTreeMap<u64, Sequence>) -> BTreeMap<bool, &Sequence> {
    let is_told = |sequence: &&Sequence| {
        !sequence.events.is_empty() || sequence.packets.iter().any(|packet| packet.thread == 0)
    };
    sequences.values().filter(is_told).map(|sequence| (!sequence.events.is_empty(), sequence)).collect()
}
