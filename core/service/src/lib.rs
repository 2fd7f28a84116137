//! Perfetto's tracing service without its input and output: buffers named in a trace config, producers that it does
//! not trust, flushes, traces read over a connection or written into files.
//!
//! A [`Service`] hears what happens ([`Event`]) and says what is to be done ([`Action`]): it opens no socket and no
//! file, starts no thread and reads no clock. Memory, time and randomness come from a [`Host`]. So it is the same on
//! every system, can be driven by a test with a clock of its own, and a fault of it cannot hide in a race.
//!
//! # Modules
//! Each knows those below it that its line names.
//!
//! | module | what it holds | what it knows |
//! |---|---|---|
//! | `service` | [`Service`]: what it does about what happens | all |
//! | `packets` | packets that the service itself writes | `sessions`, `host`, `wire` |
//! | `filter` | what of packets a trace has | `sinks`, `host`, `wire` |
//! | `sinks` | where packets go that are read | `wire` |
//! | `sessions` | a tracing session, its data sources, and what it has still to say | `sequences`, `config`, `filter`, `host` |
//! | `sequences` | the numbers of a trace's sequences | – |
//! | `producers` | a producer: who it is, what it offers, its end of shared memory | `config`, `buffers`, `host`, `wire` |
//! | `config` | what a consumer wants recorded, and why it is refused | – |
//! | `buffers` | buffers by number | – |
//! | `host` | what the service needs of its system, hears and says | – |
//! | [`wire`] | the protocol on the sockets, from both ends | – |
#![no_std]
#![forbid(unsafe_code)]
#![deny(missing_docs)]
#![deny(missing_debug_implementations)]

extern crate alloc;
#[cfg(test)]
extern crate std;

pub mod wire;

mod buffers;
mod config;
mod filter;
mod host;
mod packets;
mod producers;
mod sequences;
mod service;
mod sessions;
mod sinks;

pub use host::{
    Action, Clocks, Codec, ConnectionId, Event, FileToken, Find, Host, Machine, Pattern, Peer, Port,
};
pub use packets::uuid as uuid_packet;
pub use service::Service;
pub use sinks::Slices;
