//! The kernel's ftrace as a source of a trace: pages of its ring buffers into Perfetto's bundles of events.
//!
//! Only `instance` asks a kernel: files and pages come through [`TraceFs`], from a kernel or from a recording of one.
//! Whatever they hold, nothing panics, and what cannot be understood is left out and told by its [`ParseStatus`].
//! Little-endian kernels only.
//!
//! | module | what it is | may know |
//! |---|---|---|
//! | `instance` | a set of buffers in this system's kernel (Linux) | `source`, `stats` |
//! | `reader` | pages and files into packets | all below |
//! | `bundle` | a bundle that is being filled | `compact`, `page`, `source` |
//! | `event` | an event as a message | `format`, `kind`, `addresses`, `threads`, `events_table` |
//! | `compact` | scheduling as lists | `format`, `kind` |
//! | `status` | what a recording has done | `stats` |
//! | `stats` | statistics of the buffers | `page` |
//! | `page` | a page, and the records in it | `format` |
//! | `format` | format files | `kind` |
//! | `kind` | what a field holds, and where it fits | nothing |
//! | `addresses` | texts and symbols of the kernel | nothing |
//! | `threads` | threads that events name | nothing |
//! | `event_sets` | events by the names of sets | nothing |
//! | `events_table` | the messages that Perfetto has, generated | nothing |
//! | `source` | the trait [`TraceFs`] | nothing |

mod addresses;
mod bundle;
mod compact;
mod event;
mod event_sets;
mod events_table;
mod format;
#[cfg(any(target_os = "linux", target_os = "android"))]
mod instance;
mod kind;
mod page;
mod reader;
mod source;
mod stats;
mod status;
mod threads;

pub use addresses::KernelSymbols;
pub use event_sets::{DEFAULT_SETS, expanded};
#[cfg(any(target_os = "linux", target_os = "android"))]
pub(crate) use event_sets::{is_event, is_of_who_runs};
pub use format::{EventFormat, FormatField};
#[cfg(any(target_os = "linux", target_os = "android"))]
pub use instance::{Instance, InstanceOptions};
pub use kind::Kind;
pub use page::{FtracePage, Lost, PageLayout, ParseStatus, Record, Records};
pub use reader::{FtraceReader, PacketSink, PageOutcome};
pub use source::{ClockPair, TraceFs};
pub use stats::{CpuStats, FtraceStats, StatsPhase};
pub use status::FtraceStatus;
