//! Traces into pipes, whose readers stop or go away.

use std::io::Read;
use std::os::unix::fs::OpenOptionsExt;
use tracebuf_session::Session;

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
