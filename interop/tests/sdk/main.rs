//! Programs that record by Perfetto's own SDK, into a session of ours.
#![cfg(target_os = "linux")]

#[path = "../../../std-adapter/tests/support/trace.rs"]
mod trace;

mod buffers;
mod categories;
mod ends;
mod harness;
mod losses;
mod reading;
mod recording;
mod reference;
