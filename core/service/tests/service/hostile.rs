//! Clients that do what none should.

use tracebuf::producer::{ChunkPatch, ChunkToMove, Request};
use tracebuf::proto::fields::ipc::method;
use tracebuf::proto::reader::number;
use tracebuf_service::wire::commands::ServiceCommand;
use tracebuf_service::wire::frames::{bind, invoke, push_frame};
use tracebuf_service::wire::{ProtoBuilder, consumers, program};
use tracebuf_service::{Event, Port};

use crate::clients::{Consumer, Program, config_of, data, replies, send, times};
use crate::world::World;

#[test]
fn nobody_writes_into_buffers_that_are_not_theirs_or_patches_what_others_wrote() {
    let mut world = World::default();
    let mut honest = Program::offering(&mut world, 1000, &[("events", 0)]);
    let mut hostile = Program::offering(&mut world, 2000, &[("other", 0)]);
    let mut consumers = [0; 2].map(|_| Consumer::of(&mut world, 0));
    consumers[0].enable(&mut world, &config_of(&[64], &[("events", 0)]));
    consumers[1].enable(&mut world, &config_of(&[64], &[("other", 0)]));
    let (starts, theirs) = (honest.starts(&world), hostile.starts(&world));
    let mut writer = honest.writer(&world, starts[0].1);
    honest.write(&mut world, &mut writer, &[1]);
    // It writes where it may not: another's buffer, one that is not there.
    let mut writer = hostile.writer(&world, starts[0].1);
    hostile.write(&mut world, &mut writer, &[66]);
    let mut own = hostile.writer(&world, theirs[0].1);
    hostile.write(&mut world, &mut own, &[2]);
    let patch = ChunkPatch { chunk_id: 0, offset: 1, data: [0xFF; 4] };
    for target in [starts[0].1, theirs[0].1, 0, 999, u16::MAX] {
        for writer_id in [0, 1, u16::MAX] {
            hostile.say(&mut world, Request::Patch { writer_id, target, patch, has_more: false });
        }
        for (page, chunk) in [(0, 0), (u32::MAX, u32::MAX), (1, 13)] {
            hostile.say(&mut world, Request::Move(ChunkToMove { page, chunk, target }));
        }
    }
    for consumer in &mut consumers {
        consumer.simple(&mut world, "DisableTracing");
    }
    assert_eq!(data(&consumers[0].read(&mut world)), [(1, 2, 0)]);
    assert_eq!(times(&consumers[1].read(&mut world)), [2]);
}

#[test]
fn frames_that_are_none_are_passed_over_or_refused_and_those_that_are_too_long_end_the_connection() {
    let mut world = World::default();
    let mut program = Program::of(&mut world, 1000, "p");
    let connection = program.connection;
    // Empty, and no message.
    let consumer = world.connect(Port::Consumers, 1000);
    for connection in [connection, consumer] {
        world.forget_frames(connection);
        for bytes in [&b"\0\0\0\0"[..], b"\x03\0\0\0\xFF\xFF\xFF"] {
            world.handle(Event::Received { connection, bytes, file: None });
        }
        assert!(world.frames(connection).is_empty());
    }
    assert!(!program.call(&mut world, method::INITIALIZE_CONNECTION, &ProtoBuilder::new()), "a second time");
    assert!(program.call(&mut world, method::SYNC, &ProtoBuilder::new()));
    assert!(!program.call(&mut world, method::COMMIT_DATA, &ProtoBuilder::new().fields(b"\x0A\x7F")));
    assert!(!program.call(&mut world, "NoSuchMethod", &ProtoBuilder::new()));
    send(&mut world, connection, &ProtoBuilder::new().number(2, 77_u32).bytes(9, b"x"), None);
    let error = world.frames(connection).last().expect("an answer");
    assert_eq!(number(error, 2), Some(77));
    send(&mut world, connection, &bind(78, "NoSuchPort"), None);
    assert!(!world.closed.contains(&connection));
    for port in [Port::Producers, Port::Consumers] {
        let connection = world.connect(port, 1000);
        world.handle(Event::Received { connection, bytes: &u32::MAX.to_le_bytes(), file: None });
        assert!(world.closed.contains(&connection));
    }
}

#[test]
fn who_has_not_said_who_it_is_gets_nothing_done() {
    let mut world = World::default();
    let connection = world.connect(Port::Producers, 1000);
    send(&mut world, connection, &bind(1, "ProducerPort"), None);
    for number in 2..=12 {
        send(&mut world, connection, &invoke(1, number, &ProtoBuilder::new(), Some(number + 10)), None);
        let said = replies(&world, connection, number + 10);
        // What has nothing to do is done.
        let has_nothing = [4, 11].contains(&number);
        assert!(matches!(said[..], [(good, false, _)] if good == has_nothing), "{number}: {said:?}");
    }
}

