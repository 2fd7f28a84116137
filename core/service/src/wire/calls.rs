//! Calls of Perfetto's `ProducerPort`, encoded and decoded: what a program says to a service.
//!
//! Facts from `protos/perfetto/ipc/producer_port.proto`, and from `commit_data_request.proto`,
//! `data_source_descriptor.proto` and `track_event_descriptor.proto` in `protos/perfetto/common`.

use alloc::string::String;
use alloc::vec::Vec;

use tracebuf::producer::{ChunkPatch, ChunkToMove, Request};
use tracebuf::proto::fields::ipc::{
    PRODUCER_PORT, activate_triggers_request, chunk_to_patch, chunks_to_move, commit_data_request,
    data_source_descriptor, initialize_connection_request, method, notify_data_source_started_request,
    notify_data_source_stopped_request, patch, register_data_source_request, register_trace_writer_request,
    unregister_data_source_request, unregister_trace_writer_request,
};
use tracebuf::proto::reader::{FieldValue, Fields, message, messages, numbers};

#[cfg(doc)]
use tracebuf::proto::fields::ipc::smb_scraping_mode;

use super::frames::ClientFrame;

/// Most patches of one chunk: what has more is none that Perfetto's service takes.
const MOST_PATCHES: usize = 1024;

/// The methods that a program is told of, numbered in this order from 1 on. It calls no others.
pub const METHODS: [&str; 12] = [
    method::INITIALIZE_CONNECTION,
    method::REGISTER_DATA_SOURCE,
    method::UNREGISTER_DATA_SOURCE,
    method::COMMIT_DATA,
    method::GET_ASYNC_COMMAND,
    method::REGISTER_TRACE_WRITER,
    method::UNREGISTER_TRACE_WRITER,
    method::NOTIFY_DATA_SOURCE_STARTED,
    method::NOTIFY_DATA_SOURCE_STOPPED,
    method::ACTIVATE_TRIGGERS,
    method::SYNC,
    method::UPDATE_DATA_SOURCE,
];

/// A data source that a program says it has.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SourceDescriptor {
    /// Its name.
    pub name: String,
    /// A number by which the program changes what it said; 0 for none.
    pub id: u64,
    /// It says when it has stopped.
    pub notifies_stop: bool,
    /// It says when it has started.
    pub notifies_start: bool,
    /// It repeats names and clocks when it is told to.
    pub clears_state: bool,
    /// It has something to flush.
    pub is_flushed: bool,
    /// All that it says, encoded.
    pub whole: Vec<u8>,
}

impl SourceDescriptor {
    /// `None` for a malformed one.
    #[must_use]
    pub fn of(descriptor: &[u8]) -> Option<Self> {
        use data_source_descriptor as fields;
        let name = String::from_utf8_lossy(message(descriptor, fields::NAME)?).into_owned();
        let of = [
            fields::WILL_NOTIFY_ON_STOP,
            fields::WILL_NOTIFY_ON_START,
            fields::HANDLES_INCREMENTAL_STATE_CLEAR,
            fields::NO_FLUSH,
            fields::ID,
        ];
        let [stop, start, clear, no_flush, id] = numbers(descriptor, of)?;
        Some(Self {
            name,
            id,
            notifies_stop: stop != 0,
            notifies_start: start != 0,
            clears_state: clear != 0,
            is_flushed: no_flush == 0,
            whole: descriptor.to_vec(),
        })
    }
}

/// What a program says, one thing after another.
#[derive(Debug, PartialEq, Eq)]
pub enum ProducerCall {
    /// Says who it is, first of all.
    Initialize(Hello),
    /// Wants to hear commands in reply to this call.
    Listen,
    /// Offers a data source.
    Register(SourceDescriptor),
    /// Says something else of a data source that it has offered.
    Update(SourceDescriptor),
    /// No longer has that data source.
    Unregister(String),
    /// About its shared memory.
    Request(Request),
    /// Sends chunks as they are, because it has no shared memory.
    Emulated,
    /// Everything that was complete when this flush was asked for has come.
    Flushed(u64),
    /// This data source has started.
    Started(u64),
    /// This data source has stopped.
    Stopped(u64),
    /// Fires triggers.
    Activate(Vec<String>),
}

