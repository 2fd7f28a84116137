//! Your own transport from a producer to a session: its requests go over one line of bytes, and what the session says
//! comes back over another. Here both ends are in one program, but the producer could be on another processor that
//! shares memory with this one.
//!
//! `cargo run --release -p tracebuf-std --example transport` writes `transport.pftrace`, or the file given after `--`.
#![cfg_attr(not(unix), allow(unused))]

#[cfg(not(unix))]
fn main() {
    eprintln!("the line of this example is a socket of a Unix");
}

#[cfg(unix)]
fn main() -> Result<(), Box<dyn std::error::Error>> {
    program::run()
}

#[cfg(unix)]
mod program {
    use std::error::Error;
    use std::io::{ErrorKind, Read, Write};
    use std::net::Shutdown;
    use std::os::unix::net::UnixStream;
    use std::path::PathBuf;
    use std::sync::{Mutex, PoisonError};

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
    const THREADS: u32 = 2;
    const EVENTS: u64 = 1_000;

    /// A message on the line: 16 bytes. Anything but a request has a first byte that no request has.
    type Message = [u8; Request::BYTES];
    /// The session asks for what there is, with a number; the answer has that number and that of a flush.
    const QUESTION: u8 = 0x80;
    const ANSWER: u8 = 0x81;
    /// The session has carried out everything up to a flush.
    const FLUSHED: u8 = 0x82;

    fn message(kind: u8, first: u32, second: u32) -> Message {
        let mut message = [0; Request::BYTES];
        message[0] = kind;
        message[4..8].copy_from_slice(&first.to_le_bytes());
        message[8..12].copy_from_slice(&second.to_le_bytes());
        message
    }

    fn numbers(message: &Message) -> (u32, u32) {
        let number = |at| u32::from_le_bytes(std::array::from_fn(|i| message[at + i]));
        (number(4), number(8))
    }

    /// The producer's end. The waker stands for the interrupt by which another processor would announce a message.
    struct Line(Mutex<UnixStream>, Waker);

    impl Line {
        fn say(&self, message: Message) {
            // Without a session there is nobody to tell.
            let _ = self.0.lock().unwrap_or_else(PoisonError::into_inner).write_all(&message);
            self.1.wake();
        }
    }

    impl CommitSink for Line {
        fn commit(&self, request: &CommitRequest<'_>) {
            request.each().for_each(|request| self.say(request.to_bytes()));
        }

        fn register_writer(&self, writer_id: u16, target: u16) {
            self.say(Request::Register { writer_id, target }.to_bytes());
        }

        fn unregister_writer(&self, writer_id: u16) {
            self.say(Request::Unregister { writer_id }.to_bytes());
        }
    }

    /// The session's end.
    struct Remote<'m> {
        endpoint: ProducerEndpoint<'m, WRITERS>,
        /// Read without waiting; a message that is not yet whole is kept below.
        line: UnixStream,
        message: Message,
        filled: usize,
        is_connected: bool,
    }

    impl Remote<'_> {
        fn take(&mut self, buffers: &mut [CentralBuffer], flushes: &mut FlushTracker) {
            if let Some(request) = Request::from_bytes(self.message) {
                if let Some(flush) = self.endpoint.carry_out_one(&request, buffers) {
                    flushes.carried_out(flush);
                    self.say(message(FLUSHED, flush, 0));
                }
            } else if self.message[0] == ANSWER {
                let (question, flush) = numbers(&self.message);
                flushes.answer(question.into(), Some(flush));
            }
        }

        /// Does not wait. The line has room for thousands of these messages: a producer that reads none is gone.
        fn say(&mut self, message: Message) {
            let _ = self.line.write(&message);
        }
    }

    impl Transport for Remote<'_> {
        fn drain(&mut self, buffers: &mut [CentralBuffer], flushes: &mut FlushTracker) {
            loop {
                match self.line.read(&mut self.message[self.filled..]) {
                    Ok(0) => self.is_connected = false,
                    Ok(count) => self.filled += count,
                    Err(error) if error.kind() == ErrorKind::WouldBlock => return,
                    Err(error) if error.kind() == ErrorKind::Interrupted => {}
                    Err(_) => self.is_connected = false,
                }
                if !self.is_connected {
                    return;
                }
                if self.filled == Request::BYTES {
                    self.filled = 0;
                    self.take(buffers, flushes);
                }
            }
        }

        fn ask_flush(&mut self, question: u64) {
            self.say(message(QUESTION, question as u32, 0));
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
            let _ = self.line.shutdown(Shutdown::Both);
        }
    }

    pub(super) fn run() -> Result<(), Box<dyn Error>> {
        let path = PathBuf::from(std::env::args().nth(1).unwrap_or_else(|| "transport.pftrace".into()));
        let session = Session::builder().ring(16 << 20).start()?;
        let (ours, theirs) = UnixStream::pair()?;
        ours.set_nonblocking(true)?;
        // Lives as long as the program, like memory that two processors share.
        let words = Box::leak(vec![0; SHARED / 4].into_boxed_slice());
        let memory = SharedMemory::new(atomic_words(words), 4096)?;

        let identity = ProducerIdentity { producer_id: session.new_producer_id()?, uid: u32::MAX, pid: -1 };
        let mut endpoint = ProducerEndpoint::new(Consumer::new(memory), identity);
        endpoint.allow(0);
        session.attach(Remote {
            endpoint,
            line: ours,
            message: Message::default(),
            filled: 0,
            is_connected: true,
        })?;

        let storage = ProducerStorage::<CHUNKS, WRITERS>::new();
        let line = Line(Mutex::new(theirs.try_clone()?), session.waker());
        let producer = Producer::new(memory, Layout::Four, &storage, &line)?;
        std::thread::scope(|scope| -> Result<(), Box<dyn Error>> {
            scope.spawn(|| listen(&producer, &line, &theirs));
            let work = |number| {
                scope.spawn({
                    let producer = &producer;
                    move || work(producer, number)
                })
            };
            let threads: Vec<_> = (1..=THREADS).map(work).collect();
            let all_done =
                threads.into_iter().map(|thread| thread.join()).filter(Result::is_err).count() == 0;
            let written = session.snapshot().map(|snapshot| snapshot.write_to(&path));
            theirs.shutdown(Shutdown::Both)?; // the producer goes, and its thread that listens ends
            assert!(all_done, "a thread has panicked");
            println!("{} packets in {}", written??.packets, path.display());
            Ok(())
        })?;
        println!("lost: {}", session.stop()?.summary().losses());
        Ok(())
    }

    /// Answers the session.
    fn listen(producer: &Producer<'_>, line: &Line, mut theirs: &UnixStream) {
        let mut heard = Message::default();
        while theirs.read_exact(&mut heard).is_ok() {
            let (number, _) = numbers(&heard);
            match heard[0] {
                QUESTION => {
                    let flush = producer.flush();
                    line.say(message(ANSWER, number, flush));
                }
                FLUSHED => producer.flushed(number),
                _ => {}
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
}
