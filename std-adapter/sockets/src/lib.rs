//! Unix sockets of processes that trace together: at paths, with open files that go along, and the memory that two of
//! them share. For services and for those who come to them.
//!
//! ```
//! use tracebuf_sockets::{Kind, Listening, Peer, connect, receive, send_some};
//!
//! let path = std::env::temp_dir().join(format!("doc-sockets-{}", std::process::id()));
//! let listening = Listening::at(&path, Kind::Stream, 16)?;
//! let one = connect(&path, Kind::Stream)?;
//! let (other, _) = std::os::unix::net::UnixListener::from(listening.socket.try_clone()?).accept()?;
//! send_some(&one, b"hello", None)?;
//! let mut room = [0; 8];
//! let (len, file) = receive(&other, &mut room, false)?;
//! assert!(&room[..len] == b"hello" && file.is_none());
//! assert_eq!(Peer::of(&other)?.pid, std::process::id() as i32);
//! listening.path.remove();
//! # Ok::<(), std::io::Error>(())
//! ```
//!
//! For Linux and Android; elsewhere the crate is empty.
//!
//! # Modules
//! None knows another.
//!
//! | module | what it holds |
//! |---|---|
//! | `listening` | a socket at a path, in place of what a process that has ended left there |
//! | `passing` | bytes, and an open file that goes along |
//! | `peer` | the process at the other end |
//! | `shared_words` | memory that two processes share |
#![cfg(any(target_os = "linux", target_os = "android"))]
#![deny(missing_docs)]
#![deny(missing_debug_implementations)]
#![deny(unsafe_code)]

mod listening;
mod passing;
mod peer;
mod shared_words;

pub use listening::{Kind, Listening, SocketPath, connect, socket};
pub use passing::{receive, send_some};
pub use peer::Peer;
pub use shared_words::SharedWords;
