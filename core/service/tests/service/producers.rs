//! What producers offer, take back and are asked, and what of theirs is counted.

use tracebuf::producer::{ChunkToMove, Request};
use tracebuf::proto::fields::consumer as fields;
use tracebuf::proto::fields::ipc::{
    data_source_descriptor as descriptor, flush, get_async_command_response, initialize_connection_response,
    method, register_data_source_request, unregister_data_source_request,
};
use tracebuf::proto::fields::{config, trace_stats};
use tracebuf::proto::reader::{FieldValue, Fields, message, messages, number};
use tracebuf_service::wire::ProtoBuilder;
use tracebuf_service::wire::commands::ServiceCommand;
use tracebuf_service::wire::program;

use crate::clients::{
    COMMANDS, Consumer, NO_FLUSH, NOTIFIES_START, NOTIFIES_STOP, Program, config_of, replies, times,
};
use crate::world::World;

fn described(name: &str, id: u64, more: &[u8]) -> ProtoBuilder {
    let told = ProtoBuilder::new()
        .bytes(descriptor::NAME, name.as_bytes())
        .number(descriptor::ID, id)
        .bytes(descriptor::TRACK_EVENT_DESCRIPTOR, more);
    ProtoBuilder::new().message(register_data_source_request::DATA_SOURCE_DESCRIPTOR, &told)
}

/// What consumers hear of data sources: their names, and what else they say.
fn registered(world: &mut World) -> Vec<(String, Vec<u8>)> {
    let mut consumer = Consumer::of(world, 0);
    let request = consumer.call(world, "QueryServiceState", &ProtoBuilder::new());
    let answers = replies(world, consumer.connection, request);
    world.hang_up(consumer.connection);
    let state =
        message(&answers[0].2, fields::query_service_state_response::SERVICE_STATE).expect("well-formed");
    let all = messages(state, fields::tracing_service_state::DATA_SOURCES).map(|source| {
        let told =
            message(source, fields::tracing_service_state_data_source::DS_DESCRIPTOR).expect("well-formed");
        let of = |field| message(told, field).expect("well-formed").to_vec();
        (String::from_utf8(of(descriptor::NAME)).expect("text"), of(descriptor::TRACK_EVENT_DESCRIPTOR))
    });
    all.collect()
}

#[test]
fn a_buffer_as_large_as_a_page_takes_the_chunk_of_one() {
    let mut world = World::default();
    let hello = program::hello("probes", 128 << 10, 32 << 10);
    let mut program = Program::with_hello(&mut world, 0, &hello, None);
    let welcome = replies(&world, program.connection, 2).pop().expect("an answer").2;
    let may_patch = number(&welcome, initialize_connection_response::DIRECT_SMB_PATCHING_SUPPORTED);
    assert_eq!(may_patch, Some(1));
    program.page = 32 << 10;
    program.listen(&mut world);
    program.offer(&mut world, "events", 0);
    let mut consumer = Consumer::of(&mut world, 0);
    consumer.enable(&mut world, &config_of(&[32], &[("events", 0)]));
    let (_, buffer) = program.starts(&world)[0];
    let mut writer = program.writer(&world, buffer);
    for time in 1..4 {
        program.write(&mut world, &mut writer, &[time]);
        assert_eq!(times(&consumer.read(&mut world)), [time]);
    }
}

#[test]
fn what_is_offered_without_a_name_or_with_a_number_that_is_taken_is_ignored_and_an_update_needs_both() {
    let mut world = World::default();
    let mut program = Program::offering(&mut world, 1000, &[]);
    for (name, id) in [("a", 7), ("", 8), ("b", 7), ("c", 0), ("d", 0)] {
        program.call(&mut world, method::REGISTER_DATA_SOURCE, &described(name, id, b"old"));
    }
    assert_eq!(world.log.len(), 2, "{:?}", world.log);
    let mut consumer = Consumer::of(&mut world, 0);
    consumer.enable(&mut world, &config_of(&[64], &[("a", 0), ("b", 0)]));
    assert_eq!(program.starts(&world).len(), 1);
    for (name, id) in [("b", 7), ("a", 9), ("c", 0), ("a", 7)] {
        program.call(&mut world, method::UPDATE_DATA_SOURCE, &described(name, id, b"new"));
    }
    let of = |name: &str, more: &[u8]| (name.to_string(), more.to_vec());
    assert_eq!(registered(&mut world), [of("a", b"new"), of("c", b"old"), of("d", b"old")]);
    assert!(program.commands(&world).is_empty(), "what runs goes on");
}

