//! Tests of what is told of processes, on a machine of files.

use super::*;
use std::collections::BTreeSet;

use crate::linux::tests::machine::{Machine, Recording};
use tracebuf::proto::TracePackets;
use tracebuf::proto::reader::{message, messages, number};

/// A process of two threads, by its files.
fn process(machine: &Machine, pid: u32, name: &str, command_line: &str, more: &str) {
    let status = |tid: u32, name: &str| {
        format!("Name:\t{name}\nTgid:\t{pid}\nPid:\t{tid}\nPPid:\t7\nUid:\t1000\t0\t0\t0\n{more}")
    };
    machine.process(pid, name, 0, 300);
    machine.says(&format!("{pid}/cmdline"), command_line);
    for (tid, name) in [(pid, name), (pid + 1, "second")] {
        let _ = std::fs::create_dir_all(machine.file_in_proc(&format!("{pid}/task/{tid}")));
        let _ = std::fs::create_dir_all(machine.file_in_proc(&tid.to_string()));
        machine.says(&format!("{tid}/status"), &status(tid, name));
    }
}

/// The trees of a trace: those beside the buffers.
fn trees(recording: &Recording) -> Vec<Vec<u8>> {
    let trace = recording.trace();
    let packets = TracePackets::new(&trace).map(|packet| packet.expect("a packet"));
    let trees = packets.filter_map(|packet| message(packet, trace_packet::PROCESS_TREE));
    trees.filter(|tree| !tree.is_empty()).map(<[u8]>::to_vec).collect()
}

/// Those of a trace that tells of what is there.
fn trees_at_start(machine: &Machine) -> Vec<Vec<u8>> {
    let recording = Recording::new();
    let mut out = recording.output();
    let mut source = ProcessTreeSource::of(machine.proc(), ThreadNumbers::default());
    source.start(&mut out).expect("a start");
    source.flush(&mut out);
    trees(&recording)
}

fn texts(of: &[u8], field: u32) -> Vec<String> {
    messages(of, field).map(|text| String::from_utf8_lossy(text).into_owned()).collect()
}

#[test]
fn processes_that_are_there_are_told_with_all_their_threads() {
    let machine = Machine::new("tree");
    process(&machine, 40, "cat", "/bin/cat\0a b\0\0c\0", "NSpid:\t40\t3\nKthread:\t0\n");
    process(&machine, 50, "kworker/0:1-events", "", "Kthread:\t1\n");
    let trees = trees_at_start(&machine);
    // 41 and 51 are threads: folders that `/proc` does not list have no process.
    let trees: Vec<_> = trees.iter().filter(|tree| messages(tree, field::PROCESSES).count() > 0).collect();
    assert_eq!(trees.len(), 2);
    let cat = messages(trees[0], field::PROCESSES).next().expect("a process");
    assert_eq!(texts(cat, of_process::CMDLINE), ["/bin/cat", "a b", "", "c"]);
    let numbers =
        [of_process::PID, of_process::PPID, of_process::UID, of_process::NSPID, of_process::IS_KTHREAD];
    assert_eq!(numbers.map(|field| number(cat, field)), [40, 7, 1000, 3, 0].map(Some));
    let started = 300 * (1_000_000_000 / clock_ticks_per_second());
    assert_eq!(number(cat, of_process::PROCESS_START_FROM_BOOT), Some(started));
    assert_eq!(number(cat, of_process::CMDLINE_IS_COMM), None);
    let threads: Vec<_> = messages(trees[0], field::THREADS).collect();
    let of = |thread: &[u8]| {
        (number(thread, of_thread::TID), number(thread, of_thread::TGID), texts(thread, of_thread::NAME))
    };
    assert_eq!(of(threads[0]), (Some(40), Some(40), vec!["cat".into()]));
    assert_eq!(of(threads[1]), (Some(41), Some(40), vec!["second".into()]));
    let kernels = messages(trees[1], field::PROCESSES).next().expect("a process");
    assert_eq!(texts(kernels, of_process::CMDLINE), ["kworker/0:1-events"]);
    assert_eq!(number(kernels, of_process::CMDLINE_IS_COMM), Some(1));
    assert_eq!(number(kernels, of_process::IS_KTHREAD), Some(1));
}

