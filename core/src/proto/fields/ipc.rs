//! Field numbers and names of Perfetto's producer socket, by message: what a producer and its service say to each
//! other.
//!
//! ```
//! use tracebuf::proto::fields::ipc::{ipc_frame, bind_service, PRODUCER_PORT};
//! use tracebuf::proto::{Encoder, Overflow, Sink};
//!
//! let mut memory = [0; 32];
//! let mut frame = Encoder::new(&mut memory);
//! frame.varint(ipc_frame::REQUEST_ID, 1)?;
//! frame.nested(ipc_frame::MSG_BIND_SERVICE, |bind| bind.string(bind_service::SERVICE_NAME, PRODUCER_PORT))?;
//! assert!(frame.finish()?.ends_with(b"ProducerPort"));
//! # Ok::<(), Overflow>(())
//! ```

/// The service that producers call.
pub const PRODUCER_PORT: &str = "ProducerPort";

/// The methods of that service, by name: their numbers are the service's to choose.
pub mod method {
    /// Says who a producer is, first of all.
    pub const INITIALIZE_CONNECTION: &str = "InitializeConnection";
    /// Offers a data source.
    pub const REGISTER_DATA_SOURCE: &str = "RegisterDataSource";
    /// Withdraws one.
    pub const UNREGISTER_DATA_SOURCE: &str = "UnregisterDataSource";
    /// Moves and patches chunks, and ends a flush.
    pub const COMMIT_DATA: &str = "CommitData";
    /// Wants to hear commands, in replies to this call.
    pub const GET_ASYNC_COMMAND: &str = "GetAsyncCommand";
    /// A writer begins.
    pub const REGISTER_TRACE_WRITER: &str = "RegisterTraceWriter";
    /// A writer has ended.
    pub const UNREGISTER_TRACE_WRITER: &str = "UnregisterTraceWriter";
    /// A data source has started.
    pub const NOTIFY_DATA_SOURCE_STARTED: &str = "NotifyDataSourceStarted";
    /// A data source has stopped.
    pub const NOTIFY_DATA_SOURCE_STOPPED: &str = "NotifyDataSourceStopped";
    /// Fires triggers of sessions.
    pub const ACTIVATE_TRIGGERS: &str = "ActivateTriggers";
    /// Is answered once all before it was carried out.
    pub const SYNC: &str = "Sync";
    /// Changes what was said of a data source.
    pub const UPDATE_DATA_SOURCE: &str = "UpdateDataSource";
}

/// Values of `InitializeConnectionRequest.ProducerSMBScrapingMode`.
pub mod smb_scraping_mode {
    /// Chunks that are not complete may be looked at.
    pub const ENABLED: u64 = 1;
    /// They may not while the producer is there.
    pub const DISABLED: u64 = 2;
}

/// Values of `ProtocolAbiVersion`, which are bits.
pub mod protocol_abi_version {
    /// Shared memory of pages and chunks.
    pub const V1: u64 = 1;
}

/// `IPCFrame`, which follows its length (4 bytes, little-endian) on the socket.
pub mod ipc_frame {
    /// Varint: the call that this asks for, or replies to.
    pub const REQUEST_ID: u32 = 2;
    /// Message: `BindService`.
    pub const MSG_BIND_SERVICE: u32 = 3;
    /// Message: `BindServiceReply`.
    pub const MSG_BIND_SERVICE_REPLY: u32 = 4;
    /// Message: `InvokeMethod`.
    pub const MSG_INVOKE_METHOD: u32 = 5;
    /// Message: `InvokeMethodReply`.
    pub const MSG_INVOKE_METHOD_REPLY: u32 = 6;
    /// Message: `RequestError`.
    pub const MSG_REQUEST_ERROR: u32 = 7;
    /// Message: `SetPeerIdentity`.
    pub const SET_PEER_IDENTITY: u32 = 8;
}

/// `IPCFrame.RequestError`: the answer to a frame that is no request.
pub mod request_error {
    /// String: what is wrong.
    pub const ERROR: u32 = 1;
}

/// `IPCFrame.BindService`: asks for the numbers of a service and its methods.
pub mod bind_service {
    /// String: [`PRODUCER_PORT`](super::PRODUCER_PORT).
    pub const SERVICE_NAME: u32 = 1;
}

