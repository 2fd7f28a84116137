//! Programs that are killed, stand still, fork, or end; and services that do.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tracebuf_ipc::{Connection, ProducerSocket};
use tracebuf_session::{ProducerSummary, Session, SessionError};

use crate::fork::{assert_ended_by, fork, status_of};
use crate::harness::{
    PATIENCE, Service, harms_no_thread_of_the_child, len_of, long_ones_are_missing, numbers,
    socket_of_parent, socket_path, stalling, waits_for, write, write_number, write_until_killed,
};

#[test]
#[ignore = "run by other tests, as a process"]
fn one_that_is_killed() {
    let Some(socket) = socket_of_parent() else { return };
    let connection = stalling(socket);
    write_until_killed(&connection.recorder());
}

#[test]
fn what_a_program_has_recorded_until_it_is_killed_is_there() {
    let name = "killed";
    for until in [0, 30, 5_000] {
        let service = Service::start(name, Session::builder().ring(64 << 20), ProducerSocket::builder());
        let mut producer = service.run("ends::one_that_is_killed");
        let recorded = std::iter::repeat_with(|| producer.says("recorded")).find(|number| *number >= until);
        producer.signal(libc::SIGKILL);
        let pid = producer.pid();
        drop(producer);
        let recorded = recorded.expect("a number");
        // The service may learn of its end later than this process.
        let sequences = || service.session.summary().expect("a summary").sequences;
        waits_for("its chunks come", || !sequences().is_empty());
        let trace = write(service.stop(), name);
        let all = numbers(&trace);
        let written = all.iter().find(|((of, _), _)| *of == pid).expect("its packets").1;
        let last = *written.last().expect("a packet");
        assert!(last >= recorded);
        assert_eq!(trace.losses() > 0, long_ones_are_missing(written), "it is told");
    }
}

#[test]
#[ignore = "run by other tests, as a process"]
fn one_that_writes_a_long_packet_and_is_quiet() {
    let Some(socket) = socket_of_parent() else { return };
    let connection = stalling(socket);
    let mut writer = connection.recorder().packet_writer().expect("a writer");
    writer.packet(|packet| {
        packet.varint(8, 100);
        let mut message = packet.message(900);
        message.string(1, &"x".repeat(len_of(99)));
        // The service has taken its first chunks before the message's size is known.
        connection.flush(PATIENCE).expect("it is there");
    });
    println!("recorded 99");
    std::thread::sleep(PATIENCE);
}

#[test]
fn a_long_packet_outlives_its_program_that_is_killed_a_second_later() {
    let name = "killed-later";
    let service = Service::start(name, Session::builder().ring(1 << 20), ProducerSocket::builder());
    let mut producer = service.run("ends::one_that_writes_a_long_packet_and_is_quiet");
    assert_eq!(producer.says("recorded"), 99);
    assert!(len_of(99) > 4096);
    // Its size is sent by the sending thread, which may have to wait for a processor first.
    std::thread::sleep(Duration::from_secs(1));
    producer.signal(libc::SIGKILL);
    drop(producer);
    waits_for("it is gone", || service.session.summary().expect("a summary").producers.len() == 1);
    let all = numbers(&write(service.stop(), name));
    assert_eq!(all.into_values().collect::<Vec<_>>(), [[99]]);
}

#[test]
#[ignore = "run by other tests, as a process"]
fn one_that_records_until_the_service_is_gone() {
    let Some(socket) = socket_of_parent() else { return };
    let connection = stalling(socket);
    println!("connected 1");
    std::thread::scope(|scope| {
        for _ in 0..4 {
            let recorder = connection.recorder();
            scope.spawn(move || {
                while recorder.is_on() {
                    recorder.instant("event");
                }
            });
        }
    });
    assert!(!connection.is_connected());
    assert!(matches!(connection.flush(PATIENCE), Err(SessionError::Stopped)));
}

#[test]
fn producers_hear_of_the_end_of_the_session_also_those_that_wait() {
    let service = Service::start("end", Session::builder(), ProducerSocket::builder().shared_memory(4096));
    let mut producer = service.run("ends::one_that_records_until_the_service_is_gone");
    producer.says("connected");
    waits_for("they record", || !service.session.summary().expect("a summary").sequences.is_empty());
    let path = service.path.clone();
    assert!(path.exists());
    let _stopped = service.session.stop().expect("it runs");
    producer.assert_ends_well();
    assert!(Connection::builder().open(&path).is_err(), "nobody takes it");
    drop(service.socket);
    assert!(!path.exists());
}

#[test]
#[ignore = "run by other tests, as a process"]
fn a_service() {
    let Some(socket) = socket_of_parent() else { return };
    let session = Arc::new(Session::builder().start().expect("a session"));
    let _socket = ProducerSocket::builder().bind(&session, socket).expect("a socket");
    println!("listens 1");
    std::thread::sleep(PATIENCE);
}

#[test]
fn producers_hear_that_the_service_was_killed_and_the_next_one_takes_its_place() {
    let service = Service::start("none", Session::builder(), ProducerSocket::builder());
    let path = socket_path("killed-service");
    let of_child = Service { path: path.clone(), ..service };
    for _ in 0..2 {
        let mut child = of_child.run("ends::a_service");
        child.says("listens");
        let connection = stalling(&path);
        let recorder = connection.recorder();
        let waiting = std::thread::spawn(move || {
            while recorder.is_on() {
                recorder.instant("event");
            }
        });
        connection.flush(PATIENCE).expect("it answers");
        child.signal(libc::SIGKILL);
        waiting.join().expect("it does not wait for ever");
        assert!(!connection.is_connected() && path.exists());
    }
    std::fs::remove_file(&path).expect("what the last one has left");
}

