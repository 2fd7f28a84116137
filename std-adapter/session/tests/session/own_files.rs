//! A session's files are not taken from it, and it neither takes another's nor waits for one.
#![cfg(unix)]

use std::io::{ErrorKind, Read};
use std::path::Path;
use std::sync::mpsc::channel;
use std::time::Duration;

use tracebuf_analysis::recover::Survivor;
use tracebuf_session::{BufferConfig, LongTrace, Session, SessionBuilder, SessionError, Written};
use tracebuf_testing::trace::{Trace, folder, mkfifo, scratch};

/// The time allowed for what takes some milliseconds, or for ever.
const PATIENCE: Duration = Duration::from_secs(30);

fn in_file(path: &Path) -> Result<Session, SessionError> {
    Session::builder().buffer(BufferConfig::ring(1 << 20).in_file(path)).start()
}

/// Chunks in the file of a buffer.
fn chunks(path: &Path) -> u64 {
    Survivor::open(path).expect("a buffer").salvage().chunks_kept.into()
}

#[test]
fn a_trace_cannot_take_the_place_of_the_file_of_one_of_the_session_s_buffers() {
    let folder = folder("own region");
    let (region, link, out) = (folder.join("region"), folder.join("link"), folder.join("out"));
    std::os::unix::fs::symlink(&region, &link).expect("a link");
    let session = in_file(&region).expect("a session");
    session.recorder().instant("precious");
    let refused = |result: std::io::Result<Written>| {
        let error = result.expect_err("it is the region's file").to_string();
        assert_eq!(error, "it is the file of a buffer of the session");
    };
    for path in [&region, &link] {
        refused(session.snapshot().expect("a snapshot").write_to(path));
    }
    let mut stopped = session.stop().expect("a stop");
    refused(stopped.write_to(&region));
    assert_eq!(chunks(&region), 1, "it is there still");
    stopped.write_to(&out).expect("what was refused can be written elsewhere");
    assert!(Trace::read(&out).contains("precious"));
}

#[test]
fn a_trace_cannot_take_the_place_of_a_file_that_another_session_is_using() {
    let folder = folder("another's");
    let [long, region] = ["long", "region"].map(|name| folder.join(name));
    let theirs = Session::builder().long_trace(LongTrace::to(&long));
    let theirs = theirs.buffer(BufferConfig::ring(1 << 20).in_file(&region)).start().expect("a session");
    theirs.recorder().instant("theirs");
    let ours = Session::builder().start().expect("a session");
    ours.recorder().instant("ours");
    for path in [&long, &region] {
        let error = ours.snapshot().expect("a snapshot").write_to(path).expect_err("it is theirs");
        assert_eq!(error.kind(), ErrorKind::ResourceBusy);
        // Nothing of the snapshot is lost either.
        let said = error.to_string();
        let part = said.strip_prefix("another session is using it; all of it is in ").expect("where it is");
        let (part, _) = part.split_once(", which could not be renamed").expect("where it is");
        assert!(Trace::read(Path::new(part)).contains("ours"));
    }
    theirs.stop().expect("a stop");
    let trace = Trace::read(&long);
    assert!(trace.contains("theirs") && !trace.contains("ours"));
    ours.snapshot().expect("a snapshot").write_to(&long).expect("nobody uses it any more");
    assert!(Trace::read(&long).contains("ours"));
}

#[test]
fn a_file_that_a_session_is_to_have_twice_is_an_error_that_says_for_what_it_has_it() {
    let folder = folder("own file twice");
    let (path, link) = (folder.join("file"), folder.join("link"));
    std::os::unix::fs::symlink(&path, &link).expect("a link");
    let in_link = |builder: SessionBuilder| {
        let error = builder.buffer(BufferConfig::ring(1 << 20).in_file(&link)).start().err();
        let error = error.expect("it is taken").to_string();
        assert!(std::fs::metadata(&path).is_err(), "nothing is left");
        error.split_once("link: ").expect("the file's name").1.to_owned()
    };
    let builder = Session::builder().long_trace(LongTrace::to(&path));
    assert_eq!(in_link(builder), "it is the file of the session's long trace");
    let builder = Session::builder().buffer(BufferConfig::ring(1 << 20).in_file(&path));
    assert_eq!(in_link(builder), "it is the file of a buffer of the session");
}

