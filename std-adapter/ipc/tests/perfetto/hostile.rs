//! Programs that do not do as they should.

use std::io::Write;
use std::time::{Duration, Instant};

use tracebuf_ipc::PerfettoSocket;
use tracebuf_session::Session;

use crate::program::{
    COMMIT, Heard, Message, PATIENCE, Program, REGISTER_WRITER, Service, UNREGISTER_WRITER, descriptor,
};

fn service(test: &str) -> Service {
    Service::start(test, Session::builder().ring(1 << 20), PerfettoSocket::builder().shared_memory(64 << 10))
}

/// Checks that the service still takes programs.
fn assert_well(service: &Service) {
    let (mut program, _) = Program::running(service, "track_event");
    program.sync();
}

#[test]
fn what_is_no_frame_ends_the_connection() {
    let service = service("no-frame");
    let long = ((128 << 10) + 1_u32).to_le_bytes();
    // One that is too long, one that is no message, a malformed bind and call, and a call with malformed arguments.
    let malformed: [&[u8]; 7] = [
        &long,
        &u32::MAX.to_le_bytes(),
        b"\x01\0\0\0\x08",
        b"\x03\0\0\0\x2A\x01\x08",
        b"\x05\0\0\0\x1A\x03\x0A\x09a",
        b"\x09\0\0\0\x2A\x07\x08\x01\x10\x04\x1A\x01\x0A",
        b"\x0B\0\0\0\x2A\x09\x08\x01\x10\x02\x1A\x03\x0A\x01\x0A",
    ];
    for (at, bytes) in malformed.into_iter().enumerate() {
        let mut program = Program::connected(&service);
        program.stream.write_all(bytes).expect("it is there");
        if at == 4 {
            // Its name is cut short, which makes it the name of no service.
            assert!(program.frame(PATIENCE).is_some());
            continue;
        }
        assert!(program.is_sent_away(), "{bytes:x?}");
    }
    assert_well(&service);
}

#[test]
fn frames_come_in_whatever_pieces() {
    let service = service("pieces");
    let mut program = Program::connected(&service);
    let bind = b"\x12\0\0\0\x10\x01\x1A\x0E\x0A\x0CProducerPort";
    for byte in bind {
        program.stream.write_all(&[*byte]).expect("it is there");
        std::thread::sleep(Duration::from_millis(1));
    }
    assert!(program.frame(PATIENCE).is_some());
    // Many at once, and only a part of one more, after which the program goes.
    let mut many = bind.repeat(1000);
    many.extend(&bind[..7]);
    program.stream.write_all(&many).expect("it is there");
    for _ in 0..1000 {
        assert!(program.frame(PATIENCE).is_some());
    }
    drop(program);
    assert_well(&service);
}

#[test]
fn who_asks_without_end_and_hears_nothing_is_given_up() {
    let service = service("deaf");
    let mut program = Program::ready(&service);
    program.stream.set_write_timeout(Some(PATIENCE)).expect("a time");
    let bind = b"\x12\0\0\0\x10\x01\x1A\x0E\x0A\x0CProducerPort".repeat(100);
    let begin = Instant::now();
    while program.stream.write_all(&bind).is_ok() {
        assert!(begin.elapsed() < PATIENCE, "it is given up");
    }
    assert_well(&service);
}

#[test]
fn who_offers_data_sources_without_end_gets_no_more_than_so_many() {
    let service = service("offers");
    let mut program = Program::ready(&service);
    let mut started = 0;
    for _ in 0..300 {
        program.call("RegisterDataSource", &Message::default().message(1, &descriptor("track_event")));
        while let Heard { request: 3, .. } = program.hear() {
            started += 1;
        }
    }
    // Setup and start of each, and the memory.
    assert_eq!(started, 2 * 256 + 1);
    assert_well(&service);
}

