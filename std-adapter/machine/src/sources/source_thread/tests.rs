//! Tests of the thread that runs sources.

use std::os::fd::BorrowedFd;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

use super::*;
use tracebuf::proto::TracePackets;
use tracebuf::proto::fields::trace_packet;
use tracebuf::proto::reader::{FieldValue, Fields};
use tracebuf_session::Session;

/// What was called, in order.
type Calls = Arc<Mutex<Vec<&'static str>>>;

/// A source that notes what is done with it, and writes a packet each time.
struct Noting {
    name: &'static str,
    calls: Calls,
    fails: bool,
    panics: bool,
    wait: Duration,
    file: Option<OwnedFd>,
    dropped: Arc<AtomicBool>,
}

impl Noting {
    fn new(name: &'static str, calls: &Calls) -> Self {
        let (calls, dropped) = (calls.clone(), Arc::default());
        Self {
            name,
            calls,
            fails: false,
            panics: false,
            wait: Duration::from_secs(1000),
            file: None,
            dropped,
        }
    }

    fn note(&self, what: &'static str, out: &mut SourceOutput) {
        self.calls.lock().expect("it").push(what);
        out.packet(|packet| packet.message(trace_packet::FOR_TESTING).string(1, what));
    }
}

impl DataSource for Noting {
    fn name(&self) -> &'static str {
        self.name
    }
    fn start(&mut self, out: &mut SourceOutput) -> io::Result<()> {
        self.note("start", out);
        if self.fails { Err(io::ErrorKind::NotFound.into()) } else { Ok(()) }
    }
    fn drain(&mut self, out: &mut SourceOutput) -> Duration {
        assert!(!self.panics, "as asked for");
        self.note("drain", out);
        if let Some(file) = &self.file {
            let _ = rustix::io::read(file, &mut [0; 8]);
        }
        self.wait
    }
    fn flush(&mut self, out: &mut SourceOutput) {
        self.note("flush", out);
    }
    fn stop(&mut self, out: &mut SourceOutput) {
        self.note("stop", out);
    }
    fn wakes_on(&self) -> Vec<BorrowedFd<'_>> {
        self.file.iter().map(AsFd::as_fd).collect()
    }
}

impl Drop for Noting {
    fn drop(&mut self) {
        self.dropped.store(true, Ordering::Relaxed);
    }
}

fn start(session: &Session, sources: Vec<Box<dyn DataSource>>) -> SourceThread {
    SourceThread::start("sources", &session.recorder(), &session.side_packets(), sources).expect("a thread")
}

fn wait_for(calls: &Calls, count: usize) -> Vec<&'static str> {
    for _ in 0..5000 {
        let calls = calls.lock().expect("it").clone();
        if calls.len() >= count {
            return calls;
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    panic!("{:?}", calls.lock());
}

#[test]
fn sources_are_drained_flushed_and_stopped_and_what_they_write_is_in_the_trace() {
    let session = Session::builder().start().expect("a session");
    let calls = Calls::default();
    let mut other = Noting::new("other", &calls);
    other.fails = true;
    let dropped = other.dropped.clone();
    let sources = start(&session, vec![Box::new(Noting::new("one", &calls)), Box::new(other)]);
    let failed: Vec<_> = sources.failed().iter().map(|(name, error)| (*name, error.kind())).collect();
    assert_eq!(failed, [("other", io::ErrorKind::NotFound)]);
    wait_for(&calls, 3);
    // Far before its time.
    sources.flush(Duration::from_secs(5)).expect("a flush");
    sources.stop().expect("a stop");
    assert_eq!(*calls.lock().expect("it"), ["start", "start", "drain", "flush", "stop"]);
    assert!(dropped.load(Ordering::Relaxed));
    let mut trace = Vec::new();
    session.snapshot().expect("a snapshot").write(&mut trace).expect("memory");
    let packets = TracePackets::new(&trace).map(|packet| packet.expect("a packet"));
    let written =
        packets.filter(|packet| Fields::of(packet).any(|field| field.number == trace_packet::FOR_TESTING));
    assert_eq!(written.count(), 5);
}

#[test]
fn a_file_that_can_be_read_wakes_its_source_and_no_other() {
    let session = Session::builder().start().expect("a session");
    let (calls, others) = (Calls::default(), Calls::default());
    let file = eventfd(0, EventfdFlags::NONBLOCK).expect("a file");
    let writer = file.try_clone().expect("another");
    let mut woken = Noting::new("woken", &calls);
    woken.file = Some(file);
    let sources = start(&session, vec![Box::new(woken), Box::new(Noting::new("other", &others))]);
    wait_for(&calls, 2);
    wait_for(&others, 2);
    let _ = rustix::io::write(&writer, &1_u64.to_ne_bytes()).expect("a wake");
    assert_eq!(wait_for(&calls, 3), ["start", "drain", "drain"]);
    // Dropped, it stops them too.
    drop(sources);
    assert_eq!(*others.lock().expect("it"), ["start", "drain", "stop"]);
    assert_eq!(*calls.lock().expect("it"), ["start", "drain", "drain", "stop"]);
}

/// As the files of processors that were never on do.
#[test]
fn a_file_that_only_tells_of_a_fault_keeps_no_other_from_waking_its_source() {
    let session = Session::builder().start().expect("a session");
    let calls = Calls::default();
    let file = eventfd(0, EventfdFlags::NONBLOCK).expect("a file");
    let writer = file.try_clone().expect("another");
    let (read, write) = std::io::pipe().expect("a pipe");
    // A pipe that can be written to, and that nobody reads, has a fault.
    drop(read);
    let mut at_fault = Noting::new("at fault", &Calls::default());
    at_fault.file = Some(write.into());
    let mut woken = Noting::new("woken", &calls);
    woken.file = Some(file);
    let sources = start(&session, vec![Box::new(at_fault), Box::new(woken)]);
    wait_for(&calls, 2);
    std::thread::sleep(Duration::from_millis(100));
    let _ = rustix::io::write(&writer, &1_u64.to_ne_bytes()).expect("a wake");
    assert_eq!(wait_for(&calls, 3), ["start", "drain", "drain"]);
    sources.stop().expect("a stop");
}

/// One that waits, as for a process whose memory is locked.
struct Stuck(Sender<()>, Receiver<()>);

impl DataSource for Stuck {
    fn name(&self) -> &'static str {
        "stuck"
    }
    fn start(&mut self, _: &mut SourceOutput) -> io::Result<()> {
        Ok(())
    }
    fn drain(&mut self, _: &mut SourceOutput) -> Duration {
        let _ = self.0.send(());
        let _ = self.1.recv();
        Duration::from_secs(1000)
    }
    fn flush(&mut self, _: &mut SourceOutput) {}
    fn stop(&mut self, _: &mut SourceOutput) {}
}

