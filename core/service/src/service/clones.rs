//! Clones: what a session has by now, for whoever asks, while it goes on.

use alloc::string::{String, ToString};
use alloc::vec::Vec;

use tracebuf::proto::fields::consumer::{
    clone_session_request as asked, clone_session_response as fields, tracing_service_event as moment,
};
use tracebuf::proto::reader::number;
use tracebuf::proto::trace_stats::FinalFlush;
use tracebuf::vm::RingVms;

use super::Service;
use super::copies::{Group, PendingClone};
use super::flushes::{Then, flags};
use crate::buffers::Copied;
use crate::host::{Action, ConnectionId, FileToken, Host};
use crate::sessions::{FlushCounts, Moment, OutputFile, Session, State, Told};
use crate::wire::answers::{self, WantedSession};

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
        self.last.clone += 1;
        let number_of_clone = self.last.clone;
        let mut pending = PendingClone::of(number_of_clone, source, request, now, arguments);
        // What is written meanwhile would be in one part and not in the other.
        let groups = if writes { &[Group::All][..] } else { &[Group::Given, Group::Others] };
        if writes {
            pending.file = file.take();
        }
        pending.waiting = groups.len();
        self.clones.insert(connection, pending);
        self.clear_for_clone(source);
        let for_bugreport = number(arguments, asked::FOR_BUGREPORT).unwrap_or(0) != 0;
        let flags = flags::CLONE | if for_bugreport { flags::FOR_BUGREPORT } else { 0 };
        for group in groups {
            self.flush(source, None, flags, Then::Clone(connection, number_of_clone, *group));
        }
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
        Ok(*found.ok_or("There is no such session of this user")?.0)
    }

    /// Whether a consumer may have a clone for its session.
    fn check_cloner(&self, connection: ConnectionId) -> Result<(), String> {
        self.check_has_none(connection)?;
        self.check_clones(self.connections.get(&connection).map_or(u32::MAX, |one| one.peer.uid))
    }

    /// Whether a consumer has no session, and may get one.
    pub(super) fn check_has_none(&self, connection: ConnectionId) -> Result<(), String> {
        if self.is_ending {
            return Err("The service is ending".to_string());
        }
        match self.connections.get(&connection).filter(|one| one.consumer.session.is_none()) {
            Some(_) => Ok(()),
            None => Err("A consumer can have only one session at a time".to_string()),
        }
    }

    /// Empties buffers of which a clone is to have only what producers flush for it.
    fn clear_for_clone(&mut self, id: u64) {
        let Some(session) = self.sessions.get(&id) else { return };
        let (config, numbers) = (session.config.clone(), session.buffers.clone());
        let cleared: Vec<_> = config
            .buffers
            .iter()
            .zip(numbers)
            .filter(|(buffer, number)| buffer.is_cleared && self.buffers.get(*number).is_some())
            .collect();
        for (buffer, number) in cleared {
            match self.make_buffer(buffer, config.builtin.histograms) {
                Some(empty) => drop(self.buffers.replace(number, empty)),
                None => self.log("no memory to clear a buffer: a clone has what was in it".to_string()),
            }
        }
    }

    /// All buffers of a session are copied, or they cannot be: a consumer gets its clone, or hears why not.
    pub(super) fn complete_clone(&mut self, connection: ConnectionId, copied: Result<(), String>) {
        let Some(mut pending) = self.clones.remove(&connection) else { return };
        let request = pending.request;
        let made = copied.and_then(|()| self.make_clone(connection, &mut pending));
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

    /// Makes the clone of copies, and returns its number.
    fn make_clone(
        &mut self,
        connection: ConnectionId,
        pending: &mut PendingClone<H::Memory>,
    ) -> Result<u64, String> {
        self.check_cloner(connection)?;
        let uid = self.connections.get(&connection).map_or(u32::MAX, |one| one.peer.uid);
        let is_there = |session: &&Session| !session.is_freed;
        let source = self.sessions.get(&pending.source).filter(is_there).ok_or("Original session ended")?;
        let mut config = source.config.clone();
        // What is in its file is what has left its buffers by now, although some of it may not be written yet.
        let written = source.file.as_ref().filter(|file| !file.is_finishing);
        let written = match (pending.file, written) {
            (None, _) => None,
            (Some(_), Some(file)) => Some((file.token, file.given, source.told.beginning)),
            (Some(_), None) => return Err("The session has ended, and its file is complete".to_string()),
        };
        let has_filter = source.filter.is_some() && !pending.skips_filter;
        let filter = if has_filter { self.make_filter(&config)? } else { None };
        let copies: Vec<(Copied<H::Memory>, u64)> = pending.copies.drain(..).flatten().collect();
        let moments = copies.iter().map(|(_, time)| *time).zip(0..);
        let moments =
            moments.map(|(time, value)| Moment { value, ..Moment::new(moment::BUFFER_CLONED, time) });
        let moments: Vec<Moment> = moments.collect();
        // Sessions cannot have as many buffers as there are numbers.
        let copies = copies.into_iter().filter_map(|(copy, _)| self.buffers.insert_copy(copy)).collect();
        let (clocks, random) = (self.host.clocks(), self.host.random());
        let discarded = self.sessions.get(&pending.source).map(|source| self.discarded(source));
        let Some(source) = self.sessions.get_mut(&pending.source) else {
            return Err("Original session ended".to_string());
        };
        let [_, lsb] = config.uuid;
        config.uuid = [random, lsb];
        config.max_file_size = None;
        let mut clone = Session::new(uid, connection, None, config, copies);
        clone.state = State::Cloned;
        clone.started = source.started;
        clone.invalid_packets = source.invalid_packets;
        clone.discarded = discarded.unwrap_or_default();
        let last = match (source.state, pending.is_flushed) {
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
                self.actions.extend((bytes > 0).then_some(Action::Copy { from, to }));
            }
        }
        if !clone.told.beginning {
            for number in &clone.buffers {
                self.buffers.vms(*number).into_iter().for_each(RingVms::begin_trace);
            }
        }
        if let Some(started) = source.started.filter(|_| !clone.told.beginning) {
            // The source may have told of that already.
            clone.note(moment::TRACING_STARTED, started.boottime, false);
        }
        clone.note_clocks(clocks);
        clone.note(moment::CLONE_STARTED, pending.time, false);
        clone.told.moments.extend(moments);
        clone.note(moment::TRACING_DISABLED, clocks.boottime, false);
        self.last.session += 1;
        self.sessions.insert(self.last.session, clone);
        self.set_state(self.last.session, State::Cloned);
        if let Some(one) = self.connections.get_mut(&connection) {
            one.consumer.session = Some(self.last.session);
        }
        Ok(self.last.session)
    }
}
