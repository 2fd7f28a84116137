//! What a snapshot says of its cause: the marks of panics, signals and triggers, in the events around them.

use std::collections::BTreeMap;

use super::*;
use tracebuf_analysis::Trace as Told;

/// An instant with its arguments, as texts, and the thread whose track it is on.
#[derive(Debug)]
struct Instant {
    name: String,
    args: BTreeMap<String, String>,
    thread: Option<String>,
}

fn instants(path: &Path) -> Vec<Instant> {
    let trace = Told::open(path).expect("a trace");
    assert!(trace.faults().is_empty(), "{:?}", trace.faults());
    let told = trace.instants().map(|instant| Instant {
        name: instant.name().to_owned(),
        args: instant.arguments().map(|(key, value)| (key.to_owned(), value.to_string())).collect(),
        thread: instant.track().thread_name().map(str::to_owned),
    });
    told.collect()
}

/// The only instant of this name.
fn instant(path: &Path, name: &str) -> Instant {
    let mut found: Vec<_> = instants(path).into_iter().filter(|instant| instant.name == name).collect();
    assert_eq!(found.len(), 1, "{name}: {found:?}");
    found.remove(0)
}

/// Whether a line of the log begins so.
fn is_logged(path: &Path, begin: &str) -> bool {
    Told::open(path).expect("a trace").logs().any(|line| line.text().starts_with(begin))
}

#[test]
fn a_panic_says_what_it_is_about_where_it_is_and_on_which_thread() {
    let _alone = alone();
    let (session, folder) = (session(), folder("panic says"));
    let recorder = FlightRecorder::new(&session, &folder).expect("a recorder");
    recorder.on_panic();
    recorder.on_panic();
    let (events, line) = (session.recorder(), line!() + 3);
    let body = move || {
        events.instant("root cause");
        panic!("config {} is missing", "main");
    };
    let thread = std::thread::Builder::new().name("worker 7".into()).spawn(body).expect("a thread");
    assert!(thread.join().is_err());
    assert_eq!((recorder.status().written, names_in(&folder).len()), (1, 1), "one, though asked for twice");
    let trace = find(&folder, "panic", 1).expect("a trace");
    let panic = instant(&trace, "panic");
    let place = format!("{}:{line}:9", file!());
    let expected = [("location", &*place), ("message", "config main is missing"), ("thread", "worker 7")];
    let told: Vec<_> = panic.args.iter().map(|(key, value)| (&**key, &**value)).collect();
    assert_eq!(told[told.len() - 3..], expected);
    assert_eq!(panic.thread.as_deref(), Some("worker 7"), "on that thread's track");
    let line = format!("thread 'worker 7' panicked at {place}: config main is missing");
    assert!(is_logged(&trace, &line));
    drop(recorder);
    // What it leaves behind does nothing.
    assert!(std::thread::spawn(|| panic!("afterwards")).join().is_err());
    assert_eq!(names_in(&folder).len(), 1);
}

#[test]
fn a_panic_that_says_nothing_is_marked_too() {
    let _alone = alone();
    let (session, folder) = (session(), folder("panic of a number"));
    let recorder = FlightRecorder::new(&session, &folder).expect("a recorder");
    recorder.on_panic();
    assert!(std::thread::spawn(|| std::panic::panic_any(7)).join().is_err());
    let trace = find(&folder, "panic", 1).expect("a trace");
    let panic = instant(&trace, "panic");
    assert_eq!(panic.args["message"], "a value that is no text");
    let thread = panic.args["thread"].strip_prefix("thread ").expect("a number for a name");
    assert!(thread.parse::<u32>().is_ok(), "{thread}");
}