#[test]
fn nobody_waits_for_ever_for_a_source_that_does() {
    let session = Session::builder().start().expect("a session");
    let ((says, is_stuck), (lets_go, waits)) = (channel(), channel());
    let mut sources = start(&session, vec![Box::new(Stuck(says, waits))]);
    is_stuck.recv().expect("it begins to wait");
    assert!(matches!(sources.flush(Duration::from_millis(10)), Err(SessionError::Timeout)));
    assert!(matches!(sources.end(Duration::from_millis(10)), Err(SessionError::Timeout)));
    sources.stop().expect("nothing is left to stop");
    session.stop().expect("a session does not wait for it");
    drop(lets_go);
}

#[test]
fn after_a_panic_sources_are_gone_and_whoever_asks_is_told() {
    let session = Session::builder().start().expect("a session");
    let calls = Calls::default();
    let mut source = Noting::new("one", &calls);
    source.panics = true;
    let dropped = source.dropped.clone();
    let sources = start(&session, vec![Box::new(source)]);
    while !dropped.load(Ordering::Relaxed) {
        std::thread::sleep(Duration::from_millis(1));
    }
    assert!(matches!(sources.flush(Duration::from_secs(5)), Err(SessionError::Stopped)));
    assert!(matches!(sources.stop(), Err(SessionError::Stopped)));
}

#[test]
fn a_packet_made_elsewhere_arrives_with_all_its_fields() {
    let session = Session::builder().start().expect("a session");
    let mut out = SourceOutput::new(&session.recorder(), session.side_packets()).expect("a writer");
    // timestamp 5; for_testing: a message; a fixed64 and a fixed32 that no packet has; then something cut short.
    let packet =
        [0x40, 5, 0xA2, 0x38, 1, 7, 0xB9, 0x38, 1, 2, 3, 4, 5, 6, 7, 8, 0xBD, 0x38, 9, 8, 7, 6, 0x40];
    out.bytes(&packet);
    drop(out);
    let mut trace = Vec::new();
    session.snapshot().expect("a snapshot").write(&mut trace).expect("memory");
    let packets: Vec<_> = TracePackets::new(&trace).map(|packet| packet.expect("a packet")).collect();
    let ours = packets.iter().find(|packet| Fields::of(packet).any(|field| field.number == 900)).expect("it");
    let fields: Vec<_> = Fields::of(ours).skip(1).take(4).map(|field| (field.number, field.value)).collect();
    let fixed = u64::from_le_bytes([1, 2, 3, 4, 5, 6, 7, 8]);
    assert_eq!(
        fields,
        [
            (8, FieldValue::Number(5)),
            (900, FieldValue::Bytes(&[7])),
            (903, FieldValue::Fixed(fixed)),
            (903, FieldValue::Fixed(0x0607_0809)),
        ]
    );
}
