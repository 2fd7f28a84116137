//! How sessions end.

use tracebuf::proto::fields::config::trace_config;
use tracebuf_service::Event;
use tracebuf_service::wire::ProtoBuilder;
use tracebuf_service::wire::commands::ServiceCommand;

use crate::clients::{Consumer, NOTIFIES_STOP, Program, config_of, replies, times};
use crate::world::World;

fn stops(program: &mut Program, world: &World) -> Vec<u64> {
    let stops = program.commands(world).into_iter().filter_map(|command| match command {
        ServiceCommand::Stop { instance } => Some(instance),
        _ => None,
    });
    stops.collect()
}

#[test]
fn a_stop_waits_for_data_sources_that_say_when_they_have_stopped_and_for_no_others() {
    let mut world = World::default();
    let mut slow = Program::offering(&mut world, 1000, &[("events", NOTIFIES_STOP)]);
    let mut quick = Program::offering(&mut world, 1000, &[("events", 0)]);
    let mut consumer = Consumer::of(&mut world, 0);
    let enabled = consumer.enable(&mut world, &config_of(&[64], &[("events", 0)]));
    let [(instance, buffer)] = slow.starts(&world)[..] else { panic!("one data source") };
    let mut writer = slow.writer(&world, buffer);
    assert!(consumer.simple(&mut world, "DisableTracing"));
    assert_eq!((stops(&mut slow, &world), stops(&mut quick, &world).len()), (vec![instance], 1));
    assert_eq!(consumer.ended(&world, enabled), None);
    // What it says while it stops still counts; what comes now gets no data source.
    slow.write(&mut world, &mut writer, &[5]);
    let mut late = Program::offering(&mut world, 1000, &[("events", NOTIFIES_STOP)]);
    assert!(late.commands(&world).is_empty());
    quick.has_stopped(&mut world, instance);
    assert_eq!(consumer.ended(&world, enabled), None, "another's word does not count");
    slow.has_stopped(&mut world, instance);
    assert_eq!(consumer.ended(&world, enabled).as_deref(), Some(""));
    assert_eq!(times(&consumer.read(&mut world)), [5]);
    slow.has_stopped(&mut world, instance);
    assert!(stops(&mut slow, &world).is_empty(), "it is told once");
}

#[test]
fn who_does_not_stop_in_time_or_is_gone_is_not_waited_for() {
    let mut world = World::default();
    let programs = [0; 2].map(|_| Program::offering(&mut world, 1000, &[("events", NOTIFIES_STOP)]));
    let [first, second] = programs;
    let mut consumer = Consumer::of(&mut world, 0);
    let config = config_of(&[64], &[("events", 0)]);
    let enabled = consumer
        .enable(&mut world, &config.clone().number(trace_config::DATA_SOURCE_STOP_TIMEOUT_MS, 700_u32));
    consumer.simple(&mut world, "DisableTracing");
    world.pass(699);
    assert_eq!(consumer.ended(&world, enabled), None);
    world.pass(1);
    assert_eq!(consumer.ended(&world, enabled).as_deref(), Some(""));
    let mut consumer = Consumer::of(&mut world, 0);
    let enabled = consumer.enable(&mut world, &config);
    consumer.simple(&mut world, "DisableTracing");
    world.hang_up(first.connection);
    assert_eq!(consumer.ended(&world, enabled), None);
    world.hang_up(second.connection);
    assert_eq!(consumer.ended(&world, enabled).as_deref(), Some(""));
}

#[test]
fn what_a_program_left_in_shared_memory_is_there_after_it_was_killed_and_it_may_come_again() {
    let mut world = World::default();
    let mut consumer = Consumer::of(&mut world, 0);
    consumer.enable(&mut world, &config_of(&[64], &[("events", 0)]));
    for time in [1, 2] {
        let mut program = Program::offering(&mut world, 1000, &[("events", 0)]);
        let mut writer = program.starts_to_write(&world);
        program.speak(&mut world);
        writer.packet().varint(8, time);
        std::mem::forget(writer);
        world.hang_up(program.connection);
    }
    consumer.simple(&mut world, "DisableTracing");
    assert_eq!(times(&consumer.read(&mut world)), [1, 2]);
}

#[test]
fn a_consumer_that_hangs_up_ends_its_session_and_no_other() {
    let mut world = World::default();
    let mut program = Program::offering(&mut world, 1000, &[("events", NOTIFIES_STOP)]);
    let mut consumers = [0; 2].map(|_| Consumer::of(&mut world, 0));
    let enabled = consumers.each_mut().map(|one| one.enable(&mut world, &config_of(&[64], &[("events", 0)])));
    let starts = program.starts(&world);
    // In the middle of a flush and of a stop.
    let flush = consumers[0].call(&mut world, "Flush", &ProtoBuilder::new());
    consumers[0].simple(&mut world, "DisableTracing");
    assert!(replies(&world, consumers[0].connection, flush).is_empty());
    world.hang_up(consumers[0].connection);
    assert_eq!(stops(&mut program, &world), [starts[0].0]);
    let mut writer = program.writer(&world, starts[1].1);
    program.write(&mut world, &mut writer, &[3]);
    assert_eq!(consumers[1].ended(&world, enabled[1]), None);
    assert_eq!(times(&consumers[1].read(&mut world)), [3]);
    world.pass(60_000);
}

#[test]
fn a_session_that_is_freed_answers_all_that_was_asked_of_it() {
    let mut world = World::default();
    let mut consumer = Consumer::of(&mut world, 0);
    let enabled = consumer.enable(&mut world, &config_of(&[64], &[]));
    assert!(consumer.simple(&mut world, "FreeBuffers"));
    assert_eq!(consumer.ended(&world, enabled).as_deref(), Some(""));
    let again = consumer.enable(&mut world, &config_of(&[64], &[]));
    assert_eq!(consumer.ended(&world, again), None, "another one may follow");
    let second = consumer.enable(&mut world, &config_of(&[64], &[]));
    assert!(consumer.ended(&world, second).is_some_and(|why| why.contains("only one session")));
    assert_eq!(consumer.ended(&world, again), None, "the first goes on");
}

#[test]
fn a_service_that_is_to_end_flushes_and_stops_all_sessions_and_says_so() {
    let mut world = World::default();
    let mut program = Program::offering(&mut world, 1000, &[("events", 0)]);
    let mut consumer = Consumer::of(&mut world, 0);
    let enabled = consumer.enable(&mut world, &config_of(&[64], &[("events", 0)]));
    world.handle(Event::End);
    let [flush] = program.flushes(&world)[..] else { panic!("it is asked") };
    assert_eq!(consumer.ended(&world, enabled), None);
    program.answer(&mut world, flush);
    assert!(consumer.ended(&world, enabled).is_some_and(|why| why.contains("ended")));
    assert!(world.service.has_ended());
    let refused = Consumer::of(&mut world, 0).enable(&mut world, &config_of(&[64], &[]));
    assert!(refused > 0);
}
