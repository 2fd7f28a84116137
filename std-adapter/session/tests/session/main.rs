//! Sessions as a program uses them: threads, flushes, snapshots, stops.

mod attached;
mod clocks;
mod cut_short;
mod doors;
mod failed_start;
mod hostile;
mod idle_threads;
mod limits;
mod open_model;
mod open_slices;
mod own_files;
mod own_times;
mod relay;
mod since;
mod stall;
mod threads;
mod tracks;

use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Barrier, Mutex};
use std::time::Duration;

use tracebuf::producer::Exhaustion;
use tracebuf::producer::track_event::{Track, Unit};
use tracebuf_analysis::size::Sizing;
use tracebuf_analysis::trace_stats::TraceReport;
use tracebuf_session::{BufferConfig, LongTrace, Session, SessionError, Transport};
use tracebuf_testing::trace::{Trace, message, scratch};
use tracebuf_testing::transport::Does;

#[test]
fn events_of_many_threads_are_all_in_the_trace_with_their_threads_names() {
    let session = Session::builder().ring(4 << 20).start().expect("a session");
    let recorder = session.recorder();
    std::thread::scope(|scope| {
        for number in 0..8 {
            let recorder = recorder.clone();
            let thread = std::thread::Builder::new().name(format!("worker {number}"));
            let work = move || {
                for _ in 0..1000 {
                    let _slice = recorder.enter("work");
                }
            };
            thread.spawn_scoped(scope, work).expect("a thread");
        }
    });
    let path = scratch("threads.pftrace");
    session.stop().expect("a stop").write_to(&path).expect("a file");
    let trace = Trace::read(&path);
    assert_eq!(trace.events(1), 8000, "begins");
    assert_eq!(trace.events(2), 8000, "ends");
    for number in 0..8 {
        assert!(trace.contains(&format!("worker {number}")));
    }
    assert!(trace.contains("session-"), "the program's name");
    assert_eq!(trace.losses(), 0);
    trace.assert_ends_with_stats();
    assert!(trace.all_have(79, std::process::id().into()), "real process id");
}

#[test]
fn a_slice_whose_details_or_body_panic_has_an_end() {
    let session = Session::builder().start().expect("a session");
    let recorder = session.recorder();
    for panics in [
        &(|| drop(recorder.enter_with("first", |_| panic!("of details")))) as &dyn Fn(),
        &|| recorder.slice_with("second", |_| panic!("of details"), || ()),
        &|| recorder.slice("third", || panic!("of the body")),
    ] {
        std::panic::catch_unwind(std::panic::AssertUnwindSafe(panics)).expect_err("it panics");
    }
    let path = scratch("panics.pftrace");
    session.stop().expect("a stop").write_to(&path).expect("a file");
    let trace = Trace::read(&path);
    assert_eq!([1, 2].map(|kind| trace.events(kind)), [3; 2], "begins and ends");
}

#[test]
fn details_of_slices_and_instants_are_in_the_trace() {
    let session = Session::builder().start().expect("a session");
    let recorder = session.recorder();
    let url = String::from("/index.html");
    {
        let _request = recorder.enter_with("request", |event| event.category("net").arg("url", &*url));
        recorder.instant_with("parsed", |event| event.arg("header", "content-type"));
    }
    let sum =
        recorder.slice("add up", || recorder.slice_with("of", |event| event.arg("kind", "ints"), || 2 + 3));
    assert_eq!(sum, 5);
    let path = scratch("details.pftrace");
    session.stop().expect("a stop").write_to(&path).expect("a file");
    recorder.instant_with("afterwards", |_| panic!("nothing is recorded any more"));
    drop(recorder.enter_with("afterwards", |_| panic!("nor now")));
    let trace = Trace::read(&path);
    assert_eq!([1, 2, 3].map(|kind| trace.events(kind)), [3, 3, 1], "begins, ends, an instant");
    for text in ["request", "net", "url", "/index.html", "parsed", "header", "content-type", "add up", "ints"]
    {
        assert!(trace.contains(text), "{text}");
    }
    assert!(!trace.contains("afterwards"));
}

