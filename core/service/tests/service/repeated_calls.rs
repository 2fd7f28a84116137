//! Calls that repeat one which is under way, and programs whose process the system does not know.

use tracebuf::proto::fields::consumer::{
    clone_session_request, clone_session_response, enable_tracing_response,
};
use tracebuf::proto::fields::trace_packet;
use tracebuf::proto::reader::number;
use tracebuf_service::wire::ProtoBuilder;

use crate::clients::{Consumer, Program, config_of, data, replies};
use crate::world::World;

#[test]
fn a_second_session_of_a_consumer_is_refused_and_the_first_goes_on_to_its_own_end() {
    let mut world = World::default();
    let mut consumer = Consumer::of(&mut world, 0);
    let first = consumer.enable(&mut world, &config_of(&[64], &[]));
    let second = consumer.enable(&mut world, &config_of(&[64], &[]));
    let why = consumer.ended(&world, second).expect("at once");
    assert!(!why.is_empty(), "it says why");
    assert_eq!(consumer.ended(&world, first), None);
    // Nor may it wait twice for one end.
    let waits = ProtoBuilder::new().number(1, 0_u32).number(2, true);
    let third = consumer.call(&mut world, "EnableTracing", &waits);
    assert!(consumer.simple(&mut world, "DisableTracing"));
    let heard = [first, third].map(|request| replies(&world, consumer.connection, request));
    assert!(heard.iter().all(|answers| answers.len() == 1), "everybody is answered once: {heard:?}");
    let ended = |answers: &[(bool, bool, Vec<u8>)]| {
        answers
            .iter()
            .any(|(good, _, said)| *good && number(said, enable_tracing_response::DISABLED) == Some(1))
    };
    assert!(heard.iter().any(|answers| ended(answers)), "{heard:?}");
    assert!(!consumer.read(&mut world).is_empty());
}

#[test]
fn a_second_clone_is_refused_and_the_first_comes() {
    let mut world = World::default();
    let mut program = Program::offering(&mut world, 1000, &[("events", 0)]);
    let mut owner = Consumer::of(&mut world, 0);
    owner.enable(&mut world, &config_of(&[64], &[("events", 0)]));
    let mut writer = program.starts_to_write(&world);
    program.write(&mut world, &mut writer, &[7]);
    let mut cloner = Consumer::of(&mut world, 0);
    let wanted = ProtoBuilder::new().number(clone_session_request::SESSION_ID, 1_u32);
    let [first, second] = [(); 2].map(|()| cloner.call(&mut world, "CloneSession", &wanted));
    let said = |world: &World, request| {
        let answers = replies(world, cloner.connection, request);
        let answer = answers.first()?;
        assert!(answers.len() == 1 && answer.0 && !answer.1, "{answers:?}");
        Some(number(&answer.2, clone_session_response::SUCCESS) == Some(1))
    };
    assert_eq!((said(&world, first), said(&world, second)), (None, Some(false)));
    for flush in program.flushes(&world) {
        program.answer(&mut world, flush);
    }
    assert_eq!(said(&world, first), Some(true));
    assert_eq!(data(&cloner.read(&mut world)).iter().map(|(time, ..)| *time).collect::<Vec<_>>(), [7]);
}

#[test]
fn packets_of_a_process_that_the_system_has_no_number_for_have_none() {
    let mut world = World::default();
    let mut known = Program::offering(&mut world, 1000, &[("events", 0)]);
    world.has_no_pids = true;
    let mut unknown = Program::offering(&mut world, 1000, &[("events", 0)]);
    let mut consumer = Consumer::of(&mut world, 0);
    consumer.enable(&mut world, &config_of(&[64], &[("events", 0)]));
    for (program, time) in [(&mut known, 1), (&mut unknown, 2)] {
        let mut writer = program.starts_to_write(&world);
        program.write(&mut world, &mut writer, &[time]);
    }
    let packets = consumer.read(&mut world);
    let pid_of = |time| {
        let its = |packet: &&Vec<u8>| {
            number(packet, trace_packet::TIMESTAMP) == Some(time)
                && number(packet, trace_packet::TRUSTED_PACKET_SEQUENCE_ID) > Some(1)
        };
        number(packets.iter().find(its).expect("it is there"), trace_packet::TRUSTED_PID)
    };
    assert!(pid_of(1) > Some(1000));
    assert_eq!(pid_of(2), None, "no process is 0");
}
