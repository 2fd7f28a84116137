//! Triggers, semaphores and exclusive sessions.

use tracebuf::proto::fields::config::{session_semaphore, trace_config, trigger, trigger_config};
use tracebuf::proto::fields::consumer::{self as fields, received_trigger};
use tracebuf::proto::fields::ipc::{activate_triggers_request, method};
use tracebuf::proto::fields::trace_packet;
use tracebuf::proto::reader::{message, number, numbers};
use tracebuf_service::wire::ProtoBuilder;

use crate::clients::{Consumer, Program, config_of, replies, times};
use crate::host::SERVICE;
use crate::world::{MS, World};

const START: u32 = 1;
const STOP: u32 = 2;
const CLONE: u32 = 4;

fn trigger(name: &str, delay_ms: u32) -> ProtoBuilder {
    ProtoBuilder::new().bytes(trigger::NAME, name.as_bytes()).number(trigger::STOP_DELAY_MS, delay_ms)
}

fn with(mode: u32, timeout_ms: u32, triggers: &[ProtoBuilder]) -> ProtoBuilder {
    let all = ProtoBuilder::new()
        .number(trigger_config::TRIGGER_MODE, mode)
        .number(trigger_config::TRIGGER_TIMEOUT_MS, timeout_ms)
        .each(triggers, |all, one| all.message(trigger_config::TRIGGERS, one));
    config_of(&[64], &[("events", 0)]).message(trace_config::TRIGGER_CONFIG, &all)
}

fn fire(program: &mut Program, world: &mut World, names: &[&str]) {
    let names = ProtoBuilder::new()
        .each(names, |all, name| all.bytes(activate_triggers_request::TRIGGER_NAMES, name.as_bytes()));
    assert!(program.call(world, method::ACTIVATE_TRIGGERS, &names));
}

/// The names of triggers in a trace, with who fired each.
fn fired(packets: &[Vec<u8>]) -> Vec<(String, String, u64)> {
    let all = packets.iter().filter_map(|packet| {
        let fired = message(packet, trace_packet::TRIGGER).filter(|fired| !fired.is_empty())?;
        let text = |field| String::from_utf8_lossy(message(fired, field).expect("well-formed")).into_owned();
        let delay = number(fired, received_trigger::STOP_DELAY_MS).expect("a number");
        Some((text(received_trigger::TRIGGER_NAME), text(received_trigger::PRODUCER_NAME), delay))
    });
    all.collect()
}

#[test]
fn a_trigger_starts_a_session_which_then_lasts_as_long_as_the_trigger_says() {
    for delay in [700, 0] {
        let mut world = World::default();
        let mut program = Program::offering(&mut world, 1000, &[("events", 4)]);
        let mut consumer = Consumer::of(&mut world, 0);
        let enabled = consumer.enable(&mut world, &with(START, 10_000, &[trigger("go", delay)]));
        world.pass(9_999);
        fire(&mut program, &mut world, &["other"]);
        assert!(program.starts(&world).is_empty() && consumer.read(&mut world).is_empty());
        // The program that fires it is gone at once.
        let mut firing = Program::of(&mut world, 5, "firing");
        fire(&mut firing, &mut world, &["go"]);
        world.hang_up(firing.connection);
        assert_eq!(program.starts(&world).len(), 1);
        world.pass(u64::from(delay).saturating_sub(1));
        assert_eq!(consumer.ended(&world, enabled).is_some(), delay == 0);
        world.pass(1);
        assert_eq!(consumer.ended(&world, enabled).as_deref(), Some(""));
        let packets = consumer.read(&mut world);
        assert_eq!(fired(&packets), [("go".into(), "firing".into(), u64::from(delay))]);
        let config = packets
            .iter()
            .find_map(|packet| message(packet, trace_packet::TRACE_CONFIG).filter(|of| !of.is_empty()));
        let duration = number(config.expect("it is told"), trace_config::DURATION_MS);
        assert_eq!(duration, Some(u64::from(delay)));
    }
}

