//! What consumers say.

use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use tracebuf::proto::fields::consumer::{
    attach_request, attach_response, change_trace_config_request, detach_request, enable_tracing_request,
    flush_request, get_trace_stats_response, observe_events_request, query_service_state_request,
    save_trace_for_bugreport_response,
};
use tracebuf::proto::reader::{Fields, message, numbers};

use super::Service;
use super::flushes::{Then, flags};
use crate::host::{Action, ConnectionId, FileToken, Host};
use crate::sessions::{Session, State};
use crate::wire::consumers::{CONSUMER_METHODS, CONSUMER_PORT, method_of, session_to_stop, stop_answer};
use crate::wire::frames::{self, ClientFrame, MAX_IPC_FRAME};
use crate::wire::{ProtoBuilder, answers, repeated};

impl<H: Host> Service<H> {
    pub(super) fn consumer_frame(&mut self, connection: ConnectionId, frame: &[u8], file: Option<FileToken>) {
        let mut file = file;
        match ClientFrame::of(frame) {
            Some((request, ClientFrame::Bind(name))) => {
                let is_known = name == CONSUMER_PORT.as_bytes();
                let bound = || frames::bound(request, CONSUMER_METHODS);
                let reply = if is_known { bound() } else { frames::not_bound(request) };
                if !is_known {
                    self.log_unknown_port(name);
                }
                self.send(connection, &reply);
            }
            Some((request, ClientFrame::Invoke { method, arguments, wants_reply })) => {
                let method = method_of(method);
                let request = wants_reply.then_some(request);
                let mut fields = Fields::of(arguments);
                fields.by_ref().for_each(drop);
                match method.filter(|_| fields.is_at_end()) {
                    Some(method) => self.consumer_call(connection, request, method, arguments, &mut file),
                    None => self.reject(connection, request),
                }
            }
            Some((request, ClientFrame::Other)) => {
                self.send(connection, &frames::request_error(request, "unknown request"));
            }
            None => {}
        }
        self.actions.extend(file.map(Action::Discard));
    }

    fn consumer_call(
        &mut self,
        connection: ConnectionId,
        request: Option<u64>,
        method: &str,
        arguments: &[u8],
        file: &mut Option<FileToken>,
    ) {
        let Some(one) = self.connections.get(&connection) else { return };
        let session = one.consumer.session;
        match method {
            "EnableTracing" => {
                let [attached] = fields(arguments, [enable_tracing_request::ATTACH_NOTIFICATION_ONLY]);
                if attached != 0 {
                    return self.wait_for_end(connection, request);
                }
                let config = message(arguments, enable_tracing_request::TRACE_CONFIG).unwrap_or_default();
                self.enable(connection, request, config, file.take());
            }
            "StartTracing" => {
                if let Some(id) = session {
                    self.start(id);
                }
                self.reply_whether(connection, request, true);
            }
            "ChangeTraceConfig" => {
                let config =
                    message(arguments, change_trace_config_request::TRACE_CONFIG).unwrap_or_default();
                if !session.is_some_and(|id| self.change_config(id, config)) {
                    self.log(
                        "a changed config has no session, or cannot be one's: nothing changes".to_string(),
                    );
                }
                self.reply_whether(connection, request, true);
            }
            "DisableTracing" => {
                if let Some(id) = session {
                    self.disable(id, true);
                }
                self.reply_whether(connection, request, true);
            }
            "ReadBuffers" => self.begin_reading(connection, request),
            "FreeBuffers" => self.free_for(connection, request),
            "Flush" => {
                let [timeout, said] = fields(arguments, [flush_request::TIMEOUT_MS, flush_request::FLAGS]);
                let flags = if said == 0 { flags::EXPLICIT } else { said };
                let is_started =
                    |id: &u64| self.sessions.get(id).is_some_and(|session| session.state == State::Started);
                match session.filter(is_started) {
                    Some(id) => {
                        let timeout = Some(timeout).filter(|timeout| *timeout != 0);
                        self.flush(id, timeout, flags, Then::Reply(connection, request));
                    }
                    None => self.reject(connection, request),
                }
            }
            "Detach" => self.detach(connection, request, arguments),
            "Attach" => self.attach(connection, request, arguments),
            "GetTraceStats" => match session {
                Some(id) => {
                    let mut stats = self.stats_of(id, true);
                    if stats.len() > MAX_IPC_FRAME - 64 {
                        stats = self.stats_of(id, false);
                    }
                    let response = ProtoBuilder::new().bytes(get_trace_stats_response::TRACE_STATS, &stats);
                    self.reply(connection, request, &response);
                }
                None => self.reject(connection, request),
            },
            "ObserveEvents" => {
                let mask = repeated(arguments, observe_events_request::EVENTS_TO_OBSERVE)
                    .into_iter()
                    .fold(0, |mask, kind| mask | kind);
                self.observe(connection, request, mask);
            }
            "QueryServiceState" => {
                let [sessions_only] = fields(arguments, [query_service_state_request::SESSIONS_ONLY]);
                self.query_state(connection, request, sessions_only != 0);
            }
            "QueryCapabilities" => {
                self.reply(connection, request, &answers::capabilities(&answers::OBSERVABLE, true));
            }
            "SaveTraceForBugreport" => {
                use save_trace_for_bugreport_response as fields;
                let response = ProtoBuilder::new().number(fields::SUCCESS, false);
                let response = response.bytes(fields::MSG, b"Removed: use CloneSession");
                self.reply(connection, request, &response);
            }
            "CloneSession" => self.clone_session(connection, request, arguments, file),
            "StopTracebufSession" => self.stop_for(connection, request, &session_to_stop(arguments)),
            _ => self.reject(connection, request),
        }
    }

