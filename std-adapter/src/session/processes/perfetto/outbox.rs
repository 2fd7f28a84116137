//! What is on its way to a program that may not take it now.

use std::io;
use std::os::fd::OwnedFd;

use super::frames::push_frame;
use super::proto::Proto;
use crate::session::processes::link::Link;

/// Bytes that may wait, after which a program that asks and does not hear is given up. What one hears unasked does not
/// come near it.
const LONGEST: usize = 256 << 10;

/// Frames that were not sent.
#[derive(Default)]
pub(super) struct Outbox {
    bytes: Vec<u8>,
    /// A file, and the byte that it goes with.
    file: Option<(usize, OwnedFd)>,
}

impl Outbox {
    pub(super) fn push(&mut self, frame: &Proto) {
        push_frame(&mut self.bytes, frame);
    }

    /// The same with a file: one for each connection.
    pub(super) fn push_with(&mut self, frame: &Proto, file: OwnedFd) {
        self.file = Some((self.bytes.len(), file));
        self.push(frame);
    }

    pub(super) fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// Sends as much as the other end takes.
    ///
    /// # Errors
    /// What the system says, as that the other end has gone; and of too much that was not taken.
    pub(super) fn send(&mut self, link: &Link) -> io::Result<()> {
        let mut sent = 0;
        while let Some(left @ [_, ..]) = self.bytes.get(sent..) {
            let (bytes, file) = match &self.file {
                Some((at, file)) if *at == sent => (left, Some(file)),
                // What lies before it goes without.
                Some((at, _)) => (left.get(..*at - sent).unwrap_or(left), None),
                None => (left, None),
            };
            let len = link.try_send_some(bytes, file)?;
            if len == 0 {
                break;
            }
            self.file.take_if(|(at, _)| *at == sent);
            sent += len;
        }
        self.bytes.drain(..sent);
        if let Some((at, _)) = &mut self.file {
            *at -= sent;
        }
        if self.bytes.len() > LONGEST { Err(io::ErrorKind::WouldBlock.into()) } else { Ok(()) }
    }
}