#[test]
#[ignore = "run by other tests, as a process"]
fn one_that_stays() {
    let Some(socket) = socket_of_parent() else { return };
    let connection = Connection::builder().open(socket).expect("a connection");
    connection.recorder().instant("stays");
    println!("connected 1");
    waits_for("the service ends", || !connection.is_connected());
}

#[test]
fn a_producer_that_stands_still_is_not_waited_for_and_answers_when_it_goes_on() {
    let service = Service::start("still", Session::builder(), ProducerSocket::builder());
    let mut producer = service.run("ends::one_that_stays");
    producer.says("connected");
    service.session.flush(PATIENCE).expect("it answers");
    producer.stand_still();
    let started = Instant::now();
    // More questions than there is room for.
    for _ in 0..500 {
        let flushed = service.session.flush(Duration::ZERO);
        assert!(matches!(flushed, Err(SessionError::Timeout)), "{flushed:?}");
    }
    assert!(started.elapsed() < PATIENCE);
    let answers = |service: &Service| {
        let producers = service.session.summary().expect("a summary").producers;
        let of =
            |producer: &ProducerSummary| (producer.identity.expect("it tells").pid, producer.has_answered);
        producers.iter().map(of).collect::<Vec<_>>()
    };
    let pids = [std::process::id(), producer.child.id()].map(|pid| pid as i32);
    assert_eq!(answers(&service), [(pids[0], true), (pids[1], false)]);
    producer.signal(libc::SIGCONT);
    service.session.flush(PATIENCE).expect("it answers");
    assert_eq!(answers(&service), pids.map(|pid| (pid, true)));
    let flushes = service.session.summary().expect("a summary").flushes;
    assert_eq!((flushes.succeeded, flushes.failed), (2, 500));
    service.stop();
    producer.assert_ends_well();
}

#[test]
fn in_a_child_a_connection_that_is_dropped_harms_no_thread() {
    let service = Service::start("forks-threads", Session::builder(), ProducerSocket::builder());
    let connection = Connection::builder().open(&service.path).expect("a service");
    // All threads have begun: one that is about to may hold a standard library lock that the child's threads need.
    connection.flush(PATIENCE).expect("it is there");
    let mut held = Some(connection);
    let child = fork(|| {
        harms_no_thread_of_the_child(|| drop(held.take()));
        true
    });
    assert_eq!(status_of(child), 0);
}

#[test]
fn in_a_child_after_a_fork_a_connection_is_off_and_its_end_is_seen() {
    let service = Service::start("forks", Session::builder(), ProducerSocket::builder().producers(1));
    let connection = Connection::builder().open(&service.path).expect("a service");
    let recorder = connection.recorder();
    recorder.instant("before");
    let mut both = Some((connection, service.socket));
    let child = fork(|| {
        let (connection, socket) = both.take().expect("they are the parent's");
        recorder.instant("in the child");
        let is_off = !connection.is_connected() && !recorder.is_on();
        let is_forked = matches!(connection.flush(PATIENCE), Err(SessionError::Forked));
        let bound = ProducerSocket::builder().bind(&service.session, "x");
        drop((connection, socket));
        if is_off && is_forked && matches!(bound, Err(SessionError::Forked)) && service.path.exists() {
            // It outlives the connection, whose end must not be hidden from the service.
            std::thread::sleep(PATIENCE);
        }
        false
    });
    let (connection, socket) = both.expect("they are here");
    recorder.instant("after");
    connection.flush(PATIENCE).expect("it answers");
    drop(connection);
    let mut again = None;
    waits_for("the place is free", || {
        again = Connection::builder().open(&service.path).ok();
        again.is_some()
    });
    assert_ended_by(child, libc::SIGKILL);
    drop(socket);
    let trace = write(service.session.stop().expect("it runs"), "forks");
    assert!(trace.contains("before") && trace.contains("after") && !trace.contains("in the child"));
}

#[test]
fn children_that_give_up_what_they_have_of_a_connection_leave_its_chunks_to_the_parent() {
    let name = "forks-shared";
    let socket = ProducerSocket::builder().shared_memory(64 << 10);
    let service = Service::start(name, Session::builder().ring(16 << 20), socket);
    let connection = stalling(&service.path);
    let recorder = connection.recorder();
    let mut writer = recorder.packet_writer();
    // More than there are chunks.
    for round in 0..40 {
        for number in round * 10..round * 10 + 10 {
            recorder.instant("event");
            write_number(writer.as_mut().expect("a writer"), number);
        }
        let child = fork(|| {
            drop(writer.take());
            // What the thread has of the connection goes when it records elsewhere.
            let own = Connection::builder().open(&service.path).expect("a service");
            own.recorder().instant("of a child");
            drop(own);
            true
        });
        assert_eq!(status_of(child), 0);
    }
    assert_eq!(writer.as_ref().expect("a writer").stats().dropped, 0);
    connection.flush(PATIENCE).expect("it answers");
    let trace = write(service.stop(), name);
    assert_eq!(trace.losses(), 0);
    let all = numbers(&trace);
    assert_eq!(all.into_values().collect::<Vec<_>>(), [Vec::from_iter(0..400)]);
    // Instants, those of the children among them.
    assert_eq!(trace.events(3), 400 + 40);
}
