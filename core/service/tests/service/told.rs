//! What a trace says of slow data sources and of sessions beside it.

use tracebuf::proto::fields::config::{builtin_data_source, trace_config};
use tracebuf::proto::fields::consumer::{
    clone_session_request, concurrent_session_event as other, flush_request, slow_data_source,
    slow_data_sources, tracing_service_event as moment,
};
use tracebuf::proto::fields::trace_packet;
use tracebuf::proto::reader::{message, messages, number, numbers};
use tracebuf_service::wire::ProtoBuilder;

use crate::clients::{Consumer, NOTIFIES_START, Program, config_of};
use crate::world::{MS, World};

/// Names of producers and data sources, with when it was said.
fn slow(packets: &[Vec<u8>], kind: u32) -> Vec<(u64, Vec<(String, String)>)> {
    let all = packets.iter().filter_map(|packet| {
        let event = message(packet, trace_packet::SERVICE_EVENT).expect("well-formed");
        let sources = message(event, kind).filter(|sources| !sources.is_empty())?;
        let text =
            |of: &[u8], field| String::from_utf8_lossy(message(of, field).expect("a text")).into_owned();
        let named = messages(sources, slow_data_sources::DATA_SOURCE).map(|one| {
            (text(one, slow_data_source::PRODUCER_NAME), text(one, slow_data_source::DATA_SOURCE_NAME))
        });
        Some((number(packet, trace_packet::TIMESTAMP).expect("a time"), named.collect()))
    });
    all.collect()
}

#[test]
fn data_sources_that_have_not_started_after_twenty_seconds_are_told_once_in_the_trace_and_the_log() {
    let mut world = World::default();
    let mut late =
        Program::offering(&mut world, 1000, &[("a", NOTIFIES_START), ("b", NOTIFIES_START), ("c", 0)]);
    let config = || config_of(&[64], &[("a", 0), ("b", 0), ("c", 0)]);
    let mut consumer = Consumer::of(&mut world, 0);
    consumer.enable(&mut world, &config());
    let starts = late.starts(&world);
    late.has_started(&mut world, starts[0].0);
    world.pass(19_999);
    assert!(slow(&consumer.read(&mut world), moment::SLOW_STARTING_DATA_SOURCES).is_empty());
    world.pass(1);
    let said = slow(&consumer.read(&mut world), moment::SLOW_STARTING_DATA_SOURCES);
    assert_eq!(said, [(world.boot_time(), vec![("program".to_string(), "b".to_string())])]);
    assert!(matches!(&world.log[..], [line] if line.contains("b of program")), "{:?}", world.log);
    world.pass(60_000);
    assert!(slow(&consumer.read(&mut world), moment::SLOW_STARTING_DATA_SOURCES).is_empty(), "once");
    // Not of those that have all started, nor where nobody waits.
    late.has_started(&mut world, starts[1].0);
    world.hang_up(late.connection);
    world.hang_up(consumer.connection);
    let mut quick = Program::offering(&mut world, 1000, &[("c", 0)]);
    let mut other = Consumer::of(&mut world, 0);
    other.enable(&mut world, &config());
    assert_eq!(quick.starts(&world).len(), 1);
    world.pass(30_000);
    assert!(slow(&other.read(&mut world), moment::SLOW_STARTING_DATA_SOURCES).is_empty());
    assert_eq!(world.log.len(), 1, "{:?}", world.log);
}

#[test]
fn data_sources_that_do_not_answer_the_last_flush_or_that_of_a_clone_are_told() {
    let mut world = World::default();
    let mut quick = Program::offering(&mut world, 1000, &[("a", 0)]);
    let many: Vec<String> = (0..40).map(|at| format!("s{at}")).collect();
    let sources: Vec<(&str, u32)> = many.iter().map(|name| (name.as_str(), 0)).collect();
    let _late = Program::offering(&mut world, 1000, &sources);
    let wanted = [&[("a", 0)][..], &sources].concat();
    let mut consumer = Consumer::of(&mut world, 0);
    let config = config_of(&[64], &wanted)
        .number(trace_config::FLUSH_TIMEOUT_MS, 500_u32)
        .number(trace_config::DURATION_MS, 10_000_u32);
    consumer.enable(&mut world, &config);
    // Nobody hears of others: a flush that a consumer wants.
    consumer.call(&mut world, "Flush", &ProtoBuilder::new());
    world.pass(500);
    let kind = moment::LAST_FLUSH_SLOW_DATA_SOURCES;
    assert!(slow(&consumer.read(&mut world), kind).is_empty());
    // That of the stock command before it stops.
    let before_stop = ProtoBuilder::new().number(flush_request::FLAGS, 2_u32 | 2 << 4);
    consumer.call(&mut world, "Flush", &before_stop);
    let answer = |world: &mut World, quick: &mut Program| {
        let flushes = quick.flushes(world);
        quick.answer(world, *flushes.last().expect("it is asked"));
    };
    answer(&mut world, &mut quick);
    world.pass(500);
    assert_eq!(slow(&consumer.read(&mut world), kind).len(), 1);
    let mut cloner = Consumer::of(&mut world, 0);
    cloner.call(
        &mut world,
        "CloneSession",
        &ProtoBuilder::new().number(clone_session_request::SESSION_ID, 1_u32),
    );
    answer(&mut world, &mut quick);
    world.pass(500);
    let expected: Vec<_> = many[..32].iter().map(|name| ("program".to_string(), name.clone())).collect();
    let said = slow(&cloner.read(&mut world), kind);
    assert_eq!(said.iter().map(|(_, named)| named).collect::<Vec<_>>(), [&expected], "so many, and not all");
    consumer.read(&mut world);
    world.pass(8_500);
    answer(&mut world, &mut quick);
    world.pass(500);
    let said = slow(&consumer.read(&mut world), kind);
    assert_eq!(said, [(world.boot_time(), expected)]);
}