#[test]
fn a_session_that_no_trigger_starts_or_stops_ends_and_has_nothing_to_read() {
    for mode in [START, STOP] {
        let mut world = World::default();
        let mut program = Program::offering(&mut world, 1000, &[("events", 4)]);
        let mut consumer = Consumer::of(&mut world, 0);
        let enabled = consumer.enable(&mut world, &with(mode, 10_000, &[trigger("go", 100)]));
        if let [(_, buffer)] = program.starts(&world)[..] {
            let mut writer = program.writer(&world, buffer);
            program.write(&mut world, &mut writer, &[1]);
        }
        world.pass(9_999);
        assert_eq!(consumer.ended(&world, enabled), None);
        world.pass(1);
        assert_eq!(consumer.ended(&world, enabled).as_deref(), Some(""));
        assert!(consumer.read(&mut world).is_empty());
    }
}

#[test]
fn the_first_trigger_that_stops_decides_when_even_beyond_the_time_without_one() {
    let mut world = World::default();
    let mut program = Program::offering(&mut world, 1000, &[("events", 4)]);
    let mut consumer = Consumer::of(&mut world, 0);
    let enabled = consumer.enable(&mut world, &with(STOP, 10_000, &[trigger("a", 5_000), trigger("b", 10)]));
    let mut writer = program.starts_to_write(&world);
    program.write(&mut world, &mut writer, &[1]);
    world.pass(9_000);
    fire(&mut program, &mut world, &["a", "b"]);
    world.pass(4_999);
    assert_eq!(consumer.ended(&world, enabled), None);
    world.pass(1);
    assert_eq!(consumer.ended(&world, enabled).as_deref(), Some(""));
    let packets = consumer.read(&mut world);
    assert_eq!(times(&packets), [1]);
    let names: Vec<String> = fired(&packets).into_iter().map(|(name, ..)| name).collect();
    assert_eq!(names, ["a", "b"]);
    let config = packets
        .iter()
        .find_map(|packet| message(packet, trace_packet::TRACE_CONFIG).filter(|of| !of.is_empty()));
    assert_eq!(number(config.expect("it is told"), trace_config::DURATION_MS), Some(10_000));
}

#[test]
fn a_trigger_that_comes_before_a_deferred_start_ends_the_session_so_long_after_it() {
    let mut world = World::default();
    let mut program = Program::offering(&mut world, 1000, &[("events", 4)]);
    let mut consumer = Consumer::of(&mut world, 0);
    let config = with(STOP, 10_000, &[trigger("go", 700)]).number(trace_config::DEFERRED_START, true);
    let enabled = consumer.enable(&mut world, &config);
    fire(&mut program, &mut world, &["go"]);
    world.pass(5_000);
    assert!(consumer.simple(&mut world, "StartTracing"));
    world.pass(699);
    assert_eq!(consumer.ended(&world, enabled), None);
    world.pass(1);
    assert_eq!(consumer.ended(&world, enabled).as_deref(), Some(""));
    assert_eq!(fired(&consumer.read(&mut world)), [("go".into(), "program".into(), 700)]);
}

