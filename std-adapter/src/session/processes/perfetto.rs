//! Perfetto's producer protocol, from both ends: a [`PerfettoSocket`] in place of its service, for programs with
//! Perfetto's own SDK; and programs with this crate that [follow](super::ConnectionBuilder::follow_perfetto) its service.
//!
//! | file | what it holds |
//! |---|---|
//! | `socket` | where they come, and what they are to record |
//! | `program` | the transport: what a program says is carried out |
//! | `data_sources` | what it has to offer, and what of it runs |
//! | `categories` | which of its events are wanted |
//! | `frames`, `calls`, `commands` | the protocol: the outermost messages, what is asked of a service, what is told to a program |
//! | `follower` | the other end |
//! | `outbox`, `proto` | bytes on their way out, and messages of protobuf |

mod calls;
mod categories;
mod commands;
mod data_sources;
mod follower;
mod frames;
mod outbox;
mod program;
mod proto;
mod socket;

pub(super) use categories::Categories;
pub use socket::{PerfettoSocket, PerfettoSocketBuilder};
