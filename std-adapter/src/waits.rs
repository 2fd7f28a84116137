//! Waits for files in use, silent lines and threads, and their limits.

use std::io::{self, ErrorKind};
use std::thread;
use std::time::{Duration, Instant};

/// The longest wait for a file that is in use. Looking whether it is free holds it too, for some microseconds, or
/// longer where there are too few cores.
pub(crate) const ASKED: Duration = Duration::from_millis(50);

/// The error for a file that is in use.
pub fn in_use() -> io::Error {
    io::Error::new(ErrorKind::ResourceBusy, "another session is using it")
}

/// Calls `take` until the file is no longer [in use](in_use), or until this time is over.
pub(crate) fn within<T>(patience: Duration, take: impl Fn() -> io::Result<T>) -> io::Result<T> {
    let start = Instant::now();
    loop {
        let is_last = start.elapsed() >= patience;
        match take() {
            Err(error) if error.kind() == ErrorKind::ResourceBusy && !is_last => {
                thread::sleep(Duration::from_millis(1));
            }
            taken => return taken,
        }
    }
}

/// The longest wait of a read for a line's next bytes.
pub const SILENCE: Duration = Duration::from_millis(200);

/// Returns true if a read ended only because nothing came for a while.
pub fn is_silence(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::Interrupted | ErrorKind::TimedOut | ErrorKind::WouldBlock)
}

/// Waits for a thread's end, unless it is this one: the last owner of a thing may be what its own thread belongs to.
pub fn join(thread: thread::JoinHandle<()>) {
    if thread.thread().id() != thread::current().id() {
        let _ = thread.join();
    }
}
