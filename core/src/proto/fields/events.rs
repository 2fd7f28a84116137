//! Fields of events, of their tracks and of what they refer to.

/// `TrackEvent`.
pub mod track_event {
    /// Varint: interned category, repeated.
    pub const CATEGORY_IIDS: u32 = 3;
    /// Message: `DebugAnnotation`, repeated.
    pub const DEBUG_ANNOTATIONS: u32 = 4;
    /// Message: `LegacyEvent`, which Chrome writes.
    pub const LEGACY_EVENT: u32 = 6;
    /// Varint: a value of [`track_event_type`](super::track_event_type).
    pub const TYPE: u32 = 9;
    /// Varint: interned name.
    pub const NAME_IID: u32 = 10;
    /// Varint: the track it happens on; else the sequence's default.
    pub const TRACK_UUID: u32 = 11;
    /// Message: `LogMessage`.
    pub const LOG_MESSAGE: u32 = 21;
    /// String: category, repeated.
    pub const CATEGORIES: u32 = 22;
    /// String: name.
    pub const NAME: u32 = 23;
    /// Int: an integer counter's value.
    pub const COUNTER_VALUE: u32 = 30;
    /// Message: `SourceLocation`.
    pub const SOURCE_LOCATION: u32 = 33;
    /// Varint: interned source location.
    pub const SOURCE_LOCATION_IID: u32 = 34;
    /// Double: a counter's value.
    pub const DOUBLE_COUNTER_VALUE: u32 = 44;
    /// Fixed64: flow that passes through, repeated.
    pub const FLOW_IDS: u32 = 47;
    /// Fixed64: flow that ends here, repeated.
    pub const TERMINATING_FLOW_IDS: u32 = 48;
}

/// Values of `TrackEvent.Type`.
pub mod track_event_type {
    /// A slice begins.
    pub const SLICE_BEGIN: u64 = 1;
    /// The track's innermost open slice ends.
    pub const SLICE_END: u64 = 2;
    /// A moment.
    pub const INSTANT: u64 = 3;
    /// A counter's new value.
    pub const COUNTER: u64 = 4;
}

/// `TrackDescriptor`.
pub mod track_descriptor {
    /// Varint: the track's id, unique in the trace.
    pub const UUID: u32 = 1;
    /// String: the name shown.
    pub const NAME: u32 = 2;
    /// Message: `ProcessDescriptor`, for a process's track.
    pub const PROCESS: u32 = 3;
    /// Message: `ThreadDescriptor`, for a thread's track.
    pub const THREAD: u32 = 4;
    /// Varint: the track it is shown under.
    pub const PARENT_UUID: u32 = 5;
    /// Message: `CounterDescriptor`, for a counter's track.
    pub const COUNTER: u32 = 8;
    /// String: the name shown, where it is a literal of the program.
    pub const STATIC_NAME: u32 = 10;
}

/// `ProcessDescriptor`.
pub mod process_descriptor {
    /// Int: process id.
    pub const PID: u32 = 1;
    /// String: name.
    pub const PROCESS_NAME: u32 = 6;
}

/// `ThreadDescriptor`.
pub mod thread_descriptor {
    /// Int: process id.
    pub const PID: u32 = 1;
    /// Int: thread id.
    pub const TID: u32 = 2;
    /// String: name.
    pub const THREAD_NAME: u32 = 5;
    /// Int: microseconds from which times of the sequence's events count that are distances.
    pub const REFERENCE_TIMESTAMP_US: u32 = 6;
}

/// `CounterDescriptor`.
pub mod counter_descriptor {
    /// Varint: a value of [`counter_unit`](super::counter_unit).
    pub const UNIT: u32 = 3;
    /// Int: units that each value counts.
    pub const UNIT_MULTIPLIER: u32 = 4;
    /// Bool: values are distances to the one before.
    pub const IS_INCREMENTAL: u32 = 5;
    /// String: a unit of its own.
    pub const UNIT_NAME: u32 = 6;
}

/// Values of `CounterDescriptor.Unit`.
pub mod counter_unit {
    /// Nanoseconds.
    pub const TIME_NS: u64 = 1;
    /// A number of things.
    pub const COUNT: u64 = 2;
    /// Bytes.
    pub const SIZE_BYTES: u64 = 3;
}

