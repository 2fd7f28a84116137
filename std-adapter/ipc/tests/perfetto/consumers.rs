//! Those who take snapshots of a session from outside.

use std::io::{ErrorKind, Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use tracebuf::proto::fields::consumer::{
    clone_session_request, clone_session_response, enable_tracing_response, get_trace_stats_response,
    query_service_state_response, read_buffers_response, slice, trace_uuid, tracing_service_state,
    tracing_session,
};
use tracebuf::proto::fields::{buffer_stats, ipc, trace_packet, trace_stats};
use tracebuf_ipc::{ConsumerSocket, ConsumerSocketBuilder};
use tracebuf_service::wire::consumers::{CONSUMER_METHODS, CONSUMER_PORT, STOP_SESSION, method};
use tracebuf_service::wire::frames::{FrameBuffer, MAX_IPC_FRAME, bind, invoke, push_frame};
use tracebuf_service::wire::{ProtoBuilder, consumers};
use tracebuf_session::{FlightRecorder, Session};
use tracebuf_testing::fork::in_child;

use crate::program::{PATIENCE, waits_for};
use crate::trace::{message, number};

/// A session with a socket, which is removed at the end.
struct Offered {
    session: Arc<Session>,
    socket: Option<ConsumerSocket>,
    path: PathBuf,
}

impl Offered {
    fn start(test: &str, builder: ConsumerSocketBuilder) -> Self {
        let path = std::env::temp_dir().join(format!("tracebuf-consumers-{}-{test}", std::process::id()));
        let session = Arc::new(Session::builder().ring(16 << 20).start().expect("a session"));
        let socket = Some(builder.bind(&session, &path).expect("a socket"));
        Self { session, socket, path }
    }

    fn record(&self, names: &[&'static str]) {
        names.iter().for_each(|name| self.session.recorder().instant(name));
    }
}

struct Consumer {
    stream: UnixStream,
    frames: FrameBuffer,
    last: u64,
}

impl Consumer {
    fn of(offered: &Offered) -> Self {
        let mut one = Self::silent(offered);
        one.send(&bind(0, CONSUMER_PORT));
        let bound = one.frame().expect("an answer");
        let bound = message(&bound, ipc::ipc_frame::MSG_BIND_SERVICE_REPLY).expect("it is bound");
        assert_eq!(number(bound, ipc::bind_service_reply::SUCCESS), Some(1));
        assert_eq!(consumers::stop_session(bound, "1"), None, "it has no call to stop");
        one
    }

    fn silent(offered: &Offered) -> Self {
        let stream = UnixStream::connect(&offered.path).expect("it listens");
        stream.set_read_timeout(Some(PATIENCE)).expect("a time");
        Self { stream, frames: FrameBuffer::new(MAX_IPC_FRAME), last: 0 }
    }

    fn send(&mut self, frame: &ProtoBuilder) {
        let mut bytes = Vec::new();
        push_frame(&mut bytes, frame);
        self.stream.write_all(&bytes).expect("it takes that");
    }

    /// The next frame, unless the connection has ended.
    fn frame(&mut self) -> Option<Vec<u8>> {
        loop {
            if let Some(frame) = self.frames.next().expect("none is too long") {
                return Some(frame.to_vec());
            }
            match self.stream.read(self.frames.room()) {
                Ok(0) => return None,
                Err(error) if error.kind() == ErrorKind::ConnectionReset => return None,
                read => self.frames.came(read.expect("something comes")),
            }
        }
    }

    fn call(&mut self, name: &str, arguments: &ProtoBuilder) -> u64 {
        self.last += 1;
        self.send(&invoke(1, method(name), arguments, Some(self.last)));
        self.last
    }

    /// The next reply: its call, whether it is good, whether more may come, and what it says.
    fn reply(&mut self) -> (u64, bool, bool, Vec<u8>) {
        let frame = self.frame().expect("a reply");
        let reply = message(&frame, ipc::ipc_frame::MSG_INVOKE_METHOD_REPLY).expect("a reply");
        let is = |field| number(reply, field) == Some(1);
        let request = number(&frame, ipc::ipc_frame::REQUEST_ID).unwrap_or(0);
        let said = message(reply, ipc::invoke_method_reply::REPLY_PROTO).unwrap_or_default().to_vec();
        (request, is(ipc::invoke_method_reply::SUCCESS), is(ipc::invoke_method_reply::HAS_MORE), said)
    }

    /// Calls, and returns the one reply.
    fn ask(&mut self, name: &str, arguments: &ProtoBuilder) -> (bool, Vec<u8>) {
        let request = self.call(name, arguments);
        let (of, is_good, has_more, said) = self.reply();
        assert_eq!((of, has_more), (request, false), "{name}");
        (is_good, said)
    }

    /// What its clone is called, or why it gets none.
    fn clone_of(&mut self, arguments: &ProtoBuilder) -> Result<[u64; 2], String> {
        let (is_good, said) = self.ask("CloneSession", arguments);
        assert!(is_good);
        match number(&said, clone_session_response::SUCCESS) {
            Some(1) => Ok([clone_session_response::UUID_MSB, clone_session_response::UUID_LSB]
                .map(|field| number(&said, field).expect("a number"))),
            _ => Err(text(&said, clone_session_response::ERROR)),
        }
    }

    fn read(&mut self) -> Vec<Vec<u8>> {
        let request = self.call("ReadBuffers", &ProtoBuilder::new());
        let (mut packets, mut packet) = (Vec::new(), Vec::new());
        loop {
            let (of, is_good, has_more, said) = self.reply();
            assert_eq!((of, is_good), (request, true));
            let mut rest = &said[..];
            while let Some(one) = message(rest, read_buffers_response::SLICES) {
                packet.extend_from_slice(message(one, slice::DATA).expect("data"));
                if number(one, slice::LAST_SLICE_FOR_PACKET) == Some(1) {
                    packets.push(std::mem::take(&mut packet));
                }
                rest = &rest[one.as_ptr() as usize - rest.as_ptr() as usize + one.len()..];
            }
            if !has_more {
                assert!(packet.is_empty(), "whole packets");
                return packets;
            }
        }
    }

    /// Whether the other end has gone, without reading what it has said.
    fn has_been_left(&self) -> bool {
        let now = Timespec { tv_sec: 0, tv_nsec: 0 };
        let mut polled = [PollFd::new(&self.stream, PollFlags::empty())];
        poll(&mut polled, Some(&now)).expect("a socket");
        polled[0].revents().contains(PollFlags::HUP)
    }

    /// Waits for the end of the connection.
    fn is_sent_away(&mut self) -> bool {
        while self.frame().is_some() {}
        true
    }
}

fn text(bytes: &[u8], field: u32) -> String {
    String::from_utf8_lossy(message(bytes, field).unwrap_or_default()).into_owned()
}

fn by_id(id: u64) -> ProtoBuilder {
    ProtoBuilder::new().number(clone_session_request::SESSION_ID, id)
}

fn by_name(name: &str) -> ProtoBuilder {
    ProtoBuilder::new().bytes(clone_session_request::UNIQUE_SESSION_NAME, name.as_bytes())
}

fn have(packets: &[Vec<u8>], name: &str) -> bool {
    packets.iter().any(|packet| packet.windows(name.len()).any(|part| part == name.as_bytes()))
}

#[test]
fn a_clone_is_a_whole_trace_of_what_was_recorded_until_then_and_the_session_goes_on() {
    let offered = Offered::start("clone", ConsumerSocket::builder().name("camera"));
    let folder = std::env::temp_dir().join(format!("tracebuf-consumers-flight-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a folder");
    let flight = FlightRecorder::new(&offered.session, &folder).expect("a flight recorder");
    // More than a frame has room for, in packets that are longer than a slice.
    offered.record(&["first event"]);
    let long = "x".repeat(100_000);
    for number in 0..20_u64 {
        offered
            .session
            .recorder()
            .instant_with("long", |event| event.arg("text", &*long).arg("number", number));
        offered.session.flush(PATIENCE).expect("there is room again");
    }
    let mut consumer = Consumer::of(&offered);
    let uuid = consumer.clone_of(&by_name("camera")).expect("a clone");
    offered.record(&["later event"]);
    let (is_good, said) = consumer.ask("GetTraceStats", &ProtoBuilder::new());
    let stats = message(&said, get_trace_stats_response::TRACE_STATS).expect("they are told");
    let buffer = message(stats, trace_stats::BUFFER_STATS).expect("of its buffer");
    assert!(is_good && number(buffer, buffer_stats::BYTES_WRITTEN) > Some(20 * 100_000));
    assert_eq!(number(stats, trace_stats::TOTAL_BUFFERS), Some(1));
    // A clone is no session that records, as with a service.
    assert!(!consumer.ask("Flush", &ProtoBuilder::new()).0);
    let again = consumer.clone_of(&by_id(1)).expect_err("one at a time");
    assert!(again.contains("only one session"), "{again}");
    let packets = consumer.read();
    assert!(have(&packets, "first event") && !have(&packets, "later event"));
    assert_eq!(packets.iter().filter(|packet| packet.len() > 100_000).count(), 20);
    let uuids: Vec<_> =
        packets.iter().filter_map(|packet| message(packet, trace_packet::TRACE_UUID)).collect();
    let [told] = uuids[..] else { panic!("one identifier") };
    assert_eq!([trace_uuid::MSB, trace_uuid::LSB].map(|field| number(told, field).expect("a number")), uuid);
    assert!(message(packets.last().expect("packets"), trace_packet::TRACE_STATS).is_some());
    let has_user = |packet: &Vec<u8>| number(packet, trace_packet::TRUSTED_UID).is_some();
    assert!(packets.iter().all(has_user));
    // It is read, and the next one is of now.
    assert!(consumer.read().is_empty());
    let next = consumer.clone_of(&by_id(u64::MAX)).expect("another");
    assert_ne!(next, uuid);
    assert!(have(&consumer.read(), "later event"));
    assert_eq!(flight.status().written, 0, "a flight recorder is asked for no file");
    drop(flight);
    std::fs::remove_dir_all(folder).expect("it is there");
}

#[test]
fn a_query_shows_the_session_and_what_cannot_be_done_is_answered_with_its_reason() {
    let offered = Offered::start("query", ConsumerSocket::builder().name("camera"));
    let mut consumer = Consumer::of(&offered);
    let (is_good, said) = consumer.ask("QueryServiceState", &ProtoBuilder::new());
    let state = message(&said, query_service_state_response::SERVICE_STATE).expect("a state");
    let session = message(state, tracing_service_state::TRACING_SESSIONS).expect("a session");
    assert!(is_good && number(state, tracing_service_state::NUM_SESSIONS_STARTED) == Some(1));
    let told = [tracing_session::ID, tracing_session::BUFFER_SIZE_KB, tracing_session::IS_STARTED];
    let [id, kb, started] = told.map(|field| number(session, field).expect("it is told"));
    assert!(id == 1 && started == 1 && (16 << 10..17 << 10).contains(&kb), "{id} {kb} {started}");
    assert_eq!(text(session, tracing_session::UNIQUE_SESSION_NAME), "camera");
    for wrong in [by_name("other"), by_id(0), by_id(2)] {
        let error = consumer.clone_of(&wrong).expect_err("there is no such session");
        assert!(error.contains("camera"), "{error}");
    }
    let (is_good, said) = consumer.ask("EnableTracing", &ProtoBuilder::new());
    let error = text(&said, enable_tracing_response::ERROR);
    assert!(is_good && error.contains("only be cloned"), "{error}");
    // Everything is answered, whatever there is to do.
    let mut events = None;
    for name in CONSUMER_METHODS.into_iter().filter(|name| *name != STOP_SESSION) {
        match name {
            "ObserveEvents" => {
                let request = consumer.call(name, &ProtoBuilder::new().number(1, 2_u32));
                assert!(events.replace(request).is_none());
            }
            "QueryServiceState"
            | "QueryCapabilities"
            | "SaveTraceForBugreport"
            | "EnableTracing"
            | "CloneSession"
            | "ReadBuffers"
            | "StartTracing"
            | "DisableTracing"
            | "FreeBuffers" => {
                assert!(consumer.ask(name, &ProtoBuilder::new()).0, "{name}");
            }
            _ => assert!(!consumer.ask(name, &ProtoBuilder::new()).0, "{name}"),
        }
    }
    // No event has come, and a call for none ends both.
    let off = consumer.call("ObserveEvents", &ProtoBuilder::new().number(1, 0_u32));
    for request in [events.expect("it was asked for"), off] {
        let (of, is_good, has_more, _) = consumer.reply();
        assert_eq!((of, is_good, has_more), (request, false, false));
    }
    consumer.send(&invoke(1, 99, &ProtoBuilder::new(), Some(99)));
    assert!(!consumer.reply().1, "there is no such method");
    offered.session.stop().expect("it runs");
    let ended = consumer.clone_of(&by_id(1)).expect_err("it has ended");
    assert!(ended.contains("has ended"), "{ended}");
    let (_, said) = consumer.ask("QueryServiceState", &ProtoBuilder::new());
    let state = message(&said, query_service_state_response::SERVICE_STATE).expect("a state");
    assert_eq!(number(state, tracing_service_state::NUM_SESSIONS), Some(0));
}

#[test]
fn consumers_of_another_user_are_sent_away_and_root_s_are_not() {
    if rustix::process::geteuid().as_raw() != 0 {
        // Nobody else can be another.
        return;
    }
    let offered = Offered::start("users", ConsumerSocket::builder());
    std::fs::set_permissions(&offered.path, std::fs::Permissions::from_mode(0o777)).expect("root may");
    offered.record(&["secret"]);
    let hears_nothing = in_child(|| {
        let user = rustix::process::Uid::from_raw(65_533);
        rustix::thread::set_thread_uid(user).expect("root may");
        let mut other = Consumer::silent(&offered);
        // It may be gone before that is said.
        let mut bytes = Vec::new();
        push_frame(&mut bytes, &bind(0, CONSUMER_PORT));
        let _ = other.stream.write_all(&bytes);
        other.frame().is_none()
    });
    assert!(hears_nothing);
    let mut own = Consumer::of(&offered);
    own.clone_of(&by_id(1)).expect("its own");
    assert!(have(&own.read(), "secret"));
}

/// A session that a socket's buffer has no room for, and one who has asked for all of it.
fn stuck(test: &str) -> (Offered, Consumer) {
    let offered = Offered::start(test, ConsumerSocket::builder());
    let long = "x".repeat(100_000);
    (0..50).for_each(|_| offered.session.recorder().instant_with("long", |event| event.arg("text", &*long)));
    let mut consumer = Consumer::of(&offered);
    consumer.clone_of(&by_id(1)).expect("a clone");
    consumer.call("ReadBuffers", &ProtoBuilder::new());
    (offered, consumer)
}

#[test]
fn one_that_stops_reading_keeps_nobody_waiting() {
    let (mut offered, mut stuck) = stuck("stuck");
    let begun = Instant::now();
    offered.record(&["meanwhile"]);
    let mut other = Consumer::of(&offered);
    other.clone_of(&by_id(1)).expect("a clone");
    assert!(have(&other.read(), "meanwhile"));
    // Nor does the end wait for it.
    drop(offered.socket.take());
    assert!(begun.elapsed() < Duration::from_secs(4) && !offered.path.exists());
    assert!(stuck.is_sent_away() && other.is_sent_away());
    offered.session.stop().expect("it still runs");
}

#[test]
#[ignore = "takes 5 to 10 s, for which one that reads is waited for"]
fn one_that_stops_reading_is_sent_away() {
    let (_offered, mut stuck) = stuck("stuck-away");
    waits_for("it is sent away", || stuck.has_been_left());
    // It has what was on its way, and no more.
    assert!(stuck.is_sent_away());
}

#[test]
fn there_is_room_for_so_many_and_again_when_one_has_gone() {
    let offered = Offered::start("many", ConsumerSocket::builder());
    let mut all: Vec<_> = (0..8).map(|_| Consumer::of(&offered)).collect();
    assert!(Consumer::silent(&offered).is_sent_away());
    all[0].send(&ProtoBuilder::new().bytes(9, &[0; 1000]));
    assert!(all[0].frame().is_some(), "what is no request is refused");
    // A frame that is too long is the end of the one who has sent it.
    all[1].stream.write_all(&u32::MAX.to_le_bytes()).expect("it takes that");
    assert!(all[1].is_sent_away());
    waits_for("a place is free", || {
        let mut next = Consumer::silent(&offered);
        let mut bytes = Vec::new();
        push_frame(&mut bytes, &bind(0, CONSUMER_PORT));
        next.stream.write_all(&bytes).is_ok() && next.frame().is_some()
    });
}
