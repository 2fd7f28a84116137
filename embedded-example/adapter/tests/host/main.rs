//! The library on a host: what is recorded comes out, over a line, after a reset, and from a dump.

#[cfg(feature = "packets")]
mod dumps;
#[cfg(feature = "embassy")]
mod embassy;
mod export;
mod outlet;
#[cfg(feature = "packets")]
mod post_mortem;
#[cfg(feature = "packets")]
mod recorder;
#[cfg(feature = "packets")]
mod send;
mod tasks;
#[cfg(feature = "packets")]
mod trigger;
