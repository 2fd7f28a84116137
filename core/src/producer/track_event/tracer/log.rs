//! Lines of a log: instants that ui.perfetto.dev also lists.

use super::{Inner, Tracer};
use crate::producer::MessageHandle;
use crate::producer::track_event::event::EventType;
use crate::producer::track_event::names::NameKind;
use crate::producer::track_event::{Clock, Details, Event};
use crate::proto::fields::{
    interned_data, log_message, log_message_body, log_priority, sequence_flags, trace_packet, track_event,
};
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

/// A line of a log: see [`Tracer::log`](Tracer::log).
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
    priority: LogPriority,
    text: D,
    source: Option<(&'a str, u32)>,
}

impl<'a, D: fmt::Display> LogMessage<'a, D> {
    /// A text, which is formatted into the trace as it is written. If formatting fails, the text up to there stays.
    pub const fn new(priority: LogPriority, text: D) -> Self {
        LogMessage { priority, text, source: None }
    }

    /// Where in the source the line comes from: a file's path, and a line from 1, which ui.perfetto.dev shows as a tag.
    /// On microcontrollers, and where there is no room for more of the tracer's names, it is left out.
    pub fn source_location(self, file: &'a str, line: u32) -> Self {
        LogMessage { source: Some((file, line)), ..self }
    }
}

impl<'a, C: Clock, const N: usize, const T: usize> Tracer<'a, C, N, T> {
    /// Writes a line of a log: an instant on the tracer's own track, which must be a thread's, and a row in
    /// ui.perfetto.dev's list of logs, which can be filtered by priority and text.
    ///
    /// Cost: about 20 bytes and the text more than other instants. If the text itself traces on the same tracer, those
    /// events are skipped ([`TracerStats`](super::TracerStats)).
    pub fn log(&self, name: &'a str, message: LogMessage<'a, impl fmt::Display>) {
        self.log_with(name, message, |event| event);
    }

    /// Like [`log`](Self::log), with details. An empty name is left out: [`Event::name`] can give one.
    pub fn log_with(
        &self,
        name: &'a str,
        message: LogMessage<'a, impl fmt::Display>,
        details: impl Details<'a>,
    ) {
        let LogMessage { priority, text, source } = message;
        let name = Some(name).filter(|name| !name.is_empty());
        self.write(|inner| {
            if let Some(delta) = inner.time()
                && let Some(body) = inner.log_body(format_args!("{text}"))
                && let Some(open) = inner.open(delta, None, EventType::Instant, name)
            {
                let Inner { writer, names, .. } = &mut *open.0;
                let mut event = Event { message: &mut MessageHandle::lent(writer, 1), names, is_end: false };
                event.log(priority, source, body);
                details(&mut event);
            }
        });
    }
}

impl<C, const N: usize, const T: usize> Inner<'_, C, N, T> {
    /// Writes the text of a line, which may live no longer than this call, and returns its number; `None` if it is lost.
    fn log_body(&mut self, text: fmt::Arguments<'_>) -> Option<u64> {
        // Ended below or, if formatting panics, by whoever writes the event.
        self.writer.begin();
        let mut packet = MessageHandle::lent(&mut self.writer, 0);
        packet.varint(trace_packet::SEQUENCE_FLAGS, sequence_flags::NEEDS_INCREMENTAL_STATE);
        let mut data = packet.message(trace_packet::INTERNED_DATA);
        let mut body = data.message(interned_data::LOG_MESSAGE_BODY);
        // No other text of this state has it: there is a packet for each.
        let iid = body.here().stats().packets.max(1);
        body.varint(log_message_body::IID, iid);
        body.formatted(log_message_body::BODY, text);
        drop(body);
        drop(data);
        self.writer.finish();
        let lost = self.writer.is_interrupted();
        self.skipped = self.skipped.wrapping_add(lost.into());
        (!lost).then_some(iid)
    }
}

impl<'a> Event<'_, '_, 'a> {
    /// A line of a log, whose text has this number.
    fn log(&mut self, priority: LogPriority, source: Option<(&'a str, u32)>, body: u64) {
        let source = source.and_then(|(file, line)| self.names.intern(NameKind::source(line)?, file));
        let mut message = self.message.message(track_event::LOG_MESSAGE);
        if let Some(iid) = source {
            message.varint(log_message::SOURCE_LOCATION_IID, iid.into());
        }
        message.varint(log_message::BODY_IID, body);
        message.varint(log_message::PRIO, priority as u64);
    }
}
