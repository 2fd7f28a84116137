//! Programs that come with a data source's descriptor, and fold what its buffer overwrites.

use tracebuf_ipc::PerfettoSocket;
use tracebuf_session::Session;

use crate::program::{Message, Program, REGISTER, Service, descriptor};
use crate::recording::{packet, send, writing};
use crate::trace::{message, number};

/// Keeps the newest packet.
fn newest() -> Message {
    // merge {}
    Message::default().message(2, &Message::default().message(3, &Message::default()))
}

fn started(service: &Service, name: &str, program: &Message) -> Program {
    let mut ready = Program::ready(service);
    ready.call(REGISTER, &Message::default().message(1, &descriptor(name).message(10, program)));
    (0..3).for_each(|_| _ = ready.command());
    assert_eq!(ready.hear().reply, b"");
    ready
}

#[test]
fn a_data_source_s_program_folds_what_its_buffer_overwrites_if_the_configuration_gives_it_memory() {
    let limit = |kb| Message::default().message(12, &Message::default().number(1, kb)).0;
    let socket = PerfettoSocket::builder()
        .data_source("org.example.layers", limit(64))
        .data_source("org.example.tiny", limit(0))
        .data_source("org.example.none", []);
    let session = Session::builder().ring(64 << 10).ring(64 << 10).data_source("org.example.layers", 1);
    let service = Service::start("programs", session, socket);
    let mut layers = started(&service, "org.example.layers", &newest());
    let _same = started(&service, "org.example.layers", &newest());
    let _tiny = started(&service, "org.example.tiny", &newest());
    let _none = started(&service, "org.example.none", &newest());
    writing(&mut layers, |producer, asked, program| {
        let mut writer = producer.writer(1, tracebuf::producer::Exhaustion::Drop).expect("a writer");
        for time in 1..=200 {
            packet(&mut writer, time, 1000);
            send(program, asked);
        }
        writer.flush();
        send(program, asked);
    });
    let summary = service.session.summary().expect("a summary");
    assert_eq!((summary.vms[0].len(), summary.vms[1].len(), summary.vms_refused), (0, 1, 1));
    let vm = &summary.vms[1][0];
    assert_eq!(
        (vm.source.as_str(), vm.producers.len(), vm.vm.errors + vm.vm.aborts),
        ("org.example.layers", 2, 0)
    );
    assert!(vm.vm.patches > 100, "{vm:?}");
    let trace = service.stop("programs");
    let vms = trace.packets().find_map(|packet| message(packet, 125)).expect("a program");
    let instance = message(vms, 1).expect("an instance");
    assert_eq!((message(instance, 1), number(instance, 3)), (Some(&newest().0[..]), Some(64)));
    assert_eq!(number(instance, 4), Some(vm.producers[0].into()));
    let state = message(instance, 2).expect("a state");
    // The newest of those that are gone.
    let first = trace.packets().find(|packet| message(packet, 900).is_some()).expect("a packet");
    assert_eq!(number(state, 8), Some(vm.vm.patches));
    assert_eq!(number(first, 8), Some(vm.vm.patches + 1));
    assert_eq!(number(first, 42), Some(65), "and they say that others are gone");
}
