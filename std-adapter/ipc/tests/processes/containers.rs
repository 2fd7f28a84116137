//! Programs in containers, pid namespaces of their own: the trace tells which process and thread each of them means.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;
use std::sync::Barrier;
use std::time::Duration;

use tracebuf_ipc::{Connection, ProducerSocket};
use tracebuf_session::{LongTrace, Session};

use crate::harness::{
    PATIENCE, Producer, Service, run, run_by, socket_of_parent, stalling, this_program, waits_for, write,
};
use crate::perfetto;
use crate::trace::{Field, Trace, fields, message, number, scratch};

/// Runs an ignored test of this file as the first process of a pid namespace, which has its own `/proc`. A user who may
/// not make one needs a user namespace for it, too.
fn run_in_container(path: &Path, test: &str) -> Producer {
    let mut command = Command::new("unshare");
    command.args(["--pid", "--mount-proc", "--fork", "--kill-child"]);
    if !rustix::process::geteuid().is_root() {
        command.args(["--user", "--map-root-user"]);
    }
    command.arg(this_program());
    run_by(command, path, test)
}

/// The messages with a field number.
fn each(bytes: &[u8], wanted: u32) -> impl Iterator<Item = &[u8]> {
    fields(bytes).into_iter().filter_map(move |field| match field {
        Field::Bytes(number, value) if number == wanted => Some(value),
        _ => None,
    })
}

/// A process that a trace tells of.
#[derive(Debug, Default, PartialEq, Eq)]
struct Process {
    pid: u64,
    command_line: String,
    /// The name that it gives itself.
    name: Option<String>,
    uid: u64,
    time: u64,
}

/// A thread of one.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Thread {
    tgid: u64,
    tid: u64,
    name: String,
}

fn text(bytes: Option<&[u8]>) -> String {
    String::from_utf8(bytes.expect("a text").to_vec()).expect("text")
}

/// What a trace tells of processes and threads: each of them once, and before all that its process records; its name
/// besides.
fn told(trace: &Trace) -> (Vec<Process>, BTreeSet<Thread>) {
    let (mut processes, mut threads, mut recorded) =
        (Vec::<Process>::new(), BTreeSet::new(), BTreeSet::new());
    for packet in trace.packets() {
        let Some(tree) = message(packet, 2) else {
            recorded.extend(number(packet, 79));
            continue;
        };
        assert_eq!(
            (number(packet, 10), number(packet, 58)),
            (Some(1), Some(6)),
            "the service's, in boot time"
        );
        for process in each(tree, 1) {
            let words = each(process, 3).map(|word| text(Some(word)));
            let process = Process {
                name: None,
                pid: number(process, 1).expect("a pid"),
                command_line: words.collect::<Vec<_>>().join(" "),
                uid: number(process, 5).expect("a user"),
                time: number(packet, 8).expect("a time"),
            };
            match processes.iter_mut().find(|one| one.pid == process.pid) {
                None => {
                    assert!(!recorded.contains(&process.pid));
                    processes.push(process);
                }
                // Once more, with its name before the command line, where a trace of before has that already.
                Some(known) => {
                    let name = process.command_line.strip_suffix(&known.command_line).expect("the same");
                    let own = || known.command_line.split(' ').next().expect("a word");
                    let name = if name.is_empty() { own() } else { name.trim_end() };
                    assert_eq!(known.name.replace(name.to_owned()), None);
                }
            }
        }
        for thread in each(tree, 2) {
            let tgid = number(thread, 3).expect("a process");
            assert!(processes.iter().any(|process| process.pid == tgid));
            let thread =
                Thread { tgid, tid: number(thread, 1).expect("a tid"), name: text(message(thread, 2)) };
            assert!(threads.insert(thread.clone()), "{thread:?} is told twice");
        }
    }
    (processes, threads)
}

/// What a process's packets say about its own and its threads' numbers: pid and tid.
fn described(trace: &Trace, pid: u64) -> BTreeSet<(u64, u64)> {
    let of_process = trace.packets().filter(|packet| number(packet, 79) == Some(pid));
    let threads = of_process.filter_map(|packet| message(message(packet, 60)?, 4));
    threads.map(|thread| (number(thread, 1).expect("a pid"), number(thread, 2).expect("a tid"))).collect()
}

