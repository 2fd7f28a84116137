//! The service, as its users have it: requests, and what it leaves of them.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use tracebuf_analysis::Trace;
use tracebuf_testing::trace::folder;

struct Service {
    child: Child,
    address: String,
    folder: PathBuf,
}

impl Service {
    fn start(name: &str) -> Self {
        let folder = folder(name);
        let mut command = Command::new(env!("CARGO_BIN_EXE_service"));
        command.arg("127.0.0.1:0").arg(&folder).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut child = command.spawn().expect("the service");
        let mut line = String::new();
        BufReader::new(child.stdout.take().expect("its output")).read_line(&mut line).expect("a line");
        let address = line.trim().rsplit(' ').next().expect("an address").to_owned();
        Self { child, address, folder }
    }

    /// What it answers, empty if it hangs up.
    fn get(&self, path: &str) -> String {
        let mut stream = TcpStream::connect(&self.address).expect("a connection");
        write!(stream, "GET {path} HTTP/1.1\r\nHost: test\r\nConnection: close\r\n\r\n").expect("a request");
        let mut answer = String::new();
        let _ = stream.read_to_string(&mut answer);
        answer
    }

    /// The trace of this reason, once it is there.
    fn trace(&self, reason: &str) -> Trace {
        let start = Instant::now();
        loop {
            let entries = std::fs::read_dir(&self.folder)
                .expect("the folder")
                .map(|entry| entry.expect("a file").path());
            let is =
                |path: &Path| path.file_name().is_some_and(|name| name.to_string_lossy().ends_with(reason));
            if let Some(path) = entries.into_iter().find(|path| is(path)) {
                let trace = Trace::open(&path).expect("a trace");
                assert_eq!(trace.faults(), [], "{}", path.display());
                return trace;
            }
            assert!(
                start.elapsed() < Duration::from_secs(30),
                "{reason} appears in {}",
                self.folder.display()
            );
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn a_slow_request_is_in_its_snapshot_from_begin_to_end_with_what_it_waited_for() {
    let service = Service::start("slow");
    for _ in 0..3 {
        assert!(service.get("/").ends_with("1 rows\n"));
    }
    assert!(service.get("/slow").ends_with("1 rows\n"));
    let trace = service.trace(".slow-request-1.pftrace");
    let is_slow = |slice: &tracebuf_analysis::trace::Event<'_>| {
        slice.name() == "request" && slice.argument("path").is_some_and(|path| path.as_str() == Some("/slow"))
    };
    // Of its polls and of its life, which is a slice beside the threads.
    let life =
        trace.slices().find(|slice| is_slow(slice) && slice.track().tid().is_none()).expect("the request");
    let duration = life.duration().expect("it has ended");
    assert!(duration >= Duration::from_millis(300) && duration < Duration::from_secs(20), "{duration:?}");
    let pid = Some(i64::from(service.child.id()));
    assert_eq!(
        (life.track().pid(), life.argument("method").and_then(|method| method.as_str())),
        (pid, Some("GET"))
    );
    // What it consists of lies on tracks within its own.
    let within = |name: &str| {
        let is = |slice: &tracebuf_analysis::trace::Event<'_>| {
            slice.name() == name
                && slice.track().parents().any(|parent| parent == "request")
                && slice.begin() >= life.begin()
        };
        trace.slices().find(is).unwrap_or_else(|| panic!("no {name}"))
    };
    let (lock, order) = (within("lock"), within("order"));
    assert!(lock.duration() > Some(Duration::from_millis(250)), "{lock:?}");
    assert!(order.begin() >= lock.end().expect("it has the lock") && order.end() <= life.end());
    let inventory = trace.slices().find(|slice| slice.name() == "inventory").expect("who held the lock");
    assert!(inventory.begin() >= life.begin() && inventory.duration().is_some());
    assert!(trace.logs().any(|line| line.text() == "waiting for the shop" && line.priority() == 5));
    let requests = trace.counter("requests").expect("a counter");
    assert_eq!(requests.values().next_back(), Some(4.0));
    assert!(trace.flows().count() > 0);
}

#[test]
fn a_panic_is_told_with_its_message_in_the_request_that_panicked_and_the_service_goes_on() {
    let service = Service::start("panic");
    assert_eq!(service.get("/panic"), "", "it hangs up");
    let trace = service.trace(".panic-1.pftrace");
    let line = trace.logs().find(|line| line.text().contains("nobody expects it")).expect("the message");
    assert!(line.text().contains("service.rs"), "and its place: {}", line.text());
    let request = trace.slices().find(|slice| slice.name() == "request" && slice.track().tid().is_none());
    let request = request.expect("its request");
    assert_eq!(request.argument("path").and_then(|path| path.as_str()), Some("/panic"));
    assert!(request.duration().is_none(), "in which it happened");
    assert!(service.get("/").ends_with("1 rows\n"));
}

#[test]
fn a_snapshot_comes_when_somebody_asks_for_it() {
    let service = Service::start("signal");
    assert!(service.get("/").ends_with("1 rows\n"));
    let kill = Command::new("kill").args(["-USR1", &service.child.id().to_string()]).status();
    assert!(kill.expect("a command").success());
    let trace = service.trace(".SIGUSR1-1.pftrace");
    assert!(trace.slice("order").is_some_and(|order| order.duration().is_some()));
    assert!(trace.instants().any(|instant| instant.name() == "read"));
}
