//! Clones: what a session has by now, for whoever asks, while it goes on.

use alloc::string::{String, ToString};
use alloc::vec::Vec;

use tracebuf::proto::fields::consumer::{
    clone_session_request as asked, clone_session_response as fields, tracing_service_event as moment,
};
use tracebuf::proto::reader::{message, number};
use tracebuf::proto::trace_stats::FinalFlush;

use super::Service;
use super::flushes::{Then, flags};
use crate::buffers::{Buffer, Copied};
use crate::config::TraceConfig;
use crate::host::{ConnectionId, Host};
use crate::sessions::{FiredTrigger, FlushCounts, Moment, Session, State, Told};
use crate::wire::ProtoBuilder;

/// A clone for which producers are to say what they have first.
pub(super) struct PendingClone {
    source: u64,
    request: Option<u64>,
    /// When it was asked for, as boot time.
    time: u64,
    trigger: Option<FiredTrigger>,
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

impl PendingClone {
    fn of(source: u64, request: Option<u64>, time: u64, arguments: &[u8]) -> Self {
        let said = |field| number(arguments, field).unwrap_or(0);
        let trigger = FiredTrigger {
            name: text(arguments, asked::CLONE_TRIGGER_NAME),
            producer: text(arguments, asked::CLONE_TRIGGER_PRODUCER_NAME),
            uid: said(asked::CLONE_TRIGGER_TRUSTED_PRODUCER_UID) as u32,
            stop_delay_ms: said(asked::CLONE_TRIGGER_DELAY_MS),
            time: said(asked::CLONE_TRIGGER_BOOT_TIME_NS),
        };
        Self { source, request, time, trigger: Some(trigger).filter(|trigger| !trigger.name.is_empty()) }
    }
}

impl<H: Host> Service<H> {
    /// Copies a session for a consumer, once its producers have sent what they have.
    pub(super) fn clone_session(&mut self, connection: ConnectionId, request: Option<u64>, arguments: &[u8]) {
        let source = match self.find_source(connection, arguments) {
            Ok(source) => source,
            Err(error) => return self.answer_clone(connection, request, Err(error)),
        };
        let now = self.host.clocks().boottime;
        self.clones.insert(connection, PendingClone::of(source, request, now, arguments));
        self.clear_for_clone(source);
        let for_bugreport = number(arguments, asked::FOR_BUGREPORT).unwrap_or(0) != 0;
        let flags = flags::CLONE | if for_bugreport { flags::FOR_BUGREPORT } else { 0 };
        self.flush(source, None, flags, Then::Clone(connection));
    }

    /// The session that a consumer asks for, which is its user's or root may have.
    fn find_source(&self, connection: ConnectionId, arguments: &[u8]) -> Result<u64, String> {
        self.check_cloner(connection)?;
        if self.clones.contains_key(&connection) {
            return Err("A consumer can clone only one session at a time".to_string());
        }
        let uid = self.connections.get(&connection).map_or(u32::MAX, |one| one.peer.uid);
        let id = number(arguments, asked::SESSION_ID).unwrap_or(0);
        let name = text(arguments, asked::UNIQUE_SESSION_NAME);
        let may_have = |session: &Session| (uid == 0 || session.uid == uid) && !session.is_freed;
        let mut all = self.sessions.iter().filter(|(_, session)| may_have(session));
        let is_original = |session: &Session| session.state != State::Cloned;
        let found = if !name.is_empty() {
            all.find(|(_, session)| is_original(session) && session.config.name == name)
        } else if id == u64::MAX {
            all.filter(|(_, session)| is_original(session) && session.config.bugreport_score > 0)
                .max_by_key(|(_, session)| session.config.bugreport_score)
        } else {
            all.find(|(other, _)| **other == id)
        };
        let (id, session) = found.ok_or("There is no such session of this user")?;
        if !is_original(session) {
            return Err("A clone cannot be cloned".to_string());
        }
        if session.config.writes_file {
            return Err("A session that writes a file cannot be cloned by this service".to_string());
        }
        Ok(*id)
    }

    /// Whether a consumer may have a clone for its session.
    fn check_cloner(&self, connection: ConnectionId) -> Result<(), String> {
        if self.is_ending {
            return Err("The service is ending".to_string());
        }
        let Some(one) = self.connections.get(&connection).filter(|one| one.consumer.session.is_none()) else {
            return Err("A consumer can have only one session at a time".to_string());
        };
        self.check_count(one.peer.uid)
    }

    /// Empties buffers of which a clone is to have only what producers flush for it.
    fn clear_for_clone(&mut self, id: u64) {
        let Some(session) = self.sessions.get(&id) else { return };
        let (config, numbers) = (session.config.clone(), session.buffers.clone());
        let cleared = config.buffers.iter().zip(numbers).filter(|(buffer, _)| buffer.is_cleared);
        for (buffer, number) in cleared {
            match self.make_buffer(buffer, config.builtin.histograms) {
                Some(empty) => drop(self.buffers.replace(number, empty)),
                None => self.log("no memory to clear a buffer: a clone has what was in it".to_string()),
            }
        }
    }

