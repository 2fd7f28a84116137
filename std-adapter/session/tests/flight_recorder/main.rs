//! The flight recorder: snapshots by hand, on panics, on signals and on triggers.

#[cfg(target_os = "linux")]
mod children;
use tracebuf_testing::trace;

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use trace::{Trace, folder, number, wait_for};
use tracebuf::producer::track_event::{Track, Unit};
use tracebuf_session::{BufferConfig, FlightRecorder, Session};

fn session() -> Arc<Session> {
    Arc::new(Session::builder().ring(1 << 20).prepare_snapshots().start().expect("a session"))
}

#[test]
fn a_panic_of_any_thread_leaves_a_trace_of_what_came_before() {
    let (session, folder) = (session(), folder("panic"));
    let recorder = FlightRecorder::new(&session, &folder).expect("a recorder");
    recorder.on_panic();
    let events = session.recorder();
    let thread = std::thread::spawn(move || {
        let _slice = events.enter("doomed");
        events.with(|_| panic!("in the midst of an event"));
    });
    assert!(thread.join().is_err());
    let trace = Trace::read(&folder.join("panic-0.pftrace"));
    assert!(trace.contains("doomed"));
    trace.assert_ends_with_stats();
    assert_eq!(recorder.status().written, 1);
    assert!(session.recorder().is_on(), "and recording goes on");
}

#[test]
fn what_a_thread_did_before_it_hung_can_be_read_though_the_others_have_lapped_the_ring() {
    let ring = BufferConfig::ring(64 << 10).self_contained_chunks();
    let session = Session::builder().buffer(ring).start().expect("a session");
    let (events, others) = (session.recorder(), session.recorder());
    let (hang, end) = std::sync::mpsc::channel::<()>();
    let (began, begun) = std::sync::mpsc::channel();
    let thread = std::thread::spawn(move || {
        // A chunk and a half.
        (0..150).for_each(|_| drop(events.enter("before")));
        let _lock = events.enter("waits for the lock");
        began.send(()).expect("the test waits");
        let _ = end.recv();
    });
    begun.recv().expect("it hangs");
    while session.summary().expect("it runs").buffers[0].write_wrap_count < 3 {
        (0..1000).for_each(|_| others.instant("work"));
    }
    let path = folder("hung").join("hung.pftrace");
    session.snapshot().expect("a snapshot").write_to(&path).expect("a trace");
    drop(hang);
    thread.join().expect("no panic");
    let trace = Trace::read(&path);
    let text = b"waits for the lock";
    let named = trace.packets().find(|packet| packet.windows(text.len()).any(|window| window == text));
    let sequence = number(named.expect("the last slice's name"), 10);
    let packets: Vec<_> = trace.packets().filter(|packet| number(packet, 10) == sequence).collect();
    assert!(packets.len() > 10 && number(packets[0], 42).is_some(), "what was before is overwritten");
    assert_eq!(number(packets[0], 13), Some(3), "a state comes first");
}

#[cfg(unix)]
#[test]
fn a_storm_of_signals_leaves_whole_traces_of_the_number_to_keep() {
    let (session, folder) = (session(), folder("signals"));
    let recorder = FlightRecorder::new(&session, &folder).expect("a recorder").keep(3);
    recorder.on_signals(&[libc::SIGUSR1]).expect("a handler");
    let stop = Arc::new(AtomicBool::new(false));
    let (events, ends) = (session.recorder(), stop.clone());
    let thread = std::thread::spawn(move || {
        while !ends.load(Ordering::Relaxed) {
            events.instant("event");
            std::thread::sleep(Duration::from_micros(50));
        }
    });
    let start = std::time::Instant::now();
    let mut sent = 0;
    // Longer where everything is slow.
    let is_over = |elapsed: Duration| elapsed.as_millis() >= 500 && recorder.status().written > 3;
    while !is_over(start.elapsed()) && start.elapsed() < Duration::from_secs(20) {
        // SAFETY: this process has a handler for it.
        unsafe { libc::kill(libc::getpid(), libc::SIGUSR1) };
        sent += 1;
        if sent % 100 == 0 {
            std::thread::sleep(Duration::from_millis(1));
        }
    }
    stop.store(true, Ordering::Relaxed);
    thread.join().expect("the thread");
    let status = recorder.status();
    assert!(status.written > 3 && status.failed == 0, "{status:?}");
    drop(recorder);
    let files: Vec<_> = std::fs::read_dir(&folder).expect("the folder").collect();
    assert_eq!(files.len(), 3, "{files:?}");
    for file in files {
        let trace = Trace::read(&file.expect("a file").path());
        assert_eq!(trace.losses(), 0);
        trace.assert_ends_with_stats();
    }
}

