//! What Perfetto's service says: replies, and the commands among them.
//!
//! Facts from `protos/perfetto/ipc/wire_protocol.proto` and `protos/perfetto/ipc/producer_port.proto`.

use super::calls::Port;
use crate::perfetto::categories::Categories;
use crate::perfetto::frames::{BOUND, REPLY, REPLY_MESSAGE, REPLY_SUCCESS, REQUEST};
use crate::perfetto::proto::numbers;
use tracebuf_session::fields::{Fields, Value, message};

/// What a frame says.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Answer<R> {
    /// The numbers of its methods; `None` if it does not have what is called here.
    Bound(Option<Port>),
    /// A reply to the call with this number, and what was made of its message; `None` if the call has failed.
    Reply(u64, Option<R>),
    /// Nothing that was asked for.
    Other,
}

/// What a frame says, its message read by `of`; `None` for a malformed one.
pub(super) fn answer<R>(frame: &[u8], of: impl FnOnce(u64, &[u8]) -> Option<R>) -> Option<Answer<R>> {
    let (mut request, mut bound, mut reply) = (0, None, None);
    let mut fields = Fields::of(frame);
    for field in &mut fields {
        match (field.number, field.value) {
            (REQUEST, Value::Number(number)) => request = number,
            (BOUND, Value::Bytes(bytes)) => bound = Some(bytes),
            (REPLY, Value::Bytes(bytes)) => reply = Some(bytes),
            _ => {}
        }
    }
    if !fields.is_at_end() {
        return None;
    }
    match (bound, reply) {
        (Some(bound), _) => Some(Answer::Bound(Port::of(bound))),
        (None, Some(reply)) => {
            let [success] = numbers(reply, [REPLY_SUCCESS])?;
            let within = if success == 0 { None } else { Some(of(request, message(reply, REPLY_MESSAGE)?)?) };
            Some(Answer::Reply(request, within))
        }
        (None, None) => Some(Answer::Other),
    }
}

/// What a service wants.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Command {
    /// To use the shared memory that has come with this, with pages of this many KiB.
    UseMemory { page_kib: u64 },
    /// To record these categories, into one of its buffers.
    Start { instance: u64, buffer: u64, categories: Categories },
    /// To stop that.
    Stop { instance: u64 },
    /// Everything that there is, and then this number.
    Flush { request: u64 },
    /// To repeat names and clocks.
    ClearState,
    /// Something that has no meaning here.
    Other,
}

impl Command {
    /// What a message says; `None` for a malformed one.
    pub(super) fn of(command: &[u8]) -> Option<Self> {
        let mut said = Self::Other;
        let mut fields = Fields::of(command);
        for field in &mut fields {
            let (number, Value::Bytes(within)) = (field.number, field.value) else { continue };
            said = match number {
                1 => {
                    let ([instance], config) = (numbers(within, [1])?, message(within, 2)?);
                    let ([buffer], categories) = (numbers(config, [2])?, Categories::of(config));
                    Self::Start { instance, buffer, categories }
                }
                2 => Self::Stop { instance: numbers(within, [1])?[0] },
                3 => Self::UseMemory { page_kib: numbers(within, [1])?[0] },
                5 => Self::Flush { request: numbers(within, [2])?[0] },
                7 => Self::ClearState,
                _ => Self::Other,
            };
        }
        fields.is_at_end().then_some(said)
    }
}
