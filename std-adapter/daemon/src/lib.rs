//! Perfetto's tracing service on Linux and Android: a [`Daemon`] with the sockets, memory, files and clocks that
//! [`tracebuf_service`] wants. It decides nothing.
//!
//! ```no_run
//! use tracebuf_daemon::{Daemon, SocketNames};
//!
//! let names = SocketNames::from_environment();
//! let mut daemon = Daemon::bind(&names)?;
//! daemon.stop_on_signals()?;
//! daemon.run()?; // until SIGTERM or SIGINT, after which files are complete
//! # Ok::<(), std::io::Error>(())
//! ```
//!
//! On other systems the crate is empty.
//!
//! # Modules
//! Each knows those below it that its line names.
//!
//! | module | what it holds | what it knows |
//! |---|---|---|
//! | `daemon` | [`Daemon`]: one loop, which hears and does | all |
//! | `stream` | one connection: what comes, and what is not sent yet | `system` |
//! | `listening` | [`SocketNames`]: where clients come | `system` |
//! | `stop` | [`stop_session`] | `listening` |
//! | `ready` | [`say_ready`] | `system` |
//! | `host` | memory, clocks and open files | `system` |
//! | `pace` | pauses, so that small pieces are taken together | – |
//! | `output` | a thread for each file | `trace_file` |
//! | `trace_file` | a file that ends in a whole packet at every moment | – |
//! | `system` | descriptors that the process was started with | – |
#![cfg(any(target_os = "linux", target_os = "android"))]
#![deny(missing_docs)]
#![deny(missing_debug_implementations)]
#![deny(unsafe_code)]

mod daemon;
mod host;
mod listening;
mod output;
mod pace;
mod ready;
mod stop;
mod stream;
mod system;
mod trace_file;

pub use daemon::Daemon;
pub use listening::{Permissions, SocketNames};
pub use ready::say_ready;
pub use stop::stop_session;
