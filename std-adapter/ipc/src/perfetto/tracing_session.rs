//! A connection to Perfetto's service during a tracing session: requests become calls, and replies are their answers.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering, fence};
use std::sync::mpsc::Sender;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tracebuf::producer::Request;
use tracebuf::proto::fields::ipc::method;
use tracebuf::service::FlushTracker;

use super::ProtoBuilder;
use super::commands::ServiceCommand;
use super::frame_reader::FrameReader;
use super::frames::ServiceFrame;
use super::outbox::FrameOutbox;
use super::program::{self as calls, Port};
use crate::link::Link;
use crate::service_link::{MessageReceiver, MessageSender, ProducerMessage, ServiceMessage};
use tracebuf_session::parts::Wait;

/// The call to which commands are replies. The lower two bits of calls before a tracing session are not set.
pub(crate) const COMMANDS: u64 = 3 << 2;

/// Most chunks and patches in one call: the service takes no more than 1,024 patches of a chunk, and this many of
/// either make a frame that is not too long.
const AT_A_TIME: usize = 1000;

/// Most answers to starts and stops of other sessions that the service has not taken: it has few sessions, and one that
/// asks without end and takes nothing would fill the memory.
const MOST_UNSAID: usize = 1000;

// The number of a call says what its reply means: which kind in the lower two bits, and how much in the rest.
const FLUSHED: u64 = 1;
const TAKEN: u64 = 2;

/// The data source that is recorded: the service's number for it, and the buffer that it goes to.
#[derive(Clone, Copy)]
pub(crate) struct RecordedSource {
    pub(crate) id: u64,
    pub(crate) buffer: u32,
}

/// What is recorded of the service's data sources.
pub(crate) enum Recorded {
    /// One, whatever buffer the program itself counts it to.
    One(RecordedSource),
    /// All that the service starts: somebody else does what it commands. The program's buffers have the service's
    /// numbers.
    All(Sender<ServiceCommand>),
}

impl Recorded {
    const fn one(&self) -> Option<RecordedSource> {
        match self {
            Self::One(one) => Some(*one),
            Self::All(_) => None,
        }
    }
}

/// What others have for the speaking side.
#[derive(Default)]
pub(crate) struct PendingReplies {
    /// Starts and stops to acknowledge.
    acknowledge: Mutex<Vec<(&'static str, u64)>>,
    stops: AtomicBool,
}

impl PendingReplies {
    fn acknowledge(&self) -> MutexGuard<'_, Vec<(&'static str, u64)>> {
        self.acknowledge.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Has a start or a stop acknowledged; `None` if there is too much to say already.
    pub(crate) fn push(&self, method: &'static str, instance: u64) -> Option<()> {
        let mut all = self.acknowledge();
        (all.len() < MOST_UNSAID).then(|| all.push((method, instance)))
    }
}

/// Both sides of a connection, with what has already come of the stream.
pub(crate) fn sender_and_receiver(
    port: Port,
    recorded: Recorded,
    frames: FrameReader,
) -> (CallSender, CallReceiver) {
    let between = Arc::<PendingReplies>::default();
    let sender = CallSender {
        port,
        one: recorded.one(),
        commit: ProtoBuilder::new(),
        committed: 0,
        flushes: FlushTracker::new(),
        outbox: FrameOutbox::default(),
        between: between.clone(),
    };
    (sender, CallReceiver { frames, recorded, between })
}

pub(crate) struct CallSender {
    port: Port,
    /// The only data source that is recorded, if that is so.
    one: Option<RecordedSource>,
    /// The arguments of a call that is not complete, and how many chunks and patches they hold.
    commit: ProtoBuilder,
    committed: usize,
    /// The service's flushes, and those of this program that are on their way.
    flushes: FlushTracker,
    outbox: FrameOutbox,
    between: Arc<PendingReplies>,
}

impl CallSender {
    /// Where starts and stops to acknowledge go.
    pub(crate) fn replies(&self) -> Arc<PendingReplies> {
        self.between.clone()
    }

    fn call(&mut self, method: &str, arguments: &ProtoBuilder) {
        self.outbox.push(&self.port.call(method, arguments, None));
    }

    /// Makes a call of the chunks and patches there are, with the number that its reply is to have.
    fn commit(&mut self, reply: Option<u64>) {
        let arguments = std::mem::take(&mut self.commit);
        self.committed = 0;
        self.outbox.push(&self.port.call(method::COMMIT_DATA, &arguments, reply));
    }

    fn end_commit(&mut self) {
        if self.committed != 0 {
            self.commit(None);
        }
    }

    fn add(&mut self, add: impl FnOnce(ProtoBuilder) -> ProtoBuilder) {
        self.commit = add(std::mem::take(&mut self.commit));
        self.committed += 1;
        if self.committed == AT_A_TIME {
            self.commit(None);
        }
    }

