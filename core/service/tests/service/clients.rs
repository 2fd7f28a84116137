//! Clients of a service: a consumer, and a program that records.

use std::sync::Mutex;

use tracebuf::producer::{
    CommitRequest, CommitSink, Exhaustion, Layout, Producer, ProducerStorage, Request, SharedMemory,
    TraceWriter,
};
use tracebuf::proto::fields::consumer as fields;
use tracebuf::proto::fields::ipc::method;
use tracebuf::proto::fields::{config, ipc, protovm_config, trace_packet};
use tracebuf::proto::reader::{message, messages, number};
use tracebuf_service::wire::calls::METHODS;
use tracebuf_service::wire::commands::ServiceCommand;
use tracebuf_service::wire::frames::{ServiceFrame, bind, invoke, push_frame};
use tracebuf_service::wire::program::{self, Port as ProducerPort};
use tracebuf_service::wire::{ProtoBuilder, consumers};
use tracebuf_service::{ConnectionId, Event, FileToken, Port};

use super::host::SharedWords;
use super::world::World;

pub fn send(world: &mut World, connection: ConnectionId, frame: &ProtoBuilder, file: Option<FileToken>) {
    let mut bytes = Vec::new();
    push_frame(&mut bytes, frame);
    world.handle(Event::Received { connection, bytes: &bytes, file });
}

/// Answers to a call: whether each is good, whether more may come, and what it says.
pub fn replies(world: &World, connection: ConnectionId, request: u64) -> Vec<(bool, bool, Vec<u8>)> {
    replies_in(world.frames(connection), request)
}

fn replies_in(frames: &[Vec<u8>], request: u64) -> Vec<(bool, bool, Vec<u8>)> {
    let frames = frames.iter();
    let replies = frames.filter_map(|frame| {
        if number(frame, ipc::ipc_frame::REQUEST_ID) != Some(request) {
            return None;
        }
        let reply = messages(frame, ipc::ipc_frame::MSG_INVOKE_METHOD_REPLY).last()?;
        let is = |field| number(reply, field) == Some(1);
        let said = message(reply, ipc::invoke_method_reply::REPLY_PROTO).expect("well-formed").to_vec();
        Some((is(ipc::invoke_method_reply::SUCCESS), is(ipc::invoke_method_reply::HAS_MORE), said))
    });
    replies.collect()
}

pub struct Consumer {
    pub connection: ConnectionId,
    last: u64,
}

impl Consumer {
    pub fn of(world: &mut World, uid: u32) -> Self {
        let connection = world.connect(Port::Consumers, uid);
        send(world, connection, &bind(1, consumers::CONSUMER_PORT), None);
        Self { connection, last: 1 }
    }

    /// Calls, and returns the number of the call.
    pub fn call(&mut self, world: &mut World, name: &str, arguments: &ProtoBuilder) -> u64 {
        self.call_with(world, name, arguments, None)
    }

    pub fn call_with(
        &mut self,
        world: &mut World,
        name: &str,
        arguments: &ProtoBuilder,
        file: Option<FileToken>,
    ) -> u64 {
        self.last += 1;
        send(world, self.connection, &invoke(1, consumers::method(name), arguments, Some(self.last)), file);
        self.last
    }

    pub fn enable(&mut self, world: &mut World, config: &ProtoBuilder) -> u64 {
        self.enable_with(world, config, None)
    }

    pub fn enable_with(&mut self, world: &mut World, config: &ProtoBuilder, file: Option<FileToken>) -> u64 {
        let arguments = ProtoBuilder::new().message(fields::enable_tracing_request::TRACE_CONFIG, config);
        self.call_with(world, "EnableTracing", &arguments, file)
    }

    /// Calls without arguments; the answer must be one.
    pub fn simple(&mut self, world: &mut World, name: &str) -> bool {
        let request = self.call(world, name, &ProtoBuilder::new());
        match &replies(world, self.connection, request)[..] {
            [(success, false, said)] => *success && said.is_empty(),
            other => panic!("{name}: {other:?}"),
        }
    }

    /// Why a session has ended, or could not begin: `None` if it has not.
    pub fn ended(&self, world: &World, request: u64) -> Option<String> {
        let answers = replies(world, self.connection, request);
        let (success, has_more, said) = answers.first()?;
        assert!(answers.len() == 1 && *success && !has_more, "{answers:?}");
        assert_eq!(number(said, fields::enable_tracing_response::DISABLED), Some(1));
        let error = message(said, fields::enable_tracing_response::ERROR).expect("well-formed");
        Some(String::from_utf8_lossy(error).into_owned())
    }