#[test]
fn a_flush_finds_what_threads_have_not_sent() {
    let session = Session::builder().start().expect("a session");
    session.recorder().instant("lonely");
    assert_eq!(session.summary().expect("a summary").buffers[0].chunks_written, 0);
    session.flush(Duration::from_secs(5)).expect("a flush");
    let summary = session.summary().expect("a summary");
    assert_eq!(summary.buffers[0].chunks_written, 1);
    assert_eq!((summary.flushes.requested, summary.flushes.succeeded), (1, 1));
    session.recorder().instant("later");
    let path = scratch("flushed.pftrace");
    session.stop().expect("a stop").write_to(&path).expect("a file");
    assert_eq!(Trace::read(&path).events(3), 2);
}

#[test]
fn a_flush_may_wait_for_ever() {
    let session = Session::builder().start().expect("a session");
    session.recorder().instant("lonely");
    session.flush(Duration::MAX).expect("a flush");
    assert_eq!(session.summary().expect("a summary").buffers[0].chunks_written, 1);
}

#[test]
fn a_snapshot_leaves_the_session_as_it_is() {
    let session = Session::builder().prepare_snapshots().start().expect("a session");
    let recorder = session.recorder();
    for round in 1..=3 {
        recorder.instant("round");
        let path = scratch("snapshot.pftrace");
        session.snapshot().expect("a snapshot").write_to(&path).expect("a file");
        let trace = Trace::read(&path);
        assert_eq!(trace.events(3), round);
        trace.assert_ends_with_stats();
        assert_eq!(trace.losses(), 0);
    }
}

#[test]
fn data_sources_go_to_their_buffers() {
    let session = Session::builder()
        .buffer(BufferConfig::ring(64 << 10))
        .buffer(BufferConfig::discard(64 << 10))
        .data_source("first", 1)
        .start()
        .expect("a session");
    assert!(session.recorder_of("second").is_none());
    let first = session.recorder_of("first").expect("a source");
    let ring = session.recorder();
    for _ in 0..20_000 {
        first.instant("first");
        ring.instant("ring");
        // Slower than the drain thread, so that nothing is lost on the way.
        if first.with(|tracer| tracer.stats().writer.packets).unwrap_or(0).is_multiple_of(500) {
            session.flush(Duration::from_secs(5)).expect("a flush");
        }
    }
    let stopped = session.stop().expect("a stop");
    let [ring, first] = stopped.summary().buffers[..] else { panic!("two buffers") };
    assert!(ring.chunks_overwritten > 0 && ring.chunks_discarded == 0, "{ring:?}");
    assert!(first.chunks_overwritten == 0 && first.chunks_discarded > 0, "{first:?}");
}

#[test]
fn a_full_ring_keeps_the_newest_and_every_trace_of_it_decodes() {
    static DEPTH: Track<'static> = Track::counter("depth", Unit::Count);
    let session = Session::builder().ring(128 << 10).start().expect("a session");
    let recorder = session.recorder();
    for value in 0..50_000 {
        recorder.count(&DEPTH, value);
        if value % 1000 == 0 {
            session.flush(Duration::from_secs(5)).expect("a flush");
        }
    }
    let path = scratch("ring.pftrace");
    let mut stopped = session.stop().expect("a stop");
    stopped.write_to(&path).expect("a file");
    assert!(stopped.summary().losses().to_string().ends_with(" overwritten"), "and nothing else lost");
    let trace = Trace::read(&path);
    assert!(trace.events(4) > 1000, "{}", trace.events(4));
    assert!(trace.losses() > 0, "what was overwritten is reported");
    assert!(trace.contains("depth"), "names come again before the ring forgets them");
}

#[test]
fn after_the_stop_nothing_is_recorded_and_another_session_can_start() {
    let first = Session::builder().start().expect("a session");
    let old = first.recorder();
    old.instant("old");
    first.stop().expect("a stop");
    assert!(!old.is_on());
    old.instant("late");
    assert_eq!(old.with(|_| ()), None);
    let second = Session::builder().start().expect("a session");
    second.recorder().instant("new");
    let path = scratch("second.pftrace");
    second.stop().expect("a stop").write_to(&path).expect("a file");
    assert_eq!(Trace::read(&path).events(3), 1);
}