#[test]
fn a_trigger_works_so_often_a_day_for_the_producers_it_names_and_as_often_as_chance_has_it() {
    let limited = |world: &mut World, one: ProtoBuilder| {
        let mut program = Program::of(world, 1000, "program");
        let mut works = |world: &mut World| {
            let mut consumer = Consumer::of(world, 0);
            let enabled = consumer.enable(world, &with(STOP, 600_000_000, std::slice::from_ref(&one)));
            fire(&mut program, world, &["go"]);
            world.pass(1);
            let has_ended = consumer.ended(world, enabled).is_some();
            world.hang_up(consumer.connection);
            has_ended
        };
        let first = [works(world), works(world), works(world)];
        world.pass(24 * 3600 * 1000);
        (first, works(world))
    };
    let go = || trigger("go", 0);
    let none = ([false; 3], false);
    assert_eq!(limited(&mut World::default(), go()), ([true; 3], true));
    assert_eq!(
        limited(&mut World::default(), go().number(trigger::MAX_PER_24_H, 2_u32)),
        ([true, true, false], true)
    );
    assert_eq!(limited(&mut World::default(), go().bytes(trigger::PRODUCER_NAME_REGEX, b"other")), none);
    assert_eq!(
        limited(&mut World::default(), go().bytes(trigger::PRODUCER_NAME_REGEX, b"program")),
        ([true; 3], true)
    );
    // Chance is 0.067 here.
    for (skipped, expected) in [(0.05_f64, ([true; 3], true)), (0.07, none)] {
        let mut one = go().into_bytes();
        one.push((5 << 3) | 1);
        one.extend(skipped.to_le_bytes());
        assert_eq!(limited(&mut World::default(), ProtoBuilder::new().fields(&one)), expected, "{skipped}");
    }
}

#[test]
fn triggers_that_make_no_sense_are_refused_with_their_reason() {
    let mut world = World::default();
    let mut refused = |config: ProtoBuilder| {
        let mut consumer = Consumer::of(&mut world, 0);
        let enabled = consumer.enable(&mut world, &config);
        consumer.ended(&world, enabled).unwrap_or_default()
    };
    let go = || trigger("go", 0);
    let with_clone = |mode| {
        let all = ProtoBuilder::new().number(1, mode).number(3, 1_u32).number(5, true);
        config_of(&[64], &[]).message(trace_config::TRIGGER_CONFIG, &all)
    };
    let cases = [
        (with(START, 0, &[go()]), "trigger_timeout_ms"),
        (with(START, 7 * 24 * 3600 * 1000 + 1, &[go()]), "trigger_timeout_ms"),
        (with(3, 1000, &[go()]), "Unknown trigger mode 3"),
        (with(CLONE, 1000, &[go()]).number(trace_config::WRITE_INTO_FILE, true), "write_into_file"),
        (with(STOP, 1000, &[go(), go()]), "Duplicate trigger name go"),
        (with(STOP, 1000, &[go()]).number(trace_config::DURATION_MS, 1_u32), "duration_ms"),
        (with(STOP, 1000, &[go()]).number(trace_config::WRITE_INTO_FILE, true), "write_into_file"),
        (with(STOP, 1000, &[go().bytes(trigger::PRODUCER_NAME_REGEX, b"(")]), "Invalid pattern"),
        (with_clone(START), "use_clone_snapshot_if_available"),
    ];
    for (config, reason) in cases {
        let error = refused(config);
        assert!(error.contains(reason), "{reason}: {error}");
    }
}

#[test]
fn each_trigger_of_a_session_that_is_cloned_is_told_to_its_consumer_after_its_delay() {
    let clones_if_it_can = |delay| {
        let all = ProtoBuilder::new().number(1, STOP).number(3, 60_000_u32).number(5, true);
        let all = all.message(trigger_config::TRIGGERS, &trigger("go", delay));
        config_of(&[64], &[("events", 0)]).message(trace_config::TRIGGER_CONFIG, &all)
    };
    for config in [with(CLONE, 60_000, &[trigger("go", 500)]), clones_if_it_can(500)] {
        let mut world = World::default();
        let mut program = Program::offering(&mut world, 1000, &[("events", 4)]);
        let mut consumer = Consumer::of(&mut world, 0);
        let mask = ProtoBuilder::new().number(fields::observe_events_request::EVENTS_TO_OBSERVE, 4_u32);
        let observed = consumer.call(&mut world, "ObserveEvents", &mask);
        let enabled = consumer.enable(&mut world, &config);
        let hits = |world: &World| {
            let all = replies(world, consumer.connection, observed).into_iter().map(|(good, more, said)| {
                assert!(good && more);
                let events = message(&said, fields::observe_events_response::EVENTS).expect("well-formed");
                let hit = message(events, fields::observable_events::CLONE_TRIGGER_HIT).expect("well-formed");
                let name = message(hit, fields::clone_trigger_hit::TRIGGER_NAME).expect("a name").to_vec();
                (name, numbers(hit, [1, 4, 5, 6]).expect("numbers"))
            });
            all.collect::<Vec<_>>()
        };
        let first = world.boot_time();
        fire(&mut program, &mut world, &["go", "other"]);
        world.pass(200);
        fire(&mut program, &mut world, &["go"]);
        world.pass(299);
        assert_eq!(hits(&world), []);
        world.pass(1);
        let hit = |time| (b"go".to_vec(), [1, 1000, time, 500]);
        assert_eq!(hits(&world), [hit(first)]);
        world.pass(200);
        assert_eq!(hits(&world), [hit(first), hit(first + 200 * MS)]);
        assert_eq!(consumer.ended(&world, enabled), None, "it goes on");
        world.pass(60_000);
        assert_eq!(consumer.ended(&world, enabled).as_deref(), Some(""));
        assert!(consumer.read(&mut world).is_empty(), "it is there to be cloned");
    }
}

