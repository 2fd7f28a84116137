//! Tests of processes and threads that packets name without tracks.

use std::collections::BTreeMap;

use tracebuf::proto::reader::{message, messages, numbers};

use super::*;

/// Of what a trace tells of a process or a thread: when, and its name.
type Names = BTreeMap<u64, Vec<(u64, String)>>;

fn field(of: u32, bytes: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    let Ok(()) = out.bytes(of, bytes);
    out
}

fn numbered(fields: &[(u32, u64)]) -> Vec<u8> {
    let mut out = Vec::new();
    fields.iter().for_each(|(field, value)| {
        let Ok(()) = out.varint(*field, *value);
    });
    out
}

fn process(pid: u64, words: &[&str], more: &[(u32, u64)]) -> Vec<u8> {
    let words = words.iter().map(|word| field(3, word.as_bytes()));
    let words: Vec<_> = std::iter::once(numbered(&[(1, pid), (2, 1)])).chain(words).collect();
    field(1, &[words.concat(), numbered(more)].concat())
}

fn thread(tid: u64, tgid: u64, name: &str, more: &[(u32, u64)]) -> Vec<u8> {
    field(
        2,
        &[numbered(&[(1, tid)]), field(2, name.as_bytes()), numbered(&[(3, tgid)]), numbered(more)].concat(),
    )
}

/// A packet of sequence 3 with a process tree.
fn tree(time: u64, parts: &[Vec<u8>]) -> Vec<u8> {
    let end = numbered(&[(3, time + 7)]);
    [numbered(&[(8, time), (10, 3)]), field(2, &[parts.concat(), end].concat())].concat()
}

/// What a file that begins now tells of processes, and of threads with the processes they are of.
fn told_of(carried: &mut CarryOver) -> (Names, Names) {
    let mut out = Vec::new();
    carried.begin_file(&mut out);
    let (mut processes, mut threads) = (Names::new(), Names::new());
    for packet in TracePackets::new(&out).map(|packet| packet.expect("a packet")) {
        let view = PacketView::of(packet);
        let Some(tree) = message(packet, 2).filter(|tree| !tree.is_empty()) else { continue };
        assert_eq!((view.sequence_id, view.clock), (3, Some(6)));
        let time = view.time.expect("a time");
        for process in messages(tree, 1) {
            let [pid] = numbers(process, [1]).expect("a process");
            let words = messages(process, 3).map(String::from_utf8_lossy).collect::<Vec<_>>();
            processes.entry(pid).or_default().push((time, words.join(" ")));
        }
        for thread in messages(tree, 2) {
            let [tid, tgid] = numbers(thread, [1, 3]).expect("a thread");
            let name = String::from_utf8_lossy(message(thread, 2).expect("a name"));
            threads.entry(tid).or_default().push((time, format!("{name} of {tgid}")));
        }
    }
    (processes, threads)
}

fn names<const N: usize>(all: [(u64, &[(u64, &str)]); N]) -> Names {
    let owned =
        |names: &[(u64, &str)]| names.iter().map(|(time, name)| (*time, (*name).to_owned())).collect();
    all.into_iter().map(|(number, names)| (number, owned(names))).collect()
}

#[test]
fn each_process_and_thread_of_a_tree_is_kept_as_it_was_told_of_last_with_that_time() {
    let mut carried = CarryOver::default().keep_descriptions(16 << 10);
    let all =
        [process(10, &["/bin/a", "-x", ""], &[]), process(20, &["b"], &[]), thread(11, 10, "worker", &[])];
    let later = [thread(21, 20, "io", &[]), thread(11, 10, "renamed", &[]), process(20, &["exec"], &[])];
    // Readers skip a process without a word: it must not take the place of one that has a name.
    let ended = [process(10, &[], &[])];
    carried.fold(&framed(&[&tree(1000, &all), &tree(2000, &later), &tree(3000, &ended)]));
    let mut copy = carried.clone();
    let expected = (
        names([(10, &[(1000, "/bin/a -x ")]), (20, &[(2000, "exec")])]),
        names([(11, &[(2000, "renamed of 10")]), (21, &[(2000, "io of 20")])]),
    );
    assert_eq!(told_of(&mut carried), expected);
    copy.fold(&framed(&[&tree(4000, &[thread(21, 20, "again", &[])])]));
    assert_eq!(told_of(&mut copy).1[&21], [(4000, "again of 20".to_owned())]);
    assert_eq!(told_of(&mut carried), expected, "a copy goes on by itself");
    let stats = carried.kept().expect("it keeps");
    assert_eq!((stats.patches, stats.aborts, stats.forgotten), (6, 0, 0));
}

