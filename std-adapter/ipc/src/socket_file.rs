//! A socket with a path in the file system.

use std::fs::File;
use std::io::{self, ErrorKind};
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::link::{Link, SocketKind};
use tracebuf_session::SessionError;
use tracebuf_std::file_lock::lock_within;
use tracebuf_std::system::{FileId, id_in};

/// Others hold a folder's lock for some microseconds, one after the other; whoever holds it for longer has another use
/// for it.
const ONE_BY_ONE: Duration = Duration::from_millis(500);

/// A socket at a path, where others can connect until it is dropped; nothing accepts them yet.
#[derive(Debug)]
pub struct SocketFile {
    pub(crate) link: Link,
    /// Removed when this is dropped, unless another socket is there by then.
    path: PathBuf,
    file: FileId,
}

impl SocketFile {
    /// Listens at a path where nothing else does.
    ///
    /// # Errors
    /// Something listens there, or what the system says.
    pub fn bind(path: impl AsRef<Path>, kind: SocketKind) -> Result<Self, SessionError> {
        let path = path.as_ref();
        let bind = || {
            let link = listen(path, kind)?;
            let file = id_in(&path.symlink_metadata()?);
            // Programs that go into the background leave the folder that they were started in.
            Ok(Self { link, path: std::path::absolute(path)?, file })
        };
        bind().map_err(|error| SessionError::io(format!("the socket {}", path.display()), error))
    }
}

fn listen(path: &Path, kind: SocketKind) -> io::Result<Link> {
    match Link::listening(path, kind) {
        Err(error) if error.kind() == ErrorKind::AddrInUse => {
            let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
            let folder = File::open(folder.unwrap_or(Path::new("."))).ok();
            // A socket that is found left over may, by the time it is removed, have been replaced with another
            // process's.
            let _one_at_a_time = folder.as_ref().map(|folder| lock_within(ONE_BY_ONE, folder));
            // An ordinary file refuses connections too.
            if !path.symlink_metadata()?.file_type().is_socket() {
                return Err(io::Error::new(ErrorKind::AlreadyExists, "what is there is no socket"));
            }
            if Link::is_there(path).unwrap_or(true) {
                return Err(error);
            }
            std::fs::remove_file(path)?;
            Link::listening(path, kind)
        }
        other => other,
    }
}

impl Drop for SocketFile {
    fn drop(&mut self) {
        // In a child after a fork it belongs to another process.
        if self.link.is_here() && self.path.symlink_metadata().is_ok_and(|there| id_in(&there) == self.file) {
            let _ = std::fs::remove_file(&self.path);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Barrier;

    use super::*;

    #[test]
    fn of_several_that_replace_what_is_left_one_has_the_path() {
        let path = std::env::temp_dir().join(format!("tracebuf-socket-file-{}", std::process::id()));
        for round in 0..300 {
            // What a killed service leaves.
            drop(std::os::unix::net::UnixListener::bind(&path).expect("nobody has it"));
            let begin = Barrier::new(4);
            let bind = || {
                begin.wait();
                SocketFile::bind(&path, SocketKind::Messages).ok()
            };
            let bound: Vec<_> = std::thread::scope(|scope| {
                let threads: Vec<_> = (0..4).map(|_| scope.spawn(bind)).collect();
                threads.into_iter().filter_map(|thread| thread.join().expect("no panic")).collect()
            });
            assert_eq!(bound.len(), 1, "round {round}");
            drop(bound);
            assert!(!path.exists());
        }
    }
}
