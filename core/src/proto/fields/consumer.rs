//! Field numbers of Perfetto's consumer socket, by message, and of what the service itself says in a trace.

/// `EnableTracingRequest`.
pub mod enable_tracing_request {
    /// Message: `TraceConfig`.
    pub const TRACE_CONFIG: u32 = 1;
    /// Bool: it is about a session that was attached to.
    pub const ATTACH_NOTIFICATION_ONLY: u32 = 2;
}

/// `EnableTracingResponse`.
pub mod enable_tracing_response {
    /// Bool: it has ended.
    pub const DISABLED: u32 = 1;
    /// String: why it could not begin.
    pub const ERROR: u32 = 3;
}

/// `ChangeTraceConfigRequest`.
pub mod change_trace_config_request {
    /// Message: `TraceConfig`.
    pub const TRACE_CONFIG: u32 = 1;
}

/// `ReadBuffersResponse`.
pub mod read_buffers_response {
    /// Message: [`slice`](super::slice), repeated.
    pub const SLICES: u32 = 2;
}

/// `ReadBuffersResponse.Slice`: a packet, or a part of one.
pub mod slice {
    /// Bytes.
    pub const DATA: u32 = 1;
    /// Bool.
    pub const LAST_SLICE_FOR_PACKET: u32 = 2;
}

/// `FlushRequest`.
pub mod flush_request {
    /// Varint.
    pub const TIMEOUT_MS: u32 = 1;
    /// Varint: why, and on whose behalf.
    pub const FLAGS: u32 = 2;
}

/// `DetachRequest`.
pub mod detach_request {
    /// String.
    pub const KEY: u32 = 1;
}

/// `AttachRequest`.
pub mod attach_request {
    /// String.
    pub const KEY: u32 = 1;
}

/// `AttachResponse`.
pub mod attach_response {
    /// Message: `TraceConfig`.
    pub const TRACE_CONFIG: u32 = 1;
}

/// `GetTraceStatsResponse`.
pub mod get_trace_stats_response {
    /// Message: `TraceStats`.
    pub const TRACE_STATS: u32 = 1;
}

/// `ObserveEventsRequest`.
pub mod observe_events_request {
    /// Varint: a kind of event, repeated.
    pub const EVENTS_TO_OBSERVE: u32 = 1;
}

/// `ObserveEventsResponse`.
pub mod observe_events_response {
    /// Message: `ObservableEvents`.
    pub const EVENTS: u32 = 1;
}

/// `ObservableEvents`.
pub mod observable_events {
    /// Message: [`data_source_instance_state_change`](super::data_source_instance_state_change), repeated.
    pub const INSTANCE_STATE_CHANGES: u32 = 1;
    /// Bool.
    pub const ALL_DATA_SOURCES_STARTED: u32 = 2;
    /// Message: [`clone_trigger_hit`](super::clone_trigger_hit).
    pub const CLONE_TRIGGER_HIT: u32 = 3;
}

/// `ObservableEvents.CloneTriggerHit`.
pub mod clone_trigger_hit {
    /// Int.
    pub const TRACING_SESSION_ID: u32 = 1;
    /// String.
    pub const TRIGGER_NAME: u32 = 2;
    /// String.
    pub const PRODUCER_NAME: u32 = 3;
    /// Varint.
    pub const PRODUCER_UID: u32 = 4;
    /// Varint.
    pub const BOOT_TIME_NS: u32 = 5;
    /// Varint.
    pub const TRIGGER_DELAY_MS: u32 = 6;
}

/// `ObservableEvents.DataSourceInstanceStateChange`.
pub mod data_source_instance_state_change {
    /// String.
    pub const PRODUCER_NAME: u32 = 1;
    /// String.
    pub const DATA_SOURCE_NAME: u32 = 2;
    /// Varint: 1 stopped, 2 started.
    pub const STATE: u32 = 3;
}