/// `IPCFrame.BindServiceReply`.
pub mod bind_service_reply {
    /// Bool: there is such a service.
    pub const SUCCESS: u32 = 1;
    /// Varint: its number.
    pub const SERVICE_ID: u32 = 2;
    /// Message: `MethodInfo`, repeated.
    pub const METHODS: u32 = 3;
}

/// `IPCFrame.BindServiceReply.MethodInfo`.
pub mod method_info {
    /// Varint: the method's number.
    pub const ID: u32 = 1;
    /// String: its name, as in [`method`](super::method).
    pub const NAME: u32 = 2;
}

/// `IPCFrame.InvokeMethod`: a call.
pub mod invoke_method {
    /// Varint: the service's number.
    pub const SERVICE_ID: u32 = 1;
    /// Varint: the method's number.
    pub const METHOD_ID: u32 = 2;
    /// Bytes: the request's message.
    pub const ARGS_PROTO: u32 = 3;
    /// Bool: no reply is wanted.
    pub const DROP_REPLY: u32 = 4;
}

/// `IPCFrame.InvokeMethodReply`.
pub mod invoke_method_reply {
    /// Bool: the call was carried out.
    pub const SUCCESS: u32 = 1;
    /// Bool: further replies to this call may follow.
    pub const HAS_MORE: u32 = 2;
    /// Bytes: the response's message.
    pub const REPLY_PROTO: u32 = 3;
}

/// `InitializeConnectionRequest`: who a producer is.
pub mod initialize_connection_request {
    /// Varint: bytes of a page that it would like.
    pub const SHARED_MEMORY_PAGE_SIZE_HINT_BYTES: u32 = 1;
    /// Varint: bytes of shared memory that it would like.
    pub const SHARED_MEMORY_SIZE_HINT_BYTES: u32 = 2;
    /// String: its name.
    pub const PRODUCER_NAME: u32 = 3;
    /// Varint: a value of [`smb_scraping_mode`](super::smb_scraping_mode).
    pub const SMB_SCRAPING_MODE: u32 = 4;
    /// Bool: its shared memory comes with this.
    pub const PRODUCER_PROVIDED_SHMEM: u32 = 6;
    /// String: the version of its library.
    pub const SDK_VERSION: u32 = 8;
    /// Varint: bits of [`protocol_abi_version`](super::protocol_abi_version); 0 from before there was a choice.
    pub const SUPPORTED_PROTOCOL_ABI_VERSIONS: u32 = 9;
}

/// `InitializeConnectionResponse`.
pub mod initialize_connection_response {
    /// Bool: the memory that came is used.
    pub const USING_SHMEM_PROVIDED_BY_PRODUCER: u32 = 1;
    /// Bool: sizes may be patched in shared memory, in chunks that have not been committed.
    pub const DIRECT_SMB_PATCHING_SUPPORTED: u32 = 2;
    /// Bool: chunks are sent in messages, not in shared memory.
    pub const USE_SHMEM_EMULATION: u32 = 3;
    /// Varint: the bit of the version that is used.
    pub const PROTOCOL_ABI_VERSIONS: u32 = 4;
}

/// `RegisterDataSourceRequest`.
pub mod register_data_source_request {
    /// Message: `DataSourceDescriptor`.
    pub const DATA_SOURCE_DESCRIPTOR: u32 = 1;
}

/// `UnregisterDataSourceRequest`.
pub mod unregister_data_source_request {
    /// String: all of this name are gone.
    pub const DATA_SOURCE_NAME: u32 = 1;
}

/// `RegisterTraceWriterRequest`.
pub mod register_trace_writer_request {
    /// Varint: the writer.
    pub const TRACE_WRITER_ID: u32 = 1;
    /// Varint: the buffer that it writes to, from 1.
    pub const TARGET_BUFFER: u32 = 2;
}

/// `UnregisterTraceWriterRequest`.
pub mod unregister_trace_writer_request {
    /// Varint: the writer.
    pub const TRACE_WRITER_ID: u32 = 1;
}

/// `NotifyDataSourceStartedRequest`.
pub mod notify_data_source_started_request {
    /// Varint: the number that the service gave it.
    pub const DATA_SOURCE_ID: u32 = 1;
}

