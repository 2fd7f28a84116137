//! The outermost messages of Perfetto's socket: four bytes that say how long one is, and its content.
//!
//! Facts from `protos/perfetto/ipc/wire_protocol.proto`.

use std::io;
use std::ops::Range;

use super::proto::Proto;
use tracebuf_session::fields::{Fields, Value};

/// Bytes of the longest frame, as in Perfetto, whose receiver ends a connection with a longer one.
pub(super) const MAX_IPC_FRAME: usize = 128 << 10;
/// Bytes of a frame's length, which is little-endian.
const LENGTH: usize = 4;

/// The number of the one service here, for those who are bound to it.
const SERVICE: u64 = 1;

// Fields of a frame.
pub(super) const REQUEST: u32 = 2;
pub(super) const BIND: u32 = 3;
pub(super) const BOUND: u32 = 4;
pub(super) const INVOKE: u32 = 5;
pub(super) const REPLY: u32 = 6;
// Fields of a request to be bound, and of the answer.
pub(super) const SERVICE_NAME: u32 = 1;
pub(super) const BOUND_SUCCESS: u32 = 1;
pub(super) const BOUND_SERVICE: u32 = 2;
pub(super) const BOUND_METHOD: u32 = 3;
pub(super) const METHOD_ID: u32 = 1;
pub(super) const METHOD_NAME: u32 = 2;
// Fields of a call.
pub(super) const INVOKE_SERVICE: u32 = 1;
pub(super) const INVOKE_METHOD: u32 = 2;
pub(super) const INVOKE_ARGUMENTS: u32 = 3;
pub(super) const INVOKE_NO_REPLY: u32 = 4;
// Fields of its reply.
pub(super) const REPLY_SUCCESS: u32 = 1;
pub(super) const REPLY_HAS_MORE: u32 = 2;
pub(super) const REPLY_MESSAGE: u32 = 3;

/// Frames as they come over a stream.
pub(super) struct Frames {
    bytes: Vec<u8>,
    /// The range of the bytes that have come and were not taken.
    here: Range<usize>,
}

impl Frames {
    pub(super) fn new() -> Self {
        Self { bytes: vec![0; 4096], here: 0..0 }
    }

    /// The next frame. `receive` waits for more of the stream, as much as there is room for, and returns how much it
    /// was. If it fails, what has come stays for the next time.
    ///
    /// # Errors
    /// An error of `receive`; the stream has ended; a frame is too long, or malformed.
    pub(super) fn next<R>(
        &mut self,
        mut receive: impl FnMut(&mut [u8]) -> io::Result<usize>,
        take: impl FnOnce(&[u8]) -> Option<R>,
    ) -> io::Result<R> {
        let malformed = || io::Error::from(io::ErrorKind::InvalidData);
        loop {
            let here = self.bytes.get(self.here.clone()).unwrap_or_default();
            let len = here.first_chunk::<LENGTH>().map_or(0, |len| u32::from_le_bytes(*len) as usize);
            if len > MAX_IPC_FRAME {
                return Err(malformed());
            }
            if let Some(frame) = here.get(LENGTH..LENGTH + len) {
                self.here.start += LENGTH + len;
                return take(frame).ok_or_else(malformed);
            }
            if self.here.start > 0 {
                self.bytes.copy_within(self.here.clone(), 0);
                self.here = 0..self.here.len();
            }
            // As much as a frame says that it has, and not before it says so.
            if self.bytes.len() < LENGTH + len {
                self.bytes.resize(LENGTH + len, 0);
            }
            match receive(self.bytes.get_mut(self.here.end..).unwrap_or_default())? {
                0 => return Err(io::ErrorKind::UnexpectedEof.into()),
                len => self.here.end += len,
            }
        }
    }
}

