//! Support for tests: reading traces, forking children, making loads. It asserts, and so it panics.
#![allow(missing_docs, missing_debug_implementations)]

pub mod budget;
#[cfg_attr(not(unix), path = "no_fork.rs")]
pub mod fork;
pub mod load;
pub mod mix;
#[cfg(doctest)]
mod pages;
pub mod trace;
pub mod transport;
