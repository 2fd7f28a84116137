//! What programs are told, and when.

use std::time::Duration;

use tracebuf_ipc::PerfettoSocket;
use tracebuf_session::Session;

use crate::program::{
    COMMIT, INITIALIZE, LISTEN, Message, PATIENCE, Program, REGISTER, Service, UNREGISTER, descriptor,
};
use crate::trace::{Field, fields, message, number};

fn service(test: &str) -> Service {
    Service::start(test, Session::builder().ring(1 << 20), PerfettoSocket::builder())
}

fn strings(bytes: &[u8], wanted: u32) -> Vec<&str> {
    let of = |field| match field {
        Field::Bytes(number, text) if number == wanted => Some(std::str::from_utf8(text).expect("text")),
        _ => None,
    };
    fields(bytes).into_iter().filter_map(of).collect()
}

#[test]
fn only_the_producers_service_is_there_and_it_tells_its_methods() {
    let service = service("bind");
    let mut program = Program::connected(&service);
    let bind = |name: &[u8]| Message::default().number(2, 7).message(3, &Message::default().bytes(1, name));
    program.send(&bind(b"ConsumerPort"));
    let frame = program.frame(PATIENCE).expect("an answer");
    assert_eq!((number(&frame, 2), number(message(&frame, 4).expect("that"), 1)), (Some(7), Some(0)));
    program.send(&bind(b"ProducerPort"));
    let frame = program.frame(PATIENCE).expect("an answer");
    let bound = message(&frame, 4).expect("that");
    assert_eq!((number(bound, 1), number(bound, 2)), (Some(1), Some(1)));
    let methods = fields(bound).into_iter().filter(|field| matches!(field, Field::Bytes(3, _)));
    assert_eq!(methods.count(), 12);
}

#[test]
fn a_data_source_that_is_wanted_runs_as_soon_as_it_can_and_no_other() {
    let service = service("runs");
    let mut program = Program::bound(&service);
    // Before it has said who it is, and where it listens for commands.
    let register = program.call(REGISTER, &Message::default().message(1, &descriptor("track_event")));
    assert_eq!(program.hear().request, register);
    assert!(program.hears_nothing());
    let listen = program.call(LISTEN, &Message::default());
    assert!(program.hears_nothing());
    let initialize = program.call(INITIALIZE, &Message::default().bytes(3, b"test").number(9, 3));
    let heard = program.hear();
    assert_eq!((heard.request, heard.is_success), (initialize, true));
    // Of two kinds of shared memory, the one with pages; none that the program brings; nothing is changed in it.
    assert_eq!(heard.reply, Message::default().number(4, 1).0);

    let commands = [(); 3].map(|()| {
        let heard = program.hear();
        assert_eq!((heard.request, heard.is_success), (listen, true));
        heard.reply
    });
    let setup_tracing = message(&commands[0], 3).expect("memory first");
    assert_eq!(number(setup_tracing, 1), Some(4));
    let memory = std::fs::File::from(program.memory.take().expect("a file"));
    assert_eq!(memory.metadata().expect("what it is").len(), 1 << 20);
    let setup = message(&commands[1], 6).expect("then the source");
    let start = message(&commands[2], 1).expect("then its start");
    assert_eq!(setup, start);
    assert_eq!(number(start, 1), Some(1));
    let config = message(start, 2).expect("what to do");
    assert_eq!(
        (strings(config, 1), number(config, 2), number(config, 4)),
        (vec!["track_event"], Some(1), Some(1))
    );
    let categories = message(config, 113).expect("categories");
    assert_eq!((strings(categories, 1), strings(categories, 2)), (vec!["*"], vec!["*"]));
    assert_eq!(strings(categories, 3), ["slow", "debug"]);

    let other = program.call(REGISTER, &Message::default().message(1, &descriptor("linux.ftrace")));
    assert_eq!(program.hear().request, other);
    assert!(program.hears_nothing());
    // Another of the same name runs too, in the same memory.
    program.call(REGISTER, &Message::default().message(1, &descriptor("track_event")));
    assert!(message(&program.hear().reply, 6).is_some());
    assert_eq!(number(message(&program.hear().reply, 1).expect("a start"), 1), Some(2));
}

