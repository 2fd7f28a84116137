//! Sessions that somebody else than their consumer stops.

use tracebuf::proto::fields::config::trace_config;
use tracebuf::proto::fields::consumer::detach_request;
use tracebuf_service::Port;
use tracebuf_service::wire::ProtoBuilder;
use tracebuf_service::wire::consumers::{CONSUMER_PORT, stop_session, stopped};
use tracebuf_service::wire::frames::{ServiceFrame, bind};

use crate::clients::{Consumer, NOTIFIES_STOP, Program, config_of, replies, send, times};
use crate::world::World;

const USER: u32 = 700;

fn stop(world: &mut World, uid: u32, session: &str) -> Result<(), String> {
    let connection = world.connect(Port::Consumers, uid);
    send(world, connection, &bind(9, CONSUMER_PORT), None);
    let call = match ServiceFrame::of(&world.frames(connection)[0]) {
        Some(ServiceFrame::Bound(bound)) => stop_session(bound, session).expect("it has the call"),
        _ => panic!("it is bound"),
    };
    send(world, connection, &call, None);
    let [(true, false, said)] = &replies(world, connection, 1)[..] else { panic!("one answer") };
    let result = stopped(said);
    world.hang_up(connection);
    result
}

fn named(name: &str) -> ProtoBuilder {
    config_of(&[64], &[("events", 0)]).bytes(trace_config::UNIQUE_SESSION_NAME, name.as_bytes())
}

#[test]
fn a_session_is_stopped_after_a_flush_by_its_user_and_its_consumer_reads_it() {
    for name in ["mine", "1"] {
        let mut world = World::default();
        let mut program = Program::offering(&mut world, 1000, &[("events", 0)]);
        let mut consumer = Consumer::of(&mut world, USER);
        let enabled = consumer.enable(&mut world, &named("mine"));
        let mut writer = program.starts_to_write(&world);
        assert_eq!(stop(&mut world, USER, name), Ok(()));
        assert_eq!(consumer.ended(&world, enabled), None, "the program is to flush first");
        let [flush] = program.flushes(&world)[..] else { panic!("it is asked") };
        program.write(&mut world, &mut writer, &[1, 2]);
        program.answer(&mut world, flush);
        assert_eq!(consumer.ended(&world, enabled).as_deref(), Some(""));
        assert_eq!(times(&consumer.read(&mut world)), [1, 2]);
        assert!(stop(&mut world, USER, name).is_err(), "it has ended");
    }
}

#[test]
fn a_detached_session_that_is_stopped_is_gone_though_its_program_says_nothing() {
    let mut world = World::default();
    let program = Program::offering(&mut world, 1000, &[("events", 0)]);
    let mut consumer = Consumer::of(&mut world, USER);
    consumer.enable(&mut world, &named("mine"));
    consumer.call(&mut world, "Detach", &ProtoBuilder::new().bytes(detach_request::KEY, b"left"));
    world.hang_up(consumer.connection);
    assert_eq!(stop(&mut world, 0, "left"), Ok(()));
    world.pass(5000);
    let mut again = Consumer::of(&mut world, USER);
    let enabled = again.enable(&mut world, &named("mine"));
    assert_eq!(again.ended(&world, enabled), None, "the name is free");
    world.hang_up(program.connection);
}

#[test]
fn a_session_that_is_stopped_a_second_time_waits_for_no_program_however_long_it_may_take() {
    let mut world = World::default();
    let _silent = Program::offering(&mut world, 1000, &[("events", NOTIFIES_STOP)]);
    let for_ever = |field| ProtoBuilder::new().number(field, u64::MAX);
    for field in [trace_config::FLUSH_TIMEOUT_MS, trace_config::DATA_SOURCE_STOP_TIMEOUT_MS] {
        let mut consumer = Consumer::of(&mut world, USER);
        let config = named("mine").fields(for_ever(field).as_bytes());
        let enabled = consumer.enable(&mut world, &config);
        assert_eq!(stop(&mut world, USER, "mine"), Ok(()));
        world.pass(3_600_000);
        assert_eq!(consumer.ended(&world, enabled), None, "it waits");
        assert_eq!(stop(&mut world, USER, "mine"), Ok(()));
        assert_eq!(consumer.ended(&world, enabled).as_deref(), Some(""));
        world.hang_up(consumer.connection);
    }
}

#[test]
fn nobody_stops_sessions_of_others_those_that_are_not_there_or_one_of_several() {
    let mut world = World::default();
    let mut sessions = Vec::new();
    for (uid, name) in [(USER, "mine"), (USER, ""), (USER + 1, "other")] {
        let mut consumer = Consumer::of(&mut world, uid);
        let enabled = consumer.enable(&mut world, &named(name));
        sessions.push((consumer, enabled));
    }
    for name in ["other", "3", "4", "min", "", "0", "18446744073709551617"] {
        assert!(stop(&mut world, USER, name).is_err_and(|error| error.contains("no session")), "{name}");
    }
    for (consumer, _) in sessions.iter_mut().skip(1) {
        consumer.call(&mut world, "Detach", &ProtoBuilder::new().bytes(detach_request::KEY, b"same"));
    }
    assert!(stop(&mut world, 0, "same").is_err_and(|error| error.contains("several")));
    let (consumer, enabled) = &sessions[0];
    assert_eq!(consumer.ended(&world, *enabled), None, "none has stopped");
    assert_eq!(stop(&mut world, USER + 1, "same"), Ok(()));
}
