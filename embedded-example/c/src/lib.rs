//! The functions of `tracebuf.h`, which says what each does and who may call it: what is recorded in place, for C.
//!
//! No argument makes them panic. Pointers are null, which is ignored, or lead to what the header says: texts end with a
//! zero, and those that it calls names never change.
//!
//! | file | what it is | imports |
//! |---|---|---|
//! | `packets` | the functions of `tracebuf_packets.h` (feature `packets`) | `alone`, `text` |
//! | `stream` | what is recorded, for a line or a probe | `recorder`, `alone` |
//! | `tasks` | hooks of schedulers | `recorder`, `text` |
//! | `writer` | writers, tracks and their events, in the caller's memory | `recorder`, `text` |
//! | `recorder` | the recorder over the caller's region | |
//! | `alone` | a value that one at a time has | |
//! | `text` | the caller's texts | |
#![cfg_attr(target_os = "none", no_std)]

mod alone;
#[cfg(feature = "packets")]
mod packets;
mod recorder;
mod stream;
mod tasks;
mod text;
mod writer;

// For how it masks interrupts.
#[cfg(target_os = "none")]
use cortex_m as _;

/// Nothing here panics on purpose.
#[cfg(target_os = "none")]
#[panic_handler]
fn panic(_: &core::panic::PanicInfo<'_>) -> ! {
    loop {}
}
