//! Support for tests: reading traces, forking children, making loads. It asserts, and so it panics.
//!
//! | module | what it is |
//! |---|---|
//! | [`trace`] | a reader of traces |
//! | [`clocks`] | the times of events, by the clocks that the service tells |
//! | [`transport`] | a producer without shared memory |
//! | [`fork`] | children after a fork |
//! | [`load`] | a service under load |
//! | [`long_packet`] | a packet that a trace has no room for |
//! | [`mix`] | numbers that look random |
//! | [`cpu`] | the time that processes have run |
//! | [`budget`] | the lines of a benchmark |
//! | `pages` | the programs in README and docs, as examples |
#![allow(missing_docs, missing_debug_implementations)]

pub mod budget;
pub mod clocks;
pub mod cpu;
#[cfg_attr(not(unix), path = "no_forks.rs")]
pub mod fork;
pub mod load;
pub mod long_packet;
pub mod mix;
#[cfg(doctest)]
mod pages;
pub mod trace;
pub mod transport;
