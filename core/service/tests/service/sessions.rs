//! Sessions from their beginning to what is read of them.

use tracebuf::proto::fields::config::{
    buffer_config, producer_config, trace_config, trace_config_data_source,
};
use tracebuf::proto::fields::ipc::{self, data_source_config};
use tracebuf::proto::fields::{trace_packet as field, trace_stats};
use tracebuf::proto::reader::{Fields, message, number};
use tracebuf_service::wire::ProtoBuilder;
use tracebuf_service::wire::commands::ServiceCommand;

use crate::clients::{Consumer, NOTIFIES_START, Program, config_of, data, source, times};
use crate::host::SERVICE;
use crate::world::{MS, World};

/// The field that says what a packet is.
fn kind(packet: &[u8]) -> u32 {
    const KINDS: [u32; 9] = [
        field::CLOCK_SNAPSHOT,
        field::SYNCHRONIZATION_MARKER,
        field::TRACE_CONFIG,
        field::TRACE_UUID,
        field::TRACE_PROVENANCE,
        field::SYSTEM_INFO,
        field::SERVICE_EVENT,
        field::TRACE_STATS,
        0,
    ];
    Fields::of(packet).map(|read| read.number).find(|number| KINDS.contains(number)).unwrap_or(0)
}

#[test]
fn what_a_program_records_is_read_with_all_that_the_service_says_about_it() {
    let mut world = World::default();
    let mut program = Program::offering(&mut world, 1000, &[("events", 0)]);
    let mut consumer = Consumer::of(&mut world, 0);
    let config = config_of(&[64], &[("events", 0)]).number(trace_config::TRACE_UUID_MSB, 7_u32);
    let config = config.bytes(999, b"unknown");
    let enabled = consumer.enable(&mut world, &config);
    let [(_, buffer)] = program.starts(&world)[..] else { panic!("one data source") };
    let mut writer = program.writer(&world, buffer);
    program.write(&mut world, &mut writer, &[11, 22, 33]);
    assert_eq!(consumer.ended(&world, enabled), None);
    assert!(consumer.simple(&mut world, "DisableTracing"));
    assert_eq!(consumer.ended(&world, enabled).as_deref(), Some(""));
    let packets = consumer.read(&mut world);
    let kinds: Vec<u32> = packets.iter().map(|packet| kind(packet)).collect();
    let first = [
        field::CLOCK_SNAPSHOT,
        field::CLOCK_SNAPSHOT,
        field::SYNCHRONIZATION_MARKER,
        field::TRACE_CONFIG,
        field::TRACE_UUID,
        field::TRACE_PROVENANCE,
        field::SYSTEM_INFO,
    ];
    assert_eq!(kinds[..7], first);
    assert_eq!(kinds[7..10], [field::SERVICE_EVENT; 3], "started, all started, disabled");
    assert_eq!(kinds[10..], [0, 0, 0, field::SERVICE_EVENT, field::TRACE_STATS]);
    // One buffer with one sequence, 2, of producer 1.
    let provenance = message(&packets[5], field::TRACE_PROVENANCE);
    assert_eq!(provenance, Some(&b"\x12\x06\x0A\x04\x08\x02\x10\x01"[..]));
    assert_eq!(data(&packets), [(11, 2, 0), (22, 2, 0), (33, 2, 0)]);
    assert_eq!(message(&packets[3], field::TRACE_CONFIG), Some(config.as_bytes()), "as it came");
    for packet in &packets[10..13] {
        let of = |field| number(packet, field);
        assert_eq!((of(field::TRUSTED_UID), of(field::TRUSTED_PID)), (Some(1000), Some(1001)));
    }
    for packet in packets[..10].iter().chain(&packets[13..]) {
        assert_eq!(number(packet, field::TRUSTED_UID), Some(u64::from(SERVICE)));
        assert_eq!(number(packet, field::TRUSTED_PACKET_SEQUENCE_ID), Some(1));
    }
    let stats = message(packets.last().expect("statistics"), field::TRACE_STATS).expect("well-formed");
    let of = |field| number(stats, field).unwrap_or(0);
    assert_eq!([of(trace_stats::PRODUCERS_CONNECTED), of(trace_stats::TOTAL_BUFFERS)], [1, 1]);
    assert!(
        consumer.read(&mut world).iter().all(|packet| kind(packet) == field::SERVICE_EVENT),
        "all was read"
    );
    assert!(consumer.simple(&mut world, "FreeBuffers"));
    assert!(consumer.read(&mut world).is_empty());
}