/// `NotifyDataSourceStoppedRequest`.
pub mod notify_data_source_stopped_request {
    /// Varint: the number that the service gave it.
    pub const DATA_SOURCE_ID: u32 = 1;
}

/// `ActivateTriggersRequest`.
pub mod activate_triggers_request {
    /// String: a trigger, repeated.
    pub const TRIGGER_NAMES: u32 = 1;
}

/// `CommitDataRequest`.
pub mod commit_data_request {
    /// Message: `ChunksToMove`, repeated.
    pub const CHUNKS_TO_MOVE: u32 = 1;
    /// Message: `ChunkToPatch`, repeated; carried out after all moves.
    pub const CHUNKS_TO_PATCH: u32 = 2;
    /// Varint: the service's flush that this is the end of, or 0.
    pub const FLUSH_REQUEST_ID: u32 = 3;
}

/// `CommitDataRequest.ChunksToMove`: one chunk.
pub mod chunks_to_move {
    /// Varint: its page in shared memory.
    pub const PAGE: u32 = 1;
    /// Varint: its place in the page.
    pub const CHUNK: u32 = 2;
    /// Varint: where it goes, from 1.
    pub const TARGET_BUFFER: u32 = 3;
    /// Bytes: all of it, from those who share no memory.
    pub const DATA: u32 = 4;
}

/// `CommitDataRequest.ChunkToPatch`.
pub mod chunk_to_patch {
    /// Varint: the buffer that has it, from 1.
    pub const TARGET_BUFFER: u32 = 1;
    /// Varint: its writer.
    pub const WRITER_ID: u32 = 2;
    /// Varint: its id.
    pub const CHUNK_ID: u32 = 3;
    /// Message: `Patch`, repeated.
    pub const PATCHES: u32 = 4;
    /// Bool: more patches of this chunk follow later.
    pub const HAS_MORE_PATCHES: u32 = 5;
}

/// `CommitDataRequest.ChunkToPatch.Patch`.
pub mod patch {
    /// Varint: bytes from the start of the chunk's payload.
    pub const OFFSET: u32 = 1;
    /// Bytes: what goes there.
    pub const DATA: u32 = 2;
}

/// `GetAsyncCommandResponse`: a command of the service; the replies to one call go on as long as the connection.
pub mod get_async_command_response {
    /// Message: `StartDataSource`.
    pub const START_DATA_SOURCE: u32 = 1;
    /// Message: `StopDataSource`.
    pub const STOP_DATA_SOURCE: u32 = 2;
    /// Message: `SetupTracing`; shared memory comes with it.
    pub const SETUP_TRACING: u32 = 3;
    /// Message: `Flush`.
    pub const FLUSH: u32 = 5;
    /// Message: `SetupDataSource`.
    pub const SETUP_DATA_SOURCE: u32 = 6;
    /// Message: `ClearIncrementalState`.
    pub const CLEAR_INCREMENTAL_STATE: u32 = 7;
}

/// `GetAsyncCommandResponse.SetupTracing`.
pub mod setup_tracing {
    /// Varint: KiB of a page.
    pub const SHARED_BUFFER_PAGE_SIZE_KB: u32 = 1;
}

/// `GetAsyncCommandResponse.SetupDataSource`: prepares for a start.
pub mod setup_data_source {
    /// Varint: the number that the service gives it.
    pub const NEW_INSTANCE_ID: u32 = 1;
    /// Message: `DataSourceConfig`.
    pub const CONFIG: u32 = 2;
}

/// `GetAsyncCommandResponse.StartDataSource`.
pub mod start_data_source {
    /// Varint: the number that the service gave it.
    pub const NEW_INSTANCE_ID: u32 = 1;
    /// Message: `DataSourceConfig`.
    pub const CONFIG: u32 = 2;
}

/// `GetAsyncCommandResponse.StopDataSource`.
pub mod stop_data_source {
    /// Varint: the number that the service gave it.
    pub const INSTANCE_ID: u32 = 1;
}

