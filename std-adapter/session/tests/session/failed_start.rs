//! Sessions that do not start: what their files held is still there.
#![cfg(unix)]

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use tracebuf_analysis::recover::{Dump, Place, Survivor};
use tracebuf_session::{BufferConfig, LongTrace, Session, SessionBuilder};
use tracebuf_testing::trace::{Trace, folder};

fn ring(path: &Path) -> BufferConfig {
    BufferConfig::ring(1 << 20).in_file(path)
}

/// A buffer in a file, with one event in it.
fn leave(path: &Path, event: &'static str) {
    let session = Session::builder().buffer(ring(path)).start().expect("a session");
    session.recorder().instant(event);
    session.flush(Duration::from_secs(5)).expect("a flush");
}

/// A folder with what two sessions left: the second one's, then the first one's.
fn two_crashes(name: &str) -> (PathBuf, PathBuf, PathBuf) {
    let folder = folder(name);
    let (region, previous) = (folder.join("x.region"), folder.join("x.region.previous"));
    leave(&region, "first crash");
    leave(&region, "second crash");
    (folder, region, previous)
}

fn holds(path: &Path, event: &str) -> bool {
    let out = path.with_extension("pftrace");
    Survivor::open(path).expect("a buffer").write_to(&out).expect("a trace");
    let found = Trace::read(&out).contains(event);
    std::fs::remove_file(out).expect("it was written");
    found
}

fn assert_fails(builder: SessionBuilder, why: &str) {
    let error = builder.start().expect_err("an error").to_string();
    assert!(error.contains(why), "{error}");
}

/// Names of what lies in a folder.
fn names(folder: &Path) -> Vec<String> {
    let files = std::fs::read_dir(folder).expect("the folder");
    let name = |file: std::io::Result<std::fs::DirEntry>| file.expect("a file").file_name();
    let mut names: Vec<_> = files.map(name).map(|name| name.to_string_lossy().into_owned()).collect();
    names.sort();
    names
}

#[test]
fn a_buffer_s_file_is_as_it_was_and_the_one_before_it_too_if_the_rest_fails() {
    let (folder, region, previous) = two_crashes("failed rest");
    for _ in 0..3 {
        let builder = || Session::builder().buffer(ring(&region));
        assert_fails(builder().shared_memory(100), "shared memory");
        assert_fails(builder().long_trace(LongTrace::to(folder.join("none/x"))), "none/x");
        assert_fails(builder().buffer(ring(&folder.join("none/x"))), "none/x");
        assert!(holds(&region, "second crash") && holds(&previous, "first crash"));
    }
    leave(&region, "third crash");
    assert!(holds(&region, "third crash") && holds(&previous, "second crash"));
    assert_eq!(names(&folder), ["x.region", "x.region.previous"], "and the first crash is gone");
}

#[test]
fn what_a_killed_start_left_keeps_no_other_from_starting_and_takes_no_crash_s_place() {
    let (folder, region, previous) = two_crashes("killed start");
    let begun = [b"TRACENEW".to_vec(), vec![0; 4096], b"clocks".to_vec()].concat();
    for left in [vec![], vec![0; 64 << 10], begun] {
        std::fs::write(&region, &left).expect("a file");
        leave(&region, "a new one");
        assert!(holds(&region, "a new one") && holds(&previous, "first crash"), "after {} bytes", left.len());
    }
    // Killed after it had moved the one before the last, but not yet the last.
    std::fs::rename(&previous, folder.join("x.region.previous.previous")).expect("a crash");
    assert_fails(Session::builder().buffer(ring(&region)).buffer(ring(&folder.join("none/x"))), "none/x");
    assert!(holds(&region, "a new one") && holds(&previous, "first crash"));
    let mut somebody_s = vec![0; 64 << 10];
    somebody_s.push(1);
    std::fs::write(&region, &somebody_s).expect("a file");
    assert_fails(Session::builder().buffer(ring(&region)), "no session made");
    assert_eq!(std::fs::read(&region).expect("it is there"), somebody_s);
}

