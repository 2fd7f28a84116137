//! The seam between tracebuf and the operating system: memory, clocks, files, forks, signals. It decides nothing about
//! traces; above it, only whole crates and modules are for one system.
//!
//! ```
//! use tracebuf_std::PagedMemory;
//! use tracebuf_std::system::boot_time;
//!
//! let mut ring = PagedMemory::new(1 << 30)?; // costs memory only where it is written
//! ring.as_mut()[..8].copy_from_slice(&boot_time().to_le_bytes());
//! # Ok::<(), std::io::Error>(())
//! ```
//!
//! | module | what it is | what it may know |
//! |---|---|---|
//! | [`whole_file`] | files that appear when they are complete | `free_file`, `display`, `system` |
//! | [`free_file`] | files that nobody holds | `system`, `waits` |
//! | [`memory`] | memory from the system, page by page, private or in a file | `fork` |
//! | [`process`] | the current process, tracked across forks | `fork`, `system` |
//! | [`system`], with [`console`], [`file_lock`], [`fork`], [`line`](mod@line), [`signals`] | what each system does in its own way | `waits` |
//! | `waits` | limits of waiting, for files in use and silent lines | nothing |
//! | [`display`] | counts, sizes and foreign names as text | nothing |
//!
//! On Windows there are no signals to watch and no memory in files: those calls return an error.
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
mod waits;
pub mod whole_file;

pub use memory::PagedMemory;
pub use system::{console, file_lock, fork, line, signals};
