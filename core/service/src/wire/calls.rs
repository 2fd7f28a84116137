//! Calls of Perfetto's `ProducerPort`, encoded and decoded: what a program says to a service.
//!
//! Facts from `protos/perfetto/ipc/producer_port.proto`, and from `commit_data_request.proto`,
//! `data_source_descriptor.proto` and `track_event_descriptor.proto` in `protos/perfetto/common`.

use tracebuf::producer::{ChunkPatch, ChunkToMove, Request};
use tracebuf::proto::fields::ipc::{
    PRODUCER_PORT, bind_service_reply, chunk_to_patch, chunks_to_move, commit_data_request,
    data_source_descriptor, initialize_connection_request, method, method_info,
    notify_data_source_started_request, patch, protocol_abi_version, register_data_source_request,
    register_trace_writer_request, smb_scraping_mode, track_event_category, track_event_descriptor,
    unregister_data_source_request, unregister_trace_writer_request,
};
use tracebuf::proto::reader::{FieldValue, Fields, message, messages, numbers};

use super::data_sources::SourceDescriptor;
use super::frames::{ClientFrame, invoke};
use crate::proto_builder::ProtoBuilder;

/// The methods that a program is told of, numbered in this order from 1 on. It calls no others.
pub(crate) const METHODS: [&str; 12] = [
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

/// Methods that programs of this crate do without.
const SPARE: [&str; 3] =
    [method::UNREGISTER_DATA_SOURCE, method::ACTIVATE_TRIGGERS, method::UPDATE_DATA_SOURCE];

/// What a program says, one thing after another.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum ProducerCall {
    /// Wants to be bound to this service, or to another.
    Bind { request: u64, is_known: bool },
    /// Says who it is, first of all.
    Initialize { request: u64, hello: Hello },
    /// Wants to hear commands in reply to this call.
    Listen { request: u64 },
    /// Offers a data source.
    Register(SourceDescriptor),
    /// No longer has that data source.
    Unregister(String),
    /// About its shared memory.
    Request(Request),
    /// Everything that was complete when this flush was asked for has come.
    Flushed(u64),
    /// Wants to hear that everything before was carried out, or that there is no such call.
    Answer { request: u64, is_known: bool },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Hello {
    /// Kinds of shared memory that it can have, one bit each; 0 for programs from before there was more than one kind.
    pub(crate) memory: u64,
    /// Whether chunks that it has not completed may be looked at while it is there.
    pub(crate) may_scrape: bool,
}

impl ProducerCall {
    /// What a frame says; `None` for a malformed one.
    pub(crate) fn all_of(frame: &[u8]) -> Option<Vec<Self>> {
        let (request, frame) = ClientFrame::of(frame)?;
        let mut calls = Vec::new();
        match frame {
            ClientFrame::Bind(name) => {
                calls.push(Self::Bind { request, is_known: name == PRODUCER_PORT.as_bytes() });
            }
            ClientFrame::Invoke { method, arguments, wants_reply } => {
                let at = usize::try_from(method).ok().and_then(|number| number.checked_sub(1));
                let method = at.and_then(|at| METHODS.get(at).copied());
                push_call(method, arguments, request, &mut calls)?;
                let is_answered =
                    matches!(method, Some(method::INITIALIZE_CONNECTION | method::GET_ASYNC_COMMAND));
                if wants_reply && !is_answered {
                    calls.push(Self::Answer { request, is_known: method.is_some() });
                }
            }
            ClientFrame::Other => {}
        }
        Some(calls)
    }
}

fn push_call(
    method: Option<&str>,
    arguments: &[u8],
    request: u64,
    calls: &mut Vec<ProducerCall>,
) -> Option<()> {
    match method {
        Some(method::INITIALIZE_CONNECTION) => {
            use initialize_connection_request as fields;
            let of = [fields::SMB_SCRAPING_MODE, fields::SUPPORTED_PROTOCOL_ABI_VERSIONS];
            let [scraping, memory] = numbers(arguments, of)?;
            let hello = Hello { memory, may_scrape: scraping != smb_scraping_mode::DISABLED };
            calls.push(ProducerCall::Initialize { request, hello });
        }
        Some(method::GET_ASYNC_COMMAND) => calls.push(ProducerCall::Listen { request }),
        Some(method::REGISTER_DATA_SOURCE) => {
            let descriptor = message(arguments, register_data_source_request::DATA_SOURCE_DESCRIPTOR)?;
            calls.push(ProducerCall::Register(SourceDescriptor::of(descriptor)?));
        }
        Some(method::UNREGISTER_DATA_SOURCE) => {
            let name = message(arguments, unregister_data_source_request::DATA_SOURCE_NAME)?;
            calls.push(ProducerCall::Unregister(String::from_utf8_lossy(name).into_owned()));
        }
        Some(method::REGISTER_TRACE_WRITER) => {
            use register_trace_writer_request as fields;
            let [writer, buffer] = numbers(arguments, [fields::TRACE_WRITER_ID, fields::TARGET_BUFFER])?;
            let register = |writer_id| Request::Register { writer_id, target: target(buffer) };
            calls.extend(u16::try_from(writer).ok().map(register).map(ProducerCall::Request));
        }
        Some(method::UNREGISTER_TRACE_WRITER) => {
            let [writer] = numbers(arguments, [unregister_trace_writer_request::TRACE_WRITER_ID])?;
            let unregister = |writer_id| Request::Unregister { writer_id };
            calls.extend(u16::try_from(writer).ok().map(unregister).map(ProducerCall::Request));
        }
        Some(method::COMMIT_DATA) => push_commit(arguments, calls)?,
        _ => {}
    }
    Some(())
}

/// Moves come before patches, and patches before the end of a flush, whatever their order in the message.
fn push_commit(message: &[u8], calls: &mut Vec<ProducerCall>) -> Option<()> {
    use chunks_to_move::{CHUNK, PAGE, TARGET_BUFFER};
    let mut patches = Vec::new();
    let mut flush = 0;
    let mut fields = Fields::of(message);
    for field in &mut fields {
        match (field.number, field.value) {
            (commit_data_request::CHUNKS_TO_MOVE, FieldValue::Bytes(chunk)) => {
                let [page, chunk, buffer] = numbers(chunk, [PAGE, CHUNK, TARGET_BUFFER])?;
                let chunk = ChunkToMove { page: page as u32, chunk: chunk as u32, target: target(buffer) };
                calls.push(ProducerCall::Request(Request::Move(chunk)));
            }
            (commit_data_request::CHUNKS_TO_PATCH, FieldValue::Bytes(chunk)) => {
                push_patches(chunk, &mut patches)?
            }
            (commit_data_request::FLUSH_REQUEST_ID, FieldValue::Number(number)) => flush = number,
            _ => {}
        }
    }
    calls.append(&mut patches);
    calls.extend((flush != 0).then_some(ProducerCall::Flushed(flush)));
    fields.is_at_end().then_some(())
}

fn push_patches(chunk: &[u8], calls: &mut Vec<ProducerCall>) -> Option<()> {
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
        let patch = Request::Patch { writer_id, target: target(buffer), patch, has_more: true };
        calls.push(ProducerCall::Request(patch));
    }
    if let Some([.., ProducerCall::Request(Request::Patch { has_more: last, .. })]) = calls.get_mut(begin..) {
        *last = has_more != 0;
    }
    Some(())
}

