//! Slices whose begins a ring has overwritten, or a window leaves out.

use std::sync::mpsc::channel;
use std::time::Duration;

use tracebuf_analysis::Trace;
use tracebuf_session::{Session, Snapshot, Track};
use tracebuf_testing::trace::scratch;

/// Records until the first ring has been gone round so many times since it was made.
fn go_round(session: &Session, laps: u64) {
    let recorder = session.recorder();
    while session.summary().expect("a summary").buffers[0].write_wrap_count < laps {
        for number in 0..2000u64 {
            recorder.slice_with("retry", |event| event.arg("number", number), || ());
        }
        session.flush(Duration::from_secs(5)).expect("a flush");
    }
}

fn read(snapshot: Snapshot, name: &str) -> Trace {
    let path = scratch(&format!("open-{name}.pftrace"));
    snapshot.write_to(&path).expect("a file");
    let trace = Trace::open(&path).expect("a trace");
    assert_eq!(trace.faults(), []);
    trace
}

fn snapshot(session: &Session, name: &str) -> Trace {
    read(session.snapshot().expect("a snapshot"), name)
}

#[test]
fn what_hangs_is_in_its_own_snapshot_from_its_real_begin_with_its_arguments() {
    let session = Session::builder().ring(64 << 10).start().expect("a session");
    let recorder = session.recorder();
    let before = session.now();
    let hang = recorder.enter_with("hangs", |event| event.category("net").arg("url", "/slow").flow(7));
    let after = session.now();
    let inner = recorder.enter("in it");
    go_round(&session, 20);
    let trace = snapshot(&session, "hang");
    let slice = trace.slice("hangs").expect("it is there");
    assert!((before..=after).contains(&slice.begin()), "{before} {} {after}", slice.begin());
    assert_eq!((slice.end(), slice.category(), slice.depth()), (None, "net", 0));
    assert_eq!(slice.argument("url").and_then(|value| value.as_str()), Some("/slow"));
    assert_eq!(slice.track().thread_name(), std::thread::current().name());
    let (inner_one, retry) = (trace.slice("in it").expect("also"), trace.slice("retry").expect("also"));
    assert_eq!((inner_one.parent(), retry.parent()), (Some(slice), Some(inner_one)));
    assert_eq!(trace.slices().filter(|slice| slice.name() != "retry").count(), 2);
    // And once they have ended, each has its whole duration; later they are gone.
    drop(inner);
    drop(hang);
    let trace = snapshot(&session, "hung");
    let (slice, inner_one) =
        (trace.slice("hangs").expect("it is there"), trace.slice("in it").expect("also"));
    assert!(slice.end() >= inner_one.end() && inner_one.end().is_some());
    go_round(&session, 40);
    let trace = snapshot(&session, "gone");
    assert!(trace.slice("hangs").is_none() && trace.slice("retry").is_some());
}

#[test]
fn a_thread_that_blocks_in_a_slice_while_others_go_on_is_in_the_snapshot() {
    let session = Session::builder().ring(64 << 10).start().expect("a session");
    let recorder = session.recorder();
    let (go_on, wait) = channel::<()>();
    let (begun, has_begun) = channel();
    let thread = std::thread::Builder::new().name("blocked".into());
    let blocked = thread.spawn(move || {
        recorder.slice_with(
            "blocks",
            |event| event.arg("lock", 3),
            || {
                begun.send(()).expect("a listener");
                let _ = wait.recv();
            },
        );
    });
    let blocked = blocked.expect("a thread");
    has_begun.recv().expect("it has");
    session.flush(Duration::from_secs(5)).expect("a flush");
    go_round(&session, 1000);
    let trace = snapshot(&session, "blocked");
    let slice = trace.slice("blocks").expect("it is there");
    assert_eq!((slice.end(), slice.track().thread_name()), (None, Some("blocked")));
    drop(go_on);
    blocked.join().expect("no panic");
    let stopped = session.stop().expect("a stop");
    let path = scratch("open-stopped.pftrace");
    let mut stopped = stopped;
    stopped.write_to(&path).expect("a file");
    let trace = Trace::open(&path).expect("a trace");
    assert_eq!(trace.faults(), []);
    let slice = trace.slice("blocks").expect("it is there");
    assert!(slice.end().is_some());
    assert_eq!(slice.argument("lock").and_then(|value| value.as_i64()), Some(3));
}

