//! Traces, buffers and memory dumps, looked into: what a trace lost, how large a ring must be, what lies where, what a
//! crash left, and what a device sends.
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
//! | [`trace_stats`] | what a trace lost | the core |
//! | [`size`] | how large a ring must be | the core |
//! | [`pftrace`] | trace files, from a buffer's packets | the core |
//! | [`recover`] | traces from what a crash left: files of buffers, dumps of memory | region files of a session |
//! | [`receive`] | traces from a device, over a serial port or a pipe | files and lines of the system |
//! | [`inspect`] | what lies where in a buffer or a trace, as text and as a picture | `recover`, `trace_stats` |
#![deny(missing_docs)]
#![deny(missing_debug_implementations)]
#![deny(unsafe_code)]

pub mod inspect;
pub mod pftrace;
pub mod receive;
pub mod recover;
pub mod size;
pub mod trace_stats;
