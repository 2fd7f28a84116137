//! Recorders that go on from session to session.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tracebuf::producer::Exhaustion;
use tracebuf::producer::track_event::{Track, Unit};
use tracebuf_session::{BufferConfig, Relay, Session, SessionError, Stopped};
use tracebuf_testing::trace::{Trace, scratch};

/// With no more memory than these tests need: the thread sanitizer takes some time for each page.
fn session() -> Session {
    let builder = Session::builder().ring(1 << 20).shared_memory(256 << 10);
    builder.exhaustion(Exhaustion::Stall).start().expect("a session")
}

fn trace_of(session: &Session, name: &str) -> Trace {
    written(session.stop().expect("it runs"), name)
}

fn written(mut stopped: Stopped, name: &str) -> Trace {
    let path = scratch(&format!("{name}.pftrace"));
    stopped.write_to(&path).expect("a file");
    let trace = Trace::read(&path);
    assert_eq!(trace.losses(), 0, "{name}");
    trace
}

/// A session that a relay is connected to.
fn connected(relay: &Relay) -> Session {
    let session = session();
    relay.connect(&session.recorder()).expect("it runs");
    session
}

#[test]
fn events_go_to_the_session_that_is_connected_and_nowhere_between_two() {
    let relay = Relay::new();
    let recorder = relay.recorder();
    for name in ["first", "second"] {
        assert!(!recorder.is_on() && !relay.is_connected());
        recorder.instant("nowhere");
        let session = connected(&relay);
        assert!(recorder.is_on() && relay.is_connected());
        recorder.slice("slice", || recorder.instant(name));
        let trace = trace_of(&session, name);
        assert_eq!(trace.story(), format!("+slice !{name} -"));
        assert!(trace.contains("events_go_to_the_session"), "the thread's name");
    }
    assert_eq!(recorder.with(|_| ()), None);
}

#[test]
fn a_slice_open_when_the_session_changes_ends_none_in_the_next() {
    let relay = Relay::new();
    let recorder = relay.recorder();
    let begun_nowhere = recorder.enter("nowhere");
    let first = connected(&relay);
    let begun_in_first = recorder.enter_with("first", |event| event.arg("argument", 1));
    assert_eq!(trace_of(&first, "open-first").story(), "+first");
    let second = connected(&relay);
    recorder.slice("second", || {
        drop(begun_nowhere);
        drop(begun_in_first);
        recorder.instant("within");
    });
    assert_eq!(trace_of(&second, "open-second").story(), "+second !within -");
}

#[test]
fn slices_end_where_they_have_begun_while_that_goes_on() {
    let relay = Relay::new();
    let recorder = relay.recorder();
    let (second, first) = (session(), connected(&relay));
    let outer = recorder.enter("outer");
    let inner = recorder.enter("inner");
    relay.disconnect();
    drop(inner);
    relay.connect(&first.recorder()).expect("it runs");
    recorder.instant("in the outer one");
    relay.connect(&second.recorder()).expect("it runs");
    let elsewhere = recorder.enter("elsewhere");
    relay.connect(&first.recorder()).expect("it runs");
    drop(elsewhere);
    drop(outer);
    recorder.instant("last");
    assert_eq!(trace_of(&first, "back").story(), "+outer +inner - !in the outer one - !last");
    assert_eq!(trace_of(&second, "between").story(), "+elsewhere -");
}

#[test]
fn one_connected_elsewhere_stays_there_when_its_first_session_ends() {
    let relay = Relay::new();
    let recorder = relay.recorder();
    let (first, second) = (connected(&relay), connected(&relay));
    recorder.instant("second");
    assert_eq!(trace_of(&first, "left").story(), "");
    assert!(relay.is_connected());
    recorder.instant("more");
    relay.connect(&first.recorder()).expect_err("it is over");
    recorder.instant("yet more");
    relay.disconnect();
    recorder.instant("nowhere");
    relay.disconnect();
    assert_eq!(trace_of(&second, "stayed").story(), "!second !more !yet more");
}

