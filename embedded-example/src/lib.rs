//! The parts that the programs of this example share, besides [`tracebuf_embedded`].
//!
//! | module | contents |
//! |---|---|
//! | `board` | timers, clock, UART and lamp of two boards (on a target) |
//! | `host` | files and modes, by semihosting (on a target) |
//! | [`oven`] | what there is to trace, and its tracks |
//! | [`crash_log`] | operations on a ring, logged for the test of crashes |
//! | [`stops`] | events recorded in place, and their log, for that test |
#![cfg_attr(target_os = "none", no_std)]

#[cfg(target_os = "none")]
pub mod board;
pub mod crash_log;
#[cfg(target_os = "none")]
pub mod host;
pub mod oven;
pub mod stops;
