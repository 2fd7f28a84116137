//! Perfetto's producer protocol: programs that speak it to a session, what they are told and what becomes of what they
//! say; and a service that speaks it to a program of this crate.
#![cfg(any(target_os = "linux", target_os = "android"))]

use tracebuf_testing::trace;

mod categories;
mod consumers;
mod following;
mod hostile;
mod program;
mod programs;
mod protocol;
mod recording;
