//! Records the machine: CPU, memory, load, scheduling, disks, network and the busiest processes, from `/proc`,
//! as counters of a trace. The command `tracebuf record`. On other systems than Linux, [`record`] returns an error.
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
//! Everything goes through a [`Session`], as the events of any program do. The looks at `/proc` are slices in the trace
//! themselves, so that what recording costs is seen beside what it shows.
//!
//! | module | what it is | what it may know |
//! |---|---|---|
//! | `linux` | a recording, from its start to its report | all below |
//! | `programs` | sockets for programs that record into it | `options` |
//! | `sampler`, `processes` | one look after another at the machine and its processes | `proc`, `tracks` |
//! | `tracks` | counters as tracks of the trace | `report` |
//! | `proc` | `/proc`, parsed | nothing |
//! | [`ftrace`] | pages of the kernel's ring buffers into packets | nothing |
//! | `report`, `options` | what a recording is asked for, and what it says | nothing |
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
#[cfg(any(target_os = "linux", target_os = "android"))]
mod linux;
#[cfg(not(any(target_os = "linux", target_os = "android")))]
#[path = "elsewhere.rs"]
mod linux;

pub use linux::record;
pub use options::RecordOptions;
pub use report::{RecordProgress, RecordReport};
