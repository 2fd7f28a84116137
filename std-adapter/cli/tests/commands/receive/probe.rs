//! From servers of what a debug probe reads: devices that record in place, alone, together, and in a session's trace.

use std::io::Write;
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use tracebuf::inplace::{Recorder, Region, Sender};
use tracebuf::producer::track_event::Clock;
use tracebuf_analysis::Trace;
use tracebuf_ipc::ProducerSocket;
use tracebuf_session::{BootClock, Session};

use crate::trace::{folder, scratch};
use crate::{send, text, tracebuf, wait_until, wait_until_caught};

/// What J-Link's server says before it gives what the device sends.
const BANNER: &[u8] =
    b"SEGGER J-Link V7.94 - Real time terminal output\r\nJ-Link OB, SN=0\r\nProcess: JLinkExe\r\n";

/// A device whose clock counts microseconds from 0 on, and which tells what the host's clock shows when it records.
struct Device {
    region: Region<16, 64, 64>,
    /// The host's microseconds at its start.
    start: u64,
    count: i64,
}

/// How many events a device has recorded.
type Recorded = i64;

impl Device {
    fn new() -> Box<Self> {
        Box::new(Self { region: Region::zeroed(), start: BootClock.now() / 1_000, count: 0 })
    }

    /// Records for some time and sends what it records; what is left it sends at the end.
    fn run(&mut self, line: &mut TcpStream, time: Duration) -> Recorded {
        let start = self.start;
        let microseconds = move || (BootClock.now() / 1_000 - start) as u32;
        let recorder = Recorder::new(&self.region, microseconds, 1_000_000);
        let (writer, end) = (recorder.writer("main loop"), Instant::now() + time);
        let (mut sender, mut piece) = (Sender::new(recorder), [0; 128]);
        let mut is_last = false;
        while !is_last {
            is_last = Instant::now() >= end;
            let slice = writer.enter("work");
            writer.count_i64("host", BootClock.now() as i64);
            drop(slice);
            self.count += 1;
            if is_last {
                sender.flush();
            }
            while let len @ 1.. = sender.fill(&mut piece) {
                // As much as it takes: whoever listens may be gone.
                if line.write_all(&piece[..len]).is_err() {
                    return self.count;
                }
            }
            std::thread::sleep(Duration::from_millis(3));
        }
        self.count
    }
}

/// A server's address, and the thread of a device that runs for a second when somebody listens.
fn server(banner: &'static [u8]) -> (String, std::thread::JoinHandle<Recorded>) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = format!("tcp:{}", listener.local_addr().expect("it is bound"));
    let device = std::thread::spawn(move || {
        let (mut line, _) = listener.accept().expect("somebody comes");
        line.write_all(banner).expect("a line");
        Device::new().run(&mut line, Duration::from_secs(1))
    });
    (address, device)
}

/// Runs the command to its end.
fn ended(command: &mut Command) -> Output {
    command.stdout(Stdio::piped()).stderr(Stdio::piped()).output().expect("the command")
}

/// All of a device's values are there, and each at the host's time, as far as a busy machine can tell it.
fn check_times(trace: &Trace, process: &str, recorded: Recorded) {
    let of_device = |counter: &tracebuf_analysis::trace::Counter<'_>| {
        counter.name() == "host" && counter.track().process_name() == Some(process)
    };
    let counter = trace.counters().find(of_device).expect("its counter");
    assert_eq!(counter.points().len() as i64, recorded, "{process}");
    let mut errors: Vec<_> =
        counter.points().iter().map(|(time, host)| time.abs_diff(*host as u64)).collect();
    errors.sort_unstable();
    assert!(errors[errors.len() / 2] < 5_000_000, "{process}: {errors:?}");
}

