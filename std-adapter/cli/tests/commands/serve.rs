//! The command `tracebuf serve`, with a program of this crate's own that records and a consumer that reads.

use std::io::{IoSlice, Read, Write};
use std::os::fd::AsFd;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use tracebuf::proto::fields::{config, consumer, ipc};
use tracebuf::proto::reader::{message, messages, number};
use tracebuf_ipc::{Connection, Follower};
use tracebuf_service::wire::frames::{FrameBuffer, MAX_IPC_FRAME, bind, invoke, push_frame};
use tracebuf_service::wire::{ProtoBuilder, consumers};
use tracebuf_session::Relay;

mod activation;
mod clones;
mod cost;
mod killed;
mod machine;
mod many;
mod program;
mod sources;
mod stuck;

use crate::trace::{Trace, folder};
use crate::{send, text, wait_until};

struct Service {
    child: Child,
    folder: PathBuf,
}

impl Service {
    fn start(test: &str) -> Self {
        let folder = folder(test);
        Self { child: Self::command(&folder).spawn().expect("the command"), folder }.listening()
    }

    fn command(folder: &Path) -> Command {
        let mut command = crate::tracebuf(&["serve"]);
        command
            .env("PERFETTO_PRODUCER_SOCK_NAME", folder.join("p"))
            .env("PERFETTO_CONSUMER_SOCK_NAME", folder.join("c"))
            .stderr(Stdio::null());
        command
    }

    fn listening(self) -> Self {
        let connects = || UnixStream::connect(self.folder.join("c")).is_ok();
        assert!(wait_until(30, connects), "it listens");
        self
    }

    fn kill(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }

    /// This process as a producer.
    fn followed(&self) -> (Follower, tracebuf_session::Recorder) {
        let relay = Relay::new();
        let recorder = relay.recorder();
        let connected = move |service: &Connection| relay.connect(&service.recorder());
        let builder = Connection::builder().process_name("here");
        let follower = builder.follow_perfetto(self.folder.join("p"), connected).expect("a thread");
        (follower, recorder)
    }

    fn consumer(&self) -> Consumer {
        Consumer::connect(&self.folder.join("c"))
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        self.kill();
    }
}

struct Consumer {
    stream: UnixStream,
    frames: FrameBuffer,
    last: u64,
}

impl Consumer {
    fn connect(socket: &Path) -> Self {
        let stream = UnixStream::connect(socket).expect("it listens");
        stream.set_read_timeout(Some(Duration::from_secs(30))).expect("a socket");
        let mut consumer = Self { stream, frames: FrameBuffer::new(MAX_IPC_FRAME), last: 1 };
        consumer.send(&bind(1, consumers::CONSUMER_PORT), None);
        consumer.next();
        consumer
    }

