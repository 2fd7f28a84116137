//! Programs that speak Perfetto's producer protocol to a session: what they are told, what becomes of what they say.
#![cfg(any(target_os = "linux", target_os = "android"))]

#[path = "../support/trace.rs"]
mod trace;

mod hostile;
mod program;
mod protocol;
mod recording;
