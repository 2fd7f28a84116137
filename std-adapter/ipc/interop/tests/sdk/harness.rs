//! A service, and programs that record into it.

use std::io::{BufRead, BufReader, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver};
use std::time::{Duration, Instant};

use tracebuf_interop::{DEFAULT_CATEGORIES, SOURCE};
use tracebuf_ipc::{PerfettoSocket, PerfettoSocketBuilder};
use tracebuf_session::{Session, SessionBuilder, Stopped};

use crate::trace::{Trace, scratch};

/// For anything that takes some milliseconds, a second or two where the SDK tries again, or for ever.
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);

/// A socket's path: short enough for the system, wherever this project lies.
pub(crate) fn socket_path(test: &str) -> PathBuf {
    std::env::temp_dir().join(format!("tracebuf-sdk-{}-{test}", std::process::id()))
}

pub(crate) struct Service {
    pub(crate) session: Arc<Session>,
    /// Programs can come as long as it is there.
    pub(crate) socket: PerfettoSocket,
    name: String,
    /// Categories and data sources that must be on before a program records.
    starts: Vec<String>,
}

impl Service {
    pub(crate) fn start(
        test: &str,
        session: SessionBuilder,
        socket: PerfettoSocketBuilder,
        starts: &[&str],
    ) -> Self {
        let session = Arc::new(session.start().expect("a session"));
        let socket = socket.bind(&session, socket_path(test)).expect("a socket");
        let starts = starts.iter().map(|name| String::from(*name)).collect();
        Self { session, socket, name: test.into(), starts }
    }

    /// A service with room for everything that a test records.
    pub(crate) fn roomy(test: &str, socket: PerfettoSocketBuilder, starts: &[&str]) -> Self {
        Self::start(test, Session::builder().ring(64 << 20), socket.shared_memory(1 << 20), starts)
    }

    /// Starts a program and waits until it is recorded.
    pub(crate) fn run(&self, arguments: &[&str]) -> Program {
        let mut program = Program::start(&self.name, arguments);
        self.wait_for(&mut program);
        program
    }

    /// Waits until the program is recorded.
    pub(crate) fn wait_for(&self, program: &mut Program) {
        program.does(&format!("wait on {}", self.starts.join(" ")));
    }

    pub(crate) fn stop(self) -> Trace {
        let stopped = self.session.stop().expect("it runs");
        write(stopped, &self.name)
    }
}

/// Writes into a file that stays, for others to examine.
pub(crate) fn write(mut stopped: Stopped, name: &str) -> Trace {
    let path = scratch(&format!("{name}.pftrace"));
    stopped.write_to(&path).expect("a file");
    let trace = Trace::read(&path);
    trace.assert_ends_with_stats();
    trace
}

/// A program that does what it is told, mostly one with the SDK; killed when the test is over.
pub(crate) struct Program {
    child: Child,
    stdin: Option<ChildStdin>,
    said: Receiver<String>,
}

impl Program {
    /// Starts one that records as soon as there is a service of this test.
    pub(crate) fn start(test: &str, arguments: &[&str]) -> Self {
        let mut command = Command::new(env!("CARGO_BIN_EXE_sdk_program"));
        command.args(arguments).env("PERFETTO_PRODUCER_SOCK_NAME", socket_path(test));
        let mut program = Self::of(&mut command);
        program.hears("ready");
        program
    }

    pub(crate) fn of(command: &mut Command) -> Self {
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("a child");
        let lines = BufReader::new(child.stdout.take().expect("a pipe")).lines();
        let (says, said) = mpsc::channel();
        std::thread::spawn(move || lines.map_while(Result::ok).try_for_each(|line| says.send(line)));
        let stdin = child.stdin.take();
        Self { child, stdin, said }
    }

    pub(crate) fn pid(&self) -> u64 {
        self.child.id().into()
    }

    pub(crate) fn tell(&mut self, command: &str) {
        let stdin = self.stdin.as_mut().expect("it was not told to end");
        writeln!(stdin, "{command}").expect("it is there");
    }

    /// The rest of the next line that begins like this.
    pub(crate) fn hears(&mut self, beginning: &str) -> String {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            let line = self.said.recv_timeout(left);
            let line = line.unwrap_or_else(|error| panic!("the program says {beginning}: {error}"));
            if let Some(rest) = line.strip_prefix(beginning) {
                return rest.trim().into();
            }
        }
    }

    /// A thread that records endlessly, and its last round that the service has.
    pub(crate) fn hears_flushed(&mut self) -> (u64, u64) {
        let said = self.hears("flushed");
        let (thread, number) = said.split_once(' ').expect("two numbers");
        (thread.parse().expect("a thread"), number.parse().expect("a number"))
    }

    /// Makes it do something, and waits until that is done.
    pub(crate) fn does(&mut self, command: &str) {
        self.tell(command);
        self.hears(command.split(' ').next().expect("a word"));
    }

    /// How often the service has requested this of the program's own data source.
    pub(crate) fn was_asked(&mut self, what: &str) -> String {
        self.tell("state");
        let state = self.hears("state");
        let mut all = state.split(' ').filter_map(|part| part.split_once('='));
        all.find(|(name, _)| *name == what).expect("it is said").1.into()
    }

    /// Stops all its threads, until it is killed.
    pub(crate) fn stands_still(&self) {
        let pid = self.child.id() as i32;
        // SAFETY: a child that was not waited for; its status is not requested.
        unsafe {
            assert_eq!(libc::kill(pid, libc::SIGSTOP), 0);
            assert_eq!(libc::waitpid(pid, std::ptr::null_mut(), libc::WUNTRACED), pid);
        }
    }

    pub(crate) fn kill(&mut self) {
        self.child.kill().expect("it can be killed");
        self.child.wait().expect("it has ended");
    }

    pub(crate) fn ends(mut self) {
        self.tell("end");
        drop(self.stdin.take());
        let mut status = None;
        waits_for("the program ends", || {
            status = self.child.try_wait().expect("a child");
            status.is_some()
        });
        assert!(status.expect("it has ended").success(), "{status:?}");
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

pub(crate) fn waits_for(what: &str, mut is_so: impl FnMut() -> bool) {
    let started = Instant::now();
    while !is_so() {
        assert!(started.elapsed() < PATIENCE, "{what}");
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// Runs a program whose trace Perfetto's own service writes.
pub(crate) fn by_perfettos_service(name: &str, commands: &[&str]) -> Trace {
    let path: PathBuf = scratch(&format!("{name}.pftrace"));
    let mut program = Program::start(name, &["--reference", &path.display().to_string()]);
    program.does(&format!("wait on {} {SOURCE}", DEFAULT_CATEGORIES.join(" ")));
    commands.iter().for_each(|command| program.does(command));
    program.ends();
    Trace::read(Path::new(&path))
}
