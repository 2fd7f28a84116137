//! `sockets`: programs that come to a service's sockets, with this project's protocol or with Perfetto's, and say
//! whatever they like.
//!
//! Whatever they do, what the service's own thread has recorded is in its trace, once; the trace is whole messages; the
//! service ends when it is told to, and leaves nothing open.

use crate::input::Input;
use crate::trace;
use program::{Program, Protocol};
use std::fs;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant, SystemTime};
use tracebuf::producer::{ChunkPatch, ChunkToMove, Request};
use tracebuf_ipc::{PerfettoSocket, ProducerSocket};
use tracebuf_session::{Recorder, Session};

mod program;

/// Bytes of shared memory with each program: four pages.
const SHARED: usize = 16 << 10;
/// Programs at a time; one for which there is no place waits a second.
const PROGRAMS: usize = 4;
/// The longest that a thread takes to answer or to end.
const PATIENCE: Duration = Duration::from_secs(5);
/// How long a program waits for memory while fuzzing: what it said may never be answered.
const A_WHILE: Duration = Duration::from_millis(20);

/// Runs one input.
pub fn run(data: &[u8]) {
    play(data, A_WHILE);
}

/// The same for programs that are answered; returns how many of all their chunks came into the trace.
pub fn chunks_of(data: &[u8]) -> u64 {
    play(data, PATIENCE)
}

/// Only one runs at a time, because open files are counted for the whole process.
fn play(data: &[u8], patience: Duration) -> u64 {
    static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());
    let _one = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    let before = open_files();
    let mut input = Input::new(data);
    let mut scene = Scene::start(&mut input, patience);
    while !input.is_over() {
        scene.step(&mut input);
    }
    let chunks = scene.end();
    let ended = Instant::now();
    while open_files() > before {
        assert!(ended.elapsed() < PATIENCE, "{before} open files before, {} afterwards", open_files());
        std::thread::sleep(Duration::from_millis(1));
    }
    chunks
}

fn open_files() -> usize {
    fs::read_dir("/proc/self/fd").map_or(0, Iterator::count)
}

struct Scene {
    session: Arc<Session>,
    _sockets: (ProducerSocket, PerfettoSocket),
    paths: [PathBuf; 2],
    recorder: Recorder,
    /// A part of the names of its own events that is in no input.
    secret: u128,
    recorded: u32,
    programs: Vec<Program>,
    /// How long one of these programs waits for memory.
    patience: Duration,
}

impl Scene {
    fn start(input: &mut Input<'_>, patience: Duration) -> Self {
        // The first buffer has room for everything that an input can bring, so that nothing of the service's own is
        // overwritten.
        let session = Session::builder()
            .ring(4 << 20)
            .ring(8 << 10 << (input.byte() % 8))
            .data_source("theirs", 1)
            .shared_memory(64 << 10)
            .start();
        let session = Arc::new(session.expect("a session"));
        let paths = ["own", "perfetto"]
            .map(|kind| std::env::temp_dir().join(format!("tracebuf-fuzz-{}-{kind}", std::process::id())));
        let own = ProducerSocket::builder().shared_memory(SHARED).bind(&session, &paths[0]);
        let perfetto = PerfettoSocket::builder()
            .shared_memory(SHARED)
            .data_source("track_event", "")
            .data_source("theirs", "")
            .bind(&session, &paths[1]);
        let _sockets = (own.expect("a socket"), perfetto.expect("a socket"));
        let recorder = session.recorder();
        let secret = SystemTime::UNIX_EPOCH.elapsed().map_or(0, |time| time.as_nanos());
        let programs = Vec::new();
        let mut scene = Self { session, _sockets, paths, recorder, secret, recorded: 0, programs, patience };
        scene.record();
        scene
    }

    fn record(&mut self) {
        let name = self.name(self.recorded);
        self.recorder.instant_with("", |event| event.name(&name));
        self.recorded += 1;
    }

