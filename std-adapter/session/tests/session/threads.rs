//! Threads and processes in a trace: each has a track of its own, and the name that it has in the system.
#![cfg(target_os = "linux")]

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};
use std::thread;

use tracebuf_session::parts::{ProcessNumber, process_track};
use tracebuf_session::{Recorder, Session, this_process};
use tracebuf_testing::trace::{Trace, message, number, scratch};

/// A thread of a trace: its number, its name, and the signs of its events.
#[derive(Debug, PartialEq, Eq)]
struct Thread {
    tid: u64,
    name: String,
    events: String,
}

/// The threads of a trace, by their tracks.
fn threads(trace: &Trace) -> BTreeMap<u64, Thread> {
    let (mut threads, mut tracks) = (BTreeMap::new(), BTreeMap::new());
    for packet in trace.packets() {
        let sequence = number(packet, 10);
        let defaults = message(packet, 59).and_then(|defaults| message(defaults, 11));
        if let Some(track) = defaults.and_then(|defaults| number(defaults, 11)) {
            tracks.insert(sequence, track);
        }
        if let Some(track) = message(packet, 60)
            && let Some(thread) = message(track, 4)
        {
            let name = String::from_utf8_lossy(message(thread, 5).expect("a name")).into_owned();
            let tid = number(thread, 2).expect("a number");
            let new = Thread { tid, name, events: String::new() };
            threads.entry(number(track, 1).expect("an id")).or_insert(new);
        }
        if let Some(event) = message(packet, 11) {
            let track = number(event, 11).unwrap_or_else(|| tracks[&sequence]);
            let sign = ["?", "+", "-", "!", "#"][number(event, 9).expect("a type") as usize];
            threads.get_mut(&track).expect("it is described").events += sign;
        }
    }
    threads
}

fn call_this_thread(name: &std::ffi::CStr) {
    // SAFETY: a name of less than 16 bytes, for the calling thread.
    assert_eq!(unsafe { libc::pthread_setname_np(libc::pthread_self(), name.as_ptr()) }, 0);
}

#[test]
fn threads_have_the_names_that_a_c_library_gave_them_and_those_without_have_their_numbers() {
    let session = Session::builder().ring(1 << 20).start().expect("a session");
    let run = |name: Option<&str>, work: &(dyn Fn() + Sync)| {
        let recorder = session.recorder();
        thread::scope(|scope| {
            let builder =
                name.map_or_else(thread::Builder::new, |name| thread::Builder::new().name(name.to_owned()));
            let thread = builder.spawn_scoped(scope, || {
                work();
                recorder.instant("here");
                tracebuf_std::system::thread_id()
            });
            thread.expect("a thread").join().expect("no panic")
        })
    };
    // A test's own thread has its name, which others would inherit.
    let plain = thread::scope(|scope| {
        scope
            .spawn(|| {
                let main = std::fs::read_to_string("/proc/self/comm").expect("a name");
                call_this_thread(&std::ffi::CString::new(main.trim_end()).expect("no zero"));
                run(None, &|| {})
            })
            .join()
            .expect("no panic")
    });
    run(None, &|| call_this_thread(c"gst-src"));
    run(Some("worker"), &|| call_this_thread(c"io"));
    run(Some("a name of more than fifteen bytes"), &|| {});
    run(Some("Gerät mit einer Grösse"), &|| {});
    let path = scratch("threads-names.pftrace");
    session.stop().expect("it runs").write_to(&path).expect("a file");
    let threads = threads(&Trace::read(&path));
    let mut names: Vec<_> = threads.values().map(|thread| thread.name.clone()).collect();
    names.sort_unstable();
    let mut expected = vec![
        format!("thread {plain}"),
        "gst-src".into(),
        "io".into(),
        "a name of more than fifteen bytes".into(),
        "Gerät mit einer Grösse".into(),
    ];
    expected.sort_unstable();
    assert_eq!(names, expected);
}

/// Records in a thread with the number 5000. It may take a moment until that is free again.
fn named(recorder: &Recorder, name: &str, work: fn(&Recorder)) {
    let has_recorded = || {
        std::fs::write("/proc/sys/kernel/ns_last_pid", "4999").expect("the next thread's number");
        let recorder = recorder.clone();
        let thread = thread::Builder::new().name(name.to_owned()).spawn(move || {
            let is_it = tracebuf_std::system::thread_id() == 5000;
            if is_it {
                work(&recorder);
                recorder.slice("work", || {});
            }
            is_it
        });
        thread.expect("a thread").join().expect("no panic")
    };
    assert!((0..1000).any(|_| has_recorded()));
}

#[test]
#[ignore = "run by the next test, in a pid namespace"]
fn three_threads_with_one_number() {
    if std::process::id() != 1 {
        return;
    }
    let session = Session::builder().ring(1 << 20).start().expect("a session");
    let recorder = session.recorder();
    named(&recorder, "alpha", |recorder| std::mem::forget(recorder.enter("never ended")));
    named(&recorder, "beta", |_| {});
    named(&recorder, "gamma", |_| {});
    let path = scratch("threads-again.pftrace");
    session.stop().expect("it runs").write_to(&path).expect("a file");
}

/// An ignored test of this file, as the first process of a pid namespace that has its own `/proc`.
fn in_container(test: &str) -> Command {
    let mut command = Command::new("unshare");
    command.args(["--pid", "--mount-proc", "--fork", "--kill-child"]);
    if !rustix::process::geteuid().is_root() {
        command.args(["--user", "--map-root-user"]);
    }
    command.arg(std::env::current_exe().expect("this program"));
    command.args(["--exact", "--ignored", "--nocapture", test]);
    command
}

#[test]
fn threads_with_numbers_that_come_again_have_each_a_track_and_a_name() {
    let output = in_container("threads::three_threads_with_one_number").output().expect("it starts");
    assert!(output.status.success(), "{output:?}");
    let threads = threads(&Trace::read(&scratch("threads-again.pftrace")));
    let mut threads: Vec<_> = threads.into_values().collect();
    threads.sort_unstable_by_key(|thread| thread.tid);
    let expected = [(5000, "alpha", "++-"), (10_005_000, "beta", "+-"), (20_005_000, "gamma", "+-")];
    let thread =
        |(tid, name, events): (u64, &str, &str)| Thread { tid, name: name.into(), events: events.into() };
    assert_eq!(threads, expected.map(thread));
}

#[test]
#[ignore = "run by the next test, in a pid namespace"]
fn says_its_track() {
    if std::process::id() != 1 {
        return;
    }
    println!("track {}", this_process().uuid());
    // Until the other test has looked.
    let _ = std::io::stdin().read_line(&mut String::new());
}

#[test]
fn a_process_in_a_container_has_the_same_track_for_those_who_look_from_outside() {
    let mut command = in_container("threads::says_its_track");
    let mut unshare = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("it starts");
    let mut said = BufReader::new(unshare.stdout.take().expect("a pipe")).lines();
    let track = said
        .by_ref()
        .map(|line| line.expect("text"))
        .find_map(|line| Some(line.rsplit_once("track ")?.1.to_owned()));
    let pid = unshare.id();
    let children = std::fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).expect("its child");
    let child = children.trim().parse().expect("one");
    let number = ProcessNumber::of(child);
    drop(unshare.stdin.take());
    assert!(unshare.wait().expect("it ends").success());
    assert_eq!(track, Some(number.track("").uuid().to_string()));
    assert_ne!(number.track("").uuid(), process_track(child, "").uuid());
}
