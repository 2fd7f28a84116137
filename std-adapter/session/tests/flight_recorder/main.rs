//! The flight recorder: snapshots by hand, on panics, on signals and on triggers.

#[cfg(target_os = "linux")]
mod children;
#[cfg(target_os = "linux")]
mod durability;
#[cfg(target_os = "linux")]
mod ends;
mod marks;
use tracebuf_testing::trace;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use trace::{Trace, find_snapshot as find, folder, number, wait_for_snapshot as wait_for};
use tracebuf::producer::track_event::{Track, Unit};
use tracebuf_session::{BufferConfig, FlightRecorder, Session};

fn session() -> Arc<Session> {
    Arc::new(Session::builder().ring(1 << 20).prepare_snapshots().start().expect("a session"))
}

/// For tests with panics: recorders hear of those of the whole process.
fn alone() -> std::sync::MutexGuard<'static, ()> {
    static ALONE: std::sync::Mutex<()> = std::sync::Mutex::new(());
    ALONE.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

fn names_in(folder: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(folder).expect("the folder");
    let mut names: Vec<_> =
        entries.map(|entry| entry.expect("an entry").file_name().into_string().expect("a name")).collect();
    names.sort();
    names
}

#[test]
fn a_panic_of_any_thread_leaves_a_trace_of_what_came_before() {
    let _alone = alone();
    let (session, folder) = (session(), folder("panic"));
    let recorder = FlightRecorder::new(&session, &folder).expect("a recorder");
    recorder.on_panic();
    let events = session.recorder();
    let thread = std::thread::spawn(move || {
        let _slice = events.enter("doomed");
        events.with(|_| panic!("in the midst of an event"));
    });
    assert!(thread.join().is_err());
    let trace = Trace::read(&find(&folder, "panic", 1).expect("a trace"));
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
    // Before it there may be the begin of a slice that ended in the next chunk, which needs none.
    let flags = packets.iter().find_map(|packet| number(packet, 13));
    assert_eq!(flags, Some(3), "a state comes before all that needs it");
}

#[cfg(unix)]
#[test]
fn a_storm_of_signals_leaves_whole_traces_of_the_number_to_keep() {
    let (session, folder) = (session(), folder("signals"));
    let recorder = FlightRecorder::new(&session, &folder).expect("a recorder").keep(3);
    let recorder = recorder.least_interval(Duration::ZERO);
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
fn the_newest_files_of_all_runs_are_kept_and_those_of_others_are_left_alone() {
    // On Windows, the folder of a test that was built elsewhere has no drive letter.
    let folder = std::path::absolute(folder("runs")).expect("a path");
    let others = ["panic-0.pftrace", "20261128T163739.123456Z.x.panic-1.pftrace", "panic.txt"];
    for name in others {
        std::fs::write(folder.join(name), "somebody else's").expect("a file");
    }
    let run = || {
        // Each run is a program that writes one of each.
        let session = session();
        let recorder = FlightRecorder::new(&session, &folder).expect("a recorder").keep(3);
        ["panic", "by hand"].map(|reason| {
            let path = recorder.snapshot(reason).expect("a snapshot");
            assert!(path.exists() && path == find_newest(&folder, reason));
            assert_eq!(recorder.status().last.as_deref(), Some(&*path));
            path
        })
    };
    let runs: Vec<_> = (0..12).map(|_| run()).collect();
    let mut expected: Vec<_> = runs[9..].concat();
    expected.extend(others.map(|name| folder.join(name)));
    expected.sort();
    assert_eq!(names_in(&folder).iter().map(|name| folder.join(name)).collect::<Vec<_>>(), expected);
    for path in others.map(|name| folder.join(name)) {
        assert_eq!(std::fs::read(&path).expect("it is there"), b"somebody else's");
        // The others in the folder are traces.
        std::fs::remove_file(path).expect("it is there");
    }
}

fn find_newest(folder: &Path, reason: &str) -> PathBuf {
    let of_reason = |name: &String| name.ends_with(&format!(".{reason}-1.pftrace"));
    folder.join(names_in(folder).into_iter().rfind(of_reason).expect("a trace"))
}

#[test]
fn two_recorders_of_one_folder_never_take_the_same_name() {
    let (session, folder) = (session(), folder("two"));
    let recorders = [0, 1].map(|_| FlightRecorder::new(&session, &folder).expect("a recorder").keep(100));
    std::thread::scope(|scope| {
        for recorder in &recorders {
            scope.spawn(|| (0..20).for_each(|_| drop(recorder.snapshot("panic").expect("a snapshot"))));
        }
    });
    assert_eq!(names_in(&folder).len(), 40);
}

#[test]
fn a_file_s_name_has_its_time_and_its_process() {
    let (session, folder) = (session(), folder("name"));
    let recorder = FlightRecorder::new(&session, &folder).expect("a recorder");
    let path = recorder.snapshot("by hand").expect("a snapshot");
    let name = path.file_name().expect("a name").to_str().expect("a text");
    let (time, rest) = name.split_at(name.find("Z.").expect("a time in UTC") + 2);
    let program = std::env::current_exe().expect("a program");
    let program = program.file_stem().expect("a name").to_str().expect("a text");
    assert!(rest.starts_with(program), "{rest}");
    assert!(rest.ends_with(&format!("-{}.by hand-1.pftrace", std::process::id())), "{rest}");
    // As `date -u` has it.
    assert!(time.len() == 24 && time.starts_with("20") && time.as_bytes()[8] == b'T', "{time}");
    assert!(recorder.status().losses.is_nothing());
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
    assert_eq!(find(&folder, "late frame", 1), None, "its time has not come");
    let trace = Trace::read(&wait_for(&folder, "late frame", 1));
    assert!(["before it", "late frame", "after it"].iter().all(|name| trace.contains(name)));
    assert_eq!(recorder.status().merged, 1, "both are in one trace");
    assert_eq!(names_in(&folder).len(), 1);
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
        assert!(Trace::read(&find(&folder, name, 1).expect("a trace")).contains(name));
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
    assert!(find(&folder, "p", 1).is_some(), "the first are there");
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
    let trace = Trace::read(&wait_for(&folder, "window", 1));
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
    let why = if cfg!(unix) { "No such file" } else { "" };
    assert!(error.contains(&format!(".x-1.pftrace: cannot be written: {why}")), "{error}");
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

#[test]
fn a_session_that_is_dropped_while_a_snapshot_is_written_ends() {
    let folder = folder("dropped");
    let session = Session::builder().ring(16 << 20).shared_memory(4 << 20).start().expect("a session");
    let session = Arc::new(session);
    let recorder = FlightRecorder::new(&session, &folder).expect("a recorder");
    let events = session.recorder();
    while session.summary().expect("it runs").buffers[0].write_wrap_count == 0 {
        (0..10_000).for_each(|_| events.instant("event"));
    }
    recorder.trigger("slow", Duration::ZERO);
    let part = || names_in(&folder).into_iter().find(|name| name.ends_with(".part"));
    let start = Instant::now();
    while part().is_none() {
        assert!(start.elapsed() < Duration::from_secs(20), "it is being written");
        std::thread::sleep(Duration::from_millis(1));
    }
    drop(session);
    assert!(!events.is_on());
    assert!(part().is_some(), "nothing has waited for it");
    drop(recorder);
    let path = find(&folder, "slow", 1).expect("all of it is written nevertheless");
    assert!(std::fs::metadata(path).expect("a file").len() > 8 << 20);
    std::fs::remove_dir_all(&folder).expect("it is there");
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