#[test]
fn the_newest_files_of_all_runs_are_kept_and_none_is_written_over() {
    // On Windows, the folder of a test that was built elsewhere has no drive letter.
    let folder = std::path::absolute(folder("runs")).expect("a path");
    let others =
        ["panic-x.pftrace", "panic-01.pftrace", "panic-1-7.pftrace", "panic-9.txt", "others-5.pftrace"];
    for name in others {
        std::fs::write(folder.join(name), "somebody else's").expect("a file");
    }
    let names = || {
        let entries = std::fs::read_dir(&folder).expect("the folder");
        let names = entries.map(|entry| entry.expect("an entry").file_name().into_string().expect("a name"));
        let mut names: Vec<_> = names.filter(|name| !others.contains(&&name[..])).collect();
        names.sort();
        names
    };
    // Each run is a program that panics once.
    for run in 0..12 {
        let session = session();
        let recorder = FlightRecorder::new(&session, &folder).expect("a recorder").keep(3);
        let path = recorder.snapshot("panic").expect("a snapshot");
        assert_eq!(path, folder.join(format!("panic-{run}.pftrace")));
        assert!(recorder.snapshot("by hand").expect("a snapshot").exists() && path.exists());
    }
    let newest = [9, 10, 11].map(|run| [format!("by hand-{run}.pftrace"), format!("panic-{run}.pftrace")]);
    let mut newest = newest.concat();
    newest.sort();
    assert_eq!(names(), newest);
    // Fewer from now on; and two at once keep out of each other's way.
    let session = session();
    let recorders = [0, 1].map(|_| FlightRecorder::new(&session, &folder).expect("a recorder").keep(2));
    let paths = recorders.each_ref().map(|recorder| recorder.snapshot("panic").expect("a snapshot"));
    assert_eq!(paths, [12, 13].map(|number| folder.join(format!("panic-{number}.pftrace"))));
    assert_eq!(names()[3..], ["panic-12.pftrace", "panic-13.pftrace"]);
    for path in others.map(|name| folder.join(name)) {
        assert_eq!(std::fs::read(&path).expect("it is there"), b"somebody else's");
        // The others in the folder are traces.
        std::fs::remove_file(path).expect("it is there");
    }
}

#[cfg(unix)]
#[test]
fn a_number_that_is_no_signal_is_an_error_as_is_one_that_cannot_be_caught() {
    let (session, folder) = (session(), folder("no signal"));
    let recorder = FlightRecorder::new(&session, &folder).expect("a recorder");
    for signal in [i32::MIN, -1, 0, 65, 127, 128, 200, i32::MAX, libc::SIGKILL, libc::SIGSEGV, libc::SIGBUS] {
        assert!(recorder.on_signals(&[signal]).is_err(), "{signal}");
        // Not the storm's signal: from here on, this one ends the program when no recorder watches it.
        assert!(recorder.before_ending_on(&[libc::SIGUSR2, signal]).is_err(), "{signal}");
    }
}

