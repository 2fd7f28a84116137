//! Slices and instants on tracks that are no thread's, and ends with details.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

use tracebuf_session::{Relay, Session, Track, TrackSliceGuard, this_process};
use tracebuf_testing::trace::{Trace, message, number, scratch};

static GPU: Track<'static> = Track::custom("gpu");
static DISK: Track<'static> = Track::custom("disk");

fn session() -> Session {
    Session::builder().ring(1 << 20).shared_memory(256 << 10).start().expect("a session")
}

fn trace_of(session: &Session, name: &str) -> Trace {
    let path = scratch(&format!("tracks-{name}.pftrace"));
    let mut stopped = session.stop().expect("it runs");
    stopped.write_to(&path).expect("a file");
    Trace::read(&path)
}

/// The signs of the events on the track with this number; events on threads' own tracks have none. First come all of
/// one thread, as they lie in a trace.
fn on(trace: &Trace, track: Option<u64>) -> String {
    let events = trace.packets().filter_map(|packet| message(packet, 11));
    let events = events.filter(|event| number(event, 11) == track);
    let kinds = events.filter_map(|event| number(event, 9));
    kinds.map(|kind| ["?", "+", "-", "!", "#"][kind as usize]).collect()
}

fn on_tracks(trace: &Trace) -> [String; 3] {
    [None, Some(GPU.uuid()), Some(DISK.uuid())].map(|track| on(trace, track))
}

fn assert_panics(work: impl FnOnce()) {
    assert!(catch_unwind(AssertUnwindSafe(work)).is_err());
}

#[test]
fn a_slice_may_end_in_another_thread_and_events_lie_on_the_track_that_is_asked_for() {
    let session = session();
    let recorder = session.recorder();
    let _own = recorder.enter("own");
    let drawing = recorder.on(&GPU).enter_with("draw", |event| event.arg("triangles", 900));
    recorder.on(&DISK).begin_with("read", |event| event.category("io"));
    // So that this thread is the first in the trace.
    session.flush(Duration::from_secs(30)).expect("it answers");
    std::thread::scope(|scope| {
        let thread = scope.spawn(|| {
            recorder.instant("own");
            recorder.on(&GPU).instant_with("shaders are there", |event| event.arg("count", 2));
            drop(drawing);
            recorder.on(&DISK).end_with(|event| event.arg("bytes", 4096));
        });
        thread.join().expect("no panic");
    });
    assert_eq!(
        recorder.on(&GPU).slice("draw", || recorder.on(&DISK).slice_with("read", |event| event, || 7)),
        7
    );
    recorder.on(&DISK).instant("full");
    recorder.on(&DISK).begin("write");
    recorder.on(&DISK).end();
    let trace = trace_of(&session, "threads");
    assert_eq!(on_tracks(&trace), ["+!", "++-!-", "++-!+--"]);
    for text in ["gpu", "disk", "draw", "triangles", "shaders are there", "io", "bytes", "write"] {
        assert!(trace.contains(text), "{text}");
    }
}

#[test]
fn requests_that_overlap_have_tracks_that_live_no_longer_than_they_do() {
    // More than the tracks that a thread knows at a time.
    const REQUESTS: u64 = 200;
    let session = session();
    let recorder = session.recorder();
    fn tracks(kind: &str, number: u64) -> [Track<'_>; 2] {
        [Track::custom("request"), Track::custom(kind)].map(|track| track.numbered(number))
    }
    let kinds = |number| format!("kind {}", number % 3);
    for pair in (0..REQUESTS).step_by(2) {
        // Texts and tracks lie where those before them lay.
        let texts = [kinds(pair), kinds(pair + 1)];
        let [first, second] = [tracks(&texts[0], pair), tracks(&texts[1], pair + 1)];
        let begun = recorder.on(&first[0]).enter("serve");
        let overlapping = recorder.on(&second[0]).enter("serve");
        recorder.on(&first[1]).instant("is of a kind");
        recorder.on(&second[1]).instant("is of a kind");
        std::thread::scope(|scope| scope.spawn(move || drop(begun)).join().expect("no panic"));
        drop(overlapping);
    }
    let trace = trace_of(&session, "requests");
    for number in 0..REQUESTS {
        let text = kinds(number);
        let [request, kind] = tracks(&text, number);
        let done = on(&trace, Some(request.uuid()));
        // Threads' sequences come one after the other.
        assert!(done == "+-" || done == "-+", "{number}: {done}");
        assert_eq!(on(&trace, Some(kind.uuid())), "!");
        for (track, name) in [(request, "request"), (kind, &*text)] {
            let described = trace.packets().filter_map(|packet| message(packet, 60));
            let described = described
                .filter(|described| tracebuf_testing::trace::number(described, 1) == Some(track.uuid()));
            let names: Vec<_> = described.filter_map(|described| message(described, 2)).collect();
            assert!(
                !names.is_empty() && names.iter().all(|told| *told == name.as_bytes()),
                "{number}: {name}"
            );
        }
    }
}

