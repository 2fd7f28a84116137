//! What sessions say they want, one setting after the other, and what becomes of it.

use tracebuf::proto::TracePackets;
use tracebuf::proto::fields::config::{
    buffer_config, builtin_data_source as builtin, trace_config, trace_config_data_source, trigger,
    trigger_config,
};
use tracebuf::proto::fields::ipc::{activate_triggers_request, data_source_config, method};
use tracebuf::proto::fields::{builtin_clock, clock_snapshot, system_info, trace_packet as field};
use tracebuf::proto::reader::{Fields, message, messages, number, numbers};
use tracebuf_service::Event;
use tracebuf_service::wire::commands::ServiceCommand;
use tracebuf_service::wire::frames::{invoke, push_frame};
use tracebuf_service::wire::{ProtoBuilder, consumers};

use crate::clients::{Consumer, Program, config_of, replies, send, source, times};
use crate::world::World;

/// Which of these fields packets of the service's have.
fn kinds(packets: &[Vec<u8>]) -> Vec<u32> {
    let all = [
        field::CLOCK_SNAPSHOT,
        field::TRACE_CONFIG,
        field::SYSTEM_INFO,
        field::SERVICE_EVENT,
        field::TRACE_UUID,
        field::TRACE_STATS,
    ];
    let has = |kind: &u32| packets.iter().any(|packet| Fields::of(packet).any(|of| of.number == *kind));
    all.into_iter().filter(has).collect()
}

#[test]
fn what_the_service_says_by_itself_is_left_out_if_it_is_not_wanted() {
    let all = [field::CLOCK_SNAPSHOT, field::TRACE_CONFIG, field::SYSTEM_INFO, field::SERVICE_EVENT];
    let disable = [
        builtin::DISABLE_CLOCK_SNAPSHOTTING,
        builtin::DISABLE_TRACE_CONFIG,
        builtin::DISABLE_SYSTEM_INFO,
        builtin::DISABLE_SERVICE_EVENTS,
    ];
    for (off, kind) in disable.into_iter().zip(all) {
        let mut world = World::default();
        let mut consumer = Consumer::of(&mut world, 0);
        let builtin = ProtoBuilder::new().number(off, true);
        consumer
            .enable(&mut world, &config_of(&[64], &[]).message(trace_config::BUILTIN_DATA_SOURCES, &builtin));
        world.pass(10_000);
        consumer.simple(&mut world, "DisableTracing");
        let found = kinds(&consumer.read(&mut world));
        let expected: Vec<u32> = all.into_iter().filter(|of| *of != kind).collect();
        assert_eq!(
            found,
            [&expected[..], &[field::TRACE_UUID, field::TRACE_STATS]].concat(),
            "without {off}"
        );
    }
}

#[test]
fn clocks_come_in_their_order_at_the_interval_that_is_said_and_all_times_are_boot_time() {
    let mut world = World::default();
    let mut consumer = Consumer::of(&mut world, 0);
    let builtin = ProtoBuilder::new()
        .number(builtin::PRIMARY_TRACE_CLOCK, builtin_clock::MONOTONIC)
        .number(builtin::SNAPSHOT_INTERVAL_MS, 2000_u32);
    consumer.enable(&mut world, &config_of(&[64], &[]).message(trace_config::BUILTIN_DATA_SOURCES, &builtin));
    let first = consumer.read(&mut world);
    let system =
        first.iter().find_map(|packet| message(packet, field::SYSTEM_INFO).filter(|of| !of.is_empty()));
    let minutes = number(system.expect("it is told"), system_info::TIMEZONE_OFF_MINS);
    assert_eq!(minutes, Some((-90_i64).cast_unsigned()));
    world.sleep(100);
    world.pass(2000);
    let packets = consumer.read(&mut world);
    let snapshots: Vec<_> = packets
        .iter()
        .filter_map(|packet| message(packet, field::CLOCK_SNAPSHOT).filter(|of| !of.is_empty()))
        .collect();
    let [snapshot] = snapshots[..] else { panic!("one: {}", snapshots.len()) };
    assert_eq!(number(snapshot, clock_snapshot::PRIMARY_TRACE_CLOCK), Some(builtin_clock::MONOTONIC));
    let clocks =
        messages(snapshot, clock_snapshot::CLOCKS).map(|of| numbers(of, [1, 2]).expect("well-formed"));
    let clocks: Vec<[u64; 2]> = clocks.collect();
    let ids: Vec<u64> = clocks.iter().map(|[id, _]| *id).collect();
    assert_eq!(ids, [6, 2, 4, 1, 3, 5, 9]);
    assert_eq!(clocks[0][1], world.boot_time());
    for packet in packets.iter().filter(|packet| number(packet, field::TIMESTAMP).is_some()) {
        assert_eq!(number(packet, field::TIMESTAMP_CLOCK_ID), Some(builtin_clock::BOOTTIME));
        assert!(
            number(packet, field::TIMESTAMP)
                .is_some_and(|time| time.abs_diff(world.boot_time()) < 20_000_000_000)
        );
    }
}

