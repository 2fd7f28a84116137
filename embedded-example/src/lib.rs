//! What firmware needs besides `tracebuf` to trace itself: a recorder over one static region, and ways out.
//!
//! | module | what it is |
//! |---|---|
//! | [`region`] | memory that a reset leaves as it is |
//! | [`recorder`] | shared memory and ring in one region; the drain |
//! | [`send`] | packets out of the ring, a piece at a time, while recording goes on |
//! | [`export`] | where they go: UART, SPI, a file of the debugger's host |
//! | [`frame`] | COBS and a CRC, for lines that lose bytes |
//! | [`trigger`] | a snapshot triggered by a pin or anything else |
//! | `embassy` | tasks, polls and idle time of embassy-executor (with the feature, on a target) |
//!
//! The programs here share these modules, which other firmware does not need:
//!
//! | module | what it is |
//! |---|---|
//! | `board` | timers, clock and UART of two boards (on these only) |
//! | `mode` | what the firmware is asked to do (on a target only) |
//! | [`workload`] | what there is to trace: an oven |
//! | [`tracks`] | the oven's timelines and counters |
//! | [`crash_log`] | what was done to the ring, for the test of crashes |
//!
//! ```
//! use tracebuf_firmware::recorder::{Inbox, Recorder, WRITERS};
//! use tracebuf::producer::{Exhaustion, ProducerStorage};
//!
//! static INBOX: Inbox = Inbox::new();
//! static STORAGE: ProducerStorage<{ Inbox::CHUNKS }, WRITERS> = ProducerStorage::new();
//!
//! let region = Box::leak(Box::new([0u64; 1024])); // in firmware: StaticCell
//! let (producer, mut recorder) = Recorder::new(region, &STORAGE, &INBOX).expect("8 KiB are enough");
//! let mut writer = producer.writer(0, Exhaustion::Drop).expect("one of four");
//! writer.packet().varint(8, 1); // an event
//! writer.flush();
//! recorder.drain(&producer);
//! assert!(recorder.buffer().read().next_packet().is_some());
//! ```
//!
//! The crate `critical-section` masks interrupts, and the application says how: on a target by a feature of another
//! crate, such as `cortex-m`'s `critical-section-single-core` or `riscv`'s `critical-section-single-hart`; on a host,
//! where the same code can be run and tested, by its own feature `std`. Without either, the program does not link.
#![cfg_attr(target_os = "none", no_std)]

#[cfg(all(target_os = "none", feature = "board"))]
pub mod board;
pub mod crash_log;
#[cfg(all(target_os = "none", feature = "embassy"))]
pub mod embassy;
pub mod export;
pub mod frame;
#[cfg(all(target_os = "none", feature = "board"))]
pub mod mode;
pub mod recorder;
pub mod region;
pub mod send;
pub mod tracks;
pub mod trigger;
pub mod workload;
