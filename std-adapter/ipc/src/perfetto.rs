//! Perfetto's producer protocol, from both ends: a [`PerfettoSocket`] instead of its service, for programs with
//! Perfetto's own SDK; and programs with this crate that [follow](crate::ConnectionBuilder::follow_perfetto) its
//! service.
//!
//! | module | what it holds | what it knows |
//! |---|---|---|
//! | `socket` | [`PerfettoSocket`]: where programs come, and what they are to record | `sdk_producer` |
//! | `sdk_producer` | the service's transport of one program | all below but `handshake` and `tracing_session` |
//! | `follow` | connections of programs with this crate to Perfetto's service | `handshake` |
//! | `handshake` | such a connection until a tracing session begins | `tracing_session` |
//! | `tracing_session` | such a connection from then on | `calls`, `commands`, `outbox` |
//! | `calls`, `commands` | what programs and services say, encoded and decoded | `data_sources`, `categories` |
//! | `data_sources` | data sources that a program offers and those that run | – |
//! | `categories` | lists of wanted categories | – |
//! | `outbox` | frames that are not sent yet | `frames` |
//! | `frames` | the outermost messages | – |

mod calls;
mod categories;
mod commands;
mod data_sources;
mod follow;
mod frames;
mod handshake;
mod outbox;
mod sdk_producer;
mod socket;
mod tracing_session;

pub use follow::perfetto_socket;
pub use socket::{PerfettoSocket, PerfettoSocketBuilder};
