//! The seam as other crates use it: files, locks, forks, signals, memory.
#![cfg(unix)]

mod files;
mod processes;