#[test]
fn what_clocks_show_waits_to_be_read_only_if_they_have_moved_and_so_often() {
    let mut world = World::default();
    let mut consumer = Consumer::of(&mut world, 0);
    consumer.enable(&mut world, &config_of(&[64], &[]));
    consumer.read(&mut world);
    let snapshots = |packets: &[Vec<u8>]| {
        packets.iter().filter(|packet| kinds(&[packet.to_vec()]) == [field::CLOCK_SNAPSHOT]).count()
    };
    world.pass(300_000);
    assert_eq!(snapshots(&consumer.read(&mut world)), 1, "they have not");
    for _ in 0..30 {
        world.sleep(11);
        world.pass(10_000);
    }
    let packets = consumer.read(&mut world);
    assert_eq!(snapshots(&packets), 16);
    // One marker, by which a reader finds its way again, and nothing behind it.
    let marker =
        [0x82, 0x47, 0x7A, 0x76, 0xB2, 0x8D, 0x42, 0xBA, 0x81, 0xDC, 0x33, 0x32, 0x6D, 0x57, 0xA0, 0x79];
    let whole = [&[3 << 3, 90, 10 << 3, 1, 0xA2, 0x02, 16][..], &marker].concat();
    assert_eq!(packets.iter().filter(|packet| **packet == whole).count(), 1);
}

#[test]
fn the_newest_of_what_happens_again_waits_to_be_read_and_of_flushes_so_many() {
    let mut world = World::default();
    let mut consumer = Consumer::of(&mut world, 0);
    consumer.enable(&mut world, &config_of(&[64], &[]));
    for _ in 0..100 {
        consumer.call(&mut world, "Flush", &ProtoBuilder::new());
        world.pass(1);
    }
    let packets = consumer.read(&mut world);
    let events =
        packets.iter().filter_map(|packet| message(packet, field::SERVICE_EVENT).filter(|of| !of.is_empty()));
    let mut counts = [0; 12];
    events.for_each(|event| counts[(event[0] >> 3) as usize] += 1);
    assert_eq!([counts[1], counts[2], counts[3], counts[4], counts[9]], [1, 1, 64, 1, 64]);
}

#[test]
fn data_sources_are_wanted_of_machines_by_name() {
    for (names, starts) in [(&["host"][..], 1), (&["here"], 1), (&["other", "here"], 1), (&["other"], 0)] {
        let mut world = World::default();
        let mut program = Program::offering(&mut world, 1000, &[("events", 0)]);
        let wanted = source("events", 0).each(names, |all, name| {
            all.bytes(trace_config_data_source::MACHINE_NAME_FILTER, name.as_bytes())
        });
        let config = config_of(&[64], &[]).message(trace_config::DATA_SOURCES, &wanted);
        Consumer::of(&mut world, 0).enable(&mut world, &config);
        assert_eq!(program.starts(&world).len(), starts, "{names:?}");
    }
}

