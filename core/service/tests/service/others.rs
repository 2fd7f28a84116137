//! What one client does and others must not pay for: with a connection, a flush, a trigger, or the end of a file.

use tracebuf::proto::fields::config::{trace_config, trigger, trigger_config};
use tracebuf::proto::fields::consumer::{self as fields, flush_request};
use tracebuf::proto::fields::ipc::{
    activate_triggers_request, data_source_descriptor, initialize_connection_request, method,
    register_data_source_request,
};
use tracebuf::proto::fields::trace_packet;
use tracebuf::proto::reader::{message, messages, number};
use tracebuf_service::wire::{ProtoBuilder, program};
use tracebuf_service::{ConnectionId, Event};

use crate::clients::{Consumer, NOTIFIES_STOP, Program, config_of, packets_in, replies, times};
use crate::host::SERVICE;
use crate::world::World;

/// A data source that says much of itself.
fn long_source(name: &str, bytes: usize) -> ProtoBuilder {
    let told = ProtoBuilder::new()
        .bytes(data_source_descriptor::NAME, name.as_bytes())
        .bytes(data_source_descriptor::TRACK_EVENT_DESCRIPTOR, &vec![0; bytes]);
    ProtoBuilder::new().message(register_data_source_request::DATA_SOURCE_DESCRIPTOR, &told)
}

fn state(world: &World, connection: ConnectionId, request: u64) -> Vec<u8> {
    let answers = replies(world, connection, request);
    assert!(answers.iter().rev().enumerate().all(|(at, (good, more, _))| *good && *more == (at > 0)));
    let part = fields::query_service_state_response::SERVICE_STATE;
    answers.iter().flat_map(|(.., said)| message(said, part).expect("well-formed").to_vec()).collect()
}

#[test]
fn a_program_with_an_endless_name_costs_no_consumer_its_connection() {
    let mut world = World::default();
    let mut consumer = Consumer::of(&mut world, 0);
    let observe = ProtoBuilder::new().number(fields::observe_events_request::EVENTS_TO_OBSERVE, 1_u32);
    let observes = consumer.call(&mut world, "ObserveEvents", &observe);
    consumer.enable(&mut world, &config_of(&[64], &[("events", 0)]));
    let name = "\u{e4}".repeat(200_000);
    let hello =
        program::hello(&name, 0, 0).bytes(initialize_connection_request::SDK_VERSION, name.as_bytes());
    let mut hostile = Program::with_hello(&mut world, 2000, &hello, None);
    hostile.listen(&mut world);
    hostile.offer(&mut world, "events", 0);
    let asks = consumer.call(&mut world, "QueryServiceState", &ProtoBuilder::new());
    assert!(!world.closed.contains(&consumer.connection));
    assert!(!replies(&world, consumer.connection, observes).is_empty(), "it hears of the data source");
    let told = state(&world, consumer.connection, asks);
    let producer = messages(&told, fields::tracing_service_state::PRODUCERS).next().expect("it is there");
    let told = message(producer, fields::tracing_service_state_producer::NAME).expect("well-formed");
    assert!(!told.is_empty() && name.as_bytes().starts_with(told), "{}", told.len());
    assert!(consumer.simple(&mut world, "DisableTracing"));
}

#[test]
fn whoever_asks_what_there_is_hears_all_of_it_however_much_programs_say_of_themselves() {
    let mut world = World::default();
    let mut consumer = Consumer::of(&mut world, 0);
    consumer.enable(&mut world, &config_of(&[64], &[]));
    let mut programs = [0; 30].map(|_| Program::of(&mut world, 1000, "program"));
    for program in &mut programs {
        for at in 0..10 {
            let name = format!("source{at}");
            assert!(program.call(&mut world, method::REGISTER_DATA_SOURCE, &long_source(&name, 90_000)));
        }
    }
    // Two questions at once; and the other end takes nothing for a while.
    world.stick(consumer.connection, true);
    let asks = [false, true, false].map(|only| {
        let only = ProtoBuilder::new().number(fields::query_service_state_request::SESSIONS_ONLY, only);
        consumer.call(&mut world, "QueryServiceState", &only)
    });
    assert!(!world.closed.contains(&consumer.connection));
    // One that is gone meanwhile is no part of it.
    world.hang_up(programs[29].connection);
    while world.stick(consumer.connection, false) > 0 {}
    assert!(!world.closed.contains(&consumer.connection));
    let told = asks.map(|request| state(&world, consumer.connection, request));
    let counts = told.each_ref().map(|told| {
        [fields::tracing_service_state::PRODUCERS, fields::tracing_service_state::DATA_SOURCES]
            .map(|field| messages(told, field).count())
    });
    assert_eq!(counts, [[29, 290], [0, 0], [29, 290]]);
    assert!(
        told.iter().all(|told| messages(told, fields::tracing_service_state::TRACING_SESSIONS).count() == 1)
    );
}