    /// Within a call moves are carried out before patches, and patches before a flush's end; a writer's beginning and
    /// end are calls of their own.
    fn request(&mut self, request: Request) {
        let one = self.one.map(|one| one.buffer);
        let buffer_of = |target: u16| one.unwrap_or_else(|| target.into());
        match request {
            Request::Register { writer_id, target } => {
                self.end_commit();
                let buffer = buffer_of(target);
                self.call(method::REGISTER_TRACE_WRITER, &calls::writer(writer_id, buffer));
            }
            Request::Unregister { writer_id } => {
                self.end_commit();
                self.call(method::UNREGISTER_TRACE_WRITER, &calls::writer_that_ends(writer_id));
            }
            Request::Move(chunk) => {
                self.add(|commit| calls::push_move(commit, chunk, buffer_of(chunk.target)));
            }
            Request::Patch { writer_id, target, patch, has_more } => {
                let buffer = buffer_of(target);
                self.add(|commit| calls::push_patch(commit, writer_id, buffer, patch, has_more));
            }
            Request::Flush(flush) => {
                self.commit(Some(u64::from(flush) << 2 | FLUSHED));
                self.update_flushes(|flushes| flushes.carried_out(flush));
            }
        }
    }

    /// Answers the service's flush, once everything that belongs to it is on its way.
    fn update_flushes(&mut self, update: impl FnOnce(&mut FlushTracker)) {
        let before = self.flushes.answered();
        update(&mut self.flushes);
        let answered = self.flushes.answered();
        if answered > before {
            self.add(|commit| calls::push_flush(commit, answered));
            self.end_commit();
        }
    }

    fn acknowledge(&mut self) {
        let all = std::mem::take(&mut *self.between.acknowledge());
        for (method, instance) in all {
            self.call(method, &calls::instance(instance));
        }
    }
}

impl MessageSender for CallSender {
    fn begin(&mut self) {
        if let Some(one) = self.one {
            self.call(method::NOTIFY_DATA_SOURCE_STARTED, &calls::instance(one.id));
        }
    }

    fn push(&mut self, message: ProducerMessage) {
        match message {
            ProducerMessage::Request(request) => self.request(request),
            ProducerMessage::Answer { question, flush } => self.update_flushes(|flushes| {
                flushes.ask(question);
                flushes.answer(question, Some(flush));
            }),
            ProducerMessage::Sent(chunks) => self.commit(Some(chunks << 2 | TAKEN)),
            // The protocol has no words for it; the service takes what is in incomplete chunks by itself, and answers
            // the flush when that is done.
            ProducerMessage::Dropped { .. } | ProducerMessage::Scrape(_) => {}
        }
    }

    fn send(&mut self, link: &Link, wait: Wait) -> io::Result<bool> {
        self.acknowledge();
        self.end_commit();
        self.outbox.send(link, wait)
    }

    /// The service ends the connection once it has taken everything, and not before: if its replies were no longer
    /// taken, it would end at once.
    fn end(&mut self, link: &Link) {
        fence(Ordering::Acquire);
        if let Some(one) = self.one.filter(|_| self.between.stops.load(Ordering::Relaxed)) {
            self.call(method::NOTIFY_DATA_SOURCE_STOPPED, &calls::instance(one.id));
        }
        let _ = self.send(link, Wait::UntilDone);
        link.finish();
    }
}

pub(crate) struct CallReceiver {
    frames: FrameReader,
    recorded: Recorded,
    between: Arc<PendingReplies>,
}

impl MessageReceiver for CallReceiver {
    fn receive(&mut self, link: &Link, act: &mut dyn FnMut(ServiceMessage)) -> Option<()> {
        let take = |frame: &[u8]| {
            Some(match ServiceFrame::of(frame)? {
                // When a call has failed the service does not know this program any more.
                ServiceFrame::Reply(_, None) => return None,
                ServiceFrame::Reply(COMMANDS, Some(command)) => (COMMANDS, ServiceCommand::of(command)?),
                ServiceFrame::Reply(request, _) => (request, ServiceCommand::Other),
                ServiceFrame::Bound(_) | ServiceFrame::Other => (0, ServiceCommand::Other),
            })
        };
        let (request, command) = self.frames.next(|bytes| link.receive_some(bytes), take).ok()?;
        match (request, request & 3) {
            (COMMANDS, _) => self.command(command, act)?,
            (_, FLUSHED) => {
                let flush = (request >> 2) as u32;
                act(ServiceMessage::Flushed(flush));
                act(ServiceMessage::Scraped(flush));
            }
            (_, TAKEN) => act(ServiceMessage::Taken(request >> 2)),
            _ => {}
        }
        Some(())
    }
}

impl CallReceiver {
    fn command(&self, command: ServiceCommand, act: &mut dyn FnMut(ServiceMessage)) -> Option<()> {
        let one = match &self.recorded {
            Recorded::One(one) => one.id,
            Recorded::All(told) => return told.send(command).ok(),
        };
        match command {
            ServiceCommand::Flush { request, .. } => act(ServiceMessage::Question(request)),
            ServiceCommand::ClearState { .. } => act(ServiceMessage::ClearState),
            ServiceCommand::Stop { instance } if instance == one => {
                self.between.stops.store(true, Ordering::Relaxed);
                // A thread that sees that recording is off must see why.
                fence(Ordering::Release);
                act(ServiceMessage::Stop);
            }
            // One of another session, which gets nothing as long as this one is there.
            ServiceCommand::Start { instance, .. } => {
                self.between.push(method::NOTIFY_DATA_SOURCE_STARTED, instance)?;
                act(ServiceMessage::ToAnswer);
            }
            ServiceCommand::Stop { instance } => {
                self.between.push(method::NOTIFY_DATA_SOURCE_STOPPED, instance)?;
                act(ServiceMessage::ToAnswer);
            }
            ServiceCommand::UseMemory { .. } | ServiceCommand::Other => {}
        }
        Some(())
    }
}

#[cfg(test)]
mod tests {
    use tracebuf::producer::{ChunkPatch, ChunkToMove};

