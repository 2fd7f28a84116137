//! One end of a connection: [`Link`].

use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use rustix::io::{Errno, retry_on_intr};
use rustix::net::sockopt::{Timeout, set_socket_timeout};
use rustix::net::{
    RecvFlags, SendFlags, Shutdown, SocketAddrUnix, SocketFlags, accept_with, connect, recv, send, shutdown,
};

use tracebuf_session::SessionError;
use tracebuf_sockets::{Peer, receive, send_some, socket};
use tracebuf_std::fork::ClosedInChildren;

pub use tracebuf_sockets::Kind as SocketKind;

/// A Unix socket, which is closed in children after a fork.
#[derive(Debug)]
pub(crate) struct Link(ClosedInChildren);

impl Link {
    /// One end of a connection, or what listens.
    pub(crate) fn of(socket: impl Into<OwnedFd>) -> Self {
        Self(ClosedInChildren::new(socket.into()))
    }

    #[cfg(test)]
    pub(crate) fn listening(path: &Path, kind: SocketKind) -> io::Result<Self> {
        Ok(Self::of(tracebuf_sockets::Listening::at(path, kind, 64)?.socket))
    }

    /// Connects to the socket that listens at this path. Only until the deadline: if too many have come and were not
    /// accepted, the system waits until one is.
    pub(crate) fn connected(path: &Path, kind: SocketKind, deadline: Instant) -> io::Result<Self> {
        let (link, address) = (Self::of(socket(kind)?), SocketAddrUnix::new(path)?);
        link.until(Timeout::Send, deadline, |socket| connect(socket, &address))?;
        Ok(link)
    }

    /// Makes a call that may have to wait, until the deadline, however many signals come meanwhile.
    fn until<T>(
        &self,
        what: Timeout,
        deadline: Instant,
        mut call: impl FnMut(&OwnedFd) -> Result<T, Errno>,
    ) -> io::Result<T> {
        let socket = self.0.get()?;
        let result = loop {
            let left = deadline.saturating_duration_since(Instant::now());
            // A timeout of zero would be for ever.
            set_socket_timeout(socket, what, Some(left.max(Duration::from_micros(1))))?;
            match call(socket) {
                Err(Errno::INTR) if !left.is_zero() => {}
                Err(Errno::INTR | Errno::AGAIN) => break Err(Errno::TIMEDOUT),
                other => break other,
            }
        };
        set_socket_timeout(socket, what, None)?;
        Ok(result?)
    }

    /// The next connection, until the deadline if there is one. An error once this was [shut](Self::shut).
    pub(crate) fn accept(&self, deadline: Option<Instant>) -> io::Result<Self> {
        let accept = |socket: &OwnedFd| accept_with(socket, SocketFlags::CLOEXEC);
        let socket = match deadline {
            None => {
                let socket = self.0.get()?;
                retry_on_intr(|| accept(socket))?
            }
            Some(deadline) => self.until(Timeout::Recv, deadline, accept)?,
        };
        Ok(Self::of(socket))
    }

    pub(crate) fn is_here(&self) -> bool {
        self.0.is_here()
    }

    /// The peer at the other end, unless the system has none to report.
    pub(crate) fn peer(&self) -> Peer {
        self.0.get().and_then(Peer::of).unwrap_or(Peer::UNKNOWN)
    }

    /// Sends a message, and an open file with it, without waiting: false if the other end does not take it now.
    pub(crate) fn try_send(&self, message: &[u8], file: Option<&OwnedFd>) -> io::Result<bool> {
        // If the message has no room, nothing of it is sent.
        Ok(self.try_send_some(message, file)? != 0)
    }

    /// Waits for a message, and returns its length: 0 once the other end is gone.
    ///
    /// # Errors
    /// Also for a message that is too long for the buffer.
    pub(crate) fn receive(&self, message: &mut [u8]) -> io::Result<usize> {
        let socket = self.0.get()?;
        let mut receive = || retry_on_intr(|| recv(socket, &mut *message, RecvFlags::TRUNC));
        let (_, len) = match receive() {
            // Said once, when the peer ended without having heard everything; what it had sent before is still there.
            Err(Errno::CONNRESET) => receive(),
            other => other,
        }?;
        if len <= message.len() { Ok(len) } else { Err(Errno::MSGSIZE.into()) }
    }

