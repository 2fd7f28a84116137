//! Slices of recorders' guards and of spans stay nested even when shared memory is full.

use std::hint::black_box;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use tracebuf_session::{Recorder, Session, SliceGuard};

use crate::KINDS;
use crate::trace::{Trace, scratch};
use crate::transport::Does;

/// Checks the nesting: of three names, each is only within the one before it, and what begins ends.
fn assert_nested(trace: &Trace) {
    let (story, mut open) = (trace.story(), Vec::new());
    for event in story.split(' ').filter(|event| !event.starts_with('!')) {
        match event {
            "-" => drop(open.pop().expect("something to end")),
            // The names of some are given in a packet that is lost, and given again later.
            begin => {
                assert!(open.iter().all(|outer| *outer < begin), "{begin} in {open:?}");
                open.push(begin);
            }
        }
    }
    assert!(open.is_empty(), "{open:?}");
}

/// Whether a session's drain thread should stand still, and whether it does.
#[derive(Default)]
struct Still {
    wanted: AtomicBool,
    is_so: AtomicBool,
}

impl Still {
    fn set(&self, wanted: bool) {
        self.wanted.store(wanted, Ordering::Relaxed);
    }
}

/// A session with room for a few chunks.
fn session() -> (Session, Arc<Still>) {
    let session = Session::builder().ring(64 << 20).ring(1 << 20).data_source("other", 1);
    let session = session.shared_memory(8 << 10).start().expect("a session");
    let still = Arc::<Still>::default();
    let in_thread = still.clone();
    let drain = Does::new(move |_| {
        // Not for ever: a test that fails waits for this thread.
        let begun = Instant::now();
        while in_thread.wanted.load(Ordering::Relaxed) && begun.elapsed() < Duration::from_secs(30) {
            in_thread.is_so.store(true, Ordering::Relaxed);
            std::thread::sleep(Duration::from_millis(1));
        }
        true
    });
    session.attach(drain).expect("it is there");
    (session, still)
}

fn trace_of(session: Session, name: &str) -> Trace {
    let path = scratch(&format!("losses-{name}.pftrace"));
    session.stop().expect("a stop").write_to(&path).expect("a file");
    Trace::read(&path)
}

/// Does it in such a session, and once more when the drain thread goes on.
fn recorded(name: &str, work: impl Fn(&Recorder)) {
    let (session, still) = session();
    let recorder = session.recorder();
    for round in 0..20 {
        still.set(true);
        (0..100 + round).for_each(|_| work(&recorder));
        still.set(false);
        session.flush(Duration::from_secs(30)).expect("it answers");
        work(&recorder);
    }
    let trace = trace_of(session, name);
    assert!(trace.losses() > 10, "{name}");
    assert_nested(&trace);
}

#[test]
fn slices_of_recorders_stay_within_each_other_when_some_are_lost() {
    recorded("recorder", |recorder| {
        let _outer = recorder.enter("1");
        for number in 0..3 {
            let _middle = recorder.enter_with("2", |event| event.arg("number", number));
            let _inner = recorder.enter("3");
            black_box(());
        }
    });
}

/// Drops it while shared memory is full.
fn lose(slice: SliceGuard<'_>, session: &Session, still: &Still) {
    let recorder = session.recorder();
    let lost = || recorder.with(|tracer| tracer.stats().writer.dropped).expect("it is on");
    still.set(true);
    while !still.is_so.load(Ordering::Relaxed) {
        recorder.instant("filler");
    }
    let full = lost();
    while lost() == full {
        recorder.instant("filler");
    }
    drop(slice);
    assert!(lost() > full + 1, "the end");
    still.set(false);
    session.flush(Duration::from_secs(30)).expect("it answers");
}

#[test]
fn an_end_that_is_lost_is_made_up_for_before_a_slice_without_a_guard_begins() {
    let (session, still) = session();
    let recorder = session.recorder();
    let (outer, inner) = (recorder.enter("1"), recorder.enter("2"));
    lose(inner, &session, &still);
    recorder.begin("2");
    recorder.end();
    drop(outer);
    assert_nested(&trace_of(session, "begin"));
}

#[test]
fn an_end_that_is_lost_is_made_up_for_before_a_slice_without_a_guard_ends() {
    let (session, still) = session();
    let recorder = session.recorder();
    recorder.begin("1");
    lose(recorder.enter("2"), &session, &still);
    recorder.end();
    assert_nested(&trace_of(session, "end"));
}

#[test]
fn an_end_that_is_lost_is_made_up_for_when_its_thread_ends() {
    let (session, still) = session();
    std::thread::scope(|scope| {
        let thread = scope.spawn(|| lose(session.recorder().enter("1"), &session, &still));
        // This also waits for its locals to be gone, which the scope does not.
        thread.join().expect("a thread");
    });
    assert_nested(&trace_of(session, "thread"));
}

/// A thread has one track, whichever buffers its slices are in.
#[test]
fn an_end_that_is_lost_in_one_buffer_is_made_up_for_before_a_slice_in_another_begins_or_ends() {
    for (name, next, expected) in [
        ("end", None, "+outer - -"),
        ("begin-other", Some(true), "+outer - +next - -"),
        ("begin-same", Some(false), "+outer -"),
    ] {
        let (session, still) = session();
        let (recorder, other) = (session.recorder(), session.recorder_of("other").expect("a source"));
        let (outer, inner) = (other.enter("outer"), recorder.enter("inner"));
        lose(inner, &session, &still);
        if let Some(is_in_other) = next {
            drop(if is_in_other { other.enter("next") } else { recorder.enter("next") });
        }
        drop(outer);
        let trace = trace_of(session, &format!("buffers-{name}"));
        assert_eq!(trace.events(1), trace.events(2), "{name}");
        assert!(trace.story().ends_with(expected), "{name}: {}", trace.story());
    }
}

#[test]
fn a_thread_s_first_slice_in_a_buffer_is_not_within_one_whose_end_is_lost_in_another() {
    let (session, still) = session();
    let (recorder, other) = (session.recorder(), session.recorder_of("other").expect("a source"));
    lose(recorder.enter("lost"), &session, &still);
    drop(other.enter("first"));
    let trace = trace_of(session, "buffers-first");
    assert!(trace.story().ends_with("- +first -"), "{}", trace.story());
    assert_eq!(trace.events(1), trace.events(2));
}

#[test]
fn spans_stay_within_each_other_when_some_are_lost() {
    for (kind, make) in KINDS {
        recorded(kind, |recorder| {
            let dispatch = make(recorder.clone(), false);
            tracing::dispatcher::with_default(&dispatch, || {
                let _outer = tracing::info_span!("1").entered();
                for number in 0..3 {
                    let _middle = tracing::info_span!("2", number).entered();
                    let _inner = tracing::info_span!("3").entered();
                    black_box(());
                }
            });
        });
    }
}
