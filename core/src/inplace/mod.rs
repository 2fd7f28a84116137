//! A recorder for firmware whose writers put events into the ring itself, in a form that the host turns into packets.
//!
//! Where one program owns all memory, nothing need be copied from shared memory into a ring, and no state need be
//! repeated in it: an event is a word or two, and one aligned store publishes it. A slice's begin and end take some 100
//! instructions, and nothing is masked on Armv7-M; on Armv6-M, up to 8 instructions for an atomic one. What was finished
//! survives a reset at any instruction. `tracebuf recover` makes a trace of a dump.
//!
//! ```
//! use tracebuf::inplace::{Found, Recorder, Region};
//!
//! // On a target, in the section .uninit, which a reset leaves as it is.
//! static TRACE: Region<64, 128, 32> = Region::zeroed();
//! # fn cycles() -> u32 { 0 }
//!
//! let (recorder, found) = Recorder::attach_or_new(&TRACE, cycles, 64_000_000);
//! assert_eq!(found, Found::Nothing);
//! // One writer for each priority, or core, or task; recorders can be copied to where writers are made.
//! let writer = recorder.writer("main loop");
//! {
//!     let _slice = writer.enter("measure");
//!     writer.count("temperature", 23);
//!     writer.instant_with("door", |details| {
//!         details.arg("open", 1);
//!     });
//! }
//! let motor = recorder.track("motor", 1);
//! writer.on(motor).instant("started");
//! ```
//!
//! # How it works
//! - The ring's chunks are claimed in turn, without a lock: a writer at any priority, or in an interrupt that cannot be
//!   masked, takes the next one whose events are the oldest. Chunks that are being written stay.
//! - A name is copied into a table when it is first used, and is a number of 11 bits after that.
//!   [`linked_name!`] makes names that are numbers from the
//!   beginning: their texts are only in the program's file.
//! - Times are 18 bits of the timer's ticks since the event before; after a longer pause, 64 bits.
//! - [`RegionView`] decodes a dump, and [`ChunkView`] a chunk that was sent.
//!
//! # Limits
//! 63 writers in a start, 1,024 names and tracks, chunks of 128 to 512 bytes, texts of 64 bytes. A writer that is not
//! used for long keeps its chunk. On Armv6-M an interrupt that cannot be masked must not record into a region that
//! others use: the sequences that stand in for atomic instructions there are not atomic for it.
//!
//! | file | what it is | knows |
//! |---|---|---|
//! | `sender` | what is recorded, in frames | `read`, `frame` |
//! | `frame`, `crc` | a frame as the line takes it; its sum | nothing |
//! | `read` | copies of chunks while recording goes on | `recorder` |
//! | `recorder` | a region laid out, or found | `writer` |
//! | `events` | a writer as one of several kinds of recorders | `writer`, `names` |
//! | `named` | events by a name of any kind | `writer`, `names` |
//! | `details` | arguments, flows, texts, other tracks | `writer` |
//! | `linked` | names that the linker numbers | `names` |
//! | `writer` | events | `claim`, `names`, `time` |
//! | `sum` | complete chunks' sums (with the feature `inplace-crc`) | `region`, `crc` |
//! | `claim`, `names`, `time` | chunks, the table of names, the timer | `region`, `order` |
//! | `frames` | what is sent: its layout, and the host's side of it | `decode`, `headers` |
//! | `decode`, `records` | the host's side of memory: regions and chunks; events | `headers` |
//! | `headers` | a region's header, whole or damaged | `words`, `layout` |
//! | `words` | words and texts in a device's byte order | nothing |
//! | `region`, `order` | memory; orders of loads and stores | `layout` |
//! | `layout` | the words: the one place that writers and decoder share | nothing |
#![forbid(unsafe_code)]

mod claim;
mod crc;
mod decode;
mod details;
mod events;
mod frame;
mod frames;
mod headers;
mod layout;
mod linked;
mod named;
mod names;
mod order;
mod read;
mod recorder;
mod records;
mod region;
mod sender;
mod sum;
mod time;
mod words;
mod writer;

#[doc(inline)]
pub use crate::linked_name;
pub use decode::{ChunkView, NameView, RegionView};
pub use details::{Details, OnTrack};
pub use frames::{Hello, Message};
pub use headers::HeaderView;
pub use layout::WRITERS_MAX;
pub use linked::{LINKED_NAMES, LinkedName};
pub use named::NamedEvents;
pub use names::Name;
pub use read::ChunkCopy;
pub use recorder::{Found, Recorder};
pub use records::{Detail, Malformed, Record, Records, Value};
pub use region::{Memory, Region};
pub use sender::Sender;
pub use time::{Bits, Timer};
pub use words::Text;
pub use writer::{SliceGuard, TrackId, Writer};

crate::debug::opaque_debug! {
    "ChunkCopy": [M] ChunkCopy<'_, M>,
    "Details": [M: Memory, T: Timer] Details<'_, '_, M, T>,
    "NamedEvents": [M: Memory, T: Timer, N] NamedEvents<'_, '_, M, T, N>,
    "OnTrack": [M: Memory, T: Timer] OnTrack<'_, '_, M, T>,
    "Recorder": [M, T] Recorder<'_, M, T>,
    "Region": [const N: usize, const X: usize, const R: usize, const C: usize] Region<N, X, R, C>,
    "Sender": [M: Memory, T: Timer] Sender<'_, M, T>,
    "SliceGuard": [M: Memory, T: Timer] SliceGuard<'_, '_, M, T>,
    "Writer": [M: Memory, T: Timer] Writer<'_, M, T>,
}

#[cfg(all(test, not(loom)))]
mod tests;
