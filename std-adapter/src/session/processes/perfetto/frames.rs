//! The outermost messages of Perfetto's socket: four bytes that say how long one is, and what it holds.
//!
//! Facts from `protos/perfetto/ipc/wire_protocol.proto`.

use std::io;

use super::proto::Proto;
use crate::fields::{Fields, Value};

/// Bytes of the longest, as in Perfetto, whose receiver ends a connection with a longer one.
pub(super) const LONGEST: usize = 128 << 10;
/// Bytes of a frame's length, in little endian.
const LENGTH: usize = 4;

/// The number that the one service here has for those who are bound to it.
const SERVICE: u64 = 1;

// Fields of a frame.
pub(super) const REQUEST: u32 = 2;
pub(super) const BIND: u32 = 3;
pub(super) const BOUND: u32 = 4;
pub(super) const INVOKE: u32 = 5;
pub(super) const REPLY: u32 = 6;
// Of those that ask to be bound, and of the answer.
pub(super) const SERVICE_NAME: u32 = 1;
pub(super) const BOUND_SUCCESS: u32 = 1;
pub(super) const BOUND_SERVICE: u32 = 2;
pub(super) const BOUND_METHOD: u32 = 3;
pub(super) const METHOD_ID: u32 = 1;
pub(super) const METHOD_NAME: u32 = 2;
// Of a call.
pub(super) const INVOKE_SERVICE: u32 = 1;
pub(super) const INVOKE_METHOD: u32 = 2;
pub(super) const INVOKE_ARGUMENTS: u32 = 3;
pub(super) const INVOKE_NO_REPLY: u32 = 4;
// Of what it returns.
pub(super) const REPLY_SUCCESS: u32 = 1;
pub(super) const REPLY_HAS_MORE: u32 = 2;
pub(super) const REPLY_MESSAGE: u32 = 3;

/// Frames as they come over a stream.
pub(super) struct Frames {
    bytes: Vec<u8>,
    /// So many of the bytes have come.
    filled: usize,
}

impl Frames {
    pub(super) fn new() -> Self {
        Self { bytes: vec![0; 4096], filled: 0 }
    }

    /// The next frame, by a function that waits for more of the stream, as much as has room, and says how much it was.
    /// When that fails, what has come stays, for the next time.
    ///
    /// # Errors
    /// What that function says; the stream has ended; a frame is too long, or malformed.
    pub(super) fn next<R>(
        &mut self,
        mut receive: impl FnMut(&mut [u8]) -> io::Result<usize>,
        take: impl FnOnce(&[u8]) -> Option<R>,
    ) -> io::Result<R> {
        let malformed = || io::Error::from(io::ErrorKind::InvalidData);
        loop {
            if let Some(end) = self.end() {
                if end > LENGTH + LONGEST {
                    return Err(malformed());
                }
                if end <= self.filled {
                    let taken = self.bytes.get(LENGTH..end).and_then(take);
                    self.bytes.copy_within(end..self.filled, 0);
                    self.filled -= end;
                    return taken.ok_or_else(malformed);
                }
                // As much as one says that it has, and not before it says so.
                if self.bytes.len() < end {
                    self.bytes.resize(end, 0);
                }
            }
            match receive(self.bytes.get_mut(self.filled..).unwrap_or_default())? {
                0 => return Err(io::ErrorKind::UnexpectedEof.into()),
                len => self.filled += len,
            }
        }
    }

    /// Where the first one ends, if its length has come.
    fn end(&self) -> Option<usize> {
        let length = self.bytes.get(..self.filled)?.first_chunk::<LENGTH>()?;
        Some(LENGTH.saturating_add(u32::from_le_bytes(*length) as usize))
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

/// The number of a request, and the request; none of what is malformed.
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
    // Of another service there are no methods.
    let method = if service == SERVICE { method } else { 0 };
    fields.is_at_end().then_some(Frame::Invoke { method, arguments, wants_reply })
}

/// Tells one who has asked that it is bound, and the numbers of methods, which are those of their order from 1 on.
pub(super) fn bound(request: u64, methods: &[&str]) -> Proto {
    let bound = Proto::new().number(BOUND_SUCCESS, true).number(BOUND_SERVICE, SERVICE);
    let bound = bound.each((1_u64..).zip(methods), |bound, (id, name)| {
        bound.message(BOUND_METHOD, &Proto::new().number(METHOD_ID, id).bytes(METHOD_NAME, name.as_bytes()))
    });
    Proto::new().number(REQUEST, request).message(BOUND, &bound)
}

/// Tells one that there is no such service.
pub(super) fn not_bound(request: u64) -> Proto {
    Proto::new().number(REQUEST, request).message(BOUND, &Proto::new().number(BOUND_SUCCESS, false))
}

/// What a call returns; with more, another reply to the same call may follow.
pub(super) fn reply(request: u64, message: &Proto, has_more: bool) -> Proto {
    let reply = Proto::new().number(REPLY_SUCCESS, true).number(REPLY_HAS_MORE, has_more);
    Proto::new().number(REQUEST, request).message(REPLY, &reply.message(REPLY_MESSAGE, message))
}

/// Of a call that is not carried out.
pub(super) fn failure(request: u64) -> Proto {
    Proto::new().number(REQUEST, request).message(REPLY, &Proto::new().number(REPLY_SUCCESS, false))
}

/// A frame as it goes over the stream.
pub(super) fn push_frame(stream: &mut Vec<u8>, frame: &Proto) {
    // No frame of a service is longer than what a program sends, and that is `LONGEST`.
    stream.extend((frame.as_bytes().len() as u32).to_le_bytes());
    stream.extend_from_slice(frame.as_bytes());
}
