//! Frames of Perfetto's sockets, encoded and decoded: four bytes that say how long one is, and an `IPCFrame`.
//!
//! Facts from `protos/perfetto/ipc/wire_protocol.proto`.

use alloc::vec::Vec;
use core::ops::Range;

use tracebuf::proto::fields::ipc::{
    bind_service, bind_service_reply, invoke_method, invoke_method_reply, ipc_frame, method_info,
    request_error,
};
use tracebuf::proto::reader::{message, messages, numbers};

use super::ProtoBuilder;

/// Bytes of the longest frame, as in Perfetto, whose receiver ends a connection with a longer one: with its length it
/// fills 128 KiB.
pub const MAX_IPC_FRAME: usize = (128 << 10) - LENGTH;
/// Bytes of a frame's length, which is little-endian.
const LENGTH: usize = 4;
/// Bytes of room at first.
const ROOM: usize = 4096;

/// The number of the one service here, for those who are bound to it.
const SERVICE: u64 = 1;

/// A frame that says it is longer than the receiver takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TooLong;

/// Bytes of a connection as they come, from which whole frames are taken.
///
/// ```
/// use tracebuf_service::wire::frames::{FrameBuffer, TooLong};
///
/// let mut frames = FrameBuffer::new(100);
/// frames.push(b"\x02\0\0\0a");
/// assert_eq!(frames.next()?, None);
/// frames.push(b"b\x65\0\0\0");
/// assert_eq!(frames.next()?, Some(&b"ab"[..]));
/// assert_eq!(frames.next(), Err(TooLong));
/// # Ok::<(), TooLong>(())
/// ```
#[derive(Debug)]
pub struct FrameBuffer {
    bytes: Vec<u8>,
    /// The range of the bytes that have come and were not taken.
    here: Range<usize>,
    most: usize,
}

impl FrameBuffer {
    /// For frames of at most so many bytes.
    #[must_use]
    pub const fn new(most: usize) -> Self {
        Self { bytes: Vec::new(), here: 0..0, most }
    }

    /// Room for what comes next: at least a byte, and as much as the frame says that it has, once it says so. Say how
    /// much [came](Self::came).
    pub fn room(&mut self) -> &mut [u8] {
        if self.here.start > 0 {
            self.bytes.copy_within(self.here.clone(), 0);
            self.here = 0..self.here.len();
        }
        let wanted = self.frame_end().unwrap_or(LENGTH).max(self.here.end + 1).max(ROOM);
        if self.bytes.len() < wanted {
            self.bytes.resize(wanted, 0);
        }
        self.bytes.get_mut(self.here.end..).unwrap_or_default()
    }

    /// Notes how many bytes of the [room](Self::room) were filled.
    pub fn came(&mut self, len: usize) {
        self.here.end = self.here.end.saturating_add(len).min(self.bytes.len());
    }

    /// Adds bytes that have come.
    pub fn push(&mut self, bytes: &[u8]) {
        self.bytes.drain(..self.here.start);
        self.bytes.truncate(self.here.len());
        self.bytes.extend_from_slice(bytes);
        self.here = 0..self.bytes.len();
    }

    /// Gives back memory that what is left does not need.
    pub fn tidy(&mut self) {
        if self.bytes.capacity() > ROOM.max(4 * self.left()) {
            self.bytes = self.bytes.get(self.here.clone()).unwrap_or_default().to_vec();
            self.here = 0..self.bytes.len();
        }
    }

    /// Bytes that have come and were not taken.
    #[must_use]
    pub fn left(&self) -> usize {
        self.here.len()
    }

    /// The next frame, if all of it has come.
    ///
    /// # Errors
    /// [`TooLong`]; what comes later cannot be read.
    #[expect(clippy::should_implement_trait, reason = "what it returns is borrowed")]
    pub fn next(&mut self) -> Result<Option<&[u8]>, TooLong> {
        let Some(end) = self.frame_end() else { return Ok(None) };
        if end - LENGTH > self.most {
            return Err(TooLong);
        }
        let start = self.here.start;
        if end > self.here.len() {
            return Ok(None);
        }
        self.here.start += end;
        Ok(self.bytes.get(start + LENGTH..start + end))
    }

    /// Where the next frame ends behind what was taken, if that much of it has come.
    fn frame_end(&self) -> Option<usize> {
        let len = self.bytes.get(self.here.clone())?.first_chunk::<LENGTH>()?;
        // One that is too long makes no room for itself.
        Some(LENGTH + (u32::from_le_bytes(*len) as usize).min(self.most + 1))
    }
}

/// What a client asks for.
#[derive(Debug, PartialEq, Eq)]
pub enum ClientFrame<'f> {
    /// Wants to be bound to the service of this name.
    Bind(&'f [u8]),
    /// Calls a method, by its number.
    Invoke {
        /// The method; 0 for one of another service.
        method: u64,
        /// Its message.
        arguments: &'f [u8],
        /// Whether the client wants to hear how it went.
        wants_reply: bool,
    },
    /// Anything else.
    Other,
}

