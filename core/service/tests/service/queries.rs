//! What consumers ask.

use tracebuf::proto::fields::consumer as fields;
use tracebuf::proto::fields::ipc::{method, register_data_source_request};
use tracebuf::proto::reader::{message, messages, number, numbers};
use tracebuf_service::wire::ProtoBuilder;

use crate::clients::{Consumer, Program, config_of, replies};
use crate::world::World;

/// All parts of an answer together, as clients join them.
fn state(world: &mut World, consumer: &mut Consumer, sessions_only: bool) -> (Vec<u8>, usize) {
    let asked = ProtoBuilder::new().number(fields::query_service_state_request::SESSIONS_ONLY, sessions_only);
    let request = consumer.call(world, "QueryServiceState", &asked);
    let answers = replies(world, consumer.connection, request);
    let last = answers.len() - 1;
    assert!(answers.iter().enumerate().all(|(at, (good, more, _))| *good && *more == (at < last)));
    let joined = answers.iter().flat_map(|(_, _, said)| {
        message(said, fields::query_service_state_response::SERVICE_STATE)
            .expect("each is a message")
            .to_vec()
    });
    (joined.collect(), answers.len())
}

#[test]
fn the_state_of_the_service_comes_whole_however_much_there_is() {
    let mut world = World::default();
    let mut program = Program::offering(&mut world, 1000, &[("events", 0)]);
    // Descriptors that fill frames.
    for (name, len) in [("a", 126_000), ("b", 126_000), ("c", 130_000), ("d", 131_008), ("e", 131_021)] {
        let told = ProtoBuilder::new().bytes(1, name.as_bytes()).bytes(6, &vec![b'x'; len]);
        let told = ProtoBuilder::new().message(register_data_source_request::DATA_SOURCE_DESCRIPTOR, &told);
        assert!(program.call(&mut world, method::REGISTER_DATA_SOURCE, &told));
    }
    // One that has no room in a frame is none.
    let long = ProtoBuilder::new().bytes(1, b"f").bytes(6, &[b'x'; 131_022]);
    let long = ProtoBuilder::new().message(register_data_source_request::DATA_SOURCE_DESCRIPTOR, &long);
    program.call(&mut world, method::REGISTER_DATA_SOURCE, &long);
    assert!(world.log.last().is_some_and(|line| line.contains("\"f\", which is ignored")), "{:?}", world.log);
    for _ in 0..200 {
        Program::of(&mut world, 2000, "another");
    }
    let mut consumer = Consumer::of(&mut world, 7);
    let (said, parts) = state(&mut world, &mut consumer, false);
    use fields::tracing_service_state as of;
    let sources: Vec<_> = messages(&said, of::DATA_SOURCES).collect();
    assert_eq!((sources.len(), messages(&said, of::PRODUCERS).count()), (6, 201));
    assert!((6..9).contains(&parts), "{parts}");
    let descriptor = fields::tracing_service_state_data_source::DS_DESCRIPTOR;
    assert!(
        sources[1..]
            .iter()
            .all(|source| message(source, descriptor).is_some_and(|told| told.len() > 126_000))
    );
    let producer = messages(&said, of::PRODUCERS).next().expect("one");
    let [id, uid, pid] = numbers(producer, [1, 3, 5]).expect("well-formed");
    assert_eq!((id, uid, pid, message(producer, 2)), (1, 1000, 1001, Some(&b"program"[..])));
    let (said, parts) = state(&mut world, &mut consumer, true);
    assert_eq!((messages(&said, of::PRODUCERS).count(), parts), (0, 1));
}

#[test]
fn sessions_of_others_are_counted_and_shown_to_root_alone() {
    let mut world = World::default();
    let mut consumers = [1, 2, 0].map(|uid| Consumer::of(&mut world, uid));
    for consumer in &mut consumers[..2] {
        consumer.enable(&mut world, &config_of(&[64, 32], &[]));
    }
    consumers[0].simple(&mut world, "DisableTracing");
    let shown = consumers.each_mut().map(|consumer| {
        let (said, _) = state(&mut world, consumer, true);
        let ids = messages(&said, fields::tracing_service_state::TRACING_SESSIONS)
            .map(|session| {
                let text = message(session, fields::tracing_session::STATE).expect("well-formed");
                (number(session, fields::tracing_session::ID).expect("a number"), text.to_vec())
            })
            .collect::<Vec<_>>();
        let [all, started] = numbers(&said, [3, 4]).expect("well-formed");
        (ids, all, started)
    });
    let (first, second) = ((1, b"DISABLED".to_vec()), (2, b"STARTED".to_vec()));
    let expected = [vec![first.clone()], vec![second.clone()], vec![first, second]];
    assert_eq!(shown, expected.map(|ids| (ids, 2, 1)));
}

#[test]
fn capabilities_are_those_that_there_are_and_what_is_not_supported_says_so() {
    let mut world = World::default();
    let mut consumer = Consumer::of(&mut world, 0);
    let mut ask = |world: &mut World, name: &str| {
        let request = consumer.call(world, name, &ProtoBuilder::new());
        let [(good, false, said)] = &replies(world, consumer.connection, request)[..] else {
            panic!("one answer")
        };
        (*good, said.clone())
    };
    let (true, said) = ask(&mut world, "QueryCapabilities") else { panic!("it is there") };
    let said = message(&said, fields::query_capabilities_response::CAPABILITIES).expect("well-formed");
    use fields::tracing_service_capabilities as of;
    let all = [of::HAS_QUERY_CAPABILITIES, of::HAS_TRACE_CONFIG_OUTPUT_PATH, of::HAS_CLONE_SESSION];
    assert_eq!(numbers(said, all), Some([1, 1, 1]));
    for (name, text) in [("CloneSession", 2), ("SaveTraceForBugreport", 2)] {
        let (true, said) = ask(&mut world, name) else { panic!("it is answered") };
        assert_eq!(number(&said, 1), Some(0));
        assert!(message(&said, text).is_some_and(|text| !text.is_empty()));
    }
    assert!(!ask(&mut world, "GetTraceStats").0 && !ask(&mut world, "NoSuchMethod").0);
}

#[test]
fn statistics_are_there_at_any_time_and_count_what_was_refused() {
    let mut world = World::default();
    let mut program = Program::offering(&mut world, 1000, &[("events", 0)]);
    let mut consumer = Consumer::of(&mut world, 0);
    consumer.enable(&mut world, &config_of(&[64], &[("events", 0)]));
    let mut writer = program.starts_to_write(&world);
    program.write(&mut world, &mut writer, &[1, 2, 3]);
    // One of another's fields.
    writer.packet().varint(3, 0);
    writer.flush();
    program.speak(&mut world);
    consumer.read(&mut world);
    let request = consumer.call(&mut world, "GetTraceStats", &ProtoBuilder::new());
    let [(true, false, said)] = &replies(&world, consumer.connection, request)[..] else {
        panic!("one answer")
    };
    let stats = message(said, fields::get_trace_stats_response::TRACE_STATS).expect("well-formed");
    use tracebuf::proto::fields::{buffer_stats, trace_stats, writer_stats};
    assert_eq!(number(stats, trace_stats::INVALID_PACKETS), Some(1));
    let of_buffer = message(stats, trace_stats::BUFFER_STATS).expect("well-formed");
    assert_eq!(number(of_buffer, buffer_stats::CHUNKS_WRITTEN), Some(4));
    let of_writer = message(stats, trace_stats::WRITER_STATS).expect("well-formed");
    assert_eq!(number(of_writer, writer_stats::SEQUENCE_ID), Some(2));
}
