//! What consumers may have, and how they read.

use tracebuf::proto::fields::config::trace_config;
use tracebuf::proto::fields::consumer::{self as fields, observable_events};
use tracebuf::proto::reader::{message, messages, number, numbers};
use tracebuf_service::wire::ProtoBuilder;

use crate::clients::{
    Consumer, NOTIFIES_START, NOTIFIES_STOP, Program, config_of, packets_in, replies, times,
};
use crate::world::World;

fn key(key: &str) -> ProtoBuilder {
    ProtoBuilder::new().bytes(fields::detach_request::KEY, key.as_bytes())
}

#[test]
fn sessions_are_limited_by_user_and_in_all_and_names_and_memory_are_taken_once() {
    let mut world = World::default();
    let begin = |world: &mut World, uid: u32, config: &ProtoBuilder| {
        let mut consumer = Consumer::of(world, uid);
        let enabled = consumer.enable(world, config);
        consumer.ended(world, enabled)
    };
    let named = config_of(&[64], &[]).bytes(trace_config::UNIQUE_SESSION_NAME, b"one");
    let mut first = Consumer::of(&mut world, 1);
    let enabled = first.enable(&mut world, &named);
    assert_eq!(first.ended(&world, enabled), None);
    assert!(begin(&mut world, 2, &named).is_some_and(|why| why.contains("(one) already exists")));
    for _ in 0..4 {
        assert_eq!(begin(&mut world, 1, &config_of(&[64], &[])), None);
    }
    let error = begin(&mut world, 1, &config_of(&[64], &[])).expect("the sixth");
    assert!(error.contains("Too many concurrent tracing sessions (5) for uid 1"), "{error}");
    assert!(begin(&mut world, 2, &config_of(&[0], &[])).is_some_and(|why| why == "Invalid buffer sizes"));
    world.limit_memory(1 << 20);
    let error = begin(&mut world, 2, &config_of(&[64, 64 << 10], &[])).expect("too large");
    assert!(error.contains("No memory"), "{error}");
    world.limit_memory(usize::MAX);
    for uid in 2..4 {
        for _ in 0..5 {
            assert_eq!(begin(&mut world, uid, &config_of(&[64], &[])), None);
        }
    }
    let error = begin(&mut world, 9, &config_of(&[64], &[])).expect("the sixteenth");
    assert!(error.contains("(15)"), "{error}");
    world.hang_up(first.connection);
    assert_eq!(begin(&mut world, 9, &named), None, "the name is free again");
}

#[test]
fn sessions_with_guardrails_are_small_and_come_seldom() {
    let mut world = World::default();
    let begin = |world: &mut World, config: ProtoBuilder, name: &str| {
        let config = config.number(trace_config::ENABLE_EXTRA_GUARDRAILS, true);
        let config = config.bytes(trace_config::UNIQUE_SESSION_NAME, name.as_bytes());
        let mut consumer = Consumer::of(world, 0);
        let enabled = consumer.enable(world, &config);
        let error = consumer.ended(world, enabled);
        world.hang_up(consumer.connection);
        error
    };
    for wrong in
        [config_of(&[65 << 10; 2], &[]), config_of(&[64], &[]).number(trace_config::DEFERRED_START, true)]
    {
        assert!(begin(&mut world, wrong, "a").is_some_and(|why| why.contains("Guardrails")));
    }
    let small = || config_of(&[64], &[]);
    assert_eq!(["a", "b"].map(|name| begin(&mut world, small(), name)), [None, None]);
    world.pass(299_999);
    assert!(begin(&mut world, small(), "a").is_some_and(|why| why.contains("less than 300 s")));
    world.pass(1);
    assert_eq!(begin(&mut world, small(), "a"), None);
}

