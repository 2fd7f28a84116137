//! The transport of a program with Perfetto's SDK: it carries out its calls, and commands it.

use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use tracebuf::producer::Request;
use tracebuf::proto::fields::ipc::smb_scraping_mode;
use tracebuf::service::FlushTracker;

use super::ProtoBuilder;
use super::calls::{Hello, METHODS, ProducerCall, ProducerFrame};
use super::commands;
use super::data_sources::{SourceInstances, WantedSource};
use super::frame_reader::FrameReader;
use super::frames;
use super::outbox::FrameOutbox;
use crate::acceptor::NewProducer;
use crate::link::Link;
use crate::remote_producer::{DrainTurn, RemoteProducer, remote_transport};
use tracebuf_session::limits::PAGE;
use tracebuf_session::{CentralBuffer, Transport};
use tracebuf_sockets::SharedWords;

/// Most things said that are carried out at a time: no more than one of tracebuf's own messages says.
const AT_A_TIME: usize = 256;

pub(crate) struct SdkProducer {
    remote: RemoteProducer<Said>,
    outbox: FrameOutbox,
    wanted: Arc<[WantedSource]>,
    /// The file of its shared memory, until that goes to the program.
    file: Option<OwnedFd>,
    hello: Option<Hello>,
    /// The call to which commands are replies.
    commands: Option<u64>,
    instances: SourceInstances,
    /// A flush that the program has nothing for.
    flushed: u64,
    /// To be said once everything before was heard, however often it is wanted until then.
    to_ask: Option<u64>,
    to_clear_state: bool,
}

impl SdkProducer {
    pub(crate) fn start(
        newcomer: NewProducer,
        words: SharedWords,
        file: OwnedFd,
        wanted: Arc<[WantedSource]>,
    ) -> io::Result<Self> {
        Ok(Self {
            remote: RemoteProducer::start(newcomer, words, receive(), is_of_new_writer)?,
            outbox: FrameOutbox::default(),
            wanted,
            file: Some(file),
            hello: None,
            commands: None,
            instances: SourceInstances::default(),
            flushed: 0,
            to_ask: None,
            to_clear_state: false,
        })
    }

    fn carry_out(&mut self, message: Said, buffers: &mut [CentralBuffer], flushes: &mut FlushTracker) {
        match message {
            Said::Bound { request, is_known: true } => self.outbox.push(&frames::bound(request, METHODS)),
            Said::Bound { request, is_known: false } => self.outbox.push(&frames::not_bound(request)),
            Said::Call(ProducerCall::Register(descriptor)) => {
                self.instances.offer(descriptor, &self.wanted);
                self.start_instances(buffers);
            }
            Said::Call(ProducerCall::Unregister(name)) => self.instances.withdraw(&name),
            Said::Call(ProducerCall::Request(request)) => {
                // A flush comes another way.
                let _ = self.remote.endpoint.with(|endpoint| endpoint.carry_out_one(&request, buffers));
            }
            // What belongs to it has come before.
            Said::Call(ProducerCall::Flushed(question)) => flushes.answer(question, None),
            Said::Hello { request, hello } => self.initialize(request, hello, buffers),
            Said::Listens { request } => {
                self.commands = Some(request);
                self.start_instances(buffers);
            }
            // A session has one set of data sources, which do not change, and no triggers.
            Said::Call(_) => {}
            Said::Answer { request, is_known: true } => {
                self.outbox.push(&frames::reply(request, &ProtoBuilder::new(), false));
            }
            Said::Answer { request, is_known: false } => self.outbox.push(&frames::failure(request)),
        }
    }

    fn initialize(&mut self, request: u64, hello: Hello, buffers: &mut [CentralBuffer]) {
        let answer = commands::initialized(hello.memory, false, false).filter(|_| self.hello.is_none());
        let Some(answer) = answer else { return self.outbox.push(&frames::failure(request)) };
        self.remote.speaks();
        self.hello = Some(hello);
        self.outbox.push(&frames::reply(request, &answer, false));
        self.start_instances(buffers);
    }

    /// Whether chunks that the program has not completed may be looked at while it is there.
    fn may_scrape(&self) -> bool {
        self.hello.as_ref().is_some_and(|hello| hello.scraping != smb_scraping_mode::DISABLED)
    }

    /// Makes the program run the data sources that are wanted of it, as soon as it has said enough.
    fn start_instances(&mut self, buffers: &mut [CentralBuffer]) {
        let producer_id = self.remote.endpoint.with(|endpoint| endpoint.identity().producer_id);
        let Self { outbox, instances, file, hello: Some(_), commands: Some(call), .. } = self else {
            return;
        };
        for instance in instances.start() {
            instance.join_vm(buffers, producer_id);
            if let Some(file) = file.take() {
                outbox.push_with(&frames::reply(*call, &commands::setup_tracing(PAGE >> 10), true), file);
            }
            for command in commands::setup_and_start(instance.id, &instance.config) {
                outbox.push(&frames::reply(*call, &command, true));
            }
        }
    }

