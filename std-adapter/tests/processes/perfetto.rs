//! Programs that follow a service which speaks Perfetto's protocol.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Barrier};
use std::time::{Duration, Instant};

use tracebuf_std::session::{
    Connection, ConnectionBuilder, Exhaustion, Follower, PerfettoSocket, Relay, Session, SessionError,
    Stopped,
};

use crate::fork::{fork, status_of};
use crate::harness::{
    PATIENCE, Producer, harms_no_thread_of_the_child, len_of, numbers, run, socket_of_parent, socket_path,
    waits_for, write, write_number,
};

/// A session, with such a socket.
struct Service {
    session: Arc<Session>,
    socket: PerfettoSocket,
    path: PathBuf,
}

impl Service {
    /// With so much shared memory for each program.
    fn start(test: &str, memory: usize) -> Self {
        let path = socket_path(&format!("pf-{test}"));
        let session = Arc::new(Session::builder().ring(256 << 20).start().expect("a session"));
        let socket = PerfettoSocket::builder().shared_memory(memory).bind(&session, &path).expect("a socket");
        Self { session, socket, path }
    }

    fn stop(self) -> Stopped {
        self.session.stop().expect("it runs")
    }
}

/// This process, which looks for a service.
fn following(path: &Path, builder: ConnectionBuilder) -> (Relay, Follower) {
    let relay = Relay::new();
    let connected = {
        let relay = relay.clone();
        move |service: &Connection| relay.connect(&service.recorder())
    };
    let follower = builder.process_name("follows").follow_perfetto(path, connected).expect("a thread");
    (relay, follower)
}

#[test]
fn one_that_starts_before_any_service_is_in_the_trace_of_each_that_comes() {
    let name = "following";
    let path = socket_path(&format!("pf-{name}"));
    let (relay, follower) = following(&path, Connection::builder());
    let recorder = relay.recorder();
    waits_for("it has looked", || follower.error().is_some_and(|error| error.contains(name)));
    for round in ["first", "second", "third"] {
        recorder.instant("nowhere");
        assert!(!recorder.is_on() && !follower.is_connected());
        assert!(matches!(follower.flush(PATIENCE), Err(SessionError::Stopped)));
        let service = Service::start(name, 64 << 10);
        waits_for("it has come", || recorder.is_on());
        recorder.slice("slice", || recorder.instant(round));
        waits_for("it is known", || follower.is_connected());
        assert_eq!(follower.error(), None);
        follower.flush(PATIENCE).expect("it is there");
        let trace = write(service.stop(), &format!("pf-{name}-{round}"));
        assert_eq!(trace.story(), format!("+slice !{round} -"));
        assert!(trace.contains("follows"), "the program's name");
        waits_for("it is off", || !recorder.is_on());
    }
    let started = Instant::now();
    drop(follower);
    assert!(started.elapsed() < Duration::from_secs(2), "nothing is waited for");
}

#[test]
fn what_was_recorded_when_the_follower_is_dropped_is_there() {
    let name = "dropped-follower";
    let service = Service::start(name, 1 << 20);
    let (relay, follower) = following(&service.path, Connection::builder());
    let recorder = relay.recorder();
    assert!(recorder.is_on() && follower.is_connected(), "a service that is there has it at once");
    let mut writer = recorder.packet_writer().expect("a writer");
    (0..500).for_each(|number| write_number(&mut writer, number));
    recorder.instant("last");
    drop(follower);
    assert!(!recorder.is_on() && !relay.is_connected());
    recorder.instant("late");
    let trace = write(service.stop(), &format!("pf-{name}"));
    assert_eq!(trace.story(), "!last");
    assert!(numbers(&trace).into_values().eq([Vec::from_iter(0..500)]));
}

/// Of each thread; fewer where all is slow.
fn packets() -> u64 {
    std::env::var("TRACEBUF_STRESS_PACKETS").map_or(20_000, |count| count.parse().expect("a number"))
}

#[test]
#[ignore = "what others run as a process"]
fn two_threads_that_wait() {
    let builder = Connection::builder().exhaustion(Exhaustion::Stall);
    let (relay, _follower) = following(&socket_of_parent(), builder);
    waits_for("it is wanted", || relay.is_connected());
    // Two at a time: else the second could have the sequence of the first.
    let both = Barrier::new(2);
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                let mut writer = relay.recorder().packet_writer().expect("a writer");
                both.wait();
                (0..packets()).for_each(|number| write_number(&mut writer, number));
                assert_eq!(writer.stats().dropped, 0);
            });
        }
    });
}

#[test]
fn what_programs_record_comes_out_whole_and_in_order_and_nothing_is_lost_of_those_who_wait() {
    let name = "stress";
    let service = Service::start(name, 64 << 10);
    let programs: Vec<_> = (0..3).map(|_| run(&service.path, "perfetto::two_threads_that_wait")).collect();
    // Scrapes while they write.
    for _ in 0..50 {
        service.session.flush(PATIENCE).expect("they answer");
        std::thread::sleep(Duration::from_millis(5));
    }
    let pids: Vec<_> = programs.iter().map(Producer::pid).collect();
    programs.into_iter().for_each(Producer::assert_ends_well);
    assert_eq!(service.socket.producers_seen(), 3);
    let stopped = service.stop();
    let summary = stopped.summary();
    assert_eq!((summary.flushes.failed, summary.chunks_discarded, summary.patches_discarded), (0, 0, 0));
    let all = numbers(&write(stopped, &format!("pf-{name}")));
    assert!(all.values().all(|numbers| *numbers == Vec::from_iter(0..packets())));
    for pid in pids {
        assert_eq!(all.keys().filter(|(of, _)| *of == pid).count(), 2, "two threads");
    }
    assert_eq!(all.len(), 6);
}