#[test]
fn a_trigger_s_trace_shows_what_came_before_and_after_it() {
    let (session, folder) = (session(), folder("trigger"));
    let recorder = FlightRecorder::new(&session, &folder).expect("a recorder");
    session.recorder().instant("before it");
    recorder.trigger("late frame", Duration::from_millis(100));
    recorder.trigger("late frame", Duration::from_millis(100));
    session.recorder().instant("after it");
    let path = folder.join("late frame-0.pftrace");
    assert!(!path.exists(), "its time has not come");
    wait_for(&path);
    let trace = Trace::read(&path);
    assert!(["before it", "late frame", "after it"].iter().all(|name| trace.contains(name)));
    assert_eq!(recorder.status().merged, 1, "both are in one trace");
    assert!(!folder.join("late frame-1.pftrace").exists());
}

#[test]
fn a_trigger_whose_time_never_comes_is_written_at_the_end() {
    let (session, folder) = (session(), folder("never"));
    let recorder = FlightRecorder::new(&session, &folder).expect("a recorder");
    recorder.trigger("never", Duration::MAX);
    recorder.trigger_window("never in a window", Duration::MAX, Duration::MAX);
    std::thread::sleep(Duration::from_millis(20));
    assert_eq!(std::fs::read_dir(&folder).expect("the folder").count(), 0);
    drop(recorder);
    for name in ["never", "never in a window"] {
        assert!(Trace::read(&folder.join(format!("{name}-0.pftrace"))).contains(name));
    }
}

#[test]
fn while_sixteen_triggers_wait_others_are_only_counted() {
    let (session, folder) = (session(), folder("many"));
    let recorder = FlightRecorder::new(&session, &folder).expect("a recorder");
    let reasons =
        ["a", "b", "c", "d", "e", "f", "g", "h", "i", "j", "k", "l", "m", "n", "o", "p", "q", "r", "s"];
    for reason in reasons {
        recorder.trigger(reason, Duration::MAX);
        // The recorder's thread has it by now.
        std::thread::sleep(Duration::from_millis(5));
    }
    recorder.trigger("a", Duration::MAX);
    assert_eq!(recorder.status().merged, 4);
    drop(recorder);
    assert_eq!(std::fs::read_dir(&folder).expect("the folder").count(), 16);
    assert!(folder.join("p-0.pftrace").exists(), "the first are there");
}

static COUNTER: Track<'static> = Track::counter("events", Unit::Count);

/// Boot times of the packets with a counter's value, computed from the trace's states and distances.
fn times_of_counters(trace: &Trace) -> Vec<(u64, u64)> {
    let (mut now, mut times) = (0, Vec::new());
    for packet in trace.packets().filter(|packet| trace::number(packet, 10) != Some(1)) {
        let time = trace::number(packet, 8).unwrap_or(0);
        now = if trace::number(packet, 13).is_some_and(|flags| flags & 1 == 1) { time } else { now + time };
        if let Some(value) = trace::message(packet, 11).and_then(|event| trace::number(event, 30)) {
            times.push((value, now));
        }
    }
    times
}

#[test]
fn a_trigger_s_window_leaves_out_what_is_older_and_keeps_all_times() {
    let (session, folder) = (session(), folder("window"));
    let recorder = FlightRecorder::new(&session, &folder).expect("a recorder");
    let mut recorded = Vec::new();
    let mut count = |value: i64| {
        let before = session.now();
        session.recorder().count(&COUNTER, value);
        recorded.push((value as u64, before, session.now()));
    };
    (0..200).for_each(&mut count);
    std::thread::sleep(Duration::from_millis(400));
    (1000..1200).for_each(&mut count);
    recorder.trigger_window("window", Duration::from_millis(200), Duration::from_millis(50));
    (2000..2010).for_each(&mut count);
    let path = folder.join("window-0.pftrace");
    wait_for(&path);
    let trace = Trace::read(&path);
    let seen = times_of_counters(&trace);
    let expected: Vec<_> = recorded.iter().filter(|(value, ..)| *value >= 1000).collect();
    assert_eq!(seen.len(), expected.len());
    for ((value, time), (recorded, before, after)) in seen.iter().zip(expected) {
        assert_eq!(value, recorded);
        assert!((before..=after).contains(&time), "{value} at {time}, recorded from {before} to {after}");
    }
    assert!(trace.contains("window"), "the trigger itself");
    assert_eq!(trace.losses(), 0);
    trace.assert_ends_with_stats();
    // Without a window everything is there.
    let whole = Trace::read(&recorder.snapshot("whole").expect("a snapshot"));
    assert_eq!(times_of_counters(&whole).len(), recorded.len());
}

