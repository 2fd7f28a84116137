//! Programs that record into another one's session: a [`ProducerSocket`] in the service, a [`Connection`] in each of
//! them.
//!
//! | file | what it holds |
//! |---|---|
//! | `producer_socket`, `listening` | who comes is taken, numbered and attached |
//! | `other_process` | the transport: what a producer says is carried out |
//! | `remote`, `incoming`, `endpoint_cell` | what all such have: what comes, in turns; what carries it out |
//! | `connection` | a producer, made of what the service tells it |
//! | `follower` | one connection after the other, to whoever listens |
//! | `perfetto` | the same with Perfetto's protocol: for programs with its SDK, and for programs that follow its service |
//! | `line`, `speech` | its two threads: one sends what the others ask for, one hears, in words of either protocol |
//! | `contained` | who of them is in a container, and which of its processes and threads are meant |
//! | `welcome`, `messages`, `records` | what is said, first and then, between programs with this crate |
//! | `socket_file`, `link`, `peer`, `shared_words` | the sockets, who is at the other end, the memory |

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
mod producer_socket;
mod records;
mod remote;
mod shared_words;
mod socket_file;
mod speech;
mod welcome;

pub use connection::{Connection, ConnectionBuilder};
pub use follower::Follower;
pub(crate) use link::Kind as SocketKind;
pub use perfetto::{PerfettoSocket, PerfettoSocketBuilder};
pub use producer_socket::{ProducerSocket, ProducerSocketBuilder};
pub(crate) use socket_file::SocketFile;
