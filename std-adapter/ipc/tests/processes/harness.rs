//! A service, and other processes that record into it.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Lines};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::{Arc, Barrier};
use std::time::{Duration, Instant};

use tracebuf::producer::Exhaustion;
use tracebuf_ipc::{Connection, ProducerSocket, ProducerSocketBuilder};
use tracebuf_session::{PacketWriter, Recorder, Session, SessionBuilder, Stopped};

use crate::trace::{Trace, message, number, scratch};

/// The time allowed for what takes some milliseconds, or for ever.
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);

/// A socket's path: short enough for the system, wherever this project lies.
pub(crate) fn socket_path(test: &str) -> PathBuf {
    std::env::temp_dir().join(format!("tracebuf-{}-{test}", std::process::id()))
}

/// Does something in a child after a fork while the child has threads of its own. The system may have put some of them
/// where the parent's threads were, which are not here.
pub(crate) fn harms_no_thread_of_the_child(work: impl FnOnce()) {
    let own = || std::thread::spawn(|| std::thread::sleep(Duration::from_millis(100)));
    let threads: Vec<_> = (0..12).map(|_| own()).collect();
    work();
    threads.into_iter().for_each(|thread| thread.join().expect("it can be waited for"));
}

pub(crate) struct Service {
    pub(crate) session: Arc<Session>,
    pub(crate) socket: ProducerSocket,
    pub(crate) path: PathBuf,
}

impl Service {
    pub(crate) fn start(test: &str, session: SessionBuilder, socket: ProducerSocketBuilder) -> Self {
        let (session, path) = (Arc::new(session.start().expect("a session")), socket_path(test));
        let socket = socket.bind(&session, &path).expect("a socket");
        Self { session, socket, path }
    }

    /// Runs an ignored test of this file in a process of its own.
    pub(crate) fn run(&self, test: &str) -> Producer {
        run(&self.path, test)
    }

    pub(crate) fn stop(self) -> Stopped {
        self.session.stop().expect("it runs")
    }
}

/// Runs an ignored test of this file in a process of its own, with a socket at this path.
pub(crate) fn run(path: &Path, test: &str) -> Producer {
    run_by(Command::new(this_program()), path, test)
}

pub(crate) fn this_program() -> PathBuf {
    std::env::current_exe().expect("this program")
}

/// The same by a command that runs this program.
pub(crate) fn run_by(mut command: Command, path: &Path, test: &str) -> Producer {
    command.args([test, "--exact", "--ignored", "--nocapture"]).env("TRACEBUF_SOCKET", path);
    let mut child = command.stdout(Stdio::piped()).spawn().expect("a child");
    let said = BufReader::new(child.stdout.take().expect("a pipe")).lines();
    Producer { child, said }
}

/// Another process.
pub(crate) struct Producer {
    pub(crate) child: Child,
    said: Lines<BufReader<ChildStdout>>,
}

impl Producer {
    pub(crate) fn pid(&self) -> u64 {
        self.child.id().into()
    }

    /// The number after this word, for which it waits.
    pub(crate) fn says(&mut self, word: &str) -> u64 {
        let lines = self.said.by_ref().map(|line| line.expect("text"));
        let mut numbers = lines.filter_map(|line| line.rsplit_once(word)?.1.trim().parse().ok());
        numbers.next().unwrap_or_else(|| panic!("it says {word}"))
    }

    pub(crate) fn signal(&self, signal: i32) {
        // SAFETY: a child that was not waited for.
        assert_eq!(unsafe { libc::kill(self.child.id() as i32, signal) }, 0);
    }

    /// Makes it stand still until it is told to go on.
    pub(crate) fn stand_still(&self) {
        self.signal(libc::SIGSTOP);
        // SAFETY: a child that was not waited for, and is not, as it has not ended.
        assert!(unsafe { libc::waitpid(self.child.id() as i32, &mut 0, libc::WUNTRACED) } > 0);
    }