/// `GetAsyncCommandResponse.Flush`.
pub mod flush {
    /// Varint: a data source that is to send what it has, repeated.
    pub const DATA_SOURCE_IDS: u32 = 1;
    /// Varint: the number for [`FLUSH_REQUEST_ID`](super::commit_data_request::FLUSH_REQUEST_ID).
    pub const REQUEST_ID: u32 = 2;
    /// Varint: why, and on whose behalf.
    pub const FLAGS: u32 = 3;
}

/// `GetAsyncCommandResponse.ClearIncrementalState`.
pub mod clear_incremental_state {
    /// Varint: a data source that is to repeat names and clocks, repeated.
    pub const DATA_SOURCE_IDS: u32 = 1;
}

/// `DataSourceConfig`.
pub mod data_source_config {
    /// String: the data source.
    pub const NAME: u32 = 1;
    /// Varint: the buffer that it goes to, from 1 on a producer's socket.
    pub const TARGET_BUFFER: u32 = 2;
    /// Varint: how long it is to record.
    pub const TRACE_DURATION_MS: u32 = 3;
    /// Varint: the session that wants it.
    pub const TRACING_SESSION_ID: u32 = 4;
    /// Bool: limits of what users upload.
    pub const ENABLE_EXTRA_GUARDRAILS: u32 = 6;
    /// Varint: how long it may take to stop.
    pub const STOP_TIMEOUT_MS: u32 = 7;
    /// Varint: who began the session.
    pub const SESSION_INITIATOR: u32 = 8;
    /// String: the buffer that it goes to, by name.
    pub const TARGET_BUFFER_NAME: u32 = 11;
    /// Message: `ProtoVmConfig`.
    pub const PROTOVM_CONFIG: u32 = 12;
    /// Message: [`ftrace_config`](super::super::config::ftrace_config).
    pub const FTRACE_CONFIG: u32 = 100;
    /// Message: [`process_stats_config`](super::super::config::process_stats_config).
    pub const PROCESS_STATS_CONFIG: u32 = 103;
    /// Message: [`sys_stats_config`](super::super::config::sys_stats_config).
    pub const SYS_STATS_CONFIG: u32 = 104;
    /// Message: `TrackEventConfig`.
    pub const TRACK_EVENT_CONFIG: u32 = 113;
    /// Message: [`system_info_config`](super::super::config::system_info_config).
    pub const SYSTEM_INFO_CONFIG: u32 = 119;
    /// Bool: the duration counts sleep.
    pub const PREFER_SUSPEND_CLOCK_FOR_DURATION: u32 = 122;
}

/// `TrackEventConfig`: patterns, in which `*` stands for anything.
pub mod track_event_config {
    /// String: categories that are not recorded, repeated.
    pub const DISABLED_CATEGORIES: u32 = 1;
    /// String: categories that are, repeated.
    pub const ENABLED_CATEGORIES: u32 = 2;
    /// String: tags of categories that are not, repeated.
    pub const DISABLED_TAGS: u32 = 3;
}

/// `DataSourceDescriptor`.
pub mod data_source_descriptor {
    /// String: its name.
    pub const NAME: u32 = 1;
    /// Bool: it says when it has stopped.
    pub const WILL_NOTIFY_ON_STOP: u32 = 2;
    /// Bool: it says when it has started.
    pub const WILL_NOTIFY_ON_START: u32 = 3;
    /// Bool: it repeats names and clocks when it is told to.
    pub const HANDLES_INCREMENTAL_STATE_CLEAR: u32 = 4;
    /// Message: `TrackEventDescriptor`.
    pub const TRACK_EVENT_DESCRIPTOR: u32 = 6;
    /// Varint: a number by which the program changes what it said.
    pub const ID: u32 = 7;
    /// Bool: it has nothing to flush.
    pub const NO_FLUSH: u32 = 9;
    /// Message: `VmProgram`, which folds what a buffer overwrites.
    pub const PROTOVM_PROGRAM: u32 = 10;
}

/// `TrackEventDescriptor`.
pub mod track_event_descriptor {
    /// Message: `TrackEventCategory`, repeated.
    pub const AVAILABLE_CATEGORIES: u32 = 1;
}

/// `TrackEventCategory`.
pub mod track_event_category {
    /// String: its name.
    pub const NAME: u32 = 1;
}
