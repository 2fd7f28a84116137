//! Programs and services that end, in any order.

use std::time::{Duration, Instant};

use tracebuf_interop::DEFAULT_CATEGORIES;
use tracebuf_ipc::PerfettoSocket;
use tracebuf_session::Session;

use crate::harness::{PATIENCE, Program, Service, waits_for, write};
use crate::reading::{sequences_of, threads_of};
use crate::recording::service;

/// How many programs a session has, besides this process.
fn programs(session: &Session) -> usize {
    session.summary().expect("a summary").producers.len() - 1
}

#[test]
fn a_program_that_outlives_a_service_is_in_the_trace_of_the_next() {
    let first = service("next");
    let mut program = first.run(&[]);
    let pid = program.pid();
    program.does("events 0 0 100 20");
    program.does("packets 0 10 20000");
    let trace = first.stop();
    threads_of(&trace, pid)[&0].assert_is(0..100, &DEFAULT_CATEGORIES);
    program.does("wait off");
    // No service has this.
    program.does("events 0 100 150 0");
    let second = service("next");
    second.wait_for(&mut program);
    program.does("events 0 200 300 20");
    program.does("packets 0 10 20000");
    let trace = second.stop();
    threads_of(&trace, pid)[&0].assert_is(200..300, &DEFAULT_CATEGORIES);
    let packets = sequences_of(&trace, pid).into_values().map(|sequence| {
        sequence.assert_packets_are_whole();
        sequence.packets.iter().filter(|packet| packet.thread == 0).count()
    });
    assert_eq!(packets.sum::<usize>(), 10);
    program.ends();
}

#[test]
fn of_a_program_that_is_killed_what_it_had_written_is_there() {
    let service = service("killed");
    let mut program = service.run(&[]);
    let pid = program.pid();
    program.does("endless 2 10");
    let mut flushed = [0, 0];
    while flushed.iter().any(|number| *number < 500) {
        let (thread, number) = program.hears_flushed();
        flushed[thread as usize] = number;
    }
    program.kill();
    waits_for("the program is gone", || programs(&service.session) == 0);
    service.session.flush(PATIENCE).expect("nobody is waited for");
    let trace = service.stop();
    let threads = threads_of(&trace, pid);
    for (thread, sequence) in &threads {
        let events = sequence.assert_begins_with_rounds(&DEFAULT_CATEGORIES) as u64;
        // Each round has at least 8.
        assert!(events >= 8 * flushed[*thread as usize], "{events} events, {flushed:?} rounds");
    }
    assert_eq!(threads.len(), 2);
}

#[test]
fn of_a_program_that_is_killed_what_lies_in_shared_memory_is_taken_too() {
    let service = service("killed-scraped");
    let mut program = service.run(&[]);
    let pid = program.pid();
    // First a little, so that the service knows whose the chunks are.
    program.does("events 0 0 1 1");
    // Then by the thread that reads commands, which by itself sends only full chunks.
    program.does("events 0 1 200 0");
    program.kill();
    waits_for("the program is gone", || programs(&service.session) == 0);
    let trace = service.stop();
    let thread = &threads_of(&trace, pid)[&0];
    thread.assert_begins_with_rounds(&DEFAULT_CATEGORIES);
    // Where a packet continues in another chunk, what would complete the first chunk may not have been sent.
    let chunks = thread.bytes / 3000;
    assert!(
        thread.events.len() as u64 >= 200 * 8 - chunks,
        "{} events, {chunks} chunks",
        thread.events.len()
    );
}

#[test]
fn a_program_that_ends_by_itself_leaves_what_it_recorded() {
    let service = service("gone");
    for _ in 0..3 {
        let mut program = service.run(&[]);
        program.does("events 2 0 60 20");
        program.ends();
    }
    waits_for("the programs are gone", || programs(&service.session) == 0);
    let trace = service.stop();
    assert_eq!(trace.losses(), 0);
    // Counters with a double: one in each round.
    let doubles = trace.packets().filter_map(|packet| crate::trace::message(packet, 11));
    let doubles = doubles.filter(|event| crate::trace::number(event, 44).is_some());
    assert_eq!(doubles.count(), 3 * 2 * 60);
}

#[test]
fn a_data_source_ends_when_the_session_does() {
    let service = service("stops");
    let mut program = service.run(&[]);
    program.does("packets 0 10 1000");
    service.stop();
    program.does("wait off");
    assert_eq!(program.was_asked("stops"), "1");
}

#[test]
fn a_socket_that_is_gone_leaves_those_who_have_come() {
    let service = service("socket-gone");
    let mut program = service.run(&[]);
    let (session, pid) = (service.session.clone(), program.pid());
    drop(service.socket);
    program.does("events 0 0 100 20");
    session.flush(PATIENCE).expect("it answers");
    let trace = write(session.stop().expect("it runs"), "socket-gone");
    threads_of(&trace, pid)[&0].assert_is(0..100, &DEFAULT_CATEGORIES);
}

#[test]
fn a_program_that_hangs_does_not_hold_up_a_session_for_ever() {
    let service = service("hangs");
    let program = service.run(&[]);
    program.stands_still();
    let started = Instant::now();
    assert!(service.session.flush(Duration::from_millis(300)).is_err());
    service.stop();
    assert!(started.elapsed() < PATIENCE / 2, "{:?}", started.elapsed());
}

#[test]
fn a_program_for_which_there_is_no_place_comes_once_there_is_one() {
    let socket = PerfettoSocket::builder().categories(DEFAULT_CATEGORIES).producers(1);
    let service = Service::roomy("places", socket, &DEFAULT_CATEGORIES);
    let first = service.run(&[]);
    let mut second = Program::start("places", &[]);
    std::thread::sleep(Duration::from_secs(3));
    assert_eq!(programs(&service.session), 1);
    first.ends();
    service.wait_for(&mut second);
    second.does("events 1 0 50 10");
    let pid = second.pid();
    threads_of(&service.stop(), pid)[&0].assert_is(0..50, &DEFAULT_CATEGORIES);
}

#[test]
fn a_socket_that_outlives_its_session_does_not_keep_programs_from_the_next() {
    let first = service("outlived");
    let mut program = first.run(&[]);
    first.session.stop().expect("it runs");
    program.does("wait off");
    std::thread::sleep(Duration::from_secs(2));
    drop(first.socket);
    let second = service("outlived");
    second.wait_for(&mut program);
    program.does("events 1 0 50 10");
    let pid = program.pid();
    threads_of(&second.stop(), pid)[&0].assert_is(0..50, &DEFAULT_CATEGORIES);
}
