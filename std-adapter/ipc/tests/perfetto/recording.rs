//! What programs write into shared memory, and what of it is in the trace.

use std::os::fd::OwnedFd;
use std::sync::Mutex;

use memmap2::{MmapOptions, MmapRaw};
use tracebuf::producer::{
    AtomicU32, CommitRequest, CommitSink, Exhaustion, Layout, Producer, ProducerStorage, Request,
    SharedMemory, TraceWriter,
};
use tracebuf_ipc::{PerfettoSocket, PerfettoSocketBuilder};
use tracebuf_session::Session;

use crate::program::{
    COMMIT, INITIALIZE, LISTEN, Message, PATIENCE, Program, REGISTER, REGISTER_WRITER, Service,
    UNREGISTER_WRITER, descriptor, waits_for,
};
use crate::trace::{Trace, message, number};

/// What the program's writers ask for, until it is sent.
#[derive(Default)]
pub(crate) struct Asked(Mutex<Vec<Request>>);

impl CommitSink for Asked {
    fn commit(&self, request: &CommitRequest<'_>) {
        self.0.lock().expect("no panic").extend(request.each());
    }

    fn register_writer(&self, writer_id: u16, target: u16) {
        self.0.lock().expect("no panic").push(Request::Register { writer_id, target });
    }
}

/// Shared memory, as the service has made it.
struct Memory(MmapRaw);

impl Memory {
    fn of(file: &OwnedFd) -> Self {
        Self(MmapOptions::new().map_raw(file).expect("memory"))
    }

    fn words(&self) -> &[AtomicU32] {
        // SAFETY: this many bytes are mapped, at the start of a page, and all access is atomic.
        unsafe { std::slice::from_raw_parts(self.0.as_ptr().cast(), self.0.len() / 4) }
    }
}

