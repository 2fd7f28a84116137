//! Perfetto's producer protocol, from both ends: a [`PerfettoSocket`] instead of its service, for programs with
//! Perfetto's own SDK; and programs with this crate that [follow](crate::ConnectionBuilder::follow_perfetto) its
//! service.
//!
//! | module | what it holds | what it knows |
//! |---|---|---|
//! | `socket` | [`PerfettoSocket`]: where programs come, and what they are to record | `sdk_producer` |
//! | `sdk_producer` | the service's transport of one program | all below but `handshake` and `tracing_session` |
//! | `follow` | connections of programs with this crate to Perfetto's service | `handshake` |
//! | `source_producer` | [`SourceProducer`](crate::SourceProducer): data sources for any number of sessions of a service | `handshake` |
//! | `handshake` | such a connection until a tracing session begins | `tracing_session` |
//! | `tracing_session` | such a connection from then on | `frame_reader`, `outbox` |
//! | `consumer_socket` | [`ConsumerSocket`]: where those come who want what a session has | `consumer` |
//! | `consumer` | such a one | `frame_reader` |
//! | `data_sources` | data sources that a program offers and those that run | – |
//! | `categories` | lists of wanted categories | – |
//! | `outbox` | frames that are not sent yet | – |
//! | `frame_reader` | frames that are waited for | – |
//!
//! What programs and services say is encoded and decoded by [`tracebuf_service::wire`].

mod categories;
mod consumer;
mod consumer_socket;
mod data_sources;
mod follow;
mod frame_reader;
mod handshake;
mod outbox;
mod sdk_producer;
mod socket;
mod source_producer;
mod tracing_session;

use tracebuf_service::wire::{ProtoBuilder, calls, commands, frames, program};

pub use consumer_socket::{ConsumerSocket, ConsumerSocketBuilder};
pub use follow::perfetto_socket;
pub use socket::{PerfettoSocket, PerfettoSocketBuilder};
pub use source_producer::{RunningSource, SourceHost, SourceProducer, SourceRequest};
