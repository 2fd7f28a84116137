//! Descriptions and counters' values that outlive the ring, in sessions, flight recorders and files of a long trace.

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::path::Path;
use std::sync::{Arc, Barrier};
use std::time::Duration;

use tracebuf::proto::TracePackets;
use tracebuf::proto::reader::{messages, number};
use tracebuf_analysis::Trace;
use tracebuf_session::{Exhaustion, FlightRecorder, LongTrace, Session, SessionBuilder, Track, Unit};
use tracebuf_testing::trace::scratch;

const THREADS: u64 = 20;
const TRACKS: u64 = 50;
const RING: u64 = 64 << 10;

/// Names of counters, which live as long as the test.
fn names() -> Vec<String> {
    (0..TRACKS).map(|number| format!("counter {number}")).collect()
}

/// Has twenty threads write fifty counters between them, and then slices by turns until the ring has been lapped so
/// often, with more values of the counters if so wished. Then all of them are still there, and `then` is done.
fn lap<T>(session: &Session, laps: u64, goes_on: bool, then: impl FnOnce() -> T) -> T {
    const SLICES: u64 = 20;
    // A slice has some 22 bytes.
    let rounds = laps * RING / (22 * SLICES * THREADS);
    let (names, barrier) = (names(), Barrier::new(THREADS as usize + 1));
    let work = &|thread: u64| {
        let recorder = session.recorder();
        let own = (0..TRACKS).filter(|track| track % THREADS == thread);
        let counters = own.map(|track| (track as i64, Track::counter(&names[track as usize], Unit::Count)));
        let counters: Vec<_> = counters.collect();
        for (last, counter) in &counters {
            (0..=*last).for_each(|value| recorder.count(counter, value));
        }
        for _ in 0..rounds {
            barrier.wait();
            (0..SLICES).for_each(|_| recorder.slice("work", || ()));
            counters.iter().filter(|_| goes_on).for_each(|(last, counter)| recorder.count(counter, *last));
        }
        barrier.wait();
        barrier.wait();
    };
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            let named = std::thread::Builder::new().name(format!("worker {thread}"));
            named.spawn_scoped(scope, move || work(thread)).expect("a thread");
        }
        (0..=rounds).for_each(|_| _ = barrier.wait());
        // The workers end, or a failure would never be told.
        let result = catch_unwind(AssertUnwindSafe(|| {
            session.flush(Duration::from_secs(5)).expect("a flush");
            then()
        }));
        barrier.wait();
        result.unwrap_or_else(|panic| resume_unwind(panic))
    })
}

fn assert_all_is_told(trace: &Trace) {
    assert_all_is_named(trace);
    assert!(trace.slices().all(|slice| slice.name() == "work"));
    assert!(trace.slices().count() > 500);
}

fn assert_all_is_named(trace: &Trace) {
    assert!(trace.faults().is_empty(), "{:?}", trace.faults());
    let names: Vec<_> = trace.tracks().map(|track| track.name().to_owned()).collect();
    for thread in 0..THREADS {
        assert!(names.contains(&format!("worker {thread}")), "{thread}: {names:?}");
    }
    let points = |counter: tracebuf_analysis::trace::Counter<'_>| {
        (counter.track().name().to_owned(), counter.points().last().map(|(_, value)| *value))
    };
    let counters: BTreeMap<_, _> = trace.counters().map(points).collect();
    for (number, name) in names_and_numbers() {
        assert_eq!(counters.get(&name), Some(&Some(number as f64)), "{name}");
    }
}

fn names_and_numbers() -> impl Iterator<Item = (u64, String)> {
    (0..).zip(names())
}

fn ring() -> SessionBuilder {
    Session::builder().ring(RING).exhaustion(Exhaustion::Stall)
}

fn read(session: &Session, name: &str) -> Trace {
    let path = scratch(name);
    session.snapshot().expect("a snapshot").write_to(&path).expect("a file");
    Trace::open(&path).expect("a trace")
}

#[test]
#[ignore = "takes a minute unoptimized"]
fn a_ring_lapped_a_thousand_times_has_every_name_and_last_value() {
    let session = ring().keep_descriptions(64 << 10).start().expect("a session");
    let kept = lap(&session, 1000, false, || {
        let summary = session.summary().expect("a summary");
        let stats = &summary.buffers[0];
        assert!(stats.bytes_overwritten > 900 * RING, "{stats:?}");
        let kept = summary.kept[0].expect("it keeps");
        assert!(kept.aborts == 0 && kept.forgotten == 0 && kept.used <= 32 << 10, "{kept:?}");
        read(&session, "kept-thousand.pftrace")
    });
    assert_all_is_told(&kept);
}