/// `QueryServiceStateRequest`.
pub mod query_service_state_request {
    /// Bool.
    pub const SESSIONS_ONLY: u32 = 1;
}

/// `QueryServiceStateResponse`.
pub mod query_service_state_response {
    /// Message: `TracingServiceState`.
    pub const SERVICE_STATE: u32 = 1;
}

/// `TracingServiceState`.
pub mod tracing_service_state {
    /// Message: [`tracing_service_state_producer`](super::tracing_service_state_producer), repeated.
    pub const PRODUCERS: u32 = 1;
    /// Message: [`tracing_service_state_data_source`](super::tracing_service_state_data_source), repeated.
    pub const DATA_SOURCES: u32 = 2;
    /// Int.
    pub const NUM_SESSIONS: u32 = 3;
    /// Int.
    pub const NUM_SESSIONS_STARTED: u32 = 4;
    /// String.
    pub const TRACING_SERVICE_VERSION: u32 = 5;
    /// Message: [`tracing_session`](super::tracing_session), repeated.
    pub const TRACING_SESSIONS: u32 = 6;
    /// Bool.
    pub const SUPPORTS_TRACING_SESSIONS: u32 = 7;
}

/// `TracingServiceState.Producer`.
pub mod tracing_service_state_producer {
    /// Int.
    pub const ID: u32 = 1;
    /// String.
    pub const NAME: u32 = 2;
    /// Int.
    pub const UID: u32 = 3;
    /// String.
    pub const SDK_VERSION: u32 = 4;
    /// Int.
    pub const PID: u32 = 5;
}

/// `TracingServiceState.DataSource`.
pub mod tracing_service_state_data_source {
    /// Message: `DataSourceDescriptor`.
    pub const DS_DESCRIPTOR: u32 = 1;
    /// Int.
    pub const PRODUCER_ID: u32 = 2;
}

/// `TracingServiceState.TracingSession`.
pub mod tracing_session {
    /// Varint.
    pub const ID: u32 = 1;
    /// Int.
    pub const CONSUMER_UID: u32 = 2;
    /// String.
    pub const STATE: u32 = 3;
    /// String.
    pub const UNIQUE_SESSION_NAME: u32 = 4;
    /// Varint: of one buffer, repeated.
    pub const BUFFER_SIZE_KB: u32 = 5;
    /// Varint.
    pub const DURATION_MS: u32 = 6;
    /// Varint.
    pub const NUM_DATA_SOURCES: u32 = 7;
    /// Int.
    pub const START_REALTIME_NS: u32 = 8;
    /// Int.
    pub const BUGREPORT_SCORE: u32 = 9;
    /// String.
    pub const BUGREPORT_FILENAME: u32 = 10;
    /// Bool.
    pub const IS_STARTED: u32 = 11;
}

/// `QueryCapabilitiesResponse`.
pub mod query_capabilities_response {
    /// Message: `TracingServiceCapabilities`.
    pub const CAPABILITIES: u32 = 1;
}

/// `TracingServiceCapabilities`.
pub mod tracing_service_capabilities {
    /// Bool.
    pub const HAS_QUERY_CAPABILITIES: u32 = 1;
    /// Varint: a kind of event, repeated.
    pub const OBSERVABLE_EVENTS: u32 = 2;
    /// Bool.
    pub const HAS_TRACE_CONFIG_OUTPUT_PATH: u32 = 3;
    /// Bool.
    pub const HAS_CLONE_SESSION: u32 = 4;
}

/// `SaveTraceForBugreportResponse`.
pub mod save_trace_for_bugreport_response {
    /// Bool.
    pub const SUCCESS: u32 = 1;
    /// String.
    pub const MSG: u32 = 2;
}

