//! A producer of data sources of its own, in several sessions of the service.

use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tracebuf::proto::fields::config::{buffer_config, trace_config, trace_config_data_source};
use tracebuf::proto::fields::ipc::data_source_config;
use tracebuf::proto::reader::message;
use tracebuf_ipc::{RunningSource, SourceHost, SourceProducer, SourceRequest};
use tracebuf_service::wire::ProtoBuilder;
use tracebuf_session::{PacketWriter, Recorder};

use super::Service;
use crate::text;

static RUNNING: AtomicU64 = AtomicU64::new(0);

struct Host;

/// Says what it is asked for, and takes its time to end.
struct Saying(PacketWriter, String);

impl SourceHost for Host {
    fn start(&mut self, request: &SourceRequest<'_>, recorder: &Recorder) -> Option<Box<dyn RunningSource>> {
        if request.name == "example.never" {
            return None;
        }
        let mut saying = Saying(recorder.packet_writer()?, format!("{} {}", request.name, request.session));
        saying.say("starts");
        RUNNING.fetch_add(1, Ordering::Relaxed);
        Some(Box::new(saying))
    }
}

impl Saying {
    fn say(&mut self, what: &str) {
        self.0.packet(|packet| packet.message(900).string(1, &format!("{} {what}", self.1))); // for_testing
    }
}

impl RunningSource for Saying {
    fn flush(&mut self) {
        self.say("flushes");
    }

    fn clear_state(&mut self) {
        self.say("repeats");
    }
}

impl Drop for Saying {
    fn drop(&mut self) {
        std::thread::sleep(Duration::from_millis(50));
        // Of several chunks.
        (0..1000).for_each(|_| self.say("goes on"));
        self.say("ends");
        RUNNING.fetch_sub(1, Ordering::Relaxed);
    }
}

#[test]
fn what_a_source_writes_last_is_in_its_session_and_nothing_of_it_in_another() {
    let service = Service::start("serve-sources");
    let socket = UnixStream::connect(service.folder.join("p")).expect("it listens");
    let names = ["example.one", "example.never"];
    let offered = SourceProducer::start(socket, "sources", &names, Host).expect("a thread");
    let buffer = ProtoBuilder::new().number(buffer_config::SIZE_KB, 1024_u32);
    let sources = ProtoBuilder::new().each(names, |sources, name| {
        let config = ProtoBuilder::new().bytes(data_source_config::NAME, name.as_bytes());
        let source = ProtoBuilder::new().message(trace_config_data_source::CONFIG, &config);
        sources.message(trace_config::DATA_SOURCES, &source)
    });
    let config = ProtoBuilder::new().message(trace_config::BUFFERS, &buffer).fields(sources.as_bytes());
    let mut consumers = [(); 3].map(|()| service.consumer());
    let enabled = consumers.each_mut().map(|consumer| consumer.enable(&config, None));
    assert!(crate::wait_until(30, || RUNNING.load(Ordering::Relaxed) == 3));
    for (at, (consumer, enabled)) in consumers.iter_mut().zip(enabled).enumerate() {
        consumer.simple("Flush");
        consumer.disable(enabled);
        assert_eq!(RUNNING.load(Ordering::Relaxed), 2 - at as u64, "it has ended, and the others have not");
        let trace = consumer.read(&service.folder.join(format!("{at}.pftrace")));
        let said = trace.packets().map(|packet| message(packet, 900).expect("well-formed"));
        let said = said.filter_map(|said| Some(text(message(said, 1)?).to_owned()));
        let said: Vec<String> = said.filter(|said| !said.is_empty()).collect();
        let session = said[0].strip_suffix(" starts").expect("first").to_owned();
        assert!(said.iter().all(|said| said.starts_with(&session)));
        assert_eq!(
            (&*said[1], &**said.last().expect("some")),
            (&*format!("{session} flushes"), &*format!("{session} ends"))
        );
        assert_eq!((said.len(), trace.losses()), (1003, 0));
    }
    drop(offered);
    let mut consumer = service.consumer();
    let request = consumer.call("QueryServiceState", &ProtoBuilder::new(), None);
    let state = consumer.answers(request).concat();
    assert!(!state.windows(11).any(|bytes| bytes == b"example.one"), "it is gone");
}
