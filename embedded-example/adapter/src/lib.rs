//! `tracebuf` for firmware: a recorder in one static region, which a reset leaves as it is, and ways out of the device.
//!
//! Writers of any priority put events into the region itself, in some 50 instructions each, without waiting and without
//! masking interrupts. From there they are sent while recording goes on, or found by the next start, by a debugger, or
//! in a dump. There is no board in this crate, and no heap.
//!
//! ```
//! use tracebuf_embedded::inplace::{Recorder, Region};
//! use tracebuf_embedded::outlet::Outlet;
//! use tracebuf_embedded::rtt::Rtt;
//!
//! // On a target, under #[unsafe(link_section = ".uninit.TRACE")], which a reset leaves as it is.
//! static TRACE: Region<64, 128, 32> = Region::zeroed(); // 64 names, 512 bytes of them, 32 chunks of 256 bytes
//! static RTT: Rtt<1024> = Rtt::new();
//! # fn ticks() -> u32 { 0 }
//!
//! let (recorder, _found) = Recorder::attach_or_new(&TRACE, ticks, 64_000_000);
//! let writer = recorder.writer("main loop"); // one for each priority
//! let mut outlet = Outlet::new(recorder, RTT.channel());
//! # for _ in 0..1 {
//! // loop {
//! {
//!     let _slice = writer.enter("step");
//!     writer.count("level", 3);
//! }
//! let Ok(_) = outlet.poll(); // `tracebuf receive` makes a trace of what the probe reads
//! // }
//! # }
//! ```
//!
//! | module | contents | imports |
//! |---|---|---|
//! | [`inplace`] | the recorder: regions, writers, senders (of the core) | |
//! | [`export`] | lines out of the device: UART, SPI, any function that takes bytes | |
//! | [`rtt`] | a line through memory that a debug probe reads | `export` |
//! | [`outlet`] | a sender and its line | `export` |
//! | [`tasks`] | which task runs, of whatever schedules them; interrupts; idle time | |
//! | `embassy`, `rtos_trace` | the hooks of embassy-executor and of the crate rtos-trace (features of these names) | `tasks` |
//!
//! With the feature `packets`, the device makes whole packets: shared memory in front, a ring of packets behind it, and a
//! drain between them at the lowest priority. It takes 14 KB of code more, and is for devices that look into their own
//! trace, or send it to what knows Perfetto's format alone.
//!
//! | module | contents | imports |
//! |---|---|---|
//! | `region` | memory that a reset leaves as it is | |
//! | `inbox` | requests of writers to the drain; its items are in `recorder` | |
//! | `recorder` | shared memory and ring in one region, and the drain between them | `region`, `inbox` |
//! | `line` | a packet's pieces on the line | `export` |
//! | `send` | the sender: packets of the ring, while recording goes on | `recorder`, `line` and theirs |
//! | `trigger` | a snapshot triggered by a pin or a flag | |
//!
//! # What the application chooses
//! The crate `critical-section` masks interrupts, for [`tasks`] and for packets. Its implementation comes from the
//! application: on a target from a feature such as `cortex-m`'s `critical-section-single-core` or `riscv`'s
//! `critical-section-single-hart`, on a host from its own feature `std`. Without one the program does not link. Cores
//! without compare-and-swap also need one of
//! `portable-atomic`'s features `unsafe-assume-single-core` and `critical-section`.
#![cfg_attr(target_os = "none", no_std)]

#[cfg(feature = "embassy")]
pub mod embassy;
pub mod export;
#[cfg(feature = "packets")]
mod inbox;
#[cfg(feature = "packets")]
mod line;
pub mod outlet;
#[cfg(feature = "packets")]
pub mod recorder;
#[cfg(feature = "packets")]
pub mod region;
#[cfg(feature = "rtos-trace")]
mod rtos_trace;
pub mod rtt;
#[cfg(feature = "packets")]
pub mod send;
pub mod tasks;
#[cfg(feature = "packets")]
pub mod trigger;

pub use tracebuf::{Events, NewTracks, inplace};