#[test]
fn what_a_probe_s_server_gives_is_a_trace_at_the_host_s_time() {
    let output = scratch("receive/probe.pftrace");
    for banner in [BANNER, b""] {
        let (address, device) = server(banner);
        let out = ended(tracebuf(&["receive", "--once", &address, "-o"]).arg(&output));
        let (report, recorded) = (text(&out.stdout), device.join().expect("it ends"));
        assert_eq!(out.status.code(), Some(0), "{report} {}", text(&out.stderr));
        assert!(
            report.contains(" events recorded in place") && report.contains("times are the host's"),
            "{report}"
        );
        assert!(!report.contains("missing"), "{report}");
        let trace = Trace::open(&output).expect("a trace");
        check_times(&trace, "firmware", recorded);
        assert!(trace.faults().is_empty(), "{:?}", trace.faults());
        // The time of day, too: all that time ago.
        let counter = trace.counter("host").expect("it");
        for (time, host) in [counter.points()[0], counter.points()[recorded as usize - 1]] {
            let ago = Duration::from_nanos(BootClock.now() - host as u64);
            let of_day = trace.time_of_day(time).expect("it is told");
            let told = of_day.elapsed().expect("it is over");
            assert!(told.abs_diff(ago) < Duration::from_millis(100), "{told:?} {ago:?}");
        }
    }
}

#[test]
fn two_devices_with_the_same_numbers_are_two_processes_in_one_trace() {
    let output = scratch("receive/two.pftrace");
    let [oven, door] = [server(b""), server(BANNER)];
    let arguments = ["receive", "--once", &oven.0, &door.0, "--device", "oven", "--device", "door", "-o"];
    let out = ended(tracebuf(&arguments).arg(&output));
    let report = text(&out.stdout);
    assert_eq!(out.status.code(), Some(0), "{report} {}", text(&out.stderr));
    assert!([&oven.0, &door.0].iter().all(|line| report.contains(&format!("{line}: "))), "{report}");
    let trace = Trace::open(&output).expect("a trace");
    assert!(trace.faults().is_empty(), "{:?}", trace.faults());
    for (name, (_, device)) in [("oven", oven), ("door", door)] {
        let recorded = device.join().expect("it ends");
        check_times(&trace, name, recorded);
        let of_device = trace.slices().filter(|slice| slice.track().process_name() == Some(name));
        assert_eq!(of_device.count() as i64, recorded);
    }
    let pids: std::collections::BTreeSet<_> = trace.slices().map(|slice| slice.track().pid()).collect();
    assert_eq!(pids.len(), 2);
}

#[test]
fn devices_join_the_trace_of_a_session() {
    let socket = folder("receive/join").join("socket");
    let session = Arc::new(Session::builder().ring(4 << 20).start().expect("a session"));
    let listening = ProducerSocket::builder().bind(&session, &socket).expect("a socket");
    let [oven, door] = [server(b""), server(b"")];
    session.recorder().instant("before");
    let mut command = tracebuf(&["receive", "--once", &oven.0, &door.0, "--device", "oven", "--join"]);
    let out = ended(command.arg(&socket));
    session.recorder().instant("after");
    let (report, told) = (text(&out.stdout), text(&out.stderr));
    assert_eq!(out.status.code(), Some(0), "{report} {told}");
    let mut file = Vec::new();
    session.snapshot().expect("a snapshot").write(&mut file).expect("memory");
    let trace = Trace::of(&file).expect("a trace");
    assert!(trace.faults().is_empty(), "{:?}", trace.faults());
    let at = |name: &str| trace.instants().find(|event| event.name() == name).expect("it").begin();
    // The other one has the name of its line.
    for (name, (line, device)) in [("oven", oven), (&*door.0.clone(), door)] {
        let recorded = device.join().expect("it ends");
        assert!(report.contains(&format!("{line}: ")), "{report}");
        check_times(&trace, name, recorded);
        let of_device = trace.slices().filter(|slice| slice.track().process_name() == Some(name));
        let times: Vec<_> = of_device.map(|slice| slice.begin()).collect();
        assert!(times.iter().all(|time| (at("before")..at("after")).contains(time)), "{times:?}");
    }
    drop(listening);
    session.stop().expect("it runs");
    // Nobody listens any more.
    let out = ended(tracebuf(&["receive", "--once", "tcp:127.0.0.1:1", "--join"]).arg(&socket));
    assert_eq!(out.status.code(), Some(1));
}