#[test]
fn sessions_beside_each_other_have_a_program_each_with_their_own_buffers_and_numbers() {
    let mut world = World::default();
    let mut program = Program::offering(&mut world, 1000, &[("events", 0)]);
    let mut consumers = [0; 3].map(|_| Consumer::of(&mut world, 0));
    let mut started = Vec::new();
    for consumer in &mut consumers {
        consumer.enable(&mut world, &config_of(&[64, 64], &[("events", 1)]));
        started.extend(program.starts(&world));
    }
    assert_eq!(started.iter().map(|(_, buffer)| *buffer).collect::<Vec<_>>(), [2, 4, 6]);
    let mut writers: Vec<_> = started.iter().map(|(_, buffer)| program.writer(&world, *buffer)).collect();
    for (writer, time) in writers.iter_mut().zip(10..) {
        program.write(&mut world, writer, &[time, time + 100]);
    }
    for (consumer, time) in consumers.iter_mut().zip(10..) {
        consumer.simple(&mut world, "DisableTracing");
        assert_eq!(data(&consumer.read(&mut world)), [(time, 2, 0), (time + 100, 2, 0)]);
    }
    // The buffers of one that is gone take nothing any more, and their numbers are not given again at once.
    consumers[0].simple(&mut world, "FreeBuffers");
    program.write(&mut world, &mut writers[0], &[99]);
    let mut consumer = Consumer::of(&mut world, 1);
    consumer.enable(&mut world, &config_of(&[64], &[("events", 0)]));
    assert_eq!(program.starts(&world).iter().map(|(_, buffer)| *buffer).collect::<Vec<_>>(), [7]);
    consumer.simple(&mut world, "DisableTracing");
    assert_eq!(times(&consumer.read(&mut world)), []);
}

#[test]
fn a_data_source_is_told_what_the_consumer_wrote_but_for_what_the_service_says() {
    let mut world = World::default();
    let mut program = Program::offering(&mut world, 1000, &[("events", 0)]);
    let its = ProtoBuilder::new()
        .bytes(data_source_config::NAME, b"events")
        .number(data_source_config::TRACING_SESSION_ID, 77_u32)
        .number(data_source_config::STOP_TIMEOUT_MS, 1_u32)
        .bytes(113, b"\x12\x01a")
        .bytes(7777, b"unknown");
    let its = ProtoBuilder::new().message(trace_config_data_source::CONFIG, &its);
    let config = config_of(&[64], &[]).message(trace_config::DATA_SOURCES, &its);
    let config = config.number(trace_config::DURATION_MS, 5000_u32);
    let config = config.number(trace_config::PREFER_SUSPEND_CLOCK_FOR_DURATION, true);
    Consumer::of(&mut world, 0).enable(&mut world, &config);
    let told = program.commands(&world).into_iter().find_map(|command| match command {
        ServiceCommand::Start { config, .. } => Some(config),
        _ => None,
    });
    let told = told.expect("it starts");
    let expected = ProtoBuilder::new()
        .bytes(data_source_config::NAME, b"events")
        .bytes(113, b"\x12\x01a")
        .bytes(7777, b"unknown")
        .number(data_source_config::TARGET_BUFFER, 1_u32)
        .number(data_source_config::TRACE_DURATION_MS, 5000_u32)
        .number(data_source_config::TRACING_SESSION_ID, 1_u32)
        .number(data_source_config::STOP_TIMEOUT_MS, 5000_u32)
        .number(data_source_config::ENABLE_EXTRA_GUARDRAILS, false)
        .number(data_source_config::PREFER_SUSPEND_CLOCK_FOR_DURATION, true);
    assert_eq!(told, expected.as_bytes());
}