#[test]
fn a_data_source_that_is_taken_back_stops_and_neither_a_start_nor_a_stop_waits_for_it() {
    let mut world = World::default();
    let both = NOTIFIES_START | NOTIFIES_STOP;
    let mut program = Program::offering(&mut world, 1000, &[("a", both), ("b", both)]);
    let mut consumer = Consumer::of(&mut world, 0);
    let observes = ProtoBuilder::new().number(fields::observe_events_request::EVENTS_TO_OBSERVE, 2_u32);
    let observed = consumer.call(&mut world, "ObserveEvents", &observes);
    let enabled = consumer.enable(&mut world, &config_of(&[64], &[("a", 0), ("b", 0)]));
    let [(a, _), (b, _)] = program.starts(&world)[..] else { panic!("both") };
    program.has_started(&mut world, b);
    assert!(replies(&world, consumer.connection, observed).is_empty());
    let back = |name: &str| {
        ProtoBuilder::new().bytes(unregister_data_source_request::DATA_SOURCE_NAME, name.as_bytes())
    };
    program.call(&mut world, method::UNREGISTER_DATA_SOURCE, &back("a"));
    assert_eq!(program.commands(&world), [ServiceCommand::Stop { instance: a }]);
    assert_eq!(replies(&world, consumer.connection, observed).len(), 1, "all others have started");
    consumer.simple(&mut world, "DisableTracing");
    assert_eq!(consumer.ended(&world, enabled), None);
    program.call(&mut world, method::UNREGISTER_DATA_SOURCE, &back("b"));
    assert_eq!(consumer.ended(&world, enabled).as_deref(), Some(""));
    program.call(&mut world, method::UNREGISTER_DATA_SOURCE, &back("b"));
    assert_eq!(program.commands(&world), [ServiceCommand::Stop { instance: b }], "once");
}

#[test]
fn a_data_source_is_set_up_and_started_with_the_same_bytes() {
    let mut world = World::default();
    let program = Program::offering(&mut world, 1000, &[("a", 0)]);
    Consumer::of(&mut world, 0).enable(&mut world, &config_of(&[64], &[("a", 0)]));
    let said = replies(&world, program.connection, COMMANDS);
    use get_async_command_response::{SETUP_DATA_SOURCE, SETUP_TRACING, START_DATA_SOURCE};
    let kinds: Vec<u32> =
        said.iter().map(|(_, _, said)| Fields::of(said).next().expect("one").number).collect();
    assert_eq!(kinds, [SETUP_TRACING, SETUP_DATA_SOURCE, START_DATA_SOURCE]);
    let [setup, start] = [(1, SETUP_DATA_SOURCE), (2, START_DATA_SOURCE)]
        .map(|(at, field): (usize, u32)| message(&said[at].2, field).expect("well-formed"));
    assert!(!setup.is_empty() && setup == start);
}

#[test]
fn what_is_being_written_is_in_the_trace_when_a_session_stops_although_nobody_flushes() {
    let mut world = World::default();
    let mut program = Program::offering(&mut world, 1000, &[("a", 0)]);
    let mut consumers = [0; 2].map(|_| Consumer::of(&mut world, 0));
    for consumer in &mut consumers {
        consumer.enable(&mut world, &config_of(&[64], &[("a", 0)]));
    }
    let [(_, first), (_, second)] = program.starts(&world)[..] else { panic!("two") };
    let mut writers = [first, second].map(|buffer| program.writer(&world, buffer));
    program.speak(&mut world);
    for (writer, time) in writers.iter_mut().zip([10, 20]) {
        (time..time + 3).for_each(|time| writer.packet().varint(8, time));
    }
    consumers[0].simple(&mut world, "DisableTracing");
    let read = consumers.each_mut().map(|consumer| times(&consumer.read(&mut world)));
    assert_eq!(read, [vec![10, 11, 12], vec![]], "of the one that stops");
    consumers[1].simple(&mut world, "DisableTracing");
    assert_eq!(times(&consumers[1].read(&mut world)), [20, 21, 22]);
}