#[test]
fn a_program_s_descriptions_of_its_data_sources_have_a_limit() {
    let mut world = World::default();
    let mut hostile = Program::of(&mut world, 1000, "hostile");
    let known = |world: &mut World| {
        let mut consumer = Consumer::of(world, 0);
        let asks = consumer.call(world, "QueryServiceState", &ProtoBuilder::new());
        let told = state(world, consumer.connection, asks);
        messages(&told, fields::tracing_service_state::DATA_SOURCES).map(<[u8]>::len).sum::<usize>()
    };
    for at in 0..1000 {
        let long = long_source(&format!("source{at}"), 100_000);
        hostile.call(&mut world, method::REGISTER_DATA_SOURCE, &long);
    }
    assert!((3 << 20..5 << 20).contains(&known(&mut world)), "{}", known(&mut world));
    // Nor does it get round that by saying more of those that it has.
    let mut other = Program::of(&mut world, 1000, "other");
    for update in [false, true] {
        for at in 1..1000_u32 {
            let told = ProtoBuilder::new()
                .bytes(data_source_descriptor::NAME, b"source")
                .number(data_source_descriptor::ID, at)
                .bytes(
                    data_source_descriptor::TRACK_EVENT_DESCRIPTOR,
                    &vec![0; if update { 100_000 } else { 1 }],
                );
            let told =
                ProtoBuilder::new().message(register_data_source_request::DATA_SOURCE_DESCRIPTOR, &told);
            let call = if update { method::UPDATE_DATA_SOURCE } else { method::REGISTER_DATA_SOURCE };
            other.call(&mut world, call, &told);
        }
    }
    assert!(known(&mut world) < 9 << 20, "{}", known(&mut world));
}

#[test]
fn a_packet_of_any_length_is_read_and_ends_no_connection() {
    for compresses in [false, true] {
        let mut world = World::default();
        world.can_compress(true, false);
        let hello = program::hello("program", 4 << 20, 0);
        let mut program = Program::with_hello(&mut world, 1000, &hello, None);
        program.listen(&mut world);
        program.offer(&mut world, "events", 0);
        let mut consumer = Consumer::of(&mut world, 0);
        let config = config_of(&[64 << 10], &[("events", 0)]);
        consumer.enable(&mut world, &config.number(trace_config::COMPRESSION_TYPE, compresses));
        let buffer = program.starts(&world)[0].1;
        let mut writer = program.writer(&world, buffer);
        let mut packet = writer.packet();
        packet.varint(trace_packet::TIMESTAMP, 7);
        let part = vec![1; 100_000];
        for _ in 0..220 {
            packet.bytes(trace_packet::FOR_TESTING, &part);
            program.speak(&mut world);
        }
        drop(packet);
        writer.flush();
        program.speak(&mut world);
        let request = consumer.call(&mut world, "ReadBuffers", &ProtoBuilder::new());
        assert!(!world.closed.contains(&consumer.connection));
        let answers = replies(&world, consumer.connection, request);
        let packets = packets_in(answers.iter().map(|(.., said)| said.as_slice()));
        // One that would take a second is not compressed, so that nobody waits for that.
        assert_eq!(times(&packets), [7]);
        assert!(packets.iter().map(Vec::len).max() > Some(220 * part.len()));
    }
}