#[test]
fn all_packets_up_to_the_ring_s_edge_can_be_read() {
    let session = Session::builder().ring(1 << 20).start().expect("a session");
    go_round(&session, 3);
    let trace = snapshot(&session, "edge");
    // All that is in the ring: the numbers have no hole, and end with the last.
    let numbers: Vec<i64> = trace.slices().filter_map(|slice| slice.argument("number")?.as_i64()).collect();
    assert!(numbers.len() > 25_000, "{}", numbers.len());
    assert!(numbers.windows(2).all(|pair| pair[1] == (pair[0] + 1) % 2000));
    assert!(trace.slices().all(|slice| slice.end().is_some()));
}

#[test]
fn slices_on_tracks_of_one_s_own_may_end_in_other_threads() {
    static TRACK: Track<'static> = Track::custom("requests");
    let session = Session::builder().ring(64 << 10).start().expect("a session");
    let recorder = session.recorder();
    let tracks: Vec<_> =
        (0..20).map(|number| Track::custom("request").within(&TRACK).numbered(number)).collect();
    for (number, track) in tracks.iter().enumerate() {
        recorder.on(track).begin_with("request", |event| event.arg("number", number));
        recorder.on(track).begin("part");
    }
    go_round(&session, 5);
    // The first half ends in another thread, the parts of all do.
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for (number, track) in tracks.iter().enumerate() {
                recorder.on(track).end();
                if number < 10 {
                    recorder.on(track).end();
                }
            }
        });
    });
    let check = |trace: &Trace, has_parts: bool, ended: usize| {
        let requests: Vec<_> = trace.slices().filter(|slice| slice.name() == "request").collect();
        let numbers: Vec<_> =
            requests.iter().map(|slice| slice.argument("number").and_then(|value| value.as_i64())).collect();
        assert_eq!(numbers, (20 - requests.len() as i64..20).map(Some).collect::<Vec<_>>());
        assert_eq!(requests.iter().filter(|slice| slice.end().is_some()).count(), ended);
        for request in &requests {
            assert_eq!(request.track().parent().expect("one").name(), "requests");
            assert_eq!(request.children().count(), usize::from(has_parts));
        }
        requests.len()
    };
    assert_eq!(check(&snapshot(&session, "ended-elsewhere"), true, 10), 20);
    go_round(&session, 10);
    assert_eq!(check(&snapshot(&session, "left-open"), false, 0), 10);
}

#[test]
fn a_window_has_slices_that_end_in_it_or_later_whole() {
    let session = Session::builder().ring(1 << 20).start().expect("a session");
    let recorder = session.recorder();
    let long = recorder.enter_with("long", |event| event.arg("key", "value"));
    recorder.slice("over before", || ());
    let open = recorder.enter("open");
    std::thread::sleep(Duration::from_millis(2));
    let from = session.now();
    recorder.slice("in the window", || ());
    drop(open);
    drop(long);
    let _late = recorder.enter("late");
    let window = session.snapshot().expect("a snapshot").since(from);
    let trace = read(window, "window");
    let names: Vec<_> = trace.slices().map(|slice| slice.name()).collect();
    assert_eq!(names, ["long", "open", "in the window", "late"]);
    let long = trace.slice("long").expect("it is there");
    assert!(long.begin() < from && long.duration() >= Some(Duration::from_millis(2)));
    assert_eq!(long.argument("key").and_then(|value| value.as_str()), Some("value"));
    let inner = trace.slice("in the window").expect("it is there");
    assert_eq!(inner.ancestors().map(|slice| slice.name()).collect::<Vec<_>>(), ["open", "long"]);
    // One that begins when all is over has only what is open.
    let trace = read(session.snapshot().expect("a snapshot").since(session.now()), "window-after");
    assert_eq!(trace.slices().map(|slice| slice.name()).collect::<Vec<_>>(), ["late"]);
}