#[test]
fn a_start_that_is_killed_in_between_costs_no_crash_and_leaves_nothing() {
    let (folder, region, previous) = two_crashes("killed between");
    // All zeros, as what a killed start left may be: it is read to its end, which takes long enough.
    let endless = std::fs::File::create(folder.join("endless")).expect("a file");
    endless.set_len(1 << 42).expect("a file without blocks");
    let killed_start = |megabytes: usize| {
        let mut child = Command::new(std::env::current_exe().expect("this program"))
            .args(["failed_start::start_that_hangs", "--exact", "--ignored"])
            .env("TRACEBUF_CHILD_FOLDER", &folder)
            .env("TRACEBUF_CHILD_RING", (megabytes << 20).to_string())
            .spawn()
            .expect("a child");
        // The file's length shows that it is the child's; once the buffer in it is made, the start goes on to the
        // endless one.
        let is_made = || {
            let there = std::fs::read(&region).unwrap_or_default();
            there.len() >> 20 == megabytes && there.get(4096..4100) == Some(b"TBUF")
        };
        let start = Instant::now();
        while !is_made() && start.elapsed() < Duration::from_secs(60) {
            std::thread::sleep(Duration::from_millis(5));
        }
        child.kill().expect("a kill");
        child.wait().expect("its end");
        assert!(is_made(), "it makes the file");
    };
    for crash in ["second crash", "third crash"] {
        for megabytes in [2, 3] {
            killed_start(megabytes);
            assert!(holds(&previous, crash));
        }
        let error = Survivor::open(&region).expect_err("an error").to_string();
        assert!(error.contains("no file of a buffer"), "{error}");
        assert!(error.ends_with(&format!("what was there before is in {}", previous.display())), "{error}");
        let file = std::fs::read(&region).expect("a file");
        let dump = Dump::parse(&file).expect("bytes");
        assert!(dump.find(Place::Anywhere).is_err(), "nor is there a buffer in it");
        assert_fails(Session::builder().buffer(ring(&region)).buffer(ring(&folder.join("none/x"))), "none/x");
        assert!(holds(&previous, crash));
        leave(&region, "third crash");
        assert!(holds(&region, "third crash") && holds(&previous, crash));
        assert_eq!(names(&folder), ["endless", "x.region", "x.region.previous"]);
    }
}

#[test]
#[ignore = "the process that the test before it kills"]
fn start_that_hangs() {
    let Ok(folder) = std::env::var("TRACEBUF_CHILD_FOLDER") else { return };
    let folder = Path::new(&folder);
    let ring_size = std::env::var("TRACEBUF_CHILD_RING").expect("bytes").parse().expect("a number");
    let new = BufferConfig::ring(ring_size).in_file(folder.join("x.region"));
    let builder = Session::builder().buffer(new);
    let _ = builder.buffer(ring(&folder.join("endless"))).start();
}

#[test]
fn a_buffer_s_file_is_put_back_if_another_buffer_has_none() {
    let folder = folder("failed buffer");
    let (region, new) = (folder.join("x.region"), folder.join("new.region"));
    leave(&region, "crash");
    for _ in 0..3 {
        let builder = Session::builder().buffer(ring(&region)).buffer(ring(&new));
        assert_fails(builder.buffer(ring(&folder.join("none/x"))), "none/x");
        assert!(holds(&region, "crash"));
        assert_eq!(names(&folder), ["x.region"], "and nothing else is left");
    }
    assert_fails(
        Session::builder().buffer(BufferConfig::ring(8).in_file(&region)),
        "buffer 0 of the session",
    );
    assert!(holds(&region, "crash"));
}