#[test]
fn descriptions_that_are_not_repeated_leave_the_ring_to_events() {
    for (goes_on, percent) in [(false, 110), (true, 120)] {
        // The same events: a ring goes further back in time by as much as they take less of it.
        let [kept, repeated] = [true, false].map(|keeps| {
            let session = if keeps { ring().keep_descriptions(64 << 10) } else { ring() };
            let session = session.start().expect("a session");
            lap(&session, 50, goes_on, || {
                let counters = read(&session, "kept-more.pftrace").counters().count();
                // What is repeated may be overwritten all the same, where the drain thread comes late.
                let least = if keeps { TRACKS as usize } else { usize::from(goes_on) };
                assert!(counters >= least && (goes_on || counters == least), "{keeps} {goes_on} {counters}");
                session.summary().expect("a summary").buffers[0].bytes_written
            })
        });
        let further = (repeated as f64 / kept as f64 - 1.0) * 100.0;
        println!("{kept} bytes, and {repeated} if descriptions are repeated; counters go on: {goes_on}");
        println!("so the ring goes back {further:.1} % further");
        assert!(repeated * 100 > kept * percent, "{kept} bytes instead of {repeated}");
    }
}

#[test]
fn a_window_and_a_flight_recorder_have_them_too() {
    let session = Arc::new(ring().keep_descriptions(64 << 10).start().expect("a session"));
    let folder = scratch("kept-flight");
    let _ = std::fs::remove_dir_all(&folder);
    std::fs::create_dir_all(&folder).expect("a folder");
    let flight = FlightRecorder::new(&session, &folder).expect("a recorder");
    let (file, window) = lap(&session, 3, false, || {
        let file = flight.snapshot("test").expect("a file");
        let mut window = Vec::new();
        let snapshot = session.snapshot().expect("a snapshot").since(session.now() - 100_000);
        snapshot.write(&mut window).expect("memory");
        (file, window)
    });
    assert_all_is_told(&Trace::open(&file).expect("a trace"));
    let window = Trace::of(&window).expect("a trace");
    assert!(window.faults().is_empty(), "{:?}", window.faults());
    assert_eq!(window.counters().count(), TRACKS as usize);
}

#[cfg(unix)]
#[test]
fn of_a_ring_in_a_file_snapshots_have_them_and_it_repeats_nothing() {
    use tracebuf_analysis::recover::Survivor;
    use tracebuf_session::{BufferConfig, region_file::parse};

    let file = scratch("kept.region");
    let ring = BufferConfig::ring(RING).in_file(&file);
    let session = Session::builder().exhaustion(Exhaustion::Stall).buffer(ring).keep_descriptions(64 << 10);
    let session = session.start().expect("a session");
    let trace = lap(&session, 20, false, || {
        let kept = session.summary().expect("a summary").kept[0].expect("it keeps");
        assert!(kept.aborts == 0 && kept.forgotten == 0 && kept.memory == 64 << 10, "{kept:?}");
        let file = std::fs::read(&file).expect("the file");
        let ring = parse(&file).expect("no damage").expect("a buffer").region;
        assert!(!ring.windows(6).any(|bytes| bytes == b"worker"));
        read(&session, "kept-in-file.pftrace")
    });
    assert_all_is_told(&trace);
    // What is left of a session that has stopped is as whole.
    drop(session.stop().expect("a stop"));
    let left = scratch("kept-left.pftrace");
    Survivor::open(&file).expect("a buffer").write_to(&left).expect("a trace");
    let left = Trace::open(&left).expect("a trace");
    let names: Vec<_> = left.tracks().map(|track| track.name().to_owned()).collect();
    assert!((0..THREADS).all(|thread| names.contains(&format!("worker {thread}"))), "{names:?}");
    assert_eq!(left.counters().count(), TRACKS as usize);
}

#[test]
fn a_flight_recorder_beside_a_long_trace_has_them_though_they_left_by_its_file() {
    let trace = LongTrace::to(scratch("kept-beside.pftrace")).period(Duration::from_millis(10));
    // Of which half is in the file before the rest is full.
    let session = Session::builder().ring(4 * RING).shared_memory(96 << 10).exhaustion(Exhaustion::Stall);
    let session = Arc::new(session.long_trace(trace).keep_descriptions(64 << 10).start().expect("a session"));
    let folder = scratch("kept-beside");
    let _ = std::fs::remove_dir_all(&folder);
    std::fs::create_dir_all(&folder).expect("a folder");
    let flight = FlightRecorder::new(&session, &folder).expect("a recorder");
    let file = lap(&session, 20, false, || flight.snapshot("test").expect("a file"));
    let losses = session.summary().expect("a summary").losses();
    assert!(losses.is_nothing(), "{losses}");
    assert_all_is_told(&Trace::open(&file).expect("a trace"));
}

