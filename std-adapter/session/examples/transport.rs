//! Your own transport from a producer to a session: its requests go over a line of bytes, and what the session says
//! comes back over a channel. Here both ends are in one program, but the producer could be on another processor that
//! shares memory with this one.
//!
//! `cargo run --release -p tracebuf-session --example transport` writes `transport.pftrace`, or the file given after
//! `--`.

use std::error::Error;
use std::io::{PipeReader, PipeWriter, Read, Write, pipe};
use std::path::PathBuf;
use std::sync::mpsc::{Receiver, Sender, TryRecvError, channel};
use std::sync::{Mutex, PoisonError};
use std::thread;

use tracebuf::producer::track_event::{Tracer, TracerConfig, Track};
use tracebuf::producer::{
    CommitRequest, CommitSink, Consumer, Exhaustion, Layout, Producer, ProducerStorage, Request,
    SharedMemory, atomic_words,
};
use tracebuf::service::{EndpointStats, FlushTracker, ProducerEndpoint, ProducerIdentity};
use tracebuf_session::{BootClock, CentralBuffer, Session, Transport, Waker};

/// Bytes of shared memory, in pages of 4 KiB with four chunks each, and the most writers at a time.
const SHARED: usize = 256 * 1024;
const CHUNKS: usize = SHARED / 1024;
const WRITERS: usize = 8;
const EVENTS: u64 = 1_000;

/// A message on the line. An answer begins with a byte that no request begins with, and has the numbers of the question
/// and of a flush.
type Message = [u8; Request::BYTES];
const ANSWER: u8 = 0x80;

/// What the session says.
enum Said {
    /// It asks for what there is, with a number that the answer repeats.
    Question(u32),
    /// It has carried out everything up to a flush.
    Flushed(u32),
}

/// The producer's end of the line.
struct Line(Mutex<PipeWriter>);

impl Line {
    fn send(&self, message: Message) {
        // Without a session there is nobody to tell.
        let _ = self.0.lock().unwrap_or_else(PoisonError::into_inner).write_all(&message);
    }
}

impl CommitSink for Line {
    fn commit(&self, request: &CommitRequest<'_>) {
        request.each().for_each(|request| self.send(request.to_bytes()));
    }

    fn register_writer(&self, writer_id: u16, target: u16) {
        self.send(Request::Register { writer_id, target }.to_bytes());
    }

    fn unregister_writer(&self, writer_id: u16) {
        self.send(Request::Unregister { writer_id }.to_bytes());
    }
}

/// The session's end.
struct Remote {
    endpoint: ProducerEndpoint<'static, WRITERS>,
    heard: Receiver<Message>,
    /// `None` once the session has ended.
    says: Option<Sender<Said>>,
    is_connected: bool,
}

impl Remote {
    /// Does not wait; a producer that is gone hears nothing.
    fn say(&self, said: Said) {
        let _ = self.says.as_ref().map(|says| says.send(said));
    }
}

impl Transport for Remote {
    fn drain(&mut self, buffers: &mut [CentralBuffer], flushes: &mut FlushTracker) {
        loop {
            match self.heard.try_recv() {
                Ok(message) if message[0] == ANSWER => {
                    let number = |at| u32::from_le_bytes(std::array::from_fn(|byte| message[at + byte]));
                    flushes.answer(number(4).into(), Some(number(8)));
                }
                Ok(message) => {
                    let Some(request) = Request::from_bytes(message) else { continue };
                    if let Some(flush) = self.endpoint.carry_out_one(&request, buffers) {
                        flushes.carried_out(flush);
                        self.say(Said::Flushed(flush));
                    }
                }
                Err(TryRecvError::Empty) => return,
                Err(TryRecvError::Disconnected) => {
                    self.is_connected = false;
                    return;
                }
            }
        }
    }

    fn ask_flush(&mut self, question: u64) {
        self.say(Said::Question(question as u32));
    }

    fn scrape(&mut self, buffers: &mut [CentralBuffer]) {
        self.endpoint.scrape(buffers);
    }

    fn stats(&self) -> EndpointStats {
        self.endpoint.stats()
    }

    fn identity(&self) -> Option<ProducerIdentity> {
        Some(self.endpoint.identity())
    }

    fn is_connected(&self) -> bool {
        self.is_connected
    }

    fn disconnect(&mut self, buffers: &mut [CentralBuffer]) {
        // All requests have come: the line has ended after them.
        self.endpoint.disconnect(buffers);
    }

    fn end(&mut self) {
        self.says = None;
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let path = PathBuf::from(std::env::args().nth(1).unwrap_or_else(|| "transport.pftrace".into()));
    // Lives as long as the program, like memory that two processors share.
    let words = Box::leak(vec![0; SHARED / 4].into_boxed_slice());
    let memory = SharedMemory::new(atomic_words(words), 4096)?;
    let (ours, theirs) = pipe()?;
    let (says, said) = channel();

    let storage = ProducerStorage::<CHUNKS, WRITERS>::new();
    let line = Line(Mutex::new(theirs));
    let producer = Producer::new(memory, Layout::Four, &storage, &line)?;
    let (producer, line) = (&producer, &line);
    thread::scope(move |scope| {
        let session = Session::builder().ring(16 << 20).start()?;
        let identity = ProducerIdentity { producer_id: session.new_producer_id()?, uid: u32::MAX, pid: -1 };
        let mut endpoint = ProducerEndpoint::new(Consumer::new(memory), identity);
        endpoint.allow(0);
        let (sender, heard) = channel();
        let waker = session.waker();
        thread::spawn(move || hear(ours, &sender, &waker));
        session.attach(Remote { endpoint, heard, says: Some(says), is_connected: true })?;

        scope.spawn(move || answer(producer, line, &said));
        let threads = [1, 2].map(|number| scope.spawn(move || work(producer, number)));
        threads.into_iter().for_each(|thread| thread.join().expect("no panic"));
        let written = session.snapshot()?.write_to(&path)?;
        println!("{} packets in {}", written.packets, path.display());
        println!("lost: {}", session.stop()?.summary().losses());
        Ok(())
    })
}

/// Reads the line, as the handler of the other processor's interrupts does, until that is gone.
fn hear(mut line: PipeReader, heard: &Sender<Message>, waker: &Waker) {
    let mut message = Message::default();
    while line.read_exact(&mut message).is_ok() && heard.send(message).is_ok() {
        waker.wake();
    }
}

/// Answers the session, until that has ended.
fn answer(producer: &Producer<'_>, line: &Line, said: &Receiver<Said>) {
    for said in said {
        match said {
            Said::Question(question) => {
                let mut message = [ANSWER; Request::BYTES];
                message[4..8].copy_from_slice(&question.to_le_bytes());
                message[8..12].copy_from_slice(&producer.flush().to_le_bytes());
                line.send(message);
            }
            Said::Flushed(flush) => producer.flushed(flush),
        }
    }
}

/// The producer's work.
fn work(producer: &Producer<'_>, number: u32) {
    let track = Track::thread(1, number, "of another processor");
    let writer = producer.writer(0, Exhaustion::Stall).expect("one of eight");
    let config = TracerConfig::new(1_000_000_000).state_every(4 << 20);
    let tracer = Tracer::<_, 16, 4>::with_tables(writer, BootClock, &track, config);
    for event in 0..EVENTS {
        tracer.track().instant_with("event", |details| details.arg("number", event));
    }
}