#[test]
fn chunks_and_patches_that_there_are_not_are_counted_and_harm_nobody() {
    let service = service("bogus");
    let (mut program, _) = Program::running(&service, "track_event");
    let huge = [0, 1, 2, 31, 1 << 16, u64::from(u32::MAX), u64::MAX];
    let mut calls = 0;
    for page in huge {
        for buffer in huge {
            let moved = Message::default().number(1, page).number(2, buffer).number(3, buffer);
            program.call(COMMIT, &Message::default().message(1, &moved));
            let patch = |data: &[u8]| Message::default().number(1, page).bytes(2, data);
            let chunk = Message::default().number(1, buffer).number(2, page).number(3, page);
            let chunk =
                chunk.message(4, &patch(b"1234")).message(4, &patch(b"12345")).message(4, &patch(b""));
            program.call(COMMIT, &Message::default().message(2, &chunk).number(3, page));
            program.call(COMMIT, &Message::default().message(2, &Message::default().number(2, page)));
            program.call(REGISTER_WRITER, &Message::default().number(1, page).number(2, buffer));
            program.call(UNREGISTER_WRITER, &Message::default().number(1, page));
            calls += 5;
        }
    }
    for _ in 0..calls {
        assert!(program.hear().is_success);
    }
    let summary = service.session.summary().expect("a summary");
    let endpoint = &summary.producers.last().expect("it is there").endpoint;
    let buffer = &summary.buffers[0];
    assert_eq!((buffer.chunks_written, endpoint.chunks_missing), (0, 49));
    // Those with a possible writer and place, and of four bytes.
    assert_eq!(buffer.patches_failed + endpoint.patches_discarded, 4 * 7);
    assert_well(&service);
}

#[test]
fn whatever_comes_others_are_served() {
    let service = service("whatever");
    let mut state = 0x9E37_79B9_7F4A_7C15_u64;
    let mut random = move || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state
    };
    let begin = Instant::now();
    let rounds = std::iter::from_fn(|| (begin.elapsed() < Duration::from_secs(2)).then_some(()));
    let mut sent_away = 0;
    for () in rounds.take(3000) {
        let mut program = Program::connected(&service);
        // Messages that are nearly right: good ones with some bits changed.
        let mut frames = Vec::new();
        for _ in 0..20 {
            let arguments = Message((0..random() % 30).map(|_| random() as u8).collect());
            let chunk =
                Message::default().number(1, random() % 20).number(2, random() % 3).number(3, random() % 3);
            let arguments = match random() % 3 {
                0 => arguments,
                1 => Message::default().message(1, &chunk).number(3, random() % 5),
                _ => Message::default().message(2, &chunk.message(4, &arguments)),
            };
            let invoke = Message::default().number(1, 1).number(2, random() % 14).message(3, &arguments);
            frames.extend(Message::default().number(2, random() % 9).message(5, &invoke).framed());
        }
        for _ in 0..random() % 3 {
            let at = random() as usize % frames.len();
            frames[at] ^= 1 << (random() % 8);
        }
        sent_away += u32::from(program.stream.write_all(&frames).is_err());
    }
    assert!(sent_away < 3000);
    assert_well(&service);
}

#[test]
#[ignore = "takes 5 s, for which first words are waited for"]
fn connections_that_never_speak_or_hardly_shut_out_nobody_for_long_and_are_told() {
    let service = service("never");
    let mut silent: Vec<_> = (0..64).map(|_| Program::connected(&service)).collect();
    let begun = Instant::now();
    // A byte of a frame now and then is no word.
    let done = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        let (done, silent) = (&done, &mut silent);
        scope.spawn(move || {
            for byte in b"\x12\0\0\0\x10\x01".iter().cycle().take(6) {
                let _ = silent[7].stream.write_all(&[*byte]);
                std::thread::sleep(Duration::from_millis(1500));
                if done.load(std::sync::atomic::Ordering::Relaxed) {
                    break;
                }
            }
        });
        assert_well(&service);
        done.store(true, std::sync::atomic::Ordering::Relaxed);
    });
    assert!((4..15).contains(&begun.elapsed().as_secs()), "{:?}", begun.elapsed());
    let refused = service.session.summary().expect("an answer").refused;
    let all: u64 = refused.iter().map(|one| one.times).sum();
    assert!(all >= 63 && refused.iter().all(|one| one.why == "it has said nothing for 5 s"), "{refused:?}");
    assert!(silent.iter_mut().all(Program::is_sent_away));
}

#[test]
fn who_waited_for_a_place_until_the_end_is_told() {
    let socket = PerfettoSocket::builder().shared_memory(64 << 10).producers(1);
    let service = Service::start("waits", Session::builder().ring(1 << 20), socket);
    let (mut first, _) = Program::running(&service, "track_event");
    first.sync();
    let waiting = Program::connected(&service);
    let session = service.session.clone();
    drop(service.socket);
    let refused = session.summary().expect("an answer").refused;
    let why = "the service has 1 producer, as many as it takes";
    assert!(refused.len() == 1 && refused[0].why == why, "{refused:?}");
    drop(waiting);
}
