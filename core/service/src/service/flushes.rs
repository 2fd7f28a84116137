//! Flushes: producers send what they have, and what they are still writing is looked at.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use tracebuf::proto::fields::consumer::tracing_service_event as moment;
use tracebuf::proto::trace_stats::FinalFlush;

use super::Service;
use super::copies::Group;
use super::timers::{MS, Timer};
use crate::host::{ConnectionId, Host};
use crate::sessions::{Instance, InstanceState, State};
use crate::wire::commands;

/// Most flushes of a session under way for its consumer.
const MOST: usize = 64;

/// Why producers are to flush, as they are told; the service itself is who wants it.
pub(super) mod flags {
    /// Those that say why; the others are who wants it, and for what.
    pub(in super::super) const REASON: u64 = 15;
    pub(in super::super) const PERIODIC: u64 = 1 | 1 << 4;
    pub(in super::super) const STOP: u64 = 2 | 1 << 4;
    pub(in super::super) const EXPLICIT: u64 = 4;
    pub(in super::super) const CLONE: u64 = 3 | 1 << 4;
    /// A clone that goes with a bug report.
    pub(in super::super) const FOR_BUGREPORT: u64 = 1 << 8;
}

/// A flush that producers have not all answered.
pub(super) struct PendingFlush {
    session: u64,
    waiting: BTreeSet<u16>,
    /// What producers are told about it.
    flags: u64,
    then: Then,
    timer: u64,
}

/// What is to be done when a flush has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Then {
    Nothing,
    /// To answer a consumer.
    Reply(ConnectionId, Option<u64>),
    /// To write into the session's file.
    Write,
    /// To stop the session.
    Stop,
    /// To copy buffers of the session for a consumer's clone of this number.
    Clone(ConnectionId, u64, Group),
}

impl<H: Host> Service<H> {
    /// Flushes all of a session, until `timeout_ms` has passed or the time that the session gives producers.
    pub(super) fn flush(&mut self, id: u64, timeout_ms: Option<u64>, flags: u64, then: Then) {
        let clocks = self.host.clocks();
        let waits = |flush: &&PendingFlush| flush.session == id && matches!(flush.then, Then::Reply(..));
        let is_full = matches!(then, Then::Reply(..)) && self.flushes.values().filter(waits).count() >= MOST;
        let Some(session) = self.sessions.get_mut(&id).filter(|one| one.state == State::Started) else {
            return self.go_on(id, then, false);
        };
        session.flushes.requested += 1;
        if is_full {
            return self.flushed(id, then, false);
        }
        let group = if let Then::Clone(_, _, group) = then { group } else { Group::All };
        if group != Group::Others {
            session.note(moment::FLUSH_STARTED, clocks.boottime, true);
        }
        let timeout = timeout_ms.unwrap_or(session.config.flush_timeout_ms).saturating_mul(MS);
        let mut asked = BTreeMap::<u16, Vec<u64>>::new();
        for one in &session.instances {
            let runs = matches!(one.state, InstanceState::Started | InstanceState::Starting);
            let source = session.config.sources.get(one.wanted);
            let buffer = source.and_then(|source| session.config.buffers.get(source.buffer));
            if runs && one.is_flushed && buffer.is_some_and(|buffer| group.has(buffer.is_transferred)) {
                asked.entry(one.producer).or_default().push(one.id);
            }
        }
        self.last.flush += 1;
        let (number, timer) = (self.last.flush, self.now.saturating_add(timeout));
        let waiting = asked.keys().copied().collect::<BTreeSet<_>>();
        self.flushes.insert(number, PendingFlush { session: id, waiting, flags, then, timer });
        self.timers.insert((timer, Timer::Flush(number)));
        for (producer, instances) in asked {
            self.command(producer, commands::flush(number, instances, flags), None);
        }
        self.look_whether_flushed(number);
    }

    fn look_whether_flushed(&mut self, number: u64) {
        if self.flushes.get(&number).is_some_and(|flush| flush.waiting.is_empty()) {
            self.end_flush(number, true);
        }
    }

    /// A producer has answered this flush, and with it all before.
    pub(super) fn answer_flushes(&mut self, producer: u16, number: u64) {
        let mut answered = Vec::new();
        for (flush, pending) in self.flushes.range_mut(..=number) {
            if pending.waiting.remove(&producer) {
                answered.push(*flush);
            }
        }
        answered.into_iter().for_each(|flush| self.look_whether_flushed(flush));
    }

