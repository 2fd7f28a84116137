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
use crate::host::{Action, ConnectionId, FileToken, Host};
use crate::sessions::{FiredTrigger, FlushCounts, Moment, OutputFile, Session, State, Told};
use crate::wire::answers::{self, WantedSession};

/// A clone for which producers are to say what they have first.
pub(super) struct PendingClone {
    source: u64,
    request: Option<u64>,
    /// When it was asked for, as boot time.
    time: u64,
    trigger: Option<FiredTrigger>,
    /// With what the session's filter leaves out.
    skips_filter: bool,
    /// Where it goes, if the session writes a file too.
    file: Option<FileToken>,
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
        let is_for_report = said(asked::SESSION_ID) == u64::MAX;
        Self {
            source,
            request,
            time,
            trigger: Some(trigger).filter(|trigger| !trigger.name.is_empty()),
            skips_filter: is_for_report || said(asked::SKIP_TRACE_FILTER) != 0,
            file: None,
        }
    }
}

impl<H: Host> Service<H> {
    /// Copies a session for a consumer, once its producers have sent what they have: into a file if it writes one.
    pub(super) fn clone_session(
        &mut self,
        connection: ConnectionId,
        request: Option<u64>,
        arguments: &[u8],
        file: &mut Option<FileToken>,
    ) {
        let source = self.find_source(connection, arguments).and_then(|source| {
            let writes = self.sessions.get(&source).is_some_and(|session| session.file.is_some());
            if writes && file.is_none() {
                return Err("A file descriptor is required to clone a session that writes a file".to_string());
            }
            Ok((source, writes))
        });
        let (source, writes) = match source {
            Ok(source) => source,
            Err(error) => return self.answer_clone(connection, request, Err(error)),
        };
        let now = self.host.clocks().boottime;
        let mut pending = PendingClone::of(source, request, now, arguments);
        if writes {
            pending.file = file.take();
        }
        self.clones.insert(connection, pending);
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
        let may_have = |session: &Session| (uid == 0 || session.uid == uid) && !session.is_freed;
        let mut all = self.sessions.iter().filter(|(_, session)| may_have(session));
        let is_original = |session: &Session| session.state != State::Cloned;
        let found = match WantedSession::of(arguments) {
            WantedSession::Named(name) => {
                all.find(|(_, session)| is_original(session) && session.config.name == name)
            }
            WantedSession::ForBugreport => all
                .filter(|(_, session)| is_original(session) && session.config.bugreport_score > 0)
                .max_by_key(|(_, session)| session.config.bugreport_score),
            WantedSession::Numbered(id) => all.find(|(other, _)| **other == id),
        };
        let (id, session) = found.ok_or("There is no such session of this user")?;
        if !is_original(session) {
            return Err("A clone cannot be cloned".to_string());
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
        let Some(mut pending) = self.clones.remove(&connection) else { return };
        let request = pending.request;
        let made = self.copy_session(connection, &mut pending, is_flushed);
        self.actions.extend(pending.file.map(Action::Discard));
        match made {
            Ok(id) => match self.sessions.get_mut(&id).and_then(|clone| clone.file.as_mut()) {
                Some(file) => {
                    file.cloned_by = request;
                    self.write_now(id);
                }
                None => self.answer_with_clone(id, request, false),
            },
            Err(error) => self.answer_clone(connection, request, Err(error)),
        }
    }

    /// Nobody waits for a clone any more.
    pub(super) fn forget_clone(&mut self, connection: ConnectionId) {
        let file = self.clones.remove(&connection).and_then(|pending| pending.file);
        self.actions.extend(file.map(Action::Discard));
    }

    /// A clone's file is complete, or has failed.
    pub(super) fn is_cloned_into_file(&mut self, id: u64, file: Option<&OutputFile>) {
        let Some(session) = self.sessions.get(&id) else { return };
        let (consumer, is_freed) = (session.consumer, session.is_freed);
        let (request, has_failed) = file.map_or((None, true), |file| (file.cloned_by, file.is_full));
        if !has_failed {
            self.answer_with_clone(id, request, true);
        } else if let Some(connection) = consumer {
            let error = session.error.clone().unwrap_or_else(|| "Cannot write the clone".to_string());
            self.answer_clone(connection, request, Err(error));
        }
        if has_failed || is_freed {
            self.free(id);
        }
    }

    fn answer_with_clone(&mut self, id: u64, request: Option<u64>, is_in_file: bool) {
        let Some(session) = self.sessions.get(&id) else { return };
        let (uuid, Some(connection)) = (session.config.uuid, session.consumer) else { return };
        self.answer_clone(connection, request, Ok((uuid, is_in_file)));
    }

    fn answer_clone(
        &mut self,
        connection: ConnectionId,
        request: Option<u64>,
        made: Result<([u64; 2], bool), String>,
    ) {
        let uuid = made.as_ref().map(|(uuid, _)| *uuid).map_err(String::as_str);
        let is_in_file = made.as_ref().is_ok_and(|(_, is_in_file)| *is_in_file);
        let response = answers::cloned(uuid).number(fields::WAS_WRITE_INTO_FILE, is_in_file);
        self.reply(connection, request, &response);
    }

    /// Makes the clone, and returns its number.
    fn copy_session(
        &mut self,
        connection: ConnectionId,
        pending: &mut PendingClone,
        is_flushed: bool,
    ) -> Result<u64, String> {
        self.check_cloner(connection)?;
        let uid = self.connections.get(&connection).map_or(u32::MAX, |one| one.peer.uid);
        let is_there = |session: &&Session| !session.is_freed;
        let source = self.sessions.get(&pending.source).filter(is_there).ok_or("Original session ended")?;
        let (mut config, numbers) = (source.config.clone(), source.buffers.clone());
        // What is in its file is what has left its buffers by now, although some of it may not be written yet.
        let written = source.file.as_ref().filter(|file| !file.is_finishing);
        let written = match (pending.file, written) {
            (None, _) => None,
            (Some(_), Some(file)) => Some((file.token, file.given, source.told.beginning)),
            (Some(_), None) => return Err("The session has ended, and its file is complete".to_string()),
        };
        let has_filter = source.filter.is_some() && !pending.skips_filter;
        let filter = if has_filter { self.make_filter(&config)? } else { None };
        let copies = self.copy_buffers(&config, &numbers)?;
        let (clocks, random) = (self.host.clocks(), self.host.random());
        let discarded = self.sessions.get(&pending.source).map(|source| self.discarded(source));
        let Some(source) = self.sessions.get_mut(&pending.source) else {
            return Err("Original session ended".to_string());
        };
        let [_, lsb] = config.uuid;
        config.uuid = [random, lsb];
        config.max_file_size = None;
        let count = copies.len() as u64;
        let mut clone = Session::new(uid, connection, None, config, copies);
        clone.state = State::Cloned;
        clone.started = source.started;
        clone.invalid_packets = source.invalid_packets;
        clone.discarded = discarded.unwrap_or_default();
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
            others: source.told.others.clone(),
            triggers: core::mem::take(&mut source.told.triggers),
            clone_trigger: pending.trigger.take(),
            initial_clocks: source.started,
            clocks: source.told.clocks.clone(),
            ..Told::default()
        };
        clone.filter = filter;
        if let Some((from, bytes, has_begun)) = written {
            // The clone goes on where the file ends: with its numbers, and without what it says at its beginning.
            clone.sequences = source.sequences.clone();
            (clone.told.beginning, clone.told.is_renamed) = (has_begun, has_begun);
            if has_begun {
                clone.told.initial_clocks = None;
            }
            if let Some(to) = pending.file.take() {
                clone.file = Some(OutputFile::new(to));
                self.actions.extend((bytes > 0).then_some(Action::Copy { from, to, bytes }));
            }
        }
        if let Some(started) = source.started.filter(|_| !clone.told.beginning) {
            // The source may have told of that already.
            clone.note(moment::TRACING_STARTED, started.boottime, false);
        }
        clone.note_clocks(clocks);
        clone.note(moment::CLONE_STARTED, pending.time, false);
        let cloned =
            (0..count).map(|value| Moment { value, ..Moment::new(moment::BUFFER_CLONED, clocks.boottime) });
        clone.told.moments.extend(cloned);
        clone.note(moment::TRACING_DISABLED, clocks.boottime, false);
        self.last.session += 1;
        self.sessions.insert(self.last.session, clone);
        self.set_state(self.last.session, State::Cloned);
        if let Some(one) = self.connections.get_mut(&connection) {
            one.consumer.session = Some(self.last.session);
        }
        Ok(self.last.session)
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
