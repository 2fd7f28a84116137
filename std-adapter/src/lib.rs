//! The seam between tracebuf and the operating system: memory, clocks, files, forks, signals. It decides nothing about
//! traces, and the crates above it have no conditions on the system.
//!
//! ```
//! use tracebuf_std::PagedMemory;
//! use tracebuf_std::system::boot_time;
//!
//! let ring = PagedMemory::new(1 << 30)?; // costs memory only where it is written
//! assert!(boot_time() > 0);
//! # Ok::<(), std::io::Error>(())
//! ```
//!
//! | module | what it is | what it may know |
//! |---|---|---|
//! | [`process`] | the current process, tracked across forks | `fork`, `system` |
//! | [`memory`] | memory from the system, page by page, private or in a file | `fork` |
//! | [`whole_file`] | files that appear when they are complete | `free_file`, `system` |
//! | [`free_file`] | files that no session is using | `system` |
//! | [`file_lock`], [`line`](mod@line), [`console`], [`signals`], [`fork`], [`system`] | what each system does in its own way | one another |
//! | [`display`] | numbers and names as text | nothing |
//!
//! On Windows there are no signals to watch and no memory in files: the calls return an error.
#![deny(missing_docs)]
#![deny(missing_debug_implementations)]
#![deny(unsafe_code)]

pub mod display;
pub mod free_file;
pub mod memory;
pub mod process;
#[cfg_attr(unix, path = "unix/mod.rs")]
#[cfg_attr(not(unix), path = "windows/mod.rs")]
pub mod system;
pub mod whole_file;

pub use memory::PagedMemory;
pub use system::{console, file_lock, fork, line, signals};

/// How long a line may be silent before its reader looks for something else to do.
pub const SILENCE: std::time::Duration = std::time::Duration::from_millis(200);

/// Returns true if a read has ended only because nothing came for a while.
pub fn is_silence(error: &std::io::Error) -> bool {
    use std::io::ErrorKind::{Interrupted, TimedOut, WouldBlock};
    matches!(error.kind(), Interrupted | TimedOut | WouldBlock)
}