#[test]
fn producers_get_what_their_names_let_through_and_a_change_lets_others_in() {
    let mut world = World::default();
    let filtered = |names: &[&str], patterns: &[&str]| {
        let source = source("events", 0)
            .each(names, |all, name| {
                all.bytes(trace_config_data_source::PRODUCER_NAME_FILTER, name.as_bytes())
            })
            .each(patterns, |all, name| {
                all.bytes(trace_config_data_source::PRODUCER_NAME_REGEX_FILTER, name.as_bytes())
            });
        config_of(&[64], &[]).message(trace_config::DATA_SOURCES, &source)
    };
    let mut program = Program::offering(&mut world, 1000, &[("events", 0)]);
    let mut starts = |world: &mut World, config: &ProtoBuilder| {
        let mut consumer = Consumer::of(world, 0);
        consumer.enable(world, config);
        let starts = program.starts(world).len();
        (consumer, starts)
    };
    let cases = [(&["program"][..], &[][..], 1), (&["other"], &[], 0), (&["other"], &["*"], 1)];
    for (names, patterns, expected) in cases {
        let (consumer, started) = starts(&mut world, &filtered(names, patterns));
        assert_eq!(started, expected, "{names:?} {patterns:?}");
        world.hang_up(consumer.connection);
    }
    let (mut consumer, 0) = starts(&mut world, &filtered(&["other"], &[])) else { panic!("it is left out") };
    let change = ProtoBuilder::new().message(1, &filtered(&["program"], &[]));
    for started in [1, 0] {
        consumer.call(&mut world, "ChangeTraceConfig", &change);
        assert_eq!(program.starts(&world).len(), started, "it starts once");
    }
    let error = Consumer::of(&mut world, 0);
    let mut error = error;
    let refused = error.enable(&mut world, &filtered(&[], &["("]));
    assert!(error.ended(&world, refused).is_some_and(|why| why.contains("Invalid pattern")));
}

#[test]
fn a_data_source_that_is_offered_twice_runs_twice_and_no_more_when_filters_change() {
    let mut world = World::default();
    let mut program = Program::offering(&mut world, 1000, &[("events", 0), ("events", 0)]);
    let mut consumer = Consumer::of(&mut world, 0);
    let config = config_of(&[64], &[("events", 0)]);
    consumer.enable(&mut world, &config);
    assert_eq!(program.starts(&world).len(), 2);
    consumer.call(&mut world, "ChangeTraceConfig", &ProtoBuilder::new().message(1, &config));
    assert!(program.starts(&world).is_empty());
    program.offer(&mut world, "events", 0);
    assert_eq!(program.starts(&world).len(), 1);
}

#[test]
fn memory_is_shared_once_as_the_first_session_says_and_before_anything_else() {
    let mut world = World::default();
    let mut program = Program::offering(&mut world, 1000, &[("events", 0)]);
    assert!(world.files_for(program.connection).is_empty(), "nothing is recorded");
    let producer = ProtoBuilder::new()
        .bytes(producer_config::PRODUCER_NAME, b"program")
        .number(producer_config::SHM_SIZE_KB, 512_u32)
        .number(producer_config::PAGE_SIZE_KB, 32_u32);
    let config = config_of(&[64], &[("events", 0)]).message(trace_config::PRODUCERS, &producer);
    Consumer::of(&mut world, 0).enable(&mut world, &config);
    Consumer::of(&mut world, 0).enable(&mut world, &config_of(&[64], &[("events", 0)]));
    let commands = program.commands(&world);
    assert_eq!(commands[0], ServiceCommand::UseMemory { page_kib: 32 });
    let starts = commands.iter().filter(|command| matches!(command, ServiceCommand::Start { .. })).count();
    assert_eq!((starts, commands.len()), (2, 5), "each is set up, then started");
    let [file] = world.files_for(program.connection) else { panic!("once") };
    assert_eq!(world.memory_of(*file).len() * 4, 512 << 10);
}

