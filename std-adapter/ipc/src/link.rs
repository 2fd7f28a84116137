//! Unix sockets, and the process at the other end: [`Link`] and [`Peer`].
#![allow(unsafe_code, reason = "one call that `rustix` does not have in this form")]

use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use rustix::io::{Errno, retry_on_intr};
use rustix::net::sockopt::{Timeout, set_socket_timeout};
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, Shutdown, SocketAddrUnix, SocketFlags, SocketType, accept_with, bind,
    connect, listen, recv, recvmsg, send, sendmsg, shutdown, socket_with,
};

use tracebuf_session::SessionError;
use tracebuf_std::fork::ClosedInChildren;

/// A Unix socket, which is closed in children after a fork.
#[derive(Debug)]
pub(crate) struct Link(ClosedInChildren);

/// How data that is sent arrives.
#[derive(Clone, Copy, Debug)]
pub enum SocketKind {
    /// In messages, whole or not at all.
    Messages,
    /// As a stream of bytes.
    Stream,
}

impl Link {
    fn new(kind: SocketKind) -> io::Result<Self> {
        let kind = match kind {
            SocketKind::Messages => SocketType::SEQPACKET,
            SocketKind::Stream => SocketType::STREAM,
        };
        let socket = socket_with(AddressFamily::UNIX, kind, SocketFlags::CLOEXEC, None)?;
        Ok(Self(ClosedInChildren::new(socket)))
    }

    /// Whether a process has a socket at this path, of whatever kind; what is left of one that has ended does not
    /// count.
    pub(crate) fn is_there(path: &Path) -> io::Result<bool> {
        // Of a kind that no service listens with, so that none takes this for a newcomer.
        let socket = socket_with(AddressFamily::UNIX, SocketType::DGRAM, SocketFlags::CLOEXEC, None)?;
        match connect(&socket, &SocketAddrUnix::new(path)?) {
            Err(Errno::CONNREFUSED) => Ok(false),
            Ok(()) | Err(Errno::PROTOTYPE) => Ok(true),
            Err(error) => Err(error.into()),
        }
    }

    /// A stream that somebody else has made.
    pub(crate) fn of(stream: UnixStream) -> Self {
        Self(ClosedInChildren::new(stream))
    }

    pub(crate) fn listening(path: &Path, kind: SocketKind) -> io::Result<Self> {
        let link = Self::new(kind)?;
        bind(link.0.get()?, &SocketAddrUnix::new(path)?)?;
        listen(link.0.get()?, 64)?;
        Ok(link)
    }

    /// Connects to the socket that listens at this path. Only until the deadline: if too many have come and were not
    /// accepted, the system waits until one is.
    pub(crate) fn connected(path: &Path, kind: SocketKind, deadline: Instant) -> io::Result<Self> {
        let (link, address) = (Self::new(kind)?, SocketAddrUnix::new(path)?);
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
        Ok(Self(ClosedInChildren::new(socket)))
    }

    pub(crate) fn is_here(&self) -> bool {
        self.0.is_here()
    }

    /// The peer at the other end, unless the system has none to report.
    pub(crate) fn peer(&self) -> Peer {
        self.0.get().and_then(Peer::of).unwrap_or(Peer { uid: u32::MAX, pid: -1 })
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
        let mut room = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut control = RecvAncillaryBuffer::new(&mut room);
        let flags = RecvFlags::CMSG_CLOEXEC;
        let received = self.until(Timeout::Recv, deadline, |socket| {
            recvmsg(socket, &mut [IoSliceMut::new(message)], &mut control, flags)
        })?;
        if received.flags.contains(ReturnFlags::TRUNC) {
            return Err(Errno::MSGSIZE.into());
        }
        if received.flags.contains(ReturnFlags::CTRUNC) {
            // This process may open no more files: the system has no other way to say that one came.
            return Err(Errno::MFILE.into());
        }
        let file = control.drain().find_map(|message| match message {
            RecvAncillaryMessage::ScmRights(mut files) => files.next(),
            _ => None,
        });
        Ok((received.bytes, file))
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
        let (socket, files) = (self.0.get()?, file.map(|file| [file.as_fd()]));
        let mut room = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut control = SendAncillaryBuffer::new(&mut room);
        if let Some(files) = &files {
            control.push(SendAncillaryMessage::ScmRights(files));
        }
        let flags = SendFlags::NOSIGNAL | SendFlags::DONTWAIT;
        match retry_on_intr(|| sendmsg(socket, &[IoSlice::new(bytes)], &mut control, flags)) {
            Ok(len) => Ok(len),
            Err(Errno::AGAIN | Errno::NOBUFS) => Ok(0),
            Err(error) => Err(error.into()),
        }
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

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Peer {
    pub(crate) uid: u32,
    /// −1 if this process's namespace has no number for it: with a service in a container and a producer outside.
    pub(crate) pid: i32,
}

impl Peer {
    /// The peer that has connected, or listens. Not with `rustix`, whose process ids cannot be 0, which is what the
    /// system says where it has none.
    pub(crate) fn of(socket: &OwnedFd) -> io::Result<Self> {
        let mut peer = libc::ucred { pid: 0, uid: u32::MAX, gid: u32::MAX };
        let mut len = size_of::<libc::ucred>() as libc::socklen_t;
        // SAFETY: an open socket, and this many bytes to be written, of a type that may have any value.
        let error = unsafe {
            let place = (&raw mut peer).cast();
            libc::getsockopt(socket.as_raw_fd(), libc::SOL_SOCKET, libc::SO_PEERCRED, place, &mut len)
        };
        match error {
            0 => Ok(Self { uid: peer.uid, pid: if peer.pid > 0 { peer.pid } else { -1 } }),
            _ => Err(io::Error::last_os_error()),
        }
    }
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

    #[test]
    fn the_other_end_of_this_process_is_this_process() {
        let (one, _other) = std::os::unix::net::UnixStream::pair().expect("sockets");
        let this = Peer { uid: rustix::process::geteuid().as_raw(), pid: std::process::id() as i32 };
        assert_eq!(Peer::of(&one.into()).ok(), Some(this));
        let file = std::fs::File::open("/dev/null").expect("it is there");
        assert!(Peer::of(&file.into()).is_err());
    }
}