/// Who a program says that it is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Hello {
    /// Kinds of shared memory that it can have, one bit each; 0 for programs from before there was more than one kind.
    pub memory: u64,
    /// Whether chunks that it has not completed may be looked at while it is there: a value of
    /// [`smb_scraping_mode`], 0 if it leaves that to the service.
    pub scraping: u64,
    /// Bytes of a page that it would like.
    pub page: u64,
    /// Bytes of shared memory that it would like.
    pub size: u64,
    /// Whether shared memory comes with this.
    pub brings_memory: bool,
    /// Its name.
    pub name: String,
    /// The version of its library.
    pub sdk_version: String,
}

/// A call as it came, with what it says.
#[derive(Debug, PartialEq, Eq)]
pub enum ProducerFrame {
    /// Wants to be bound to this service, or to another.
    Bind {
        /// The number of the request.
        request: u64,
        /// Whether there is a service of this name.
        is_known: bool,
    },
    /// A call.
    Invoke {
        /// The number of the request; `None` if no reply is wanted.
        request: Option<u64>,
        /// The method; `None` if there is no such one.
        method: Option<&'static str>,
        /// What it says, in the order in which it is to be carried out.
        calls: Vec<ProducerCall>,
    },
    /// Anything else.
    Other {
        /// The number of the request.
        request: u64,
    },
}

impl ProducerFrame {
    /// What a frame says; `None` for a malformed one. `first` is the number by which the program knows the first
    /// buffer: that is taken from each.
    #[must_use]
    pub fn of(frame: &[u8], first: u16) -> Option<Self> {
        let (request, frame) = ClientFrame::of(frame)?;
        Some(match frame {
            ClientFrame::Bind(name) => Self::Bind { request, is_known: name == PRODUCER_PORT.as_bytes() },
            ClientFrame::Invoke { method, arguments, wants_reply } => {
                let at = usize::try_from(method).ok().and_then(|number| number.checked_sub(1));
                let method = at.and_then(|at| METHODS.get(at).copied());
                let mut calls = Vec::new();
                push_call(method, arguments, first, &mut calls)?;
                Self::Invoke { request: wants_reply.then_some(request), method, calls }
            }
            ClientFrame::Other => Self::Other { request },
        })
    }
}

fn text(message: &[u8]) -> String {
    String::from_utf8_lossy(message).into_owned()
}

fn push_call(
    method: Option<&str>,
    arguments: &[u8],
    first: u16,
    calls: &mut Vec<ProducerCall>,
) -> Option<()> {
    match method {
        Some(method::INITIALIZE_CONNECTION) => {
            use initialize_connection_request as fields;
            let of = [
                fields::SMB_SCRAPING_MODE,
                fields::SUPPORTED_PROTOCOL_ABI_VERSIONS,
                fields::SHARED_MEMORY_PAGE_SIZE_HINT_BYTES,
                fields::SHARED_MEMORY_SIZE_HINT_BYTES,
                fields::PRODUCER_PROVIDED_SHMEM,
            ];
            let [scraping, memory, page, size, brings] = numbers(arguments, of)?;
            calls.push(ProducerCall::Initialize(Hello {
                memory,
                scraping,
                page,
                size,
                brings_memory: brings != 0,
                name: text(message(arguments, fields::PRODUCER_NAME)?),
                sdk_version: text(message(arguments, fields::SDK_VERSION)?),
            }));
        }
        Some(method::GET_ASYNC_COMMAND) => calls.push(ProducerCall::Listen),
        Some(method::REGISTER_DATA_SOURCE) => {
            let descriptor = message(arguments, register_data_source_request::DATA_SOURCE_DESCRIPTOR)?;
            calls.push(ProducerCall::Register(SourceDescriptor::of(descriptor)?));
        }
        Some(method::UPDATE_DATA_SOURCE) => {
            let descriptor = message(arguments, register_data_source_request::DATA_SOURCE_DESCRIPTOR)?;
            calls.push(ProducerCall::Update(SourceDescriptor::of(descriptor)?));
        }
        Some(method::UNREGISTER_DATA_SOURCE) => {
            let name = message(arguments, unregister_data_source_request::DATA_SOURCE_NAME)?;
            calls.push(ProducerCall::Unregister(text(name)));
        }
        Some(method::REGISTER_TRACE_WRITER) => {
            use register_trace_writer_request as fields;
            let [writer, buffer] = numbers(arguments, [fields::TRACE_WRITER_ID, fields::TARGET_BUFFER])?;
            let register = |writer_id| Request::Register { writer_id, target: target(buffer, first) };
            calls.extend(u16::try_from(writer).ok().map(register).map(ProducerCall::Request));
        }
        Some(method::UNREGISTER_TRACE_WRITER) => {
            let [writer] = numbers(arguments, [unregister_trace_writer_request::TRACE_WRITER_ID])?;
            let unregister = |writer_id| Request::Unregister { writer_id };
            calls.extend(u16::try_from(writer).ok().map(unregister).map(ProducerCall::Request));
        }
        Some(method::COMMIT_DATA) => push_commit(arguments, first, calls)?,
        Some(method::NOTIFY_DATA_SOURCE_STARTED) => {
            let [id] = numbers(arguments, [notify_data_source_started_request::DATA_SOURCE_ID])?;
            calls.push(ProducerCall::Started(id));
        }
        Some(method::NOTIFY_DATA_SOURCE_STOPPED) => {
            let [id] = numbers(arguments, [notify_data_source_stopped_request::DATA_SOURCE_ID])?;
            calls.push(ProducerCall::Stopped(id));
        }
        Some(method::ACTIVATE_TRIGGERS) => {
            let names = messages(arguments, activate_triggers_request::TRIGGER_NAMES).map(text);
            calls.push(ProducerCall::Activate(names.collect()));
        }
        _ => {}
    }
    Some(())
}

