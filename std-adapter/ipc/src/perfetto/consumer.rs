//! One who asks a session for what it has, in Perfetto's protocol: a conversation until it hangs up.

use std::collections::hash_map::RandomState;
use std::hash::{BuildHasher, Hasher};
use std::io::{self, Write};
use std::sync::{Arc, Weak};
use std::time::SystemTime;

use tracebuf::producer::track_event::Clock;
use tracebuf::proto::fields::consumer::get_trace_stats_response;
use tracebuf::proto::fields::consumer::observe_events_request::EVENTS_TO_OBSERVE;
use tracebuf::proto::fields::consumer::save_trace_for_bugreport_response as bugreport;
use tracebuf::proto::fields::{trace, trace_stats};
use tracebuf::proto::reader::{Field, FieldValue, Fields};
use tracebuf::proto::trace_stats::TraceStats;
use tracebuf::proto::{Message, TracePackets};
use tracebuf_service::wire::answers::{self, SessionState, WantedSession};
use tracebuf_service::wire::consumers::{CONSUMER_METHODS, CONSUMER_PORT, STOP_SESSION, method_of};
use tracebuf_service::{Slices, uuid_packet};

use super::ProtoBuilder;
use super::frame_reader::FrameReader;
use super::frames::{self, ClientFrame, push_frame};
use crate::link::Link;
use tracebuf_session::parts::whole_within;
use tracebuf_session::{BootClock, Session, SessionError, Snapshot};
use tracebuf_std::system::user_id;

/// The number of the one session that there is.
const SESSION: u64 = 1;

/// What consumers may know of a session.
pub(crate) struct OfferedSession {
    pub(crate) session: Weak<Session>,
    pub(crate) name: String,
    /// When it was offered.
    pub(crate) since: SystemTime,
}

/// One consumer.
pub(crate) struct Consumer {
    link: Arc<Link>,
    offered: Arc<OfferedSession>,
    /// What it has a clone of, until it has read that, and what this is called in the world.
    clone: Option<(Snapshot, [u64; 2])>,
    /// The call to which events would be replies. There are none.
    observes: Option<u64>,
}

impl Consumer {
    pub(crate) const fn new(link: Arc<Link>, offered: Arc<OfferedSession>) -> Self {
        Self { link, offered, clone: None, observes: None }
    }

    /// Answers, until the other end is gone, or takes nothing for too long.
    pub(crate) fn serve(mut self) -> io::Result<()> {
        let (mut reader, link) = (FrameReader::new(), self.link.clone());
        loop {
            let frame = reader.next(|room| link.receive_some(room), |frame| Some(frame.to_vec()))?;
            match ClientFrame::of(&frame) {
                Some((request, ClientFrame::Bind(name))) if name == CONSUMER_PORT.as_bytes() => {
                    // All but this project's own: the program itself stops its session.
                    let methods = CONSUMER_METHODS.into_iter().take_while(|name| *name != STOP_SESSION);
                    self.send(&frames::bound(request, methods))?;
                }
                Some((request, ClientFrame::Bind(_))) => self.send(&frames::not_bound(request))?,
                Some((request, ClientFrame::Invoke { method, arguments, wants_reply })) => {
                    let method = method_of(method).unwrap_or_default();
                    self.call(wants_reply.then_some(request), method, arguments)?;
                }
                Some((request, ClientFrame::Other)) => {
                    self.send(&frames::request_error(request, "unknown request"))?;
                }
                None => {}
            }
        }
    }