#[test]
fn very_many_threads_of_a_process_are_told_in_packets_that_a_ring_has_room_for() {
    let machine = Machine::new("tree-many-threads");
    process(&machine, 40, "many", "many\0", "");
    for tid in 1000..3000 {
        let _ = std::fs::create_dir_all(machine.file_in_proc(&format!("40/task/{tid}")));
        let _ = std::fs::create_dir_all(machine.file_in_proc(&tid.to_string()));
        machine.says(&format!("{tid}/status"), &format!("Name:\tworker-{tid}\nTgid:\t40\nPid:\t{tid}\n"));
    }
    let trees = trees_at_start(&machine);
    let of_it = |tree: &&Vec<u8>| {
        messages(tree, field::THREADS).any(|thread| number(thread, of_thread::TGID) == Some(40))
    };
    let trees: Vec<_> = trees.iter().filter(of_it).collect();
    assert!(trees.len() == 4 && trees.iter().all(|tree| tree.len() < 32 << 10), "{}", trees.len());
    let processes = trees.iter().map(|tree| messages(tree, field::PROCESSES).count());
    assert_eq!(processes.collect::<Vec<_>>(), [1, 0, 0, 0]);
    let threads = trees.iter().flat_map(|tree| messages(tree, field::THREADS));
    let threads: BTreeSet<_> = threads.filter_map(|thread| number(thread, of_thread::TID)).collect();
    assert_eq!(threads.len(), 2002);
}

#[test]
fn threads_that_were_met_are_told_with_their_processes_and_those_that_are_gone_are_not() {
    let machine = Machine::new("tree-met");
    let threads = ThreadNumbers::default();
    let recording = Recording::new();
    let mut out = recording.output();
    let mut source = ProcessTreeSource::of(machine.proc(), threads.clone());
    process(&machine, 40, "sh", "sh\0", "");
    threads.add([41, 60, 41]);
    source.drain(&mut out);
    let told = trees(&recording);
    assert_eq!(told.len(), 1);
    assert_eq!(messages(&told[0], field::PROCESSES).count(), 1);
    assert_eq!(messages(&told[0], field::THREADS).count(), 1);
    // Another of its threads, or it is about to end: that is no other process.
    threads.add([41]);
    source.drain(&mut out);
    process(&machine, 40, "sh", "", "");
    threads.add([40]);
    source.drain(&mut out);
    assert_eq!(trees(&recording).iter().flat_map(|tree| messages(tree, field::PROCESSES)).count(), 1);
    // It runs another program.
    process(&machine, 40, "cat", "cat\0", "");
    threads.add([40]);
    source.stop(&mut out);
    let told = trees(&recording);
    let names = told.iter().flat_map(|tree| messages(tree, field::PROCESSES));
    assert_eq!(
        names.flat_map(|process| texts(process, of_process::CMDLINE)).collect::<Vec<_>>(),
        ["sh", "cat"]
    );
}

fn numbers_of(source: &ProcessTreeSource, pid: u32) -> Vec<u64> {
    source.told.get(&pid).into_iter().flat_map(|told| &told.0).map(|packet| packet.number).collect()
}

#[test]
fn of_very_many_processes_those_that_run_stay() {
    let machine = Machine::new("tree-many");
    let recording = Recording::new();
    let mut source = ProcessTreeSource::of(machine.proc(), ThreadNumbers::default());
    (source.past, source.next_look) = (64 << 10, 64 << 10);
    let (mut out, side) = (recording.output(), recording.session().side_packets());
    let long = "x".repeat(4000);
    process(&machine, 10, "stays", &long, "");
    source.tell(1, 10, None, &mut out);
    let stays = numbers_of(&source, 10);
    let before = side.len();
    for number in 0..50 {
        // One after another, each gone before the next.
        let pid = 100 + 2 * number;
        process(&machine, pid, "goes", &long, "");
        source.tell(1, pid, Some(Vec::new()), &mut out);
        machine.has_no(&pid.to_string());
    }
    assert!(source.bytes <= 64 << 10 && side.len() < before + 50, "{} {}", source.bytes, side.len());
    assert_eq!(numbers_of(&source, 10), stays);
    assert!(source.told.contains_key(&(100 + 2 * 49)));
    // What it says of itself is cut.
    assert!(source.told[&10].0[0].bytes < 5000);
}