    use super::*;
    use crate::perfetto::calls::{METHODS, ProducerCall};
    use crate::perfetto::frames::{MAX_IPC_FRAME, bound};
    use crate::perfetto::sdk_producer::Said;

    fn both() -> (CallSender, CallReceiver) {
        let bound = bound(1, METHODS);
        let Some(ServiceFrame::Bound(bound)) = ServiceFrame::of(bound.as_bytes()) else {
            panic!("it is bound")
        };
        let port = Port::of(bound).expect("all methods are there");
        sender_and_receiver(port, Recorded::One(RecordedSource { id: 7, buffer: 4 }), FrameReader::new())
    }

    fn sender() -> CallSender {
        both().0
    }

    /// What a service hears from this.
    fn sent(sender: &mut CallSender) -> Vec<Said> {
        sender.end_commit();
        let (mut all, mut bytes) = (Vec::new(), sender.outbox.bytes.as_slice());
        while let Some((len, rest)) = bytes.split_first_chunk() {
            let (frame, rest) = rest.split_at(u32::from_le_bytes(*len) as usize);
            assert!(frame.len() <= MAX_IPC_FRAME);
            all.extend(Said::all_of(frame).expect("no malformed one"));
            bytes = rest;
        }
        sender.outbox.bytes.clear();
        all
    }

    fn request(request: Request) -> Said {
        Said::Call(ProducerCall::Request(request))
    }

    /// As the service hears them: it counts its buffers from 1 on.
    fn requests(target: u16) -> Vec<Request> {
        let moved = |at: u32| Request::Move(ChunkToMove { page: u32::MAX - at, chunk: at % 14, target });
        let patched = |at: u32| {
            let patch = ChunkPatch { chunk_id: u32::MAX - at, offset: u16::MAX, data: [0x80, 0x80, 0x80, 0] };
            Request::Patch { writer_id: 1023, target, patch, has_more: at.is_multiple_of(2) }
        };
        let mut all = vec![Request::Register { writer_id: 1023, target }];
        all.extend((0..5000).map(moved));
        all.extend((0..5000).map(patched));
        all.push(Request::Unregister { writer_id: 1023 });
        all
    }

    #[test]
    fn requests_come_whole_in_their_order_and_in_frames_that_are_not_too_long() {
        let mut sender = sender();
        requests(0).into_iter().for_each(|request| sender.request(request));
        let expected = requests(3).into_iter().map(request);
        assert!(sent(&mut sender).into_iter().eq(expected));
    }

    #[test]
    fn the_services_flush_is_answered_when_all_that_belongs_to_it_is_on_its_way() {
        let mut sender = sender();
        let moved = |target| Request::Move(ChunkToMove { page: 1, chunk: 1, target });
        let answer = |flush: u64| Said::Answer { request: flush << 2 | FLUSHED, is_known: true };
        // The flush is asked for, but another thread is sending, and does it later.
        sender.push(ProducerMessage::Answer { question: 70, flush: 5 });
        sender.request(Request::Flush(3));
        assert_eq!(sent(&mut sender), [answer(3)]);
        sender.request(moved(0));
        sender.request(Request::Flush(5));
        let all = [request(moved(3)), answer(5), Said::Call(ProducerCall::Flushed(70))];
        assert_eq!(sent(&mut sender), all);
        // The flush was on its way before.
        sender.request(Request::Flush(7));
        sender.push(ProducerMessage::Answer { question: 71, flush: 7 });
        assert_eq!(sent(&mut sender), [answer(7), Said::Call(ProducerCall::Flushed(71))]);
        assert_eq!(sent(&mut sender), []);
        sender.push(ProducerMessage::Sent(9));
        assert_eq!(sent(&mut sender), [Said::Answer { request: 9 << 2 | TAKEN, is_known: true }]);
    }

    #[test]
    fn a_service_that_starts_and_stops_without_end_and_takes_nothing_does_not_fill_the_memory() {
        let (mut sender, receiver) = both();
        let starts = |instances: std::ops::Range<u64>| {
            let start = |instance| {
                let start = ServiceCommand::Start { instance, buffer: 1, config: Vec::new() };
                receiver.command(start, &mut |_| {})
            };
            instances.map(start).filter(Option::is_some).count()
        };
        assert_eq!((starts(8..100), starts(100..10_000)), (92, MOST_UNSAID - 92));
        sender.acknowledge();
        assert_eq!(starts(8..100), 92, "those were said");
    }
}