#[test]
fn statistics_of_more_writers_than_a_message_has_room_for_are_answered_without_them() {
    let mut world = World::default();
    let mut program = Program::offering(&mut world, 1000, &[("events", 0)]);
    let mut consumer = Consumer::of(&mut world, 0);
    let sources = [0; 12].map(|_| ());
    let buffers = vec![1024; sources.len()];
    let names: Vec<(&str, u32)> = (0..sources.len() as u32).map(|at| ("events", at)).collect();
    consumer.enable(&mut world, &config_of(&buffers, &names));
    let starts = program.starts(&world);
    let memory = world.memory_of(world.files_for(program.connection)[0]);
    let mut writer_id = 0;
    for (_, target) in &starts {
        for _ in 0..1000 {
            writer_id += 1;
            crate::wild::whole_chunk(&memory, 1, writer_id, &[0x40, 0x42]);
            let chunk = tracebuf::producer::ChunkToMove { page: 1, chunk: 0, target: *target };
            program.say(&mut world, tracebuf::producer::Request::Move(chunk));
        }
    }
    consumer.read(&mut world);
    let request = consumer.call(&mut world, "GetTraceStats", &ProtoBuilder::new());
    assert!(!world.closed.contains(&consumer.connection));
    let [(true, false, stats)] = &replies(&world, consumer.connection, request)[..] else {
        panic!("an answer")
    };
    let stats = message(stats, fields::get_trace_stats_response::TRACE_STATS).expect("well-formed");
    assert_eq!(number(stats, tracebuf::proto::fields::trace_stats::TOTAL_BUFFERS), Some(12));
}

#[test]
fn flushes_of_one_session_that_nobody_answers_keep_no_other_from_its_own() {
    let mut world = World::default();
    let mut silent = Program::offering(&mut world, 2000, &[("silent", 0)]);
    let mut honest = Program::offering(&mut world, 1000, &[("events", 0)]);
    let mut hostile = Consumer::of(&mut world, 2000);
    let mut consumer = Consumer::of(&mut world, 1000);
    hostile.enable(&mut world, &config_of(&[64], &[("silent", 0)]));
    consumer
        .enable(&mut world, &config_of(&[64], &[("events", 0)]).number(trace_config::DURATION_MS, 100_u32));
    let forever = ProtoBuilder::new().number(flush_request::TIMEOUT_MS, u64::MAX);
    let calls: Vec<u64> = (0..3000).map(|_| hostile.call(&mut world, "Flush", &forever)).collect();
    let refused = calls.iter().filter(|call| !replies(&world, hostile.connection, **call).is_empty());
    assert!((2900..3000).contains(&refused.count()), "some wait");
    silent.commands(&world);
    honest.flushes(&world);
    // The other one's last flush is asked for, as if nothing had been.
    world.pass(150);
    let [flush] = honest.flushes(&world)[..] else { panic!("one flush") };
    honest.answer(&mut world, flush);
    // So is the last one of this session.
    hostile.call(&mut world, "StopTracebufSession", &ProtoBuilder::new().bytes(1, b"1"));
    assert_eq!(silent.flushes(&world).len(), 1);
    world.pass(6000);
    assert!(calls.iter().all(|call| replies(&world, hostile.connection, *call).len() <= 1));
}

fn fire(program: &mut Program, world: &mut World, names: &[&str]) {
    let names = ProtoBuilder::new()
        .each(names, |all, name| all.bytes(activate_triggers_request::TRIGGER_NAMES, name.as_bytes()));
    assert!(program.call(world, method::ACTIVATE_TRIGGERS, &names));
}

fn with_triggers(mode: u32, triggers: &[(&str, u32, u32)]) -> ProtoBuilder {
    let all = ProtoBuilder::new()
        .number(trigger_config::TRIGGER_MODE, mode)
        .number(trigger_config::TRIGGER_TIMEOUT_MS, 3_600_000_u32)
        .each(triggers, |all, (name, delay_ms, most)| {
            let one = ProtoBuilder::new()
                .bytes(trigger::NAME, name.as_bytes())
                .number(trigger::STOP_DELAY_MS, *delay_ms)
                .number(trigger::MAX_PER_24_H, *most);
            all.message(trigger_config::TRIGGERS, &one)
        });
    config_of(&[64], &[]).message(trace_config::TRIGGER_CONFIG, &all)
}