/// Lets a producer of the program's write, and gets what is to be sent.
pub(crate) fn writing(program: &mut Program, write: impl FnOnce(&Producer<'_>, &Asked, &mut Program)) {
    let memory = Memory::of(program.memory.as_ref().expect("it has come"));
    let (storage, asked) = (ProducerStorage::<256, 8>::new(), Asked::default());
    let memory = SharedMemory::new(memory.words(), 4096).expect("pages");
    let producer = Producer::new(memory, Layout::One, &storage, &asked).expect("enough room for it");
    write(&producer, &asked, program);
}

/// Sends all that was asked for, with the buffer's number as the protocol has it.
pub(crate) fn send(program: &mut Program, asked: &Asked) {
    let requests = std::mem::take(&mut *asked.0.lock().expect("no panic"));
    for request in requests {
        let (method, arguments) = match request {
            Request::Register { writer_id, target } => {
                let writer = Message::default().number(1, writer_id.into());
                (REGISTER_WRITER, writer.number(2, u64::from(target) + 1))
            }
            Request::Move(chunk) => {
                let moved = Message::default().number(1, chunk.page.into()).number(2, chunk.chunk.into());
                (COMMIT, Message::default().message(1, &moved.number(3, u64::from(chunk.target) + 1)))
            }
            Request::Patch { writer_id, target, patch, has_more } => {
                let within = Message::default().number(1, patch.offset.into()).bytes(2, &patch.data);
                let chunk = Message::default().number(1, u64::from(target) + 1).number(2, writer_id.into());
                let chunk = chunk.number(3, patch.chunk_id.into()).message(4, &within);
                (COMMIT, Message::default().message(2, &chunk.number(5, has_more.into())))
            }
            // Anyone waiting for that writer's flush hears of it some other way.
            Request::Flush(_) => continue,
            Request::Unregister { .. } => panic!("no writer ends here"),
        };
        program.call(method, &arguments);
        assert!(program.hear().is_success);
    }
}

fn service(test: &str, socket: PerfettoSocketBuilder) -> Service {
    Service::start(test, Session::builder().ring(8 << 20), socket)
}

/// A packet of this many bytes.
pub(crate) fn packet(writer: &mut TraceWriter<'_>, time: u64, len: usize) {
    let mut packet = writer.packet();
    packet.varint(8, time);
    packet.message(900).string(1, &"x".repeat(len));
}

/// Times and lengths of the packets that processes have written, with the mask of what was lost before.
fn packets(trace: &Trace) -> Vec<(u64, usize, Option<u64>)> {
    let of = |packet| {
        let text = message(message(packet, 900)?, 1)?;
        // Who the system says it was.
        assert_eq!(number(packet, 79), Some(std::process::id().into()));
        assert_eq!(number(packet, 3), Some(rustix::process::geteuid().as_raw().into()));
        Some((number(packet, 8)?, text.len(), number(packet, 42)))
    };
    trace.packets().filter_map(of).collect()
}

#[test]
fn packets_over_many_chunks_come_whole_and_in_order() {
    let service = service("many-chunks", PerfettoSocket::builder());
    let (mut program, _) = Program::running(&service, "track_event");
    writing(&mut program, |producer, asked, program| {
        let mut writer = producer.writer(0, Exhaustion::Drop).expect("a writer");
        for time in 1..=200 {
            packet(&mut writer, time, if time % 10 == 0 { 50_000 } else { time as usize });
            send(program, asked);
        }
        writer.flush();
        send(program, asked);
    });
    let trace = end_well(service, program, "many-chunks");
    let expected = (1..=200).map(|time| (time, if time % 10 == 0 { 50_000 } else { time as usize }, None));
    assert!(packets(&trace).into_iter().eq(expected));
}

/// Stops the session, which asks for a last flush.
fn end_well(service: Service, mut program: Program, test: &'static str) -> Trace {
    let stopping = std::thread::spawn(move || service.stop(test));
    let flush = program.command();
    let number = number(message(&flush, 5).expect("a flush"), 2).expect("a number");
    program.call(COMMIT, &Message::default().number(3, number));
    stopping.join().expect("no panic")
}

/// A program that has said whether it may be scraped, and then is killed with two packets in an incomplete chunk.
/// Returns the chunks that the session has of it after a flush, and the packets at its end.
fn after_a_kill(test: &str, scraping: u64) -> (usize, usize) {
    let service = service(test, PerfettoSocket::builder());
    let mut program = Program::bound(&service);
    program.call(INITIALIZE, &Message::default().number(4, scraping).number(9, 1));
    assert!(program.hear().is_success);
    program.call(LISTEN, &Message::default());
    program.call(REGISTER, &Message::default().message(1, &descriptor("track_event").number(9, 1)));
    // Memory, source, start, and the call's own answer.
    (0..4).for_each(|_| drop(program.hear()));
    let mut flushed = 0;
    writing(&mut program, |producer, asked, program| {
        let mut writer = producer.writer(0, Exhaustion::Drop).expect("a writer");
        packet(&mut writer, 1, 10);
        packet(&mut writer, 2, 20);
        send(program, asked);
        program.sync();
        service.session.flush(PATIENCE).expect("nothing to ask");
        flushed = service.session.summary().expect("a summary").buffers[0].chunks_written as usize;
        // As after a kill: nothing more is sent, and memory stays as it is.
        std::mem::forget(writer);
    });
    drop(program);
    waits_for("it is forgotten", || service.session.summary().expect("a summary").producers.len() == 1);
    (flushed, packets(&service.stop(test)).len())
}

#[test]
fn of_a_program_that_is_killed_what_it_had_written_is_there() {
    assert_eq!(after_a_kill("killed", 0), (1, 2));
    assert_eq!(after_a_kill("killed-enabled", 1), (1, 2));
}

#[test]
fn who_may_not_be_scraped_is_not_while_it_is_there() {
    assert_eq!(after_a_kill("not-scraped", 2), (0, 2));
}

#[test]
fn programs_that_share_a_ring_are_asked_to_say_their_state_again() {
    let service = Service::start(
        "state",
        Session::builder().ring(64 << 10),
        PerfettoSocket::builder().shared_memory(64 << 10),
    );
    let (mut one, instance) = Program::running(&service, "track_event");
    let (mut other, _) = Program::running(&service, "track_event");
    writing(&mut one, |producer, asked, program| {
        let mut writer = producer.writer(0, Exhaustion::Drop).expect("a writer");
        for time in 1..=20 {
            packet(&mut writer, time, 3000);
            writer.flush();
            let requests = std::mem::take(&mut *asked.0.lock().expect("no panic"));
            for request in requests {
                let Request::Move(chunk) = request else { continue };
                let moved = Message::default().number(1, chunk.page.into()).number(2, chunk.chunk.into());
                program.invoke(4, &Message::default().message(1, &moved.number(3, 1)), false);
            }
        }
    });
    for program in [&mut one, &mut other] {
        let command = program.command();
        let clear = message(&command, 7).expect("to say it again");
        assert_eq!(number(clear, 1), Some(instance));
    }
}

#[test]
fn a_writer_with_the_number_of_one_that_has_ended_goes_on_behind_it() {
    let service = service("again", PerfettoSocket::builder());
    let (mut program, _) = Program::running(&service, "track_event");
    for life in 0..3 {
        writing(&mut program, |producer, asked, program| {
            // Another producer: its chunks are counted from 0 again, as those of each of Perfetto's writers are.
            let mut writer = producer.writer(0, Exhaustion::Drop).expect("a writer");
            assert_eq!(writer.id(), 1);
            for time in 1..=3 {
                packet(&mut writer, life * 10 + time, 6000);
                writer.flush();
                send(program, asked);
            }
            program.call(UNREGISTER_WRITER, &Message::default().number(1, 1));
            assert!(program.hear().is_success);
        });
    }
    let trace = end_well(service, program, "again");
    let expected = (0..3).flat_map(|life| (1..=3).map(move |time| (life * 10 + time, 6000, None)));
    assert!(packets(&trace).into_iter().eq(expected), "{:?}", packets(&trace));
}