#[test]
fn each_file_of_a_long_trace_has_what_was_described_in_earlier_ones() {
    let folder = scratch("kept-files");
    let _ = std::fs::remove_dir_all(&folder);
    std::fs::create_dir_all(&folder).expect("a folder");
    let path = |number: usize| folder.join(format!("long-{number}.pftrace"));
    let trace =
        LongTrace::to(folder.join("long.pftrace")).period(Duration::from_millis(10)).rotate_at_size(RING);
    let session = Session::builder()
        .exhaustion(Exhaustion::Stall)
        .long_trace(trace)
        .keep_descriptions(64 << 10)
        .start()
        .expect("a session");
    lap(&session, 20, false, || ());
    let stopped = session.stop().expect("a stop");
    assert!(stopped.summary().losses().is_nothing(), "{}", stopped.summary().losses());
    let files = stopped.long_trace.expect("a long trace").files as usize;
    assert!(files > 10);
    for number in 2..files {
        let trace = Trace::open(path(number)).expect("a trace");
        assert!(!trace.losses().has_losses(), "file {number}");
        assert_all_is_named(&trace);
    }
}

/// Processes and threads by number, as the packets of a trace name them.
fn machine(path: &Path) -> (BTreeMap<u64, String>, BTreeMap<u64, String>) {
    let trace = std::fs::read(path).expect("a file");
    let (mut processes, mut threads) = (BTreeMap::new(), BTreeMap::new());
    let text =
        |of: &[u8], field| messages(of, field).map(String::from_utf8_lossy).collect::<Vec<_>>().join(" ");
    let packets = TracePackets::new(&trace).map(|packet| packet.expect("a packet"));
    for tree in packets.flat_map(|packet| messages(packet, 2)) {
        let all = messages(tree, 1);
        processes.extend(all.map(|process| (number(process, 1).expect("a number"), text(process, 3))));
        let all = messages(tree, 2);
        threads.extend(all.map(|thread| (number(thread, 1).expect("a number"), text(thread, 2))));
    }
    (processes, threads)
}

#[test]
fn a_machine_s_process_tree_that_was_overwritten_still_names_processes_and_threads() {
    let session = ring().keep_descriptions(64 << 10).start().expect("a session");
    let mut writer = session.recorder().packet_writer().expect("a writer");
    // As a machine's data source does: all at the start, and then what is new.
    for (name, tids) in [("first", 100..110), ("renamed", 105..106)] {
        writer.packet(|packet| {
            packet.varint(8, session.now());
            let mut tree = packet.message(2);
            for pid in [100, 200] {
                let mut process = tree.message(1);
                process.varint(1, pid);
                process.string(3, &format!("/bin/server-{pid}"));
                process.string(3, name);
            }
            for tid in tids.clone() {
                let mut thread = tree.message(2);
                thread.varint(1, tid);
                thread.string(2, &format!("{name} {tid}"));
                thread.varint(3, 100);
            }
        });
    }
    // And a program from before there were tracks.
    writer.packet(|packet| {
        let mut thread = packet.message(44);
        thread.varint(1, 300);
        thread.varint(2, 301);
        thread.string(5, "old");
    });
    session.flush(Duration::from_secs(5)).expect("a flush");
    let path = scratch("kept-machine.pftrace");
    lap(&session, 5, false, || session.snapshot().expect("a snapshot").write_to(&path).expect("a file"));
    let (processes, threads) = machine(&path);
    let name = |tid| format!("{} {tid}", if tid == 105 { "renamed" } else { "first" });
    assert_eq!(processes, [100, 200].map(|pid| (pid, format!("/bin/server-{pid} renamed"))).into());
    assert_eq!(threads, (100..110).map(|tid| (tid, name(tid))).collect());
    let trace = Trace::open(&path).expect("a trace");
    assert!(trace.tracks().any(|track| (track.tid(), track.thread_name()) == (Some(301), Some("old"))));
    assert_all_is_told(&trace);
}

#[test]
fn a_slow_memory_leak_of_threads_that_come_and_go_makes_room_for_those_that_are_there() {
    let session = ring().keep_descriptions(16 << 10).start().expect("a session");
    let recorder = session.recorder();
    for thread in 0..300 {
        let recorder = recorder.clone();
        let work = move || (0..100).for_each(|_| recorder.slice("short", || ()));
        let spawned = std::thread::Builder::new().name(format!("short {thread}")).spawn(work);
        spawned.expect("a thread").join().expect("no panic");
        (0..100).for_each(|_| recorder_of(&session));
    }
    session.flush(Duration::from_secs(5)).expect("a flush");
    let kept = session.summary().expect("a summary").kept[0].expect("it keeps");
    assert!(kept.forgotten > 100 && kept.aborts == 0 && kept.high_water <= 16 << 10, "{kept:?}");
    let trace = read(&session, "kept-leak.pftrace");
    assert!(trace.faults().is_empty(), "{:?}", trace.faults());
    let names: Vec<_> = trace.tracks().map(|track| track.name().to_owned()).collect();
    assert!(names.iter().any(|name| name == "short 299") && !names.iter().any(|name| name == "short 3"));
    let own = std::thread::current().name().expect("a test's name").to_owned();
    assert!(names.contains(&own), "{own}: {names:?}");
}

fn recorder_of(session: &Session) {
    session.recorder().slice("work", || ());
}
