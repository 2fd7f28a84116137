//! What producers say.

use alloc::format;
use alloc::string::String;
use alloc::sync::Arc;

use tracebuf::proto::fields::ipc::method;

use super::Service;
use crate::config::LONGEST_NAME;
use crate::host::{Action, ConnectionId, FileToken, Host};
use crate::producers::{MOST_SOURCES, Producer};
use crate::sessions::State;
use crate::wire::ProtoBuilder;
use crate::wire::answers::LONGEST_DESCRIPTOR;
use crate::wire::calls::{Hello, METHODS, ProducerCall, ProducerFrame, SourceDescriptor};
use crate::wire::commands;
use crate::wire::frames::{self, ClientFrame};

/// Most commands that wait for a producer to listen, and bytes of these.
const MOST_UNHEARD: usize = 4096;
const MOST_UNHEARD_BYTES: usize = 4 << 20;
/// Most triggers that are fired with one call.
const MOST_FIRED: usize = 1024;

impl<H: Host> Service<H> {
    pub(super) fn producer_frame(
        &mut self,
        connection: ConnectionId,
        frame: &[u8],
        mut file: Option<FileToken>,
    ) {
        match ProducerFrame::of(frame, 0) {
            Some(ProducerFrame::Bind { request, is_known }) => {
                let reply =
                    if is_known { frames::bound(request, METHODS) } else { frames::not_bound(request) };
                if !is_known && let Some((_, ClientFrame::Bind(name))) = ClientFrame::of(frame) {
                    self.log_unknown_port(name);
                }
                self.send(connection, &reply);
            }
            Some(ProducerFrame::Invoke { request, method: None, .. }) => self.reject(connection, request),
            Some(ProducerFrame::Invoke { request, method: Some(method), calls }) => {
                let mut is_done = true;
                for call in calls {
                    match call {
                        ProducerCall::Initialize(hello) => {
                            self.introduce(connection, request, hello, file.take());
                        }
                        ProducerCall::Listen => self.listen(connection, request),
                        call => is_done &= self.producer_call(connection, call).is_some(),
                    }
                }
                let is_answered =
                    [method::INITIALIZE_CONNECTION, method::GET_ASYNC_COMMAND].contains(&method);
                if !is_answered {
                    self.reply_whether(connection, request, is_done);
                }
            }
            Some(ProducerFrame::Other { request }) => {
                self.send(connection, &frames::request_error(request, "unknown request"));
            }
            // One that is no frame is passed over; one whose arguments are no message is refused.
            None => {
                if let Some((request, ClientFrame::Invoke { wants_reply: true, .. })) = ClientFrame::of(frame)
                {
                    self.reject(connection, Some(request));
                }
            }
        }
        self.actions.extend(file.map(Action::Discard));
    }

    /// Says what somebody wants that there is not: relays above all.
    pub(super) fn log_unknown_port(&mut self, name: &[u8]) {
        let name = String::from_utf8_lossy(name);
        let name: String = name.chars().take(64).collect();
        self.log(format!(
            "a client wants {name:?}, which this service does not have: relays are not supported"
        ));
    }

    fn introduce(
        &mut self,
        connection: ConnectionId,
        request: Option<u64>,
        hello: Hello,
        file: Option<FileToken>,
    ) {
        let known = self.connections.get(&connection).map(|one| (one.peer, one.producer.is_some()));
        let Some((peer, false)) = known else {
            self.actions.extend(file.map(Action::Discard));
            return self.reject(connection, request);
        };
        if self.keeps_out(peer.uid) {
            self.actions.extend(file.map(Action::Discard));
            self.log(format!("process {} of user {} is kept out by lockdown_mode", peer.pid, peer.uid));
            return self.reject(connection, request);
        }
        let own = file.and_then(|file| self.host.adopt(file)).filter(|_| hello.brings_memory);
        let own = own.and_then(|shared| {
            let page = Producer::<H::Shared>::page_of_its_own(&hello, shared.as_ref().len() as u64 * 4)?;
            Some((shared, page))
        });
        let welcome = commands::initialized(hello.memory, own.is_some(), true);
        // Last, because others forget who had the number before.
        let Some((welcome, number)) =
            welcome.and_then(|welcome| Some((welcome, self.new_producer_number()?)))
        else {
            return self.reject(connection, request);
        };
        let mut producer = Producer::new(connection, peer, number, hello);
        let is_its_own = own.is_some_and(|(shared, page)| producer.set_memory(shared, page));
        self.producers.insert(number, producer);
        if let Some(one) = self.connections.get_mut(&connection) {
            one.producer = Some(number);
        }
        self.reply(connection, request, &welcome);
        if is_its_own {
            self.command(number, commands::setup_own_memory(), None);
        }
    }

    /// The next number that no producer has, and that no buffer knows of one that is gone, if there is one.
    fn new_producer_number(&mut self) -> Option<u16> {
        let last = self.last.producer;
        let is_free = |number: &u16| !self.producers.contains_key(number);
        let all = || (last..=u16::MAX).skip(1).chain(1..=last).filter(is_free);
        // Some are left out at most: looking takes time.
        let number = all().take(4).find(|number| !self.buffers.knows_producer(*number));
        let number = number.or_else(|| all().next())?;
        self.buffers.forget_producer(number);
        // What clones have is of those who had it before.
        let others = self.sessions.values_mut().filter(|session| session.state != State::Cloned);
        others.for_each(|session| session.sequences.forget(number));
        self.last.producer = number;
        self.last.producers_seen += 1;
        Some(number)
    }

