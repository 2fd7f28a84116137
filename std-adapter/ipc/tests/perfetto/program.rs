//! A service, and a program that says what a test wants it to.

use std::io::{ErrorKind, IoSliceMut, Read, Write};
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustix::net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, recvmsg};
use tracebuf_ipc::{PerfettoSocket, PerfettoSocketBuilder};
use tracebuf_session::{Session, SessionBuilder};

use crate::trace::{Field, Trace, fields, message, number, scratch};

/// The time allowed for what takes some milliseconds, or for ever.
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);
/// The time to wait for what should not come.
const A_WHILE: Duration = Duration::from_millis(100);

pub(crate) const INITIALIZE: &str = "InitializeConnection";
pub(crate) const REGISTER: &str = "RegisterDataSource";
pub(crate) const UNREGISTER: &str = "UnregisterDataSource";
pub(crate) const COMMIT: &str = "CommitData";
pub(crate) const LISTEN: &str = "GetAsyncCommand";
pub(crate) const REGISTER_WRITER: &str = "RegisterTraceWriter";
pub(crate) const UNREGISTER_WRITER: &str = "UnregisterTraceWriter";
pub(crate) const SYNC: &str = "Sync";

pub(crate) struct Service {
    pub(crate) session: Arc<Session>,
    pub(crate) socket: PerfettoSocket,
    pub(crate) path: PathBuf,
}

impl Service {
    pub(crate) fn start(test: &str, session: SessionBuilder, socket: PerfettoSocketBuilder) -> Self {
        let session = Arc::new(session.start().expect("a session"));
        // Short enough for the system, wherever this project lies.
        let path = std::env::temp_dir().join(format!("tracebuf-{}-pf-{test}", std::process::id()));
        let socket = socket.bind(&session, &path).expect("a socket");
        Self { session, socket, path }
    }

    pub(crate) fn stop(self, test: &str) -> Trace {
        let path = scratch(&format!("{test}.pftrace"));
        self.session.stop().expect("it runs").write_to(&path).expect("a file");
        Trace::read(&path)
    }
}

/// A message of protobuf.
#[derive(Clone, Default)]
pub(crate) struct Message(pub(crate) Vec<u8>);

impl Message {
    pub(crate) fn number(mut self, field: u32, value: u64) -> Self {
        self.varint(u64::from(field) << 3);
        self.varint(value);
        self
    }

    pub(crate) fn bytes(mut self, field: u32, bytes: &[u8]) -> Self {
        self.varint(u64::from(field) << 3 | 2);
        self.varint(bytes.len() as u64);
        self.0.extend_from_slice(bytes);
        self
    }

    pub(crate) fn message(self, field: u32, message: &Self) -> Self {
        self.bytes(field, &message.0)
    }

    /// As a frame, after its length.
    pub(crate) fn framed(&self) -> Vec<u8> {
        let len = (self.0.len() as u32).to_le_bytes();
        [&len, self.0.as_slice()].concat()
    }

    fn varint(&mut self, mut value: u64) {
        while value >= 0x80 {
            self.0.push(value as u8 | 0x80);
            value >>= 7;
        }
        self.0.push(value as u8);
    }
}

pub(crate) fn descriptor(name: &str) -> Message {
    // It says when it stops and starts, and says its state again when asked.
    Message::default().bytes(1, name.as_bytes()).number(2, 1).number(3, 1).number(4, 1)
}

/// What a service has said: to which request, and what.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Heard {
    pub(crate) request: u64,
    pub(crate) is_success: bool,
    pub(crate) reply: Vec<u8>,
}

/// The other end of the socket.
pub(crate) struct Program {
    pub(crate) stream: UnixStream,
    methods: Vec<(String, u64)>,
    bytes: Vec<u8>,
    pub(crate) memory: Option<OwnedFd>,
    last_request: u64,
}

impl Program {
    /// Connected and bound.
    pub(crate) fn bound(service: &Service) -> Self {
        let mut program = Self::connected(service);
        let bind = Message::default().number(2, 1).message(3, &Message::default().bytes(1, b"ProducerPort"));
        program.send(&bind);
        program.last_request = 1;
        let frame = program.frame(PATIENCE).expect("an answer");
        let bound = message(&frame, 4).expect("an answer to that");
        assert_eq!((number(&frame, 2), number(bound, 1)), (Some(1), Some(1)));
        assert_eq!(number(bound, 2), Some(1));
        for field in fields(bound) {
            let Field::Bytes(3, method) = field else { continue };
            let name = String::from_utf8(message(method, 2).expect("a name").to_vec()).expect("text");
            program.methods.push((name, number(method, 1).expect("a number")));
        }
        program
    }

    /// Bound, and ready to have data sources.
    pub(crate) fn ready(service: &Service) -> Self {
        let mut program = Self::bound(service);
        program.call(INITIALIZE, &Message::default().bytes(3, b"test").number(9, 3));
        assert!(program.hear().is_success);
        program.call(LISTEN, &Message::default());
        program
    }

