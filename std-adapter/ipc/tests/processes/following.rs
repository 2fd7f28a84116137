//! Programs that are there before a service, and after it.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc::channel;
use std::time::{Duration, Instant};

use tracebuf_ipc::{Connection, Follower, ProducerSocket};
use tracebuf_session::{BufferConfig, Relay, Session, SessionError, Stopped};

use crate::fork::{fork, status_of};
use crate::harness::{PATIENCE, Service, harms_no_thread_of_the_child, socket_path, waits_for, write};

/// This process itself, which looks all the time for a service at the service's own path.
fn following(test: &str, relay: &Relay) -> Follower {
    let relay = relay.clone();
    let builder = Connection::builder().process_name("follows");
    builder.follow(socket_path(test), move |service| relay.connect(&service.recorder())).expect("a thread")
}

fn service(test: &str) -> Service {
    Service::start(test, Session::builder().ring(1 << 20), ProducerSocket::builder())
}

/// A follower of the services of a name is in the trace of each one that is started, and is recorded nowhere between
/// them. `start` returns what stops the service.
pub(crate) fn assert_in_each_trace<S: FnOnce() -> Stopped>(
    name: &str,
    relay: &Relay,
    follower: Follower,
    start: impl Fn() -> S,
) {
    let recorder = relay.recorder();
    waits_for("it has looked", || follower.error().is_some_and(|error| error.contains(name)));
    for round in ["first", "second", "third"] {
        recorder.instant("nowhere");
        assert!(!recorder.is_on() && !follower.is_connected());
        assert!(matches!(follower.flush(PATIENCE), Err(SessionError::Stopped)));
        let stop = start();
        waits_for("it has come", || recorder.is_on());
        recorder.slice("slice", || recorder.instant(round));
        waits_for("it is known", || follower.is_connected());
        assert_eq!(follower.error(), None);
        follower.flush(PATIENCE).expect("it is there");
        let trace = write(stop(), &format!("{name}-{round}"));
        assert_eq!((trace.story(), trace.losses()), (format!("+slice !{round} -"), 0));
        assert!(trace.contains("follows"), "the program's name");
        waits_for("it is off", || !recorder.is_on());
    }
    let started = Instant::now();
    drop(follower);
    assert!(started.elapsed() < Duration::from_secs(2), "nothing is waited for");
}

#[test]
fn one_that_starts_before_any_service_is_in_the_trace_of_each_that_comes() {
    let (name, relay) = ("following", Relay::new());
    let follower = following(name, &relay);
    assert_in_each_trace(name, &relay, follower, || {
        let service = service(name);
        || service.stop()
    });
}

#[test]
fn what_was_recorded_when_the_follower_is_dropped_is_there() {
    let (name, relay) = ("dropped-follower", Relay::new());
    let (recorder, service) = (relay.recorder(), service(name));
    let follower = following(name, &relay);
    assert!(recorder.is_on() && follower.is_connected(), "a service that is there has it at once");
    recorder.instant("last");
    drop(follower);
    assert!(!recorder.is_on() && !relay.is_connected());
    recorder.instant("late");
    assert_eq!(write(service.stop(), name).story(), "!last");
}

#[test]
fn to_a_service_that_knows_of_no_categories_each_is_wanted() {
    let service = service("no-categories");
    let connection = Connection::builder().open(&service.path).expect("it listens");
    assert!(connection.wants("net") && connection.wants(""));
}

#[test]
fn a_connection_that_is_refused_by_the_program_itself_ends_and_is_tried_again() {
    let (name, tries) = ("refusing", Arc::new(AtomicU32::new(0)));
    let session = Session::builder().buffer(BufferConfig::ring(1 << 20)).data_source("known", 0);
    let service = Service::start(name, session, ProducerSocket::builder());
    let (relay, counted) = (Relay::new(), tries.clone());
    let connected = {
        let relay = relay.clone();
        move |service: &Connection| {
            // As if the service's version did not have the data source.
            let name = if counted.fetch_add(1, Ordering::Relaxed) < 2 { "unknown" } else { "known" };
            relay.connect(&service.recorder_of(name).ok_or(SessionError::Stopped)?)
        }
    };
    let follower = Connection::builder().follow(socket_path(name), connected).expect("a thread");
    waits_for("why is told", || follower.error().is_some_and(|error| error.contains("session")));
    waits_for("it has come", || relay.is_connected());
    assert_eq!(tries.load(Ordering::Relaxed), 3);
    relay.recorder().instant("known");
    drop(follower);
    assert_eq!(write(service.stop(), name).story(), "!known");
}

#[test]
fn in_a_child_a_follower_does_nothing() {
    let (name, relay) = ("forked-follower", Relay::new());
    let service = service(name);
    let follower = following(name, &relay);
    // All threads have begun: one that is about to may hold a standard library lock that the child's threads need.
    follower.flush(PATIENCE).expect("it is there");
    let mut held = Some(follower);
    let child = fork(|| {
        let follower = held.take().expect("it is there");
        let flushed = follower.flush(Duration::from_secs(1));
        let is_off = !follower.is_connected() && !relay.is_connected() && follower.error().is_some();
        harms_no_thread_of_the_child(|| drop(follower));
        is_off && matches!(flushed, Err(SessionError::Forked))
    });
    assert_eq!(status_of(child), 0);
    relay.recorder().instant("parent");
    held.expect("it is here").flush(PATIENCE).expect("it is there");
    assert_eq!(write(service.stop(), name).story(), "!parent");
}

#[test]
fn one_that_is_dropped_by_what_it_calls_ends() {
    let (name, relay) = ("drops-itself", Relay::new());
    let service = service(name);
    let ((hand_over, handed_over), (tell, told)) = (channel::<Follower>(), channel());
    let in_closure = relay.clone();
    let connected = move |service: &Connection| {
        drop(handed_over.recv().expect("it is there"));
        tell.send(()).expect("the test waits");
        in_closure.connect(&service.recorder())
    };
    let follower = Connection::builder().follow(socket_path(name), connected).expect("a thread");
    hand_over.send(follower).expect("the closure waits");
    told.recv_timeout(PATIENCE).expect("it does not wait for itself");
    waits_for("the connection ends", || !relay.is_connected() && service.session.flush(PATIENCE).is_ok());
    assert_eq!(service.socket.producers_seen(), 1);
}

#[test]
fn from_a_service_s_end_on_it_says_why_there_is_no_connection() {
    let name = "says-why";
    let follower = following(name, &Relay::new());
    let service = service(name);
    waits_for("it has come", || follower.is_connected());
    write(service.stop(), name);
    waits_for("it has ended", || !follower.is_connected());
    assert!(follower.error().is_some());
}

#[test]
fn a_panic_ends_the_following_and_is_told() {
    let name = "panicking-follower";
    let service = service(name);
    let follower =
        Connection::builder().follow(&service.path, |_| panic!("of the program")).expect("a thread");
    waits_for("it is told", || follower.error().is_some_and(|error| error.ends_with("has panicked")));
    assert!(!follower.is_connected());
    waits_for("its connection is gone", || service.session.summary().expect("it runs").producers.len() == 1);
    assert_eq!(service.socket.producers_seen(), 1);
}
