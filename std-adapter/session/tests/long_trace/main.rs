//! Long traces: kills at any moment, full disks, removed files, readers that stop, and the largest size.

mod kills;
#[cfg(target_os = "linux")]
mod pipes;
mod producers;
use tracebuf_testing::trace;
use tracebuf_testing::transport;

use std::io::ErrorKind;
use std::ops::RangeInclusive;
use std::path::Path;
use std::time::Duration;

use trace::{Trace, folder, message, scratch};
use tracebuf::producer::track_event::{Track, Unit};
use tracebuf_analysis::recover::Survivor;
use tracebuf_analysis::trace_stats::TraceReport;
use tracebuf_session::region_file::{check_is_free, create_if_free};
use tracebuf_session::{BufferConfig, LongTrace, LongTraceStatus, PacketWriter, Session};

static COUNTER: Track<'static> = Track::counter("events", Unit::Count);

fn quick(path: &Path) -> LongTrace {
    LongTrace::to(path).period(Duration::from_millis(10))
}

/// Waits for the file to get into a state; it is looked at every period.
fn wait_for(session: &Session, is: impl Fn(&LongTraceStatus) -> bool) -> LongTraceStatus {
    for _ in 0..1000 {
        let status = session.long_trace().expect("a long trace");
        if is(&status) {
            return status;
        }
        session.recorder().instant("meanwhile");
        std::thread::sleep(Duration::from_millis(10));
    }
    panic!("ten seconds are over: {:?}", session.long_trace());
}

#[test]
fn what_is_recorded_is_in_the_file_before_the_end_and_all_of_it_after() {
    let path = scratch("periods.pftrace");
    let session = Session::builder().long_trace(quick(&path)).start().expect("a session");
    session.recorder().instant("early");
    wait_for(&session, |_| Trace::read_cut(&path).contains("early"));
    let so_far = session.summary().expect("an answer").file.expect("a file");
    assert!(so_far.packets > 0 && so_far.bytes > 0, "{so_far:?}");
    session.recorder().instant("late");
    let stopped = session.stop().expect("a stop");
    let trace = Trace::read(&path);
    assert!(trace.contains("late"));
    assert_eq!(stopped.file.expect("a file").packets, trace.packets().count() as u64);
    assert_eq!(stopped.file.expect("a file").bytes, trace.bytes.len() as u64);
    assert_eq!(trace.losses(), 0);
    trace.assert_ends_with_stats();
}

#[test]
fn nothing_is_written_in_place_of_the_long_trace() {
    let (path, link) = (scratch("in its place.pftrace"), scratch("another name.pftrace"));
    let _ = std::fs::remove_file(&link);
    #[cfg(unix)]
    std::os::unix::fs::symlink(&path, &link).expect("a link");
    #[cfg(windows)] // Where not everybody may make such a link.
    std::fs::write(&path, "").and_then(|()| std::fs::hard_link(&path, &link)).expect("a link");
    let session = Session::builder().long_trace(quick(&path)).start().expect("a session");
    session.recorder().instant("hello");
    let why = "it is the file of the session's long trace";
    for path in [&path, &link] {
        let error = session.snapshot().expect("a snapshot").write_to(path).expect_err("it is in use");
        assert_eq!(error.to_string(), why);
    }
    let mut stopped = session.stop().expect("a stop");
    let before = Trace::read(&path).bytes;
    for path in [&path, &link] {
        assert_eq!(stopped.write_to(path).expect_err("it is complete").to_string(), why);
    }
    assert!(Trace::read(&path).contains("hello") && Trace::read(&path).bytes == before);
    std::fs::remove_file(&link).expect("it is there");
    stopped.write_to(&link).expect("another file");
}

#[cfg(unix)]
#[test]
fn of_a_device_there_is_nothing_to_lose() {
    let session = Session::builder().long_trace(quick("/dev/null".as_ref())).start().expect("a session");
    session.stop().expect("a stop").write_to("/dev/null").expect("it takes all");
}

#[test]
fn a_period_that_never_ends_leaves_all_to_the_end() {
    let path = scratch("one period.pftrace");
    let trace = LongTrace::to(&path).period(Duration::MAX);
    let session = Session::builder().long_trace(trace).start().expect("a session");
    session.recorder().instant("only");
    session.flush(Duration::from_secs(5)).expect("a flush");
    assert_eq!(Trace::read_cut(&path).bytes.len(), 0);
    session.stop().expect("a stop");
    assert!(Trace::read(&path).contains("only"));
}

