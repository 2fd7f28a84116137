//! Streams of connections, the messages in them, and what goes back.

use alloc::collections::VecDeque;
use alloc::format;
use alloc::vec::Vec;

use super::Service;
use super::queries::StateQuery;
use crate::host::{Action, ConnectionId, FileToken, Host, Peer, Port};
use crate::wire::ProtoBuilder;
use crate::wire::frames::{self, FrameBuffer, MAX_IPC_FRAME, push_frame};

/// Bytes of the longest frame that is taken: longer than Perfetto's clients send, but some have sent more.
const LONGEST_FRAME: usize = 1 << 20;
/// Most bytes that may wait for the other end to take them. What a consumer reads waits elsewhere.
const MOST_UNSENT: usize = 16 << 20;
/// Most descriptors that wait for the rest of a message: clients send one with a message that has room in a piece.
const MOST_FILES: usize = 4;
/// Bytes of messages that are not whole, or not taken, that a connection may have whatever others have, and most bytes
/// of those of a user, the service's own and root excepted.
const FEW_WAITING: usize = 256 << 10;
const MOST_WAITING: usize = 64 << 20;

/// One connection, as far as both ports have the same.
pub(super) struct Connection {
    pub(super) port: Port,
    pub(super) peer: Peer,
    frames: FrameBuffer,
    /// Bytes that have come in all.
    received: u64,
    /// Descriptors, with the range of the bytes with which each came.
    files: VecDeque<(u64, u64, FileToken)>,
    pub(super) unsent: usize,
    /// The number of the producer, once it has said who it is.
    pub(super) producer: Option<u16>,
    pub(super) consumer: Consumer,
}

/// What is known of a consumer.
#[derive(Default)]
pub(super) struct Consumer {
    pub(super) session: Option<u64>,
    /// The call to which packets are replies.
    pub(super) reads: Option<u64>,
    /// The call to which events are replies, and which those are.
    pub(super) observes: Option<u64>,
    /// Bytes of packets that it got at once, the last time: one packet may be long.
    pub(super) last_read: usize,
    /// Calls that ask what there is, and how far each is answered.
    pub(super) queries: VecDeque<StateQuery>,
    pub(super) observed: u64,
    /// What it is to hear: changes, then all data sources from this number on as they are, then that all have started.
    pub(super) changes: ProtoBuilder,
    pub(super) tells_from: Option<u64>,
    pub(super) all_started: bool,
}

impl Connection {
    fn waiting(&self) -> usize {
        self.frames.left().saturating_add(self.unsent.saturating_sub(self.consumer.last_read))
    }
}

impl<H: Host> Service<H> {
    fn is_trusted(&self, uid: u32) -> bool {
        uid == 0 || uid == self.host.machine().uid
    }

    pub(super) fn connected(&mut self, connection: ConnectionId, port: Port, peer: Peer) {
        let is_its = |other: &&Connection| other.peer.uid == peer.uid;
        let most = self.host.most_connections();
        if !self.is_trusted(peer.uid) && self.connections.values().filter(is_its).count() >= most {
            self.log(format!("user {} has {most} connections, and gets no more", peer.uid));
            return self.actions.push(Action::Close { connection });
        }
        let one = Connection {
            port,
            peer,
            frames: FrameBuffer::new(LONGEST_FRAME),
            received: 0,
            files: VecDeque::new(),
            unsent: 0,
            producer: None,
            consumer: Consumer::default(),
        };
        self.connections.insert(connection, one);
    }

    pub(super) fn received(&mut self, connection: ConnectionId, bytes: &[u8], file: Option<FileToken>) {
        let Some(one) = self.connections.get_mut(&connection) else {
            self.actions.extend(file.map(Action::Discard));
            return;
        };
        let begin = one.received;
        one.received = begin.saturating_add(bytes.len() as u64);
        match file {
            Some(file) if one.files.len() >= MOST_FILES => self.actions.push(Action::Discard(file)),
            file => one.files.extend(file.map(|file| (begin, one.received, file))),
        }
        let received = one.received;
        let mut frames = core::mem::replace(&mut one.frames, FrameBuffer::new(0));
        frames.push(bytes);
        loop {
            let start = received - frames.left() as u64;
            let Ok(frame) = frames.next().map(|frame| frame.map(<[u8]>::to_vec)) else {
                self.log(format!("a client sent a frame of more than {LONGEST_FRAME} bytes"));
                return self.close(connection);
            };
            let Some(frame) = frame else { break };
            let file = self.file_of(connection, start, received - frames.left() as u64);
            let Some(one) = self.connections.get(&connection) else { return };
            if frame.is_empty() {
                self.actions.extend(file.map(Action::Discard));
                continue;
            }
            match one.port {
                Port::Producers => self.producer_frame(connection, &frame, file),
                Port::Consumers => self.consumer_frame(connection, &frame, file),
            }
        }
        frames.tidy();
        if let Some(one) = self.connections.get_mut(&connection) {
            one.frames = frames;
        }
        if self.waits_too_much(connection) {
            self.close(connection);
        }
    }

