//! What goes on while somebody waits for a program that stands still.

use std::collections::BTreeSet;
use std::time::Duration;

use tracebuf_ipc::{Connection, ProducerSocket};
use tracebuf_session::{Session, SessionError};

use crate::hostile::raw_socket;

use crate::harness::{PATIENCE, Producer, Service, waits_for};
use crate::trace::{Trace, scratch};

/// A service, and a program that has recorded into it and stands still.
fn with_one_that_stands_still(test: &str) -> (Service, Producer) {
    let service = Service::start(test, Session::builder(), ProducerSocket::builder());
    let mut still = service.run("ends::one_that_stays");
    still.says("connected");
    service.session.flush(PATIENCE).expect("it answers");
    still.stand_still();
    (service, still)
}

#[test]
#[ignore = "takes 5 s, for which a program is waited for"]
fn who_waits_for_a_program_that_stands_still_keeps_nobody_else_waiting() {
    let (service, still) = with_one_that_stands_still("silent");
    let session = &service.session;
    let summary = || session.summary().expect("an answer");
    std::thread::scope(|scope| {
        let flush = scope.spawn(|| session.flush(PATIENCE));
        // Time for it to begin.
        std::thread::sleep(Duration::from_millis(200));
        // A newcomer is taken, and is in the buffer after a flush that keeps its own time.
        let newcomer = Connection::builder().open(&service.path).expect("it is taken");
        newcomer.recorder().instant("before the flush");
        let flushed = session.flush(Duration::from_millis(100));
        assert!(matches!(flushed, Err(SessionError::Timeout)), "{flushed:?}");
        let sequences = summary().sequences.into_iter();
        assert_eq!(sequences.map(|writer| writer.producer_id).collect::<BTreeSet<_>>().len(), 2);
        // Nor does a snapshot wait for another one's flush, or keep anybody waiting.
        newcomer.recorder().instant("before the snapshot");
        let snapshot = scope.spawn(|| session.snapshot());
        std::thread::sleep(Duration::from_millis(100));
        Connection::builder().open(&service.path).expect("it is taken");
        assert_eq!(summary().flushes.failed, 1);
        assert!(!snapshot.is_finished());
        let path = scratch("silent.pftrace");
        let snapshot = snapshot.join().expect("no panic").expect("it is in time");
        snapshot.write_to(&path).expect("a file");
        assert!(!flush.is_finished());
        let trace = Trace::read(&path);
        assert!(
            ["stays", "before the flush", "before the snapshot"].map(|text| trace.contains(text))
                == [true; 3]
        );
        // Its answer is to the first question: nobody has asked it anew.
        still.signal(libc::SIGCONT);
        flush.join().expect("no panic").expect("it answers");
    });
    let flushes = summary().flushes;
    assert_eq!((flushes.succeeded, flushes.failed), (2, 2));
    service.stop();
    still.assert_ends_well();
}

#[test]
fn who_comes_or_asks_for_something_while_the_session_stops_hears_so_at_once() {
    let (service, still) = with_one_that_stands_still("silent-end");
    let session = &service.session;
    std::thread::scope(|scope| {
        let stop = scope.spawn(|| session.stop());
        waits_for("it has begun", || !session.recorder().is_on());
        let asked = [session.summary().err(), session.flush(PATIENCE).err(), session.snapshot().err()];
        assert!(asked.iter().all(|error| matches!(error, Some(SessionError::Stopped))), "{asked:?}");
        Connection::builder().open(&service.path).expect_err("nobody is taken any more");
        assert!(!stop.is_finished());
        still.signal(libc::SIGCONT);
        let flushes = stop.join().expect("no panic").expect("it runs").summary().flushes;
        assert_eq!((flushes.succeeded, flushes.failed), (2, 0));
    });
    still.assert_ends_well();
}

#[test]
#[ignore = "takes 5 s, for which first words are waited for"]
fn connections_that_never_speak_shut_out_nobody_for_long_and_are_told() {
    let service = Service::start("never", Session::builder(), ProducerSocket::builder());
    let idle = Connection::builder().open(&service.path).expect("a place");
    let silent: Vec<_> = (0..63).map(|_| raw_socket(&service.path)).collect();
    waits_for("all have come", || service.socket.producers_seen() == 64);
    let begun = std::time::Instant::now();
    Connection::builder().open(&service.path).expect_err("no place is left");
    let mut honest = None;
    waits_for("they are sent away", || {
        honest = Connection::builder().open(&service.path).ok();
        honest.is_some()
    });
    assert!((4..15).contains(&begun.elapsed().as_secs()), "{:?}", begun.elapsed());
    honest.expect("a connection").flush(PATIENCE).expect("it answers");
    // One that has nothing to record stays.
    assert!(idle.is_connected());
    idle.flush(PATIENCE).expect("it answers");
    let summary = service.session.summary().expect("an answer");
    let told =
        |why: &str| summary.refused.iter().filter(|one| one.why.contains(why)).map(|one| one.times).sum();
    let (all_silent, shut_out): (u64, u64) =
        (told("it has said nothing for 5 s"), told("the service has 64 producers"));
    assert!(all_silent == 63 && shut_out >= 1, "{:?}", summary.refused);
    assert_eq!(summary.refusals, all_silent + shut_out);
    let (pid, uid) = (std::process::id() as i32, rustix::process::geteuid().as_raw());
    assert!(summary.refused.iter().all(|one| (one.pid, one.uid) == (pid, uid)));
    let losses = summary.losses().to_string();
    assert!(losses.contains(" programs would have recorded, which were sent away"), "{losses}");
    drop(silent);
}
