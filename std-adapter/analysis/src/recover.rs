//! The trace from a memory dump, or from the file of a buffer: the command `tracebuf recover`.
//!
//! The file of a buffer that a session kept [in a file](tracebuf_session::region_file) is a [`Survivor`]; all else is a
//! [`Dump`]. A dump is a raw copy of memory, Intel HEX, or an ELF file: a core with its segments, or a program with its
//! symbols. Somewhere in it lies a region as [`tracebuf::buffer::TraceBuffer`] leaves it; the device it comes from does
//! not matter, because all words of a region have one byte order and size. Before it there may be shared memory, [if
//! the firmware marks it](tracebuf::service::StartMark), with what its writers did last: that is found with the region.
//!
//! ```
//! use tracebuf::buffer::{Config, FillPolicy, TraceBuffer};
//! use tracebuf_analysis::recover::{Dump, Place};
//!
//! let region = TraceBuffer::new(vec![0u8; 2048], Config::new(FillPolicy::RingBuffer).sequences(4))?.into_memory();
//! let mut memory = vec![0xAA; 512]; // what the linker put before it
//! memory.extend(region);
//! let found = Dump::parse(&memory)?.find(Place::Anywhere)?;
//! assert_eq!((found.address, found.salvage.is_clean()), (512, true));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! | module | what it is | what it may know |
//! |---|---|---|
//! | `appended` | what a session left, appended to the trace that it wrote | `survivor`, `repeated` |
//! | `survivor` | what a session left in the file of a buffer | `found`, `shared`, `continuation` |
//! | `continuation` | a trace that its packets continue | `repeated` |
//! | `dump` | memory by address, and the search for a region in it | `found`, `formats`, `unmarked` |
//! | `found` | a region that was found, and its trace | `shared`, `aligned` |
//! | `in_place` | what firmware recorded in place, decoded | nothing |
//! | `repeated` | packets that a trace has already | nothing |
//! | `shared` | shared memory beside a region | `aligned` |
//! | `unmarked` | shared memory whose mark is gone | `shared` |
//! | `formats`, `symbols` | ELF and Intel HEX, and the names in them | `error` |
//! | `aligned`, `error` | a region's memory, and errors | nothing |

mod aligned;
mod appended;
mod continuation;
mod dump;
mod error;
mod formats;
mod found;
mod in_place;
mod repeated;
mod shared;
mod survivor;
mod symbols;
mod unmarked;

pub use aligned::Aligned;
pub use appended::Appended;
pub(crate) use dump::OnTheWay;
pub use dump::{Dump, Place};
pub use error::RecoverError;
pub use found::{Found, Recovered};
pub use in_place::InPlace;
pub use shared::SharedMemoryImage;
pub use survivor::{Gap, Survivor};
pub use tracebuf_session::Written;
pub use tracebuf_session::region_file::Damage;