/// The number of each process that a process's packets describe.
fn described_processes(trace: &Trace, pid: u64) -> BTreeSet<u64> {
    let of_process = trace.packets().filter(|packet| number(packet, 79) == Some(pid));
    let processes = of_process.filter_map(|packet| message(message(packet, 60)?, 3));
    processes.map(|process| number(process, 1).expect("a pid")).collect()
}

/// Checks that such a program records only as a process and threads that the trace tells of. Returns how many threads
/// record.
fn assert_known(trace: &Trace, process: &Process, threads: &BTreeSet<Thread>) -> usize {
    let program = this_program();
    let program = program.file_name().and_then(|name| name.to_str()).expect("a name");
    // Otherwise the name that it was given.
    assert!(process.name.as_deref().is_none_or(|name| [program, "follows"].contains(&name)), "{process:?}");
    assert_eq!(process.uid, rustix::process::geteuid().as_raw().into());
    assert!(process.command_line.contains("--exact --ignored"), "{process:?}");
    let own: Vec<_> = threads.iter().filter(|thread| thread.tgid == process.pid).collect();
    assert!(own.iter().any(|thread| thread.tid == process.pid), "{own:?}");
    let recorded = described(trace, process.pid);
    for (pid, tid) in &recorded {
        assert_eq!(*pid, process.pid, "as the service knows it");
        assert_eq!(own.iter().filter(|thread| thread.tid == *tid).count(), 1, "{tid} of {own:?}");
    }
    if !recorded.is_empty() {
        assert!(process.name.is_some(), "{process:?}");
        assert_eq!(described_processes(trace, process.pid), BTreeSet::from([process.pid]));
    }
    let state = trace.packets().find(|packet| {
        number(packet, 79) == Some(process.pid)
            && number(packet, 8).is_some()
            && number(packet, 58) == Some(6)
    });
    assert!(state.is_none_or(|packet| number(packet, 8) >= Some(process.time)));
    recorded.len()
}

#[test]
#[ignore = "run by other tests, as a process"]
fn a_thread_and_then_another() {
    let Some(socket) = socket_of_parent() else { return };
    assert_eq!(std::process::id(), 1);
    let connection = stalling(socket);
    let recorder = connection.recorder();
    recorder.instant("of the first thread");
    // Some rings full of it.
    (0..20_000).for_each(|_| recorder.instant("again"));
    connection.flush(PATIENCE).expect("it answers");
    // A period of a long trace, and some.
    std::thread::sleep(Duration::from_millis(100));
    let done = Barrier::new(2);
    std::thread::scope(|scope| {
        let later = || {
            recorder.instant("of a later thread");
            connection.flush(PATIENCE).expect("it answers");
            done.wait();
        };
        std::thread::Builder::new().name("later".to_owned()).spawn_scoped(scope, later).expect("a thread");
        done.wait();
    });
    println!("done 1");
    // It is there until the trace is written.
    std::thread::sleep(PATIENCE);
}

const TEST: &str = "containers::a_thread_and_then_another";

#[test]
fn processes_and_threads_of_containers_are_told_however_often_the_ring_went_round() {
    let name = "containers";
    let service = Service::start(name, Session::builder().ring(64 << 10), ProducerSocket::builder());
    let mut producers = [(); 2].map(|()| run_in_container(&service.path, TEST));
    producers.iter_mut().for_each(|producer| assert_eq!(producer.says("done"), 1));
    let snapshot = scratch("containers-snapshot.pftrace");
    let taken = service.session.snapshot().expect("a snapshot");
    taken.since(u64::MAX).write_to(&snapshot).expect("a file");
    // Also those of programs that have gone.
    drop(producers);
    let stopped = service.stop();
    assert!(stopped.summary().buffers[0].chunks_overwritten > 0);
    let trace = write(stopped, name);
    for trace in [trace, Trace::read(&snapshot)] {
        let (processes, threads) = told(&trace);
        assert_eq!(processes.len(), 2, "{processes:?}");
        // The slower one may have left nothing of the faster one's in the ring.
        let recorded = processes.iter().map(|process| assert_known(&trace, process, &threads));
        assert!(recorded.sum::<usize>() > 0);
        let later: Vec<_> = threads.iter().filter(|thread| thread.name == "later").collect();
        assert_eq!(later.len(), 2, "{threads:?}");
        trace.assert_ends_with_stats();
    }
}

