//! Programs that offer and withdraw, bring memory, and say who they are, again and again.

use tracebuf::producer::{ChunkToMove, Request};
use tracebuf::proto::fields::consumer::{
    clone_trigger_hit, data_source_instance_state_change as change, observable_events,
    observe_events_request, observe_events_response, tracing_service_state, tracing_session,
};
use tracebuf::proto::fields::ipc::{
    activate_triggers_request, initialize_connection_request as hello, method, unregister_data_source_request,
};
use tracebuf::proto::fields::{config, trace_stats};
use tracebuf::proto::reader::{message, messages, number};
use tracebuf_service::wire::ProtoBuilder;
use tracebuf_service::wire::commands::ServiceCommand;

use crate::clients::{Consumer, NOTIFIES_START, Program, config_of, replies};
use crate::wild::whole_chunk;
use crate::world::World;

fn withdraw(program: &mut Program, world: &mut World, name: &str) {
    let named = ProtoBuilder::new().bytes(unregister_data_source_request::DATA_SOURCE_NAME, name.as_bytes());
    assert!(program.call(world, method::UNREGISTER_DATA_SOURCE, &named));
}

fn observe(consumer: &mut Consumer, world: &mut World, kinds: &[u32]) -> u64 {
    let kinds = ProtoBuilder::new()
        .each(kinds, |all, kind| all.number(observe_events_request::EVENTS_TO_OBSERVE, *kind));
    consumer.call(world, "ObserveEvents", &kinds)
}

/// The names of producers and the states that a consumer has heard of, and how often it has heard that all have started.
fn heard(world: &World, consumer: &Consumer, request: u64) -> (Vec<(String, u64)>, usize) {
    let (mut states, mut all_started) = (Vec::new(), 0);
    for (good, more, said) in replies(world, consumer.connection, request) {
        assert!(good && more);
        let events = message(&said, observe_events_response::EVENTS).expect("well-formed");
        for one in messages(events, observable_events::INSTANCE_STATE_CHANGES) {
            let name = message(one, change::PRODUCER_NAME).expect("well-formed");
            let state = number(one, change::STATE).expect("it has one");
            states.push((String::from_utf8_lossy(name).into_owned(), state));
        }
        all_started += messages(events, observable_events::ALL_DATA_SOURCES_STARTED).count();
        all_started += usize::from(number(events, observable_events::ALL_DATA_SOURCES_STARTED) == Some(1));
    }
    (states, all_started)
}

#[test]
fn data_sources_that_come_and_go_take_no_places_of_others_and_are_counted_no_more() {
    let mut world = World::default();
    let mut consumer = Consumer::of(&mut world, 0);
    consumer.enable(&mut world, &config_of(&[64], &[("events", 0)]));
    let mut restless = Program::offering(&mut world, 1000, &[]);
    for _ in 0..20_000 {
        restless.offer(&mut world, "events", 0);
        withdraw(&mut restless, &mut world, "events");
        world.forget_frames(restless.connection);
    }
    let mut late = Program::offering(&mut world, 1000, &[("events", 0)]);
    assert_eq!(late.starts(&world).len(), 1);
    let query = consumer.call(&mut world, "QueryServiceState", &ProtoBuilder::new());
    let said: Vec<u8> = replies(&world, consumer.connection, query).into_iter().flat_map(|of| of.2).collect();
    let state = message(&said, 1).expect("well-formed");
    let session = message(state, tracing_service_state::TRACING_SESSIONS).expect("well-formed");
    assert_eq!(number(session, tracing_session::NUM_DATA_SOURCES), Some(1));
    // What it has done wrong is the session's still.
    let memory = world.memory_of(world.files_for(restless.connection)[0]);
    whole_chunk(&memory, 1, 1, &[0x40, 1]);
    restless.say(&mut world, Request::Move(ChunkToMove { page: 1, chunk: 0, target: 999 }));
    for is_there in [true, false] {
        if !is_there {
            world.hang_up(restless.connection);
        }
        let call = consumer.call(&mut world, "GetTraceStats", &ProtoBuilder::new());
        let said = replies(&world, consumer.connection, call).remove(0).2;
        let stats = message(&said, 1).expect("well-formed");
        assert_eq!(number(stats, trace_stats::CHUNKS_DISCARDED), Some(1), "{is_there}");
    }
}

#[test]
fn what_a_consumer_does_not_take_of_what_it_is_told_is_bounded_and_it_hears_how_all_are_in_the_end() {
    let mut world = World::default();
    let mut consumer = Consumer::of(&mut world, 0);
    let observed = observe(&mut consumer, &mut world, &[1, 2]);
    consumer.enable(&mut world, &config_of(&[64], &[("events", 0)]));
    let name = "n".repeat(4000);
    let mut restless = Program::of(&mut world, 1000, &name);
    restless.listen(&mut world);
    world.stick(consumer.connection, true);
    for _ in 0..10_000 {
        restless.offer(&mut world, "events", 0);
        withdraw(&mut restless, &mut world, "events");
        world.forget_frames(restless.connection);
    }
    let _late = Program::offering(&mut world, 1000, &[("events", 0)]);
    assert!(!world.closed.contains(&consumer.connection), "it may be slow");
    world.stick(consumer.connection, false);
    let (states, all_started) = heard(&world, &consumer, observed);
    let bytes: usize = states.iter().map(|(name, _)| name.len()).sum();
    assert!((100_000..1 << 20).contains(&bytes), "{bytes}");
    assert_eq!(states.last(), Some(&("program".to_string(), 2)));
    assert_eq!(all_started, 1);
    // All that there are, in several messages.
    (0..100).for_each(|_| restless.offer(&mut world, "events", 0));
    let again = observe(&mut consumer, &mut world, &[1, 2]);
    let (states, all_started) = heard(&world, &consumer, again);
    assert_eq!((states.len(), states.iter().filter(|(_, state)| *state == 2).count()), (101, 101));
    assert_eq!(all_started, 1);
}

