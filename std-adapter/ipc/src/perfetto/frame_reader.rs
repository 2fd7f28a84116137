//! Frames of a connection, which are waited for: [`FrameReader`].

use std::io;

use super::frames::{FrameBuffer, MAX_IPC_FRAME};

pub(crate) struct FrameReader(FrameBuffer);

impl FrameReader {
    pub(crate) fn new() -> Self {
        Self(FrameBuffer::new(MAX_IPC_FRAME))
    }

    /// The next frame. `receive` waits for more of the stream, as much as there is room for, and returns how much it
    /// was. If it fails, what has come stays for the next time.
    ///
    /// # Errors
    /// An error of `receive`; the stream has ended; a frame is too long, or malformed.
    pub(crate) fn next<R>(
        &mut self,
        mut receive: impl FnMut(&mut [u8]) -> io::Result<usize>,
        take: impl FnOnce(&[u8]) -> Option<R>,
    ) -> io::Result<R> {
        let malformed = || io::Error::from(io::ErrorKind::InvalidData);
        loop {
            if let Some(frame) = self.0.next().map_err(|_| malformed())? {
                return take(frame).ok_or_else(malformed);
            }
            match receive(self.0.room())? {
                0 => return Err(io::ErrorKind::UnexpectedEof.into()),
                len => self.0.came(len),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_end_of_a_stream_and_a_malformed_frame_are_errors_and_what_has_come_stays_after_one() {
        let (stream, mut at) = (b"\x02\0\0\0ab\x01\0\0\0", 0);
        let mut frames = FrameReader::new();
        let mut receive = |room: &mut [u8]| match stream.get(at) {
            // Interrupted in the middle of a frame.
            Some(b'b') if room[0] != 1 => {
                room[0] = 1;
                Err(io::ErrorKind::TimedOut.into())
            }
            Some(byte) => {
                (room[0], at) = (*byte, at + 1);
                Ok(1)
            }
            None => Ok(0),
        };
        let failed = frames.next(&mut receive, |frame| Some(frame.to_vec())).expect_err("interrupted");
        assert_eq!(failed.kind(), io::ErrorKind::TimedOut);
        assert_eq!(frames.next(&mut receive, |frame| Some(frame.to_vec())).expect("whole"), b"ab");
        let ended = frames.next(&mut receive, |_| Some(())).expect_err("it is not all there");
        assert_eq!(ended.kind(), io::ErrorKind::UnexpectedEof);
        let zero = |room: &mut [u8]| {
            room[..5].fill(0);
            Ok(5)
        };
        let malformed = FrameReader::new().next(zero, |_| None::<()>).expect_err("taken for malformed");
        assert_eq!(malformed.kind(), io::ErrorKind::InvalidData);
    }
}