#[test]
fn a_buffer_that_keeps_what_came_first_is_full_and_takes_no_more() {
    let mut world = World::default();
    let mut program = Program::offering(&mut world, 1000, &[("events", 0)]);
    let mut consumer = Consumer::of(&mut world, 0);
    let buffer =
        ProtoBuilder::new().number(buffer_config::SIZE_KB, 8_u32).number(buffer_config::FILL_POLICY, 2_u32);
    let config = ProtoBuilder::new().message(trace_config::BUFFERS, &buffer);
    consumer.enable(&mut world, &config.message(trace_config::DATA_SOURCES, &source("events", 0)));
    let mut writer = program.starts_to_write(&world);
    for time in 1..=40 {
        let mut packet = writer.packet();
        packet.varint(8, time);
        packet.bytes(900, &[1; 900]);
        drop(packet);
        writer.flush();
        program.speak(&mut world);
    }
    let times = times(&consumer.read(&mut world));
    assert!((5..20).contains(&times.len()) && times.iter().copied().eq(1..=times.len() as u64), "{times:?}");
}

/// The durations that data sources are told.
fn durations(world: &World, program: &mut Program) -> Vec<u64> {
    let all = program.commands(world).into_iter().filter_map(|command| match command {
        ServiceCommand::Start { config, .. } => {
            Some(number(&config, data_source_config::TRACE_DURATION_MS).unwrap_or(0))
        }
        _ => None,
    });
    all.collect()
}

fn with_triggers(mode: u32, delay_ms: u32) -> ProtoBuilder {
    let go = ProtoBuilder::new().bytes(trigger::NAME, b"go").number(trigger::STOP_DELAY_MS, delay_ms);
    let all = ProtoBuilder::new()
        .number(trigger_config::TRIGGER_MODE, mode)
        .number(trigger_config::TRIGGER_TIMEOUT_MS, 60_000_u32)
        .message(trigger_config::TRIGGERS, &go);
    config_of(&[64], &[("events", 0)]).message(trace_config::TRIGGER_CONFIG, &all)
}

#[test]
fn a_trigger_that_stops_counts_sleep_if_the_session_does_and_its_time_is_told_to_all_alike() {
    for mode in [2, 4] {
        let mut world = World::default();
        let mut early = Program::offering(&mut world, 1000, &[("events", 4)]);
        Consumer::of(&mut world, 0).enable(&mut world, &with_triggers(mode, 10));
        let mut late = Program::offering(&mut world, 1000, &[("events", 4)]);
        assert_eq!([durations(&world, &mut early), durations(&world, &mut late)], [[60_000]; 2]);
    }
    for counts_sleep in [false, true] {
        let mut world = World::default();
        let mut program = Program::offering(&mut world, 1000, &[("events", 4)]);
        let mut consumer = Consumer::of(&mut world, 0);
        let config =
            with_triggers(2, 30_000).number(trace_config::PREFER_SUSPEND_CLOCK_FOR_DURATION, counts_sleep);
        let enabled = consumer.enable(&mut world, &config);
        let names = ProtoBuilder::new().bytes(activate_triggers_request::TRIGGER_NAMES, b"go");
        assert!(program.call(&mut world, method::ACTIVATE_TRIGGERS, &names));
        world.sleep(29_000);
        world.pass(2_000);
        assert_eq!(consumer.ended(&world, enabled).is_some(), counts_sleep);
    }
}

#[test]
fn a_session_that_is_never_started_ends_after_the_longest_time_that_one_may_last() {
    let mut world = World::default();
    let mut consumer = Consumer::of(&mut world, 0);
    let enabled =
        consumer.enable(&mut world, &config_of(&[64], &[]).number(trace_config::DEFERRED_START, true));
    let week = 7 * 24 * 3600 * 1000;
    world.pass(week - 1);
    assert_eq!(consumer.ended(&world, enabled), None);
    world.pass(1);
    assert_eq!(consumer.ended(&world, enabled).as_deref(), Some(""));
    // One that was started goes on.
    let mut consumer = Consumer::of(&mut world, 0);
    let enabled =
        consumer.enable(&mut world, &config_of(&[64], &[]).number(trace_config::DEFERRED_START, true));
    consumer.simple(&mut world, "StartTracing");
    world.pass(week);
    assert_eq!(consumer.ended(&world, enabled), None);
}