#[test]
fn sources_go_to_the_buffers_that_the_session_has_for_them_as_they_are_configured() {
    let session = Session::builder().ring(1 << 20).ring(1 << 20).data_source("camera", 1);
    let socket = PerfettoSocket::builder().categories(["net", "ui.*"]).data_source("camera", *b"\x78\x05");
    let service = Service::start("configured", session, socket);
    let mut program = Program::ready(&service);
    let mut config_of = |name: &str| {
        program.call(REGISTER, &Message::default().message(1, &descriptor(name)));
        let start = loop {
            if let Some(start) = message(&program.command(), 1) {
                break start.to_vec();
            }
        };
        assert_eq!(program.hear().reply, b"");
        message(&start, 2).expect("a configuration").to_vec()
    };
    let camera = config_of("camera");
    assert_eq!((number(&camera, 2), number(&camera, 15)), (Some(2), Some(5)));
    let events = config_of("track_event");
    assert_eq!(number(&events, 2), Some(1));
    assert_eq!(strings(message(&events, 113).expect("categories"), 2), ["net", "ui.*"]);
}

#[test]
fn shared_memory_is_of_whole_pages_whatever_is_wanted() {
    for (wanted, had) in [(4096, 4096), (4097, 8192), (1_000_000, 1_003_520), (64 << 20, 64 << 20)] {
        let socket = PerfettoSocket::builder().shared_memory(wanted);
        let service = Service::start("pages", Session::builder().ring(1 << 20), socket);
        let (program, _) = Program::running(&service, "track_event");
        let memory = std::fs::File::from(program.memory.expect("it has come"));
        assert_eq!(memory.metadata().expect("what it is").len(), had);
    }
}

#[test]
fn what_programs_are_told_is_no_more_than_they_take() {
    let socket = |bytes| {
        let config = Message::default().bytes(900, &vec![b'x'; bytes]).0;
        PerfettoSocket::builder().data_source("one", config.clone()).data_source("other", config)
    };
    let service = Service::start("long", Session::builder(), socket(65_000));
    let mut program = Program::ready(&service);
    for name in ["one", "other"] {
        program.call(REGISTER, &Message::default().message(1, &descriptor(name)));
        // Setup and start, and before the first the memory.
        while program.hear().request == 3 {}
    }
    let path = service.path.with_extension("long");
    let error = socket(66_000).bind(&service.session, &path).expect_err("it is too much").to_string();
    assert!(error.contains("configurations of data sources"), "{error}");
    assert!(!path.exists());
}

#[test]
fn who_cannot_have_memory_of_pages_or_says_who_it_is_twice_is_told_so() {
    let service = service("twice");
    let mut newer = Program::bound(&service);
    newer.call(INITIALIZE, &Message::default().number(9, 2));
    assert!(!newer.hear().is_success);
    let mut older = Program::bound(&service);
    older.call(INITIALIZE, &Message::default().bytes(3, b"from before there were two kinds"));
    assert_eq!(older.hear().reply, b"");
    older.call(INITIALIZE, &Message::default());
    assert!(!older.hear().is_success);
}

#[test]
fn calls_are_answered_if_that_is_wanted_also_those_that_there_are_not() {
    let service = service("calls");
    let mut program = Program::ready(&service);
    for method in [0, 13, u64::MAX] {
        program.invoke(method, &Message::default(), false);
        let request = program.invoke(method, &Message::default(), true);
        let heard = program.hear();
        assert_eq!((heard.request, heard.is_success), (request, false));
    }
    // All of Perfetto's methods except those that are answered by something else; also those without meaning here.
    for method in (2..=12).filter(|method| *method != 5) {
        program.invoke(method, &Message::default(), false);
        let request = program.invoke(method, &Message::default(), true);
        let heard = program.hear();
        assert_eq!((heard.request, heard.is_success), (request, true), "{method}");
    }
}

#[test]
fn a_flush_asks_those_that_run_and_waits_for_them() {
    let service = service("flush");
    let (mut program, instance) = Program::running(&service, "track_event");
    let session = service.session.clone();
    let flush = std::thread::spawn(move || session.flush(PATIENCE));
    let command = program.command();
    let asked = message(&command, 5).expect("a flush");
    assert_eq!((number(asked, 1), number(asked, 2)), (Some(instance), Some(1)));
    std::thread::sleep(Duration::from_millis(50));
    assert!(!flush.is_finished(), "it waits");
    program.call(COMMIT, &Message::default().number(3, 1));
    flush.join().expect("no panic").expect("it has answered");
    program.hear();

    // One that has nothing to flush, or is gone, is not asked.
    program.call(UNREGISTER, &Message::default().bytes(1, b"track_event"));
    program.hear();
    service.session.flush(PATIENCE).expect("nobody to ask");
    program.call(REGISTER, &Message::default().message(1, &descriptor("track_event").number(9, 1)));
    (0..3).for_each(|_| drop(program.hear()));
    service.session.flush(PATIENCE).expect("nobody to ask");
    assert!(program.hears_nothing());
}

