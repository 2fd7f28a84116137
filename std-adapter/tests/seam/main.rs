//! The seam as other crates use it: files, locks, forks, signals, memory.
#![cfg(unix)]

#[cfg(target_os = "linux")]
mod durability;
mod files;
mod links;
mod processes;