/// Moves come before patches, and patches before the end of a flush, whatever their order in the message.
fn push_commit(commit: &[u8], first: u16, calls: &mut Vec<ProducerCall>) -> Option<()> {
    use chunks_to_move::{CHUNK, DATA, PAGE, TARGET_BUFFER};
    let mut patches = Vec::new();
    let mut flush = 0;
    let mut fields = Fields::of(commit);
    for field in &mut fields {
        match (field.number, field.value) {
            (commit_data_request::CHUNKS_TO_MOVE, FieldValue::Bytes(chunk)) => {
                let is_emulated = !message(chunk, DATA)?.is_empty();
                let [page, chunk, buffer] = numbers(chunk, [PAGE, CHUNK, TARGET_BUFFER])?;
                if is_emulated {
                    calls.push(ProducerCall::Emulated);
                    continue;
                }
                let chunk =
                    ChunkToMove { page: page as u32, chunk: chunk as u32, target: target(buffer, first) };
                calls.push(ProducerCall::Request(Request::Move(chunk)));
            }
            (commit_data_request::CHUNKS_TO_PATCH, FieldValue::Bytes(chunk)) => {
                push_patches(chunk, first, &mut patches)?
            }
            (commit_data_request::FLUSH_REQUEST_ID, FieldValue::Number(number)) => flush = number,
            _ => {}
        }
    }
    calls.append(&mut patches);
    calls.extend((flush != 0).then_some(ProducerCall::Flushed(flush)));
    fields.is_at_end().then_some(())
}

fn push_patches(chunk: &[u8], first: u16, calls: &mut Vec<ProducerCall>) -> Option<()> {
    use chunk_to_patch::{CHUNK_ID, HAS_MORE_PATCHES, PATCHES, TARGET_BUFFER, WRITER_ID};
    let of = [TARGET_BUFFER, WRITER_ID, CHUNK_ID, HAS_MORE_PATCHES];
    let [buffer, writer, chunk_id, has_more] = numbers(chunk, of)?;
    // A writer that cannot exist has no chunk.
    let Ok(writer_id) = u16::try_from(writer) else { return Some(()) };
    let begin = calls.len();
    for field in Fields::of(chunk) {
        let (PATCHES, FieldValue::Bytes(patch)) = (field.number, field.value) else { continue };
        let ([offset], data) = (numbers(patch, [patch::OFFSET])?, message(patch, patch::DATA)?);
        // An offset where no size field can be, or data that is none.
        let (Ok(offset), Ok(data)) = (u16::try_from(offset), data.try_into()) else { continue };
        let patch = ChunkPatch { chunk_id: chunk_id as u32, offset, data };
        let patch = Request::Patch { writer_id, target: target(buffer, first), patch, has_more: true };
        calls.push(ProducerCall::Request(patch));
    }
    if calls.len() - begin > MOST_PATCHES {
        calls.truncate(begin);
    }
    if let Some([.., ProducerCall::Request(Request::Patch { has_more: last, .. })]) = calls.get_mut(begin..) {
        *last = has_more != 0;
    }
    Some(())
}

/// The buffer of a number; one that does not exist is refused where chunks are taken.
fn target(buffer: u64, first: u16) -> u16 {
    buffer.checked_sub(first.into()).and_then(|target| u16::try_from(target).ok()).unwrap_or(u16::MAX)
}