#[test]
fn triggers_that_are_fired_without_end_wait_until_the_consumer_takes_them() {
    let mut world = World::default();
    let trigger = ProtoBuilder::new()
        .bytes(config::trigger::NAME, b"now")
        .number(config::trigger::STOP_DELAY_MS, 3_600_000_u32);
    let triggers = ProtoBuilder::new()
        .number(config::trigger_config::TRIGGER_MODE, 4_u32)
        .number(config::trigger_config::TRIGGER_TIMEOUT_MS, 86_400_000_u32)
        .message(config::trigger_config::TRIGGERS, &trigger);
    let mut consumer = Consumer::of(&mut world, 0);
    let observed = observe(&mut consumer, &mut world, &[4]);
    consumer
        .enable(&mut world, &config_of(&[64], &[]).message(config::trace_config::TRIGGER_CONFIG, &triggers));
    let mut firing = Program::of(&mut world, 1000, &"p".repeat(4000));
    let names = |count: usize| {
        ProtoBuilder::new()
            .each(0..count, |all, _| all.bytes(activate_triggers_request::TRIGGER_NAMES, b"now"))
    };
    assert!(firing.call(&mut world, method::ACTIVATE_TRIGGERS, &names(100_000)));
    assert!(firing.call(&mut world, method::ACTIVATE_TRIGGERS, &names(1000)));
    world.stick(consumer.connection, true);
    world.pass(3_700_000);
    let waits = world.stick(consumer.connection, true);
    world.stick(consumer.connection, false);
    assert!((400_000..700_000).contains(&waits), "{waits}");
    world.pass(1000);
    let hits = replies(&world, consumer.connection, observed);
    assert_eq!(hits.len(), 1024);
    let of = |said: &[u8]| {
        let events = message(said, observe_events_response::EVENTS).expect("well-formed");
        let hit = message(events, observable_events::CLONE_TRIGGER_HIT).expect("well-formed");
        message(hit, clone_trigger_hit::TRIGGER_NAME).expect("well-formed") == b"now"
    };
    assert!(hits.iter().all(|(_, _, said)| of(said)));
}

#[test]
fn nothing_waits_for_a_program_that_goes_because_it_does_not_take_what_it_is_told() {
    let mut world = World::default();
    let mut consumer = Consumer::of(&mut world, 0);
    let observed = observe(&mut consumer, &mut world, &[1, 2]);
    let mut deaf = Program::of(&mut world, 1000, "deaf");
    (0..1024).for_each(|at| deaf.offer(&mut world, &format!("s{at}"), NOTIFIES_START));
    let all: Vec<String> = (0..1024).map(|at| format!("s{at}")).collect();
    let sources: Vec<(&str, u32)> = all.iter().map(|name| (name.as_str(), 0)).collect();
    // 2,049 commands for the first, 1,024 for the second, and of the third the last one is too much.
    for is_deferred in [false, true] {
        let config = config_of(&[64], &sources).number(config::trace_config::DEFERRED_START, is_deferred);
        Consumer::of(&mut world, 1).enable(&mut world, &config);
    }
    consumer.enable(&mut world, &config_of(&[64], &sources));
    assert!(world.closed.contains(&deaf.connection));
    let (states, all_started) = heard(&world, &consumer, observed);
    assert!(states.iter().all(|(name, _)| name == "deaf"), "all have the name of a program");
    assert_eq!(all_started, 1);
    let flush = consumer.call(&mut world, "Flush", &ProtoBuilder::new());
    assert!(matches!(replies(&world, consumer.connection, flush)[..], [(true, false, _)]));
}

#[test]
fn who_says_again_who_it_is_takes_no_number_and_whose_memory_is_its_own_hears_so_first() {
    let mut world = World::default();
    let mut program = Program::of(&mut world, 1000, "program");
    for _ in 0..70_000 {
        assert!(!program.call(&mut world, method::INITIALIZE_CONNECTION, &ProtoBuilder::new()));
        world.forget_frames(program.connection);
    }
    let memory = world.memory(64 << 10);
    let own = ProtoBuilder::new()
        .bytes(hello::PRODUCER_NAME, b"early")
        .number(hello::PRODUCER_PROVIDED_SHMEM, true);
    let mut early = Program::with_hello(&mut world, 1000, &own, Some(memory));
    early.listen(&mut world);
    assert_eq!(early.commands(&world), [ServiceCommand::UseMemory { page_kib: 0 }]);
    assert!(world.files_for(early.connection).is_empty());
    let mut consumer = Consumer::of(&mut world, 0);
    consumer.enable(&mut world, &config_of(&[64], &[]));
    let call = consumer.call(&mut world, "GetTraceStats", &ProtoBuilder::new());
    let said = replies(&world, consumer.connection, call).remove(0).2;
    let stats = message(&said, 1).expect("well-formed");
    assert_eq!(number(stats, trace_stats::PRODUCERS_SEEN), Some(2));
}
