//! The protocol of this crate: one welcome with the shared memory, then records of 16 bytes.
//!
//! | module | what it holds | what it knows |
//! |---|---|---|
//! | `socket` | [`ProducerSocket`]: the service's socket | `producer`, `welcome` |
//! | `connect` | connections of programs, to one service or any | `records`, `welcome` |
//! | `producer` | the service's transport of one program | `records` |
//! | `welcome` | the first message, or a refusal | – |
//! | `records` | all later messages, and a program's sender and receiver | – |

mod connect;
mod producer;
pub(crate) mod records;
mod socket;
mod welcome;

pub use socket::{ProducerSocket, ProducerSocketBuilder};