/// What a program says in a frame.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Frame<'f> {
    /// Wants to be bound to the service of this name.
    Bind(&'f [u8]),
    /// Calls a method, by its number.
    Invoke { method: u64, arguments: &'f [u8], wants_reply: bool },
    /// Something else, which needs no answer.
    Other,
}

/// The number of a request, and the request; `None` for a malformed one.
pub(super) fn request_of(frame: &[u8]) -> Option<(u64, Frame<'_>)> {
    let (mut number, mut request) = (0, Frame::Other);
    let mut fields = Fields::of(frame);
    for field in &mut fields {
        match (field.number, field.value) {
            (REQUEST, Value::Number(value)) => number = value,
            (BIND, Value::Bytes(bind)) => {
                let name = Fields::of(bind).find_map(|field| match (field.number, field.value) {
                    (SERVICE_NAME, Value::Bytes(name)) => Some(name),
                    _ => None,
                });
                request = Frame::Bind(name.unwrap_or_default());
            }
            (INVOKE, Value::Bytes(invoke)) => request = invoke_of(invoke)?,
            _ => {}
        }
    }
    fields.is_at_end().then_some((number, request))
}

fn invoke_of(invoke: &[u8]) -> Option<Frame<'_>> {
    let (mut service, mut method, mut arguments, mut wants_reply) = (0, 0, &[][..], true);
    let mut fields = Fields::of(invoke);
    for field in &mut fields {
        match (field.number, field.value) {
            (INVOKE_SERVICE, Value::Number(number)) => service = number,
            (INVOKE_METHOD, Value::Number(number)) => method = number,
            (INVOKE_ARGUMENTS, Value::Bytes(bytes)) => arguments = bytes,
            (INVOKE_NO_REPLY, Value::Number(number)) => wants_reply = number == 0,
            _ => {}
        }
    }
    // Another service has no methods here.
    let method = if service == SERVICE { method } else { 0 };
    fields.is_at_end().then_some(Frame::Invoke { method, arguments, wants_reply })
}

/// Tells a program that has asked that it is bound, with the numbers of methods: their order, from 1 on.
pub(super) fn bound(request: u64, methods: &[&str]) -> Proto {
    let bound = Proto::new().number(BOUND_SUCCESS, true).number(BOUND_SERVICE, SERVICE);
    let bound = bound.each((1_u64..).zip(methods), |bound, (id, name)| {
        bound.message(BOUND_METHOD, &Proto::new().number(METHOD_ID, id).bytes(METHOD_NAME, name.as_bytes()))
    });
    Proto::new().number(REQUEST, request).message(BOUND, &bound)
}

/// Tells a program that there is no such service.
pub(super) fn not_bound(request: u64) -> Proto {
    Proto::new().number(REQUEST, request).message(BOUND, &Proto::new().number(BOUND_SUCCESS, false))
}

/// What a call returns; with more, another reply to the same call may follow.
pub(super) fn reply(request: u64, message: &Proto, has_more: bool) -> Proto {
    let reply = Proto::new().number(REPLY_SUCCESS, true).number(REPLY_HAS_MORE, has_more);
    Proto::new().number(REQUEST, request).message(REPLY, &reply.message(REPLY_MESSAGE, message))
}

/// The reply to a call that is not carried out.
pub(super) fn failure(request: u64) -> Proto {
    Proto::new().number(REQUEST, request).message(REPLY, &Proto::new().number(REPLY_SUCCESS, false))
}

/// A frame as it goes over the stream.
pub(super) fn push_frame(stream: &mut Vec<u8>, frame: &Proto) {
    // No frame of a service is longer than what a program sends, and that is at most `MAX_IPC_FRAME`.
    stream.extend((frame.as_bytes().len() as u32).to_le_bytes());
    stream.extend_from_slice(frame.as_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_are_whole_in_whatever_pieces_they_come() {
        let sizes = [0, 1, 3, 4096 - 8, 4096 - 4, 4096, 5000, MAX_IPC_FRAME, 2, 0, 9, 70_000, 1];
        let frames: Vec<_> = (1..).zip(sizes).map(|(sign, size)| vec![sign; size]).collect();
        let parts =
            frames.iter().flat_map(|frame| [&(frame.len() as u32).to_le_bytes(), frame.as_slice()].concat());
        let stream: Vec<u8> = parts.collect();
        for piece in [1, 2, 3, 5, 1000, 4096, usize::MAX] {
            let (mut left, mut taken) = (stream.as_slice(), Frames::new());
            for frame in &frames {
                let receive = |room: &mut [u8]| {
                    assert!(!room.is_empty());
                    let (now, later) = left.split_at(piece.min(room.len()).min(left.len()));
                    room[..now.len()].copy_from_slice(now);
                    left = later;
                    Ok(now.len())
                };
                let next = taken.next(receive, |bytes| Some(bytes.to_vec()));
                assert!(next.is_ok_and(|next| next == *frame), "in pieces of {piece}");
            }
            assert!(taken.next(|_| Ok(0), |_| Some(())).is_err(), "there is no more");
        }
    }

    #[test]
    fn one_that_is_too_long_takes_no_memory() {
        let (mut frames, len) = (Frames::new(), (MAX_IPC_FRAME as u32 + 1).to_le_bytes());
        let receive = |room: &mut [u8]| {
            room[..4].copy_from_slice(&len);
            Ok(4)
        };
        assert!(frames.next(receive, |_| Some(())).is_err());
        assert_eq!(frames.bytes.len(), 4096);
    }
}