/// The buffer of a number. Perfetto counts them from 1 on; one that does not exist is refused where chunks are taken.
fn target(buffer: u64) -> u16 {
    buffer.checked_sub(1).and_then(|target| u16::try_from(target).ok()).unwrap_or(u16::MAX)
}

/// The numbers that a service uses for itself, and for its methods.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Port {
    service: u64,
    methods: [u64; METHODS.len()],
}

impl Port {
    /// What the service answers; `None` if it has no such port, or one that lacks a method.
    pub(crate) fn of(bound: &[u8]) -> Option<Self> {
        use bind_service_reply::{METHODS as METHOD, SERVICE_ID, SUCCESS};
        let [is_bound, service] = numbers(bound, [SUCCESS, SERVICE_ID])?;
        let mut known = [None; METHODS.len()];
        for method in messages(bound, METHOD) {
            let ([id], name) = (numbers(method, [method_info::ID])?, message(method, method_info::NAME)?);
            let place = METHODS.iter().zip(&mut known).find(|(known, _)| known.as_bytes() == name);
            place.into_iter().for_each(|(_, place)| *place = Some(id));
        }
        let mut methods = [0; METHODS.len()];
        for ((number, known), method) in methods.iter_mut().zip(known).zip(METHODS) {
            *number = known.or(SPARE.contains(&method).then_some(0))?;
        }
        (is_bound != 0).then_some(Self { service, methods })
    }