#[test]
fn semaphores_let_so_many_sessions_begin_as_the_strictest_of_them_says() {
    let mut world = World::default();
    let begin = |world: &mut World, limits: &[(&str, u32)]| {
        let config = config_of(&[64], &[]).each(limits, |all, (name, most)| {
            let semaphore = ProtoBuilder::new()
                .bytes(session_semaphore::NAME, name.as_bytes())
                .number(session_semaphore::MAX_OTHER_SESSION_COUNT, *most);
            all.message(trace_config::SESSION_SEMAPHORES, &semaphore)
        });
        let mut consumer = Consumer::of(world, 0);
        let enabled = consumer.enable(world, &config);
        consumer.ended(world, enabled).is_none().then_some(consumer)
    };
    let first = begin(&mut world, &[("a", 2)]).expect("the first");
    assert!(begin(&mut world, &[("a", 0)]).is_none(), "one is there already");
    let mut second = begin(&mut world, &[("a", 1), ("b", 0)]).expect("two may");
    assert!(begin(&mut world, &[("a", 9)]).is_none(), "the second wants no third");
    assert!(begin(&mut world, &[]).is_some(), "without semaphores it always begins");
    second.simple(&mut world, "DisableTracing");
    assert!(begin(&mut world, &[("a", 9), ("b", 0)]).is_some(), "one that has stopped does not count");
    world.hang_up(first.connection);
}

#[test]
fn an_exclusive_session_ends_all_others_and_lets_in_none_but_a_more_important_one() {
    let mut world = World::default();
    let exclusive = |priority: u32| config_of(&[64], &[]).number(trace_config::EXCLUSIVE_PRIO, priority);
    let mut common = Consumer::of(&mut world, 7);
    let enabled = common.enable(&mut world, &config_of(&[64], &[]));
    let begin = |world: &mut World, uid: u32, priority| {
        let mut consumer = Consumer::of(world, uid);
        let enabled = consumer.enable(world, &exclusive(priority));
        (consumer.ended(world, enabled), consumer, enabled)
    };
    assert!(begin(&mut world, 7, 1).0.is_some_and(|why| why.contains("root")));
    assert_eq!(common.ended(&world, enabled), None);
    let (None, first, first_enabled) = begin(&mut world, SERVICE, 5) else { panic!("it begins") };
    assert!(common.ended(&world, enabled).is_some_and(|why| why.contains("exclusive")));
    for priority in [0, 1, 5] {
        assert!(begin(&mut world, 0, priority).0.is_some_and(|why| why.contains("priority 5")), "{priority}");
    }
    assert_eq!(begin(&mut world, 0, 6).0, None);
    assert!(first.ended(&world, first_enabled).is_some_and(|why| why.contains("exclusive")));
}
