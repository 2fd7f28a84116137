//! Perfetto's producer protocol, from both ends: a [`PerfettoSocket`] instead of its service, for programs with
//! Perfetto's own SDK; and programs with this crate that [follow](super::ConnectionBuilder::follow_perfetto) its
//! service.
//!
//! | file | what it holds |
//! |---|---|
//! | `socket` | where programs come, and what they are to record |
//! | `program` | the transport: it carries out what a program says |
//! | `data_sources` | which data sources a program offers, and which of them run |
//! | `categories` | which of its events are wanted |
//! | `frames`, `calls`, `commands` | the protocol: outermost messages, requests to a service, commands to a program |
//! | `follower` | the other end: a program with this crate |
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