#[test]
fn a_panic_within_an_event_is_marked_by_another_thread_and_spoils_nothing() {
    let _alone = alone();
    let (session, folder) = (session(), folder("panic within"));
    let recorder = FlightRecorder::new(&session, &folder).expect("a recorder");
    recorder.on_panic();
    let events = session.recorder();
    let body = move || {
        let panics = || events.instant_with("broken", |_| panic!("in the details"));
        assert!(std::panic::catch_unwind(std::panic::AssertUnwindSafe(panics)).is_err());
        events.instant("afterwards");
    };
    std::thread::Builder::new()
        .name("careless".into())
        .spawn(body)
        .expect("a thread")
        .join()
        .expect("no panic");
    let first = find(&folder, "panic", 1).expect("a trace");
    let panic = instant(&first, "panic");
    assert_eq!((&*panic.args["message"], &*panic.args["thread"]), ("in the details", "careless"));
    let later = recorder.snapshot("later").expect("a snapshot");
    assert_eq!(panic.thread.as_deref(), Some("tracebuf-panic"));
    assert_eq!(instant(&later, "afterwards").thread.as_deref(), Some("careless"));
}

#[test]
fn the_first_panic_stays_when_others_follow_and_the_newest_is_there_too() {
    let _alone = alone();
    let (session, folder) = (session(), folder("panics"));
    let recorder = FlightRecorder::new(&session, &folder).expect("a recorder");
    recorder.on_panic();
    let panics = |message: String| assert!(std::thread::spawn(move || panic!("{message}")).join().is_err());
    panics("root cause: config missing".into());
    (0..20).for_each(|number| panics(format!("follow-up {number}")));
    let status = recorder.status();
    assert!(status.written + status.suppressed >= 21 && status.suppressed > 0, "{status:?}");
    drop(recorder);
    let names = names_in(&folder);
    assert!((2..=8).contains(&names.len()), "{names:?}");
    let first = find(&folder, "panic", 1).expect("the first");
    assert_eq!(instant(&first, "panic").args["message"], "root cause: config missing");
    let newest = Trace::read(&folder.join(names.last().expect("a name")));
    assert!(newest.contains("follow-up 19"));
}

#[test]
fn threads_that_panic_at_the_same_time_do_not_each_write_a_snapshot() {
    let _alone = alone();
    let (session, folder) = (session(), folder("panics at once"));
    let recorder = FlightRecorder::new(&session, &folder).expect("a recorder");
    let recorder = recorder.least_interval(Duration::from_secs(60));
    recorder.on_panic();
    let barrier = std::sync::Barrier::new(8);
    std::thread::scope(|scope| {
        for thread in 0..8 {
            let barrier = &barrier;
            scope.spawn(move || {
                let panics = || {
                    barrier.wait();
                    panic!("{thread} of eight");
                };
                assert!(std::panic::catch_unwind(panics).is_err());
            });
        }
    });
    assert_eq!((recorder.status().written, recorder.status().suppressed), (2, 6));
    drop(recorder);
    let all = find(&folder, "panic", 3).expect("the last one, for the others");
    assert_eq!(instants(&all).iter().filter(|instant| instant.name == "panic").count(), 8);
}

#[test]
fn a_trigger_has_its_arguments_and_names_that_are_made_up_as_it_comes() {
    let (session, folder) = (session(), folder("arguments"));
    let recorder = FlightRecorder::new(&session, &folder).expect("a recorder");
    let (key, reason) = (format!("tenant {}", 5), format!("deadline of {}", "job"));
    recorder.trigger_with(&reason, Duration::ZERO, |event| event.arg("late_ms", 7).named_arg(&key, "acme"));
    let window = Duration::from_secs(1);
    recorder.trigger_window_with("window", window, Duration::ZERO, |event| event.arg("number", 3));
    let trace = wait_for(&folder, &reason, 1);
    let args = instant(&trace, &reason).args;
    assert_eq!(
        args.into_iter().collect::<Vec<_>>(),
        [("late_ms", "7"), ("tenant 5", "acme")].map(|(key, value)| (key.to_owned(), value.to_owned()))
    );
    let trace = wait_for(&folder, "window", 1);
    assert_eq!(instant(&trace, "window").args["number"], "3");
}