    pub(crate) fn call(&self, method: &str, arguments: &ProtoBuilder, reply: Option<u64>) -> ProtoBuilder {
        let at = METHODS.iter().position(|known| *known == method);
        let number = at.and_then(|at| self.methods.get(at)).copied().unwrap_or(0);
        invoke(self.service, number, arguments, reply)
    }
}

pub(crate) fn hello(name: &str, shared_memory: u32, page: u32) -> ProtoBuilder {
    use initialize_connection_request as fields;
    let hello = ProtoBuilder::new().number(fields::SHARED_MEMORY_PAGE_SIZE_HINT_BYTES, page);
    let hello = hello.number(fields::SHARED_MEMORY_SIZE_HINT_BYTES, shared_memory);
    // Chunks that are not complete may be looked at; shared memory is of pages.
    let hello = hello.bytes(fields::PRODUCER_NAME, name.as_bytes());
    let hello = hello.number(fields::SMB_SCRAPING_MODE, smb_scraping_mode::ENABLED);
    hello.number(fields::SUPPORTED_PROTOCOL_ABI_VERSIONS, protocol_abi_version::V1)
}

/// Offers a data source that says when it has started and stopped, and repeats its state when it is asked to. Some of
/// its categories can be wanted.
pub(crate) fn data_source(name: &str, categories: &[String]) -> ProtoBuilder {
    use data_source_descriptor as fields;
    let descriptor = ProtoBuilder::new().bytes(fields::NAME, name.as_bytes());
    let descriptor = descriptor.number(fields::WILL_NOTIFY_ON_STOP, true);
    let descriptor = descriptor.number(fields::WILL_NOTIFY_ON_START, true);
    let mut descriptor = descriptor.number(fields::HANDLES_INCREMENTAL_STATE_CLEAR, true);
    if !categories.is_empty() {
        let events = ProtoBuilder::new().each(categories, |events, category| {
            let category = ProtoBuilder::new().bytes(track_event_category::NAME, category.as_bytes());
            events.message(track_event_descriptor::AVAILABLE_CATEGORIES, &category)
        });
        descriptor = descriptor.message(fields::TRACK_EVENT_DESCRIPTOR, &events);
    }
    ProtoBuilder::new().message(register_data_source_request::DATA_SOURCE_DESCRIPTOR, &descriptor)
}

/// About a data source that has started or stopped: both messages have the same field.
pub(crate) fn instance(instance: u64) -> ProtoBuilder {
    ProtoBuilder::new().number(notify_data_source_started_request::DATA_SOURCE_ID, instance)
}

pub(crate) fn writer(writer_id: u16, buffer: u32) -> ProtoBuilder {
    use register_trace_writer_request as fields;
    ProtoBuilder::new().number(fields::TRACE_WRITER_ID, writer_id).number(fields::TARGET_BUFFER, buffer)
}

pub(crate) fn writer_that_ends(writer_id: u16) -> ProtoBuilder {
    ProtoBuilder::new().number(unregister_trace_writer_request::TRACE_WRITER_ID, writer_id)
}

pub(crate) fn push_move(commit: ProtoBuilder, chunk: ChunkToMove, buffer: u32) -> ProtoBuilder {
    use chunks_to_move as fields;
    let moved = ProtoBuilder::new().number(fields::PAGE, chunk.page).number(fields::CHUNK, chunk.chunk);
    commit.message(commit_data_request::CHUNKS_TO_MOVE, &moved.number(fields::TARGET_BUFFER, buffer))
}

pub(crate) fn push_patch(
    commit: ProtoBuilder,
    writer_id: u16,
    buffer: u32,
    patch: ChunkPatch,
    has_more: bool,
) -> ProtoBuilder {
    use chunk_to_patch as fields;
    let chunk = ProtoBuilder::new().number(fields::TARGET_BUFFER, buffer);
    let chunk = chunk.number(fields::WRITER_ID, writer_id).number(fields::CHUNK_ID, patch.chunk_id);
    let data = ProtoBuilder::new().number(patch::OFFSET, patch.offset).bytes(patch::DATA, &patch.data);
    let chunk = chunk.message(fields::PATCHES, &data).number(fields::HAS_MORE_PATCHES, has_more);
    commit.message(commit_data_request::CHUNKS_TO_PATCH, &chunk)
}

/// Everything before belongs to a flush that the service has asked for.
pub(crate) fn push_flush(commit: ProtoBuilder, flush: u64) -> ProtoBuilder {
    commit.number(commit_data_request::FLUSH_REQUEST_ID, flush)
}
