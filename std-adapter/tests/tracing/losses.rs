//! Slices stay within each other though shared memory is full, of recorders' guards and of spans.

use std::hint::black_box;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use tracebuf_std::session::{Recorder, Session};

use crate::KINDS;
use crate::trace::{Trace, scratch};
use crate::transport::Does;

/// What lies in what: of three names, each only within the one before it, and what begins ends.
fn assert_nested(trace: &Trace) {
    let (story, mut open) = (trace.story(), Vec::new());
    for event in story.split(' ') {
        match event {
            "-" => drop(open.pop().expect("something to end")),
            // The names of some are told in a packet that is lost, and told again later.
            begin => {
                assert!(open.iter().all(|outer| *outer < begin), "{begin} in {open:?}");
                open.push(begin);
            }
        }
    }
    assert!(open.is_empty(), "{open:?}");
}

/// Does it in a session whose drain thread stands still now and then, and once more when it goes on.
fn recorded(name: &str, work: impl Fn(&Recorder)) {
    let session = Session::builder().ring(64 << 20).shared_memory(8 << 10).start().expect("a session");
    let stands_still = Arc::new(AtomicBool::new(false));
    let in_thread = stands_still.clone();
    let drain = Does::new(move |_| {
        // Not for ever: a test that fails waits for this thread.
        let begun = Instant::now();
        while in_thread.load(Ordering::Relaxed) && begun.elapsed() < Duration::from_secs(5) {
            std::thread::sleep(Duration::from_millis(1));
        }
        true
    });
    session.attach(drain).expect("it is there");
    let recorder = session.recorder();
    for round in 0..20 {
        stands_still.store(true, Ordering::Relaxed);
        (0..100 + round).for_each(|_| work(&recorder));
        stands_still.store(false, Ordering::Relaxed);
        session.flush(Duration::from_secs(30)).expect("it answers");
        work(&recorder);
    }
    let path = scratch(&format!("losses-{name}.pftrace"));
    session.stop().expect("a stop").write_to(&path).expect("a file");
    let trace = Trace::read(&path);
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
