//! A program of this crate that follows a service, and a service that says what a test wants it to.

use std::io::Write;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixListener;
use std::path::PathBuf;
use std::{io::IoSlice, mem::MaybeUninit, thread};

use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, ftruncate, memfd_create};
use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags, sendmsg};
use tracebuf_ipc::{Connection, Follower};
use tracebuf_session::{Relay, SessionError};

use crate::program::{
    COMMIT, INITIALIZE, LISTEN, Message, PATIENCE, Program, REGISTER, REGISTER_WRITER, SYNC, waits_for,
};
use crate::trace::{Field, fields, message, number};

pub(crate) const STARTED: &str = "NotifyDataSourceStarted";
pub(crate) const STOPPED: &str = "NotifyDataSourceStopped";
/// Including methods that a program need not know.
const METHODS: [&str; 11] = [
    "Unknown",
    SYNC,
    STOPPED,
    STARTED,
    INITIALIZE,
    "UnregisterTraceWriter",
    REGISTER_WRITER,
    LISTEN,
    COMMIT,
    REGISTER,
    "AnotherUnknown",
];
/// The service's own number.
const NUMBER: u64 = 12;

/// What the program says it has.
pub(crate) const CATEGORIES: [&str; 2] = ["net", "render"];
/// And something else.
const OTHER: &str = "other";

/// Where programs connect.
pub(crate) struct Listening {
    listener: UnixListener,
    path: PathBuf,
}

impl Listening {
    pub(crate) fn at(test: &str) -> Self {
        let path = std::env::temp_dir().join(format!("tracebuf-{}-pff-{test}", std::process::id()));
        Self { listener: UnixListener::bind(&path).expect("a socket"), path }
    }

    /// A program in this process, which looks for the service.
    fn followed(&self, relay: &Relay) -> thread::JoinHandle<Follower> {
        let relay = relay.clone();
        self.followed_with(move |service| relay.connect(&service.recorder()))
    }

    /// One that does this with each connection.
    pub(crate) fn followed_with(
        &self,
        connected: impl FnMut(&Connection) -> Result<(), SessionError> + Send + 'static,
    ) -> thread::JoinHandle<Follower> {
        let path = self.path.clone();
        let builder = Connection::builder().process_name("program").data_source("of its own");
        let builder = builder.categories(CATEGORIES).categories([OTHER]);
        // It waits for a first answer.
        thread::spawn(move || builder.follow_perfetto(path, connected).expect("a thread"))
    }

    pub(crate) fn accept(&self) -> Service {
        let (stream, _) = self.listener.accept().expect("it comes");
        Service { end: Program::over(stream), commands: 0 }
    }
}

impl Drop for Listening {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.path);
    }
}

/// A call of the program's.
#[derive(Debug)]
pub(crate) struct Call {
    pub(crate) method: &'static str,
    pub(crate) arguments: Vec<u8>,
    reply: Option<u64>,
}

/// The service's end of a connection.
pub(crate) struct Service {
    pub(crate) end: Program,
    commands: u64,
}

