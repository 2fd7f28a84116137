//! Tests of the process tree: told once, and forgotten.

use tracebuf::proto::TracePackets;

use super::*;
use tracebuf::proto::reader::{FieldValue, Fields};

fn process(pid: u32) -> TreeProcess {
    TreeProcess {
        pid,
        ppid: 7,
        uid: 1000,
        nspid: vec![1],
        command_line: "sleep\x009\0".to_owned(),
        name: "sleep".to_owned(),
    }
}

fn thread(tid: u32) -> TreeThread {
    TreeThread { tid, nstid: vec![tid - 100], name: format!("t{tid}") }
}

/// Adds these, which are all the threads that the process has.
fn add(tree: &ProcessTree, process: &Presence, threads: std::ops::Range<u32>) {
    let threads: Vec<u32> = threads.collect();
    let new = tree.unknown(process, &threads);
    tree.add(process, &threads, new.into_iter().map(thread).collect());
}

/// The numbers in messages of a kind, each of which has one.
fn numbers(message: &[u8], within: u32, of: u32) -> Vec<u64> {
    let messages = Fields::of(message).filter(|field| field.number == within);
    let messages =
        messages.filter_map(|field| if let FieldValue::Bytes(b) = field.value { Some(b) } else { None });
    let number = |message| {
        Fields::of(message).find_map(|field| match field.value {
            FieldValue::Number(number) if field.number == of => Some(number),
            _ => None,
        })
    };
    messages.filter_map(number).collect()
}

/// The numbers of processes and of threads in a packet.
type Told = (Vec<u64>, Vec<u64>);

/// What each packet reports after that number, and the newest number.
fn told(tree: &ProcessTree, since: u64) -> (Vec<Told>, u64) {
    let mut piece = Piece::default();
    let newest = piece.processes(tree, since).expect("memory");
    let packets: Vec<_> = TracePackets::new(&piece.bytes).map(|packet| packet.expect("a packet")).collect();
    assert_eq!(packets.len() as u64, piece.packets);
    let trees = packets.iter().map(|packet| {
        let is = |field: &tracebuf::proto::reader::Field<'_>| field.number == trace_packet::PROCESS_TREE;
        match Fields::of(packet).find(is).expect("a tree").value {
            FieldValue::Bytes(tree) => (numbers(tree, 1, 1), numbers(tree, 2, 1)),
            _ => panic!("a number"),
        }
    });
    (trees.collect(), newest)
}

#[test]
fn what_was_told_is_not_told_again() {
    let tree = ProcessTree::default();
    assert_eq!(told(&tree, 0), (vec![], 0));
    let first = tree.come(process(10), 5);
    add(&tree, &first, 101..103);
    let (packets, newest) = told(&tree, 0);
    assert_eq!(packets, [(vec![10], vec![101, 102])]);
    assert_eq!(told(&tree, newest), (vec![], newest));
    add(&tree, &first, 102..104);
    let _second = tree.come(process(11), 6);
    assert_eq!(told(&tree, newest).0, [(vec![], vec![103]), (vec![11], vec![])]);
    assert_eq!(told(&tree, 0).0, [(vec![10], vec![101, 102, 103]), (vec![11], vec![])]);
    // Nor is a process that had no threads when it was told.
    let third = tree.come(process(12), 7);
    let newest = told(&tree, newest).1;
    add(&tree, &third, 104..105);
    assert_eq!(told(&tree, newest).0, [(vec![], vec![104])]);
}

#[test]
fn a_process_with_two_connections_is_one_until_both_have_gone() {
    let tree = ProcessTree::default();
    let first = tree.come(process(10), 5);
    let second = tree.come(process(10), 6);
    add(&tree, &first, 101..102);
    add(&tree, &second, 101..103);
    drop(first);
    let third = tree.come(process(10), 7);
    assert_eq!(told(&tree, 0).0, [(vec![10], vec![101, 102])]);
    drop((second, third));
    let _another = tree.come(process(10), 8);
    assert_eq!(told(&tree, 0).0.len(), 2);
}

#[test]
fn threads_that_have_ended_make_place_for_others_and_those_that_are_there_do_not() {
    let tree = ProcessTree::default();
    let process = tree.come(process(10), 5);
    let most = 101 + THREADS as u32;
    add(&tree, &process, 101..most);
    assert_eq!(tree.unknown(&process, &(101..most + 9).collect::<Vec<_>>()), []);
    // Even if it is asked for: one that has just ended was there before.
    tree.add(&process, &(101..most + 9).collect::<Vec<_>>(), vec![thread(most)]);
    let threads = || told(&tree, 0).0.remove(0).1;
    assert_eq!(threads(), (101..most.into()).collect::<Vec<_>>());
    add(&tree, &process, 103..most + 1);
    let left = threads();
    assert_eq!((left.len(), left[0], left[THREADS - 1]), (THREADS, 102, most.into()));
}

#[test]
fn of_those_that_have_gone_the_oldest_are_forgotten() {
    let tree = ProcessTree::default();
    let long = |pid| TreeProcess { command_line: "x".repeat(4096), ..process(pid) };
    let stays = tree.come(long(1), 5);
    for pid in 2..1000 {
        drop(tree.come(long(pid), 5));
    }
    let left = told(&tree, 0).0;
    assert!((PAST / 4500..PAST / 4000).contains(&left.len()), "{}", left.len());
    assert_eq!((left[0].0[0], left[left.len() - 1].0[0]), (1, 999));
    drop(stays);
    drop(tree.come(long(1000), 5));
    assert_ne!(told(&tree, 0).0[0].0, [1]);

    // Threads take memory, too.
    let tree = ProcessTree::default();
    for pid in 2..1000 {
        add(&tree, &tree.come(process(pid), 5), 101..141);
    }
    let left = told(&tree, 0).0.len();
    assert!((PAST / 6000..PAST / 5000).contains(&left), "{left}");
}

#[test]
fn a_process_is_encoded_with_its_words_or_else_its_name() {
    let bytes = |process: &TreeProcess| {
        let mut room = [0; 64];
        let mut out = tracebuf::proto::Encoder::new(&mut room);
        process.encode(&mut out).expect("room");
        out.finish().expect("room").to_vec()
    };
    assert_eq!(bytes(&process(10)), b"\x08\x0A\x10\x07\x1A\x05sleep\x1A\x019\x28\xE8\x07");
    let nobody = TreeProcess { command_line: "\0".to_owned(), uid: u32::MAX, ..process(10) };
    let uid = b"\x28\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\x01";
    assert_eq!(bytes(&nobody), [&b"\x08\x0A\x10\x07\x1A\x05sleep\x48\x01"[..], uid].concat());
}