#[test]
fn however_many_processes_run_looks_for_those_that_have_ended_are_rare() {
    let machine = Machine::new("tree-running");
    let recording = Recording::new();
    let mut source = ProcessTreeSource::of(machine.proc(), ThreadNumbers::default());
    (source.past, source.next_look) = (1 << 10, 1 << 10);
    let mut out = recording.output();
    let mut looks = BTreeSet::new();
    for number in 0..200 {
        let pid = 100 + 2 * number;
        process(&machine, pid, "runs", &"x".repeat(200), "");
        source.tell(1, pid, None, &mut out);
        looks.insert(source.next_look);
    }
    // Each comes when twice as much runs as at the one before.
    assert!(source.bytes > 40 << 10 && looks.len() < 9, "{} {looks:?}", source.bytes);
    assert_eq!(source.told.len(), 200);
    // When they have ended they are forgotten as ever.
    (0..200).for_each(|number| machine.has_no(&(100 + 2 * number).to_string()));
    source.forget_past(&out);
    assert!(source.bytes <= 1 << 9 && source.next_look == 1 << 10, "{} {}", source.bytes, source.next_look);
}

#[test]
fn of_a_process_that_runs_threads_that_have_ended_and_names_of_before_are_forgotten() {
    let machine = Machine::new("tree-threads");
    let recording = Recording::new();
    let threads = ThreadNumbers::default();
    let mut source = ProcessTreeSource::of(machine.proc(), threads.clone());
    (source.past, source.next_look) = (1 << 10, 1 << 10);
    let mut out = recording.output();
    // The first packet is the only one that has the other thread.
    process(&machine, 10, "first", "program\0", "");
    source.tell(1, 10, None, &mut out);
    let first = numbers_of(&source, 10);
    for number in 0..100 {
        // It has another thread, and at times another name.
        if number % 2 == 0 {
            machine.says("10/status", &format!("Name:\tname {number}\nTgid:\t10\n"));
            threads.add([10]);
        }
        let thread = 1000 + number;
        std::fs::create_dir(machine.file_in_proc(&thread.to_string())).expect("a folder");
        machine.says(&format!("{thread}/status"), "Name:\tthread\nTgid:\t10\n");
        threads.add([thread]);
        source.drain(&mut out);
        machine.has_no(&thread.to_string());
    }
    let told = numbers_of(&source, 10);
    assert!(source.bytes < 2 << 10 && told.len() < 30, "{} {}", source.bytes, told.len());
    assert!(told.contains(&first[0]), "{first:?} {told:?}");
    let named = trees(&recording);
    let named: Vec<_> = named.iter().flat_map(|tree| messages(tree, field::THREADS)).collect();
    let names = named.iter().flat_map(|thread| texts(thread, of_thread::NAME));
    let names: BTreeSet<_> = names.collect();
    assert!(names.contains("second") && names.contains("name 98") && !names.contains("name 0"), "{names:?}");
}

#[test]
fn what_is_told_of_a_process_is_not_younger_than_what_was_read_of_it() {
    let machine = Machine::new("tree-time");
    let threads = ThreadNumbers::default();
    let recording = Recording::new();
    let mut out = recording.output();
    let mut source = ProcessTreeSource::of(machine.proc(), threads.clone());
    process(&machine, 40, "kworker/0:1-events", "sh\0", "");
    // It ends while the others are read, which takes longer than its end.
    threads.add([40, 41]);
    let before = BootClock.now();
    source.drain(&mut out);
    let trace = recording.trace();
    let packets = TracePackets::new(&trace).map(|packet| packet.expect("a packet"));
    let told = packets.filter_map(|packet| Some((packet, message(packet, trace_packet::PROCESS_TREE)?)));
    // The session has one of its own.
    for (packet, tree) in told.filter(|(_, tree)| messages(tree, field::THREADS).count() > 0) {
        let (time, end) =
            (number(packet, trace_packet::TIMESTAMP), number(tree, field::COLLECTION_END_TIMESTAMP));
        assert!(Some(before) <= time && time < end, "{before} {time:?} {end:?}");
        let names = messages(tree, field::THREADS).flat_map(|thread| texts(thread, of_thread::NAME));
        assert_eq!(names.collect::<Vec<_>>(), ["kworker/0:1", "second"]);
    }
    let fresh: Vec<_> = ["kworker/0:1+x-y", "a-b", "kworker/u8"].map(name_of).to_vec();
    assert_eq!(fresh, ["kworker/0:1+x", "a-b", "kworker/u8"]);
}
