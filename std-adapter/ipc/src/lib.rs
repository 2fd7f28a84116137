//! Programs that record into another process's session, over sockets.
//!
//! A service opens a [`ProducerSocket`], other programs a [`Connection`] to it, or a [`Follower`], which has one
//! whenever a service listens. What they record goes into memory that they share with the service.
//!
//! ```
//! use std::sync::Arc;
//! use std::time::Duration;
//! use tracebuf_ipc::{Connection, ProducerSocket};
//! use tracebuf_session::Session;
//!
//! # let path = std::env::temp_dir().join(format!("doc-ipc-{}", std::process::id()));
//! // In the service:
//! let session = Arc::new(Session::builder().ring(16 << 20).start()?);
//! let _socket = ProducerSocket::builder().bind(&session, &path)?;
//!
//! // In each of the other programs:
//! let service = Connection::builder().process_name("camera").open(&path)?;
//! service.recorder().instant("hello");
//! service.flush(Duration::from_secs(5))?;
//!
//! // In the service again: the trace has them all.
//! let mut trace = Vec::new();
//! session.snapshot()?.write(&mut trace)?;
//! assert!(trace.windows(5).any(|bytes| bytes == b"hello"));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! Perfetto's own protocol is spoken too, from both ends: programs with Perfetto's SDK come to a [`PerfettoSocket`],
//! and [`ConnectionBuilder::follow_perfetto`] puts programs with this crate into the traces of Perfetto's service.
//! At a [`ConsumerSocket`], Perfetto's command takes snapshots of a session from outside.
//!
//! For Linux and Android; elsewhere the crate is empty.
//!
//! # Modules
//! Each knows those below it that its line names.
//!
//! | module | what it holds | what it knows |
//! |---|---|---|
//! | `perfetto` | Perfetto's protocol, from both ends | all but `native` |
//! | `native` | this crate's protocol, from both ends | all but `perfetto` |
//! | `follower` | one connection after another, to whichever service listens | `connection`, `link` |
//! | `connection` | a producer, once it has agreed with its service | `service_link`, `shared_memory`, `trust`, `link` |
//! | `service_link` | a producer's two threads: one sends, one receives | `link` |
//! | `remote_producer` | the service's end of a producer: its messages and their endpoint | `acceptor`, `shared_memory`, `pid_namespace`, `link` |
//! | `acceptor` | producers that come are accepted, numbered and attached | `socket_file`, `link` |
//! | `trust` | whose socket a program takes for its service's | `link` |
//! | `socket_file` | a socket with a path, which is removed at the end | `link` |
//! | `shared_memory` | the service's endpoint over memory that it shares | – |
//! | `pid_namespace` | processes in containers, and their threads | – |
//! | `time_namespace` | boot time in containers | `pid_namespace` |
//! | `link` | one end of a connection | – |

#![cfg(any(target_os = "linux", target_os = "android"))]
#![deny(missing_docs)]
#![deny(missing_debug_implementations)]
#![deny(unsafe_code)]

mod acceptor;
mod connection;
mod follower;
mod link;
mod native;
mod perfetto;
mod pid_namespace;
mod remote_producer;
mod service_link;
mod shared_memory;
mod socket_file;
mod time_namespace;
mod trust;

pub use connection::{Connection, ConnectionBuilder};
pub use follower::Follower;
pub use link::SocketKind;
pub use native::{ProducerSocket, ProducerSocketBuilder};
pub use perfetto::{
    ConsumerSocket, ConsumerSocketBuilder, PerfettoSocket, PerfettoSocketBuilder, RunningSource, SourceHost,
    SourceProducer, SourceRequest, perfetto_socket,
};
pub use socket_file::SocketFile;
pub use time_namespace::boot_time_ahead;
