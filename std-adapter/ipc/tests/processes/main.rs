//! Programs of other processes that record into a session. Each is this program again, as an ignored test of it, which
//! does nothing when no other test runs it.
#![cfg(any(target_os = "linux", target_os = "android"))]

use tracebuf_testing::{fork, trace, transport};

mod containers;
mod ends;
mod following;
mod harness;
mod hostile;
mod perfetto;
mod recording;
mod silent;
mod sockets;
mod time_namespaces;