#[test]
fn calls_without_a_session_do_nothing_and_are_done_and_one_that_wants_no_answer_gets_none() {
    let mut world = World::default();
    let mut consumer = Consumer::of(&mut world, 0);
    for call in ["StartTracing", "DisableTracing", "FreeBuffers"] {
        assert!(consumer.simple(&mut world, call), "{call}");
    }
    assert!(consumer.read(&mut world).is_empty());
    world.forget_frames(consumer.connection);
    for call in
        ["QueryServiceState", "EnableTracing", "GetTraceStats", "NoSuchCall", "CloneSession", "ReadBuffers"]
    {
        send(
            &mut world,
            consumer.connection,
            &invoke(1, consumers::method(call), &ProtoBuilder::new(), None),
            None,
        );
    }
    world.pass(1000);
    assert!(world.frames(consumer.connection).is_empty());
}

#[test]
fn frames_longer_than_perfettos_clients_send_are_taken() {
    let mut world = World::default();
    let mut consumer = Consumer::of(&mut world, 0);
    let connection = consumer.connection;
    let request = consumer.call(&mut world, "FreeBuffers", &ProtoBuilder::new());
    let mut bytes = Vec::new();
    let long = ProtoBuilder::new().bytes(99, &[7; 900_000]);
    let call = invoke(1, consumers::method("FreeBuffers"), &long, Some(request + 1));
    push_frame(&mut bytes, &call);
    // In pieces, as they come.
    for piece in bytes.chunks(70_000) {
        world.handle(Event::Received { connection, bytes: piece, file: None });
    }
    assert!(matches!(replies(&world, connection, request + 1)[..], [(true, false, _)]));
}

fn into_file(buffer_kb: u32) -> ProtoBuilder {
    config_of(&[buffer_kb], &[("events", 0)])
        .number(trace_config::WRITE_INTO_FILE, true)
        .number(trace_config::FILE_WRITE_PERIOD_MS, 600_000_u32)
        .number(trace_config::WRITE_FLUSH_MODE, 2_u32)
}

#[test]
fn a_file_is_written_before_its_time_when_a_ring_fills_and_the_log_says_what_is_lost() {
    for is_stuck in [false, true] {
        let mut world = World::default();
        let mut program = Program::offering(&mut world, 1000, &[("events", 0)]);
        let (mut consumer, file) = (Consumer::of(&mut world, 0), world.file());
        consumer.enable_with(&mut world, &into_file(if is_stuck { 16 << 10 } else { 64 }), Some(file));
        let mut writer = program.starts_to_write(&world);
        world.files_are_stuck = is_stuck;
        let (many, size) = if is_stuck { (500, 200_000) } else { (500, 3000) };
        for time in 1..=many {
            let mut packet = writer.packet();
            packet.varint(8, time);
            packet.bytes(900, &vec![1; size]);
            drop(packet);
            writer.flush();
            program.speak(&mut world);
        }
        world.unstick_files();
        consumer.simple(&mut world, "DisableTracing");
        let packets = TracePackets::new(&world.files[&file.0].bytes).flatten().map(<[u8]>::to_vec);
        let times = times(&packets.collect::<Vec<_>>());
        let said = world.log.iter().filter(|line| line.contains("session 1 loses data")).count();
        if is_stuck {
            // A file that takes nothing cannot be helped.
            assert!(times.len() < many as usize && said == 1, "{} {:?}", times.len(), world.log);
        } else {
            assert!(times.iter().copied().eq(1..=many) && said == 0, "{} {:?}", times.len(), world.log);
        }
    }
}

#[test]
fn who_does_not_flush_is_logged_once_until_all_do() {
    let mut world = World::default();
    let mut program = Program::offering(&mut world, 1000, &[("a", 0), ("b", 0)]);
    let mut consumer = Consumer::of(&mut world, 0);
    let config = config_of(&[64], &[("a", 0), ("b", 0)]).number(trace_config::FLUSH_TIMEOUT_MS, 100_u32);
    consumer.enable(&mut world, &config);
    let mut said = Vec::new();
    for answers in [false, false, true, false] {
        consumer.call(&mut world, "Flush", &ProtoBuilder::new());
        if answers {
            program.answer(&mut world, u64::MAX >> 1);
        }
        world.pass(100);
        said.push(world.log.len());
    }
    assert_eq!(said, [1, 1, 1, 2], "{:?}", world.log);
    assert!(world.log[0].contains("a of program and 1 more"), "{:?}", world.log);
}