    fn listen(&mut self, connection: ConnectionId, request: Option<u64>) {
        let number = self.connections.get(&connection).and_then(|one| one.producer);
        let producer = number.and_then(|number| self.producers.get_mut(&number));
        let Some((producer, call)) = producer.zip(request) else {
            return self.reject(connection, request);
        };
        producer.listens = Some(call);
        for (command, file) in core::mem::take(&mut producer.unheard) {
            self.send_with(connection, &frames::reply(call, &command, true), file);
        }
    }

    /// Tells a producer something, now or as soon as it listens.
    pub(super) fn command(&mut self, number: u16, command: ProtoBuilder, file: Option<FileToken>) {
        let Some(producer) = self.producers.get_mut(&number) else {
            self.actions.extend(file.map(Action::Discard));
            return;
        };
        let connection = producer.connection;
        match producer.listens {
            Some(call) => self.send_with(connection, &frames::reply(call, &command, true), file),
            None if producer.unheard.len() < MOST_UNHEARD && producer.unheard_bytes < MOST_UNHEARD_BYTES => {
                producer.unheard_bytes += command.as_bytes().len();
                producer.unheard.push((command, file));
            }
            None => {
                self.actions.extend(file.map(Action::Discard));
                self.close(connection);
            }
        }
    }

    /// `None` if it cannot be done: the producer has not said who it is.
    fn producer_call(&mut self, connection: ConnectionId, call: ProducerCall) -> Option<()> {
        let number = self.connections.get(&connection)?.producer?;
        let producer = self.producers.get_mut(&number)?;
        match call {
            ProducerCall::Request(request) => {
                // A flush comes another way.
                let _ = producer.with(|endpoint| endpoint.carry_out_one(&request, &mut self.buffers));
            }
            ProducerCall::Emulated => {
                let name = producer.name();
                let line = format!(
                    "{name} sends chunks without shared memory, which is not supported: it is disconnected"
                );
                self.log(line);
                self.close(connection);
            }
            ProducerCall::Flushed(flush) => self.answer_flushes(number, flush),
            ProducerCall::Register(source) => self.register(number, source),
            ProducerCall::Update(source) if source.whole.len() <= LONGEST_DESCRIPTOR => {
                let is_it = |known: &Arc<SourceDescriptor>| {
                    known.name == source.name && known.id == source.id && source.id != 0
                };
                let Some(at) = producer.sources.iter().position(is_it) else { return Some(()) };
                let before = producer.sources.get(at)?.whole.len();
                if !producer.may_describe(source.whole.len(), before) {
                    return None;
                }
                *producer.sources.get_mut(at)? = Arc::new(source);
            }
            ProducerCall::Update(_) => return None,
            ProducerCall::Unregister(name) => self.unregister(number, &name),
            ProducerCall::Started(id) => self.instance_has_started(number, id),
            ProducerCall::Stopped(id) => self.instance_has_stopped(number, id),
            ProducerCall::Activate(names) => {
                names.iter().take(MOST_FIRED).for_each(|name| self.activate(number, name));
            }
            // They are answered where they come.
            ProducerCall::Initialize(_) | ProducerCall::Listen => {}
        }
        Some(())
    }

    fn register(&mut self, number: u16, source: SourceDescriptor) {
        let Some(producer) = self.producers.get_mut(&number) else { return };
        let is_known = source.id != 0 && producer.sources.iter().any(|known| known.id == source.id);
        // Whoever asks what there is gets it in a frame of its own.
        let is_long = source.whole.len() > LONGEST_DESCRIPTOR || source.name.len() > LONGEST_NAME;
        let may = producer.sources.len() < MOST_SOURCES && producer.may_describe(source.whole.len(), 0);
        if source.name.is_empty() || is_known || is_long || !may {
            let line =
                format!("{} offers data source \"{}\", which is ignored", producer.name(), source.name);
            return self.log(line);
        }
        let source = Arc::new(source);
        producer.sources.push(source.clone());
        self.offer(number, &source);
    }

    fn unregister(&mut self, number: u16, name: &str) {
        let Some(producer) = self.producers.get_mut(&number) else { return };
        let Some(at) = producer.sources.iter().position(|source| source.name == name) else { return };
        producer.sources.remove(at);
        self.withdraw(number, |source| source == name, true);
    }

    /// Takes what a producer has left, and forgets it.
    pub(super) fn producer_is_gone(&mut self, number: u16) {
        let Some(producer) = self.producers.get_mut(&number) else { return };
        let _ = producer.with(|endpoint| endpoint.disconnect(&mut self.buffers));
        let stats = producer.stats();
        for session in self.sessions.values_mut().filter(|session| session.producers.contains(&number)) {
            let [chunks, patches] = &mut session.discarded;
            *chunks = chunks.saturating_add(stats.chunks_discarded);
            *patches = patches.saturating_add(stats.patches_discarded);
        }
        self.withdraw(number, |_: &String| true, false);
        self.forget_flushes_of(number);
        if let Some(producer) = self.producers.remove(&number) {
            self.actions
                .extend(producer.unheard.into_iter().filter_map(|(_, file)| file).map(Action::Discard));
        }
    }
}