#[test]
fn a_detached_session_is_found_again_by_its_key_and_its_user_alone() {
    let mut world = World::default();
    let mut program = Program::offering(&mut world, 1000, &[("events", 0)]);
    let mut consumer = Consumer::of(&mut world, 1);
    let config = config_of(&[64], &[("events", 0)]);
    let call = |consumer: &mut Consumer, world: &mut World, name: &str, of: &str| {
        let request = consumer.call(world, name, &key(of));
        let answers = replies(world, consumer.connection, request);
        let [(good, false, said)] = &answers[..] else { panic!("{answers:?}") };
        good.then(|| said.clone())
    };
    assert_eq!(call(&mut consumer, &mut world, "Detach", "k"), None, "there is no session");
    let lost = consumer.enable(&mut world, &config);
    assert_eq!(call(&mut consumer, &mut world, "Detach", ""), None);
    assert!(call(&mut consumer, &mut world, "Detach", "k").is_some());
    assert_eq!(consumer.ended(&world, lost), None, "it goes on");
    world.hang_up(consumer.connection);
    let mut writer = program.starts_to_write(&world);
    program.write(&mut world, &mut writer, &[4]);
    let mut other = Consumer::of(&mut world, 2);
    assert_eq!(call(&mut other, &mut world, "Attach", "k"), None, "another user");
    let mut again = Consumer::of(&mut world, 1);
    assert_eq!(["", "j"].map(|of| call(&mut again, &mut world, "Attach", of)), [None, None]);
    let said = call(&mut again, &mut world, "Attach", "k").expect("it is there");
    assert_eq!(message(&said, fields::attach_response::TRACE_CONFIG), Some(config.as_bytes()));
    assert_eq!(call(&mut again, &mut world, "Attach", "k"), None, "it has a session");
    let waits = ProtoBuilder::new().number(fields::enable_tracing_request::ATTACH_NOTIFICATION_ONLY, true);
    let enabled = again.call(&mut world, "EnableTracing", &waits);
    assert_eq!(again.ended(&world, enabled), None);
    again.simple(&mut world, "DisableTracing");
    assert_eq!(again.ended(&world, enabled).as_deref(), Some(""));
    assert_eq!(times(&again.read(&mut world)), [4]);
}

#[test]
fn a_session_that_is_over_stays_with_its_consumer_and_who_reads_when_it_is_detached_hears_the_end() {
    let mut world = World::default();
    let mut consumer = Consumer::of(&mut world, 0);
    consumer.enable(&mut world, &config_of(&[64], &[]));
    consumer.simple(&mut world, "DisableTracing");
    let detached = consumer.call(&mut world, "Detach", &key("k"));
    assert!(matches!(replies(&world, consumer.connection, detached)[..], [(false, false, _)]));
    assert!(!consumer.read(&mut world).is_empty(), "nothing is gone");
    let mut program = Program::offering(&mut world, 1000, &[("events", 0)]);
    let mut slow = Consumer::of(&mut world, 0);
    slow.enable(&mut world, &config_of(&[4096], &[("events", 0)]));
    let mut writer = program.starts_to_write(&world);
    for time in 0..100 {
        let mut packet = writer.packet();
        packet.varint(8, time);
        packet.bytes(900, &[1; 20_000]);
        drop(packet);
        writer.flush();
        program.speak(&mut world);
    }
    world.stick(slow.connection, true);
    let read = slow.call(&mut world, "ReadBuffers", &ProtoBuilder::new());
    let detached = slow.call(&mut world, "Detach", &key("k"));
    world.stick(slow.connection, false);
    assert!(matches!(replies(&world, slow.connection, detached)[..], [(true, false, _)]));
    let ends = replies(&world, slow.connection, read).into_iter().filter(|(_, more, _)| !more);
    assert_eq!(ends.count(), 1);
    let attached = slow.call(&mut world, "Attach", &key("k"));
    assert!(matches!(replies(&world, slow.connection, attached)[..], [(true, false, _)]));
    assert!(!slow.read(&mut world).is_empty());
}

#[test]
fn a_detached_session_that_nobody_comes_for_is_gone_after_its_time() {
    let mut world = World::default();
    let mut consumer = Consumer::of(&mut world, 1);
    let config = config_of(&[64], &[]).number(trace_config::DURATION_MS, 1000_u32);
    let enabled = consumer.enable(&mut world, &config);
    consumer.call(&mut world, "Detach", &key("k"));
    world.pass(999);
    assert_eq!(consumer.ended(&world, enabled), None);
    world.pass(1);
    assert_eq!(consumer.ended(&world, enabled).as_deref(), Some(""), "whoever has left it hears of its end");
    let request = consumer.call(&mut world, "Attach", &key("k"));
    assert!(matches!(replies(&world, consumer.connection, request)[..], [(false, ..)]));
}

