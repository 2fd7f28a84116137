//! Sessions: tracing of this process that is always on, bounded, and there when something goes wrong.
//!
//! ```
//! use std::time::Duration;
//! use tracebuf_session::Session;
//!
//! // A ring of 16 MiB: the newest events are there, whenever somebody asks.
//! let session = Session::builder().ring(16 << 20).start()?;
//!
//! let recorder = session.recorder(); // cheap to clone, for any thread
//! {
//!     let _slice = recorder.enter("load");
//!     recorder.instant("cache miss");
//! }
//!
//! let path = std::env::temp_dir().join(format!("doc-session-{}.pftrace", std::process::id()));
//! session.snapshot()?.write_to(&path)?; // for ui.perfetto.dev; recording goes on
//! let summary = session.stop()?.summary();
//! println!("lost: {}", summary.losses());
//! # std::fs::remove_file(path)?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # How it works
//! Each thread has a writer that fills chunks of shared memory without a lock. The *drain thread* owns the buffers,
//! copies completed chunks into them, and makes flushes, snapshots and long traces. So recording threads never wait for
//! a file. When shared memory is full they drop packets, which are counted, or [wait](SessionBuilder::exhaustion).
//!
//! A [`FlightRecorder`] writes snapshots on panics, signals and triggers. A [`LongTrace`] appends everything to a file.
//! A [`Relay`] has recorders that outlive sessions, for programs that record only when somebody asks. Programs in other
//! processes record into a session through the crate `tracebuf-ipc`, or a [`Transport`] of your own.
//!
//! # What a trace holds
//! Pairs of clocks from its start on, by which readers know each event's time of day; the packets, with their real user
//! and process; and at the end `TraceStats`, with counters of each buffer and writer. `select * from stats where
//! severity = 'data_loss' and value != 0` lists every loss.
//!
//! # What loses events
//! No loss is silent: [`Summary::losses`] says in one line whether there was any.
//!
//! | when | what is lost | what helps |
//! |---|---|---|
//! | shared memory is full: threads record faster than it is emptied | events meanwhile | [more][m], or [waiting][w] |
//! | more threads record at the same moment than shared memory has chunks of 2 KiB (512 in 1 MiB); elsewhere than on Linux, more have recorded and go on | events of the rest | [more][m], or [waiting][w] |
//! | more than 32,768 threads record | events of the rest | fewer threads that record |
//! | a signal handler interrupts its own thread's recording, or comes before the thread's first event | the handler's event | a first event outside of handlers |
//! | the ring is full | its oldest events | a larger [ring](SessionBuilder::ring), or a [long trace](LongTrace) |
//! | a buffer that [keeps its oldest](BufferConfig::discard) is full, or a long trace's file | the rest | more room |
//! | an event comes from within another one's details | that event | to record it before or after |
//! | a destructor records after the thread's writer is gone | its event | a first event before that local is made |
//! | a thread records many events of more than 4 KB while another one is sending | some of them | [waiting][w] |
//!
//! A buffer [in a file](BufferConfig::in_file) survives the process: see [`region_file`].
//!
//! [m]: SessionBuilder::shared_memory
//! [w]: SessionBuilder::exhaustion
//!
//! # Forks and systems
//! In a child the parent's session is off: recorders record nothing, calls return [`SessionError::Forked`]. The child
//! may start a session of its own. The parent's files are free once its session has ended.
//!
//! On Windows there are no buffers in files and no signals, and a long trace goes into a regular file.
//!
//! # Modules
//! Imports run down only, and on a floor to the right.
//!
//! | floor | modules |
//! |---|---|
//! | 8 | [`parts`] (the interface for other crates), `flight_recorder` |
//! | 7 | `builder` (sets up a session), `open_files` (files of one that starts), `buffer_config` |
//! | 6 | `session` (what is running), `stopped` (what has ended) |
//! | 5 | `drain` (the drain thread), `ending` (when nobody stops it), `long_trace`, `snapshot`, `summary` (what it did, and lost) |
//! | 4 | `service` (the buffers, and the producers that fill them), `shared_counter`; `logger` and `metrics`, with the features of these names |
//! | 3 | `recorder`, `packet_writer`, `in_process` (the transport of this process's threads), `side_packets`, `process_tree`, `clock_pairs` |
//! | 2 | `producer_cell` (a producer and its memory), `queue` (what it asks for), `export` (the bytes of a trace), `transport` |
//! | 1 | `carry_over` (what packets that have left mean for others), [`region_file`] (buffers in files), `recording_gate`, `waits`, `totals`, `refusals` |
//! | 0 | `shared_vms` (machines with programs of data sources), `at_exit` and `at_signal` (what an end waits for), [`limits`], `error`, `clock`, `files`, `size_signal`, `this_process`, `thread_identity`, `interned` |

#![deny(unsafe_code)]

/// `Debug` for types of which few fields tell anything: the name and these fields.
macro_rules! debug_fields {
    ($type:ident $(<$lifetime:lifetime>)? $(, $field:ident)*) => {
        impl std::fmt::Debug for $type $(<$lifetime>)? {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.debug_struct(stringify!($type))
                    $(.field(stringify!($field), &self.$field))*
                    .finish_non_exhaustive()
            }
        }
    };
}

mod at_exit;
mod at_signal;
mod buffer_config;
mod builder;
mod carry_over;
mod clock;
mod clock_pairs;
mod drain;
mod ending;
mod error;
mod export;
mod files;
mod flight_recorder;
mod in_process;
mod interned;
mod interrupts;
pub mod limits;
#[cfg(feature = "log")]
mod logger;
mod long_trace;
#[cfg(feature = "metrics")]
mod metrics;
mod open_files;
mod packet_writer;
pub mod parts;
mod process_tree;
mod producer_cell;
mod queue;
mod recorder;
mod recording_gate;
mod refusals;
pub mod region_file;
mod service;
mod session;
mod shared_counter;
mod shared_vms;
mod side_packets;
mod size_signal;
mod snapshot;
mod stopped;
mod summary;
mod this_process;
mod thread_fence;
mod thread_identity;
mod totals;
mod transport;
mod waits;

// What recorders take and give, so that most programs need no more of the core.
pub use tracebuf::producer::Exhaustion;
pub use tracebuf::producer::track_event::{
    Details, Event, LogMessage, LogPriority, OnTrack, Tracer, TracerStats, Track, Unit, Value, details,
};

pub use buffer_config::BufferConfig;
pub use builder::SessionBuilder;
pub use carry_over::{CarryOver, KeptStats};
pub use clock::{BootClock, SessionClock};
pub use error::SessionError;
pub use flight_recorder::{FlightHandle, FlightRecorder, FlightStatus};
#[cfg(feature = "log")]
pub use logger::Logger;
pub use long_trace::{Compression, LongTrace, LongTraceStatus, SyncPolicy};
#[cfg(feature = "metrics")]
pub use metrics::MetricsRecorder;
pub use packet_writer::PacketWriter;
pub use recorder::{
    EventTime, Recorder, Relay, SliceGuard, ThreadTracer, TrackRecorder, TrackRecorderAt, TrackSliceGuard,
};
pub use refusals::RefusedProgram;
pub use session::Session;
pub use shared_counter::SharedCounter;
pub use side_packets::SidePackets;
pub use snapshot::Snapshot;
pub use stopped::Stopped;
pub use summary::{Losses, Summary};
pub use this_process::this_process;
pub use totals::{Flushes, ProducerSummary, Written};
pub use tracebuf::vm::{RingProgram, RingVmStats};
pub use transport::{CentralBuffer, Transport};
pub use waits::Waker;