impl<'f> ClientFrame<'f> {
    /// The number of a request, and the request; `None` for a malformed one, and for one that says who the other end is:
    /// of a socket of this machine the system says that.
    #[must_use]
    pub fn of(frame: &'f [u8]) -> Option<(u64, Self)> {
        let [number] = numbers(frame, [ipc_frame::REQUEST_ID])?;
        let within = |field| messages(frame, field).last();
        let request = match (within(ipc_frame::MSG_BIND_SERVICE), within(ipc_frame::MSG_INVOKE_METHOD)) {
            (_, Some(invoke)) => Self::invoke(invoke)?,
            (Some(bind), None) => {
                Self::Bind(messages(bind, bind_service::SERVICE_NAME).next().unwrap_or_default())
            }
            (None, None) if within(ipc_frame::SET_PEER_IDENTITY).is_some() => return None,
            (None, None) => Self::Other,
        };
        Some((number, request))
    }

    fn invoke(invoke: &'f [u8]) -> Option<Self> {
        const NUMBERS: [u32; 3] =
            [invoke_method::SERVICE_ID, invoke_method::METHOD_ID, invoke_method::DROP_REPLY];
        let [service, method, drop_reply] = numbers(invoke, NUMBERS)?;
        let arguments = message(invoke, invoke_method::ARGS_PROTO)?;
        // Another service has no methods here.
        let method = if service == SERVICE { method } else { 0 };
        Some(Self::Invoke { method, arguments, wants_reply: drop_reply == 0 })
    }
}

/// What a service answers.
#[derive(Debug, PartialEq, Eq)]
pub enum ServiceFrame<'f> {
    /// Its answer to a program that wants to be bound.
    Bound(&'f [u8]),
    /// A reply to the call with this number, and its message; `None` if the call has failed.
    Reply(u64, Option<&'f [u8]>),
    /// Anything else.
    Other,
}

impl<'f> ServiceFrame<'f> {
    /// `None` for a malformed one.
    #[must_use]
    pub fn of(frame: &'f [u8]) -> Option<Self> {
        let [request] = numbers(frame, [ipc_frame::REQUEST_ID])?;
        let within = |field| messages(frame, field).last();
        let replies = (within(ipc_frame::MSG_BIND_SERVICE_REPLY), within(ipc_frame::MSG_INVOKE_METHOD_REPLY));
        Some(match replies {
            (Some(bound), _) => Self::Bound(bound),
            (None, Some(reply)) => {
                let [success] = numbers(reply, [invoke_method_reply::SUCCESS])?;
                let within = message(reply, invoke_method_reply::REPLY_PROTO)?;
                Self::Reply(request, (success != 0).then_some(within))
            }
            (None, None) => Self::Other,
        })
    }
}

fn frame(request: u64, field: u32, message: &ProtoBuilder) -> ProtoBuilder {
    ProtoBuilder::new().number(ipc_frame::REQUEST_ID, request).message(field, message)
}

/// Wants to be bound to a service.
#[must_use]
pub fn bind(request: u64, service: &str) -> ProtoBuilder {
    let bind = ProtoBuilder::new().bytes(bind_service::SERVICE_NAME, service.as_bytes());
    frame(request, ipc_frame::MSG_BIND_SERVICE, &bind)
}

/// Tells a program that has asked that it is bound, with the numbers of methods: their order, from 1 on.
#[must_use]
pub fn bound<'n>(request: u64, methods: impl IntoIterator<Item = &'n str>) -> ProtoBuilder {
    let bound = ProtoBuilder::new().number(bind_service_reply::SUCCESS, true);
    let bound = bound.number(bind_service_reply::SERVICE_ID, SERVICE);
    let bound = bound.each((1_u64..).zip(methods), |bound, (id, name)| {
        let method = ProtoBuilder::new().number(method_info::ID, id);
        bound.message(bind_service_reply::METHODS, &method.bytes(method_info::NAME, name.as_bytes()))
    });
    frame(request, ipc_frame::MSG_BIND_SERVICE_REPLY, &bound)
}

/// Tells a program that there is no such service.
#[must_use]
pub fn not_bound(request: u64) -> ProtoBuilder {
    let reply = ProtoBuilder::new().number(bind_service_reply::SUCCESS, false);
    frame(request, ipc_frame::MSG_BIND_SERVICE_REPLY, &reply)
}

/// A call; one that wants no reply has no number.
#[must_use]
pub fn invoke(service: u64, method: u64, arguments: &ProtoBuilder, request: Option<u64>) -> ProtoBuilder {
    let invoke = ProtoBuilder::new().number(invoke_method::SERVICE_ID, service);
    let invoke =
        invoke.number(invoke_method::METHOD_ID, method).message(invoke_method::ARGS_PROTO, arguments);
    let invoke = invoke.number(invoke_method::DROP_REPLY, request.is_none());
    frame(request.unwrap_or(0), ipc_frame::MSG_INVOKE_METHOD, &invoke)
}

