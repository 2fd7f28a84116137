//! What is on its way to a program that may not take it now.

use std::io;
use std::os::fd::OwnedFd;

use super::frames::push_frame;
use super::proto::Proto;
use crate::link::Link;

/// Most bytes that may wait; beyond that a program that asks and does not hear is given up. What a program hears
/// unasked does not come near it.
const MAX_UNSENT: usize = 256 << 10;

/// Frames that were not sent yet.
#[derive(Default)]
pub(super) struct Outbox {
    bytes: Vec<u8>,
    /// A file, and the position of the byte that it goes with.
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
    /// What the system says, such as that the other end has gone; and too much that was not taken.
    pub(super) fn send(&mut self, link: &Link) -> io::Result<()> {
        let mut sent = 0;
        while let Some(left @ [_, ..]) = self.bytes.get(sent..) {
            let (bytes, file) = match &self.file {
                Some((at, file)) if *at == sent => (left, Some(file)),
                // What lies before that byte goes without it.
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
        if self.bytes.len() > MAX_UNSENT { Err(io::ErrorKind::WouldBlock.into()) } else { Ok(()) }
    }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use super::*;
    use crate::link::Kind;

    #[test]
    fn a_file_goes_with_its_own_frame_however_little_is_taken_at_a_time() {
        let path = std::env::temp_dir().join(format!("tracebuf-outbox-{}", std::process::id()));
        let listening = Link::listening(&path, Kind::Stream).expect("a socket");
        let there = Link::connected(&path, Kind::Stream, Instant::now() + Duration::from_secs(5));
        let (there, here) = (there.expect("it listens"), listening.accept().expect("it has come"));
        std::fs::remove_file(&path).expect("it is there");

        let (mut outbox, mut sent) = (Outbox::default(), Vec::new());
        let frame = |sign: u8| Proto::new().bytes(1, &[sign; 1000]);
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
            outbox.send(&here).expect("it is there");
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
        let listening = Link::listening(&path, Kind::Stream).expect("a socket");
        let there = Link::connected(&path, Kind::Stream, Instant::now() + Duration::from_secs(5));
        let (_there, here) = (there.expect("it listens"), listening.accept().expect("it has come"));
        std::fs::remove_file(&path).expect("it is there");
        let (mut outbox, frame) = (Outbox::default(), Proto::new().bytes(1, &[0; 1000]));
        let sent = (0..10_000).find_map(|_| {
            outbox.push(&frame);
            outbox.send(&here).err()
        });
        assert!(sent.is_some() && outbox.bytes.len() <= MAX_UNSENT + 2000);
    }
}