#[test]
fn what_lies_within_this_process_lies_where_its_threads_do() {
    let unnamed = this_process();
    let session =
        Session::builder().ring(1 << 20).process_name("a name of its own").start().expect("a session");
    let process = this_process();
    assert_eq!(process.uuid(), unnamed.uuid());
    let track = Track::custom("requests").within(&process).numbered(17);
    session.recorder().on(&track).instant("accepted");
    session.recorder().instant("on the thread's own");
    let trace = trace_of(&session, "within-process");
    assert_eq!((on(&trace, Some(track.uuid())), on(&trace, None)), ("!".into(), "!".into()));
    let described: Vec<_> = trace.packets().filter_map(|packet| message(packet, 60)).collect();
    let parents: Vec<_> = described.iter().filter_map(|track| number(track, 5)).collect();
    assert_eq!(parents, [process.uuid(); 2]);
    let processes: Vec<_> = described.iter().filter_map(|track| message(track, 3)).collect();
    let [told] = processes[..] else { panic!("{} processes", processes.len()) };
    assert_eq!(
        (number(told, 1), message(told, 6)),
        (Some(std::process::id().into()), Some(&b"a name of its own"[..]))
    );
}

#[test]
fn a_slice_ends_when_its_body_or_its_details_panic() {
    let session = session();
    let recorder = session.recorder();
    assert_panics(|| recorder.on(&GPU).slice("body", || panic!("in the body")));
    assert_panics(|| drop(recorder.on(&DISK).enter_with("details", |_| panic!("in the details"))));
    assert_eq!(on_tracks(&trace_of(&session, "panics")), ["", "+-", "+-"]);
}

#[test]
fn ends_may_have_details_and_those_of_slices_that_are_not_recorded_are_not_asked_for() {
    let session = session();
    let recorder = session.recorder();
    recorder.enter("own").end_with(|event| event.arg("by its guard", 1));
    recorder.on(&GPU).enter("other").end_with(|event| event.arg("by the other's guard", 2));
    recorder.begin_with("own", |event| event.arg("without a guard", 3));
    recorder.end_with(|event| event.arg("nor here", 4));
    assert_panics(|| recorder.enter("own").end_with(|_| panic!("in the details")));
    assert_panics(|| recorder.on(&GPU).enter("other").end_with(|_| panic!("in the details")));
    let (own, other) = (recorder.enter("own"), recorder.on(&GPU).enter("other"));
    let trace = trace_of(&session, "details");
    assert_eq!(on_tracks(&trace), ["+-+-+-+", "+-+-+", ""]);
    for text in ["by its guard", "by the other's guard", "without a guard", "nor here"] {
        assert!(trace.contains(text), "{text}");
    }
    own.end_with(|_| unreachable!("its session is over"));
    other.end_with(|_| unreachable!("its session is over"));
    recorder.enter("own").end_with(|_| unreachable!("nothing is recorded"));
}

#[test]
fn a_slice_whose_begin_is_lost_has_no_end() {
    let session = session();
    let recorder = session.recorder();
    let _outer = recorder.on(&GPU).enter("outer");
    let mut lost: Option<TrackSliceGuard<'_>> = None;
    recorder.instant_with("own", |event| {
        // Within another event.
        lost = Some(recorder.on(&GPU).enter("never begun"));
        event
    });
    drop(lost);
    recorder.instant("own");
    let trace = trace_of(&session, "lost");
    assert_eq!(on_tracks(&trace), ["!!", "+", ""]);
    assert!(!trace.contains("never begun"));
}

#[test]
fn a_slice_ends_in_the_session_where_it_has_begun_if_the_thread_has_recorded_there() {
    let relay = Relay::new();
    let recorder = relay.recorder();
    let begun_nowhere = recorder.on(&GPU).enter("nowhere");
    let (first, second) = (session(), session());
    relay.connect(&first.recorder()).expect("it runs");
    drop(begun_nowhere);
    let (here, elsewhere) = (recorder.on(&GPU).enter("begun"), recorder.on(&DISK).enter("begun"));
    relay.connect(&second.recorder()).expect("it runs");
    recorder.on(&DISK).begin("in the second");
    drop(here);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            recorder.instant("own");
            drop(elsewhere);
        });
    });
    assert_eq!(on_tracks(&trace_of(&first, "first")), ["", "+-", "+"]);
    assert_eq!(on_tracks(&trace_of(&second, "second")), ["!", "", "+"]);
}