#[test]
fn one_goes_back_to_a_session_and_to_each_of_its_buffers() {
    let session = Session::builder().buffer(BufferConfig::ring(1 << 20)).buffer(BufferConfig::ring(1 << 20));
    let session = session.data_source("other", 1).start().expect("a session");
    let (relay, other_relay) = (Relay::new(), Relay::default());
    let (recorder, other) = (relay.recorder(), session.recorder_of("other").expect("a source"));
    for _ in 0..2 {
        relay.connect(&session.recorder()).expect("it runs");
        recorder.instant("in the first");
        relay.connect(&other).expect("it runs");
        recorder.instant("in the second");
        // Where a relay's recorder records at the moment.
        other_relay.connect(&recorder).expect("it runs");
        relay.disconnect();
    }
    other_relay.recorder().instant("by the other");
    let trace = trace_of(&session, "buffers");
    // One buffer comes after the other.
    assert_eq!(trace.story(), "!in the first !in the first !in the second !in the second !by the other");
}

#[test]
fn what_is_over_cannot_be_connected_and_packet_writers_belong_to_one_session() {
    let relay = Relay::new();
    assert!(relay.recorder().packet_writer().is_none());
    let idle = relay.recorder();
    assert!(matches!(Relay::new().connect(&idle), Err(SessionError::Stopped)), "nothing is connected to it");
    assert!(matches!(relay.connect(&idle), Err(SessionError::Stopped)), "nor to itself");
    let first = connected(&relay);
    let of_first = first.recorder();
    let mut writer = idle.packet_writer().expect("a writer");
    first.stop().expect("it runs");
    assert!(matches!(relay.connect(&of_first), Err(SessionError::Stopped)));
    let second = connected(&relay);
    writer.packet(|_| unreachable!("its session is over"));
    assert_eq!(trace_of(&second, "writers").story(), "");
}

/// Makes threads end, even when a test fails.
struct Ends<'a>(&'a AtomicBool);

impl Drop for Ends<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

const THREADS: i64 = 3;
/// A thread's numbers begin after this, once for each thread before it.
const THREAD: i64 = 1 << 40;

#[test]
fn of_threads_that_go_on_while_sessions_come_and_go_each_event_is_in_one_session_at_most_and_in_order() {
    static COUNTER: Track<'static> = Track::counter("number", Unit::Count);
    let (relay, ends) = (Relay::new(), AtomicBool::new(false));
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            let (recorder, ends) = (relay.recorder(), &ends);
            scope.spawn(move || {
                let mut number = thread * THREAD;
                while !ends.load(Ordering::Relaxed) {
                    number += 1;
                    recorder.slice("step", || recorder.count(&COUNTER, number));
                    // No ring should lap.
                    std::thread::sleep(Duration::from_micros(100));
                }
            });
        }
        let _ends = Ends(&ends);
        let mut last = [0; THREADS as usize];
        let mut before = None;
        for round in 0..15 {
            let session = connected(&relay);
            std::thread::sleep(Duration::from_millis(round % 4));
            // Some sessions end while connected, some afterwards, some when another one is connected.
            match round % 3 {
                0 => relay.disconnect(),
                1 => before = Some(connected(&relay)),
                _ => {}
            }
            let both = [Some(session), before.take()].into_iter().flatten();
            let stopped: Vec<_> = both.map(|session| session.stop().expect("it runs")).collect();
            for stopped in stopped {
                let trace = written(stopped, "threads");
                let open = trace.events(1).checked_sub(trace.events(2)).expect("no end without a begin");
                assert!(open <= THREADS as usize);
                for numbers in trace.counters().values() {
                    assert!(
                        numbers.windows(2).all(|pair| pair[0] + 1 == pair[1]),
                        "all between two are there"
                    );
                    let last = &mut last[(numbers[0] >> 40) as usize];
                    assert!(numbers[0] > *last, "each is in one trace");
                    *last = numbers[numbers.len() - 1];
                }
            }
            assert!(!relay.is_connected());
        }
        assert!(last.iter().all(|number| number % THREAD as u64 > 0), "all have recorded: {last:?}");
    });
}

#[test]
fn sessions_that_end_while_they_are_connected_leave_nothing_on() {
    let relay = Relay::new();
    for _ in 0..50 {
        let session = session();
        let recorder = session.recorder();
        let connects = std::thread::scope(|scope| {
            let connects = scope.spawn(|| relay.connect(&recorder));
            session.stop().expect("it runs");
            connects.join().expect("no panic")
        });
        assert!(matches!(connects, Ok(()) | Err(SessionError::Stopped)));
        assert!(!relay.is_connected());
    }
}
