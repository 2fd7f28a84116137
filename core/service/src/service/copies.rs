//! Copies of a session's buffers for a clone, each as soon as it is flushed.

use alloc::string::String;
use alloc::vec::Vec;

use tracebuf::proto::fields::consumer::clone_session_request as asked;
use tracebuf::proto::reader::{message, number};

use super::Service;
use crate::buffers::{Buffer, Copied};
use crate::host::{ConnectionId, FileToken, Host};
use crate::sessions::{FiredTrigger, Session};

/// A clone for which producers are to say what they have first.
pub(super) struct PendingClone<M> {
    /// Flushes for another one are not for this.
    number: u64,
    pub(super) source: u64,
    pub(super) request: Option<u64>,
    /// When it was asked for, as boot time.
    pub(super) time: u64,
    pub(super) trigger: Option<FiredTrigger>,
    /// With what the session's filter leaves out.
    pub(super) skips_filter: bool,
    /// Where it goes, if the session writes a file too.
    pub(super) file: Option<FileToken>,
    /// Flushes that have not ended.
    pub(super) waiting: usize,
    /// All that have were answered.
    pub(super) is_flushed: bool,
    /// What becomes of each buffer, once it is flushed, and when that was.
    pub(super) copies: Vec<Option<(Copied<M>, u64)>>,
}

/// Buffers of a session that are flushed together for a clone, so that slow ones do not keep others waiting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Group {
    All,
    /// Those that are given to the clone.
    Given,
    Others,
}

impl Group {
    pub(super) fn has(self, is_transferred: bool) -> bool {
        self == Self::All || (self == Self::Given) == is_transferred
    }
}

/// What becomes a clone's buffer.
enum Prepared<M> {
    Copy(Copied<M>),
    /// The session goes on with this one, and the clone has the session's.
    Transfer(u16, Buffer<M>),
}

fn text(of: &[u8], field: u32) -> String {
    String::from_utf8_lossy(message(of, field).unwrap_or_default()).into_owned()
}

impl<M> PendingClone<M> {
    pub(super) fn of(
        number_of_it: u64,
        source: u64,
        request: Option<u64>,
        time: u64,
        arguments: &[u8],
    ) -> Self {
        let said = |field| number(arguments, field).unwrap_or(0);
        let trigger = FiredTrigger {
            name: text(arguments, asked::CLONE_TRIGGER_NAME),
            producer: text(arguments, asked::CLONE_TRIGGER_PRODUCER_NAME),
            uid: said(asked::CLONE_TRIGGER_TRUSTED_PRODUCER_UID) as u32,
            stop_delay_ms: said(asked::CLONE_TRIGGER_DELAY_MS),
            time: said(asked::CLONE_TRIGGER_BOOT_TIME_NS),
        };
        let is_for_report = said(asked::SESSION_ID) == u64::MAX;
        Self {
            number: number_of_it,
            source,
            request,
            time,
            trigger: Some(trigger).filter(|trigger| !trigger.name.is_empty()),
            skips_filter: is_for_report || said(asked::SKIP_TRACE_FILTER) != 0,
            file: None,
            waiting: 0,
            is_flushed: true,
            copies: Vec::new(),
        }
    }
}

impl<H: Host> Service<H> {
    /// Producers have said what they have for some buffers, or not in time: those are copied, and when all are, a
    /// consumer gets its clone.
    pub(super) fn copy_for(&mut self, connection: ConnectionId, number: u64, group: Group, is_flushed: bool) {
        // Nobody waits for it any more, if it is not there.
        let Some(pending) = self.clones.get_mut(&connection).filter(|pending| pending.number == number)
        else {
            return;
        };
        pending.waiting = pending.waiting.saturating_sub(1);
        pending.is_flushed &= is_flushed;
        let (source, is_last) = (pending.source, pending.waiting == 0);
        let copied = self.copy_group(connection, source, group);
        if is_last || copied.is_err() {
            self.complete_clone(connection, copied);
        }
    }

    /// Copies buffers of a group, or takes them over: either all or none.
    fn copy_group(&mut self, connection: ConnectionId, source: u64, group: Group) -> Result<(), String> {
        self.check_has_none(connection)?;
        let time = self.host.clocks().boottime;
        let is_there = |session: &&Session| !session.is_freed;
        let session = self.sessions.get(&source).filter(is_there).ok_or("Original session ended")?;
        let histograms = session.config.builtin.histograms;
        let all: Vec<_> = session.config.buffers.iter().cloned().zip(session.buffers.clone()).collect();
        let mut prepared = Vec::new();
        for (buffer, number) in &all {
            if !group.has(buffer.is_transferred) {
                prepared.push(None);
                continue;
            }
            let one = if buffer.is_transferred && self.buffers.get(*number).is_some() {
                let empty = self.make_buffer(buffer, histograms);
                empty.map(|empty| Prepared::Transfer(*number, empty))
            } else {
                self.copy_buffer(*number).map(Prepared::Copy)
            };
            prepared.push(Some(one.ok_or("No memory for a copy of the buffers")?));
        }
        let Some(pending) = self.clones.get_mut(&connection) else { return Ok(()) };
        pending.copies.resize_with(all.len(), || None);
        for (one, place) in prepared.into_iter().zip(&mut pending.copies) {
            let copy = match one {
                None => continue,
                Some(Prepared::Copy(copy)) => Some(copy),
                Some(Prepared::Transfer(number, empty)) => {
                    self.buffers.replace(number, empty).map(|mut buffer| {
                        let vms = buffer.observer_mut().copy();
                        Copied { buffer: buffer.into_read_only(), vms }
                    })
                }
            };
            *place = copy.map(|copy| (copy, time));
        }
        Ok(())
    }

    fn copy_buffer(&mut self, number: u16) -> Option<Copied<H::Memory>> {
        let memory = self.host.memory(self.buffers.clone_size(number)?)?;
        self.buffers.copy(number, memory)
    }
}
