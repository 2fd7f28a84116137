//! Files that no session is using.

use std::fs::File;
use std::io;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use crate::system::{is_locked, standard_output};

/// Fails if a session of this or another process is using the file; passes if that cannot be determined. To be called
/// before a file is emptied: a long trace would be lost, and a process whose buffer is in the file would end.
///
/// ```
/// use tracebuf_session::region_file::check_is_free;
/// use tracebuf_session::{LongTrace, Session};
///
/// let path = std::env::temp_dir().join(format!("doc-free-{}.pftrace", std::process::id()));
/// let session = Session::builder().long_trace(LongTrace::to(&path)).start()?;
/// assert!(check_is_free(&path).is_err());
/// session.stop()?;
/// check_is_free(&path)?;
/// # std::fs::remove_file(path)?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// [`ResourceBusy`](io::ErrorKind::ResourceBusy) if a session has it.
pub fn check_is_free(path: &Path) -> io::Result<()> {
    // Looked at first: opening a pipe waits for its other end.
    if !std::fs::metadata(path).is_ok_and(|there| there.is_file()) {
        return Ok(());
    }
    if is_locked(path) { Err(in_use()) } else { Ok(()) }
}

/// Creates a file, or empties the one that is there, unless a session is using it.
///
/// ```
/// let path = std::env::temp_dir().join(format!("doc-create-{}.svg", std::process::id()));
/// std::io::Write::write_all(&mut tracebuf_session::region_file::create_if_free(&path)?, b"<svg/>")?;
/// assert_eq!(std::fs::read(&path)?, b"<svg/>");
/// # std::fs::remove_file(path)?;
/// # Ok::<(), std::io::Error>(())
/// ```
///
/// # Errors
/// Those of [`check_is_free`], and what the file system says.
pub fn create_if_free(path: &Path) -> io::Result<File> {
    check_is_free(path)?;
    standard_output(path)?.map_or_else(|| File::create(path), Ok)
}

/// Why a file is refused.
pub fn in_use() -> io::Error {
    io::Error::new(io::ErrorKind::ResourceBusy, "another session is using it")
}

/// How long a file may be in use before a session has it. Whoever asks whether it is free, as [`check_is_free`] does,
/// has it for some microseconds, or longer where there are too few cores.
pub const ASKED: Duration = Duration::from_millis(50);

/// Takes a file, trying again for so long while it is [in use](in_use).
pub fn within<T>(patience: Duration, take: impl Fn() -> io::Result<T>) -> io::Result<T> {
    let start = Instant::now();
    loop {
        let is_last = start.elapsed() >= patience;
        match take() {
            Err(error) if error.kind() == io::ErrorKind::ResourceBusy && !is_last => {
                thread::sleep(Duration::from_millis(1));
            }
            taken => return taken,
        }
    }
}