#[test]
fn a_process_in_a_namespace_is_known_before_the_first_of_its_threads() {
    let mut carried = CarryOver::default().keep_descriptions(16 << 10);
    let whole = |name: &'static str| process(10, &[name], &[(6, 1)]);
    let first = [whole("old"), thread(11, 10, "a", &[(4, 2)]), thread(12, 10, "b", &[(4, 3)])];
    let other = [process(20, &["plain"], &[]), thread(21, 20, "c", &[])];
    carried.fold(&framed(&[
        &tree(1000, &first),
        &tree(1500, &other),
        &tree(2000, &[thread(12, 10, "b", &[(4, 3)])]),
        &tree(3000, &[whole("new"), process(20, &["plain again"], &[])]),
    ]));
    let (processes, threads) = told_of(&mut carried);
    let expected = names([(10, &[(1000, "new"), (3000, "new")]), (20, &[(3000, "plain again")])]);
    assert_eq!(processes, expected);
    assert_eq!(threads[&11], [(1000, "a of 10".to_owned())]);
}

#[test]
fn those_that_were_told_of_last_stay_with_the_processes_of_threads_if_there_is_no_more_room() {
    let mut carried = CarryOver::default().keep_descriptions(16 << 10);
    carried.fold(&framed(&[&tree(1000, &[process(10, &["server"], &[]), process(20, &["nobody's"], &[])])]));
    for tid in 0..1000 {
        carried.fold(&framed(&[&tree(2000 + tid, &[thread(100 + tid, 10, "short", &[])])]));
    }
    let stats = carried.kept().expect("it keeps");
    assert!(stats.forgotten > 500 && stats.aborts == 0 && stats.high_water <= 16 << 10, "{stats:?}");
    let (processes, threads) = told_of(&mut carried);
    assert_eq!(processes, names([(10, &[(1000, "server")])]));
    assert!(threads.contains_key(&1099) && threads.contains_key(&1080) && !threads.contains_key(&100));
}

/// A packet of sequence 2 from before there were tracks.
fn descriptor(of: u32, content: &[u8]) -> Vec<u8> {
    [vec![0x50, 2], field(of, content)].concat()
}

#[test]
fn old_descriptors_of_threads_and_processes_become_tracks_that_need_no_state() {
    let mut carried = CarryOver::default().keep_descriptions(16 << 10);
    let of_thread =
        |pid, tid, name: &str| [numbered(&[(1, pid), (2, tid)]), field(5, name.as_bytes())].concat();
    let process = [numbered(&[(1, 5)]), field(6, b"program")].concat();
    let counting = [of_thread(5, 7, "counts"), numbered(&[(6, 123)])].concat();
    carried.fold(&framed(&[
        STATE,
        &descriptor(43, &process),
        &descriptor(44, &of_thread(5, 6, "early")),
        &descriptor(44, &of_thread(5, 6, "late")),
        &descriptor(44, &counting),
        // Whose it is is not known.
        &descriptor(44, &field(5, b"nobody")),
    ]));
    // What is in the sequence after its state was lost.
    carried.fold(&framed(&[&[&event(5, 3, 1)[..], &[0xD0, 2, 65]].concat()]));
    let mut trace = Vec::new();
    carried.begin_file(&mut trace);
    let flags = TracePackets::new(&trace).map(|packet| PacketView::of(packet.expect("a packet")).flags);
    assert_eq!(flags.fold(0, |all, flags| all | flags), 0, "nothing says that there is a state");
    let read = Trace::of(&trace).expect("a trace");
    assert_eq!(read.faults(), []);
    let mut threads: Vec<_> = read
        .tracks()
        .map(|track| (track.pid(), track.tid(), track.thread_name().map(str::to_owned)))
        .collect();
    threads.sort();
    let thread = |tid, name: &str| (Some(5), Some(tid), Some(name.to_owned()));
    assert_eq!(threads, [(Some(5), None, None), thread(6, "late"), thread(7, "counts")]);
    assert!(read.tracks().all(|track| track.process_name() == Some("program")));
    assert_eq!(carried.kept().map(|kept| kept.aborts), Some(0));
}

#[test]
fn processes_of_two_writers_with_the_same_numbers_are_two() {
    let mut carried = CarryOver::default().keep_descriptions(16 << 10);
    let contained = |pid: u64, name: &str| {
        let thread = [numbered(&[(1, 1), (2, 1)]), field(5, name.as_bytes())].concat();
        [numbered(&[(10, pid), (79, pid)]), field(44, &thread)].concat()
    };
    carried.fold(&framed(&[&contained(100, "one"), &contained(200, "other")]));
    let mut trace = Vec::new();
    assert_eq!(carried.begin_file(&mut trace), 2);
    let mut names: Vec<_> = TracePackets::new(&trace)
        .map(|packet| PacketView::of(packet.expect("a packet")))
        .map(|view| {
            (view.pid, message(message(view.track, 4).expect("a thread"), 5).expect("a name").to_vec())
        })
        .collect();
    names.sort();
    assert_eq!(names, [(Some(100), b"one".to_vec()), (Some(200), b"other".to_vec())]);
}
