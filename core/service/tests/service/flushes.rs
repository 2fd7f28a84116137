//! Flushes, and what producers are still writing.

use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

use tracebuf::proto::fields::config::trace_config;
use tracebuf::proto::fields::consumer::flush_request;
use tracebuf_service::wire::ProtoBuilder;
use tracebuf_service::wire::commands::ServiceCommand;

use crate::clients::{Consumer, NO_FLUSH, Program, config_of, replies, times};
use crate::world::World;

fn good(world: &World, consumer: &Consumer, request: u64) -> Option<bool> {
    let all = replies(world, consumer.connection, request);
    assert!(all.len() <= 1 && all.iter().all(|(_, more, _)| !more));
    all.first().map(|(good, ..)| *good)
}

fn timeout(ms: u32) -> ProtoBuilder {
    ProtoBuilder::new().number(flush_request::TIMEOUT_MS, ms)
}

#[test]
fn a_flush_is_over_when_all_that_were_asked_have_answered_and_brings_what_is_being_written() {
    let mut world = World::default();
    let mut first = Program::offering(&mut world, 1000, &[("events", 0)]);
    let mut second = Program::offering(&mut world, 1000, &[("events", 0)]);
    let mut silent = Program::offering(&mut world, 1000, &[("events", NO_FLUSH)]);
    let mut consumer = Consumer::of(&mut world, 0);
    consumer.enable(&mut world, &config_of(&[64], &[("events", 0)]));
    let mut writer = silent.starts_to_write(&world);
    silent.speak(&mut world);
    writer.packet().varint(8, 7);
    writer.packet().varint(8, 8);
    let flush = consumer.call(&mut world, "Flush", &ProtoBuilder::new());
    let [asked] = first.flushes(&world)[..] else { panic!("it is asked") };
    assert_eq!((second.flushes(&world), silent.flushes(&world)), (vec![asked], vec![]));
    first.answer(&mut world, asked);
    assert_eq!((good(&world, &consumer, flush), times(&consumer.read(&mut world))), (None, vec![]));
    second.answer(&mut world, asked);
    assert_eq!(good(&world, &consumer, flush), Some(true));
    assert_eq!(times(&consumer.read(&mut world)), [7, 8]);
}

/// As Perfetto's library does with chunks that wait for a batch.
#[test]
fn a_size_that_is_put_into_a_chunk_after_a_flush_has_looked_at_it_costs_no_packet() {
    const NEEDS_PATCHING: u32 = 1 << 28; // in the fourth word of a page that is one chunk
    for is_gone in [false, true] {
        let mut world = World::default();
        let mut program = Program::offering(&mut world, 1000, &[("events", 0)]);
        let mut consumer = Consumer::of(&mut world, 0);
        consumer.enable(&mut world, &config_of(&[64], &[("events", 0)]));
        let mut writer = program.starts_to_write(&world);
        program.speak(&mut world);
        writer.packet().varint(8, 7);
        let mut packet = writer.packet();
        packet.varint(8, 8);
        packet.message(900).bytes(1, &[1; 5000]);
        drop(packet);
        writer.packet().varint(8, 9);
        writer.flush();
        let memory = world.memory_of(world.files_for(program.connection)[0]);
        let first: &[AtomicU32] = &memory.as_ref()[..1024];
        let patched: Vec<u32> = first.iter().map(|word| word.load(Relaxed)).collect();
        let mut bytes: Vec<u8> = patched.iter().flat_map(|word| word.to_le_bytes()).collect();
        let size = bytes.windows(2).position(|tag| tag == [0xA2, 0x38]).expect("the field's tag") + 2;
        bytes[size..size + 4].fill(0);
        for (word, unpatched) in first.iter().zip(bytes.as_chunks().0) {
            word.store(u32::from_le_bytes(*unpatched), Relaxed);
        }
        first[3].fetch_or(NEEDS_PATCHING, Relaxed);
        let flush = consumer.call(&mut world, "Flush", &ProtoBuilder::new());
        let [asked] = program.flushes(&world)[..] else { panic!("it is asked") };
        program.answer(&mut world, asked);
        assert_eq!(good(&world, &consumer, flush), Some(true));
        assert_eq!(times(&consumer.read(&mut world)), [7]);
        if is_gone {
            world.hang_up(program.connection);
            assert_eq!(times(&consumer.read(&mut world)), [9]);
        } else {
            first.iter().zip(patched).for_each(|(word, patched)| word.store(patched, Relaxed));
            program.speak(&mut world);
            assert_eq!(times(&consumer.read(&mut world)), [8, 9]);
        }
    }
}

