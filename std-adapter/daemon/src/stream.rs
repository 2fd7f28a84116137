//! One connection: what comes, and what the other end has not taken yet.

use std::collections::VecDeque;
use std::io;
use std::os::fd::OwnedFd;

use rustix::io::{Errno, retry_on_intr};
use tracebuf_sockets::{receive, send_some};

/// A connection's socket, which does not wait.
#[derive(Debug)]
pub(crate) struct Stream {
    socket: OwnedFd,
    unsent: VecDeque<Unsent>,
    /// Whether the loop is told when the other end takes more.
    pub(crate) is_watched: bool,
}

#[derive(Debug)]
struct Unsent {
    bytes: Vec<u8>,
    sent: usize,
    file: Option<OwnedFd>,
}

/// What has come.
#[derive(Debug)]
pub(crate) enum Came {
    Bytes(usize, Option<OwnedFd>),
    /// Nothing, for now.
    Nothing,
    /// The other end is gone.
    End,
}

impl Stream {
    pub(crate) const fn new(socket: OwnedFd) -> Self {
        Self { socket, unsent: VecDeque::new(), is_watched: false }
    }

    pub(crate) const fn socket(&self) -> &OwnedFd {
        &self.socket
    }

    /// More of the stream, with the descriptor that has come with it; of several, the others are closed.
    pub(crate) fn receive(&self, bytes: &mut [u8]) -> Came {
        match retry_on_intr(|| receive(&self.socket, bytes, false)) {
            Ok((len, file)) if len > 0 => Came::Bytes(len, file),
            Err(Errno::AGAIN) => Came::Nothing,
            // Also if this process may open no more files, or too many came.
            Ok(_) | Err(_) => Came::End,
        }
    }

    pub(crate) fn push(&mut self, bytes: Vec<u8>, file: Option<OwnedFd>) {
        self.unsent.push_back(Unsent { bytes, sent: 0, file });
    }

    pub(crate) fn has_unsent(&self) -> bool {
        !self.unsent.is_empty()
    }

    /// Drops what is not sent: nobody will take it.
    pub(crate) fn forget_unsent(&mut self) {
        self.unsent.clear();
    }

    /// Sends as much as the other end takes now, and returns how much that was.
    pub(crate) fn send(&mut self) -> io::Result<usize> {
        let mut taken = 0;
        while let Some(first) = self.unsent.front_mut() {
            let rest = first.bytes.get(first.sent..).unwrap_or_default();
            let len = send_some(&self.socket, rest, first.file.as_ref())?;
            if len == 0 {
                break;
            }
            // It went with the first byte.
            first.file = None;
            (first.sent, taken) = (first.sent + len, taken + len);
            if first.sent >= first.bytes.len() {
                self.unsent.pop_front();
            }
        }
        Ok(taken)
    }
}
