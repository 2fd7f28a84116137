//! Bytes on their way through a socket, and an open file that goes along.

use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};

use rustix::io::Errno;
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, recvmsg, sendmsg,
};

/// Most open files that may come at once. All but the first are closed.
const MOST_FILES: usize = 4;

/// Sends as much of a stream as the other end takes now, or a message, which goes whole or not at all, and an open file
/// with the first byte. Returns how much went: 0 if the other end takes nothing now.
///
/// # Errors
/// The other end is gone.
pub fn send_some(socket: impl AsFd, bytes: &[u8], file: Option<&OwnedFd>) -> io::Result<usize> {
    let files = file.map(|file| [file.as_fd()]);
    let mut room = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = SendAncillaryBuffer::new(&mut room);
    if let Some(files) = &files {
        control.push(SendAncillaryMessage::ScmRights(files));
    }
    let flags = SendFlags::NOSIGNAL | SendFlags::DONTWAIT;
    loop {
        match sendmsg(&socket, &[IoSlice::new(bytes)], &mut control, flags) {
            Err(Errno::INTR) => {}
            Err(Errno::AGAIN | Errno::NOBUFS) => return Ok(0),
            other => return Ok(other?),
        }
    }
}

/// Receives more of a stream, or a message, with the open file that has come with it, and returns the length: 0 once
/// the other end is gone. Waits for it as long as the socket says, or not at all.
///
/// # Errors
/// [`Errno::AGAIN`] if there is nothing, [`Errno::INTR`] after a signal; a message that is longer than the buffer; a file
/// for which this process has no room, for which the system has no other word.
pub fn receive(socket: impl AsFd, bytes: &mut [u8], waits: bool) -> Result<(usize, Option<OwnedFd>), Errno> {
    let mut room = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MOST_FILES))];
    let mut control = RecvAncillaryBuffer::new(&mut room);
    let waiting = if waits { RecvFlags::empty() } else { RecvFlags::DONTWAIT };
    let flags = RecvFlags::CMSG_CLOEXEC | waiting;
    let received = recvmsg(&socket, &mut [IoSliceMut::new(bytes)], &mut control, flags)?;
    let file = control.drain().find_map(|message| match message {
        RecvAncillaryMessage::ScmRights(mut files) => files.next(),
        _ => None,
    });
    if received.flags.contains(ReturnFlags::TRUNC) {
        return Err(Errno::MSGSIZE);
    }
    if received.flags.contains(ReturnFlags::CTRUNC) {
        return Err(Errno::MFILE);
    }
    Ok((received.bytes, file))
}
