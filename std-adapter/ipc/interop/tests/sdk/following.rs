//! Programs with our recorders, in traces of Perfetto's own service.

use std::time::Instant;

use tracebuf_interop::DEFAULT_CATEGORIES;
use tracebuf_ipc::{Connection, perfetto_socket};
use tracebuf_session::{Exhaustion, Relay};

use crate::harness::{PATIENCE, socket_path, waits_for};
use crate::perfettos_service::{
    Following, PerfettosService, assert_nothing_is_wrong, pause, run, statistics,
};
use crate::reading::{sequences_of, threads_of};
use crate::recording::{assert_all_is_there, assert_packets};
use crate::trace::{Trace, number};

/// In the service's statistics, the flushes that all programs have answered.
const FLUSHES: u32 = 13;

fn own_pid() -> u64 {
    std::process::id().into()
}

/// Checks for these rounds of one thread, and nothing else.
fn assert_thread(trace: &Trace, rounds: std::ops::Range<u64>) {
    let threads = threads_of(trace, own_pid());
    assert_eq!(threads.keys().copied().collect::<Vec<_>>(), [0]);
    threads[&0].assert_is(rounds, &DEFAULT_CATEGORIES);
}

/// As for a program with the SDK: see `recording`.
#[test]
fn all_that_is_recorded_is_there_while_the_service_flushes_and_clears_state() {
    let test = "follow-all";
    let mut service = PerfettosService::start(test);
    let program = Following::of(test, Connection::builder());
    service.records(0, "flush=20 clear=50");
    program.waits_to_record();
    std::thread::scope(|scope| {
        let program = &program;
        for thread in 0..3 {
            scope.spawn(move || program.rounds(thread, 0..500, 20, |_| pause()));
        }
        for thread in 0..2 {
            scope.spawn(move || program.packets(thread, 200, 30_000, 5));
        }
    });
    service.flush(0);
    let trace = service.stop(0);
    assert_all_is_there(&trace, own_pid());
    assert_nothing_is_wrong(&trace);
    let flushes = number(statistics(&trace), FLUSHES).unwrap_or(0);
    assert!(flushes > 5, "{flushes} flushes");
}

#[test]
fn what_later_events_refer_to_is_told_again_when_the_service_asks() {
    let test = "follow-clear";
    let mut service = PerfettosService::start(test);
    let program = Following::of(test, Connection::builder());
    service.records(0, "clear=20");
    program.waits_to_record();
    // Unprompted, it would be written once per MiB.
    program.rounds(0, 0..40, 1, |_| pause());
    let trace = service.stop(0);
    assert_thread(&trace, 0..40);
    assert_nothing_is_wrong(&trace);
    let is_own = |packet: &&[u8]| number(packet, 79) == Some(own_pid());
    let begins_state = |packet: &&[u8]| number(packet, 13).is_some_and(|flags| flags & 1 != 0);
    let states = trace.packets().filter(is_own).filter(begins_state).count();
    assert!(states > 2, "told {states} times");
}

#[test]
fn a_program_is_in_one_session_after_another_each_with_its_own_buffer() {
    let test = "follow-sessions";
    let mut service = PerfettosService::start(test);
    let program = Following::of(test, Connection::builder());
    for session in 0..3 {
        // The last buffer is recorded into.
        service.records(session, &format!("buffers={}", session + 1));
        program.waits_to_record();
        program.rounds(0, session * 100..session * 100 + 70, 0, |_| {});
        // Without a flush: one is done at the end.
        let trace = service.stop(session);
        assert_thread(&trace, session * 100..session * 100 + 70);
        let chunks = assert_nothing_is_wrong(&trace);
        let (last, others) = chunks.split_last().expect("a buffer");
        assert!(*last > 0 && others.iter().all(|chunks| *chunks == 0), "{chunks:?}");
        program.waits_for_the_end();
        program.rounds(0, 0..10, 0, |_| {});
    }
}

