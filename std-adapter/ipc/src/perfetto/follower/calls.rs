//! What a program says to Perfetto's service: calls of its `ProducerPort`, and frames around them.
//!
//! Facts from `protos/perfetto/ipc/producer_port.proto`, and from `commit_data_request.proto`,
//! `data_source_descriptor.proto` and `track_event_descriptor.proto` in `protos/perfetto/common`.

use tracebuf::producer::{ChunkPatch, ChunkToMove};

use crate::perfetto::commands::PAGES;
use crate::perfetto::frames::{
    BIND as BIND_FIELD, BOUND_METHOD, BOUND_SERVICE, BOUND_SUCCESS, INVOKE, INVOKE_ARGUMENTS, INVOKE_METHOD,
    INVOKE_NO_REPLY, INVOKE_SERVICE, METHOD_ID, METHOD_NAME, REQUEST, SERVICE_NAME,
};
use crate::perfetto::proto::Proto;
use tracebuf_session::fields::{Fields, Value};

// The numbers of calls; their lower two bits are not set.
pub(super) const BIND: u64 = 1 << 2;
pub(super) const HELLO: u64 = 2 << 2;
/// The call to which commands are replies.
pub(super) const COMMANDS: u64 = 3 << 2;
/// The call that is answered once a session that is already there has said everything it has to say.
pub(super) const ALL_SAID: u64 = 4 << 2;

/// The methods that are called.
#[derive(Clone, Copy)]
pub(super) enum Method {
    InitializeConnection,
    RegisterDataSource,
    CommitData,
    GetAsyncCommand,
    RegisterTraceWriter,
    UnregisterTraceWriter,
    NotifyDataSourceStarted,
    NotifyDataSourceStopped,
    Sync,
}

/// Their names, in the same order.
const NAMES: [&[u8]; 9] = [
    b"InitializeConnection",
    b"RegisterDataSource",
    b"CommitData",
    b"GetAsyncCommand",
    b"RegisterTraceWriter",
    b"UnregisterTraceWriter",
    b"NotifyDataSourceStarted",
    b"NotifyDataSourceStopped",
    b"Sync",
];

/// The numbers that a service uses for itself, and for its methods.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Port {
    service: u64,
    methods: [u64; NAMES.len()],
}

/// Asks for these numbers.
pub(super) fn bind(request: u64) -> Proto {
    let bind = Proto::new().bytes(SERVICE_NAME, b"ProducerPort");
    Proto::new().number(REQUEST, request).message(BIND_FIELD, &bind)
}

impl Port {
    /// What the service answers; `None` if it has no such port, or one that lacks a method.
    pub(super) fn of(bound: &[u8]) -> Option<Self> {
        let (mut is_bound, mut service, mut methods) = (false, 0, [None; NAMES.len()]);
        for field in Fields::of(bound) {
            match (field.number, field.value) {
                (BOUND_SUCCESS, Value::Number(number)) => is_bound = number != 0,
                (BOUND_SERVICE, Value::Number(number)) => service = number,
                (BOUND_METHOD, Value::Bytes(method)) => {
                    let (id, name) = method_of(method)?;
                    let known = NAMES.iter().zip(&mut methods).find(|(known, _)| **known == name);
                    known.into_iter().for_each(|(_, place)| *place = Some(id));
                }
                _ => {}
            }
        }
        let mut numbers = [0; NAMES.len()];
        for (number, method) in numbers.iter_mut().zip(methods) {
            *number = method?;
        }
        is_bound.then_some(Self { service, methods: numbers })
    }

    /// A call; one that wants no reply has no number.
    pub(super) fn call(&self, method: Method, arguments: &Proto, reply: Option<u64>) -> Proto {
        let number = self.methods.get(method as usize).copied().unwrap_or(0);
        let invoke = Proto::new().number(INVOKE_SERVICE, self.service).number(INVOKE_METHOD, number);
        let invoke = invoke.message(INVOKE_ARGUMENTS, arguments).number(INVOKE_NO_REPLY, reply.is_none());
        Proto::new().number(REQUEST, reply.unwrap_or(0)).message(INVOKE, &invoke)
    }
}