    /// A name that is not contained in another.
    fn name(&self, number: u32) -> String {
        format!("<own event {number} {}>", self.secret)
    }

    fn step(&mut self, input: &mut Input<'_>) {
        let (what, who) = (input.byte(), usize::from(input.byte()));
        trace(|| format!("step {what} of {who}"));
        match what % 12 {
            0 => self.come(who),
            1 => self.record(),
            // Its result does not matter: programs need not answer.
            2 => drop(self.session.flush(Duration::from_millis(u64::from(who as u8 % 4)))),
            other => {
                let count = self.programs.len().max(1);
                let Some(program) = self.programs.get_mut(who % count) else { return };
                match other {
                    3 => program.get_ready(self.patience),
                    4 => program.say(&request(input)),
                    5 => program.write_chunk(input),
                    6 => program.call(input),
                    7 => program.send(input.bytes(64)),
                    8 => program.send_with_files(input),
                    9 => program.write(u64::from(input.u16()), input.bytes(16)),
                    10 => program.hear(),
                    _ => drop(self.programs.remove(who % count)),
                }
            }
        }
    }

    fn come(&mut self, who: usize) {
        if self.programs.len() < PROGRAMS {
            let (protocol, path) = match who % 2 {
                0 => (Protocol::Own, &self.paths[0]),
                _ => (Protocol::Perfetto, &self.paths[1]),
            };
            self.programs.push(Program::come(protocol, path));
        }
    }

    fn end(mut self) -> u64 {
        self.record();
        // If one stayed and did not answer, the service would wait for seconds, as documented.
        self.programs.clear();
        let path = self.paths[0].with_extension("pftrace");
        let began = Instant::now();
        let mut stopped = self.session.stop().expect("it runs");
        assert!(began.elapsed() < PATIENCE, "the session waits for programs that have gone");
        stopped.write_to(&path).expect("a file");
        check(&fs::read(&path).expect("the trace"), (0..self.recorded).map(|number| self.name(number)));
        fs::remove_file(path).expect("it is there");
        let chunks: u64 = stopped.summary().buffers.iter().map(|buffer| buffer.chunks_written).sum();
        // All of the service's own are in one chunk.
        chunks - 1
    }
}

fn check(trace: &[u8], own: impl Iterator<Item = String>) {
    for name in own {
        let times = trace.windows(name.len()).filter(|window| *window == name.as_bytes()).count();
        assert_eq!(times, 1, "{name}");
    }
    let mut rest = trace;
    while let Some((tag, behind)) = rest.split_first() {
        assert_eq!(*tag, 0x0A, "a trace is packets");
        let digits = behind.iter().position(|byte| byte & 0x80 == 0).expect("a length") + 1;
        let (length, behind) = behind.split_at(digits);
        let length = length.iter().rev().fold(0, |length, digit| length << 7 | usize::from(digit & 0x7F));
        rest = behind.get(length..).expect("a whole packet");
    }
}

/// Any request about shared memory, mostly with small numbers.
fn request(input: &mut Input<'_>) -> Request {
    let kind = input.byte();
    let [writer_id, target] = [(); 2].map(|()| match input.byte() {
        255 => u16::MAX,
        small => u16::from(small % 8),
    });
    match kind % 5 {
        0 => Request::Register { writer_id, target },
        1 => Request::Unregister { writer_id },
        2 => {
            let [page, chunk] = [(); 2].map(|()| u32::from(input.byte() % 16));
            Request::Move(ChunkToMove { page, chunk, target })
        }
        3 => {
            let (chunk_id, offset, data) = (u32::from(input.byte()), input.u16(), input.u32().to_le_bytes());
            let patch = ChunkPatch { chunk_id, offset, data };
            Request::Patch { writer_id, target, patch, has_more: kind >= 128 }
        }
        _ => Request::Flush(input.u32()),
    }
}