#[test]
fn a_folder_that_goes_away_is_an_error_that_is_kept() {
    let (session, folder) = (session(), folder("gone"));
    let recorder = FlightRecorder::new(&session, &folder).expect("a recorder");
    std::fs::remove_dir_all(&folder).expect("it is there");
    let error = recorder.snapshot("x").expect_err("no folder").to_string();
    let name = Path::new("gone").join("x-0.pftrace");
    let why = if cfg!(unix) { "No such file" } else { "" };
    assert!(error.contains(&format!("{}: cannot be written: {why}", name.display())), "{error}");
    assert_eq!(recorder.status().failed, 1);
    assert_eq!(recorder.status().error, Some(error));
    assert!(FlightRecorder::new(&session, &folder).is_err());
}

#[test]
fn a_recorder_of_a_session_that_has_ended_says_so() {
    let (session, folder) = (session(), folder("ended"));
    let recorder = FlightRecorder::new(&session, &folder).expect("a recorder");
    session.stop().expect("a stop");
    assert!(recorder.snapshot("late").is_err());
    assert_eq!(std::fs::read_dir(&folder).expect("the folder").count(), 0);
}

#[cfg(unix)]
#[test]
fn a_session_that_is_dropped_while_a_snapshot_is_written_ends() {
    use std::io::Read;

    use trace::mkfifo;

    let (session, folder) = (session(), folder("dropped"));
    let recorder = FlightRecorder::new(&session, &folder).expect("a recorder");
    // There is no number after the largest, so this is what the snapshot is written into.
    let pipe = folder.join(format!("slow-{}.pftrace", u64::MAX));
    mkfifo(&pipe);
    let events = session.recorder();
    // More than a pipe holds.
    while session.summary().expect("it runs").buffers[0].write_wrap_count == 0 {
        (0..1000).for_each(|_| events.instant("event"));
    }
    recorder.trigger("slow", Duration::ZERO);
    let mut reader = std::fs::File::open(&pipe).expect("it is being written");
    drop(session);
    assert!(!events.is_on());
    let mut trace = Vec::new();
    reader.read_to_end(&mut trace).expect("the rest");
    drop(recorder);
    assert!(trace.len() > 1 << 19, "all of it is written nevertheless: {}", trace.len());
    std::fs::remove_file(&pipe).expect("it is there");
}

/// A snapshot costs those who record at most one copy; the test reports how long that takes and bounds it loosely,
/// because machines differ.
#[test]
fn recording_goes_on_without_loss_while_snapshots_are_taken() {
    let session = Session::builder().ring(16 << 20).shared_memory(8 << 20).prepare_snapshots().start();
    let session = session.expect("a session");
    let stop = Arc::new(AtomicBool::new(false));
    let threads: Vec<_> = (0..2)
        .map(|_| {
            let (events, stop) = (session.recorder(), stop.clone());
            std::thread::spawn(move || {
                while !stop.load(Ordering::Relaxed) {
                    for _ in 0..100 {
                        events.instant("event");
                    }
                    std::thread::sleep(Duration::from_micros(200));
                }
                events.with(|tracer| tracer.stats().writer.dropped).expect("recording")
            })
        })
        .collect();
    let mut longest = Duration::ZERO;
    for _ in 0..20 {
        std::thread::sleep(Duration::from_millis(20));
        longest = longest.max(session.snapshot().expect("a snapshot").stall());
    }
    stop.store(true, Ordering::Relaxed);
    let dropped: u64 = threads.into_iter().map(|thread| thread.join().expect("a thread")).sum();
    println!("longest stall of the drain thread: {longest:?}");
    assert_eq!(dropped, 0);
    assert!(longest < Duration::from_millis(500), "{longest:?}");
}
