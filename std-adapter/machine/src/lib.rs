//! The recorder of a Linux machine: scheduling, interrupts and what else the kernel's ftrace has; processes and threads;
//! CPU, memory, disks, network and load from `/proc`. The command `tracebuf record`. On other systems [`record`] returns an
//! error.
//!
//! What Perfetto has packets for is in those, so that its queries find it; the rest are counters. [`ftrace`] makes packets
//! of the kernel's pages, and `sources` (Linux) has the sources that any session can have.
//!
//! ```no_run
//! use std::sync::atomic::AtomicBool;
//! use std::time::Duration;
//! use tracebuf_machine::{RecordOptions, record};
//!
//! let options = RecordOptions::new("trace.pftrace").duration(Duration::from_secs(1));
//! let report = record(&options, &AtomicBool::new(false), |progress| eprintln!("{progress}"))?;
//! println!("{report}");
//! # Ok::<(), tracebuf_session::SessionError>(())
//! ```
//!
//! [Programs that connect](RecordOptions::listen) are recorded with it, and so are [those with Perfetto's
//! SDK](RecordOptions::perfetto).
//!
//! A counter's value lasts until its next. So rates and percentages, which are averages of the time between two looks,
//! have the time of the first of the two; memory, load and the like have the time when they were read.
//!
//! The looks at `/proc` are slices in the trace, so that the cost of recording is seen in it.
//!
//! | module | what it is | what it may know |
//! |---|---|---|
//! | `linux` | a recording, from its start to its report | all below |
//! | `linux::running` | its sources | `sampler`, `pace` |
//! | `linux::programs` | sockets for programs that record into it | `options` |
//! | `linux::command` | a command that is recorded until it ends | nothing |
//! | `linux::sampler` | one look at the machine after another | `processes`, `tracks`, `pace` |
//! | `linux::processes` | the busiest processes | `tracks` |
//! | `linux::tracks` | counters as tracks of the trace | nothing |
//! | `linux::pace` | the times of looks | nothing |
//! | `sources` | the kernel's events, processes and statistics as sources of a session | `ftrace`, `proc` |
//! | `proc` | `/proc`, parsed | `open_files` |
//! | `open_files` | files that stay open between looks | nothing |
//! | [`ftrace`] | pages of the kernel's ring buffers into packets | nothing |
//! | `report` | progress, and the report at the end | `options`, `ftrace` |
//! | `options` | options of a recording | nothing |
#![cfg_attr(
    not(any(target_os = "linux", target_os = "android")),
    allow(dead_code, reason = "recording needs Linux")
)]
#![deny(missing_docs)]
#![deny(missing_debug_implementations)]
#![deny(unsafe_code)]

/// A value of a struct that is not exhaustive, with these fields set.
#[cfg(test)]
macro_rules! with {
    ($type:ident { $($field:ident $(: $value:expr)?),* $(,)? }) => {{
        let mut made = $type::default();
        $(made.$field = with!(@ $field $($value)?);)*
        made
    }};
    (@ $field:ident) => { $field };
    (@ $field:ident $value:expr) => { $value };
}

pub mod ftrace;
#[cfg(any(target_os = "linux", target_os = "android"))]
mod open_files;
mod options;
#[cfg(any(target_os = "linux", target_os = "android"))]
mod proc;
mod report;
#[cfg(any(target_os = "linux", target_os = "android"))]
pub mod sources;

// All that needs Linux.
#[cfg_attr(not(any(target_os = "linux", target_os = "android")), path = "elsewhere.rs")]
mod linux;

pub use linux::record;
pub use options::RecordOptions;
pub use report::{RecordProgress, RecordReport};
