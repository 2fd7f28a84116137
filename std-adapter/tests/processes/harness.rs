//! A service, and other processes that record into it.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Lines};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use tracebuf::producer::Exhaustion;
use tracebuf_std::session::{
    Connection, PacketWriter, ProducerSocket, ProducerSocketBuilder, Session, SessionBuilder, Stopped,
};

use crate::trace::{Trace, message, number, scratch};

/// For what takes some milliseconds, or for ever.
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);

/// A socket's path: short enough for the system, wherever this project lies.
pub(crate) fn socket_path(test: &str) -> PathBuf {
    std::env::temp_dir().join(format!("tracebuf-{}-{test}", std::process::id()))
}

/// Does something in a child after a fork while that has threads of its own, some of which the system may have put where
/// the parent's, which are not here, have been.
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
    let mut command = Command::new(std::env::current_exe().expect("this program"));
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

    /// The number behind the last word of this kind, which it waits for.
    pub(crate) fn says(&mut self, word: &str) -> u64 {
        let lines = self.said.by_ref().map(|line| line.expect("text"));
        let mut numbers = lines.filter_map(|line| line.rsplit_once(word)?.1.trim().parse().ok());
        numbers.next().unwrap_or_else(|| panic!("it says {word}"))
    }

    pub(crate) fn signal(&self, signal: i32) {
        // SAFETY: a child that was not waited for.
        assert_eq!(unsafe { libc::kill(self.child.id() as i32, signal) }, 0);
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

/// In the other process: what the test that started it listens to.
pub(crate) fn socket_of_parent() -> PathBuf {
    std::env::var_os("TRACEBUF_SOCKET").expect("run by another test").into()
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