#[test]
fn a_trigger_that_is_fired_without_end_keeps_no_other_from_working_that_day() {
    let mut world = World::default();
    let mut program = Program::of(&mut world, 1000, "program");
    let mut consumers = [0; 2].map(|_| Consumer::of(&mut world, 0));
    consumers[0].enable(&mut world, &with_triggers(4, &[("often", 0, 0), ("thrice", 0, 3)]));
    let often = ["often"; 1000];
    (0..40).for_each(|_| fire(&mut program, &mut world, &often));
    // One that may be fired so many times a day is.
    let enabled = consumers[1].enable(&mut world, &with_triggers(2, &[("stop", 10, 1)]));
    fire(&mut program, &mut world, &["thrice", "stop", "thrice", "thrice", "thrice"]);
    world.pass(20);
    assert_eq!(consumers[1].ended(&world, enabled).as_deref(), Some(""));
    // And not again, that day.
    let mut consumer = Consumer::of(&mut world, 0);
    let enabled = consumer.enable(&mut world, &with_triggers(2, &[("stop", 10, 1)]));
    fire(&mut program, &mut world, &["stop"]);
    world.pass(20);
    assert_eq!(consumer.ended(&world, enabled), None);
}

#[test]
fn a_consumer_hears_of_a_trigger_also_if_clocks_went_on_while_it_was_fired() {
    let mut world = World::default();
    let mut program = Program::of(&mut world, 1000, "program");
    let mut consumer = Consumer::of(&mut world, 0);
    let observe = ProtoBuilder::new().number(fields::observe_events_request::EVENTS_TO_OBSERVE, 4_u32);
    let observes = consumer.call(&mut world, "ObserveEvents", &observe);
    consumer.enable(&mut world, &with_triggers(4, &[("a", 500, 0), ("b", 500, 0)]));
    // Each look at a clock takes a while, as it does while much is done.
    world.slow_clocks(1000);
    fire(&mut program, &mut world, &["a", "b"]);
    world.slow_clocks(0);
    world.pass(510);
    assert_eq!(replies(&world, consumer.connection, observes).len(), 2);
}

#[test]
fn files_are_complete_in_time_when_the_service_ends_however_long_programs_may_take() {
    for may_take in [5000, 3_600_000_u32] {
        let mut world = World::default();
        let mut silent = Program::offering(&mut world, 1000, &[("events", NOTIFIES_STOP)]);
        let mut consumer = Consumer::of(&mut world, SERVICE);
        let config = config_of(&[64], &[("events", 0)])
            .number(trace_config::WRITE_INTO_FILE, true)
            .number(trace_config::FLUSH_TIMEOUT_MS, may_take)
            .number(trace_config::DATA_SOURCE_STOP_TIMEOUT_MS, may_take);
        let file = world.file();
        consumer.enable_with(&mut world, &config, Some(file));
        let buffer = silent.starts(&world)[0].1;
        let mut writer = silent.writer(&world, buffer);
        silent.write(&mut world, &mut writer, &[1]);
        world.handle(Event::End);
        world.pass(4_000);
        assert!(!world.service.has_ended(), "there is time for programs that are slow");
        world.pass(2_000);
        assert!(world.service.has_ended() && world.files[&file.0].is_complete);
    }
}

#[test]
fn a_session_that_is_called_like_another_s_number_keeps_nobody_from_stopping_that_one() {
    let mut world = World::default();
    let mut consumers = [1000, 2000].map(|uid| Consumer::of(&mut world, uid));
    let calls: Vec<u64> = (consumers.iter_mut().zip(["", "1"]))
        .map(|(consumer, name)| {
            let config = config_of(&[64], &[]).bytes(trace_config::UNIQUE_SESSION_NAME, name.as_bytes());
            consumer.enable(&mut world, &config)
        })
        .collect();
    let mut root = Consumer::of(&mut world, 0);
    let request = root.call(&mut world, "StopTracebufSession", &ProtoBuilder::new().bytes(1, b"1"));
    let [(true, false, said)] = &replies(&world, root.connection, request)[..] else { panic!("an answer") };
    assert_eq!(number(said, 1), Some(1));
    let ended = [0, 1].map(|at| consumers[at].ended(&world, calls[at]));
    assert_eq!(ended, [Some(String::new()), None]);
}
