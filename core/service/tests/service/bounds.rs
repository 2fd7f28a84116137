//! What clients may have: so much of everything, and no more.

use std::collections::BTreeSet;

use tracebuf::producer::{ChunkToMove, Request};
use tracebuf::proto::fields::config::{
    producer_config, session_semaphore, trace_config, trace_config_data_source, trigger, trigger_config,
};
use tracebuf_service::wire::ProtoBuilder;
use tracebuf_service::{Event, Port};

use crate::clients::{Consumer, Program, config_of, data, source, times};
use crate::host::SERVICE;
use crate::wild::whole_chunk;
use crate::world::World;

fn triggers(count: usize, name: &str) -> ProtoBuilder {
    let all = ProtoBuilder::new()
        .number(trigger_config::TRIGGER_MODE, 1_u32)
        .number(trigger_config::TRIGGER_TIMEOUT_MS, 1000_u32)
        .each(0..count, |all, at| {
            let one = ProtoBuilder::new().bytes(trigger::NAME, format!("{name}{at}").as_bytes());
            all.message(trigger_config::TRIGGERS, &one)
        });
    ProtoBuilder::new().message(trace_config::TRIGGER_CONFIG, &all)
}

/// A config with so many of something.
type ConfigOf<'c> = &'c dyn Fn(usize) -> ProtoBuilder;

#[test]
fn a_config_lists_so_much_and_is_refused_beyond() {
    let mut world = World::default();
    let many = |field, one: &ProtoBuilder, count: usize| {
        ProtoBuilder::new().each(0..count, |all, _| all.message(field, one))
    };
    let semaphore = ProtoBuilder::new()
        .bytes(session_semaphore::NAME, b"s")
        .number(session_semaphore::MAX_OTHER_SESSION_COUNT, 9_u32);
    let producer = ProtoBuilder::new().bytes(producer_config::PRODUCER_NAME, b"p");
    let pattern = |count: usize| {
        let source = source("x", 0).each(0..count, |source, _| {
            source.bytes(trace_config_data_source::PRODUCER_NAME_REGEX_FILTER, b"*")
        });
        ProtoBuilder::new().message(trace_config::DATA_SOURCES, &source)
    };
    let name = |len: usize| ProtoBuilder::new().bytes(trace_config::UNIQUE_SESSION_NAME, &vec![b'n'; len]);
    let of: [(&str, ConfigOf<'_>, usize); 7] = [
        ("data sources", &|count| many(trace_config::DATA_SOURCES, &source("x", 0), count), 1024),
        ("producers", &|count| many(trace_config::PRODUCERS, &producer, count), 1024),
        ("session semaphores", &|count| many(trace_config::SESSION_SEMAPHORES, &semaphore, count), 1024),
        ("patterns", &pattern, 128),
        ("triggers", &|count| triggers(count, "t"), 1024),
        ("A name", &name, 4096),
        ("A name", &|len| triggers(1, &"t".repeat(len - 1)), 4096),
    ];
    for (what, config, most) in of {
        let mut enable = |count: usize| {
            let mut consumer = Consumer::of(&mut world, 0);
            let whole = config_of(&[64], &[]).fields(config(count).as_bytes());
            let enabled = consumer.enable(&mut world, &whole);
            let ended = consumer.ended(&world, enabled);
            world.hang_up(consumer.connection);
            ended
        };
        assert_eq!(enable(most), None, "{what}");
        assert!(enable(most + 1).is_some_and(|error| error.contains(what)), "{what}");
    }
}

#[test]
fn messages_that_never_end_take_so_much_of_a_user_and_nothing_of_others() {
    let mut world = World::default();
    let mut begin = |uid: u32, count: usize| {
        let connect = |_| {
            let connection = world.connect(Port::Producers, uid);
            let bytes = [&1_000_000_u32.to_le_bytes()[..], &[0; 900_000]].concat();
            world.handle(Event::Received { connection, bytes: &bytes, file: None });
            world.closed.contains(&connection)
        };
        (0..count).map(connect).filter(|is_closed| *is_closed).count()
    };
    assert_eq!(begin(2000, 200), 200 - 74, "64 MiB");
    assert_eq!([begin(3000, 10), begin(SERVICE, 100), begin(0, 100)], [0; 3]);
}

#[test]
fn clients_fill_no_log() {
    let mut world = World::default();
    let mut program = Program::of(&mut world, 1000, &"p".repeat(4000));
    (0..1000).for_each(|_| program.offer(&mut world, "", 0));
    assert_eq!(world.log.len(), 101);
    assert!(world.log.iter().all(|line| line.len() <= 1024), "{}", world.log[0].len());
    assert!(world.log[100].contains("not said"));
    world.pass(20_000);
    program.offer(&mut world, "", 0);
    assert_eq!(world.log.len(), 102);
}

/// A program that has many writers, each with a packet of this time.
fn with_writers(world: &mut World, count: u16, time: u8) -> Program {
    let mut program = Program::offering(world, 1000, &[("events", 0)]);
    let (_, target) = program.starts(world)[0];
    let memory = world.memory_of(world.files_for(program.connection)[0]);
    for writer_id in 1..=count {
        whole_chunk(&memory, 1, writer_id, &[0x40, time]);
        program.say(world, Request::Move(ChunkToMove { page: 1, chunk: 0, target }));
    }
    program
}

#[test]
fn a_ring_has_as_many_writers_as_its_size_lets_expect_and_who_makes_up_more_takes_nobody_else_s_places() {
    for (size_kb, fit, come) in [(12 << 10, 6100, 6100), (1 << 10, 4096, 6000)] {
        let mut world = World::default();
        let mut consumer = Consumer::of(&mut world, 0);
        consumer.enable(&mut world, &config_of(&[size_kb], &[("events", 0)]));
        with_writers(&mut world, 40, 7);
        with_writers(&mut world, come - 40, 8);
        let times = times(&consumer.read(&mut world));
        // Where code must be small, all programs are trusted.
        let quiet = if cfg!(tracebuf_small) && come > fit as u16 { 0 } else { 40 };
        assert_eq!((times.len(), times.iter().filter(|time| **time == 7).count()), (fit, quiet));
    }
}

#[test]
fn packets_of_programs_that_come_and_go_have_numbers_that_nobody_had_before() {
    let mut world = World::default();
    let mut consumer = Consumer::of(&mut world, 0);
    consumer.enable(&mut world, &config_of(&[1024], &[("events", 0)]));
    let mut numbers = BTreeSet::new();
    for _ in 0..15 {
        let program = with_writers(&mut world, 1000, 0x42);
        let all = data(&consumer.read(&mut world));
        assert_eq!(all.len(), 1000);
        assert!(all.iter().all(|(_, sequence, _)| numbers.insert(*sequence)));
        world.hang_up(program.connection);
    }
}

#[test]
fn a_user_has_so_many_connections_and_others_have_theirs() {
    let mut world = World::default();
    let mut connect = |uid: u32, count: usize| {
        let refused = (0..count).filter(|_| {
            let connection = world.connect(Port::Producers, uid);
            world.closed.contains(&connection)
        });
        refused.count()
    };
    assert_eq!([connect(2000, 4100), connect(3000, 1), connect(SERVICE, 4200)], [4, 0, 0]);
}