#[test]
fn a_producer_that_comes_to_a_session_that_is_set_up_is_told_to_stop_without_having_been_started() {
    let mut world = World::default();
    let mut program = Program::offering(&mut world, 1000, &[("a", NOTIFIES_STOP)]);
    let mut consumer = Consumer::of(&mut world, 0);
    let config = config_of(&[64], &[("a", 0)]).number(config::trace_config::DEFERRED_START, true);
    let enabled = consumer.enable(&mut world, &config);
    consumer.simple(&mut world, "DisableTracing");
    assert_eq!(consumer.ended(&world, enabled).as_deref(), Some(""), "nothing is waited for");
    let commands = program.commands(&world);
    assert!(matches!(commands.last(), Some(ServiceCommand::Stop { .. })), "{commands:?}");
    assert!(!commands.iter().any(|command| matches!(command, ServiceCommand::Start { .. })));
}

/// Flushes that a program is asked for: data sources, and why.
fn flushes(world: &World, program: &Program) -> Vec<(Vec<u64>, u64)> {
    let all = replies(world, program.connection, COMMANDS).into_iter().filter_map(|(_, _, said)| {
        let asked = message(&said, get_async_command_response::FLUSH).filter(|asked| !asked.is_empty())?;
        let mut instances = Vec::new();
        for field in Fields::of(asked).filter(|field| field.number == flush::DATA_SOURCE_IDS) {
            match field.value {
                FieldValue::Number(number) => instances.push(number),
                FieldValue::Bytes(packed) => instances.extend(packed.iter().map(|byte| u64::from(*byte))),
                FieldValue::Fixed(_) => panic!("no number"),
            }
        }
        Some((instances, number(asked, flush::FLAGS).unwrap_or(0)))
    });
    all.collect()
}

#[test]
fn a_producer_is_asked_once_for_all_of_a_session_and_told_why() {
    let mut world = World::default();
    let mut program = Program::offering(&mut world, 1000, &[("a", 0), ("b", NO_FLUSH), ("c", 0)]);
    let mut consumer = Consumer::of(&mut world, 0);
    let config = config_of(&[64], &[("a", 0), ("b", 0), ("c", 0)])
        .number(config::trace_config::FLUSH_PERIOD_MS, 4000_u32)
        .number(config::trace_config::DURATION_MS, 5000_u32)
        .number(config::trace_config::BUGREPORT_SCORE, 1_u32);
    consumer.enable(&mut world, &config);
    let starts: Vec<u64> = program.starts(&world).into_iter().map(|(instance, _)| instance).collect();
    let asked = vec![starts[0], starts[2]];
    let answer = |world: &mut World, program: &mut Program| program.answer(world, u64::MAX >> 1);
    consumer.call(&mut world, "Flush", &ProtoBuilder::new());
    // As the command asks for it before it stops a session.
    let said = ProtoBuilder::new().number(fields::flush_request::FLAGS, 0x22_u32);
    consumer.call(&mut world, "Flush", &said);
    answer(&mut world, &mut program);
    for clone in [
        ProtoBuilder::new().number(fields::clone_session_request::SESSION_ID, 1_u32),
        ProtoBuilder::new().number(fields::clone_session_request::SESSION_ID, u64::MAX),
    ] {
        let bugreport = number(clone.as_bytes(), 1) == Some(u64::MAX);
        let clone = clone.number(fields::clone_session_request::FOR_BUGREPORT, bugreport);
        let mut cloner = Consumer::of(&mut world, 0);
        let request = cloner.call(&mut world, "CloneSession", &clone);
        answer(&mut world, &mut program);
        let [(true, false, said)] = &replies(&world, cloner.connection, request)[..] else { panic!("one") };
        assert_eq!(number(said, fields::clone_session_response::SUCCESS), Some(1), "the one with a score");
        world.hang_up(cloner.connection);
    }
    world.pass(2000);
    answer(&mut world, &mut program);
    world.pass(3000);
    let flags = [0x04, 0x22, 0x13, 0x113, 0x11, 0x12];
    assert_eq!(flushes(&world, &program), flags.map(|flags| (asked.clone(), flags)));
}