#[test]
fn a_consumer_that_takes_nothing_makes_nothing_wait_and_nobody_else() {
    let mut world = World::default();
    let mut program = Program::offering(&mut world, 1000, &[("events", 0)]);
    let mut slow = Consumer::of(&mut world, 0);
    slow.enable(&mut world, &config_of(&[8 << 10], &[("events", 0)]));
    let mut writer = program.starts_to_write(&world);
    for _ in 0..20 {
        writer.packet().bytes(900, &[1; 200_000]);
        writer.flush();
        program.speak(&mut world);
    }
    world.stick(slow.connection, true);
    let request = slow.call(&mut world, "ReadBuffers", &ProtoBuilder::new());
    let mut other = Consumer::of(&mut world, 0);
    other.enable(&mut world, &config_of(&[64], &[]));
    assert!(other.simple(&mut world, "DisableTracing"));
    assert!(!other.read(&mut world).is_empty());
    world.stick(slow.connection, true);
    let again = slow.call(&mut world, "ReadBuffers", &ProtoBuilder::new());
    let mut waited = 0;
    // What it takes makes room for more.
    for _ in 0..1000 {
        waited = world.stick(slow.connection, false);
        let over = replies(&world, slow.connection, request);
        if over.last().is_some_and(|(_, more, _)| !more) {
            break;
        }
    }
    assert!(waited < 1 << 20, "{waited}");
    let answers = replies(&world, slow.connection, request);
    let packets = packets_in(answers.iter().map(|(_, _, said)| said.as_slice()));
    assert_eq!(packets.iter().filter(|packet| packet.len() > 200_000).count(), 20);
    let refused = replies(&world, slow.connection, again);
    assert!(matches!(refused[..], [(false, false, _)]), "one at a time");
}

/// What a consumer has heard of data sources: 1 is stopped, 2 is started, 9 is that all have.
fn observed(world: &World, consumer: &Consumer, request: u64) -> Vec<u64> {
    let mut heard = Vec::new();
    for (good, more, said) in replies(world, consumer.connection, request) {
        if !more {
            assert!(!good);
            heard.push(0);
            continue;
        }
        let events = message(&said, fields::observe_events_response::EVENTS).expect("well-formed");
        let changes = messages(events, observable_events::INSTANCE_STATE_CHANGES);
        heard.extend(changes.map(|change| {
            assert_eq!(message(change, 2), Some(&b"events"[..]));
            numbers(change, [fields::data_source_instance_state_change::STATE]).expect("well-formed")[0]
        }));
        heard.extend(number(events, observable_events::ALL_DATA_SOURCES_STARTED).map(|_| 9));
    }
    heard
}

#[test]
fn a_consumer_hears_of_its_data_sources_as_far_as_it_wants_to() {
    let mut world = World::default();
    let mut program = Program::offering(&mut world, 1000, &[("events", NOTIFIES_START | NOTIFIES_STOP)]);
    let mut consumer = Consumer::of(&mut world, 0);
    let kinds = |kinds: &[u32]| {
        ProtoBuilder::new()
            .each(kinds, |all, kind| all.number(fields::observe_events_request::EVENTS_TO_OBSERVE, *kind))
    };
    let both = consumer.call(&mut world, "ObserveEvents", &kinds(&[1, 2]));
    consumer.enable(&mut world, &config_of(&[64], &[("events", 0)]));
    let [(instance, _)] = program.starts(&world)[..] else { panic!("one data source") };
    assert_eq!(observed(&world, &consumer, both), [1]);
    program.has_started(&mut world, instance);
    assert_eq!(observed(&world, &consumer, both), [1, 2, 9]);
    let late = Program::offering(&mut world, 1000, &[("events", 0)]);
    assert_eq!(observed(&world, &consumer, both), [1, 2, 9, 1, 2], "all started is said once");
    // Another call ends the first, and begins with what is.
    let one = consumer.call(&mut world, "ObserveEvents", &kinds(&[2]));
    assert_eq!(observed(&world, &consumer, both).last(), Some(&0));
    assert_eq!(observed(&world, &consumer, one), [9]);
    world.hang_up(late.connection);
    let states = consumer.call(&mut world, "ObserveEvents", &kinds(&[1]));
    consumer.simple(&mut world, "DisableTracing");
    assert_eq!(observed(&world, &consumer, states), [2], "it has not stopped");
    program.has_stopped(&mut world, instance);
    assert_eq!(observed(&world, &consumer, states), [2, 1]);
    let none = consumer.call(&mut world, "ObserveEvents", &ProtoBuilder::new());
    assert_eq!(
        (observed(&world, &consumer, states), observed(&world, &consumer, none)),
        (vec![2, 1, 0], vec![0])
    );
}