/// What a call returns; with more, another reply to the same call may follow.
#[must_use]
pub fn reply(request: u64, message: &ProtoBuilder, has_more: bool) -> ProtoBuilder {
    let reply = ProtoBuilder::new().number(invoke_method_reply::SUCCESS, true);
    let reply = reply.number(invoke_method_reply::HAS_MORE, has_more);
    let reply = reply.message(invoke_method_reply::REPLY_PROTO, message);
    frame(request, ipc_frame::MSG_INVOKE_METHOD_REPLY, &reply)
}

/// Says that a call has failed, or that no more replies to it follow.
#[must_use]
pub fn failure(request: u64) -> ProtoBuilder {
    let reply = ProtoBuilder::new().number(invoke_method_reply::SUCCESS, false);
    frame(request, ipc_frame::MSG_INVOKE_METHOD_REPLY, &reply)
}

/// Says that a frame was none that a client sends.
#[must_use]
pub fn request_error(request: u64, error: &str) -> ProtoBuilder {
    let error = ProtoBuilder::new().bytes(request_error::ERROR, error.as_bytes());
    frame(request, ipc_frame::MSG_REQUEST_ERROR, &error)
}

/// Adds a frame to a stream, with its length before it.
pub fn push_frame(stream: &mut Vec<u8>, frame: &ProtoBuilder) {
    // No frame of a service is longer than what a program sends, and that is at most `MAX_IPC_FRAME`.
    stream.extend((frame.as_bytes().len() as u32).to_le_bytes());
    stream.extend_from_slice(frame.as_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::vec;

    #[test]
    fn frames_are_whole_in_whatever_pieces_they_come() {
        let sizes = [0, 1, 3, 4096 - 8, 4096 - 4, 4096, 5000, MAX_IPC_FRAME, 2, 0, 9, 70_000, 1];
        let frames: Vec<_> = (1..).zip(sizes).map(|(sign, size)| vec![sign; size]).collect();
        let parts =
            frames.iter().flat_map(|frame| [&(frame.len() as u32).to_le_bytes(), frame.as_slice()].concat());
        let stream: Vec<u8> = parts.collect();
        for piece in [1, 2, 3, 5, 1000, 4096, stream.len()] {
            for in_place in [false, true] {
                let (mut taken, mut next) = (FrameBuffer::new(MAX_IPC_FRAME), frames.iter());
                for mut bytes in stream.chunks(piece) {
                    while !bytes.is_empty() {
                        if in_place {
                            let room = taken.room();
                            let (now, later) = bytes.split_at(bytes.len().min(room.len()));
                            room[..now.len()].copy_from_slice(now);
                            taken.came(now.len());
                            bytes = later;
                        } else {
                            taken.push(std::mem::take(&mut bytes));
                        }
                        while let Some(frame) = taken.next().expect("short enough") {
                            assert_eq!(Some(frame), next.next().map(Vec::as_slice), "in pieces of {piece}");
                        }
                    }
                }
                assert_eq!((next.next(), taken.left()), (None, 0), "all have come");
            }
        }
    }

    #[test]
    fn who_a_client_says_that_it_is_is_passed_over_and_what_nobody_knows_is_not() {
        let of = |field| ProtoBuilder::new().number(2, 9_u32).message(field, &ProtoBuilder::new());
        assert_eq!(ClientFrame::of(of(ipc_frame::SET_PEER_IDENTITY).as_bytes()), None);
        assert_eq!(ClientFrame::of(of(99).as_bytes()), Some((9, ClientFrame::Other)));
    }

    #[test]
    fn memory_of_what_was_taken_is_given_back() {
        let mut frames = FrameBuffer::new(1 << 20);
        let frame = [&100_000_u32.to_le_bytes()[..], &[1; 100_000]].concat();
        frames.push(&frame);
        frames.push(b"\x02\0\0\0a");
        assert_eq!(frames.next().expect("short enough").map(<[u8]>::len), Some(100_000));
        frames.tidy();
        assert!(frames.bytes.capacity() < 100 && frames.left() == 5);
        frames.push(b"b");
        frames.tidy();
        assert_eq!(frames.next(), Ok(Some(&b"ab"[..])));
    }

    #[test]
    fn one_that_is_too_long_takes_no_memory() {
        for len in [MAX_IPC_FRAME as u32 + 1, u32::MAX] {
            let mut frames = FrameBuffer::new(MAX_IPC_FRAME);
            frames.room()[..4].copy_from_slice(&len.to_le_bytes());
            frames.came(4);
            assert_eq!(frames.next(), Err(TooLong));
            assert_eq!(frames.bytes.len(), ROOM);
        }
    }
}