#[test]
#[ignore = "what others run as a process"]
fn one_that_is_killed() {
    let builder = Connection::builder().exhaustion(Exhaustion::Stall);
    let (relay, _follower) = following(&socket_of_parent(), builder);
    waits_for("it is wanted", || relay.is_connected());
    let mut writer = relay.recorder().packet_writer().expect("a writer");
    for number in 0.. {
        write_number(&mut writer, number);
        println!("recorded {number}");
    }
}

#[test]
fn what_a_program_has_recorded_until_it_is_killed_is_there() {
    let name = "killed";
    for until in [0, 30, 5_000] {
        let service = Service::start(name, 1 << 20);
        let mut program = run(&service.path, "perfetto::one_that_is_killed");
        let recorded = std::iter::repeat_with(|| program.says("recorded")).find(|number| *number >= until);
        program.signal(libc::SIGKILL);
        drop(program);
        let recorded = recorded.expect("a number");
        waits_for("it is gone", || service.session.summary().expect("a summary").producers.len() == 1);
        let all = numbers(&write(service.stop(), &format!("pf-{name}")));
        let written = all.into_values().next().expect("its packets");
        let last = *written.last().expect("a packet");
        // The last may be one of which it cannot be known that it is whole.
        assert!(written.is_sorted() && last + 1 >= recorded, "{last} of {recorded}");
        // What may be missing are packets over three chunks and more, of which sizes were not sent.
        let missing: Vec<_> = (0..last).filter(|number| written.binary_search(number).is_err()).collect();
        assert!(missing.iter().all(|number| len_of(*number) > 4000), "{missing:?}");
    }
}

#[test]
#[ignore = "what others run as a process"]
fn a_service() {
    let session = Arc::new(Session::builder().start().expect("a session"));
    let _socket = PerfettoSocket::builder().bind(&session, socket_of_parent()).expect("a socket");
    println!("listens 1");
    std::thread::sleep(PATIENCE);
}

#[test]
fn a_service_that_stands_still_is_there_until_it_is_killed_and_then_the_next_one_takes_its_place() {
    let path = socket_path("pf-still");
    let (relay, follower) = following(&path, Connection::builder());
    let recorder = relay.recorder();
    for _ in 0..2 {
        let mut service = run(&path, "perfetto::a_service");
        service.says("listens");
        waits_for("it has come", || follower.is_connected());
        recorder.instant("event");
        follower.flush(PATIENCE).expect("it answers");
        service.signal(libc::SIGSTOP);
        // SAFETY: a child that was not waited for, and is not, as it has not ended.
        assert!(unsafe { libc::waitpid(service.child.id() as i32, &mut 0, libc::WUNTRACED) } > 0);
        // More than its socket and shared memory take.
        (0..100_000).for_each(|_| recorder.instant("event"));
        assert!(matches!(follower.flush(Duration::from_millis(50)), Err(SessionError::Timeout)));
        assert!(follower.is_connected() && recorder.is_on());
        service.signal(libc::SIGKILL);
        waits_for("it is off", || !recorder.is_on());
    }
    let mut service = run(&path, "perfetto::a_service");
    service.says("listens");
    waits_for("it has come", || follower.is_connected());
    service.signal(libc::SIGSTOP);
    let started = Instant::now();
    drop(follower);
    assert!(started.elapsed() < Duration::from_secs(12), "it is not waited for without end");
    drop(service);
    std::fs::remove_file(&path).expect("what the last one has left");
}

#[test]
fn in_a_child_a_follower_does_nothing() {
    let name = "forked-follower";
    let service = Service::start(name, 64 << 10);
    let (relay, follower) = following(&service.path, Connection::builder());
    let (waiting, idle) = following(&socket_path("pf-nowhere"), Connection::builder());
    let recorder = relay.recorder();
    recorder.instant("before");
    // All threads have begun: one that is about to may have a lock of the standard library that the child's want.
    follower.flush(PATIENCE).expect("it is there");
    let mut held = Some((follower, idle));
    let child = fork(|| {
        let (follower, idle) = held.take().expect("they are there");
        recorder.instant("in the child");
        let flushed = follower.flush(Duration::from_secs(1));
        let is_off = !follower.is_connected() && !relay.is_connected() && follower.error().is_some();
        harms_no_thread_of_the_child(|| drop((follower, idle, waiting)));
        is_off && matches!(flushed, Err(SessionError::Forked))
    });
    assert_eq!(status_of(child), 0);
    recorder.instant("after");
    held.expect("it is here").0.flush(PATIENCE).expect("it is there");
    assert_eq!(write(service.stop(), &format!("pf-{name}")).story(), "!before !after");
}
