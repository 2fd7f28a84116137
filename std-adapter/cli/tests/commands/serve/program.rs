//! A program that records as Perfetto's SDK does: a chunk a page, committed as soon as it is complete.

use std::cell::{Cell, RefCell};
use std::io::{IoSliceMut, Read, Write};
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

use rustix::net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, recvmsg};
use tracebuf::producer::{
    AtomicU32, CommitRequest, CommitSink, Exhaustion, Layout, Producer, ProducerStorage, Request,
    SharedMemory, TraceWriter,
};
use tracebuf::proto::fields::ipc::{PRODUCER_PORT, method};
use tracebuf_service::wire::ProtoBuilder;
use tracebuf_service::wire::commands::ServiceCommand;
use tracebuf_service::wire::frames::{FrameBuffer, MAX_IPC_FRAME, ServiceFrame, bind, push_frame};
use tracebuf_service::wire::program::{self, Port};

/// Bytes of shared memory, and of its pages.
const SHARED: usize = 256 << 10;
const PAGE: u32 = 4096;
const PAGES: usize = SHARED / PAGE as usize;

/// The number of the call to which commands are replies; others count up from 100.
const COMMANDS: u64 = 3;

/// A program that has connected, and offers a data source.
pub(super) struct Program {
    stream: UnixStream,
    frames: FrameBuffer,
    port: Port,
    file: Option<OwnedFd>,
    last: u64,
}

/// What a program was told to record.
pub(super) struct Started<'p> {
    program: &'p mut Program,
    memory: Mapped,
    buffers: Vec<u16>,
}

/// Memory of a file, as long as that is.
struct Mapped(*mut libc::c_void);

impl Mapped {
    fn of(file: &OwnedFd) -> Self {
        let (access, kind) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_SHARED);
        // SAFETY: a new place, of a file that is as long and that nobody can cut short.
        let at = unsafe { libc::mmap(std::ptr::null_mut(), SHARED, access, kind, file.as_raw_fd(), 0) };
        assert_ne!(at, libc::MAP_FAILED);
        Self(at)
    }

    fn words(&self) -> &[AtomicU32] {
        // SAFETY: it is mapped as long as this lives, and what another process does may be seen through atomics.
        unsafe { std::slice::from_raw_parts(self.0.cast(), SHARED / 4) }
    }
}

impl Drop for Mapped {
    fn drop(&mut self) {
        // SAFETY: nothing borrows it any more.
        unsafe { libc::munmap(self.0, SHARED) };
    }
}

impl Program {
    /// Connects, and offers a data source.
    pub(super) fn connect(socket: &Path, source: &str) -> std::io::Result<Self> {
        let mut stream = UnixStream::connect(socket)?;
        stream.set_read_timeout(Some(Duration::from_secs(60)))?;
        let mut frames = FrameBuffer::new(MAX_IPC_FRAME);
        let mut hello = Vec::new();
        push_frame(&mut hello, &bind(1, PRODUCER_PORT));
        stream.write_all(&hello)?;
        let port = loop {
            if let Some(frame) = frames.next().expect("short enough") {
                let Some(ServiceFrame::Bound(bound)) = ServiceFrame::of(frame) else { panic!("it is bound") };
                break Port::of(bound).expect("all methods");
            }
            let len = stream.read(frames.room())?;
            if len == 0 {
                return Err(std::io::ErrorKind::UnexpectedEof.into());
            }
            frames.came(len);
        };
        let this = Self { stream, frames, port, file: None, last: 100 };
        let nothing = ProtoBuilder::new();
        this.call(method::INITIALIZE_CONNECTION, &program::hello("program", SHARED as u32, PAGE), None)?;
        this.call(method::GET_ASYNC_COMMAND, &nothing, Some(COMMANDS))?;
        this.call(method::REGISTER_DATA_SOURCE, &program::data_source(source, &[]), None)?;
        Ok(this)
    }

    fn call(&self, method: &str, arguments: &ProtoBuilder, reply: Option<u64>) -> std::io::Result<()> {
        let mut bytes = Vec::new();
        push_frame(&mut bytes, &self.port.call(method, arguments, reply));
        (&self.stream).write_all(&bytes)
    }

