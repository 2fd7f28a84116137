//! What firmware recorded [in place](tracebuf::inplace), as packets of a trace: for dumps, and for what a device sends.
//!
//! Each writer is a thread, each start a process of its own, because its time begins anew. Slices, instants, counters,
//! arguments, flows and lines of a log are what they are elsewhere; a task that runs is a slice on the task's track.
//!
//! | module | what it is | what it may know |
//! |---|---|---|
//! | `start` | the writers of a start, from chunks to packets | all below |
//! | `sequence` | the packets of one writer | `details`, `surroundings`, `names` |
//! | `details` | what belongs to the next event | `names` |
//! | `surroundings` | a start, and where its packets go | `identity` |
//! | `identity` | numbers of a device's processes, threads and tracks | nothing |
//! | `linked` | names that are only in the program | `names` |
//! | `names` | what names of a device are | nothing |

mod details;
mod identity;
mod linked;
mod names;
mod sequence;
mod start;
mod surroundings;

pub(crate) use identity::Identity;
pub(crate) use linked::AllNames;
pub use linked::LinkedNames;
pub(crate) use names::{Names, address, text_of};
pub(crate) use start::StartPackets;
pub(crate) use surroundings::{Counts, Surroundings};
