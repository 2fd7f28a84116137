//! Frames on their way to the other end, which may not take them now: [`FrameOutbox`].

use std::io;
use std::os::fd::OwnedFd;

use super::ProtoBuilder;
use super::frames::push_frame;
use crate::link::Link;
use tracebuf_session::parts::Wait;

/// Most bytes that may wait; beyond that a program that asks and does not hear is given up. What a program hears
/// unasked does not come near it.
const MAX_UNSENT: usize = 256 << 10;

#[derive(Default)]
pub(crate) struct FrameOutbox {
    pub(crate) bytes: Vec<u8>,
    /// A file, and the position of the byte that it goes with.
    file: Option<(usize, OwnedFd)>,
}

impl FrameOutbox {
    pub(crate) fn push(&mut self, frame: &ProtoBuilder) {
        push_frame(&mut self.bytes, frame);
    }

    /// The same with a file: one for each connection.
    pub(crate) fn push_with(&mut self, frame: &ProtoBuilder, file: OwnedFd) {
        self.file = Some((self.bytes.len(), file));
        self.push(frame);
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// Sends as much as the other end takes now; an error too if more than [`MAX_UNSENT`] is left.
    pub(crate) fn try_send(&mut self, link: &Link) -> io::Result<()> {
        self.send(link, Wait::Now)?;
        if self.bytes.len() > MAX_UNSENT { Err(io::ErrorKind::WouldBlock.into()) } else { Ok(()) }
    }

    /// Sends what there is; false if the other end does not take all of it now, and this is not to wait.
    pub(crate) fn send(&mut self, link: &Link, wait: Wait) -> io::Result<bool> {
        let mut sent = 0;
        while let Some(left @ [_, ..]) = self.bytes.get(sent..) {
            let len = match (&self.file, wait) {
                (Some((at, file)), _) if *at == sent => link.try_send_some(left, Some(file))?,
                // What lies before that byte goes without it.
                (Some((at, _)), _) => link.try_send_some(left.get(..*at - sent).unwrap_or(left), None)?,
                (None, Wait::Now) => link.try_send_some(left, None)?,
                (None, Wait::UntilDone) => link.send_some(left)?,
            };
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
        Ok(self.bytes.is_empty())
    }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use super::*;
    use crate::link::SocketKind;

    #[test]
    fn a_file_goes_with_its_own_frame_however_little_is_taken_at_a_time() {
        let path = std::env::temp_dir().join(format!("tracebuf-outbox-{}", std::process::id()));
        let listening = Link::listening(&path, SocketKind::Stream).expect("a socket");
        let there = Link::connected(&path, SocketKind::Stream, Instant::now() + Duration::from_secs(5));
        let (there, here) = (there.expect("it listens"), listening.accept(None).expect("it has come"));
        std::fs::remove_file(&path).expect("it is there");

        let (mut outbox, mut sent) = (FrameOutbox::default(), Vec::new());
        let frame = |sign: u8| ProtoBuilder::new().bytes(1, &[sign; 1000]);
        // More than a socket takes, but not more than may wait.
        for sign in 0..250 {
            let file = std::fs::File::open("/dev/null").expect("it is there");
            match sign {
                240 => outbox.push_with(&frame(sign), file.into()),
                _ => outbox.push(&frame(sign)),
            }
            push_frame(&mut sent, &frame(sign));
        }
        let (mut heard, mut came_at) = (Vec::new(), None);
        while heard.len() < sent.len() {
            outbox.try_send(&here).expect("it is there");
            let mut bytes = [0; 3000];
            let deadline = Instant::now() + Duration::from_secs(5);
            let (len, file) = there.receive_with(&mut bytes, deadline).expect("more");
            if file.is_some() {
                assert_eq!(came_at.replace(heard.len()), None);
            }
            heard.extend_from_slice(&bytes[..len]);
        }
        assert!(outbox.is_empty() && heard == sent);
        let frame_len = sent.len() / 250;
        let came_at = came_at.expect("it has come");
        assert!((came_at..came_at + 3000).contains(&(240 * frame_len)), "{came_at}");
    }

    #[test]
    fn too_much_that_is_not_taken_is_an_error() {
        let path = std::env::temp_dir().join(format!("tracebuf-outbox-full-{}", std::process::id()));
        let listening = Link::listening(&path, SocketKind::Stream).expect("a socket");
        let there = Link::connected(&path, SocketKind::Stream, Instant::now() + Duration::from_secs(5));
        let (_there, here) = (there.expect("it listens"), listening.accept(None).expect("it has come"));
        std::fs::remove_file(&path).expect("it is there");
        let (mut outbox, frame) = (FrameOutbox::default(), ProtoBuilder::new().bytes(1, &[0; 1000]));
        let sent = (0..10_000).find_map(|_| {
            outbox.push(&frame);
            outbox.try_send(&here).err()
        });
        assert!(sent.is_some() && outbox.bytes.len() <= MAX_UNSENT + 2000);
    }
}