/// Records until the file is full.
fn fill(session: &Session) {
    let recorder = session.recorder();
    while recorder.is_on() {
        (0..100).for_each(|_| recorder.instant("event"));
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// What a session that has filled its file has left there, within these sizes.
fn stop_full(session: &Session, path: &Path, sizes: RangeInclusive<usize>) -> Trace {
    let stopped = session.stop().expect("a stop");
    assert!(stopped.long_trace.is_some_and(|status| status.full && status.bytes_given_up == 0));
    let trace = Trace::read(path);
    assert!(sizes.contains(&trace.bytes.len()), "{} of {sizes:?}", trace.bytes.len());
    assert_eq!(stopped.file.expect("a file").packets, trace.packets().count() as u64);
    trace
}

#[test]
fn a_full_file_ends_with_its_statistics_and_the_session_records_no_more() {
    let path = scratch("full.pftrace");
    let trace = quick(&path).max_file_size(50_000);
    let session = Session::builder().long_trace(trace).start().expect("a session");
    fill(&session);
    let trace = stop_full(&session, &path, 45_000..=50_000);
    trace.assert_ends_with_stats();
    let report = TraceReport::of(&trace.bytes);
    assert!(report.has_losses() && report.to_string().contains("the file was full"), "{report}");
}

#[test]
fn more_writers_than_there_is_room_left_for_make_the_file_no_larger() {
    let path = scratch("many writers.pftrace");
    let session = Session::builder().shared_memory(4 << 20).long_trace(quick(&path).max_file_size(50_000));
    let session = session.start().expect("a session");
    let mut writers: Vec<_> = (0..900).map_while(|_| session.recorder().packet_writer()).collect();
    // for_testing.str
    let write = |writer: &mut PacketWriter, len| {
        writer.packet(|packet| packet.message(900).string(1, &"x".repeat(len)));
    };
    (0..30).for_each(|_| write(&mut writers[0], 1000));
    wait_for(&session, |status| status.bytes > 30_000);
    writers.iter_mut().for_each(|writer| write(writer, 1));
    stop_full(&session, &path, 30_000..=50_000).assert_ends_with_stats();
}

#[test]
fn a_file_may_be_too_small_for_anything() {
    let path = scratch("too small");
    for size in [0, 64, 400, 1000, 2000, 5000] {
        let session = Session::builder().long_trace(quick(&path).max_file_size(size));
        let session = session.start().expect("a session");
        fill(&session);
        let trace = stop_full(&session, &path, 0..=size as usize);
        if size >= 400 {
            trace.assert_ends_with_stats();
        }
    }
    std::fs::remove_file(&path).expect("the file is there");
}

#[test]
fn however_small_a_file_is_it_begins_with_the_clocks_by_which_its_buffer_knows_it() {
    let (path, region) = (scratch("small.pftrace"), scratch("small.region"));
    for (size, in_file) in (0..1600).step_by(100).flat_map(|size| [(size, false), (size, cfg!(unix))]) {
        let buffer = BufferConfig::ring(4 << 20);
        #[cfg(unix)]
        let buffer = if in_file { buffer.in_file(&region) } else { buffer };
        let session = Session::builder().buffer(buffer).long_trace(quick(&path).max_file_size(size));
        let session = session.start().expect("a session");
        fill(&session);
        let trace = stop_full(&session, &path, 0..=size as usize);
        let clock_snapshot = |packet| message(packet, 6);
        assert!(trace.packets().next().is_none_or(|first| clock_snapshot(first).is_some()), "{size}");
        // The clocks take some 100.
        assert!(size == 100 || trace.bytes.is_empty() == (size == 0), "{size}");
        if in_file {
            Survivor::open(&region).expect("a buffer").after(&path).expect("it is the buffer's trace");
        }
    }
}

#[cfg(target_os = "linux")]
#[test]
fn a_full_disk_is_told_while_it_is_full_and_at_the_end() {
    let session = Session::builder().long_trace(quick("/dev/full".as_ref())).start().expect("a session");
    session.recorder().instant("x");
    let status = wait_for(&session, |status| status.error.is_some());
    assert!(status.error.expect("an error").contains("No space left"), "and what it is");
    assert_eq!(status.bytes, 0);
    let stopped = session.stop().expect("a stop");
    let status = stopped.long_trace.expect("a status");
    assert!(status.error.is_some() && status.bytes_given_up > 0, "{status:?}");
}

#[cfg_attr(windows, ignore = "Wine 8 does not tell it")]
#[test]
fn a_removed_file_is_told() {
    let path = scratch("removed.pftrace");
    let session = Session::builder().long_trace(quick(&path)).start().expect("a session");
    wait_for(&session, |status| status.bytes > 0);
    std::fs::remove_file(&path).expect("the file is there");
    let status = wait_for(&session, |status| status.error.is_some());
    assert_eq!(status.error.as_deref(), Some("the file was removed"));
    assert!(session.stop().expect("a stop").long_trace.expect("a status").error.is_some());
}

#[cfg(unix)]
#[test]
fn a_file_that_somebody_else_cuts_is_told_to_the_end_and_goes_on_without_a_hole() {
    let path = scratch("cut.pftrace");
    let session = Session::builder().long_trace(quick(&path)).start().expect("a session");
    wait_for(&session, |status| status.bytes > 1000);
    // As `> cut.pftrace` does, or a tool that copies a log and then empties it.
    std::fs::File::create(&path).expect("the file is there");
    let status = wait_for(&session, |status| status.error.is_some());
    assert!(status.error.as_deref().is_some_and(|error| error.contains("somebody else changed the file")));
    session.recorder().instant("after it");
    let stopped = session.stop().expect("a stop");
    assert_eq!(stopped.long_trace.expect("a status").error, status.error);
    let trace = Trace::read(&path);
    assert!(trace.contains("after it"));
    trace.assert_ends_with_stats();
    let written = stopped.file.expect("a file");
    assert_eq!((written.bytes, written.packets), (trace.bytes.len() as u64, trace.packets().count() as u64));
}

#[test]
fn a_long_trace_is_one_session_s_until_that_has_stopped() {
    let long = folder("second").join("long.pftrace");
    let into = || Session::builder().long_trace(LongTrace::to(&long));
    let first = into().start().expect("a session");
    first.recorder().instant("first");
    let meanwhile = into().start().err().map(|error| error.to_string());
    let ring = Session::builder().start().expect("a session");
    let in_its_place = ring.snapshot().expect("a snapshot").write_to(&long).map_err(|error| error.kind());
    assert_eq!(in_its_place.expect_err("it is in use"), ErrorKind::ResourceBusy);
    assert_eq!(create_if_free(&long).expect_err("it is in use").kind(), ErrorKind::ResourceBusy);
    first.stop().expect("a stop");
    check_is_free(&long).expect("it is not in use any more");
    assert!(Trace::read(&long).contains("first"));
    let error = meanwhile.expect("an error");
    assert!(error.contains("long.pftrace") && error.contains("another session is using it"), "{error}");
    for event in ["second", "third"] {
        let next = into().start().expect("it is free");
        next.recorder().instant(event);
        // Dropping it has stopped it too.
        drop(next);
        let trace = Trace::read(&long);
        assert!(trace.contains(event) && !trace.contains("first"));
    }
}

#[test]
fn a_file_that_a_session_made_which_did_not_start_is_gone_and_one_that_was_there_is_as_it_was() {
    let folder = folder("not started");
    let (new, old) = (folder.join("new.pftrace"), folder.join("old.trace"));
    std::fs::write(&old, "an earlier trace").expect("a file");
    for path in [&new, &old] {
        // A table has at least four places.
        let session = Session::builder().buffer(BufferConfig::ring(1 << 20).sequences(3));
        assert!(session.long_trace(quick(path)).start().is_err());
    }
    assert!(!new.exists());
    assert_eq!(std::fs::read(&old).expect("it is there"), b"an earlier trace");
}

/// Where an open file can be kept from others.
#[cfg(windows)]
#[test]
fn nobody_else_writes_into_the_file_until_the_session_has_stopped() {
    let path = scratch("kept.pftrace");
    let session = Session::builder().long_trace(quick(&path)).start().expect("a session");
    wait_for(&session, |status| status.bytes > 1000);
    assert!(std::fs::File::create(&path).is_err());
    assert!(std::fs::OpenOptions::new().append(true).open(&path).is_err());
    assert!(session.stop().expect("a stop").long_trace.is_some_and(|status| status.error.is_none()));
    std::fs::File::create(&path).expect("it is free");
}
