//! `tracebuf` for firmware: a recorder in one static region, which a reset leaves as it is, and ways out of the device.
//!
//! Writers of any priority record into shared memory without waiting. The drain, at the lowest priority, moves what
//! they complete into a ring behind it. From there it is sent while recording goes on, or found by the next start, by
//! a debugger, or in a dump. There is no board in this crate, and no heap.
//!
//! ```
//! use tracebuf::producer::Exhaustion;
//! use tracebuf::producer::track_event::{Tracer, TracerConfig, Track};
//! use tracebuf_embedded::recorder::{Inbox, RingRecorder, Storage, state_every};
//! use tracebuf_embedded::region::Region;
//! use tracebuf_embedded::send::Sender;
//!
//! const BYTES: usize = 8 * 1024;
//! static TRACE: Region<{ BYTES / 8 }> = Region::zeroed(); // on a target, in the section .uninit
//! static STORAGE: Storage = Storage::new();
//! static INBOX: Inbox = Inbox::new();
//! static MAIN: Track<'static> = Track::thread(1, 1, "main loop");
//!
//! // SAFETY: nobody else takes it.
//! let region = unsafe { TRACE.take() };
//! let (producer, mut recorder) = RingRecorder::new(region, &STORAGE, &INBOX)?;
//! let writer = producer.writer(0, Exhaustion::Drop).expect("one of four");
//! let config = TracerConfig::new(1_000_000).state_every(state_every(BYTES));
//! # let ticks = || 5;
//! let tracer: Tracer<'_, _, 16, 4> = Tracer::with_tables(writer, ticks, &MAIN, config);
//!
//! tracer.track().slice("work", || { /* the firmware's work */ });
//! recorder.scrape(&producer); // or drain, in the main loop
//! let mut file: Vec<u8> = Vec::new();
//! let line = |bytes: &[u8]| {
//!     file.extend(bytes); // on a target, a UART or a probe
//!     Ok::<_, ()>(bytes.len())
//! };
//! Sender::raw(line).finish(&mut recorder).expect("a line that takes everything");
//! assert!(file.windows(4).any(|name| name == b"work"));
//! # Ok::<(), tracebuf_embedded::recorder::RingRecorderError>(())
//! ```
//!
//! | module | contents | imports |
//! |---|---|---|
//! | [`region`] | memory that a reset leaves as it is | |
//! | `inbox` | requests of writers to the drain; its items are in [`recorder`] | |
//! | [`recorder`] | shared memory and ring in one region, and the drain between them | `region`, `inbox` |
//! | [`export`] | lines out of the device: UART, SPI, any function that takes bytes | |
//! | `line` | a packet's pieces on the line | `export` |
//! | [`send`] | the sender: packets of the ring, while recording goes on | `recorder`, `line` and theirs |
//! | [`trigger`] | a snapshot triggered by a pin or a flag | |
//! | `embassy` | tasks, polls and idle time of embassy-executor (feature `embassy`) | |
//!
//! # What the application chooses
//! The crate `critical-section` masks interrupts. Its implementation comes from the application: on a target from a
//! feature such as `cortex-m`'s `critical-section-single-core` or `riscv`'s `critical-section-single-hart`, on a host
//! from its own feature `std`. Without one the program does not link. Cores without compare-and-swap also need one of
//! `portable-atomic`'s features `unsafe-assume-single-core` and `critical-section`.
#![cfg_attr(target_os = "none", no_std)]

#[cfg(feature = "embassy")]
pub mod embassy;
pub mod export;
mod inbox;
mod line;
pub mod recorder;
pub mod region;
pub mod send;
pub mod trigger;
