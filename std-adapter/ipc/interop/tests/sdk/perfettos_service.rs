//! Perfetto's own service, and programs of ours that record into it.

use std::path::PathBuf;
use std::process::Command;
use std::sync::LazyLock;
use std::time::Duration;

use tracebuf_interop::{FOLLOWER, INNER_NAMES, double, flow, integer, packet_len, text, text_len};
use tracebuf_ipc::{Connection, ConnectionBuilder, Follower};
use tracebuf_session::{Recorder, Relay, Track, Unit};

use crate::harness::{PATIENCE, Program, socket_path, waits_for};
use crate::trace::{Field, Trace, fields, message, number, scratch};

/// The service, in a process of its own, killed when the test is over.
pub(crate) struct PerfettosService {
    program: Program,
    test: String,
    /// The beginning of its traces' names: those of Perfetto's own service have one.
    prefix: &'static str,
}

/// Where it listens for programs, and for trace clients.
pub(crate) fn sockets(test: &str) -> [PathBuf; 2] {
    [socket_path(test), socket_path(&format!("{test}-c"))]
}

impl PerfettosService {
    pub(crate) fn start(test: &str) -> Self {
        Self::start_with(test, &[], "perfetto-")
    }

    /// Its client alone, of whichever service listens.
    pub(crate) fn client(test: &str) -> Self {
        Self::start_with(test, &["--consume"], "")
    }

    fn start_with(test: &str, arguments: &[&str], prefix: &'static str) -> Self {
        let mut command = Command::new(env!("CARGO_BIN_EXE_perfetto_service"));
        command.args(arguments);
        let [producers, consumers] = sockets(test);
        command.env("PERFETTO_PRODUCER_SOCK_NAME", producers).env("PERFETTO_CONSUMER_SOCK_NAME", consumers);
        let mut program = Program::of(&mut command);
        program.hears("listens");
        Self { program, test: test.into(), prefix }
    }

    /// Begins a tracing session; see the binary for options.
    pub(crate) fn records(&mut self, session: u64, options: &str) {
        self.program.does(&format!("start {session} {options}"));
    }

    pub(crate) fn flush(&mut self, session: u64) {
        self.program.does(&format!("flush {session}"));
    }

    /// Ends the session; its trace stays, for others to examine.
    pub(crate) fn stop(&mut self, session: u64) -> Trace {
        let path = scratch(&format!("{}{}-{session}.pftrace", self.prefix, self.test));
        self.program.does(&format!("stop {session} {}", path.display()));
        Trace::read(&path)
    }

    pub(crate) fn pid(&self) -> u64 {
        self.program.pid()
    }

    pub(crate) fn kill(&mut self) {
        self.program.kill();
    }
}

impl Drop for PerfettosService {
    fn drop(&mut self) {
        sockets(&self.test).iter().for_each(|path| {
            let _ = std::fs::remove_file(path);
        });
    }
}

/// This process, following the service.
pub(crate) struct Following {
    pub(crate) recorder: Recorder,
    pub(crate) follower: Follower,
}

impl Following {
    pub(crate) fn start(path: PathBuf, builder: ConnectionBuilder) -> Self {
        let relay = Relay::new();
        let recorder = relay.recorder();
        let connected = move |service: &Connection| relay.connect(&service.recorder());
        let builder = builder.process_name(FOLLOWER);
        Self { recorder, follower: builder.follow_perfetto(path, connected).expect("a thread") }
    }

    /// Follows this test's service.
    pub(crate) fn of(test: &str, builder: ConnectionBuilder) -> Self {
        Self::start(socket_path(test), builder)
    }

    /// Waits until events are recorded, and the recorder knows.
    pub(crate) fn waits_to_record(&self) {
        waits_for("it records", || self.recorder.is_on() && self.follower.is_connected());
    }

    pub(crate) fn waits_for_the_end(&self) {
        waits_for("it records no longer", || !self.recorder.is_on());
    }

    /// Records rounds of a thread; after each `pace` of them it waits until the service has them, unless that is 0.
    pub(crate) fn rounds(
        &self,
        thread: u64,
        rounds: std::ops::Range<u64>,
        pace: u64,
        in_service: impl Fn(u64),
    ) {
        for number in rounds {
            round(&self.recorder, thread, number);
            if pace > 0 && (number + 1).is_multiple_of(pace) {
                self.follower.flush(PATIENCE).expect("the service takes it");
                in_service(number);
            }
        }
    }

    /// Writes packets of a thread, likewise.
    pub(crate) fn packets(&self, thread: u64, count: u64, max: usize, pace: u64) {
        let mut writer = self.recorder.packet_writer().expect("a writer");
        for number in 0..count {
            writer.packet(|packet| {
                let mut event = packet.message(FOR_TESTING);
                event.string(1, &text(number, packet_len(number, max)));
                event.varint(2, number);
                event.varint(3, thread);
            });
            if pace > 0 && (number + 1).is_multiple_of(pace) {
                self.follower.flush(PATIENCE).expect("the service takes it");
            }
        }
    }
}

