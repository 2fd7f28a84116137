//! The recorder of a Linux machine: CPU, memory, load, scheduling, disks, network and the busiest processes, from
//! `/proc`, as counters of a trace. The command `tracebuf record`. On other systems [`record`] returns an error.
//!
//! [`ftrace`] makes packets of the kernel's own events; [`record`] does not use it yet.
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
//! | `linux::programs` | sockets for programs that record into it | `options` |
//! | `linux::sampler` | one look at the machine after another | `processes`, `tracks`, `proc` |
//! | `linux::processes` | the busiest processes | `tracks`, `proc` |
//! | `linux::tracks` | counters as tracks of the trace | nothing |
//! | `linux::proc` | `/proc`, parsed | nothing |
//! | [`ftrace`] | pages of the kernel's ring buffers into packets | nothing |
//! | `report` | progress, and the report at the end | `options` |
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
mod options;
mod report;

// All that needs Linux.
#[cfg_attr(not(any(target_os = "linux", target_os = "android")), path = "elsewhere.rs")]
mod linux;

pub use linux::record;
pub use options::RecordOptions;
pub use report::{RecordProgress, RecordReport};