impl Service {
    /// Answers that it has these methods.
    fn bind(&mut self, methods: impl Iterator<Item = (u64, &'static str)>) {
        let frame = self.end.frame(PATIENCE).expect("it wants to be bound");
        let bind = message(&frame, 3).expect("a bind");
        assert_eq!(message(bind, 1), Some(&b"ProducerPort"[..]));
        let bound = methods.fold(Message::default().number(1, 1).number(2, NUMBER), |bound, (id, name)| {
            bound.message(3, &Message::default().number(1, id).bytes(2, name.as_bytes()))
        });
        let request = number(&frame, 2).expect("a number");
        self.end.send(&Message::default().number(2, request).message(4, &bound));
    }

    /// The next call, unless the connection has ended.
    fn hear(&mut self) -> Option<Call> {
        let frame = self.end.frame(PATIENCE)?;
        let invoke = message(&frame, 5).expect("a call");
        assert_eq!(number(invoke, 1), Some(NUMBER));
        let method = METHODS[number(invoke, 2).expect("a method") as usize / 10];
        let reply = if number(invoke, 4) == Some(1) { None } else { number(&frame, 2) };
        Some(Call { method, arguments: message(invoke, 3).unwrap_or_default().to_vec(), reply })
    }

    pub(crate) fn hears(&mut self, method: &str) -> Call {
        let call = self.hear().expect("a call");
        assert_eq!(call.method, method, "{call:?}");
        call
    }

    /// Says this without end, and reads nothing, until the program has ended the connection.
    fn says_without_end(mut self, command: &Message) {
        let many = Self::frame(self.commands, command, 1).framed().repeat(1000);
        while self.end.stream.write_all(&many).is_ok() {}
    }

    fn frame(request: u64, text: &Message, more: u64) -> Message {
        let reply = Message::default().number(1, 1).number(2, more).message(3, text);
        Message::default().number(2, request).message(6, &reply)
    }

    fn reply(&mut self, call: &Call, text: &Message) {
        self.end.send(&Self::frame(call.reply.expect("it wants one"), text, 0));
    }

    fn command(&mut self, command: &Message) {
        self.end.send(&Self::frame(self.commands, command, 1));
    }

    pub(crate) fn of_instance(&mut self, command: u32, instance: u64) {
        self.command(&Message::default().message(command, &Message::default().number(1, instance)));
    }

    /// Answers the program's introduction with this.
    fn welcome(&mut self, text: &Message) {
        self.bind((0..).step_by(10).zip(METHODS));
        let hello = self.hears(INITIALIZE);
        self.reply(&hello, text);
        let of_hello = |field| number(&hello.arguments, field);
        let known = [1, 2, 4, 6, 9].map(of_hello);
        assert_eq!(known, [Some(4096), Some(1 << 20), Some(1), None, Some(1)]);
        assert_eq!(message(&hello.arguments, 3), Some(&b"program"[..]));
        self.commands = self.hears(LISTEN).reply.expect("it wants commands");
    }

    /// Everything until it waits for a session.
    pub(crate) fn ready(&mut self) {
        self.welcome(&Message::default().number(2, 1).number(4, 1));
        let source = self.hears(REGISTER);
        let descriptor = message(&source.arguments, 1).expect("a descriptor");
        assert_eq!(message(descriptor, 1), Some(&b"of its own"[..]));
        assert_eq!([2, 3, 4, 9].map(|field| number(descriptor, field)), [Some(1), Some(1), Some(1), None]);
        let events = message(descriptor, 6).expect("it has track events");
        assert_eq!(events, b"\x0A\x05\x0A\x03net\x0A\x08\x0A\x06render\x0A\x07\x0A\x05other");
        let sync = self.hears(SYNC);
        self.reply(&sync, &Message::default());
    }

    pub(crate) fn memory(&mut self, file: &OwnedFd, page_kib: u64) {
        let setup = Message::default().message(3, &Message::default().number(1, page_kib));
        let bytes = Self::frame(self.commands, &setup, 1).framed();
        let (files, mut room) = ([file.as_fd()], [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))]);
        let mut control = SendAncillaryBuffer::new(&mut room);
        control.push(SendAncillaryMessage::ScmRights(&files));
        let sent = sendmsg(&self.end.stream, &[IoSlice::new(&bytes)], &mut control, SendFlags::empty());
        assert_eq!(sent, Ok(bytes.len()));
    }

    fn start(&mut self, instance: u64, buffer: u64) {
        self.start_with(instance, buffer, Message::default());
    }

    /// Also with these fields of a configuration.
    pub(crate) fn start_with(&mut self, instance: u64, buffer: u64, mut fields: Message) {
        let mut config = Message::default().bytes(1, b"of its own").number(2, buffer);
        config.0.append(&mut fields.0);
        let start = Message::default().number(1, instance).message(2, &config);
        self.command(&Message::default().message(6, &start));
        self.command(&Message::default().message(1, &start));
    }

    /// Takes calls until `is_it` holds for one; returns how many chunks were to be moved to this buffer until then.
    pub(crate) fn moved_until(&mut self, buffer: u64, is_it: impl Fn(&Call) -> bool) -> usize {
        let mut moved = 0;
        loop {
            let call = self.hear().expect("a call");
            if call.reply.is_some() {
                self.reply(&call, &Message::default());
            }
            if call.method == COMMIT {
                for field in fields(&call.arguments) {
                    let Field::Bytes(1, chunk) = field else { continue };
                    assert_eq!(number(chunk, 3), Some(buffer));
                    moved += 1;
                }
            }
            if is_it(&call) {
                return moved;
            }
        }
    }
}

/// Memory that cannot be cut short, if it is sealed.
pub(crate) fn memory(is_sealed: bool) -> OwnedFd {
    let file = memfd_create("test", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING).expect("memory");
    ftruncate(&file, 64 << 10).expect("nobody has it");
    if is_sealed {
        fcntl_add_seals(&file, SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL).expect("it can be");
    }
    file
}

#[test]
fn a_session_has_a_connection_and_the_next_one_another() {
    let (listening, relay) = (Listening::at("sessions"), Relay::new());
    let (recorder, following) = (relay.recorder(), listening.followed(&relay));
    let mut service = listening.accept();
    service.ready();
    let follower = following.join().expect("it is there");
    assert!(follower.error().is_some_and(|error| error.contains("does not want")));
    for instance in [7, 8] {
        // Even before anything is recorded.
        service.command(&Message::default().message(5, &Message::default().number(2, 1)));
        assert_eq!(number(&service.hears(COMMIT).arguments, 3), Some(1));
        service.memory(&memory(true), 4);
        service.start(instance, 300);
        assert_eq!(number(&service.hears(STARTED).arguments, 1), Some(instance));
        assert!(relay.is_connected(), "it says so when it records");

        recorder.instant("event");
        let writer = service.hears(REGISTER_WRITER);
        assert_eq!(number(&writer.arguments, 2), Some(300));

        // Another session, which gets nothing.
        service.start(70, 301);
        assert_eq!(number(&service.hears(STARTED).arguments, 1), Some(70));
        service.of_instance(2, 70);
        assert_eq!(number(&service.hears(STOPPED).arguments, 1), Some(70));
        assert!(recorder.is_on());

        for _ in 0..200 {
            recorder.instant_with("event", |event| event.arg("text", "some text that is long"));
        }
        service.command(&Message::default().message(5, &Message::default().number(2, 1 << 40)));
        let of_flush = |call: &Call| number(&call.arguments, 3) == Some(1 << 40);
        assert!(service.moved_until(300, of_flush) > 1);
        waits_for("it is known", || follower.is_connected());
        thread::scope(|scope| {
            let flushing = scope.spawn(|| follower.flush(PATIENCE));
            service.moved_until(300, |call| call.reply.is_some());
            assert!(flushing.join().expect("no panic").is_ok());
        });

        service.of_instance(7, instance);
        service.of_instance(2, instance);
        service
            .moved_until(300, |call| call.method == STOPPED && number(&call.arguments, 1) == Some(instance));
        assert!(service.end.frame(PATIENCE).is_none(), "that was the last");
        assert!(!recorder.is_on());
        drop(service);
        service = listening.accept();
        service.ready();
    }
}