    /// Reads until there is no more.
    pub fn read(&mut self, world: &mut World) -> Vec<Vec<u8>> {
        let request = self.call(world, "ReadBuffers", &ProtoBuilder::new());
        let answers = replies(world, self.connection, request);
        let last = answers.len() - 1;
        assert!(answers.iter().enumerate().all(|(at, (good, more, _))| *good && *more == (at < last)));
        packets_in(answers.iter().map(|(_, _, said)| said.as_slice()))
    }
}

/// Whole packets out of replies.
pub fn packets_in<'r>(replies: impl Iterator<Item = &'r [u8]>) -> Vec<Vec<u8>> {
    let (mut packets, mut packet) = (Vec::new(), Vec::new());
    for slice in replies.flat_map(|reply| messages(reply, fields::read_buffers_response::SLICES)) {
        packet.extend_from_slice(message(slice, fields::slice::DATA).expect("well-formed"));
        if number(slice, fields::slice::LAST_SLICE_FOR_PACKET) == Some(1) {
            packets.push(std::mem::take(&mut packet));
        }
    }
    assert!(packet.is_empty(), "a whole packet");
    packets
}

/// What producers have written, by the timestamps that these tests give packets, with sequence and loss.
pub fn data(packets: &[Vec<u8>]) -> Vec<(u64, u64, u64)> {
    let of = |packet: &Vec<u8>, field| number(packet, field).unwrap_or(0);
    packets
        .iter()
        .filter(|packet| of(packet, trace_packet::TRUSTED_PACKET_SEQUENCE_ID) > 1)
        .map(|packet| {
            (
                of(packet, trace_packet::TIMESTAMP),
                of(packet, trace_packet::TRUSTED_PACKET_SEQUENCE_ID),
                of(packet, trace_packet::PREVIOUS_PACKET_DROPPED),
            )
        })
        .collect()
}

/// The times alone.
pub fn times(packets: &[Vec<u8>]) -> Vec<u64> {
    data(packets).into_iter().map(|(time, ..)| time).collect()
}

/// A config with buffers of so many KiB, and data sources with the places of theirs.
pub fn config_of(buffers: &[u32], sources: &[(&str, u32)]) -> ProtoBuilder {
    let mut all = ProtoBuilder::new();
    for size in buffers {
        let buffer = ProtoBuilder::new().number(config::buffer_config::SIZE_KB, *size);
        all = all.message(config::trace_config::BUFFERS, &buffer);
    }
    for (name, buffer) in sources {
        all = all.message(config::trace_config::DATA_SOURCES, &source(name, *buffer));
    }
    all
}

pub fn source(name: &str, buffer: u32) -> ProtoBuilder {
    source_with(name, buffer, None)
}

/// One whose program, if it has one, may have so many KiB.
pub fn source_with(name: &str, buffer: u32, limit_kb: Option<u32>) -> ProtoBuilder {
    let mut config = ProtoBuilder::new()
        .bytes(ipc::data_source_config::NAME, name.as_bytes())
        .number(ipc::data_source_config::TARGET_BUFFER, buffer);
    if let Some(limit) = limit_kb {
        let limit = ProtoBuilder::new().number(protovm_config::MEMORY_LIMIT_KB, limit);
        config = config.message(ipc::data_source_config::PROTOVM_CONFIG, &limit);
    }
    ProtoBuilder::new().message(config::trace_config_data_source::CONFIG, &config)
}

/// Keeps what a producer has to say to its service.
#[derive(Default)]
pub struct Said(Mutex<Vec<Request>>);

impl Said {
    pub fn take(&self) -> Vec<Request> {
        std::mem::take(&mut *self.0.lock().unwrap())
    }
}

impl CommitSink for Said {
    fn commit(&self, request: &CommitRequest<'_>) {
        self.0.lock().unwrap().extend(request.each());
    }

    fn register_writer(&self, writer_id: u16, target: u16) {
        self.0.lock().unwrap().push(Request::Register { writer_id, target });
    }

    fn unregister_writer(&self, writer_id: u16) {
        self.0.lock().unwrap().push(Request::Unregister { writer_id });
    }
}