#[test]
fn a_start_does_not_move_nor_remove_what_another_session_has_by_the_name_of_a_previous_file() {
    for kept in ["x.previous", "x.previous.previous"] {
        let folder = folder(kept);
        let (new, theirs) = (folder.join("x"), folder.join(kept));
        drop(in_file(&new).expect("a session"));
        let other = in_file(&theirs).expect("a session");
        other.recorder().instant("of the other session");
        other.flush(PATIENCE).expect("a flush");
        for _ in 0..3 {
            let error = in_file(&new).expect_err("it would take that file's name");
            let said = error.to_string();
            assert!(said.contains(&format!("{kept}: another session is using it")), "{said}");
            let SessionError::Io { error, .. } = error else { panic!("{said}") };
            assert_eq!(error.kind(), ErrorKind::ResourceBusy);
            assert_eq!(chunks(&theirs), 1);
            assert!(new.exists(), "nor was anything else moved");
        }
        other.recorder().instant("goes on");
        other.flush(PATIENCE).expect("a flush");
        assert_eq!(chunks(&theirs), 1);
        drop(other);
        in_file(&new).expect("all are free");
    }
}

#[test]
fn a_pipe_that_nobody_reads_is_an_error_and_not_waited_for() {
    let path = scratch("unread.fifo");
    mkfifo(&path);
    let (tell, told) = channel();
    let to = path.clone();
    std::thread::spawn(move || tell.send(Session::builder().long_trace(LongTrace::to(to)).start().err()));
    let error =
        told.recv_timeout(PATIENCE).expect("a start that does not wait").expect("an error").to_string();
    assert!(error.contains("unread.fifo") && error.contains("nobody has opened the pipe to read"), "{error}");
    // If there is a reader, the session waits for it, however slow that is, as if it had always been there.
    let opened = path.clone();
    let reader = std::thread::spawn(move || {
        let (mut bytes, mut part) = (Vec::new(), [0; 16_384]);
        let mut pipe = std::fs::File::open(opened).expect("the reader's end");
        loop {
            match pipe.read(&mut part).expect("the pipe") {
                0 => return bytes,
                len => bytes.extend_from_slice(&part[..len]),
            }
            std::thread::sleep(Duration::from_millis(1));
        }
    });
    let mut start = std::iter::repeat_with(|| Session::builder().long_trace(LongTrace::to(&path)).start());
    let session = start.find_map(Result::ok).expect("the reader comes");
    (0..100_000).for_each(|_| session.recorder().instant("more than a pipe holds"));
    let status = session.stop().expect("a stop").long_trace.expect("a long trace");
    assert_eq!((status.error, status.bytes_given_up), (None, 0));
    let copy = scratch("read.pftrace");
    std::fs::write(&copy, reader.join().expect("the trace")).expect("a file");
    Trace::read(&copy).assert_ends_with_stats();
}

#[test]
fn a_buffer_s_file_whose_name_is_too_long_for_its_previous_ones_is_refused_the_first_time() {
    for (len, starts) in [(237, 3), (238, 0), (246, 0), (255, 0)] {
        let folder = folder("long names");
        let path = folder.join("n".repeat(len));
        let results: Vec<_> = (0..3).map(|_| in_file(&path).map(drop)).collect();
        assert_eq!(results.iter().filter(|result| result.is_ok()).count(), starts, "{len}: {results:?}");
        for error in results.into_iter().filter_map(Result::err) {
            assert!(error.to_string().contains("n.previous.previous: File name too long"), "{error}");
        }
        assert_eq!(std::fs::read_dir(&folder).expect("the folder").count(), starts.min(2));
    }
}