#[test]
fn a_flush_of_who_does_not_answer_takes_as_long_as_it_may() {
    let service = service("mute");
    let (mut program, _) = Program::running(&service, "track_event");
    assert!(service.session.flush(Duration::from_millis(50)).is_err());
    // Nor does the answer to that one count for a later one, as soon as the later one was asked.
    assert!(service.session.flush(Duration::from_millis(50)).is_err());
    program.call(COMMIT, &Message::default().number(3, 1));
    assert!(service.session.flush(Duration::from_millis(50)).is_err());
    let producers = service.session.summary().expect("a summary").producers;
    assert_eq!(producers.iter().filter(|producer| !producer.has_answered).count(), 1, "{producers:?}");
}

#[test]
fn who_answers_an_earlier_flush_late_has_answered_the_later_one_all_the_same() {
    let service = service("late");
    let (mut one, _) = Program::running(&service, "track_event");
    let (mut other, _) = Program::running(&service, "track_event");
    let asked = |program: &mut Program| {
        let command = program.command();
        number(message(&command, 5).expect("a flush"), 2).expect("a number")
    };
    let answer = |program: &mut Program, flush| {
        program.call(COMMIT, &Message::default().number(3, flush));
        assert!(program.hear().is_success);
    };
    assert!(service.session.flush(Duration::from_millis(10)).is_err());
    let first = asked(&mut one);
    asked(&mut other);
    let session = service.session.clone();
    let flush = std::thread::spawn(move || session.flush(Duration::from_secs(10)));
    let second = asked(&mut one);
    // As a program does that was waiting for something, and was asked again meanwhile.
    answer(&mut one, second);
    answer(&mut one, first);
    let second = asked(&mut other);
    answer(&mut other, second);
    flush.join().expect("no panic").expect("both have answered");
}

#[test]
fn an_answer_to_what_was_not_asked_yet_is_none() {
    let service = service("early");
    let (mut program, _) = Program::running(&service, "track_event");
    for early in [1, 2, u64::MAX] {
        program.call(COMMIT, &Message::default().number(3, early));
        assert!(program.hear().is_success);
    }
    assert!(service.session.flush(Duration::from_millis(50)).is_err());
    // Nor does it keep the right one from being heard.
    let command = program.command();
    let asked = number(message(&command, 5).expect("a flush"), 2).expect("a number");
    program.call(COMMIT, &Message::default().number(3, asked));
    assert!(program.hear().is_success);
    let producers = service.session.summary().expect("a summary").producers;
    assert!(producers.iter().all(|producer| producer.has_answered), "{producers:?}");
}

#[test]
fn more_than_there_are_places_for_wait_until_one_goes() {
    let socket = PerfettoSocket::builder().producers(1);
    let service = Service::start("places", Session::builder(), socket);
    let first = Program::ready(&service);
    let second = std::thread::scope(|scope| {
        let second = scope.spawn(|| Program::ready(&service));
        std::thread::sleep(Duration::from_millis(300));
        assert!(!second.is_finished());
        assert_eq!(service.socket.producers_seen(), 1);
        drop(first);
        second.join().expect("no panic")
    });
    assert_eq!(service.socket.producers_seen(), 2);
    drop(second);
}

#[test]
fn who_is_sent_away_at_a_sessions_end_finds_nobody_there() {
    let service = service("door");
    let mut program = Program::ready(&service);
    service.session.stop().expect("it runs");
    assert!(program.is_sent_away());
    let error = std::os::unix::net::UnixStream::connect(&service.path).expect_err("closed before");
    assert_eq!(error.kind(), std::io::ErrorKind::ConnectionRefused);
}

#[test]
fn who_waits_for_a_place_at_a_sessions_end_is_sent_away_too() {
    let socket = PerfettoSocket::builder().producers(1);
    let service = Service::start("waiting", Session::builder(), socket);
    let _first = Program::ready(&service);
    let mut second = Program::connected(&service);
    service.session.stop().expect("it runs");
    assert!(second.is_sent_away(), "or it would wait as long as there is the socket");
}

#[test]
fn the_end_of_a_session_ends_the_connection_and_the_next_one_takes_the_path() {
    let first = service("next");
    let (mut program, _) = Program::running(&first, "track_event");
    let path = first.path.clone();
    let stopping = std::thread::spawn(move || first.stop("next"));
    let flush = program.command();
    let number = number(message(&flush, 5).expect("a last flush"), 2).expect("a number");
    program.call(COMMIT, &Message::default().number(3, number));
    stopping.join().expect("no panic");
    assert!(program.is_sent_away());
    assert!(!path.exists());
    Program::ready(&service("next"));
}