    fn call(&mut self, request: Option<u64>, method: &str, arguments: &[u8]) -> io::Result<()> {
        let nothing = ProtoBuilder::new();
        match method {
            "QueryServiceState" => self.say_state(request),
            "QueryCapabilities" => self.reply(request, &answers::capabilities(&[], false)),
            "CloneSession" => {
                let made = self.clone_session(WantedSession::of(arguments));
                self.reply(request, &answers::cloned(made.as_ref().copied().map_err(String::as_str)))
            }
            "ReadBuffers" => self.read(request),
            "FreeBuffers" => {
                self.clone = None;
                self.reply(request, &nothing)
            }
            "EnableTracing" => {
                let why = "This is the socket of a program's own session, which can only be cloned";
                self.reply(request, &answers::ended(Some(why)))
            }
            "GetTraceStats" if self.clone.is_some() => {
                let buffers: Vec<_> =
                    self.clone.iter().flat_map(|(snapshot, _)| snapshot.buffers()).collect();
                let total = buffers.len() as u64;
                let mut stats = Vec::new();
                let Ok(()) = TraceStats { buffers: &buffers, ..TraceStats::default() }.encode(&mut stats);
                let stats = ProtoBuilder::new()
                    .fields(&stats)
                    .number(trace_stats::TRACING_SESSIONS, 1_u64)
                    .number(trace_stats::TOTAL_BUFFERS, total);
                self.reply(request, &nothing.message(get_trace_stats_response::TRACE_STATS, &stats))
            }
            // Without a session of one's own there is nothing to do.
            "StartTracing" | "DisableTracing" => self.reply(request, &nothing),
            "ObserveEvents" => {
                let is_kind = |field: Field<'_>| {
                    field.number == EVENTS_TO_OBSERVE && field.value != FieldValue::Number(0)
                };
                let is_on = Fields::of(arguments).any(is_kind);
                let before = std::mem::replace(&mut self.observes, request.filter(|_| is_on));
                self.fail(before)?;
                if is_on { Ok(()) } else { self.fail(request) }
            }
            "SaveTraceForBugreport" => {
                let response = ProtoBuilder::new().number(bugreport::SUCCESS, false);
                self.reply(request, &response.bytes(bugreport::MSG, b"Removed: use CloneSession"))
            }
            // As of a service: a clone has what there was to flush, and of another session there is none.
            _ => self.fail(request),
        }
    }

    fn say_state(&self, request: Option<u64>) -> io::Result<()> {
        let Some(request) = request else { return Ok(()) };
        let session = self.offered.session.upgrade();
        let summary = session.as_ref().and_then(|session| session.summary().ok());
        let since = self.offered.since.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        let told = session.zip(summary).map(|(session, summary)| {
            let state = SessionState {
                id: SESSION,
                uid: user_id(),
                state: "STARTED",
                name: &self.offered.name,
                buffers_kb: summary.buffers.iter().map(|buffer| buffer.buffer_size >> 10).collect(),
                data_sources: session.data_sources().len() as u64,
                started: since.as_nanos() as u64,
                is_started: true,
                ..SessionState::default()
            };
            state.encoded()
        });
        let count = u64::from(told.is_some());
        let mut bytes = Vec::new();
        for frame in answers::service_state(request, [count; 2], told) {
            push_frame(&mut bytes, &frame);
        }
        self.send_all(&bytes)
    }

    /// Copies the session.
    fn clone_session(&mut self, wanted: WantedSession) -> Result<[u64; 2], String> {
        let is_it = match wanted {
            WantedSession::Named(name) => name == self.offered.name,
            WantedSession::Numbered(id) => id == SESSION,
            WantedSession::ForBugreport => true,
        };
        if !is_it {
            return Err(format!("There is one session, {} with the number {SESSION}", self.offered.name));
        }
        if self.clone.is_some() {
            return Err("A consumer can have only one session at a time".into());
        }
        let session = self.offered.session.upgrade();
        let snapshot = session.map_or(Err(SessionError::Stopped), |session| session.snapshot());
        let snapshot = snapshot.map_err(|error| match error {
            SessionError::Stopped => "The program's session has ended".into(),
            error => error.to_string(),
        })?;
        // Keys of hash tables are random numbers of the system.
        let uuid = [(); 2].map(|()| RandomState::new().build_hasher().finish());
        self.clone = Some((snapshot, uuid));
        Ok(uuid)
    }

    /// Sends all that the clone has, once.
    fn read(&mut self, request: Option<u64>) -> io::Result<()> {
        let (Some(request), link) = (request, self.link.clone()) else { return Ok(()) };
        if let Some((snapshot, uuid)) = self.clone.take() {
            let packet = uuid_packet(user_id(), uuid, BootClock.now());
            let mut replies = Replies { link: &link, request, rest: Vec::new() };
            replies.write_all(ProtoBuilder::new().message(trace::PACKET, &packet).as_bytes())?;
            snapshot.write(&mut replies)?;
        }
        self.reply(Some(request), &ProtoBuilder::new())
    }

    fn reply(&self, request: Option<u64>, message: &ProtoBuilder) -> io::Result<()> {
        request.map_or(Ok(()), |request| self.send(&frames::reply(request, message, false)))
    }

    fn fail(&self, request: Option<u64>) -> io::Result<()> {
        request.map_or(Ok(()), |request| self.send(&frames::failure(request)))
    }

    fn send(&self, frame: &ProtoBuilder) -> io::Result<()> {
        let mut bytes = Vec::new();
        push_frame(&mut bytes, frame);
        self.send_all(&bytes)
    }

    fn send_all(&self, bytes: &[u8]) -> io::Result<()> {
        self.link.send_all(bytes)
    }
}

/// A trace on its way to a consumer, as replies to one call.
struct Replies<'l> {
    link: &'l Link,
    request: u64,
    /// The beginning of a packet.
    rest: Vec<u8>,
}

impl Write for Replies<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.rest.extend_from_slice(bytes);
        let whole = whole_within(&self.rest, u64::MAX);
        let mut slices = Slices::new(self.request);
        TracePackets::new(self.rest.get(..whole).unwrap_or_default())
            .flatten()
            .for_each(|packet| slices.push(packet));
        self.rest.drain(..whole);
        let mut stream = Vec::new();
        slices.finish(false).iter().for_each(|frame| push_frame(&mut stream, frame));
        self.link.send_all(&stream)?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
