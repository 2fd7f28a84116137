//! What programs ask of a service: the calls of Perfetto's `ProducerPort`.
//!
//! Facts from `protos/perfetto/ipc/producer_port.proto` and `protos/perfetto/common/commit_data_request.proto`.

use tracebuf::producer::{ChunkPatch, ChunkToMove, Request};

use super::data_sources::Descriptor;
use super::frames::{Frame, request_of};
use super::proto::numbers;
use tracebuf_session::fields::{Fields, Value, message};

/// The service that has these calls.
const SERVICE: &[u8] = b"ProducerPort";

/// The methods that a program is told of, numbered in this order from 1 on. It calls no others.
pub(super) const METHODS: [&str; 12] = [
    "InitializeConnection",
    "RegisterDataSource",
    "UnregisterDataSource",
    "CommitData",
    "GetAsyncCommand",
    "RegisterTraceWriter",
    "UnregisterTraceWriter",
    "NotifyDataSourceStarted",
    "NotifyDataSourceStopped",
    "ActivateTriggers",
    "Sync",
    "UpdateDataSource",
];
const INITIALIZE_CONNECTION: u64 = 1;
const REGISTER_DATA_SOURCE: u64 = 2;
const UNREGISTER_DATA_SOURCE: u64 = 3;
const COMMIT_DATA: u64 = 4;
const GET_ASYNC_COMMAND: u64 = 5;
const REGISTER_TRACE_WRITER: u64 = 6;
const UNREGISTER_TRACE_WRITER: u64 = 7;
const LAST: u64 = METHODS.len() as u64;

/// A value of `InitializeConnectionRequest.SMBScrapingMode`.
const SCRAPING_DISABLED: u64 = 2;

/// What a program says, one thing after another.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum FromProgram {
    /// Wants to be bound to this service, or to another.
    Bind { request: u64, is_known: bool },
    /// Says who it is, first of all.
    Initialize { request: u64, hello: Hello },
    /// Wants to hear commands in reply to this call.
    Listen { request: u64 },
    /// Offers a data source.
    Register(Descriptor),
    /// No longer has that data source.
    Unregister(String),
    /// A request about its shared memory.
    Request(Request),
    /// Everything that was complete when this flush was asked for has come.
    Flushed(u64),
    /// Wants to hear that everything before was carried out, or that there is no such call.
    Answer { request: u64, is_known: bool },
}

/// What a program says about itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Hello {
    /// Kinds of shared memory that it can have, one bit each; 0 for programs from before there was more than one kind.
    pub(super) memory: u32,
    /// Whether chunks that it has not completed may be looked at while it is there.
    pub(super) may_scrape: bool,
}

/// What a frame says; `None` for a malformed one.
pub(super) fn requests_of(frame: &[u8]) -> Option<Vec<FromProgram>> {
    let (request, frame) = request_of(frame)?;
    let mut requests = Vec::new();
    match frame {
        Frame::Bind(name) => requests.push(FromProgram::Bind { request, is_known: name == SERVICE }),
        Frame::Invoke { method, arguments, wants_reply } => {
            call(method, arguments, request, &mut requests)?;
            let is_answered = matches!(method, INITIALIZE_CONNECTION | GET_ASYNC_COMMAND);
            if wants_reply && !is_answered {
                requests.push(FromProgram::Answer { request, is_known: (1..=LAST).contains(&method) });
            }
        }
        Frame::Other => {}
    }
    Some(requests)
}

fn call(method: u64, arguments: &[u8], request: u64, requests: &mut Vec<FromProgram>) -> Option<()> {
    match method {
        INITIALIZE_CONNECTION => {
            let [scraping, memory] = numbers(arguments, [4, 9])?;
            let hello = Hello { memory: memory as u32, may_scrape: scraping != SCRAPING_DISABLED };
            requests.push(FromProgram::Initialize { request, hello });
        }
        GET_ASYNC_COMMAND => requests.push(FromProgram::Listen { request }),
        REGISTER_DATA_SOURCE => {
            let descriptor = message(arguments, 1)?;
            requests.push(FromProgram::Register(Descriptor::of(descriptor)?));
        }
        UNREGISTER_DATA_SOURCE => {
            let name = message(arguments, 1)?;
            requests.push(FromProgram::Unregister(String::from_utf8_lossy(name).into_owned()));
        }
        REGISTER_TRACE_WRITER => {
            let [writer, buffer] = numbers(arguments, [1, 2])?;
            let register = |writer_id| Request::Register { writer_id, target: target(buffer) };
            requests.extend(u16::try_from(writer).ok().map(register).map(FromProgram::Request));
        }
        UNREGISTER_TRACE_WRITER => {
            let [writer] = numbers(arguments, [1])?;
            let unregister = |writer_id| Request::Unregister { writer_id };
            requests.extend(u16::try_from(writer).ok().map(unregister).map(FromProgram::Request));
        }
        COMMIT_DATA => commit(arguments, requests)?,
        _ => {}
    }
    Some(())
}

/// Moves come before patches, and patches before the end of a flush, whatever their order in the message.
fn commit(message: &[u8], requests: &mut Vec<FromProgram>) -> Option<()> {
    let mut patches = Vec::new();
    let mut flush = 0;
    let mut fields = Fields::of(message);
    for field in &mut fields {
        match (field.number, field.value) {
            (1, Value::Bytes(chunk)) => {
                let [page, chunk, buffer] = numbers(chunk, [1, 2, 3])?;
                let chunk = ChunkToMove { page: page as u32, chunk: chunk as u32, target: target(buffer) };
                requests.push(FromProgram::Request(Request::Move(chunk)));
            }
            (2, Value::Bytes(chunk)) => patch(chunk, &mut patches)?,
            (3, Value::Number(number)) => flush = number,
            _ => {}
        }
    }
    requests.append(&mut patches);
    requests.extend((flush != 0).then_some(FromProgram::Flushed(flush)));
    fields.is_at_end().then_some(())
}

/// Patches of one chunk.
fn patch(chunk: &[u8], requests: &mut Vec<FromProgram>) -> Option<()> {
    let [buffer, writer, chunk_id, has_more] = numbers(chunk, [1, 2, 3, 5])?;
    // A writer that cannot exist has no chunk.
    let Ok(writer_id) = u16::try_from(writer) else { return Some(()) };
    let begin = requests.len();
    for field in Fields::of(chunk) {
        let (4, Value::Bytes(patch)) = (field.number, field.value) else { continue };
        let ([offset], data) = (numbers(patch, [1])?, message(patch, 2)?);
        // An offset where no size field can be, or data that is none.
        let (Ok(offset), Ok(data)) = (u16::try_from(offset), data.try_into()) else { continue };
        let patch = ChunkPatch { chunk_id: chunk_id as u32, offset, data };
        let patch = Request::Patch { writer_id, target: target(buffer), patch, has_more: true };
        requests.push(FromProgram::Request(patch));
    }
    if let Some([.., FromProgram::Request(Request::Patch { has_more: last, .. })]) = requests.get_mut(begin..)
    {
        *last = has_more != 0;
    }
    Some(())
}

/// The buffer of a number. Perfetto counts them from 1 on; one that does not exist is refused where chunks are taken.
fn target(buffer: u64) -> u16 {
    buffer.checked_sub(1).and_then(|target| u16::try_from(target).ok()).unwrap_or(u16::MAX)
}
