//! Analysis of traces, buffers and memory dumps: losses, sizes, contents, what a crash left, and what a device sends.
//!
//! ```no_run
//! use tracebuf_analysis::trace_stats::TraceReport;
//!
//! let report = TraceReport::of(&std::fs::read("trace.pftrace")?);
//! println!("{report}");
//! # Ok::<(), std::io::Error>(())
//! ```
//!
//! | module | what it is | what it may know |
//! |---|---|---|
//! | [`inspect`] | contents of a buffer or a trace, as text and as a picture | `recover`, `trace_stats` |
//! | [`recover`] | traces from what a crash left: files of buffers, dumps of memory | `pftrace`, `in_place` |
//! | [`receive`] | traces from a device, over a serial port, a socket or a pipe | `in_place` |
//! | [`trace`] | slices, counters and lines of a log of a trace: [`Trace`] | `trace_stats`, `compressed` |
//! | [`trace_stats`] | losses of a trace, and what to do about them | `compressed` |
//! | [`size`] | sizes of buffers for a rate | nothing |
//! | [`pftrace`] | trace files from a buffer's packets | nothing |
//! | `in_place` | packets from what firmware recorded in place | nothing |
//! | `compressed` | packets that contain others | nothing |
#![deny(missing_docs)]
#![deny(missing_debug_implementations)]
#![deny(unsafe_code)]

mod compressed;
mod in_place;
pub mod inspect;
pub mod pftrace;
pub mod receive;
pub mod recover;
pub mod size;
pub mod trace;
pub mod trace_stats;

pub use in_place::LinkedNames;
pub use trace::Trace;