    /// Says what there is to say, as far as the program takes it now; the rest when this is called again.
    fn say(&mut self) {
        let mut is_sent = self.outbox.try_send(&self.remote.link);
        if is_sent.is_ok() && self.outbox.is_empty() {
            self.ask();
            is_sent = self.outbox.try_send(&self.remote.link);
        }
        // The thread that waits for what comes then hears of the end.
        if is_sent.is_err() {
            self.remote.link.shut();
        }
    }

    fn ask(&mut self) {
        let Self { outbox, instances, .. } = self;
        // A program that has not said where it hears commands runs nothing.
        let mut command = |message: &ProtoBuilder| {
            self.commands.iter().for_each(|call| outbox.push(&frames::reply(*call, message, true)));
        };
        if let Some(question) = self.to_ask.take() {
            if instances.to_flush().next().is_some() {
                command(&commands::flush(question, instances.to_flush(), 0));
            } else {
                self.flushed = question;
            }
        }
        if std::mem::take(&mut self.to_clear_state) && instances.to_clear().next().is_some() {
            command(&commands::clear_state(instances.to_clear()));
        }
    }
}

/// What a program says, one thing after another.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Said {
    /// Wants to be bound to this service, or to another.
    Bound { request: u64, is_known: bool },
    /// Says who it is, first of all.
    Hello { request: u64, hello: Hello },
    /// Wants to hear commands in reply to this call.
    Listens { request: u64 },
    /// Says something else.
    Call(ProducerCall),
    /// Wants to hear that everything before was carried out, or that there is no such call.
    Answer { request: u64, is_known: bool },
}

impl Said {
    /// What a frame says; `None` for a malformed one.
    pub(super) fn all_of(frame: &[u8]) -> Option<Vec<Self>> {
        // Programs count buffers from 1 on.
        let (request, method, calls) = match ProducerFrame::of(frame, 1)? {
            ProducerFrame::Bind { request, is_known } => {
                return Some(vec![Self::Bound { request, is_known }]);
            }
            ProducerFrame::Other { .. } => return Some(Vec::new()),
            ProducerFrame::Invoke { request, method, calls } => (request, method, calls),
        };
        let mut answer = request;
        let mut said: Vec<_> = calls
            .into_iter()
            .map(|call| match call {
                // Without a number it wants no answer, and gets one that it ignores.
                ProducerCall::Initialize(hello) => Self::Hello { request: answer.take().unwrap_or(0), hello },
                ProducerCall::Listen => Self::Listens { request: answer.take().unwrap_or(0) },
                call => Self::Call(call),
            })
            .collect();
        said.extend(answer.map(|request| Self::Answer { request, is_known: method.is_some() }));
        Some(said)
    }
}

fn is_of_new_writer(message: &Said) -> bool {
    matches!(message, Said::Call(ProducerCall::Request(Request::Register { .. })))
}

/// Takes the frames of a connection apart, until something comes that is none.
fn receive() -> impl FnMut(&Link) -> Option<Vec<Said>> {
    let (mut frames, mut rest) = (FrameReader::new(), Vec::new().into_iter());
    move |link| {
        if rest.len() == 0 {
            rest = frames.next(|bytes| link.receive_some(bytes), Said::all_of).ok()?.into_iter();
        }
        Some(rest.by_ref().take(AT_A_TIME).collect())
    }
}

impl Transport for SdkProducer {
    fn drain(&mut self, buffers: &mut [CentralBuffer], flushes: &mut FlushTracker) {
        let mut turn = DrainTurn::begin();
        while let Some(message) = self.remote.take(&mut turn) {
            message.into_iter().for_each(|message| self.carry_out(message, buffers, flushes));
        }
        self.remote.end_if_silent();
        self.say();
        flushes.answer(self.flushed, None);
    }

    fn ask_flush(&mut self, question: u64) {
        self.to_ask = Some(question);
        self.say();
    }

    fn clear_incremental_state(&mut self) {
        self.to_clear_state = true;
        self.say();
    }

    fn scrape(&mut self, buffers: &mut [CentralBuffer]) {
        if self.may_scrape() {
            self.remote.endpoint.with(|endpoint| endpoint.scrape(buffers));
        }
    }

    fn scrape_rests(&mut self, buffers: &mut [CentralBuffer]) {
        if self.may_scrape() {
            self.remote.endpoint.with(|endpoint| endpoint.scrape_rests(buffers));
        }
    }

    remote_transport!();
}