fn method_of(method: &[u8]) -> Option<(u64, &[u8])> {
    let (mut id, mut name) = (None, None);
    for field in Fields::of(method) {
        match (field.number, field.value) {
            (METHOD_ID, Value::Number(number)) => id = Some(number),
            (METHOD_NAME, Value::Bytes(bytes)) => name = Some(bytes),
            _ => {}
        }
    }
    id.zip(name)
}

/// Says who a program is, and what shared memory it would like to have.
pub(super) fn hello(name: &str, shared_memory: u32, page: u32) -> Proto {
    const PAGE: u32 = 1;
    const SHARED_MEMORY: u32 = 2;
    const NAME: u32 = 3;
    const SCRAPING: u32 = 4;
    const VERSIONS: u32 = 9;
    let hello = Proto::new().number(PAGE, page).number(SHARED_MEMORY, shared_memory);
    // Chunks that are not complete may be looked at; shared memory is of pages.
    hello.bytes(NAME, name.as_bytes()).number(SCRAPING, 1_u32).number(VERSIONS, PAGES)
}

/// Offers a data source that says when it has started and stopped, and repeats its state when it is asked to. Some of
/// its categories can be wanted.
pub(super) fn data_source(name: &str, categories: &[String]) -> Proto {
    const DESCRIPTOR: u32 = 1;
    const NAME: u32 = 1;
    const NOTIFIES_STOP: u32 = 2;
    const NOTIFIES_START: u32 = 3;
    const CLEARS_STATE: u32 = 4;
    const TRACK_EVENTS: u32 = 6;
    const CATEGORY: u32 = 1;
    const CATEGORY_NAME: u32 = 1;
    let descriptor = Proto::new().bytes(NAME, name.as_bytes());
    let descriptor = descriptor.number(NOTIFIES_STOP, true).number(NOTIFIES_START, true);
    let descriptor = descriptor.number(CLEARS_STATE, true);
    let events = Proto::new().each(categories, |events, category| {
        events.message(CATEGORY, &Proto::new().bytes(CATEGORY_NAME, category.as_bytes()))
    });
    let descriptor =
        if categories.is_empty() { descriptor } else { descriptor.message(TRACK_EVENTS, &events) };
    Proto::new().message(DESCRIPTOR, &descriptor)
}

/// About a data source that has started or stopped.
pub(super) fn instance(instance: u64) -> Proto {
    Proto::new().number(1, instance)
}

/// About a writer that is there from now on, and writes to this buffer.
pub(super) fn writer(writer_id: u16, buffer: u32) -> Proto {
    Proto::new().number(1, writer_id).number(2, buffer)
}

/// About a writer that has ended.
pub(super) fn writer_that_ends(writer_id: u16) -> Proto {
    Proto::new().number(1, writer_id)
}

/// A chunk to be moved to a buffer, in what is committed.
pub(super) fn push_move(commit: Proto, chunk: ChunkToMove, buffer: u32) -> Proto {
    commit.message(1, &Proto::new().number(1, chunk.page).number(2, chunk.chunk).number(3, buffer))
}

/// A patch for a chunk, in what is committed.
pub(super) fn push_patch(
    commit: Proto,
    writer_id: u16,
    buffer: u32,
    patch: ChunkPatch,
    has_more: bool,
) -> Proto {
    let chunk = Proto::new().number(1, buffer).number(2, writer_id).number(3, patch.chunk_id);
    let chunk = chunk.message(4, &Proto::new().number(1, patch.offset).bytes(2, &patch.data));
    commit.message(2, &chunk.number(5, has_more))
}

/// Everything before belongs to a flush that the service has asked for.
pub(super) fn push_flush(commit: Proto, flush: u64) -> Proto {
    commit.number(3, flush)
}