/// `CloneSessionRequest`.
pub mod clone_session_request {
    /// Varint: all ones for the one with the highest score.
    pub const SESSION_ID: u32 = 1;
    /// Bool: with what the session's filter leaves out.
    pub const SKIP_TRACE_FILTER: u32 = 2;
    /// Bool.
    pub const FOR_BUGREPORT: u32 = 3;
    /// String.
    pub const UNIQUE_SESSION_NAME: u32 = 4;
    /// String: the trigger for which it is cloned.
    pub const CLONE_TRIGGER_NAME: u32 = 5;
    /// String.
    pub const CLONE_TRIGGER_PRODUCER_NAME: u32 = 6;
    /// Int.
    pub const CLONE_TRIGGER_TRUSTED_PRODUCER_UID: u32 = 7;
    /// Varint.
    pub const CLONE_TRIGGER_BOOT_TIME_NS: u32 = 8;
    /// Varint.
    pub const CLONE_TRIGGER_DELAY_MS: u32 = 9;
}

/// `CloneSessionResponse`.
pub mod clone_session_response {
    /// Bool.
    pub const SUCCESS: u32 = 1;
    /// String.
    pub const ERROR: u32 = 2;
    /// Int.
    pub const UUID_MSB: u32 = 3;
    /// Int.
    pub const UUID_LSB: u32 = 4;
    /// Bool: it is in the file that came with the request.
    pub const WAS_WRITE_INTO_FILE: u32 = 5;
}

/// `TracingServiceEvent`: a moment in the life of a session.
pub mod tracing_service_event {
    /// Bool.
    pub const ALL_DATA_SOURCES_STARTED: u32 = 1;
    /// Bool.
    pub const TRACING_STARTED: u32 = 2;
    /// Bool.
    pub const ALL_DATA_SOURCES_FLUSHED: u32 = 3;
    /// Bool.
    pub const READ_TRACING_BUFFERS_COMPLETED: u32 = 4;
    /// Bool.
    pub const TRACING_DISABLED: u32 = 5;
    /// Message: [`slow_data_sources`](super::slow_data_sources).
    pub const SLOW_STARTING_DATA_SOURCES: u32 = 7;
    /// Message: [`slow_data_sources`](super::slow_data_sources).
    pub const LAST_FLUSH_SLOW_DATA_SOURCES: u32 = 8;
    /// Bool.
    pub const FLUSH_STARTED: u32 = 9;
    /// Bool.
    pub const CLONE_STARTED: u32 = 10;
    /// Varint: the buffer's place.
    pub const BUFFER_CLONED: u32 = 11;
}

/// `TraceUuid`.
pub mod trace_uuid {
    /// Int.
    pub const MSB: u32 = 1;
    /// Int.
    pub const LSB: u32 = 2;
}

/// `Trigger`: one that a session has received.
pub mod received_trigger {
    /// String.
    pub const TRIGGER_NAME: u32 = 1;
    /// String.
    pub const PRODUCER_NAME: u32 = 2;
    /// Int: the producer's user.
    pub const TRUSTED_PRODUCER_UID: u32 = 3;
    /// Varint.
    pub const STOP_DELAY_MS: u32 = 4;
}

/// `TracingServiceEvent.DataSources`.
pub mod slow_data_sources {
    /// Message: [`slow_data_source`](super::slow_data_source), repeated.
    pub const DATA_SOURCE: u32 = 1;
}

/// `TracingServiceEvent.DataSources.DataSource`.
pub mod slow_data_source {
    /// String.
    pub const PRODUCER_NAME: u32 = 1;
    /// String.
    pub const DATA_SOURCE_NAME: u32 = 2;
}

/// `ConcurrentSessionEvent`: another session's state.
pub mod concurrent_session_event {
    /// Varint: 1 disabled, 2 configured, 3 started, 4 stopping, 5 a clone.
    pub const STATE: u32 = 1;
    /// String.
    pub const SESSION_NAME: u32 = 2;
    /// Varint.
    pub const SESSION_ID: u32 = 3;
    /// Int.
    pub const CONSUMER_UID: u32 = 4;
    /// Varint.
    pub const NUM_DATA_SOURCES: u32 = 5;
}
