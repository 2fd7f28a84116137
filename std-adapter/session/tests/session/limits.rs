//! What a session cannot be or do: an error, and nothing left half done.

use std::sync::Barrier;
use std::time::Duration;

use tracebuf_session::{BufferConfig, Session, SessionError};
use tracebuf_testing::trace::{Trace, scratch};

#[test]
fn impossible_sessions_are_errors() {
    let error = |builder: tracebuf_session::SessionBuilder| builder.start().expect_err("an error");
    let small_ring = || Session::builder().ring(64 << 10);
    let many = (0..33).fold(Session::builder(), |builder, _| builder.ring(64 << 10));
    for (builder, why) in [
        (many, "a session has 1 to 32 buffers, not 33"),
        (
            small_ring().ring(8),
            "buffer 1 of the session, 8 bytes, is too small: one chunk of a thread takes 2060",
        ),
        (small_ring().ring(1 << 32), "buffer 1 of the session, 4294967296 bytes, is too large: "),
        (
            Session::builder().ring(1 << 40).prepare_snapshots(),
            "buffer 0 of the session, 1099511627776 bytes, is too large: ",
        ),
        (small_ring().data_source("x", 1), "the data source x goes to buffer 1, and the last one is 0"),
        (small_ring().ring(4096).data_source("x", 0).data_source("x", 1), "the data source x is there twice"),
    ] {
        let error = error(builder).to_string();
        assert!(error.starts_with(why), "{error}");
    }
    for (bytes, can_be) in [(4095, false), (4096, true), (64 << 20, true), ((64 << 20) + 1, false)] {
        let error = Session::builder().shared_memory(bytes).start().err().map(|error| error.to_string());
        let why = format!("the session's shared memory, {bytes} bytes: it is 4 KiB to 64 MiB");
        assert_eq!(error, (!can_be).then_some(why));
    }
}

#[test]
fn the_smallest_buffer_holds_a_chunk_and_a_smaller_one_is_an_error() {
    for config in [BufferConfig::ring, BufferConfig::discard] {
        let start = |bytes| Session::builder().buffer(config(bytes)).start();
        let error = start(2048).expect_err("an error");
        let SessionError::SmallBuffer { buffer: 0, bytes: 2048, needed } = error else { panic!("{error}") };
        assert!(start(needed - 1).is_err());
        let session = start(needed).expect("a session");
        // Full chunks, each of which is sent before the next: the last one is there, or the first. The last is all of a
        // thread's: one that was full would leave a chunk with as few events as the length of their times would have it.
        for events in [400, 400, 60] {
            let record = || {
                session.recorder().with(|tracer| {
                    for _ in 0..events {
                        tracer.track().instant("event");
                    }
                });
            };
            std::thread::scope(|scope| scope.spawn(record).join()).expect("a thread that ends");
            session.flush(Duration::from_secs(5)).expect("a flush");
        }
        let path = scratch("smallest.pftrace");
        let mut stopped = session.stop().expect("a stop");
        stopped.write_to(&path).expect("a file");
        let malformed: u64 = stopped.summary().sequences.iter().map(|writer| writer.chunks_malformed).sum();
        assert_eq!((malformed, stopped.summary().buffers[0].chunks_refused), (0, 0));
        assert!(!stopped.summary().losses().is_nothing());
        assert!(Trace::read(&path).events(3) >= 60);
    }
}

#[test]
fn a_snapshot_that_cannot_be_written_is_an_error_and_leaves_nothing_behind_but_a_whole_trace() {
    let session = Session::builder().start().expect("a session");
    session.recorder().instant("x");
    let folder = scratch("folder");
    let _ = std::fs::remove_dir_all(&folder);
    std::fs::create_dir_all(folder.join("taken")).expect("a folder");
    let write = |path: &std::path::Path| session.snapshot().expect("a snapshot").write_to(path);
    let count = || std::fs::read_dir(&folder).expect("the folder").count();
    assert!(write(&folder.join("no such folder/x")).is_err());
    assert!(write("/".as_ref()).is_err());
    assert_eq!(count(), 1);
    let error = write(&folder.join("taken")).expect_err("a folder of that name").to_string();
    let mut entries = std::fs::read_dir(&folder).expect("the folder").map(|entry| entry.expect("one").path());
    let trace = entries.find(|path| path.is_file()).expect("the trace");
    assert!(error.contains(&trace.display().to_string()), "{error}");
    assert_eq!((Trace::read(&trace).events(3), count()), (1, 2));
}

#[cfg(target_os = "linux")]
#[test]
fn a_trace_of_which_a_part_went_into_a_file_that_was_not_completed_is_not_told_to_be_whole() {
    let session = Session::builder().start().expect("a session");
    session.recorder().instant("hello");
    let mut stopped = session.stop().expect("a stop");
    let path = scratch("elsewhere.pftrace");
    let _ = std::fs::remove_file(&path);
    let mut error = |path: &std::path::Path| stopped.write_to(path).expect_err("no file").to_string();
    // Nothing was read for this one.
    assert!(error("/nonexistent/trace.pftrace".as_ref()).contains("No such file"));
    assert!(error("/dev/full".as_ref()).contains("No space left"));
    assert!(error(&path).contains("it was read for a file"));
    assert!(!path.exists());

    let session = Session::builder().start().expect("a session");
    session.recorder().instant("hello");
    let mut stopped = session.stop().expect("a stop");
    stopped.write_to("/nonexistent/trace.pftrace").expect_err("no folder");
    stopped.write_to(&path).expect("a file");
    assert!(Trace::read(&path).contains("hello"));
}

#[test]
fn of_more_threads_than_a_table_of_256_has_places_for_each_is_in_the_trace() {
    const THREADS: usize = 300;
    let session = Session::builder().start().expect("a session");
    let (recorder, together) = (session.recorder(), Barrier::new(THREADS + 1));
    std::thread::scope(|scope| {
        for number in 0..THREADS {
            let (recorder, together) = (recorder.clone(), &together);
            let work = move || {
                recorder.instant("here");
                together.wait();
                together.wait();
            };
            let thread = std::thread::Builder::new().name(format!("t{number:03}"));
            thread.spawn_scoped(scope, work).expect("a thread");
        }
        // All have recorded, and none has ended.
        together.wait();
        session.flush(Duration::from_secs(5)).expect("a flush");
        together.wait();
    });
    let path = scratch("300 threads.pftrace");
    let mut stopped = session.stop().expect("a stop");
    assert_eq!(stopped.summary().buffers[0].chunks_refused, 0);
    stopped.write_to(&path).expect("a file");
    let trace = Trace::read(&path);
    assert_eq!(trace.events(3), THREADS);
    assert!((0..THREADS).all(|number| trace.contains(&format!("t{number:03}"))));
}