fn discarded(world: &mut World, consumer: &mut Consumer) -> u64 {
    let request = consumer.call(world, "GetTraceStats", &ProtoBuilder::new());
    let [(true, false, said)] = &replies(world, consumer.connection, request)[..] else { panic!("one") };
    let stats = message(said, fields::get_trace_stats_response::TRACE_STATS).expect("well-formed");
    number(stats, trace_stats::CHUNKS_DISCARDED).unwrap_or(0)
}

#[test]
fn chunks_for_buffers_that_are_not_a_producers_or_not_its_writers_are_counted_for_its_sessions_alone() {
    let mut world = World::default();
    let mut honest = Program::offering(&mut world, 1000, &[("a", 0)]);
    let mut wild = Program::offering(&mut world, 2000, &[("b", 0)]);
    let mut consumers = [0; 2].map(|_| Consumer::of(&mut world, 0));
    consumers[0].enable(&mut world, &config_of(&[64], &[("a", 0)]));
    consumers[1].enable(&mut world, &config_of(&[64, 64], &[("b", 0), ("b", 1)]));
    let [(_, a)] = honest.starts(&world)[..] else { panic!("one") };
    let [(_, first), (_, second)] = wild.starts(&world)[..] else { panic!("two") };
    let mut writer = honest.writer(&world, a);
    honest.write(&mut world, &mut writer, &[1]);
    // Of another's buffer, of one that is not there, and of its own that its writer is not registered for.
    let mut forbidden = [a, 999].map(|buffer| wild.writer(&world, buffer));
    forbidden.iter_mut().for_each(|writer| wild.write(&mut world, writer, &[66]));
    let mut own = wild.writer(&world, first);
    wild.write(&mut world, &mut own, &[2]);
    own.packet().varint(8, 3);
    own.flush();
    let (_, said) = wild.producer.expect("it writes");
    for request in said.take() {
        let request = match request {
            Request::Move(chunk) => Request::Move(ChunkToMove { target: second, ..chunk }),
            other => other,
        };
        if !matches!(request, Request::Flush(_)) {
            wild.say(&mut world, request);
        }
    }
    assert_eq!(consumers.each_mut().map(|consumer| discarded(&mut world, consumer)), [0, 3]);
    // Its end does not make them less.
    world.hang_up(wild.connection);
    assert_eq!(consumers.each_mut().map(|consumer| discarded(&mut world, consumer)), [0, 3]);
    for consumer in &mut consumers {
        consumer.simple(&mut world, "DisableTracing");
    }
    assert_eq!(consumers.map(|mut consumer| times(&consumer.read(&mut world))), [vec![1], vec![2]]);
}

#[test]
fn a_producer_that_reads_nothing_for_a_while_hears_everything_later() {
    let mut world = World::default();
    let mut slow = Program::offering(&mut world, 1000, &[("a", 0)]);
    world.stick(slow.connection, true);
    for _ in 0..15 {
        let mut consumer = Consumer::of(&mut world, 0);
        consumer.enable(&mut world, &config_of(&[64], &[("a", 0)]));
        consumer.call(&mut world, "Flush", &ProtoBuilder::new());
        world.pass(20);
        world.hang_up(consumer.connection);
    }
    assert!(slow.commands(&world).is_empty() && !world.closed.contains(&slow.connection));
    world.stick(slow.connection, false);
    let heard = slow.commands(&world);
    let count = |is_it: fn(&ServiceCommand) -> bool| heard.iter().filter(|one| is_it(one)).count();
    assert_eq!(count(|one| matches!(one, ServiceCommand::Start { .. })), 15);
    assert_eq!(count(|one| matches!(one, ServiceCommand::Flush { .. })), 15);
    assert_eq!(count(|one| matches!(one, ServiceCommand::Stop { .. })), 15);
}
