//! Calls of Perfetto's `ProducerPort` as a program makes them, encoded.
//!
//! Facts as in [`calls`](super::calls).

use alloc::string::String;

use tracebuf::producer::{ChunkPatch, ChunkToMove};
use tracebuf::proto::fields::ipc::{
    bind_service_reply, chunk_to_patch, chunks_to_move, commit_data_request, data_source_descriptor,
    initialize_connection_request, method, method_info, notify_data_source_started_request, patch,
    protocol_abi_version, register_data_source_request, register_trace_writer_request, smb_scraping_mode,
    track_event_category, track_event_descriptor, unregister_trace_writer_request,
};
use tracebuf::proto::reader::{message, messages, numbers};

use super::ProtoBuilder;
use super::calls::METHODS;
use super::frames::invoke;

/// Methods that programs of this crate do without.
const SPARE: [&str; 3] =
    [method::UNREGISTER_DATA_SOURCE, method::ACTIVATE_TRIGGERS, method::UPDATE_DATA_SOURCE];

/// The numbers that a service uses for itself, and for its methods.
#[derive(Debug, PartialEq, Eq)]
pub struct Port {
    service: u64,
    methods: [u64; METHODS.len()],
}

impl Port {
    /// What the service answers; `None` if it has no such port, or one that lacks a method.
    #[must_use]
    pub fn of(bound: &[u8]) -> Option<Self> {
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

    /// A call; one that wants no reply has no number.
    #[must_use]
    pub fn call(&self, method: &str, arguments: &ProtoBuilder, reply: Option<u64>) -> ProtoBuilder {
        let at = METHODS.iter().position(|known| *known == method);
        let number = at.and_then(|at| self.methods.get(at)).copied().unwrap_or(0);
        invoke(self.service, number, arguments, reply)
    }
}

/// Says who a program is, and what memory it would like.
#[must_use]
pub fn hello(name: &str, shared_memory: u32, page: u32) -> ProtoBuilder {
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
#[must_use]
pub fn data_source(name: &str, categories: &[String]) -> ProtoBuilder {
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
#[must_use]
pub fn instance(instance: u64) -> ProtoBuilder {
    ProtoBuilder::new().number(notify_data_source_started_request::DATA_SOURCE_ID, instance)
}

/// Says that a writer begins.
#[must_use]
pub fn writer(writer_id: u16, buffer: u32) -> ProtoBuilder {
    use register_trace_writer_request as fields;
    ProtoBuilder::new().number(fields::TRACE_WRITER_ID, writer_id).number(fields::TARGET_BUFFER, buffer)
}

/// Says that a writer has ended.
#[must_use]
pub fn writer_that_ends(writer_id: u16) -> ProtoBuilder {
    ProtoBuilder::new().number(unregister_trace_writer_request::TRACE_WRITER_ID, writer_id)
}

/// Adds a chunk to move to a commit.
#[must_use]
pub fn push_move(commit: ProtoBuilder, chunk: ChunkToMove, buffer: u32) -> ProtoBuilder {
    use chunks_to_move as fields;
    let moved = ProtoBuilder::new().number(fields::PAGE, chunk.page).number(fields::CHUNK, chunk.chunk);
    commit.message(commit_data_request::CHUNKS_TO_MOVE, &moved.number(fields::TARGET_BUFFER, buffer))
}

/// Adds a patch to a commit.
#[must_use]
pub fn push_patch(
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
#[must_use]
pub fn push_flush(commit: ProtoBuilder, flush: u64) -> ProtoBuilder {
    commit.number(commit_data_request::FLUSH_REQUEST_ID, flush)
}