#[test]
fn memory_that_a_program_brings_is_used_and_what_it_wrote_before_the_session_is_taken() {
    let mut world = World::default();
    let memory = world.memory(64 << 10);
    let hello = ProtoBuilder::new()
        .bytes(ipc::initialize_connection_request::PRODUCER_NAME, b"early")
        .number(ipc::initialize_connection_request::PRODUCER_PROVIDED_SHMEM, true)
        .number(ipc::initialize_connection_request::SMB_SCRAPING_MODE, 1_u32);
    let mut program = Program::with_hello(&mut world, 1000, &hello, Some(memory));
    program.listen(&mut world);
    program.offer(&mut world, "events", 0);
    Consumer::of(&mut world, 0).enable(&mut world, &config_of(&[64], &[("events", 0)]));
    let commands = program.commands(&world);
    assert_eq!(commands[0], ServiceCommand::UseMemory { page_kib: 0 }, "its own");
    assert_eq!((commands.len(), world.files_for(program.connection).len()), (3, 0));
}

#[test]
fn a_deferred_start_waits_for_the_consumer_and_a_program_that_comes_later_starts_at_once() {
    let mut world = World::default();
    let mut program = Program::offering(&mut world, 1000, &[("events", NOTIFIES_START)]);
    let mut consumer = Consumer::of(&mut world, 0);
    let config = config_of(&[64], &[("events", 0)]).number(trace_config::DEFERRED_START, true);
    consumer.enable(&mut world, &config);
    assert!(program.starts(&world).is_empty());
    assert!(consumer.simple(&mut world, "StartTracing"));
    assert_eq!(program.starts(&world).len(), 1);
    assert!(consumer.simple(&mut world, "StartTracing"), "it has no effect");
    assert!(program.starts(&world).is_empty());
    let mut late = Program::of(&mut world, 1000, "late");
    late.offer(&mut world, "events", 0);
    late.listen(&mut world);
    assert_eq!(late.starts(&world).len(), 1, "what was said before it listened is not lost");
}

#[test]
fn a_session_lasts_as_long_as_it_says_and_sleep_counts_if_it_says_so() {
    for counts_sleep in [false, true] {
        let mut world = World::default();
        let mut consumer = Consumer::of(&mut world, 0);
        let config = config_of(&[64], &[])
            .number(trace_config::DURATION_MS, 60_000_u32)
            .number(trace_config::PREFER_SUSPEND_CLOCK_FOR_DURATION, counts_sleep);
        let enabled = consumer.enable(&mut world, &config);
        world.pass(20_000);
        world.sleep(40_000);
        world.pass(2_000);
        assert_eq!(consumer.ended(&world, enabled).is_some(), counts_sleep);
        world.pass(37_999);
        assert_eq!(consumer.ended(&world, enabled).is_some(), counts_sleep);
        world.pass(1);
        assert_eq!(consumer.ended(&world, enabled).as_deref(), Some(""));
    }
}

#[test]
fn long_packets_come_whole_and_clocks_markers_and_statistics_come_again() {
    let mut world = World::default();
    let mut program = Program::offering(&mut world, 1000, &[("events", 0)]);
    let mut consumer = Consumer::of(&mut world, 0);
    consumer.enable(&mut world, &config_of(&[4096], &[("events", 0)]));
    let mut writer = program.starts_to_write(&world);
    // In pieces, so that shared memory is never full.
    for _ in 0..3 {
        writer.packet().bytes(field::FOR_TESTING, &[7; 200_000]);
        writer.flush();
        program.speak(&mut world);
    }
    let packets = consumer.read(&mut world);
    let long: Vec<usize> = packets.iter().map(Vec::len).filter(|len| *len > 1000).collect();
    assert_eq!((long.len(), long.iter().all(|len| *len > 200_000)), (3, true));
    let marks = |packets: &[Vec<u8>]| {
        [field::SYNCHRONIZATION_MARKER, field::TRACE_STATS, field::CLOCK_SNAPSHOT]
            .map(|of| packets.iter().filter(|packet| kind(packet) == of).count())
    };
    assert_eq!(marks(&packets)[..2], [1, 1]);
    assert_eq!(marks(&consumer.read(&mut world)), [0, 0, 0]);
    // Clocks have not moved against each other.
    world.pass(10_000);
    assert_eq!(marks(&consumer.read(&mut world)), [1, 1, 1]);
    assert!(world.boot_time() > 10_000 * MS);
    let _ = buffer_config::SIZE_KB;
}
