//! Sources of a session's packets from outside of the program: the kernel's events, processes, statistics.
//!
//! A session, the command `tracebuf record` and a service have them in the same way: a [`SourceThread`] runs some, each
//! with a sequence of its own in a buffer of the session.
//!
//! ```no_run
//! use tracebuf_machine::sources::{FtraceOptions, FtraceSource, ProcessTreeSource, SourceThread, ThreadNumbers};
//! use tracebuf_session::Session;
//!
//! let session = Session::builder().ring(64 << 20).start()?;
//! // What threads are called, for all that the kernel's events name.
//! let named = ThreadNumbers::default();
//! let ftrace = FtraceSource::new(FtraceOptions::new(["sched/*"]).tell_threads(&named))?;
//! let tree = ProcessTreeSource::new(named);
//! let sources = SourceThread::start("sources", &session.recorder(), &session.side_packets(), vec![Box::new(ftrace), Box::new(tree)])?;
//! assert!(sources.failed().is_empty());
//! // …
//! sources.flush(std::time::Duration::from_secs(1))?; // before a snapshot
//! sources.stop()?; // before the session
//! session.stop()?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! A service has them by [`offer_machine`]: each of its sessions can want some.
//!
//! | module | what it is | may know |
//! |---|---|---|
//! | `served` | sources for a service's sessions | all below |
//! | `wanted` | what such a session wants | `ftrace_source`, `event_categories`, `sys_stats` |
//! | `polled` | processes and statistics, as often as it wants | `wanted`, `process_tree`, `process_stats`, `sys_stats` |
//! | `event_categories` | names for many of the kernel's events | nothing |
//! | `ftrace_source` | the kernel's events | `data_source`, `thread_numbers` |
//! | `process_tree` | what processes and threads are called | `data_source`, `thread_numbers`, `proc_status` |
//! | `process_stats` | what processes use | `proc_status` |
//! | `sys_stats` | what the machine does | `stat_keys` |
//! | `cpu_info` | what its processors are | `data_source` |
//! | `system_info` | what the machine is | nothing |
//! | `source_thread` | a thread that runs sources | `data_source` |
//! | `data_source` | a source, and where its packets go | nothing |
//! | `thread_numbers` | threads on their way from one source to another | nothing |
//! | `proc_status` | `/proc/PID/status`, parsed | nothing |
//! | `stat_keys` | names and numbers of statistics | nothing |

mod cpu_info;
mod data_source;
mod event_categories;
mod ftrace_source;
mod polled;
mod proc_status;
mod process_stats;
mod process_tree;
mod served;
mod source_thread;
mod stat_keys;
mod sys_stats;
mod system_info;
mod thread_numbers;
mod wanted;

pub use data_source::{DataSource, SourceOutput};
pub use ftrace_source::{FtraceOptions, FtraceSource, Unavailable};
pub use process_tree::ProcessTreeSource;
pub use served::offer_machine;
pub use source_thread::SourceThread;
pub use thread_numbers::ThreadNumbers;

pub(crate) use process_stats::ProcessStats;
pub(crate) use sys_stats::SysStats;
pub(crate) use system_info::SystemInfo;
