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
//! Each thread has a writer that fills chunks of shared memory without a lock. Completed chunks are handed to
//! the *drain thread*, which owns the central buffers, copies them in, and does everything else on request:
//! flushes, snapshots, long traces. So recording threads do not wait for a file or a snapshot; when shared memory is
//! full they drop packets, counted and reported, or wait for the drain thread, if the session is built
//! [with `Exhaustion::Stall`](SessionBuilder::exhaustion).
//!
//! # On demand
//! A program that records only when somebody asks for a trace has a [`Relay`]: the relay's recorders exist all the
//! time, even in a library or a subscriber for `tracing`, and record into whichever session the relay is connected to.
//!
//! # Other programs
//! On Linux, programs in other processes record into a session too: each through a [`Connection`] to the service's
//! [`ProducerSocket`], or a [`Follower`], which has one whenever a service listens. Programs with Perfetto's own SDK
//! come to a [`PerfettoSocket`]. For any other way to the service, such as over a network or from another processor,
//! implement [`Transport`]. The other way round, [`ConnectionBuilder::follow_perfetto`] puts a program of this crate
//! into the traces of Perfetto's own service, whenever somebody records with that.
//!
//! # What a trace holds
//! Clock snapshots (boot time, steady, time of day), from which readers know the time of day of events; the packets,
//! with the real user and process ids; and at its end `TraceStats`: counters of each buffer, chunk sizes of each
//! writer, flushes, refused packets. `select * from stats where severity = 'data_loss' and value != 0` lists every
//! loss. Before the packets of programs in containers, that is in Linux's pid namespaces, `ProcessTree` says which
//! processes and threads they are outside: their tracks have the numbers that the programs see themselves.
//!
//! A packet's `trusted_packet_sequence_id` says who wrote it: it is [`sequence_id`](tracebuf::service::sequence_id) of
//! the producer's number and the writer's, 65,536 times the first plus the second; [`Summary::sequences`] lists both.
//! This process's threads are writers of [`Session::OWN_PRODUCER_ID`], one for each buffer that they record into; the
//! number of a writer that has ended goes to the next one.
//!
//! # What loses events
//! No loss is silent: [`Summary::losses`] says in one line whether there was any.
//!
//! | when | what is lost | what helps |
//! |---|---|---|
//! | shared memory is full: threads record faster than it is emptied | events meanwhile | [more][m], or [waiting][w] |
//! | more threads record than shared memory has chunks of 2 KiB (512 in 1 MiB) | events of the rest | [more][m] |
//! | more than 1,024 threads record | events of the rest | fewer threads that record |
//! | the ring is full | its oldest events | a larger [ring](SessionBuilder::ring), or a [long trace](LongTrace) |
//! | a buffer that [keeps its oldest](BufferConfig::discard) is full, or a long trace's file | the rest | more room |
//! | an event comes from within another one's details | that event | to record it before or after |
//! | a destructor records after the thread's writer is gone | its event | a first event before that local is made |
//! | a thread records many events of more than 4 KB while another one is sending | some of them | [waiting][w] |
//!
//! [m]: SessionBuilder::shared_memory
//! [w]: SessionBuilder::exhaustion
//!
//! # After a crash
//! A buffer [in a file](BufferConfig::in_file) survives the process, and with it what threads had finished just before,
//! if [shared memory lies there too](SessionBuilder::shared_memory_in_file); see [`region_file`](crate::region_file).
//!
//! # Forks
//! In a child the parent's session is off: recorders record nothing, calls return [`SessionError::Forked`], dropping
//! the session does nothing. A handler of `pthread_atfork` sees to it. The child may start a session of its own; the
//! files of the parent's session are free once that has ended, whatever its children do. The same holds for a flight
//! recorder; signals on which it writes a last snapshot end a child at once, unless the child has a recorder for them.
//!
//! # On Windows
//! There are no buffers in files, and no signals on which a flight recorder would write. A long trace goes into a
//! regular file, into which nobody else can write meanwhile. A buffer's memory [is reserved](tracebuf_std::PagedMemory) when
//! the session starts.

#![deny(unsafe_code)]

#[cfg(test)]
use tracebuf_testing::fork as children;

mod asked;
#[doc(hidden)]
pub mod beside;
mod buffer_config;
mod builder;
#[doc(hidden)]
pub mod central;
#[doc(hidden)]
pub mod clock;
mod counts;
mod drain;
#[doc(hidden)]
pub mod error;
#[doc(hidden)]
pub mod export;
#[doc(hidden)]
pub mod fields;
mod flight_recorder;
mod in_process;
#[doc(hidden)]
pub mod limits;
mod long_trace;
mod losses;
mod open_files;
mod own_files;
#[doc(hidden)]
pub mod packet;
mod packet_writer;
#[doc(hidden)]
pub mod process_tree;
#[doc(hidden)]
pub mod producer_cell;
mod producer_ids;
#[doc(hidden)]
pub mod queue;
#[doc(hidden)]
pub mod recorder;
#[doc(hidden)]
pub mod recorder_context;
pub mod region_file;
mod relay;
mod route;
mod running;
#[doc(hidden)]
pub mod session_clock;
mod snapshot;
mod stopped;
#[doc(hidden)]
pub mod switch;
#[doc(hidden)]
pub mod this_process;
#[doc(hidden)]
pub mod totals;
#[doc(hidden)]
pub mod transport;
mod trim;
mod tsc;
#[doc(hidden)]
pub mod undo;
#[doc(hidden)]
pub mod waits;
#[doc(hidden)]
pub mod waker;

// What recorders take and give, so that most programs need no more of the core.
pub use tracebuf::producer::Exhaustion;
pub use tracebuf::producer::track_event::{
    Details, Event, LogMessage, LogPriority, OnTrack, Tracer, TracerStats, Track, Unit, Value,
};

use beside::Beside;
pub use beside::Descriptions;
pub use buffer_config::BufferConfig;
pub use builder::SessionBuilder;
pub use clock::BootClock;
pub use counts::ProducerSummary;
pub use error::SessionError;
pub use flight_recorder::{FlightRecorder, FlightStatus};
pub use long_trace::{LongTrace, LongTraceStatus, SyncPolicy};
pub use losses::Losses;
pub use packet_writer::PacketWriter;
pub use recorder::{Recorder, SliceGuard, ThreadTracer, TrackRecorder, TrackSliceGuard};
pub use region_file::BufferMemory;
pub use relay::Relay;
pub use running::Session;
pub use session_clock::SessionClock;
pub use snapshot::Snapshot;
pub use stopped::{Stopped, Summary};
pub use this_process::this_process;
pub use totals::{Flushes, Written};
pub use transport::{CentralBuffer, Transport};
pub use waker::Waker;