#[test]
fn an_answer_stands_for_all_flushes_before_and_for_those_of_other_sessions() {
    let mut world = World::default();
    let mut program = Program::offering(&mut world, 1000, &[("events", 0)]);
    let mut consumers = [0; 2].map(|_| Consumer::of(&mut world, 0));
    let calls = consumers.each_mut().map(|consumer| {
        consumer.enable(&mut world, &config_of(&[64], &[("events", 0)]));
        [0; 2].map(|_| consumer.call(&mut world, "Flush", &ProtoBuilder::new()))
    });
    let asked = program.flushes(&world);
    assert_eq!(asked.len(), 4);
    let answered = |world: &World| {
        [0, 1].map(|at: usize| calls[at].map(|call| good(world, &consumers[at], call) == Some(true)))
    };
    program.answer(&mut world, asked[2]);
    assert_eq!(answered(&world), [[true, true], [true, false]]);
    program.answer(&mut world, asked[1]);
    assert_eq!(answered(&world), [[true, true], [true, false]]);
    program.answer(&mut world, u64::MAX);
    assert_eq!(answered(&world), [[true; 2]; 2]);
}

#[test]
fn a_flush_that_is_not_answered_in_time_fails_and_one_of_a_program_that_is_gone_does_not_wait() {
    let mut world = World::default();
    let program = Program::offering(&mut world, 1000, &[("events", 0)]);
    let mut consumer = Consumer::of(&mut world, 0);
    consumer.enable(
        &mut world,
        &config_of(&[64], &[("events", 0)]).number(trace_config::FLUSH_TIMEOUT_MS, 300_u32),
    );
    let short = consumer.call(&mut world, "Flush", &timeout(100));
    let long = consumer.call(&mut world, "Flush", &ProtoBuilder::new());
    world.pass(100);
    assert_eq!([short, long].map(|call| good(&world, &consumer, call)), [Some(false), None]);
    world.pass(200);
    assert_eq!(good(&world, &consumer, long), Some(false));
    let last = consumer.call(&mut world, "Flush", &timeout(100_000));
    world.hang_up(program.connection);
    assert_eq!(good(&world, &consumer, last), Some(true));
}

#[test]
fn a_flush_of_nobody_is_over_at_once_and_one_without_a_session_that_records_is_refused() {
    let mut world = World::default();
    let mut consumer = Consumer::of(&mut world, 0);
    let none = consumer.call(&mut world, "Flush", &ProtoBuilder::new());
    consumer.enable(&mut world, &config_of(&[64], &[]));
    let empty = consumer.call(&mut world, "Flush", &ProtoBuilder::new());
    consumer.simple(&mut world, "DisableTracing");
    let late = consumer.call(&mut world, "Flush", &ProtoBuilder::new());
    let all = [none, empty, late].map(|call| good(&world, &consumer, call));
    assert_eq!(all, [Some(false), Some(true), Some(false)]);
}

#[test]
fn a_session_flushes_before_its_end_and_waits_no_longer_than_it_says() {
    for answers in [true, false] {
        let mut world = World::default();
        let mut program = Program::offering(&mut world, 1000, &[("events", 0)]);
        let mut consumer = Consumer::of(&mut world, 0);
        let config = config_of(&[64], &[("events", 0)]).number(trace_config::DURATION_MS, 1000_u32);
        let enabled = consumer.enable(&mut world, &config);
        world.pass(1000);
        let [flush] = program.flushes(&world)[..] else { panic!("it is asked") };
        assert_eq!(consumer.ended(&world, enabled), None);
        if answers {
            program.answer(&mut world, flush);
        } else {
            world.pass(4999);
            assert_eq!(consumer.ended(&world, enabled), None);
            world.pass(1);
        }
        assert_eq!(consumer.ended(&world, enabled).as_deref(), Some(""));
    }
}

#[test]
fn periodic_flushes_and_clears_come_at_multiples_of_their_periods_and_not_on_top_of_each_other() {
    let mut world = World::default();
    let mut program = Program::offering(&mut world, 1000, &[("events", 0)]);
    let mut consumer = Consumer::of(&mut world, 0);
    let clear = ProtoBuilder::new().number(1, 400_u32);
    let config = config_of(&[64], &[("events", 0)])
        .number(trace_config::FLUSH_PERIOD_MS, 300_u32)
        .message(trace_config::INCREMENTAL_STATE_CONFIG, &clear);
    consumer.enable(&mut world, &config);
    program.commands(&world);
    let mut heard = Vec::new();
    for at in (100..=1200).step_by(100) {
        world.pass(100);
        for command in program.commands(&world) {
            heard.push((at, matches!(command, ServiceCommand::ClearState { .. })));
            if let ServiceCommand::Flush { request, .. } = command
                && at != 500
            {
                program.answer(&mut world, request);
            }
        }
    }
    // The clock stood at 10 s, a multiple of neither 300 nor of both.
    assert_eq!(heard, [(200, false), (400, true), (500, false), (800, true), (1200, true)]);
    consumer.simple(&mut world, "DisableTracing");
    program.commands(&world);
    world.pass(5000);
    assert!(program.commands(&world).is_empty());
}