    /// The next frame of the service; an open file that comes is kept.
    fn next<R>(&mut self, mut take: impl FnMut(ServiceFrame<'_>) -> Option<R>) -> std::io::Result<R> {
        loop {
            while let Some(frame) = self.frames.next().expect("short enough") {
                if let Some(taken) = ServiceFrame::of(frame).and_then(&mut take) {
                    return Ok(taken);
                }
            }
            let mut room = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
            let mut control = RecvAncillaryBuffer::new(&mut room);
            let mut into = [IoSliceMut::new(self.frames.room())];
            let received = recvmsg(&self.stream, &mut into, &mut control, RecvFlags::CMSG_CLOEXEC)?;
            let file = control.drain().find_map(|message| match message {
                RecvAncillaryMessage::ScmRights(mut files) => files.next(),
                _ => None,
            });
            self.file = file.or(self.file.take());
            if received.bytes == 0 {
                return Err(std::io::ErrorKind::UnexpectedEof.into());
            }
            self.frames.came(received.bytes);
        }
    }

    /// Waits until so many sessions want something recorded.
    pub(super) fn started(&mut self, sessions: usize) -> std::io::Result<Started<'_>> {
        let command = |frame: ServiceFrame<'_>| match frame {
            ServiceFrame::Reply(COMMANDS, Some(command)) => match ServiceCommand::of(command)? {
                ServiceCommand::Start { instance, buffer, .. } => Some((instance, buffer)),
                _ => None,
            },
            _ => None,
        };
        let mut buffers = Vec::new();
        for _ in 0..sessions {
            let (instance, buffer) = self.next(command)?;
            self.call(method::NOTIFY_DATA_SOURCE_STARTED, &program::instance(instance), None)?;
            buffers.push(buffer as u16);
        }
        let memory = Mapped::of(self.file.as_ref().expect("it has come before"));
        Ok(Started { program: self, memory, buffers })
    }

    /// Waits until the service has done all that it was asked for.
    pub(super) fn sync(&mut self) -> std::io::Result<()> {
        self.last += 1;
        let number = self.last;
        self.call(method::SYNC, &ProtoBuilder::new(), Some(number))?;
        self.next(|frame| matches!(frame, ServiceFrame::Reply(reply, _) if reply == number).then_some(()))
    }
}

impl Started<'_> {
    /// Records with a writer for each session, and waits until the service has all of it.
    pub(super) fn record(
        &mut self,
        record: impl FnOnce(&mut [TraceWriter<'_>], &dyn Fn()),
    ) -> std::io::Result<()> {
        let storage = ProducerStorage::<PAGES, 8>::new();
        let sink = Commits { program: self.program, failed: Cell::new(false), commit: RefCell::default() };
        let memory = SharedMemory::new(self.memory.words(), PAGE).expect("whole pages");
        let sink = Single(sink);
        let producer = Producer::new(memory, Layout::One, &storage, &sink).expect("room");
        let writers = self.buffers.iter().map(|buffer| producer.writer(*buffer, Exhaustion::Stall));
        let mut writers: Vec<_> = writers.map(|writer| writer.expect("one of eight")).collect();
        record(&mut writers, &|| _ = producer.commit());
        writers.iter_mut().for_each(|writer| _ = writer.flush());
        drop(writers);
        producer.commit();
        if sink.0.failed.get() {
            return Err(std::io::ErrorKind::BrokenPipe.into());
        }
        self.program.sync()
    }
}

/// What is committed goes to the service at once.
struct Commits<'p> {
    program: &'p Program,
    failed: Cell<bool>,
    commit: RefCell<ProtoBuilder>,
}

impl Commits<'_> {
    fn send(&self, method: &str, arguments: &ProtoBuilder) {
        let sent = self.program.call(method, arguments, None);
        self.failed.set(self.failed.get() || sent.is_err());
    }
}

/// Only one thread has it.
struct Single<T>(T);

// SAFETY: each is made, used and dropped in one call of one thread.
unsafe impl<T> Sync for Single<T> {}

impl CommitSink for Single<Commits<'_>> {
    fn commit(&self, request: &CommitRequest<'_>) {
        let mut commit = self.0.commit.take();
        for request in request.each() {
            commit = match request {
                Request::Move(chunk) => program::push_move(commit, chunk, chunk.target.into()),
                Request::Patch { writer_id, target, patch, has_more } => {
                    program::push_patch(commit, writer_id, target.into(), patch, has_more)
                }
                Request::Register { .. } | Request::Unregister { .. } | Request::Flush(_) => commit,
            };
        }
        if !commit.as_bytes().is_empty() {
            self.0.send(method::COMMIT_DATA, &commit);
        }
    }

    fn register_writer(&self, writer_id: u16, target: u16) {
        self.0.send(method::REGISTER_TRACE_WRITER, &program::writer(writer_id, target.into()));
    }

    fn unregister_writer(&self, writer_id: u16) {
        self.0.send(method::UNREGISTER_TRACE_WRITER, &program::writer_that_ends(writer_id));
    }

    fn stall(&self, _: u32, micros: u32) -> bool {
        std::thread::sleep(Duration::from_micros(micros.min(1000).into()));
        !self.0.failed.get()
    }
}
