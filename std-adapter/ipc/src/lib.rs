//! Programs that record into another one's session: a [`ProducerSocket`] in the service, a [`Connection`] in each of
//! them.
//!
//! | file | what it holds |
//! |---|---|
//! | `producer_socket`, `listening` | producers that come are accepted, numbered and attached |
//! | `other_process` | the transport: it carries out a producer's messages |
//! | `remote`, `incoming`, `endpoint_cell` | what both kinds have: what comes, in turns, and what carries it out |
//! | `connection` | a producer, made from what the service tells it |
//! | `follower` | one connection after another, to whichever service listens |
//! | `perfetto` | the same with Perfetto's protocol: for programs with its SDK, and those that follow its service |
//! | `line`, `protocol` | a producer's two threads: one sends what the others ask for, one receives, in either protocol |
//! | `contained` | which programs are in a container, and which processes and threads they mean |
//! | `welcome`, `messages`, `records` | messages between programs with this crate, the first and the later ones |
//! | `socket_file`, `link`, `peer`, `shared_words` | the sockets, the peer at the other end, the memory |

#![cfg(any(target_os = "linux", target_os = "android"))]
#![deny(missing_docs)]
#![deny(missing_debug_implementations)]
#![deny(unsafe_code)]

mod connection;
mod contained;
mod endpoint_cell;
mod follower;
mod incoming;
mod line;
mod link;
mod listening;
mod messages;
mod other_process;
mod peer;
mod perfetto;
mod perfetto_socket;
mod producer_socket;
mod protocol;
mod records;
mod remote;
mod shared_words;
mod socket_file;
mod welcome;

pub use connection::{Connection, ConnectionBuilder};
pub use follower::Follower;
pub use link::Kind as SocketKind;
pub use perfetto::{PerfettoSocket, PerfettoSocketBuilder};
pub use perfetto_socket::perfetto_socket;
pub use producer_socket::{ProducerSocket, ProducerSocketBuilder};
pub use socket_file::SocketFile;
