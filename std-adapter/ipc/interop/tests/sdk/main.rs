//! Programs that record with Perfetto's own SDK into a session of ours, ours into Perfetto's own service, and
//! clients of both kinds with our service in its place.
#![cfg(target_os = "linux")]

use tracebuf_testing::trace;

mod buffers;
mod categories;
mod cost;
mod ends;
mod following;
mod harness;
mod losses;
mod perfettos_service;
mod reading;
mod recording;
mod reference;
mod serving;
