//! What is wrong with a trace: why it cannot be read, and what of it readers leave out.

use std::fmt;
use std::io;
use std::path::PathBuf;

use tracebuf::proto::TraceFileFault;

/// The reason why a file cannot be read as a trace.
#[derive(Debug)]
#[non_exhaustive]
pub enum TraceError {
    /// The file could not be read.
    File {
        /// The file.
        path: PathBuf,
        /// The system's error.
        error: io::Error,
    },
    /// Something other than a packet. A trace that is only cut short is read up to there.
    Damaged {
        /// Where, in bytes from the start of the unpacked trace.
        at: u64,
        /// What is there.
        fault: TraceFileFault,
    },
    /// A packet that does not consist of fields. trace_processor reads no further either.
    Malformed {
        /// Where the packet begins, in bytes from the start of the unpacked trace.
        at: u64,
    },
    /// Compressed bytes that do not unpack.
    Compressed {
        /// Where the packet begins, in bytes from the start of the file as it is.
        at: u64,
        /// What is wrong with them.
        error: io::Error,
    },
    /// It unpacks to more than [`Trace::UNPACKED_MAX`](super::Trace::UNPACKED_MAX).
    TooLarge,
}

impl fmt::Display for TraceError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File { path, error } => write!(f, "{}: {error}", path.display()),
            Self::Damaged { at, fault } => write!(f, "damaged at byte {at}: {fault:?}"),
            Self::Malformed { at } => write!(f, "the packet at byte {at} is malformed"),
            Self::Compressed { at, error } => write!(f, "the packet at byte {at} does not unpack: {error}"),
            Self::TooLarge => {
                write!(f, "it unpacks to more than {} bytes", super::Trace::UNPACKED_MAX)
            }
        }
    }
}

impl std::error::Error for TraceError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::File { error, .. } | Self::Compressed { error, .. } => Some(error),
            _ => None,
        }
    }
}

/// Something that readers leave out or read wrong, where the trace does not say that it was lost.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Fault {
    /// Where its packet begins, in bytes from the start of the unpacked trace.
    pub at: u64,
    /// What it is.
    pub kind: FaultKind,
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "byte {}: {}", self.at, self.kind)
    }
}

macro_rules! kinds {
    ($($(#[$doc:meta])* $kind:ident: $stat:literal, $text:literal;)*) => {
        /// Kinds of [`Fault`]s.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[non_exhaustive]
        pub enum FaultKind { $($(#[$doc])* $kind,)* }

        impl FaultKind {
            /// The row that it is counted in of trace_processor's table `stats`; empty if it is not counted there.
            #[must_use]
            pub const fn stat(self) -> &'static str {
                match self { $(Self::$kind => $stat,)* }
            }
        }

        impl fmt::Display for FaultKind {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(match self { $(Self::$kind => $text,)* })
            }
        }
    };
}

kinds! {
    /// A clock that no snapshot relates to the trace's: the packet is left out.
    UnrelatedClock: "clock_sync_failure_no_path", "no clock snapshot relates its clock to the trace's";
    /// Clocks that go back, differ from what was said of them before, or are told twice: the snapshot is left out.
    InvalidClocks: "invalid_clock_snapshots", "a clock snapshot contradicts those before it";
    /// An event or a state of no sequence.
    NoSequence: "track_event_missing_sequence_id", "it belongs to no sequence";
    /// An event without a time.
    NoTime: "track_event_missing_timestamp", "an event without a time";
    /// An event before the trace's clock began.
    TimeBeforeZero: "track_event_invalid_timestamp", "an event at a time below zero";
    /// A name, category, key, text or place that the sequence has not told.
    UnknownName: "interned_data_tokenizer_errors", "it refers to a name that was not told";
    /// A track without an id, or a process's or thread's without its number.
    IncompleteTrack: "track_descriptor_missing_uuid", "a track's description without its id or numbers";
    /// A track described in two ways: the first counts.
    OtherTrack: "track_descriptor_conflicting_reservation", "a track is described as another than before";
    /// An event on a track whose parent is not in the trace: it is left out.
    NoParentTrack: "track_hierarchy_missing_uuid", "a track above its track is not in the trace";
    /// An event on a track that is above itself, or below more than 99: it is left out.
    TrackLoop: "track_event_track_hierarchy_loop", "its track is above itself, or too far below others";
    /// A counter's value without a value, or on a track that was not described as a counter before.
    NoCounter: "track_event_counter_invalid_track_uuid", "a value without a counter, or a counter without a value";
    /// An event of a type that is not read: Chrome's and states.
    Unsupported: "", "an event of a type that is not read here";
    /// The 513th open slice of a track.
    TooDeep: "slice_max_depth_exceeded", "more than 512 slices in one another";
    /// Slices that were still open when the one around them had ended: they were ended with it.
    Misplaced: "misplaced_end_event", "a slice outlives the one that it lies in";
    /// The end of a slice that is not open.
    EndWithoutBegin: "", "the end of a slice whose begin is not in the trace";
    /// A line of a log on a track of no thread: it is left out.
    LogWithoutThread: "track_event_parser_errors", "a line of a log that is of no thread";
}