/// `DebugAnnotation`.
pub mod debug_annotation {
    /// Varint: interned name.
    pub const NAME_IID: u32 = 1;
    /// Bool.
    pub const BOOL_VALUE: u32 = 2;
    /// Varint: unsigned.
    pub const UINT_VALUE: u32 = 3;
    /// Int: signed.
    pub const INT_VALUE: u32 = 4;
    /// Double.
    pub const DOUBLE_VALUE: u32 = 5;
    /// String.
    pub const STRING_VALUE: u32 = 6;
    /// Varint: shown in hexadecimal.
    pub const POINTER_VALUE: u32 = 7;
    /// String: JSON.
    pub const LEGACY_JSON_VALUE: u32 = 9;
    /// String: name.
    pub const NAME: u32 = 10;
    /// Message: `DebugAnnotation`, repeated: values with names.
    pub const DICT_ENTRIES: u32 = 11;
    /// Message: `DebugAnnotation`, repeated: values without names.
    pub const ARRAY_VALUES: u32 = 12;
    /// Varint: interned string.
    pub const STRING_VALUE_IID: u32 = 17;
}

/// `InternedData`.
pub mod interned_data {
    /// Message: `EventCategory`, repeated; fields as in [`interned_string`](super::interned_string).
    pub const EVENT_CATEGORIES: u32 = 1;
    /// Message: `EventName`, repeated; fields as in [`interned_string`](super::interned_string).
    pub const EVENT_NAMES: u32 = 2;
    /// Message: `DebugAnnotationName`, repeated; fields as in [`interned_string`](super::interned_string).
    pub const DEBUG_ANNOTATION_NAMES: u32 = 3;
    /// Message: `SourceLocation`, repeated.
    pub const SOURCE_LOCATIONS: u32 = 4;
    /// Message: `InternedString`, repeated; fields as in [`interned_bytes`](super::super::interned_bytes).
    pub const KERNEL_SYMBOLS: u32 = 26;
    /// Message: `LogMessageBody`, repeated.
    pub const LOG_MESSAGE_BODY: u32 = 20;
    /// Message: `InternedString`, repeated; fields as in [`interned_bytes`](super::super::interned_bytes).
    pub const DEBUG_ANNOTATION_STRING_VALUES: u32 = 29;
}

/// `EventCategory`, `EventName` and `DebugAnnotationName`, which are alike.
pub mod interned_string {
    /// Varint: the id that stands for it until incremental state is cleared; never 0.
    pub const IID: u32 = 1;
    /// String: what it stands for.
    pub const NAME: u32 = 2;
}

/// `SourceLocation`: where in a program's source something is.
pub mod source_location {
    /// Varint: the id that stands for it until incremental state is cleared; never 0.
    pub const IID: u32 = 1;
    /// String: the file's path.
    pub const FILE_NAME: u32 = 2;
    /// String: the function's name.
    pub const FUNCTION_NAME: u32 = 3;
    /// Varint: the line, from 1.
    pub const LINE_NUMBER: u32 = 4;
}

/// `LogMessage`: a line of a log, which is also an event.
pub mod log_message {
    /// Varint: interned source location.
    pub const SOURCE_LOCATION_IID: u32 = 1;
    /// Varint: interned text.
    pub const BODY_IID: u32 = 2;
    /// Varint: a value of [`log_priority`](super::log_priority).
    pub const PRIO: u32 = 3;
}

/// `LogMessage.Priority`: those of Android's log.
pub mod log_priority {
    /// Each step of what the program does.
    pub const VERBOSE: u64 = 2;
    /// For those who work on the program.
    pub const DEBUG: u64 = 3;
    /// For those who use the program.
    pub const INFO: u64 = 4;
    /// What may become an error.
    pub const WARN: u64 = 5;
    /// What failed.
    pub const ERROR: u64 = 6;
    /// What ends the program.
    pub const FATAL: u64 = 7;
}

/// `LogMessageBody`: the text of lines of a log.
pub mod log_message_body {
    /// Varint: the id that stands for it until incremental state is cleared; never 0.
    pub const IID: u32 = 1;
    /// String: what it stands for.
    pub const BODY: u32 = 2;
}

/// `TrackEventDefaults`.
pub mod track_event_defaults {
    /// Varint: the track of events that name none.
    pub const TRACK_UUID: u32 = 11;
}
