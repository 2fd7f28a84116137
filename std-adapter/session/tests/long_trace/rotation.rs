//! Traces that are cut into files: each by itself, and all of them together.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use tracebuf_analysis::Trace;
use tracebuf_session::{Exhaustion, LongTrace, Session, SyncPolicy};

use crate::trace::folder;

/// The files of this trace that are there, in their order.
pub(crate) fn files(folder: &Path) -> Vec<PathBuf> {
    let number = |path: &PathBuf| {
        path.file_stem()?
            .to_str()?
            .strip_prefix("long-")?
            .parse::<u64>()
            .ok()
            .map(|number| (number, path.clone()))
    };
    let entries = std::fs::read_dir(folder).expect("a folder").flatten().map(|entry| entry.path());
    entries.filter_map(|path| number(&path)).collect::<BTreeMap<_, _>>().into_values().collect()
}

/// Records so many slices within a slice that is open all the time, on two threads, some of it with pauses.
fn record(session: &Session, slices: u64) {
    std::thread::scope(|scope| {
        for thread in 0..2_u64 {
            let recorder = session.recorder();
            scope.spawn(move || {
                let _whole = recorder.enter_with("whole", |event| event.arg("thread", thread));
                for index in 0..slices {
                    recorder.slice_with("part", |event| event.arg("index", index), || ());
                    if index % 500 == 0 {
                        std::thread::sleep(Duration::from_millis(1));
                    }
                }
            });
        }
    });
}

/// Checks each file by itself; returns which slices of each thread are in them.
fn assert_each_opens(files: &[PathBuf]) -> BTreeMap<i64, Vec<i64>> {
    let mut seen = BTreeMap::<i64, Vec<i64>>::new();
    for path in files {
        let trace = Trace::open(path).expect("a trace");
        assert!(trace.faults().is_empty(), "{}: {:?}", path.display(), trace.faults());
        assert!(!trace.losses().has_losses(), "{}: {}", path.display(), trace.losses());
        assert!(trace.time_of_day(trace.events().next().map_or(0, |event| event.begin())).is_some());
        for slice in trace.slices().filter(|slice| slice.name() == "part") {
            // It is within the one that was open when the file began, of the right thread, with its arguments.
            let whole = slice.parent().expect("the slice around it");
            assert_eq!((whole.name(), whole.track()), ("whole", slice.track()));
            let argument = |event: &tracebuf_analysis::trace::Event<'_>, name: &str| {
                event.argument(name).and_then(|value| value.as_i64()).expect("an argument")
            };
            let indices = seen.entry(argument(&whole, "thread")).or_default();
            let index = argument(&slice, "index");
            // One that was open between two files begins in both.
            if indices.last() != Some(&index) {
                indices.push(index);
            }
        }
    }
    seen
}

#[test]
fn each_file_opens_by_itself_and_together_they_have_everything_once() {
    let folder = folder("by size");
    const SIZE: u64 = 200_000;
    for compressed in [false, cfg!(feature = "deflate")] {
        files(&folder).iter().for_each(|path| std::fs::remove_file(path).expect("it is there"));
        let trace = LongTrace::to(folder.join("long.pftrace"));
        let trace = trace.period(Duration::from_millis(10)).rotate_at_size(SIZE).sync(SyncPolicy::AtEnd);
        #[cfg(feature = "deflate")]
        let trace = if compressed { trace.compress(tracebuf_session::Compression::Deflate) } else { trace };
        let session =
            Session::builder().exhaustion(Exhaustion::Stall).long_trace(trace).start().expect("a session");
        let slices = if compressed { 120_000 } else { 15_000 };
        record(&session, slices);
        let stopped = session.stop().expect("a stop");
        let losses = stopped.summary().losses();
        assert!(losses.is_nothing(), "{losses}");
        let files = files(&folder);
        let status = stopped.long_trace.expect("a status");
        assert!(files.len() > 3 && status.files == files.len() as u64, "{status:?}");
        // Each was synced when it was complete.
        assert_eq!(status.syncs, status.files);
        let sizes: Vec<_> = files.iter().map(|path| std::fs::metadata(path).expect("a file").len()).collect();
        assert!(sizes.iter().all(|size| *size <= SIZE), "{sizes:?}");
        assert_eq!(sizes.iter().sum::<u64>(), status.bytes);
        let all: Vec<i64> = (0..slices as i64).collect();
        assert!(assert_each_opens(&files) == BTreeMap::from([(0, all.clone()), (1, all)]));
    }
}

#[test]
fn of_files_by_time_the_newest_stay_and_those_of_earlier_runs_go() {
    let folder = folder("by time");
    std::fs::write(folder.join("long-7.pftrace"), "of an earlier run").expect("a file");
    let trace = LongTrace::to(folder.join("long.pftrace")).period(Duration::from_millis(10));
    let trace = trace.rotate_every(Duration::from_millis(50)).keep_files(3);
    let session =
        Session::builder().exhaustion(Exhaustion::Stall).long_trace(trace).start().expect("a session");
    for _ in 0..40 {
        record(&session, 20);
        std::thread::sleep(Duration::from_millis(10));
    }
    let status = session.stop().expect("a stop").long_trace.expect("a status");
    assert!(status.files > 4, "{status:?}");
    let files = files(&folder);
    let newest = 7 + status.files;
    let expected = (newest - 2..=newest).map(|number| folder.join(format!("long-{number}.pftrace")));
    assert_eq!(files, expected.collect::<Vec<_>>());
    assert_each_opens(&files);
}

#[test]
fn all_files_together_have_no_more_bytes_than_they_may() {
    let folder = folder("by bytes");
    const BYTES: u64 = 400_000;
    let trace =
        LongTrace::to(folder.join("long.pftrace")).period(Duration::from_millis(10)).keep_bytes(BYTES);
    let session =
        Session::builder().exhaustion(Exhaustion::Stall).long_trace(trace).start().expect("a session");
    for _ in 0..20 {
        record(&session, 1000);
        let sizes =
            files(&folder).iter().filter_map(|path| Some(std::fs::metadata(path).ok()?.len())).sum::<u64>();
        assert!(sizes <= BYTES, "{sizes}");
    }
    session.stop().expect("a stop");
    let files = files(&folder);
    assert!(files.len() >= 3, "{files:?}");
    assert_each_opens(&files);
}