/// `TracePacket.for_testing`.
const FOR_TESTING: u32 = 900;

static PROCESS: LazyLock<Track<'static>> = LazyLock::new(|| Track::process(std::process::id(), FOLLOWER));
static REMOTE: LazyLock<Track<'static>> = LazyLock::new(|| Track::custom("remote").within(&PROCESS));
static ITEMS: LazyLock<Track<'static>> =
    LazyLock::new(|| Track::counter("items", Unit::Count).within(&PROCESS));
static LEVEL: LazyLock<Track<'static>> =
    LazyLock::new(|| Track::counter("level", Unit::Count).within(&PROCESS));
static NAMES: LazyLock<Vec<String>> =
    LazyLock::new(|| (0..INNER_NAMES).map(|number| format!("inner {number}")).collect());

/// Records with a recorder what the program with the SDK records in a round.
fn round(recorder: &Recorder, thread: u64, number: u64) {
    // Like the SDK's flows, so that no other program has the same.
    let flow = flow(thread, number) ^ PROCESS.uuid();
    recorder.with(|tracer| {
        let track = tracer.track();
        track.begin_with("outer", |event| event.category("work").arg("thread", thread).arg("number", number));
        let name = &NAMES[(number % INNER_NAMES) as usize];
        track.begin_with(name, |event| {
            event.category("work").flow(flow).arg("thread", thread).arg("number", number)
        });
        track.instant_with("send", |event| {
            event.category("net.send").arg("thread", thread).arg("number", number)
        });
        tracer.on(&REMOTE).instant_with("receive", |event| {
            event.category("net.receive").end_flow(flow).arg("thread", thread).arg("number", number)
        });
        if let Some(len) = text_len(number) {
            let text = text(number, len);
            track.instant_with("long", |event| {
                event.category("work").arg("thread", thread).arg("number", number).arg("text", text.as_str())
            });
        }
        tracer.on(&ITEMS).count(integer(number));
        tracer.on(&LEVEL).measure(double(number));
        track.end_with(|event| event.arg("thread", thread).arg("number", number).arg("inner", 1_u64));
        track.end_with(|event| event.arg("thread", thread).arg("number", number));
    });
}

/// What the service counts, by Perfetto's `trace_stats.proto`: for the whole trace, and for each buffer.
const FAILURES: [(u32, &str); 4] =
    [(8, "chunks discarded"), (9, "patches discarded"), (10, "invalid packets"), (14, "flushes failed")];
const FAILURES_OF_BUFFER: [(u32, &str); 7] = [
    (3, "chunks overwritten"),
    (6, "patches failed"),
    (8, "read-aheads failed"),
    (9, "violations of the ABI"),
    (18, "chunks discarded"),
    (19, "losses of writers"),
    (22, "packets too long"),
];

/// The service's own statistics at the session's end.
pub(crate) fn statistics(trace: &Trace) -> &[u8] {
    let mut stats = trace.packets().filter_map(|packet| message(packet, 35));
    stats.next_back().expect("statistics")
}

/// Checks that the service has counted nothing wrong. Returns how many chunks it has for each buffer.
pub(crate) fn assert_nothing_is_wrong(trace: &Trace) -> Vec<u64> {
    let stats = statistics(trace);
    let of = |counts: &[u8], failures: &[(u32, &str)]| {
        for (field, name) in failures {
            assert_eq!(number(counts, *field).unwrap_or(0), 0, "{name}");
        }
    };
    of(stats, &FAILURES);
    let buffers = fields(stats).into_iter().filter_map(|field| match field {
        Field::Bytes(1, buffer) => Some(buffer),
        _ => None,
    });
    buffers
        .map(|buffer| {
            of(buffer, &FAILURES_OF_BUFFER);
            number(buffer, 2).unwrap_or(0)
        })
        .collect()
}

/// Starts a process of its own: an ignored test of this program, which is given the service's sockets.
pub(crate) fn run(test: &str, ignored: &str) -> Program {
    let mut command = Command::new(std::env::current_exe().expect("this program"));
    command.args([ignored, "--exact", "--ignored", "--nocapture"]);
    let [producers, consumers] = sockets(test);
    command.env("PERFETTO_PRODUCER_SOCK_NAME", producers).env("PERFETTO_CONSUMER_SOCK_NAME", consumers);
    Program::of(&mut command)
}

/// Keeps to a pace at which the data can be read.
pub(crate) fn pause() {
    std::thread::sleep(Duration::from_millis(10));
}