    /// Ends a session of whichever consumer of this user, or of any if it is root: its programs flush first.
    fn stop_for(&mut self, connection: ConnectionId, request: Option<u64>, name: &str) {
        let uid = self.connections.get(&connection).map_or(u32::MAX, |one| one.peer.uid);
        let is_it = |id: &u64, session: &Session| {
            let is_named = session.config.name == name || session.detached.as_deref() == Some(name);
            !name.is_empty() && (is_named || id.to_string() == name)
        };
        let may_stop = |session: &Session| (uid == 0 || session.uid == uid) && !session.state.is_over();
        let mut found: Vec<u64> = (self.sessions.iter())
            .filter(|(id, session)| may_stop(session) && is_it(id, session))
            .map(|(id, _)| *id)
            .collect();
        // Another may be called by the number of this one.
        if let Some(id) = found.iter().copied().find(|id| id.to_string() == name) {
            found = [id].to_vec();
        }
        let result = match found[..] {
            [id] => {
                self.log(format!("user {uid} stops session {id}"));
                let is_stopping = |session: &Session| session.is_ending || session.state == State::Stopping;
                match self.sessions.get(&id).is_some_and(is_stopping) {
                    // Whoever says it again waits for nobody.
                    true => self.disable(id, false),
                    false => self.flush_and_stop(id),
                }
                Ok(())
            }
            [] => Err("no session of this user has that name, key or number"),
            _ => Err("several sessions have that name or key: say a number"),
        };
        self.reply(connection, request, &stop_answer(result));
    }

    /// After it has attached to a session, a consumer wants to hear of its end.
    fn wait_for_end(&mut self, connection: ConnectionId, request: Option<u64>) {
        let id = self.connections.get(&connection).and_then(|one| one.consumer.session);
        let session = id.and_then(|id| self.sessions.get_mut(&id));
        let Some(session) = session else { return self.reject(connection, request) };
        let waits = request.map(|request| (connection, request));
        let before = core::mem::replace(&mut session.enabled_by, waits);
        let is_over = session.state.is_over() && session.file.is_none();
        if let Some((connection, request)) = before {
            self.reject(connection, Some(request));
        }
        if let Some(id) = id.filter(|_| is_over) {
            self.say_that_it_ended(id);
        }
    }

    fn free_for(&mut self, connection: ConnectionId, request: Option<u64>) {
        let id = self.connections.get(&connection).and_then(|one| one.consumer.session);
        if let Some(id) = id {
            self.free(id);
        }
        self.stop_reading(connection);
        self.reply_whether(connection, request, true);
    }

    fn detach(&mut self, connection: ConnectionId, request: Option<u64>, arguments: &[u8]) {
        let key = text(message(arguments, detach_request::KEY).unwrap_or_default());
        let id = self.connections.get(&connection).and_then(|one| one.consumer.session);
        let uid = self.connections.get(&connection).map_or(u32::MAX, |one| one.peer.uid);
        let is_taken = self.find_detached(uid, &key).is_some();
        let session = id.and_then(|id| self.sessions.get_mut(&id)).filter(|_| !is_taken && !key.is_empty());
        // Who waits for a clone's file would never hear of it.
        let session = session.filter(|of| of.file.as_ref().is_none_or(|file| file.cloned_by.is_none()));
        // Nobody could attach to one that is over: it would be gone, and what is in it.
        let session = session.filter(|of| !of.state.is_over());
        let Some(session) = session else { return self.reject(connection, request) };
        session.detached = Some(key);
        session.consumer = None;
        if let Some(one) = self.connections.get_mut(&connection) {
            one.consumer.session = None;
        }
        self.stop_reading(connection);
        self.reply_whether(connection, request, true);
    }

    fn attach(&mut self, connection: ConnectionId, request: Option<u64>, arguments: &[u8]) {
        let key = text(message(arguments, attach_request::KEY).unwrap_or_default());
        let may_have = !self.clones.contains_key(&connection);
        let one = self.connections.get_mut(&connection);
        let one = one.filter(|one| may_have && one.consumer.session.is_none());
        let uid = one.map(|one| one.peer.uid);
        let found = uid.and_then(|uid| self.find_detached(uid, &key)).filter(|_| !key.is_empty());
        let session = found.and_then(|id| self.sessions.get_mut(&id));
        let Some((session, id)) = session.zip(found) else { return self.reject(connection, request) };
        (session.detached, session.consumer) = (None, Some(connection));
        let response = ProtoBuilder::new().bytes(attach_response::TRACE_CONFIG, &session.config.whole);
        if let Some(one) = self.connections.get_mut(&connection) {
            one.consumer.session = Some(id);
        }
        self.reply(connection, request, &response);
    }

    fn find_detached(&self, uid: u32, key: &str) -> Option<u64> {
        let is_it = |session: &crate::sessions::Session| {
            session.uid == uid && session.detached.as_deref() == Some(key) && !session.is_freed
        };
        self.sessions.iter().find(|(_, session)| is_it(session)).map(|(id, _)| *id)
    }
}

/// Numbers of a message that is well-formed.
fn fields<const N: usize>(of: &[u8], fields: [u32; N]) -> [u64; N] {
    numbers(of, fields).unwrap_or([0; N])
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}
