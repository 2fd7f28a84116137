//! The conformance set of the trace buffer: a plain model of it, random work that compares the two, and recorded
//! operations with what must come out of them.
//!
//! ```
//! use tracebuf_conformance::random::{cases, driver::Depth, writers};
//!
//! // What three writers might do, on the buffer and on the model.
//! let (setup, operations, _) = writers::case(7);
//! cases::check("example", 7, &setup, &operations, Depth::Model);
//! ```
//!
//! | module | what it is | may know |
//! |---|---|---|
//! | [`model`] | the trace buffer, slow and plain enough to be believed | nothing |
//! | [`script`] | operations as lines of text | `tracebuf` |
//! | [`model_script`] | scripts, run on the model | `model`, `script` |
//! | [`random`] | operations from a seed, and judges of what comes out | `tracebuf`, `model` |
//! | [`ftrace`] | recordings of the kernel's ring buffers, and their traces | `tracebuf-machine` |
//! | [`replay`] | scripts, run on a real buffer | `tracebuf`, `tracebuf-std`, `tracebuf-analysis`, `script` |
//! | [`smb`] | images of shared memory as text, and samples | `tracebuf`, `tracebuf-std` |
//! | `vm` | programs that keep a state: vectors, and a plain machine to compare with | `tracebuf` |
//!
//! Without the features `replay`, `ftrace` and `command` it needs no operating system's adapter. Without `vm` and `crc`
//! too, it asks for no feature of the core: its random tests then run on the core as firmware has it.

#[cfg(feature = "ftrace")]
pub mod ftrace;
pub mod model;
pub mod model_script;
pub mod random;
#[cfg(feature = "replay")]
pub mod replay;
pub mod script;
#[cfg(feature = "replay")]
pub mod smb;
#[cfg(feature = "vm")]
pub mod vm;