#[test]
fn by_a_relay_for_each_category_just_those_are_recorded_that_a_session_wants() {
    let test = "follow-categories";
    let mut service = PerfettosService::start(test);
    let relays = DEFAULT_CATEGORIES.map(|category| (category, Relay::new()));
    let recorders = relays.each_ref().map(|(category, relay)| (*category, relay.recorder()));
    let connected = move |service: &Connection| {
        let mut wanted = relays.iter().filter(|(category, _)| service.wants(category));
        wanted.try_for_each(|(_, relay)| relay.connect(&service.recorder()))
    };
    let builder = Connection::builder().categories(DEFAULT_CATEGORIES);
    let follower = builder.follow_perfetto(socket_path(test), connected).expect("a thread");
    for (session, only, expected) in
        [(0, "only=net.s*", &["net.send"][..]), (1, "only=w*", &["work"]), (2, "", &DEFAULT_CATEGORIES)]
    {
        service.records(session, only);
        waits_for("it is known", || follower.is_connected());
        let are_on = recorders.iter().filter(|(_, recorder)| recorder.is_on());
        assert!(are_on.map(|(category, _)| *category).eq(expected.iter().copied()));
        for (category, recorder) in &recorders {
            let text = format!("of {category}");
            recorder.instant_with("event", |event| event.category(category).arg("text", &*text));
        }
        let trace = service.stop(session);
        for category in DEFAULT_CATEGORIES {
            assert_eq!(trace.contains(&format!("of {category}")), expected.contains(&category), "{only}");
        }
        assert_nothing_is_wrong(&trace);
        waits_for("it has ended", || !follower.is_connected());
    }
}

#[test]
fn threads_that_wait_for_shared_memory_lose_nothing() {
    let test = "follow-stall";
    let mut service = PerfettosService::start(test);
    let program = Following::of(test, Connection::builder().exhaustion(Exhaustion::Stall));
    service.records(0, "memory=64");
    program.waits_to_record();
    std::thread::scope(|scope| {
        let program = &program;
        for thread in 0..2 {
            scope.spawn(move || program.rounds(thread, 0..3000, 0, |_| {}));
        }
        for thread in 0..2 {
            scope.spawn(move || program.packets(thread, 200, 30_000, 0));
        }
    });
    service.flush(0);
    let trace = service.stop(0);
    let threads = threads_of(&trace, own_pid());
    assert_eq!(threads.len(), 2);
    threads.values().for_each(|thread| thread.assert_is(0..3000, &DEFAULT_CATEGORIES));
    assert_packets(&trace, own_pid(), &[0, 1], 200, 30_000);
    assert!(sequences_of(&trace, own_pid()).values().all(|sequence| sequence.losses == 0));
    assert_nothing_is_wrong(&trace);
}

#[test]
fn of_one_that_is_killed_what_it_had_recorded_is_there() {
    let test = "follow-killed";
    let mut service = PerfettosService::start(test);
    service.records(0, "");
    let mut program = run(test, "following::records_until_it_is_killed");
    let mut flushed = [0, 0];
    while flushed.iter().any(|number| *number < 200) {
        let (thread, number) = program.hears_flushed();
        flushed[thread as usize] = number;
    }
    let pid = program.pid();
    program.kill();
    let trace = service.stop(0);
    let threads = threads_of(&trace, pid);
    assert_eq!(threads.len(), 2);
    for (thread, sequence) in &threads {
        let events = sequence.assert_begins_with_rounds(&DEFAULT_CATEGORIES) as u64;
        // Each round has at least 8.
        assert!(events >= 8 * flushed[*thread as usize], "{events} events, {flushed:?} rounds");
    }
}

/// Run by the test above, in a process of its own.
#[test]
#[ignore = "run by another test, as a process"]
fn records_until_it_is_killed() {
    if std::env::var_os("PERFETTO_PRODUCER_SOCK_NAME").is_none() {
        return;
    }
    // The line that has begun contains the name of this test.
    println!();
    let program = Following::start(perfetto_socket(), Connection::builder());
    program.waits_to_record();
    std::thread::scope(|scope| {
        let program = &program;
        for thread in 0..2 {
            scope.spawn(move || {
                program.rounds(thread, 0..u64::MAX, 10, |number| println!("flushed {thread} {number}"));
            });
        }
    });
}

#[test]
fn one_that_outlives_a_service_is_in_the_trace_of_the_next() {
    let test = "follow-services";
    let mut first = PerfettosService::start(test);
    let program = Following::of(test, Connection::builder());
    first.records(0, "");
    program.waits_to_record();
    // Killed during recording.
    let started = Instant::now();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while program.recorder.is_on() && started.elapsed() < PATIENCE {
                program.rounds(1, 0..10, 0, |_| {});
            }
        });
        pause();
        first.kill();
        program.waits_for_the_end();
    });
    let mut second = PerfettosService::start(test);
    second.records(1, "");
    program.waits_to_record();
    program.rounds(0, 200..300, 0, |_| {});
    second.flush(1);
    let trace = second.stop(1);
    assert_thread(&trace, 200..300);
    assert_nothing_is_wrong(&trace);
}