/// A producer that has its session, tries to stop it, and goes when nobody else has it; or one that stays to the end.
fn holder(session: Option<Arc<Session>>, tell: Sender<Option<SessionError>>) -> impl Transport {
    Does::new(move |_| {
        session.as_ref().is_none_or(|session| {
            let _ = tell.send(session.stop().err());
            Arc::strong_count(session) > 1
        })
    })
}

#[test]
fn the_session_s_own_thread_does_not_wait_for_itself() {
    let path = scratch("own thread.pftrace");
    let session = Session::builder().long_trace(LongTrace::to(&path)).start().expect("a session");
    let (session, (tell, told), (end, ended)) = (Arc::new(session), channel(), channel());
    session.attach(holder(Some(session.clone()), tell)).expect("an answer");
    session.attach(holder(None, end)).expect("an answer");
    let (recorder, waker) = (session.recorder(), session.waker());
    recorder.instant("hello");
    waker.wake();
    assert!(matches!(told.recv(), Ok(Some(SessionError::Stopped))));
    drop(session);
    waker.wake();
    // What the thread had goes with it.
    let end = ended.recv_timeout(Duration::from_secs(10));
    assert!(matches!(end, Err(RecvTimeoutError::Disconnected)));
    assert!(!recorder.is_on());
    let trace = Trace::read(&path);
    assert!(trace.contains("hello"));
    trace.assert_ends_with_stats();
}

#[test]
fn a_message_too_long_to_be_patched_is_one_loss_and_what_comes_behind_it_is_there() {
    for discard in [false, true] {
        let config = if discard { BufferConfig::discard(64 << 20) } else { BufferConfig::ring(64 << 20) };
        let session =
            Session::builder().buffer(config).exhaustion(Exhaustion::Stall).start().expect("a session");
        let mut writer = session.recorder().packet_writer().expect("a writer");
        // for_testing.str
        for len in [1, 1 << 20, 24 << 20, 1, 1] {
            writer.packet(|packet| packet.message(900).string(1, &"x".repeat(len)));
        }
        drop(writer);
        let mut stopped = session.stop().expect("a stop");
        let path = scratch("long message.pftrace");
        stopped.write_to(&path).expect("a file");
        let trace = Trace::read(&path);
        let written = trace.packets().filter(|packet| message(packet, 900).is_some());
        assert_eq!(written.count(), 4, "discarding: {discard}");
        assert_eq!(trace.losses(), 1);
    }
}

#[test]
fn an_event_within_the_making_of_another_session_s_event_is_recorded() {
    let (outer, inner) = (Session::builder().start().unwrap(), Session::builder().start().unwrap());
    let (a, b) = (outer.recorder(), inner.recorder());
    a.with(|tracer| tracer.track().slice("outer", || b.instant("inner")));
    let path = scratch("nested.pftrace");
    inner.stop().expect("a stop").write_to(&path).expect("a file");
    assert_eq!(Trace::read(&path).events(3), 1);
}

#[test]
fn a_session_needs_little_of_the_stack_of_the_thread_that_has_it() {
    let work = || {
        let path = scratch("stack.pftrace");
        let session = Session::builder().start().expect("a session");
        session.recorder().instant("here");
        session.snapshot().expect("a snapshot").write_to(&path).expect("a file");
        session.stop().expect("a stop").write_to(&path).expect("a file");
        Trace::read(&path).events(3)
    };
    // With a smaller stack than the session takes in a debug build, the process would end.
    let thread = std::thread::Builder::new().stack_size(128 << 10).spawn(work).expect("a thread");
    assert_eq!(thread.join().expect("no panic"), 1);
}