/// Why a program does not record with a service that says this.
fn error_of(test: &str, say: impl FnOnce(&mut Service)) -> String {
    let (listening, relay) = (Listening::at(test), Relay::new());
    let following = listening.followed(&relay);
    let mut service = listening.accept();
    say(&mut service);
    assert!(service.end.is_sent_away());
    let follower = following.join().expect("it is there");
    assert!(!relay.is_connected());
    let mut error = None;
    waits_for("it is told", || {
        error = follower.error().filter(|error| error.contains(test));
        error.is_some()
    });
    error.expect("one")
}

#[test]
fn services_that_cannot_be_used_are_given_up_and_it_is_told_why() {
    let error = error_of("no-method", |service| {
        service.bind((0..).step_by(10).zip(&METHODS[..8]).map(|(id, name)| (id, *name)))
    });
    assert!(error.contains("lacks a method"), "{error}");
    let error = error_of("messages", |service| service.welcome(&Message::default().number(3, 1)));
    assert!(error.contains("sent in messages"), "{error}");
    let error = error_of("rings", |service| service.welcome(&Message::default().number(4, 2)));
    assert!(error.contains("without pages"), "{error}");
    let error = error_of("refuses", |service| {
        service.bind((0..).step_by(10).zip(METHODS));
        let hello = service.hears(INITIALIZE).reply.expect("it wants one");
        service.end.send(&Message::default().number(2, hello).message(6, &Message::default().number(1, 0)));
    });
    assert!(error.contains("does not take"), "{error}");
    let error = error_of("large-pages", |service| {
        service.ready();
        service.memory(&memory(true), 16);
    });
    assert!(error.contains("16 KiB"), "{error}");
    let error = error_of("unsealed", |service| {
        service.ready();
        service.memory(&memory(false), 4);
    });
    assert!(error.contains("cut short"), "{error}");
    let error = error_of("no-memory", |service| {
        service.ready();
        service.start(1, 1);
    });
    assert!(error.contains("without shared memory"), "{error}");
    let error = error_of("too-long", |service| {
        service.ready();
        // Only how long it is: the program does not wait for the rest.
        service.end.stream.write_all(&200_000_u32.to_le_bytes()).expect("it is there");
    });
    assert!(error.contains("too-long"), "{error}");
}

#[test]
fn a_service_that_says_what_is_none_while_it_records_is_given_up_and_the_next_one_is_looked_for() {
    let (listening, relay) = (Listening::at("nonsense"), Relay::new());
    let following = listening.followed(&relay);
    let failure = Message::default().number(2, 5).message(6, &Message::default().number(1, 0));
    let malformed = Message::default().bytes(6, &[0xFF; 3]);
    for nonsense in [failure, malformed] {
        let mut service = listening.accept();
        service.ready();
        service.memory(&memory(true), 4);
        service.start(1, 1);
        service.hears(STARTED);
        assert!(relay.is_connected());
        service.end.send(&nonsense);
        assert!(service.end.is_sent_away());
        waits_for("it is off", || !relay.is_connected());
    }
    let mut service = listening.accept();
    service.ready();
    drop(following.join().expect("it is there"));
    assert!(service.end.is_sent_away(), "nothing was recorded");
}

#[test]
#[ignore = "takes 5 s, for which a service is waited for"]
fn a_service_that_speaks_without_end_keeps_nobody_from_ending() {
    let flush = Message::default().message(5, &Message::default().number(2, 1));
    for (test, is_ready, command) in
        [("begin", false, &Message::default()), ("wait", true, &Message::default()), ("flush", false, &flush)]
    {
        let (listening, relay) = (Listening::at(test), Relay::new());
        let following = listening.followed(&relay);
        let mut service = listening.accept();
        // Nobody comes again.
        drop(listening);
        if is_ready {
            service.ready();
        } else {
            service.welcome(&Message::default());
        }
        thread::scope(|scope| {
            scope.spawn(|| service.says_without_end(command));
            let ending = thread::spawn(|| drop(following.join().expect("it is there")));
            waits_for(test, || ending.is_finished());
        });
    }
}