    /// Nothing waits for a producer that is gone.
    pub(super) fn forget_flushes_of(&mut self, producer: u16) {
        self.answer_flushes(producer, u64::MAX);
    }

    /// A flush has come to its end, answered by all or not.
    pub(super) fn end_flush(&mut self, number: u64, is_answered: bool) {
        let Some(flush) = self.flushes.remove(&number) else { return };
        self.timers.remove(&(flush.timer, Timer::Flush(number)));
        self.scrape(flush.session);
        let clocks = self.host.clocks();
        let reason = |flags: u64| flags & flags::REASON;
        let is_last = [flags::STOP, flags::CLONE].map(reason).contains(&reason(flush.flags));
        let late: Vec<(String, String)> = match self.sessions.get(&flush.session) {
            Some(session) if !is_answered => {
                let waits = |one: &&Instance| flush.waiting.contains(&one.producer) && one.is_flushed;
                session.instances.iter().filter(waits).map(|one| self.named(one)).collect()
            }
            _ => Vec::new(),
        };
        self.log_late(flush.session, &late);
        if let Some(session) = self.sessions.get_mut(&flush.session) {
            session.note_clocks(clocks);
            if is_last {
                session.note_slow(moment::LAST_FLUSH_SLOW_DATA_SOURCES, clocks.boottime, late);
            }
            session.note(moment::ALL_DATA_SOURCES_FLUSHED, clocks.boottime, true);
        }
        self.flushed(flush.session, flush.then, is_answered);
    }

    /// Says who has not answered a flush, once until one is answered.
    fn log_late(&mut self, id: u64, late: &[(String, String)]) {
        let Some(session) = self.sessions.get_mut(&id) else { return };
        let has_said = core::mem::replace(&mut session.has_said_late, !late.is_empty());
        if let Some((producer, source)) = late.first().filter(|_| !has_said) {
            let more = late.len() - 1;
            self.log(format!(
                "{source} of {producer} and {more} more have not flushed in time, for session {id}"
            ));
        }
    }

    fn flushed(&mut self, id: u64, then: Then, is_done: bool) {
        if let Some(session) = self.sessions.get_mut(&id) {
            let counts = &mut session.flushes;
            *(if is_done { &mut counts.succeeded } else { &mut counts.failed }) += 1;
            if then == Then::Stop {
                counts.last = if is_done { FinalFlush::Succeeded } else { FinalFlush::Failed };
            }
        }
        self.go_on(id, then, is_done);
    }

    fn go_on(&mut self, id: u64, then: Then, is_done: bool) {
        match then {
            Then::Nothing => {}
            Then::Reply(connection, request) => self.reply_whether(connection, request, is_done),
            Then::Write => {
                if let Some(session) = self.sessions.get_mut(&id) {
                    session.is_flushing_to_write = false;
                }
                self.write_now(id);
            }
            Then::Clone(connection, number, group) => self.copy_for(connection, number, group, is_done),
            Then::Stop => self.disable(id, true),
        }
    }

    /// Ends the flushes of a session that is no longer there.
    pub(super) fn fail_flushes_of_session(&mut self, id: u64) {
        let of_it = |(number, flush): (&u64, &PendingFlush)| (flush.session == id).then_some(*number);
        let all: Vec<u64> = self.flushes.iter().filter_map(of_it).collect();
        all.into_iter().for_each(|number| self.end_flush(number, false));
    }

    pub(super) fn flush_periodically(&mut self, id: u64) {
        // While producers have not answered the last one, another would only keep them busy.
        if !self.flushes.values().any(|flush| flush.session == id && flush.then == Then::Nothing) {
            self.flush(id, None, flags::PERIODIC, Then::Nothing);
        }
    }

    /// Flushes, then writes; what a flush that has not ended brings is written with the next.
    pub(super) fn flush_to_write(&mut self, id: u64) {
        let Some(session) = self.sessions.get_mut(&id) else { return };
        if core::mem::replace(&mut session.is_flushing_to_write, true) {
            return self.write_now(id);
        }
        self.flush(id, None, flags::PERIODIC, Then::Write);
    }

    /// Looks at what producers are still writing into the buffers of a session.
    pub(super) fn scrape(&mut self, id: u64) {
        let Some(session) = self.sessions.get(&id) else { return };
        for producer in self.producers.values_mut() {
            if producer.may_scrape() && producer.writes_to_any(&session.buffers) {
                let mut buffers = self.buffers.only(&session.buffers);
                let _ = producer.with(|endpoint| endpoint.scrape(&mut buffers));
            }
        }
    }
}