    /// With this data source running; also returns its instance's number.
    pub(crate) fn running(service: &Service, name: &str) -> (Self, u64) {
        let mut program = Self::ready(service);
        program.call(REGISTER, &Message::default().message(1, &descriptor(name)));
        assert!(message(&program.command(), 3).is_some());
        assert!(message(&program.command(), 6).is_some());
        let start = program.command();
        let instance = number(message(&start, 1).expect("a start"), 1).expect("a number");
        assert_eq!(program.hear().reply, b"");
        (program, instance)
    }

    pub(crate) fn connected(service: &Service) -> Self {
        Self::over(UnixStream::connect(&service.path).expect("it listens"))
    }

    /// Either end of a connection.
    pub(crate) fn over(stream: UnixStream) -> Self {
        Self { stream, methods: Vec::new(), bytes: Vec::new(), memory: None, last_request: 0 }
    }

    pub(crate) fn send(&mut self, frame: &Message) {
        self.stream.write_all(&frame.framed()).expect("it is there");
    }

    pub(crate) fn invoke(&mut self, method: u64, arguments: &Message, wants_reply: bool) -> u64 {
        self.last_request += 1;
        let invoke = Message::default().number(1, 1).number(2, method).message(3, arguments);
        let invoke = invoke.number(4, u64::from(!wants_reply));
        self.send(&Message::default().number(2, self.last_request).message(5, &invoke));
        self.last_request
    }

    pub(crate) fn call(&mut self, method: &str, arguments: &Message) -> u64 {
        let of = |(name, number): &(String, u64)| (name == method).then_some(*number);
        let number = self.methods.iter().find_map(of).expect("a method that there is");
        self.invoke(number, arguments, true)
    }

    /// The next frame, unless none comes.
    pub(crate) fn frame(&mut self, patience: Duration) -> Option<Vec<u8>> {
        let deadline = Instant::now() + patience;
        loop {
            if let Some(len) = self.bytes.first_chunk().map(|len| u32::from_le_bytes(*len) as usize)
                && self.bytes.len() >= 4 + len
            {
                let rest = self.bytes.split_off(4 + len);
                return Some(std::mem::replace(&mut self.bytes, rest).split_off(4));
            }
            let left = deadline.saturating_duration_since(Instant::now()).max(Duration::from_millis(1));
            self.stream.set_read_timeout(Some(left)).expect("a time");
            if self.receive().ok()? == 0 || Instant::now() >= deadline {
                return None;
            }
        }
    }

    /// Reads, with the file that may come along.
    fn receive(&mut self) -> rustix::io::Result<usize> {
        let (mut bytes, mut room) = ([0; 4096], [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))]);
        let mut control = RecvAncillaryBuffer::new(&mut room);
        let flags = RecvFlags::CMSG_CLOEXEC;
        let len = recvmsg(&self.stream, &mut [IoSliceMut::new(&mut bytes)], &mut control, flags)?.bytes;
        for message in control.drain() {
            let RecvAncillaryMessage::ScmRights(files) = message else { continue };
            files.for_each(|file| assert!(self.memory.replace(file).is_none(), "one is enough"));
        }
        self.bytes.extend_from_slice(&bytes[..len]);
        Ok(len)
    }

    /// What the service returns next.
    pub(crate) fn hear(&mut self) -> Heard {
        let frame = self.frame(PATIENCE).expect("something");
        let reply = message(&frame, 6).expect("a reply");
        Heard {
            request: number(&frame, 2).expect("a number"),
            is_success: number(reply, 1) == Some(1),
            reply: message(reply, 3).unwrap_or_default().to_vec(),
        }
    }

    /// A command, which must come next.
    pub(crate) fn command(&mut self) -> Vec<u8> {
        let heard = self.hear();
        // The third request of a program that is ready.
        assert_eq!((heard.request, heard.is_success), (3, true));
        heard.reply
    }

    pub(crate) fn hears_nothing(&mut self) -> bool {
        self.frame(A_WHILE).is_none()
    }

    /// Whether the service has ended the connection, for which it is given time.
    pub(crate) fn is_sent_away(&mut self) -> bool {
        self.stream.set_read_timeout(Some(PATIENCE)).expect("a time");
        loop {
            match self.stream.read(&mut [0; 4096]) {
                Ok(0) => return true,
                Ok(_) => {}
                Err(error) => return error.kind() == ErrorKind::ConnectionReset,
            }
        }
    }

    /// Returns once the service has carried out everything before it.
    pub(crate) fn sync(&mut self) {
        let request = self.call(SYNC, &Message::default());
        let heard = self.hear();
        assert_eq!((heard.request, heard.is_success), (request, true));
    }
}

pub(crate) fn waits_for(what: &str, mut is_so: impl FnMut() -> bool) {
    let started = Instant::now();
    while !is_so() {
        assert!(started.elapsed() < PATIENCE, "{what}");
        std::thread::sleep(Duration::from_millis(2));
    }
}
