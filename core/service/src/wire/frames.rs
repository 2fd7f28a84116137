//! Frames of Perfetto's socket, encoded and decoded: four bytes that say how long one is, and an `IPCFrame`.
//!
//! Facts from `protos/perfetto/ipc/wire_protocol.proto`.

use std::io;
use std::ops::Range;

use tracebuf::proto::fields::ipc::{
    bind_service, bind_service_reply, invoke_method, invoke_method_reply, ipc_frame, method_info,
};
use tracebuf::proto::reader::{message, messages, numbers};

use crate::proto_builder::ProtoBuilder;

/// Bytes of the longest frame, as in Perfetto, whose receiver ends a connection with a longer one.
pub(crate) const MAX_IPC_FRAME: usize = 128 << 10;
/// Bytes of a frame's length, which is little-endian.
const LENGTH: usize = 4;

/// The number of the one service here, for those who are bound to it.
const SERVICE: u64 = 1;

pub(crate) struct FrameReader {
    bytes: Vec<u8>,
    /// The range of the bytes that have come and were not taken.
    here: Range<usize>,
}

impl FrameReader {
    pub(crate) fn new() -> Self {
        Self { bytes: vec![0; 4096], here: 0..0 }
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

#[derive(Debug, PartialEq, Eq)]
pub(crate) enum ClientFrame<'f> {
    /// Wants to be bound to the service of this name.
    Bind(&'f [u8]),
    /// Calls a method, by its number.
    Invoke { method: u64, arguments: &'f [u8], wants_reply: bool },
    /// Anything else.
    Other,
}

impl<'f> ClientFrame<'f> {
    /// The number of a request, and the request; `None` for a malformed one.
    pub(crate) fn of(frame: &'f [u8]) -> Option<(u64, Self)> {
        let [number] = numbers(frame, [ipc_frame::REQUEST_ID])?;
        let within = |field| messages(frame, field).last();
        let request = match (within(ipc_frame::MSG_BIND_SERVICE), within(ipc_frame::MSG_INVOKE_METHOD)) {
            (_, Some(invoke)) => Self::invoke(invoke)?,
            (Some(bind), None) => {
                Self::Bind(messages(bind, bind_service::SERVICE_NAME).next().unwrap_or_default())
            }
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

#[derive(Debug, PartialEq, Eq)]
pub(crate) enum ServiceFrame<'f> {
    /// Its answer to a program that wants to be bound.
    Bound(&'f [u8]),
    /// A reply to the call with this number, and its message; `None` if the call has failed.
    Reply(u64, Option<&'f [u8]>),
    Other,
}

impl<'f> ServiceFrame<'f> {
    /// `None` for a malformed one.
    pub(crate) fn of(frame: &'f [u8]) -> Option<Self> {
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

pub(crate) fn bind(request: u64, service: &str) -> ProtoBuilder {
    let bind = ProtoBuilder::new().bytes(bind_service::SERVICE_NAME, service.as_bytes());
    frame(request, ipc_frame::MSG_BIND_SERVICE, &bind)
}

/// Tells a program that has asked that it is bound, with the numbers of methods: their order, from 1 on.
pub(crate) fn bound<'n>(request: u64, methods: impl IntoIterator<Item = &'n str>) -> ProtoBuilder {
    let bound = ProtoBuilder::new().number(bind_service_reply::SUCCESS, true);
    let bound = bound.number(bind_service_reply::SERVICE_ID, SERVICE);
    let bound = bound.each((1_u64..).zip(methods), |bound, (id, name)| {
        let method = ProtoBuilder::new().number(method_info::ID, id);
        bound.message(bind_service_reply::METHODS, &method.bytes(method_info::NAME, name.as_bytes()))
    });
    frame(request, ipc_frame::MSG_BIND_SERVICE_REPLY, &bound)
}

pub(crate) fn not_bound(request: u64) -> ProtoBuilder {
    let reply = ProtoBuilder::new().number(bind_service_reply::SUCCESS, false);
    frame(request, ipc_frame::MSG_BIND_SERVICE_REPLY, &reply)
}

/// A call; one that wants no reply has no number.
pub(crate) fn invoke(
    service: u64,
    method: u64,
    arguments: &ProtoBuilder,
    request: Option<u64>,
) -> ProtoBuilder {
    let invoke = ProtoBuilder::new().number(invoke_method::SERVICE_ID, service);
    let invoke =
        invoke.number(invoke_method::METHOD_ID, method).message(invoke_method::ARGS_PROTO, arguments);
    let invoke = invoke.number(invoke_method::DROP_REPLY, request.is_none());
    frame(request.unwrap_or(0), ipc_frame::MSG_INVOKE_METHOD, &invoke)
}

/// What a call returns; with more, another reply to the same call may follow.
pub(crate) fn reply(request: u64, message: &ProtoBuilder, has_more: bool) -> ProtoBuilder {
    let reply = ProtoBuilder::new().number(invoke_method_reply::SUCCESS, true);
    let reply = reply.number(invoke_method_reply::HAS_MORE, has_more);
    let reply = reply.message(invoke_method_reply::REPLY_PROTO, message);
    frame(request, ipc_frame::MSG_INVOKE_METHOD_REPLY, &reply)
}

pub(crate) fn failure(request: u64) -> ProtoBuilder {
    let reply = ProtoBuilder::new().number(invoke_method_reply::SUCCESS, false);
    frame(request, ipc_frame::MSG_INVOKE_METHOD_REPLY, &reply)
}

pub(crate) fn push_frame(stream: &mut Vec<u8>, frame: &ProtoBuilder) {
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
            let (mut left, mut taken) = (stream.as_slice(), FrameReader::new());
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
        let (mut frames, len) = (FrameReader::new(), (MAX_IPC_FRAME as u32 + 1).to_le_bytes());
        let receive = |room: &mut [u8]| {
            room[..4].copy_from_slice(&len);
            Ok(4)
        };
        assert!(frames.next(receive, |_| Some(())).is_err());
        assert_eq!(frames.bytes.len(), 4096);
    }
}
