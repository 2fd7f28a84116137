//! Firmware that traces itself: a main loop, two interrupts of different priorities, and sending the trace.
#![cfg_attr(target_os = "none", no_std, no_main)]

#[cfg(target_os = "none")]
mod firmware;

#[cfg(not(target_os = "none"))]
fn main() {
    eprintln!("this is firmware: run it from its own folder, which builds it for a board in QEMU");
}