#[test]
fn descriptors_belong_to_the_message_that_they_came_with_and_what_is_not_used_is_closed() {
    let mut world = World::default();
    let connection = world.connect(Port::Consumers, 0);
    let enable = |file_config: bool| {
        let config = config_of(&[64], &[]).number(8, file_config);
        let arguments = ProtoBuilder::new().message(1, &config);
        invoke(1, consumers::method("EnableTracing"), &arguments, Some(5))
    };
    let mut bytes = Vec::new();
    push_frame(&mut bytes, &bind(1, consumers::CONSUMER_PORT));
    let before = bytes.len();
    push_frame(&mut bytes, &enable(true));
    let after = bytes.len();
    push_frame(&mut bytes, &invoke(1, consumers::method("StartTracing"), &ProtoBuilder::new(), Some(6)));
    // A piece ends within the message that it belongs to, which is the last that begins in it.
    let files = [(); 3].map(|()| world.file());
    world.handle(Event::Received { connection, bytes: &bytes[..before + 9], file: Some(files[0]) });
    world.handle(Event::Received { connection, bytes: &bytes[before + 9..after], file: None });
    assert!(world.discarded.is_empty());
    // This one belongs to a call that has no use for it, and that one to none.
    world.handle(Event::Received { connection, bytes: &bytes[after..after + 5], file: Some(files[1]) });
    world.handle(Event::Received { connection, bytes: &bytes[after + 5..], file: Some(files[2]) });
    world.discarded.sort_unstable();
    assert_eq!(world.discarded, files[1..]);
    world.hang_up(connection);
    assert!(world.files[&files[0].0].is_complete);
}

#[test]
fn descriptors_that_come_with_every_byte_do_not_use_up_those_that_there_are() {
    let mut world = World::default();
    let connection = world.connect(Port::Producers, 1000);
    world.handle(Event::Received { connection, bytes: &1_000_000_u32.to_le_bytes(), file: None });
    for _ in 0..100 {
        let file = Some(world.file());
        world.handle(Event::Received { connection, bytes: b"x", file });
    }
    assert!(world.discarded.len() >= 96, "{}", world.discarded.len());
    world.hang_up(connection);
    assert_eq!(world.discarded.len(), 100);
}

#[test]
fn a_program_that_offers_and_asks_without_end_is_bounded_and_others_are_served() {
    let mut world = World::default();
    let mut greedy = Program::of(&mut world, 1000, "greedy");
    for at in 0..2000 {
        greedy.offer(&mut world, &format!("source{at}"), 0);
    }
    // It never listens, and what it would hear of does not fill the memory.
    let mut consumer = Consumer::of(&mut world, 0);
    let all: Vec<String> = (0..1000).map(|at| format!("source{at}")).collect();
    let sources: Vec<(&str, u32)> = all.iter().map(|name| (name.as_str(), 0)).collect();
    consumer.enable(&mut world, &config_of(&[64], &sources));
    let mut others = [0; 4].map(|_| Consumer::of(&mut world, 0));
    for other in &mut others {
        other.enable(&mut world, &config_of(&[64], &sources));
    }
    assert!(world.closed.contains(&greedy.connection));
    assert!(consumer.simple(&mut world, "DisableTracing"));
    // One that listens and takes nothing ends when too much waits for it.
    let mut deaf = Program::of(&mut world, 1000, "deaf");
    deaf.listen(&mut world);
    world.stick(deaf.connection, true);
    let long = ProtoBuilder::new().bytes(1, b"source0").bytes(113, &[1; 100_000]);
    let long = ProtoBuilder::new().message(1, &long);
    others[0].simple(&mut world, "FreeBuffers");
    others[0].enable(&mut world, &config_of(&[64], &[]).message(2, &long));
    (0..100).for_each(|_| deaf.offer(&mut world, "source0", 0));
    assert!(world.closed.contains(&deaf.connection));
    assert!(others[1].simple(&mut world, "DisableTracing"));
}

#[test]
fn numbers_of_other_programs_data_sources_mean_nothing() {
    let mut world = World::default();
    let mut honest = Program::offering(&mut world, 1000, &[("events", 3)]);
    let mut hostile = Program::offering(&mut world, 2000, &[]);
    let mut consumer = Consumer::of(&mut world, 0);
    let enabled = consumer.enable(&mut world, &config_of(&[64], &[("events", 0)]));
    let [(instance, _)] = honest.starts(&world)[..] else { panic!("one data source") };
    for number in [instance, 0, u64::MAX] {
        hostile.has_started(&mut world, number);
        hostile.has_stopped(&mut world, number);
        hostile.answer(&mut world, number);
    }
    consumer.simple(&mut world, "DisableTracing");
    assert_eq!(consumer.ended(&world, enabled), None);
    let commands = honest.commands(&world);
    assert_eq!(commands, [ServiceCommand::Stop { instance }]);
    honest.has_stopped(&mut world, instance);
    assert_eq!(consumer.ended(&world, enabled).as_deref(), Some(""));
    let _ = program::instance(0);
}