#[test]
fn of_triggers_that_share_a_snapshot_the_last_one_s_time_is_in_it_too() {
    let (session, folder) = (session(), folder("shared"));
    let recorder = FlightRecorder::new(&session, &folder).expect("a recorder");
    let (events, after) = (session.recorder(), Duration::from_millis(400));
    events.instant("long ago");
    std::thread::sleep(Duration::from_millis(200));
    recorder.trigger_window("slow", Duration::ZERO, after);
    std::thread::sleep(Duration::from_millis(250));
    recorder.trigger_window("slow", Duration::from_secs(60), after);
    std::thread::sleep(Duration::from_millis(250));
    events.instant("after the second one");
    let path = wait_for(&folder, "slow", 1);
    assert_eq!(instants(&path).iter().filter(|instant| instant.name == "slow").count(), 2);
    let trace = Trace::read(&path);
    assert!(trace.contains("after the second one") && trace.contains("long ago"));
    assert_eq!(recorder.status().merged, 1);
}

#[test]
fn a_handle_triggers_from_elsewhere_as_long_as_the_recorder_is_there() {
    let (session, folder) = (session(), folder("handle"));
    let recorder = FlightRecorder::new(&session, &folder).expect("a recorder");
    let handle = recorder.handle();
    let threads = handle.clone();
    std::thread::spawn(move || threads.trigger("elsewhere", Duration::MAX)).join().expect("no panic");
    drop(recorder);
    handle.trigger("too late", Duration::ZERO);
    assert_eq!(names_in(&folder).len(), 1);
    assert!(find(&folder, "elsewhere", 1).is_some());
}

#[test]
fn what_the_writers_have_lost_is_said_and_what_the_ring_has_overwritten_is_not() {
    let folder = folder("losses");
    let session = Session::builder().ring(64 << 10).shared_memory(4096).start().expect("a session");
    let session = Arc::new(session);
    let recorder = FlightRecorder::new(&session, &folder).expect("a recorder");
    let events = session.recorder();
    while session.summary().expect("it runs").buffers[0].chunks_overwritten == 0 {
        (0..10).for_each(|_| events.instant("event"));
        session.flush(Duration::from_secs(5)).expect("a flush");
    }
    if session.summary().expect("it runs").losses().packets_given_up == 0 {
        recorder.snapshot("overwritten").expect("a snapshot");
        assert_eq!(recorder.status().losses.to_string(), "nothing");
    }
    let lost = |tracer: &tracebuf_session::ThreadTracer<'_>| tracer.stats().writer.dropped;
    while events.with(lost) == Some(0) {
        (0..1000).for_each(|_| events.instant("event"));
    }
    recorder.snapshot("lost").expect("a snapshot");
    let told = recorder.status().losses.to_string();
    assert!(told.contains("given up by the writer") && !told.contains("overwritten"), "{told}");
}

#[cfg(unix)]
#[test]
fn a_signal_s_name_is_in_the_trace_and_two_recorders_write_a_file_each() {
    let (session, folder) = (session(), folder("signal says"));
    let recorders = [0, 1].map(|_| FlightRecorder::new(&session, &folder).expect("a recorder"));
    for recorder in &recorders {
        recorder.on_signals(&[libc::SIGURG]).expect("a handler");
    }
    // SAFETY: this process has handlers for it.
    unsafe { libc::kill(libc::getpid(), libc::SIGURG) };
    let start = std::time::Instant::now();
    while recorders.iter().any(|recorder| recorder.status().written == 0) {
        assert!(start.elapsed() < Duration::from_secs(10), "both write");
        std::thread::sleep(Duration::from_millis(1));
    }
    let [one, other] = recorders.each_ref().map(|recorder| recorder.status().last.expect("a file"));
    assert_ne!(one, other);
    for path in [one, other] {
        let signals: Vec<_> =
            instants(&path).into_iter().filter(|instant| instant.name == "SIGURG").collect();
        assert!(!signals.is_empty() && signals[0].args["signal"] == libc::SIGURG.to_string());
        assert!(is_logged(&path, "received SIGURG"));
    }
}