#[test]
fn what_a_thread_drops_is_counted_also_if_it_never_writes_again() {
    // Two chunks, which two threads keep as long as their packets are open.
    let session = Session::builder().shared_memory(4096).start().expect("a session");
    let recorder = session.recorder();
    let (recorded, ended) = (Barrier::new(3), Barrier::new(3));
    let mut stopped = std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                let mut writer = recorder.packet_writer().expect("a writer");
                writer.packet(|packet| {
                    packet.varint(8, 1);
                    recorded.wait();
                    ended.wait();
                });
            });
        }
        recorded.wait();
        let lost = scope.spawn(|| (0..1000).for_each(|_| recorder.instant("lost")));
        lost.join().expect("a thread");
        let stopped = session.stop().expect("a stop");
        ended.wait();
        stopped
    });
    assert_eq!(stopped.summary().buffers[0].trace_writer_packet_loss, 1000);
    assert_eq!(stopped.summary().losses().to_string(), "1000 packets given up by the writer");
    let path = scratch("dropped at the end.pftrace");
    stopped.write_to(&path).expect("a file");
    let report = TraceReport::of(&std::fs::read(&path).expect("a file"));
    assert!(!Trace::read(&path).contains("lost"));
    assert!(report.to_string().contains("trace_writer_packet_loss of buffer 0 is 1000"), "{report}");
}

#[test]
fn events_are_at_their_time_of_day() {
    let session = Session::builder().start().expect("a session");
    let before = std::time::SystemTime::now();
    session.recorder().instant("now");
    let after = std::time::SystemTime::now();
    let path = scratch("clock.pftrace");
    session.stop().expect("a stop").write_to(&path).expect("a file");
    let at = Trace::read(&path).time_of_day_of_first_state();
    let ns = |time: std::time::SystemTime| time.duration_since(std::time::UNIX_EPOCH).unwrap().as_nanos();
    assert!((ns(before)..=ns(after) + 1_000_000).contains(&u128::from(at)), "{at}");
}

#[test]
fn shared_memory_of_the_size_recommended_lasts_for_the_time_asked_for_whatever_is_in_it_before() {
    let sizing = Sizing::of_rate(4e6).packet(100).chunk(2044).blocked(0.010);
    // Besides, the thread that records keeps a chunk.
    let bytes = sizing.shared_memory() as usize + 2048;
    for share in [0, 25, 45] {
        let session = Session::builder().ring(1 << 20).shared_memory(bytes.next_multiple_of(4096)).start();
        let session = session.expect("a session");
        let blocked = Arc::new(Mutex::new(()));
        let in_transport = blocked.clone();
        let blocks = Does::new(move |_| {
            drop(in_transport.lock());
            true
        });
        session.attach(blocks).expect("it runs");
        let mut writer = session.recorder().packet_writer().expect("a writer");
        let mut write = |count| (0..count).for_each(|_| writer.packet(|packet| packet.bytes(900, &[7; 96])));
        write(bytes * share / 100 / 101);
        let guard = blocked.lock();
        write(400);
        drop(guard);
        assert_eq!(writer.stats().dropped, 0, "{share} percent");
        drop(writer);
        session.stop().expect("it runs");
    }
}

#[test]
fn a_session_with_nothing_to_do_answers_at_once_and_not_when_it_looks_once_a_second() {
    let (begun, mut quickest) = (std::time::Instant::now(), Duration::MAX);
    for _ in 0..4 {
        let session = Session::builder().start().expect("a session");
        // Time for its thread to fall asleep.
        std::thread::sleep(Duration::from_millis(5));
        for _ in 0..8 {
            session.recorder().instant("event");
            session.summary().expect("an answer");
            session.flush(Duration::from_secs(5)).expect("it answers");
        }
        drop(session.snapshot().expect("a snapshot"));
        std::thread::sleep(Duration::from_millis(5));
        let stopping = std::time::Instant::now();
        session.stop().expect("a stop");
        quickest = quickest.min(stopping.elapsed());
    }
    assert!(quickest < Duration::from_millis(500), "a stop takes {quickest:?}");
    // Each call takes a millisecond; waiting for the next look, they would take a minute.
    assert!(begun.elapsed() < Duration::from_secs(15), "{:?}", begun.elapsed());
}
