//! Traces into pipes, whose readers stop or go away.

use std::cell::Cell;
use std::io::Read;
use std::os::unix::fs::OpenOptionsExt;
use std::time::Duration;

use tracebuf_analysis::recover::Survivor;
use tracebuf_session::{BufferConfig, LongTrace, Session};

use crate::trace::{Trace, mkfifo, scratch};
use crate::{COUNTER, quick, wait_for};

/// The reader leaves in the pipe what it has not read, and leaves the file's thread in the middle of a packet.
#[test]
fn a_pipe_s_next_reader_goes_on_where_the_one_before_has_gone_away() {
    let path = scratch("readers.fifo");
    mkfifo(&path);
    // Neither side waits for the other.
    let first = std::fs::OpenOptions::new().read(true).custom_flags(libc::O_NONBLOCK).open(&path);
    let mut first = first.expect("the reader's end");
    let session = Session::builder().long_trace(quick(&path)).start().expect("a session");
    (0..20_000).for_each(|value| session.recorder().count(&COUNTER, value));
    wait_for(&session, |_| rustix::io::ioctl_fionread(&first).expect("a pipe") > 60_000);
    let mut received = vec![0; 10_000];
    first.read_exact(&mut received).expect("it is full");
    drop(first);
    wait_for(&session, |status| status.error.is_some());
    let mut next = std::fs::File::open(&path).expect("the session has the other end");
    let rest = std::thread::spawn(move || {
        let mut bytes = Vec::new();
        next.read_to_end(&mut bytes).map(|_| bytes)
    });
    let written = session.stop().expect("a stop").file.expect("a file");
    received.extend(rest.join().expect("no panic").expect("the pipe"));
    let copy = scratch("readers.pftrace");
    std::fs::write(&copy, received).expect("a file");
    let trace = Trace::read(&copy);
    trace.assert_ends_with_stats();
    assert_eq!((written.bytes, written.packets), (trace.bytes.len() as u64, trace.packets().count() as u64));
}

/// The first slot of a buffer in a file is larger than the pipe, and the reader goes away when that is full: when the
/// other slot is free, or waits.
#[test]
fn a_session_whose_pipe_lost_its_reader_in_the_first_slot_ends() {
    for (both, stops) in [(false, true), (true, true), (false, false), (true, false)] {
        let (path, region) = (scratch("slot.fifo"), scratch("slot.region"));
        mkfifo(&path);
        let reader = std::fs::OpenOptions::new().read(true).write(true).open(&path);
        let mut reader = reader.expect("the reader's end");
        let buffer = BufferConfig::ring(1 << 20).in_file(&region);
        let trace = LongTrace::to(&path).period(Duration::MAX);
        let session = Session::builder().buffer(buffer).long_trace(trace).start().expect("a session");
        let count = Cell::new(0);
        wait_for(&session, |_| {
            (0..2000).for_each(|_| session.recorder().count(&COUNTER, count.replace(count.get() + 1)));
            let slots = std::fs::read(&region).expect("the file")[48] & 6;
            rustix::io::ioctl_fionread(&reader).expect("a pipe") > 60_000 && (!both || slots == 6)
        });
        let mut some = vec![0; 10_000];
        reader.read_exact(&mut some).expect("it is full");
        drop(reader);
        let (ended, end) = std::sync::mpsc::channel();
        std::thread::spawn(move || {
            if stops {
                session.stop().expect("a stop");
            }
            drop(session);
            ended.send(()).expect("it is waited for");
        });
        assert_eq!(end.recv_timeout(Duration::from_secs(30)), Ok(()), "{both} {stops}");
        // What the pipe has not taken can be recovered.
        Survivor::open(&region).expect("a buffer");
    }
}