    /// Whether a connection has much that waits, and its user too much.
    fn waits_too_much(&mut self, connection: ConnectionId) -> bool {
        let Some(one) = self.connections.get(&connection).filter(|one| one.waiting() > FEW_WAITING) else {
            return false;
        };
        let uid = one.peer.uid;
        let all = self.connections.values().filter(|one| one.peer.uid == uid).map(Connection::waiting);
        let is_much = !self.is_trusted(uid) && all.sum::<usize>() > MOST_WAITING;
        if is_much {
            self.log(format!("too much of user {uid} waits to be sent or taken: a connection ends"));
        }
        is_much
    }

    /// The descriptor of a frame with this range: it is the last one that begins in the bytes with which that came.
    fn file_of(&mut self, connection: ConnectionId, start: u64, end: u64) -> Option<FileToken> {
        let one = self.connections.get_mut(&connection)?;
        let mut found = None;
        while let Some((from, to, file)) = one.files.front().copied().filter(|(_, to, _)| *to <= end) {
            one.files.pop_front();
            let unused = if (from..to).contains(&start) { found.replace(file) } else { Some(file) };
            self.actions.extend(unused.map(Action::Discard));
        }
        found
    }

    pub(super) fn sent(&mut self, connection: ConnectionId, bytes: usize) {
        if let Some(one) = self.connections.get_mut(&connection) {
            one.unsent = one.unsent.saturating_sub(bytes);
        }
    }

    /// Sends a frame, with a descriptor if there is one.
    pub(super) fn send_with(
        &mut self,
        connection: ConnectionId,
        frame: &ProtoBuilder,
        file: Option<FileToken>,
    ) {
        let len = frame.as_bytes().len();
        let Some(one) = self.connections.get_mut(&connection) else {
            self.actions.extend(file.map(Action::Discard));
            return;
        };
        one.unsent = one.unsent.saturating_add(len + 4);
        let (unsent, peer) = (one.unsent, one.peer);
        if len > MAX_IPC_FRAME || unsent > one.consumer.last_read.saturating_add(MOST_UNSENT) {
            self.actions.extend(file.map(Action::Discard));
            self.log(format!("process {} takes nothing, or was to get too much at once", peer.pid));
            return self.close(connection);
        }
        if self.waits_too_much(connection) {
            self.actions.extend(file.map(Action::Discard));
            return self.close(connection);
        }
        let mut bytes = Vec::with_capacity(len + 4);
        push_frame(&mut bytes, frame);
        self.actions.push(Action::Send { connection, bytes, file });
    }

    pub(super) fn send(&mut self, connection: ConnectionId, frame: &ProtoBuilder) {
        self.send_with(connection, frame, None);
    }

    /// Answers a call, for good.
    pub(super) fn reply(&mut self, connection: ConnectionId, request: Option<u64>, message: &ProtoBuilder) {
        if let Some(request) = request {
            self.send(connection, &frames::reply(request, message, false));
        }
    }

    /// Says that a call has failed.
    pub(super) fn reject(&mut self, connection: ConnectionId, request: Option<u64>) {
        if let Some(request) = request {
            self.send(connection, &frames::failure(request));
        }
    }

    /// Answers a call that is done, or says that it has failed.
    pub(super) fn reply_whether(&mut self, connection: ConnectionId, request: Option<u64>, is_done: bool) {
        match is_done {
            true => self.reply(connection, request, &ProtoBuilder::new()),
            false => self.reject(connection, request),
        }
    }

    /// Ends a connection.
    pub(super) fn close(&mut self, connection: ConnectionId) {
        self.actions.push(Action::Close { connection });
        self.closed(connection);
    }

    pub(super) fn closed(&mut self, connection: ConnectionId) {
        let Some(one) = self.connections.remove(&connection) else { return };
        self.readers.remove(&connection);
        self.askers.remove(&connection);
        self.to_tell.remove(&connection);
        self.forget_clone(connection);
        self.actions.extend(one.files.into_iter().map(|(_, _, file)| Action::Discard(file)));
        if let Some(producer) = one.producer {
            self.producer_is_gone(producer);
        }
        if let Some(session) = one.consumer.session {
            self.consumer_is_gone(session);
        }
    }
}