#[test]
fn clocks_are_told_of_after_a_sleep_as_after_the_same_time_awake_if_the_interval_counts_sleep() {
    for counts_sleep in [false, true] {
        let mut world = World::default();
        let builtin = ProtoBuilder::new()
            .number(builtin_data_source::SNAPSHOT_INTERVAL_MS, 10_000_u32)
            .number(builtin_data_source::PREFER_SUSPEND_CLOCK_FOR_SNAPSHOT, counts_sleep);
        let mut consumer = Consumer::of(&mut world, 0);
        consumer
            .enable(&mut world, &config_of(&[64], &[]).message(trace_config::BUILTIN_DATA_SOURCES, &builtin));
        let markers = |world: &mut World, consumer: &mut Consumer| {
            let packets = consumer.read(world);
            let told = packets
                .iter()
                .filter_map(|packet| message(packet, trace_packet::SYNCHRONIZATION_MARKER))
                .filter(|marker| !marker.is_empty());
            told.count()
        };
        assert_eq!(markers(&mut world, &mut consumer), 1, "at the begin");
        world.sleep(10_000);
        world.pass(1_000);
        assert_eq!(markers(&mut world, &mut consumer), usize::from(counts_sleep));
        world.pass(10_000);
        assert_eq!(markers(&mut world, &mut consumer), 1, "in ten seconds awake");
        consumer.simple(&mut world, "DisableTracing");
        world.pass(30_000);
        assert!(markers(&mut world, &mut consumer) <= 1, "of the end");
    }
}

/// What a trace says of others: number, state, user, data sources and name, with when that was.
fn others(packets: &[Vec<u8>]) -> Vec<(u64, [u64; 4], String)> {
    let all = packets.iter().filter_map(|packet| {
        let event = message(packet, trace_packet::CONCURRENT_SESSION_EVENT).expect("well-formed");
        let of = [other::SESSION_ID, other::STATE, other::CONSUMER_UID, other::NUM_DATA_SOURCES];
        let said = numbers(event, of).filter(|_| !event.is_empty())?;
        let name = message(event, other::SESSION_NAME).expect("well-formed");
        let time = number(packet, trace_packet::TIMESTAMP).expect("a time");
        Some((time, said, String::from_utf8_lossy(name).into_owned()))
    });
    all.collect()
}

#[test]
fn a_trace_tells_of_sessions_beside_it_if_it_is_to() {
    let mut world = World::default();
    let _program = Program::offering(&mut world, 1000, &[("events", 0)]);
    let builtin = ProtoBuilder::new().number(builtin_data_source::ENABLE_CONCURRENT_SESSION_EVENTS, true);
    let plain = || config_of(&[64], &[("events", 0)]);
    let wants = || plain().message(trace_config::BUILTIN_DATA_SOURCES, &builtin);
    let (mut before, before_since) = (Consumer::of(&mut world, 7), world.boot_time());
    before.enable(&mut world, &plain().bytes(trace_config::UNIQUE_SESSION_NAME, b"before"));
    world.pass(10);
    let (mut consumer, mut silent) = (Consumer::of(&mut world, 0), Consumer::of(&mut world, 0));
    consumer.enable(&mut world, &wants());
    let since = world.boot_time();
    silent.enable(&mut world, &plain());
    world.pass(10);
    before.simple(&mut world, "DisableTracing");
    let mut cloner = Consumer::of(&mut world, 0);
    cloner.call(
        &mut world,
        "CloneSession",
        &ProtoBuilder::new().number(clone_session_request::SESSION_ID, 3_u32),
    );
    world.pass(5_000);
    world.hang_up(cloner.connection);
    let said = others(&consumer.read(&mut world));
    let begin = since + 10 * MS;
    let of = |id, state, sources| [id, state, if id == 1 { 7 } else { 0 }, sources];
    let (first, none) = ("before".to_string(), String::new());
    let expected = [
        (before_since, of(1, 3, 1), first.clone()),
        (since, of(3, 2, 0), none.clone()),
        (since, of(3, 3, 1), none.clone()),
        (begin, of(1, 4, 1), first.clone()),
        (begin, of(1, 1, 1), first),
        (begin + 5_000 * MS, of(4, 5, 0), none.clone()),
        (begin + 5_000 * MS, of(4, 1, 0), none),
    ];
    assert_eq!(said, expected);
    assert!(others(&silent.read(&mut world)).is_empty() && others(&before.read(&mut world)).is_empty());
    // What is not read is bounded.
    for _ in 0..3000 {
        let mut one = Consumer::of(&mut world, 0);
        one.enable(&mut world, &config_of(&[], &[]));
        world.hang_up(one.connection);
    }
    assert_eq!(others(&consumer.read(&mut world)).len(), 4096);
}