pub const NOTIFIES_STOP: u32 = 1;
pub const NOTIFIES_START: u32 = 2;
pub const NO_FLUSH: u32 = 4;
/// It has a program for what is overwritten: `merge`, of each field the newest.
pub const HAS_PROGRAM: u32 = 8;
pub const MERGE: &[u8] = &[0x12, 2, 0x1A, 0];

/// A program that records.
pub struct Program {
    pub connection: ConnectionId,
    port: ProducerPort,
    seen: usize,
    last: u64,
    pub producer: Option<(&'static Producer<'static>, &'static Said)>,
    /// Bytes of a page of its memory.
    pub page: u32,
}

pub const COMMANDS: u64 = 1_000_000;

impl Program {
    pub fn of(world: &mut World, uid: u32, name: &str) -> Self {
        Self::with_hello(world, uid, &program::hello(name, 0, 0), None)
    }

    pub fn with_hello(world: &mut World, uid: u32, hello: &ProtoBuilder, file: Option<FileToken>) -> Self {
        let connection = world.connect(Port::Producers, uid);
        send(world, connection, &bind(1, ipc::PRODUCER_PORT), None);
        let Some(ServiceFrame::Bound(bound)) = ServiceFrame::of(&world.frames(connection)[0]) else {
            panic!("it is bound")
        };
        let port = ProducerPort::of(bound).expect("all methods are there");
        assert_eq!(messages(bound, ipc::bind_service_reply::METHODS).count(), METHODS.len());
        world.forget_frames(connection);
        let mut program = Self { connection, port, seen: 0, last: 1, producer: None, page: 4096 };
        send(world, connection, &program.port.call(method::INITIALIZE_CONNECTION, hello, Some(2)), file);
        program.last = 2;
        program
    }

    /// Wants to hear commands.
    pub fn listen(&mut self, world: &mut World) {
        let frame = self.port.call(method::GET_ASYNC_COMMAND, &ProtoBuilder::new(), Some(COMMANDS));
        send(world, self.connection, &frame, None);
    }

    /// One that listens and offers these data sources.
    pub fn offering(world: &mut World, uid: u32, sources: &[(&str, u32)]) -> Self {
        let mut program = Self::of(world, uid, "program");
        program.listen(world);
        sources.iter().for_each(|(name, flags)| program.offer(world, name, *flags));
        program
    }

    pub fn offer(&mut self, world: &mut World, name: &str, flags: u32) {
        use ipc::data_source_descriptor as descriptor;
        let is = |flag: u32| flags & flag != 0;
        let told = ProtoBuilder::new()
            .bytes(descriptor::NAME, name.as_bytes())
            .number(descriptor::WILL_NOTIFY_ON_STOP, is(NOTIFIES_STOP))
            .number(descriptor::WILL_NOTIFY_ON_START, is(NOTIFIES_START))
            .number(descriptor::HANDLES_INCREMENTAL_STATE_CLEAR, true)
            .number(descriptor::NO_FLUSH, is(NO_FLUSH));
        let told = if is(HAS_PROGRAM) { told.bytes(descriptor::PROTOVM_PROGRAM, MERGE) } else { told };
        let told =
            ProtoBuilder::new().message(ipc::register_data_source_request::DATA_SOURCE_DESCRIPTOR, &told);
        self.call(world, method::REGISTER_DATA_SOURCE, &told);
    }

    /// Calls, and returns whether that was good.
    pub fn call(&mut self, world: &mut World, name: &str, arguments: &ProtoBuilder) -> bool {
        self.last += 1;
        let before = world.frames(self.connection).len();
        send(world, self.connection, &self.port.call(name, arguments, Some(self.last)), None);
        let new = world.frames(self.connection).get(before..).unwrap_or_default();
        matches!(replies_in(new, self.last)[..], [(true, false, _)])
    }

    /// What the service has said since the last time.
    pub fn commands(&mut self, world: &World) -> Vec<ServiceCommand> {
        let all = replies(world, self.connection, COMMANDS);
        let new = all.get(self.seen..).unwrap_or_default();
        self.seen = all.len();
        let new = new.iter().map(|(good, more, said)| {
            assert!(*good && *more);
            ServiceCommand::of(said).expect("well-formed")
        });
        new.collect()
    }