    /// Its producers have said what they have, or not in time: a consumer gets its clone.
    pub(super) fn copy_for(&mut self, connection: ConnectionId, is_flushed: bool) {
        // Nobody waits for it any more, if it is not there.
        let Some(pending) = self.clones.remove(&connection) else { return };
        let request = pending.request;
        let made = self.copy_session(connection, pending, is_flushed);
        self.answer_clone(connection, request, made);
    }

    fn answer_clone(
        &mut self,
        connection: ConnectionId,
        request: Option<u64>,
        made: Result<[u64; 2], String>,
    ) {
        let response = ProtoBuilder::new().number(fields::SUCCESS, made.is_ok());
        let response = match made {
            Ok([msb, lsb]) => response.number(fields::UUID_MSB, msb).number(fields::UUID_LSB, lsb),
            Err(error) => response.bytes(fields::ERROR, error.as_bytes()),
        };
        self.reply(connection, request, &response);
    }

    /// Makes the clone, and returns its number in the world.
    fn copy_session(
        &mut self,
        connection: ConnectionId,
        pending: PendingClone,
        is_flushed: bool,
    ) -> Result<[u64; 2], String> {
        self.check_cloner(connection)?;
        let uid = self.connections.get(&connection).map_or(u32::MAX, |one| one.peer.uid);
        let is_there = |session: &&Session| !session.is_freed;
        let source = self.sessions.get(&pending.source).filter(is_there).ok_or("Original session ended")?;
        let (mut config, numbers) = (source.config.clone(), source.buffers.clone());
        let copies = self.copy_buffers(&config, &numbers)?;
        let (clocks, random) = (self.host.clocks(), self.host.random());
        let Some(source) = self.sessions.get_mut(&pending.source) else {
            return Err("Original session ended".to_string());
        };
        let [_, lsb] = config.uuid;
        config.uuid = [random, lsb];
        let count = copies.len() as u64;
        let mut clone = Session::new(uid, connection, None, config, copies);
        clone.state = State::Cloned;
        clone.started = source.started;
        clone.invalid_packets = source.invalid_packets;
        let last = match (source.state, is_flushed) {
            (State::Started, true) => FinalFlush::Succeeded,
            (State::Started, false) => FinalFlush::Failed,
            _ => source.flushes.last,
        };
        clone.flushes = FlushCounts { last, ..source.flushes };
        clone.told = Told {
            marker_is_due: true,
            stats_are_due: true,
            moments: source.told.moments.clone(),
            triggers: core::mem::take(&mut source.told.triggers),
            clone_trigger: pending.trigger,
            initial_clocks: source.started,
            clocks: source.told.clocks.clone(),
            ..Told::default()
        };
        if let Some(started) = source.started {
            // The source may have told of that already.
            clone.note(moment::TRACING_STARTED, started.boottime, false);
        }
        clone.note_clocks(clocks);
        clone.note(moment::CLONE_STARTED, pending.time, false);
        let cloned =
            (0..count).map(|value| Moment { value, ..Moment::new(moment::BUFFER_CLONED, clocks.boottime) });
        clone.told.moments.extend(cloned);
        clone.note(moment::TRACING_DISABLED, clocks.boottime, false);
        let uuid = clone.config.uuid;
        self.last.session += 1;
        self.sessions.insert(self.last.session, clone);
        if let Some(one) = self.connections.get_mut(&connection) {
            one.consumer.session = Some(self.last.session);
        }
        Ok(uuid)
    }

    /// Copies buffers, or takes them over: either all or none.
    fn copy_buffers(&mut self, config: &TraceConfig, numbers: &[u16]) -> Result<Vec<u16>, String> {
        let mut prepared = Vec::new();
        for (buffer, number) in config.buffers.iter().zip(numbers) {
            let one = if buffer.is_transferred {
                let empty = self.make_buffer(buffer, config.builtin.histograms);
                empty.map(|empty| Prepared::Transfer(*number, empty))
            } else {
                self.copy_buffer(*number).map(Prepared::Copy)
            };
            prepared.push(one.ok_or("No memory for a copy of the buffers")?);
        }
        let mut copies = Vec::new();
        for one in prepared {
            let copy = match one {
                Prepared::Copy(copy) => Some(copy),
                Prepared::Transfer(number, empty) => self.buffers.replace(number, empty).map(|mut buffer| {
                    let vms = buffer.observer_mut().copy();
                    Copied { buffer: buffer.into_read_only(), vms }
                }),
            };
            // Sessions cannot have as many buffers as there are numbers.
            copies.extend(copy.and_then(|copy| self.buffers.insert_copy(copy)));
        }
        Ok(copies)
    }

    fn copy_buffer(&mut self, number: u16) -> Option<Copied<H::Memory>> {
        let buffer = self.buffers.get(number)?;
        let memory = self.host.memory(buffer.clone_size())?;
        let buffer = buffer.clone_read_only(memory).ok()?;
        Some(Copied { buffer, vms: self.buffers.vms(number)?.copy() })
    }
}
