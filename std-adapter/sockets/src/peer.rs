//! The process at the other end of a socket.
#![allow(unsafe_code, reason = "one call that `rustix` does not have in this form")]

use std::io;
use std::os::fd::{AsFd, AsRawFd};

/// Who has connected, or listens, as the system says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Peer {
    /// Its user.
    pub uid: u32,
    /// Its process; −1 if this process's namespace has no number for it: with a service in a container and a producer
    /// outside.
    pub pid: i32,
}

impl Peer {
    /// Nobody that the system knows.
    pub const UNKNOWN: Self = Self { uid: u32::MAX, pid: -1 };

    /// The one at the other end of this socket.
    ///
    /// # Errors
    /// It is no socket that is connected or listens.
    pub fn of(socket: impl AsFd) -> io::Result<Self> {
        // Not with `rustix`, whose process ids cannot be 0, which is what the system says where it has none.
        let mut peer = libc::ucred { pid: 0, uid: u32::MAX, gid: u32::MAX };
        let mut len = size_of::<libc::ucred>() as libc::socklen_t;
        // SAFETY: an open file, and this many bytes to be written, of a type that may have any value.
        let error = unsafe {
            let (socket, place) = (socket.as_fd().as_raw_fd(), (&raw mut peer).cast());
            libc::getsockopt(socket, libc::SOL_SOCKET, libc::SO_PEERCRED, place, &mut len)
        };
        match error {
            0 => Ok(Self { uid: peer.uid, pid: if peer.pid > 0 { peer.pid } else { -1 } }),
            _ => Err(io::Error::last_os_error()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_other_end_of_this_process_is_this_process() {
        let (one, _other) = std::os::unix::net::UnixStream::pair().expect("sockets");
        let this = Peer { uid: rustix::process::geteuid().as_raw(), pid: std::process::id() as i32 };
        assert_eq!(Peer::of(&one).ok(), Some(this));
        let file = std::fs::File::open("/dev/null").expect("it is there");
        assert!(Peer::of(&file).is_err());
    }
}
