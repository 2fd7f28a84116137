//! tracebuf for programs with an operating system: a Unix, or Windows. [`record`] needs Linux, whose `/proc` it reads.
//! On Windows there is no [`record`], [`region_file`] has only what reading such files needs, and no signal makes a
//! flight recorder write.
//!
//! - [`session`]: tracing of this process, and of others into it: rings, long traces, snapshots, flight recorders.
//! - `tracing_layer`, with the feature `tracing`: spans and events of the crate `tracing`.
//! - [`record`]: records the machine itself; the command `tracebuf record`.
//! - `receive`, with the feature of that name: a device's trace from a serial port; the command `tracebuf receive`.
//! - [`trace_stats`], [`size`]: what a trace lost, and how large buffers must be; the commands `tracebuf stats` and
//!   `tracebuf size`.
//! - [`inspect`]: what lies where in a buffer or a trace, as text and as a picture; the command `tracebuf inspect`.
//! - [`figures`]: how the commands print numbers and names.
//! - [`PagedMemory`]: memory for a buffer, of which only what is used costs anything.
//! - [`pftrace`]: trace files.
//! - [`region_file`]: buffers in mapped files, which survive the process.
//! - [`recover`]: traces from memory dumps; the command `tracebuf recover`.
#![deny(missing_docs)]
#![deny(missing_debug_implementations)]
#![deny(unsafe_code)]

// The same as in tests/.
#[cfg(all(test, unix))]
#[path = "../tests/support/fork.rs"]
#[allow(dead_code, unsafe_code)]
mod children;
#[cfg(unix)]
mod closed_in_children;
mod counts;
mod export;
mod fields;
pub mod figures;
#[cfg(any(unix, feature = "receive"))]
mod file_error;
#[cfg_attr(not(unix), path = "system/windows/file_lock.rs")]
mod file_lock;
#[cfg_attr(not(unix), path = "system/windows/fork.rs")]
mod fork;
mod free_file;
pub mod inspect;
mod limits;
#[cfg(all(test, target_pointer_width = "64"))]
mod long_packet;
pub mod memory;
mod packet;
pub mod pftrace;
#[cfg(feature = "receive")]
pub mod receive;
#[cfg(unix)]
pub mod record;
pub mod recover;
pub mod region_file;
pub mod session;
pub mod size;
/// What differs between systems, besides `receive::source`.
#[cfg_attr(unix, path = "system/unix.rs")]
#[cfg_attr(not(unix), path = "system/windows.rs")]
mod system;
mod this_process;
mod thread_id;
pub mod trace_stats;
#[cfg(feature = "tracing")]
pub mod tracing_layer;
// Part of it is for buffers in files.
#[cfg_attr(not(unix), allow(dead_code))]
mod undo;
pub mod whole_file;

pub use memory::PagedMemory;

/// Compiles and runs the programs in the README, some of which need Linux.
#[cfg(all(doctest, any(target_os = "linux", target_os = "android")))]
#[doc = include_str!("../../README.md")]
struct Readme;
