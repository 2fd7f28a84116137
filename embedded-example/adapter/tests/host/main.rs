//! The library on a host: what is recorded comes out, over a line, after a reset, and from a dump.

mod dumps;
#[cfg(feature = "embassy")]
mod embassy;
mod export;
mod post_mortem;
mod recorder;
mod send;
mod trigger;