    /// The numbers of data sources that are to start, with the buffers that they go to.
    pub fn starts(&mut self, world: &World) -> Vec<(u64, u16)> {
        let starts = self.commands(world).into_iter().filter_map(|command| match command {
            ServiceCommand::Start { instance, buffer, .. } => Some((instance, buffer as u16)),
            _ => None,
        });
        starts.collect()
    }

    /// The numbers of flushes that are wanted.
    pub fn flushes(&mut self, world: &World) -> Vec<u64> {
        let flushes = self.commands(world).into_iter().filter_map(|command| match command {
            ServiceCommand::Flush { request, .. } => Some(request),
            _ => None,
        });
        flushes.collect()
    }

    /// A writer into the buffer of the one data source that is to start.
    pub fn starts_to_write(&mut self, world: &World) -> TraceWriter<'static> {
        let [(_, buffer)] = self.starts(world)[..] else { panic!("one data source: {:?}", world.log) };
        self.writer(world, buffer)
    }

    /// A writer into a buffer, in the memory that has come.
    pub fn writer(&mut self, world: &World, buffer: u16) -> TraceWriter<'static> {
        let (producer, _) = *self.producer.get_or_insert_with(|| {
            let file = world.files_for(self.connection).first().expect("memory has come");
            let words: &'static SharedWords = Box::leak(Box::new(world.memory_of(*file)));
            let memory = SharedMemory::new(words, self.page).expect("pages");
            let storage: &'static ProducerStorage<1024, 64> =
                ProducerStorage::on_heap().map(Box::leak).expect("room");
            let said: &'static Said = Box::leak(Box::default());
            let producer = Producer::new(memory, Layout::One, storage, said).expect("memory");
            (&*Box::leak(Box::new(producer)), said)
        });
        producer.writer(buffer, Exhaustion::Drop).expect("one of 64")
    }

    /// Says what its writers have had to say since.
    pub fn speak(&mut self, world: &mut World) {
        if let Some((_, said)) = self.producer {
            self.pass_on(world, said);
        }
    }

    /// Says what is kept there.
    pub fn pass_on(&mut self, world: &mut World, said: &Said) {
        let requests = said.take();
        // Its own numbers of flushes are not the service's.
        let requests = requests.into_iter().filter(|request| !matches!(request, Request::Flush(_)));
        requests.for_each(|request| self.say(world, request));
    }

    pub fn say(&mut self, world: &mut World, request: Request) {
        assert!(self.try_to_say(world, request), "{request:?}");
    }

    /// The same; false if it is refused.
    pub fn try_to_say(&mut self, world: &mut World, request: Request) -> bool {
        let (name, arguments) = match request {
            Request::Register { writer_id, target } => {
                (method::REGISTER_TRACE_WRITER, program::writer(writer_id, target.into()))
            }
            Request::Unregister { writer_id } => {
                (method::UNREGISTER_TRACE_WRITER, program::writer_that_ends(writer_id))
            }
            Request::Move(chunk) => {
                (method::COMMIT_DATA, program::push_move(ProtoBuilder::new(), chunk, chunk.target.into()))
            }
            Request::Patch { writer_id, target, patch, has_more } => {
                let commit = ProtoBuilder::new();
                (method::COMMIT_DATA, program::push_patch(commit, writer_id, target.into(), patch, has_more))
            }
            Request::Flush(number) => {
                (method::COMMIT_DATA, program::push_flush(ProtoBuilder::new(), number.into()))
            }
        };
        self.call(world, name, &arguments)
    }

    /// Says that a flush has come.
    pub fn answer(&mut self, world: &mut World, flush: u64) {
        assert!(self.call(world, method::COMMIT_DATA, &program::push_flush(ProtoBuilder::new(), flush)));
    }

    pub fn has_started(&mut self, world: &mut World, instance: u64) {
        assert!(self.call(world, method::NOTIFY_DATA_SOURCE_STARTED, &program::instance(instance)));
    }

    pub fn has_stopped(&mut self, world: &mut World, instance: u64) {
        assert!(self.call(world, method::NOTIFY_DATA_SOURCE_STOPPED, &program::instance(instance)));
    }

    /// The one writer of a session with one data source: writes packets with these times, and sends what is complete.
    pub fn write(&mut self, world: &mut World, writer: &mut TraceWriter<'static>, times: &[u64]) {
        for time in times {
            writer.packet().varint(trace_packet::TIMESTAMP, *time);
            writer.flush();
        }
        self.speak(world);
    }
}
