//! The service as systemd starts it: with sockets that are there already, and somebody who waits to hear that it is ready.

use std::io::Read;
use std::os::fd::OwnedFd;
use std::os::unix::net::{UnixDatagram, UnixListener};
use std::process::{Command, Stdio};
use std::time::Duration;

use tracebuf_service::wire::ProtoBuilder;

use super::{Consumer, Service};
use crate::trace::folder;

#[test]
fn sockets_that_are_handed_over_are_used_and_whoever_waits_hears_when_it_is_ready() {
    let folder = folder("serve-activated");
    let path = |name: &str| folder.join(name);
    let ready = UnixDatagram::bind(path("ready")).expect("a socket");
    ready.set_read_timeout(Some(Duration::from_secs(30))).expect("a time");
    let sockets = ["c", "p"].map(|name| UnixListener::bind(path(name)).expect("a socket"));
    let (mut says_one, waits) = std::io::pipe().expect("a pipe");
    let [consumers, producers] = sockets.map(OwnedFd::from);
    // The shell has them as its input and output, and hands them on by the numbers that are agreed on; the names are in
    // another order than the one that is taken without names.
    let mut command = Command::new("sh");
    command
        .args(["-c", "exec 3<&0 4<&1 9>&2 2>/dev/null; LISTEN_PID=$$ exec \"$0\" serve --no-machine"])
        .arg(env!("CARGO_BIN_EXE_tracebuf"))
        .env("LISTEN_FDS", "2")
        .env("LISTEN_FDNAMES", "consumer.socket:producer.socket")
        .env("NOTIFY_SOCKET", path("ready"))
        .env("TRACED_NOTIFY_FD", "9")
        // Nothing comes to be where these say.
        .env("PERFETTO_PRODUCER_SOCK_NAME", path("other-p"))
        .env("PERFETTO_CONSUMER_SOCK_NAME", path("other-c"))
        .stdin(Stdio::from(consumers))
        .stdout(Stdio::from(producers))
        .stderr(Stdio::from(waits));
    let child = command.spawn().expect("a shell");
    // Its ends of these, which the command holds, go with it.
    drop(command);
    let mut service = Service { child, folder: folder.clone() };
    let mut said = [0; 64];
    let len = ready.recv(&mut said).expect("it is ready");
    assert_eq!(&said[..len], b"READY=1");
    let mut all = Vec::new();
    says_one.read_to_end(&mut all).expect("it is closed too");
    assert_eq!(all, b"1");
    let mut consumer = Consumer::connect(&path("c"));
    let request = consumer.call("QueryCapabilities", &ProtoBuilder::new(), None);
    assert!(!consumer.answers(request).is_empty());
    // Programs are at the other.
    let socket = std::os::unix::net::UnixStream::connect(path("p")).expect("it listens");
    let _offered = tracebuf_ipc::SourceProducer::start(socket, "activated", &["example.activated"], Nothing);
    let mut is_offered = || {
        let request = consumer.call("QueryServiceState", &ProtoBuilder::new(), None);
        consumer.answers(request).concat().windows(17).any(|bytes| bytes == b"example.activated")
    };
    assert!(crate::wait_until(30, &mut is_offered));
    assert!(!path("other-p").exists() && !path("other-c").exists());
    // They are not the service's to remove.
    rustix::process::kill_process(
        rustix::process::Pid::from_child(&service.child),
        rustix::process::Signal::TERM,
    )
    .expect("it runs");
    assert!(service.child.wait().expect("its end").success());
    assert!(path("p").exists() && path("c").exists());
}

#[test]
fn a_variable_that_was_meant_for_somebody_else_keeps_the_service_from_nothing() {
    let folder = folder("serve-not-told");
    let mut command = crate::tracebuf(&["serve", "--no-machine"]);
    let log = std::fs::File::create(folder.join("log")).expect("a file");
    command
        .env("PERFETTO_PRODUCER_SOCK_NAME", folder.join("p"))
        .env("PERFETTO_CONSUMER_SOCK_NAME", folder.join("c"))
        .env("NOTIFY_SOCKET", folder.join("gone"))
        .stderr(log);
    let service =
        Service { child: command.spawn().expect("the service"), folder: folder.clone() }.listening();
    let mut consumer = service.consumer();
    let request = consumer.call("QueryCapabilities", &ProtoBuilder::new(), None);
    assert!(!consumer.answers(request).is_empty());
    let log = std::fs::read_to_string(folder.join("log")).expect("it is there");
    assert!(log.contains("nobody is told"), "{log}");
}

struct Nothing;

impl tracebuf_ipc::SourceHost for Nothing {
    fn start(
        &mut self,
        _: &tracebuf_ipc::SourceRequest<'_>,
        _: &tracebuf_session::Recorder,
    ) -> Option<Box<dyn tracebuf_ipc::RunningSource>> {
        None
    }
}