    fn send(&mut self, frame: &ProtoBuilder, file: Option<&std::fs::File>) {
        let mut bytes = Vec::new();
        push_frame(&mut bytes, frame);
        let Some(file) = file else { return self.stream.write_all(&bytes).expect("it is there") };
        let files = [file.as_fd()];
        let mut room = [std::mem::MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut control = rustix::net::SendAncillaryBuffer::new(&mut room);
        control.push(rustix::net::SendAncillaryMessage::ScmRights(&files));
        let flags = rustix::net::SendFlags::empty();
        let sent = rustix::net::sendmsg(&self.stream, &[IoSlice::new(&bytes)], &mut control, flags);
        assert_eq!(sent, Ok(bytes.len()));
    }

    fn next(&mut self) -> Vec<u8> {
        loop {
            if let Some(frame) = self.frames.next().expect("short enough") {
                return frame.to_vec();
            }
            let len = self.stream.read(self.frames.room()).expect("it answers");
            assert!(len > 0, "the service has hung up");
            self.frames.came(len);
        }
    }

    fn call(&mut self, name: &str, arguments: &ProtoBuilder, file: Option<&std::fs::File>) -> u64 {
        self.last += 1;
        self.send(&invoke(1, consumers::method(name), arguments, Some(self.last)), file);
        self.last
    }

    /// All answers to a call; other answers that come before are dropped.
    fn answers(&mut self, request: u64) -> Vec<Vec<u8>> {
        let mut answers = Vec::new();
        loop {
            let frame = self.next();
            if number(&frame, ipc::ipc_frame::REQUEST_ID) != Some(request) {
                continue;
            }
            let reply = messages(&frame, ipc::ipc_frame::MSG_INVOKE_METHOD_REPLY).last().expect("a reply");
            assert_eq!(number(reply, ipc::invoke_method_reply::SUCCESS), Some(1));
            answers
                .push(message(reply, ipc::invoke_method_reply::REPLY_PROTO).expect("well-formed").to_vec());
            if number(reply, ipc::invoke_method_reply::HAS_MORE) != Some(1) {
                return answers;
            }
        }
    }

    fn enable(&mut self, config: &ProtoBuilder, file: Option<&std::fs::File>) -> u64 {
        let arguments = ProtoBuilder::new().message(consumer::enable_tracing_request::TRACE_CONFIG, config);
        self.call("EnableTracing", &arguments, file)
    }

    fn simple(&mut self, name: &str) {
        let request = self.call(name, &ProtoBuilder::new(), None);
        assert_eq!(self.answers(request), [b""]);
    }

    /// Ends a session, whichever of the two answers comes first.
    fn disable(&mut self, enabled: u64) {
        self.call("DisableTracing", &ProtoBuilder::new(), None);
        self.answers(enabled);
    }

    /// Reads all into a file.
    fn read(&mut self, path: &Path) -> Trace {
        let request = self.call("ReadBuffers", &ProtoBuilder::new(), None);
        let (mut file, mut packet) = (Vec::new(), ProtoBuilder::new());
        for answer in self.answers(request) {
            for slice in messages(&answer, consumer::read_buffers_response::SLICES) {
                packet = packet.fields(message(slice, consumer::slice::DATA).expect("well-formed"));
                if number(slice, consumer::slice::LAST_SLICE_FOR_PACKET) == Some(1) {
                    file.extend(ProtoBuilder::new().message(1, &std::mem::take(&mut packet)).into_bytes());
                }
            }
        }
        std::fs::write(path, file).expect("a file");
        Trace::read(path)
    }
}

fn track_events() -> ProtoBuilder {
    let buffer = ProtoBuilder::new().number(config::buffer_config::SIZE_KB, 4096_u32);
    let events = ProtoBuilder::new().bytes(ipc::data_source_config::NAME, b"track_event");
    let source = ProtoBuilder::new().message(config::trace_config_data_source::CONFIG, &events);
    ProtoBuilder::new()
        .message(config::trace_config::BUFFERS, &buffer)
        .message(config::trace_config::DATA_SOURCES, &source)
}

#[test]
fn a_program_records_into_two_sessions_one_after_the_other_and_each_trace_has_its_events() {
    let service = Service::start("serve-records");
    let (follower, recorder) = service.followed();
    for session in ["first", "second"] {
        let mut consumer = service.consumer();
        let enabled = consumer.enable(&track_events(), None);
        assert!(wait_until(30, || recorder.is_on()), "{session}: it records");
        (0..1000).for_each(|_| recorder.instant(session));
        follower.flush(Duration::from_secs(30)).expect("the service takes it");
        consumer.simple("Flush");
        consumer.simple("DisableTracing");
        consumer.answers(enabled);
        let trace = consumer.read(&service.folder.join(session));
        assert!(trace.contains(session));
        assert_eq!((trace.events(3), trace.losses()), (1000, 0));
        trace.assert_ends_with_stats();
        assert!(wait_until(30, || !recorder.is_on()), "{session}: it has stopped");
    }
}

#[test]
fn a_file_is_complete_after_sigterm_and_the_sockets_are_gone() {
    let mut service = Service::start("serve-sigterm");
    let (follower, recorder) = service.followed();
    let path = service.folder.join("file.pftrace");
    let file = std::fs::File::create(&path).expect("a file");
    let config = track_events().number(config::trace_config::WRITE_INTO_FILE, true);
    let mut consumer = service.consumer();
    let enabled = consumer.enable(&config, Some(&file));
    assert!(wait_until(30, || recorder.is_on()));
    (0..100).for_each(|_| recorder.instant("hello"));
    follower.flush(Duration::from_secs(30)).expect("the service takes it");
    send(&service.child, libc::SIGTERM);
    let ended = consumer.answers(enabled);
    let error = message(&ended[0], consumer::enable_tracing_response::ERROR).expect("well-formed");
    assert!(text(error).contains("ended"));
    assert!(service.child.wait().expect("a child").success());
    let trace = Trace::read(&path);
    assert_eq!((trace.events(3), trace.losses()), (100, 0));
    trace.assert_ends_with_stats();
    assert!(!service.folder.join("p").exists() && !service.folder.join("c").exists());
}

#[test]
fn after_a_kill_another_service_takes_the_sockets_and_programs_come_again() {
    let mut service = Service::start("serve-kill");
    let (follower, recorder) = service.followed();
    let mut consumer = service.consumer();
    consumer.enable(&track_events(), None);
    assert!(wait_until(30, || recorder.is_on()));
    service.kill();
    assert!(wait_until(30, || !recorder.is_on()), "it hears of it");
    service.child = Service::command(&service.folder).spawn().expect("the command");
    let service = service.listening();
    let mut consumer = service.consumer();
    let enabled = consumer.enable(&track_events(), None);
    assert!(wait_until(30, || recorder.is_on() && follower.is_connected()), "it has come again");
    recorder.instant("again");
    follower.flush(Duration::from_secs(30)).expect("the service takes it");
    consumer.simple("DisableTracing");
    // What is in a chunk that the thread still writes comes when it has stopped.
    consumer.answers(enabled);
    let trace = consumer.read(&service.folder.join("again"));
    assert!(trace.contains("again"), "{}", trace.story());
}

#[test]
fn a_service_goes_on_whatever_clients_send_or_leave_unread() {
    let service = Service::start("serve-hostile");
    let mut bytes = vec![0_u8; 100_000];
    let mut number = 0x1234_5678_u32;
    let mut clients = Vec::new();
    for round in 0..40_u32 {
        bytes.iter_mut().for_each(|byte| {
            number = number.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            *byte = (number >> 24) as u8;
        });
        // Half of them look like frames.
        if round.is_multiple_of(2) {
            bytes.chunks_mut(1000).for_each(|frame| frame[..4].copy_from_slice(&996_u32.to_le_bytes()));
        }
        let name = if round % 4 < 2 { "p" } else { "c" };
        let mut client = UnixStream::connect(service.folder.join(name)).expect("it listens");
        // It may hang up at any moment.
        let _ = client.write_all(&bytes);
        clients.push(client);
    }
    let mut consumer = service.consumer();
    let request = consumer.call("QueryServiceState", &ProtoBuilder::new(), None);
    let state = consumer.answers(request).concat();
    assert!(
        text(message(message(&state, 1).expect("well-formed"), 5).expect("a version"))
            .starts_with("tracebuf")
    );
}

#[test]
fn under_the_name_of_perfettos_service_it_takes_its_options() {
    let folder = folder("serve-traced");
    let traced = folder.join("traced");
    std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_tracebuf"), &traced).expect("a link");
    let sockets = |command: &mut Command| {
        command
            .env(
                "PERFETTO_PRODUCER_SOCK_NAME",
                format!("{},{}", folder.join("p").display(), folder.join("q").display()),
            )
            .env("PERFETTO_CONSUMER_SOCK_NAME", folder.join("c"));
    };
    let mut command = Command::new(&traced);
    sockets(command.args(["--set-socket-permissions", "0:0666:0:0600"]).stderr(Stdio::null()));
    let mut service =
        Service { child: command.spawn().expect("the link"), folder: folder.clone() }.listening();
    let mode = |name: &str| folder.join(name).metadata().expect("a socket").permissions().mode() & 0o777;
    // They are set right after a client can connect.
    assert!(wait_until(30, || [mode("p"), mode("q"), mode("c")] == [0o666, 0o666, 0o600]));
    let mut second = Command::new(&traced);
    sockets(&mut second);
    let refused = second.output().expect("it ends");
    assert!(!refused.status.success() && text(&refused.stderr).contains("a service listens there"));
    service.kill();
    let version = Command::new(&traced).arg("--version").output().expect("it ends");
    assert!(text(&version.stdout).starts_with("traced "));
    let relay = Command::new(&traced).arg("--enable-relay-endpoint").output().expect("it ends");
    assert!(!relay.status.success() && text(&relay.stderr).contains("no relay endpoint"));
}

#[test]
fn a_session_is_stopped_by_its_name_from_outside_once_and_one_that_is_not_there_is_an_error() {
    let service = Service::start("serve-stop");
    let (follower, recorder) = service.followed();
    let mut consumer = service.consumer();
    let enabled =
        consumer.enable(&track_events().bytes(config::trace_config::UNIQUE_SESSION_NAME, b"mine"), None);
    assert!(wait_until(30, || recorder.is_on()));
    recorder.instant("hello");
    follower.flush(Duration::from_secs(30)).expect("the service takes it");
    let stop = |name: &str| {
        let mut command = Service::command(&service.folder);
        let output = command.args(["--stop", name]).stderr(Stdio::piped()).output().expect("it runs");
        (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
    };
    let (status, error) = stop("other");
    assert!(status == Some(1) && error.contains("no session"), "{error}");
    assert_eq!(stop("mine"), (Some(0), String::new()));
    consumer.answers(enabled);
    let trace = consumer.read(&service.folder.join("trace"));
    assert_eq!((trace.events(3), trace.losses()), (1, 0));
    assert_eq!(stop("mine").0, Some(1), "it has ended");
}