#[test]
fn a_session_that_ends_ends_the_command_and_that_is_no_failure() {
    let socket = folder("receive/ends").join("socket");
    let session = Arc::new(Session::builder().ring(1 << 20).start().expect("a session"));
    let listening = ProducerSocket::builder().bind(&session, &socket).expect("a socket");
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = format!("tcp:{}", listener.local_addr().expect("it is bound"));
    let mut command = tracebuf(&["receive", &address, "--join"]);
    let command = command.arg(&socket).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("it");
    let (mut line, _) = listener.accept().expect("it comes");
    std::thread::scope(|scope| {
        scope.spawn(|| Device::new().run(&mut line, Duration::from_secs(60)));
        let mut file = Vec::new();
        let mut has_come = || {
            file.clear();
            session.snapshot().expect("a snapshot").write(&mut file).expect("memory");
            Trace::of(&file).is_ok_and(|trace| trace.counter("host").is_some())
        };
        assert!(wait_until(60, &mut has_come));
        drop(listening);
        session.stop().expect("it runs");
        let out = command.wait_with_output().expect("it ends");
        let (report, told) = (text(&out.stdout), text(&out.stderr));
        assert_eq!(out.status.code(), Some(0), "{report} {told}");
        assert!(report.contains("the session has ended"), "{report}");
    });
}

#[test]
fn a_server_is_waited_for_and_connected_to_again() {
    let output = scratch("receive/again.pftrace");
    let _ = std::fs::remove_file(&output);
    let free = TcpListener::bind("127.0.0.1:0").expect("a port").local_addr().expect("it is bound");
    let mut command = tracebuf(&["receive", &format!("tcp:{free}"), "-o"]);
    let command = command.arg(&output).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("it");
    wait_until_caught(&command, libc::SIGINT);
    let mut recorded = 0;
    let mut device = Device::new();
    for _ in 0..2 {
        let listener = TcpListener::bind(free).expect("nobody has taken it");
        let (mut line, _) = listener.accept().expect("it comes");
        recorded = device.run(&mut line, Duration::from_millis(300));
    }
    let events = || Trace::open(&output).map_or(0, |trace| trace.slices().count() as i64);
    assert!(wait_until(30, || events() > 0));
    send(&command, libc::SIGINT);
    let out = command.wait_with_output().expect("it ends");
    let report = text(&out.stdout);
    assert_eq!(out.status.code(), Some(0), "{report} {}", text(&out.stderr));
    assert!(report.contains("the port was gone "), "{report}");
    // The second time its memory is new: a start of its own.
    let files = [output.clone(), output.with_file_name("again-2.pftrace")];
    let all = files.iter().map(|file| Trace::open(file).expect("a trace").slices().count() as i64);
    assert_eq!(all.sum::<i64>(), recorded, "{report}");
}

#[test]
fn a_program_that_has_a_probe_may_connect_itself() {
    let output = scratch("receive/connects.pftrace");
    let free = TcpListener::bind("127.0.0.1:0").expect("a port").local_addr().expect("it is bound");
    let mut command = tracebuf(&["receive", "--once", &format!("tcp-listen:{free}"), "-o"]);
    let command = command.arg(&output).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("it");
    let mut line = None;
    assert!(wait_until(30, || {
        line = TcpStream::connect(free).ok();
        line.is_some()
    }));
    let recorded = Device::new().run(&mut line.expect("it listens"), Duration::from_millis(500));
    let out = command.wait_with_output().expect("it ends");
    assert_eq!(out.status.code(), Some(0), "{} {}", text(&out.stdout), text(&out.stderr));
    check_times(&Trace::open(&output).expect("a trace"), "firmware", recorded);
}

#[test]
fn what_cannot_be_is_said_before_anything_is_waited_for() {
    let output = scratch("receive/wrong.pftrace");
    let fails = |arguments: &[&str], status: i32, why: &str| {
        let out = ended(tracebuf(&["receive"]).args(arguments));
        let told = text(&out.stderr);
        assert!(out.status.code() == Some(status) && told.contains(why), "{arguments:?}: {told}");
    };
    let file = output.to_str().expect("text");
    fails(&["tcp:nowhere", "-o", file], 1, "tcp:HOST:PORT");
    fails(&["tcp-listen:9090", "-o", file], 1, "tcp-listen:HOST:PORT");
    fails(&["tcp:127.0.0.1:1", "--once", "-o", file], 1, "refused");
    fails(&["a", "-o", file, "--device", "b", "--device", "c"], 2, "more names than devices");
    fails(&["-", "a", "-o", file], 2, "named pipe");
    fails(&["a"], 2, "--output");
    fails(&["a", "-o", file, "--join", "b"], 2, "cannot be used with");
    let line = Path::new(file).with_extension("line");
    std::fs::write(&line, super::line(20).concat()).expect("room");
    let line = line.to_str().expect("text");
    fails(&[line, line, "-o", file], 1, "it sends packets");
}