    /// The same, or for more of a stream, until the deadline, with the open file that comes with it.
    pub(crate) fn receive_with(
        &self,
        message: &mut [u8],
        deadline: Instant,
    ) -> io::Result<(usize, Option<OwnedFd>)> {
        self.until(Timeout::Recv, deadline, |socket| receive(socket, message, true))
    }

    /// Sends bytes of a stream, or a message, and waits while the other end takes none; returns how many it took.
    pub(crate) fn send_some(&self, bytes: &[u8]) -> io::Result<usize> {
        let socket = self.0.get()?;
        Ok(retry_on_intr(|| send(socket, bytes, SendFlags::NOSIGNAL))?)
    }

    /// From now on, sending is an error once the other end has taken nothing for so long.
    pub(crate) fn give_up_sending_after(&self, patience: Duration) -> io::Result<()> {
        Ok(set_socket_timeout(self.0.get()?, Timeout::Send, Some(patience))?)
    }

    /// Sends all of this part of a stream, and waits while the other end takes none.
    pub(crate) fn send_all(&self, mut bytes: &[u8]) -> io::Result<()> {
        while !bytes.is_empty() {
            let taken = self.send_some(bytes)?;
            bytes = bytes.get(taken..).unwrap_or_default();
        }
        Ok(())
    }

    /// Sends as much of a stream as the other end takes now, and an open file with its first byte; returns how much.
    pub(crate) fn try_send_some(&self, bytes: &[u8], file: Option<&OwnedFd>) -> io::Result<usize> {
        send_some(self.0.get()?, bytes, file)
    }

    /// Waits for more of a stream, and returns how much has come: 0 once the other end is gone. Open files that come
    /// with it are closed.
    pub(crate) fn receive_some(&self, bytes: &mut [u8]) -> io::Result<usize> {
        let socket = self.0.get()?;
        let (_, len) = retry_on_intr(|| recv(socket, &mut *bytes, RecvFlags::empty()))?;
        Ok(len)
    }

    /// Stops sending, which the other end hears once it has taken what was sent. That end may still say something.
    pub(crate) fn finish(&self) {
        if let Ok(socket) = self.0.get() {
            let _ = shutdown(socket, Shutdown::Write);
        }
    }

    /// Ends the connection, or the listening: whoever waits at either end hears of it.
    pub(crate) fn shut(&self) {
        if let Ok(socket) = self.0.get() {
            let _ = shutdown(socket, Shutdown::Both);
        }
    }
}

pub(crate) fn spawn(
    name: &str,
    work: impl FnOnce() + Send + 'static,
) -> Result<JoinHandle<()>, SessionError> {
    let thread = thread::Builder::new().name(name.into()).spawn(work);
    thread.map_err(|error| SessionError::io("starting a thread", error))
}

/// Why a service that is there is none for this program.
pub(crate) fn refused(why: impl Into<String>) -> io::Error {
    io::Error::new(io::ErrorKind::ConnectionRefused, why.into())
}

/// Names or configurations that do not fit into a message.
pub(crate) fn too_long(what: &str) -> SessionError {
    SessionError::io(what, io::Error::new(io::ErrorKind::InvalidInput, "they are too long"))
}

#[cfg(test)]
mod tests {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

    use super::*;

    #[test]
    fn who_may_open_no_more_files_is_told_so() {
        let path = std::env::temp_dir().join(format!("tracebuf-link-{}", std::process::id()));
        // In a process of its own, because of its limit.
        let is_told = tracebuf_testing::fork::in_child(|| {
            let listening = Link::listening(&path, SocketKind::Messages).expect("a socket");
            let deadline = Instant::now() + Duration::from_secs(5);
            let one = Link::connected(&path, SocketKind::Messages, deadline).expect("it listens");
            let other = listening.accept(None).expect("it has come");
            let file = std::fs::File::open("/dev/null").expect("it is there").into();
            let limits = Rlimit { current: Some(0), ..getrlimit(Resource::Nofile) };
            setrlimit(Resource::Nofile, limits).expect("a limit");
            other.try_send(b"text", Some(&file)).expect("room");
            let error = one.receive_with(&mut [0; 8], deadline).expect_err("no room");
            error.raw_os_error() == Some(Errno::MFILE.raw_os_error())
        });
        std::fs::remove_file(path).expect("it is there");
        assert!(is_told);
    }
}
