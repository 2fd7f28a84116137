//! Lines of a log.

use crate::proto::fields::log_priority;
use core::fmt;

/// How much a line of a log matters: the priorities of Android's log, which ui.perfetto.dev filters by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum LogPriority {
    /// Each step of what the program does.
    Verbose = log_priority::VERBOSE as u8,
    /// For those who work on the program.
    Debug = log_priority::DEBUG as u8,
    /// For those who use the program.
    Info = log_priority::INFO as u8,
    /// What may become an error.
    Warn = log_priority::WARN as u8,
    /// What failed.
    Error = log_priority::ERROR as u8,
    /// What ends the program.
    Fatal = log_priority::FATAL as u8,
}

/// A line of a log: see [`Tracer::log`](super::Tracer::log).
///
/// ```
/// use tracebuf::producer::track_event::*;
///
/// # fn example<const N: usize, const T: usize>(tracer: &Tracer<'_, impl Clock, N, T>) {
/// let block = 7;
/// tracer.log("disk", LogMessage::new(LogPriority::Info, "is there"));
/// tracer.log("disk", LogMessage::new(LogPriority::Warn, format_args!("block {block} is slow")));
/// // With the line's place as a tag, and more than its text.
/// let lost = LogMessage::new(LogPriority::Error, "lost a block").source_location(file!(), line!());
/// tracer.log_with("disk", lost, |event| event.category("storage").arg("block", block));
/// # }
/// ```
#[derive(Clone, Copy, Debug)]
#[must_use = "it is written by `Tracer::log`"]
pub struct LogMessage<'a, D> {
    pub(super) priority: LogPriority,
    pub(super) text: D,
    pub(super) source: Option<(&'a str, u32)>,
}

impl<'a, D: fmt::Display> LogMessage<'a, D> {
    /// A text, which is formatted into the trace as it is written. If formatting fails, the text up to there stays.
    pub const fn new(priority: LogPriority, text: D) -> Self {
        LogMessage { priority, text, source: None }
    }

    /// Where in the source the line comes from: a file's path, and a line from 1. ui.perfetto.dev shows it as the
    /// line's tag.
    ///
    /// It is interned, as one of the tracer's names; on microcontrollers, and where there is no room for
    /// more names, it is left out.
    pub fn source_location(self, file: &'a str, line: u32) -> Self {
        LogMessage { source: Some((file, line)), ..self }
    }
}