    pub(crate) fn assert_ends_well(mut self) {
        let (started, pid) = (Instant::now(), self.pid());
        while started.elapsed() < PATIENCE {
            if let Some(status) = self.child.try_wait().expect("a child") {
                assert!(status.success(), "{status}");
                return;
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        let _ = self.child.kill();
        panic!("{pid} does not end");
    }
}

impl Drop for Producer {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// In the other process: where the test that started it listens. `None` if no test did.
pub(crate) fn socket_of_parent() -> Option<PathBuf> {
    std::env::var_os("TRACEBUF_SOCKET").map(PathBuf::from)
}

/// A connection whose threads wait for chunks.
pub(crate) fn stalling(path: impl AsRef<Path>) -> Connection {
    Connection::builder().exhaustion(Exhaustion::Stall).open(path).expect("a service")
}

/// How long the text of a packet is: some are longer than three chunks.
pub(crate) fn len_of(number: u64) -> usize {
    if number % 100 == 99 { 7000 } else { number as usize % 200 }
}

pub(crate) fn write_number(writer: &mut PacketWriter, number: u64) {
    writer.packet(|packet| {
        packet.varint(8, number + 1);
        packet.message(900).string(1, &"x".repeat(len_of(number)));
    });
}

/// For each thread; fewer where everything is slow.
pub(crate) fn packets() -> u64 {
    std::env::var("TRACEBUF_STRESS_PACKETS").map_or(20_000, |count| count.parse().expect("a number"))
}

/// Each of two threads writes all of them, waiting for room.
pub(crate) fn write_by_two_threads(recorder: &Recorder) {
    // Two at a time: otherwise the second could have the first one's sequence.
    let both = Barrier::new(2);
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                let mut writer = recorder.packet_writer().expect("a writer");
                both.wait();
                (0..packets()).for_each(|number| write_number(&mut writer, number));
                assert_eq!(writer.stats().dropped, 0);
            });
        }
    });
}

/// Checks that everything is there from processes with two such threads each.
pub(crate) fn assert_all_of_two_threads(all: &BTreeMap<(u64, u64), Vec<u64>>, pids: &[u64]) {
    assert!(all.values().all(|numbers| *numbers == Vec::from_iter(0..packets())));
    for pid in pids {
        assert_eq!(all.keys().filter(|(of, _)| of == pid).count(), 2, "two threads");
    }
    assert_eq!(all.len(), 2 * pids.len());
}

/// Reports how far it has come, until this process is killed.
pub(crate) fn write_until_killed(recorder: &Recorder) {
    let mut writer = recorder.packet_writer().expect("a writer");
    for number in 0.. {
        write_number(&mut writer, number);
        println!("recorded {number}");
    }
}

/// Whether some of the packets that such a writer had written are missing: only those over three chunks or more, whose
/// sizes were not sent, may be.
pub(crate) fn long_ones_are_missing(written: &[u64]) -> bool {
    assert!(written.is_sorted());
    let all = 0..*written.last().expect("a packet");
    let missing: Vec<_> = all.filter(|number| written.binary_search(number).is_err()).collect();
    assert!(missing.iter().all(|number| len_of(*number) > 4000), "{missing:?}");
    !missing.is_empty()
}

/// The numbers of such packets, by process and sequence; all are whole.
pub(crate) fn numbers(trace: &Trace) -> BTreeMap<(u64, u64), Vec<u64>> {
    let mut all = BTreeMap::<_, Vec<u64>>::new();
    for packet in trace.packets() {
        let Some(text) = message(packet, 900).and_then(|text| message(text, 1)) else { continue };
        let written = number(packet, 8).expect("a time") - 1;
        assert_eq!(text.len(), len_of(written));
        let of = (number(packet, 79).expect("a process"), number(packet, 10).expect("a sequence"));
        all.entry(of).or_default().push(written);
    }
    all
}

pub(crate) fn write(mut stopped: Stopped, test: &str) -> Trace {
    let path = scratch(&format!("{test}.pftrace"));
    stopped.write_to(&path).expect("a file");
    Trace::read(&path)
}

pub(crate) fn waits_for(what: &str, mut is_so: impl FnMut() -> bool) {
    let started = Instant::now();
    while !is_so() {
        assert!(started.elapsed() < PATIENCE, "{what}");
        std::thread::sleep(Duration::from_millis(2));
    }
}
