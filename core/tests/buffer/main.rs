//! The buffer from outside: what it promises, and edges that random work rarely reaches.

#[cfg(feature = "crc")]
mod attached;
mod bench;
mod better_than_reference;
mod edges;
mod ended;
mod fuzz_regressions;
#[cfg(feature = "histograms")]
mod histograms;
mod life;
mod messages;
mod newcomers;
mod observers;
mod one_sequence;
mod unused_packets;
