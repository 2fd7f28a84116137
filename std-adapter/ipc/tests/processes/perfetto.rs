//! Programs that follow a service which speaks Perfetto's protocol.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use tracebuf_ipc::{Connection, ConnectionBuilder, Follower, PerfettoSocket, PerfettoSocketBuilder};
use tracebuf_session::{Exhaustion, Relay, Session, SessionError, Stopped};

use crate::following::assert_in_each_trace;
use crate::fork::{fork, status_of};
use crate::harness::{
    PATIENCE, Producer, assert_all_of_two_threads, harms_no_thread_of_the_child, long_ones_are_missing,
    numbers, run, socket_of_parent, socket_path, waits_for, write, write_by_two_threads, write_number,
    write_until_killed,
};

/// A session, with such a socket.
pub(crate) struct Service {
    pub(crate) session: Arc<Session>,
    socket: PerfettoSocket,
    pub(crate) path: PathBuf,
}

impl Service {
    /// With this much shared memory for each program.
    pub(crate) fn start(test: &str, memory: usize) -> Self {
        Self::with(test, PerfettoSocket::builder().shared_memory(memory))
    }

    fn with(test: &str, socket: PerfettoSocketBuilder) -> Self {
        let path = socket_path(&format!("pf-{test}"));
        let session = Arc::new(Session::builder().ring(256 << 20).start().expect("a session"));
        let socket = socket.bind(&session, &path).expect("a socket");
        Self { session, socket, path }
    }

    pub(crate) fn stop(self) -> Stopped {
        self.session.stop().expect("it runs")
    }
}

/// This process, which looks for a service.
pub(crate) fn following(path: &Path, builder: ConnectionBuilder) -> (Relay, Follower) {
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
    let name = "pf-following";
    let (relay, follower) = following(&socket_path(name), Connection::builder());
    assert_in_each_trace(name, &relay, follower, || {
        let service = Service::start("following", 64 << 10);
        || service.stop()
    });
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

#[test]
#[ignore = "run by other tests, as a process"]
fn two_threads_that_wait() {
    let Some(socket) = socket_of_parent() else { return };
    let builder = Connection::builder().exhaustion(Exhaustion::Stall);
    let (relay, _follower) = following(&socket, builder);
    waits_for("it is wanted", || relay.is_connected());
    write_by_two_threads(&relay.recorder());
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
    assert_all_of_two_threads(&all, &pids);
}

#[test]
#[ignore = "run by other tests, as a process"]
fn one_that_is_killed() {
    let Some(socket) = socket_of_parent() else { return };
    let builder = Connection::builder().exhaustion(Exhaustion::Stall);
    let (relay, _follower) = following(&socket, builder);
    waits_for("it is wanted", || relay.is_connected());
    write_until_killed(&relay.recorder());
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
        // The last may be one that cannot be known to be whole.
        assert!(last + 1 >= recorded, "{last} of {recorded}");
        long_ones_are_missing(&written);
    }
}

#[test]
#[ignore = "run by other tests, as a process"]
fn a_service() {
    let Some(socket) = socket_of_parent() else { return };
    let session = Arc::new(Session::builder().start().expect("a session"));
    let _socket = PerfettoSocket::builder().bind(&session, socket).expect("a socket");
    println!("listens 1");
    std::thread::sleep(PATIENCE);
}

#[test]
#[ignore = "takes 5 s, for which a service is waited for"]
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
        service.stand_still();
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
    // All threads have begun: one that is about to may hold a standard library lock that the child's threads need.
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

#[test]
fn of_a_program_with_a_relay_for_each_category_those_are_in_the_trace_that_the_service_wants() {
    let name = "categories";
    let service = Service::with(name, PerfettoSocket::builder().categories(["net.*"]));
    let relays = ["net.send", "render", "net.receive"].map(|category| (category, Relay::new()));
    let recorders = relays.each_ref().map(|(_, relay)| relay.recorder());
    let connected = move |service: &Connection| {
        let mut wanted = relays.iter().filter(|(category, _)| service.wants(category));
        wanted.try_for_each(|(_, relay)| relay.connect(&service.recorder()))
    };
    let follower = Connection::builder().follow_perfetto(&service.path, connected).expect("a thread");
    waits_for("it has come", || follower.is_connected());
    let [send, render, receive] = &recorders;
    {
        let _all = render.enter("all");
        let _slice = send.enter("send");
        receive.instant("receive");
        render.instant("drawn");
    }
    drop(follower);
    assert_eq!(write(service.stop(), &format!("pf-{name}")).story(), "+send !receive -");
}