#[test]
fn a_long_trace_tells_of_each_once_before_what_it_records() {
    let path = scratch("containers-long.pftrace");
    let long = LongTrace::to(&path).period(Duration::from_millis(10));
    let session = Session::builder().ring(16 << 20).long_trace(long);
    let service = Service::start("containers-long", session, ProducerSocket::builder());
    let mut producer = run_in_container(&service.path, TEST);
    producer.says("done");
    service.stop();
    let trace = Trace::read(&path);
    let (processes, threads) = told(&trace);
    let [process] = &processes[..] else { panic!("{processes:?}") };
    assert_eq!(assert_known(&trace, process, &threads), 2, "all threads that record");
    assert!(threads.iter().any(|thread| thread.name == "later"), "{threads:?}");
    trace.assert_ends_with_stats();
}

#[test]
#[ignore = "run by other tests, as a process"]
fn a_thread_and_then_another_by_perfettos_protocol() {
    let Some(socket) = socket_of_parent() else { return };
    let (relay, _follower) = perfetto::following(&socket, Connection::builder());
    waits_for("it is wanted", || relay.is_connected());
    let recorder = relay.recorder();
    recorder.instant("of the first thread");
    // The first has come by then, as a rule.
    std::thread::sleep(Duration::from_millis(100));
    let later = move || {
        recorder.instant("of a later thread");
        println!("done 1");
        std::thread::sleep(PATIENCE);
    };
    let later = std::thread::Builder::new().name("later".to_owned()).spawn(later).expect("a thread");
    let _ = later.join();
}

#[test]
fn programs_with_perfettos_protocol_are_told_of_too() {
    let name = "containers";
    let service = perfetto::Service::start(name, 1 << 20);
    let test = "containers::a_thread_and_then_another_by_perfettos_protocol";
    let mut producer = run_in_container(&service.path, test);
    producer.says("done");
    service.session.flush(PATIENCE).expect("it answers");
    let trace = write(service.stop(), &format!("pf-{name}"));
    let (processes, threads) = told(&trace);
    let [process] = &processes[..] else { panic!("{processes:?}") };
    assert_eq!(assert_known(&trace, process, &threads), 2, "all threads that record");
    assert!(threads.iter().any(|thread| thread.name == "later"), "{threads:?}");
}

#[test]
#[ignore = "run by other tests, as a process"]
fn an_event_and_an_end() {
    let Some(socket) = socket_of_parent() else { return };
    Connection::builder().open(socket).expect("a service").recorder().instant("hello");
}

#[test]
fn programs_of_the_service_s_own_namespace_are_not_told_of() {
    let name = "no-containers";
    let service = Service::start(name, Session::builder(), ProducerSocket::builder());
    let connection = Connection::builder().open(&service.path).expect("a service");
    connection.recorder().instant("hello");
    connection.flush(PATIENCE).expect("it answers");
    run(&service.path, "containers::an_event_and_an_end").assert_ends_well();
    let trace = write(service.stop(), name);
    assert_eq!(trace.events(3), 2);
    assert!(trace.packets().all(|packet| message(packet, 2).is_none()));
}

#[test]
fn programs_that_end_at_once_are_told_of_too() {
    let name = "short-containers";
    let service = Service::start(name, Session::builder(), ProducerSocket::builder());
    for _ in 0..10 {
        run_in_container(&service.path, "containers::an_event_and_an_end").assert_ends_well();
    }
    let trace = write(service.stop(), name);
    let (processes, threads) = told(&trace);
    assert_eq!(processes.len(), 10);
    assert!(processes.iter().all(|process| assert_known(&trace, process, &threads) == 1));
}