#[test]
fn where_a_link_has_the_name_of_a_buffer_s_file_its_target_is_the_file() {
    let folder = folder("linked");
    let (link, target, beside) = (folder.join("link"), folder.join("disk/x.region"), folder.join("disk"));
    std::fs::create_dir(&beside).expect("a folder");
    std::os::unix::fs::symlink("disk/x.region", &link).expect("a link");
    let assert_is_link = || {
        assert!(std::fs::symlink_metadata(&link).expect("it is there").is_symlink());
        assert_eq!(names(&folder), ["disk", "link"]);
    };
    // A link that leads nowhere, one to an empty file, and one to what an earlier session left.
    leave(&link, "first crash");
    assert_is_link();
    assert!(holds(&target, "first crash"));
    std::fs::write(&target, "").expect("a file");
    leave(&link, "second crash");
    assert_is_link();
    assert!(holds(&target, "second crash"));
    leave(&link, "third crash");
    assert_is_link();
    assert!(holds(&target, "third crash") && holds(&beside.join("x.region.previous"), "second crash"));
    assert_fails(Session::builder().buffer(ring(&link)).shared_memory(100), "shared memory");
    assert_fails(Session::builder().buffer(ring(&link)).buffer(ring(&folder.join("none/x"))), "none/x");
    assert_is_link();
    assert!(holds(&target, "third crash"));
    assert_eq!(names(&beside), ["x.region", "x.region.previous"]);
}

#[test]
fn a_buffer_s_file_is_as_it_was_if_no_more_files_can_be_opened() {
    let (_, region, previous) = two_crashes("failed lock");
    let child = Command::new("sh")
        .args(["-c", "ulimit -n 64; exec \"$0\" \"$@\""])
        .arg(std::env::current_exe().expect("this program"))
        .args(["failed_start::starts_with_few_open_files", "--exact", "--ignored", "--nocapture"])
        .env("TRACEBUF_CHILD_REGION", &region)
        .output()
        .expect("a child");
    assert!(child.status.success(), "{child:?}");
    assert!(holds(&previous, "second crash"), "it started in the end");
}

#[test]
#[ignore = "run with a limit by the test before it"]
fn starts_with_few_open_files() {
    let Ok(region) = std::env::var("TRACEBUF_CHILD_REGION") else { return };
    let start = || Session::builder().buffer(ring(region.as_ref())).start().err().map(|why| why.to_string());
    let previous = format!("{region}.previous");
    let contents = || [&region, &previous].map(|path| std::fs::read(path).expect("a file"));
    let before = contents();
    let mut files: Vec<_> = std::iter::from_fn(|| std::fs::File::open("/dev/null").ok()).collect();
    // Descriptors for no file; then for the buffer's, but not for its lock's.
    for _ in 0..2 {
        let error = start().expect("an error");
        assert!(error.contains("open files"), "{error}");
        files.pop();
        assert!(contents() == before, "both are as they were");
    }
    assert_eq!(start(), None, "two are enough");
}

#[test]
fn a_long_trace_is_emptied_only_by_a_session_that_starts() {
    let folder = folder("failed trace");
    let (long, new) = (folder.join("long.pftrace"), folder.join("new.pftrace"));
    std::fs::write(&long, "an earlier trace").expect("a file");
    let into = |path: &Path| Session::builder().long_trace(LongTrace::to(path));
    for path in [&long, &new] {
        assert_fails(into(path).buffer(ring(&folder.join("none/x"))), "none/x");
        assert_fails(into(path).shared_memory(100), "shared memory");
    }
    assert_eq!(std::fs::read(&long).expect("it is there"), b"an earlier trace");
    assert_eq!(names(&folder), ["long.pftrace"], "the new one is gone");
    let link = folder.join("link");
    std::os::unix::fs::symlink("new.pftrace", &link).expect("a link");
    assert_fails(into(&link).buffer(ring(&folder.join("none/x"))), "none/x");
    assert_eq!(names(&folder), ["link", "long.pftrace"], "that of a link too");
    into(&link).start().expect("a session").stop().expect("a stop");
    Trace::read(&new).assert_ends_with_stats();
    let session = into(&long).start().expect("a session");
    // It has the clocks of the start.
    assert!((1..200).contains(&Trace::read(&long).bytes.len()) && Trace::read(&long).packets().count() == 1);
    session.stop().expect("a stop");
    Trace::read(&long).assert_ends_with_stats();
}
