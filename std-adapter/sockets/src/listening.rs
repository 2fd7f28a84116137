//! A socket at a path: [`Listening`].

use std::fs::File;
use std::io::{self, ErrorKind};
use std::os::fd::OwnedFd;
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, bind, listen, socket_with};
use tracebuf_std::file_lock::lock_within;
use tracebuf_std::system::{FileId, id_in};

/// Others hold a folder's lock for some microseconds, one after the other; whoever holds it for longer has another use
/// for it.
const ONE_BY_ONE: Duration = Duration::from_millis(500);

/// How data that is sent arrives.
#[derive(Clone, Copy, Debug)]
pub enum Kind {
    /// In messages, whole or not at all.
    Messages,
    /// As a stream of bytes.
    Stream,
}

/// A socket that listens, and its path.
#[derive(Debug)]
pub struct Listening {
    /// The socket.
    pub socket: OwnedFd,
    /// Where it is.
    pub path: SocketPath,
}

/// The path of a socket that this process has made.
#[derive(Debug)]
pub struct SocketPath {
    path: PathBuf,
    file: FileId,
}

impl SocketPath {
    /// Removes the socket's file, unless another one is there by now.
    pub fn remove(&self) {
        if self.path.symlink_metadata().is_ok_and(|there| id_in(&there) == self.file) {
            let _ = std::fs::remove_file(&self.path);
        }
    }
}

impl Listening {
    /// Listens at a path where nothing else does; so many may wait to be accepted. What a process that has ended left
    /// there is replaced.
    ///
    /// # Errors
    /// Something listens there ([`AddrInUse`](ErrorKind::AddrInUse)), or what the system says.
    pub fn at(path: impl AsRef<Path>, kind: Kind, backlog: i32) -> io::Result<Self> {
        let path = path.as_ref();
        let socket = match listening(path, kind, backlog) {
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
                if is_there(path).unwrap_or(true) {
                    return Err(io::Error::new(error.kind(), "a service listens there"));
                }
                std::fs::remove_file(path)?;
                listening(path, kind, backlog)?
            }
            other => other?,
        };
        let file = id_in(&path.symlink_metadata()?);
        // Programs that go into the background leave the folder that they were started in.
        Ok(Self { socket, path: SocketPath { path: std::path::absolute(path)?, file } })
    }
}

/// A socket that is not connected.
///
/// # Errors
/// What the system says.
pub fn socket(kind: Kind) -> io::Result<OwnedFd> {
    let kind = match kind {
        Kind::Messages => SocketType::SEQPACKET,
        Kind::Stream => SocketType::STREAM,
    };
    Ok(socket_with(AddressFamily::UNIX, kind, SocketFlags::CLOEXEC, None)?)
}

/// Connects to the socket that listens at this path. If too many have come and were not accepted, it waits until one is.
///
/// # Errors
/// Nobody listens there.
pub fn connect(path: impl AsRef<Path>, kind: Kind) -> io::Result<OwnedFd> {
    let (socket, address) = (socket(kind)?, SocketAddrUnix::new(path.as_ref())?);
    rustix::net::connect(&socket, &address)?;
    Ok(socket)
}

fn listening(path: &Path, kind: Kind, backlog: i32) -> io::Result<OwnedFd> {
    let socket = socket(kind)?;
    bind(&socket, &SocketAddrUnix::new(path)?)?;
    listen(&socket, backlog)?;
    Ok(socket)
}

/// Whether a process has a socket at this path, of whatever kind; what is left of one that has ended does not count.
fn is_there(path: &Path) -> io::Result<bool> {
    // Of a kind that no service listens with, so that none takes this for a newcomer.
    let socket = socket_with(AddressFamily::UNIX, SocketType::DGRAM, SocketFlags::CLOEXEC, None)?;
    match rustix::net::connect(&socket, &SocketAddrUnix::new(path)?) {
        Err(Errno::CONNREFUSED) => Ok(false),
        Ok(()) | Err(Errno::PROTOTYPE) => Ok(true),
        Err(error) => Err(error.into()),
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
                Listening::at(&path, Kind::Messages, 8).ok()
            };
            let bound: Vec<_> = std::thread::scope(|scope| {
                let threads: Vec<_> = (0..4).map(|_| scope.spawn(bind)).collect();
                threads.into_iter().filter_map(|thread| thread.join().expect("no panic")).collect()
            });
            let [one] = &bound[..] else { panic!("round {round}: {bound:?}") };
            one.path.remove();
            assert!(!path.exists());
        }
    }
}
