//! Programs that are killed while a small ring in a file has long forgotten what their threads and tracks are called.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Barrier;
use std::thread::{self, sleep};
use std::time::{Duration, Instant};

use tracebuf::buffer::ReadOnlyTraceBuffer;
use tracebuf::producer::Exhaustion;
use tracebuf::producer::track_event::{Track, Unit};
use tracebuf_analysis::Trace;
use tracebuf_analysis::trace::{Fault, FaultKind};
use tracebuf_session::region_file::parse;
use tracebuf_session::{BufferConfig, Session};

use super::appended::run;
use crate::trace::folder;

const RING: u64 = 64 << 10;
/// Enough for all that was described to be gone.
const LAPS: u64 = 4;
const THREADS: u64 = 20;
const TRACKS: u64 = 50;

#[test]
#[ignore = "the process that the next test kills"]
fn recording_until_killed() {
    let Ok(folder) = std::env::var("TRACEBUF_CHILD_FOLDER") else { return };
    // SAFETY: by default its signal ends the process, should nothing else.
    unsafe { libc::alarm(100) };
    let folder = Path::new(&folder);
    let ring = BufferConfig::ring(RING).in_file(folder.join("x.region"));
    let mut builder = Session::builder().buffer(ring).keep_descriptions(64 << 10);
    if std::env::var("TRACEBUF_CHILD_SHARED").is_ok() {
        builder = builder.shared_memory_in_file();
    }
    let session = builder.exhaustion(Exhaustion::Stall).start().expect("a session");
    let names: Vec<_> = (0..TRACKS).map(|number| format!("counter {number}")).collect();
    let begun = Barrier::new(THREADS as usize);
    let on_their_way = &Barrier::new(THREADS as usize + 1);
    let work = &|number: u64| {
        let recorder = session.recorder();
        for track in (0..TRACKS).filter(|track| track % THREADS == number) {
            let counter = Track::counter(&names[track as usize], Unit::Count);
            (0..=track as i64).for_each(|value| recorder.count(&counter, value));
        }
        begun.wait();
        let some = || {
            (0..20).for_each(|_| recorder.slice("work", || ()));
            sleep(Duration::from_micros(100));
        };
        // Several chunks: one that waited for its processor would finish its first one after all laps.
        (0..50).for_each(|_| some());
        on_their_way.wait();
        loop {
            some();
        }
    };
    thread::scope(|scope| {
        for number in 0..THREADS {
            let named = thread::Builder::new().name(format!("worker {number}"));
            named.spawn_scoped(scope, move || work(number)).expect("a thread");
        }
        on_their_way.wait();
        let overwritten = || session.summary().expect("a summary").buffers[0].bytes_overwritten;
        let before = overwritten();
        while overwritten() - before < LAPS * RING {
            sleep(Duration::from_millis(10));
        }
        fs::write(folder.join("lapped"), "").expect("a file");
    });
}

/// Kills a program whose ring was lapped so often.
fn kill(folder: &Path, in_shared_memory: bool, random: u64) {
    for name in ["x.region", "x.region.previous", "lapped"] {
        let _ = fs::remove_file(folder.join(name));
    }
    let mut command = Command::new(std::env::current_exe().expect("this program"));
    command
        .args(["kept::recording_until_killed", "--exact", "--ignored"])
        .env("TRACEBUF_CHILD_FOLDER", folder)
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    if in_shared_memory {
        command.env("TRACEBUF_CHILD_SHARED", "1");
    }
    let mut child = command.spawn().expect("a child");
    let begun = Instant::now();
    while !folder.join("lapped").exists() && begun.elapsed() < Duration::from_secs(90) {
        sleep(Duration::from_millis(1));
    }
    sleep(Duration::from_micros(random % 30_000));
    child.kill().expect("SIGKILL");
    child.wait().expect("its end");
    assert!(folder.join("lapped").exists(), "it goes on until the ring is lapped");
}

#[test]
fn a_killed_program_s_ring_has_every_name_and_last_value_though_none_is_repeated_in_it() {
    let folder = folder("kept");
    let [region, out] = ["x.region", "out.pftrace"].map(|name| folder.join(name));
    let mut random = std::time::UNIX_EPOCH.elapsed().expect("after 1970").as_nanos() as u64 | 1;
    for round in 0..4 {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        kill(&folder, round % 2 == 1, random);
        let file = fs::read(&region).expect("a file");
        let ring = parse(&file).expect("no damage").expect("a buffer").region;
        // Not its bytes: what the end of a ring is too short for stays there for any number of laps.
        let (mut ring, _) = ReadOnlyTraceBuffer::attach_ended(ring).expect("a region");
        let (mut reader, mut packets) = (ring.read(), 0);
        while let Some(packet) = reader.next_packet() {
            let mut bytes = vec![0; packet.len()];
            packet.copy_to(&mut bytes).expect("room");
            let has = |name: &[u8]| bytes.windows(name.len()).any(|bytes| bytes == name);
            assert!(!has(b"worker") && !has(b"counter"), "the ring itself has forgotten them");
            packets += 1;
        }

        let (code, said) = run(&["recover".as_ref(), region.as_path(), "-o".as_ref(), out.as_path()]);
        assert_eq!(code, Some(0), "{said}");
        let (_, shown) = run(&["inspect".as_ref(), region.as_path()]);
        let kept = shown.lines().find(|line| line.starts_with("kept beside the ring: "));
        let kept = kept.unwrap_or_else(|| panic!("{shown}"));
        assert!(kept.contains("packets") && kept.ends_with(" bytes used of 65536"), "{kept}");
        // All of it: in what order they come depends on which thread was on when.
        let not_shown = (0..THREADS).find(|number| !shown.contains(&format!(": \"worker {number}\"")));
        assert_eq!(not_shown, None, "{shown}");
        let trace = Trace::open(&out).expect("a trace");
        // Of slices that were open when the ring's oldest packet was written, only the ends are there.
        let is_cut = |fault: &Fault| fault.kind == FaultKind::EndWithoutBegin;
        assert!(trace.faults().iter().all(is_cut), "{:?}", trace.faults());
        assert!(trace.faults().len() <= THREADS as usize);
        let names: Vec<_> = trace.tracks().map(|track| track.name().to_owned()).collect();
        (0..THREADS)
            .for_each(|number| assert!(names.contains(&format!("worker {number}")), "{number}: {names:?}"));
        let last = |counter: tracebuf_analysis::trace::Counter<'_>| {
            (counter.track().name().to_owned(), counter.points().last().map(|(_, value)| *value))
        };
        let counters: BTreeMap<_, _> = trace.counters().map(last).collect();
        for number in 0..TRACKS {
            assert_eq!(
                counters.get(&format!("counter {number}")),
                Some(&Some(number as f64)),
                "round {round}"
            );
        }
        // From the ring's oldest packet on, with its name, and with its time: they were on top of each other.
        let mut slices = BTreeMap::<String, Vec<u64>>::new();
        for slice in trace.slices() {
            assert_eq!(slice.name(), "work");
            slices.entry(slice.track().name().to_owned()).or_default().push(slice.begin());
        }
        // Both ends of each, but for those that are cut off.
        let count: usize = slices.values().map(Vec::len).sum();
        assert!(packets > 4000 && 2 * count >= packets - THREADS as usize, "{count} in {packets} packets");
        let times = slices.values().flatten();
        let (first, last) = (times.clone().min().expect("a time"), times.max().expect("a time"));
        assert!(slices.values().all(|begins| begins.is_sorted()) && last - first < 10_000_000_000);
    }
}
