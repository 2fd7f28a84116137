//! Traces that the service writes.

use tracebuf::producer::{ChunkToMove, Request};
use tracebuf::proto::TracePackets;
use tracebuf::proto::fields::config::trace_config;
use tracebuf_service::Event;
use tracebuf_service::wire::ProtoBuilder;

use crate::clients::{Consumer, Program, config_of, times};
use crate::wild::whole_chunk;
use crate::world::{World, WrittenFile};

fn config(period_ms: u32) -> ProtoBuilder {
    config_of(&[256], &[("events", 0)])
        .number(trace_config::WRITE_INTO_FILE, true)
        .number(trace_config::FILE_WRITE_PERIOD_MS, period_ms)
        .number(trace_config::WRITE_FLUSH_MODE, 2_u32)
}

fn packets(file: &WrittenFile) -> Vec<Vec<u8>> {
    TracePackets::new(&file.bytes).map(|packet| packet.expect("whole packets").to_vec()).collect()
}

struct Setting {
    world: World,
    program: Program,
    consumer: Consumer,
    writer: tracebuf::producer::TraceWriter<'static>,
    enabled: u64,
    file: u64,
}

fn setting(config: &ProtoBuilder) -> Setting {
    let mut world = World::default();
    let mut program = Program::offering(&mut world, 1000, &[("events", 0)]);
    let mut consumer = Consumer::of(&mut world, 0);
    let file = world.file();
    let enabled = consumer.enable_with(&mut world, config, Some(file));
    let writer = program.starts_to_write(&world);
    Setting { world, program, consumer, writer, enabled, file: file.0 }
}

impl Setting {
    fn write(&mut self, times: &[u64]) {
        self.program.write(&mut self.world, &mut self.writer, times);
    }

    fn times(&self) -> Vec<u64> {
        self.world.files.get(&self.file).map_or(Vec::new(), |file| times(&packets(file)))
    }

    fn is_complete(&self) -> bool {
        self.world.files.get(&self.file).is_some_and(|file| file.is_complete)
    }
}

#[test]
fn a_file_is_written_at_its_period_and_completed_before_the_consumer_hears_of_the_end() {
    let mut all = setting(&config(1000));
    all.write(&[1, 2]);
    assert_eq!(all.times(), []);
    all.world.pass(1000);
    assert_eq!(all.times(), [1, 2]);
    all.write(&[3]);
    all.world.files_are_stuck = true;
    all.consumer.simple(&mut all.world, "DisableTracing");
    assert_eq!(all.consumer.ended(&all.world, all.enabled), None, "the file is not complete");
    all.world.unstick_files();
    assert_eq!(all.consumer.ended(&all.world, all.enabled).as_deref(), Some(""));
    assert!(all.is_complete() && all.times() == [1, 2, 3]);
    assert!(all.consumer.read(&mut all.world).is_empty(), "there is nothing to read");
    assert!(all.world.discarded.is_empty());
}

#[test]
fn a_file_is_completed_when_the_consumer_frees_hangs_up_or_the_service_ends() {
    type End = fn(&mut Setting);
    let ends: [End; 3] = [
        |all| assert!(all.consumer.simple(&mut all.world, "FreeBuffers")),
        |all| all.world.hang_up(all.consumer.connection),
        |all| {
            all.world.handle(Event::End);
            let [flush] = all.program.flushes(&all.world)[..] else { panic!("it is asked") };
            all.program.answer(&mut all.world, flush);
            assert!(all.world.service.has_ended());
        },
    ];
    for end in ends {
        let mut all = setting(&config(1000));
        all.write(&[1, 2]);
        end(&mut all);
        assert!(all.is_complete());
        assert_eq!(all.times(), [1, 2]);
    }
}

#[test]
fn a_trace_ends_before_it_is_longer_than_it_may_be_and_has_its_statistics() {
    let limit = 8000_u32;
    let mut all = setting(&config(100).number(trace_config::MAX_FILE_SIZE_BYTES, limit));
    for at in 0..40 {
        all.write(&(at * 20..at * 20 + 20).collect::<Vec<_>>());
        all.world.pass(100);
    }
    assert_eq!(all.consumer.ended(&all.world, all.enabled).as_deref(), Some(""));
    let (file, written) = (&all.world.files[&all.file], all.times());
    assert!(file.is_complete && (file.bytes.len() as u64) < u64::from(limit), "{}", file.bytes.len());
    assert!(written.len() > 100 && written.iter().copied().eq(0..written.len() as u64), "no gap");
    let last = packets(file).pop().expect("a packet");
    assert!(tracebuf::proto::reader::message(&last, 35).is_some_and(|stats| !stats.is_empty()));
}

#[test]
fn a_trace_that_may_be_no_longer_has_statistics_also_if_there_is_no_room_for_those_of_all_writers() {
    let mut all = setting(&config(100).number(trace_config::MAX_FILE_SIZE_BYTES, 30_000_u32));
    let memory = all.world.memory_of(all.world.files_for(all.program.connection)[0]);
    let target = 1; // the first buffer that there is
    for writer_id in 100..1000 {
        whole_chunk(&memory, 1, writer_id, &[&[0xA2, 0x38, 100][..], &[0; 100]].concat());
        all.program.say(&mut all.world, Request::Move(ChunkToMove { page: 1, chunk: 0, target }));
        all.world.pass(10);
    }
    let file = &all.world.files[&all.file];
    assert!(file.is_complete && file.bytes.len() < 30_000, "{}", file.bytes.len());
    let last = packets(file).pop().expect("a packet");
    assert!(tracebuf::proto::reader::message(&last, 35).is_some_and(|stats| !stats.is_empty()));
}

#[test]
fn a_file_that_takes_nothing_ends_its_session_and_keeps_nobody_else() {
    let mut all = setting(&config(1000));
    let mut other = Consumer::of(&mut all.world, 0);
    other.enable(&mut all.world, &config_of(&[64], &[("events", 0)]));
    let file = tracebuf_service::FileToken(all.file);
    all.world.handle(Event::Failed { file, error: "no space".into() });
    let error = all.consumer.ended(&all.world, all.enabled).expect("it has ended");
    assert!(error.contains("no space"), "{error}");
    assert!(all.is_complete() && all.times().is_empty());
    let mut writer = all.program.starts_to_write(&all.world);
    all.program.write(&mut all.world, &mut writer, &[9]);
    assert_eq!(times(&other.read(&mut all.world)), [9]);
}

#[test]
fn a_slow_file_holds_no_more_than_so_much_memory_and_what_comes_meanwhile_waits_in_the_buffer() {
    let large = config_of(&[256 << 10], &[("events", 0)])
        .number(trace_config::WRITE_INTO_FILE, true)
        .number(trace_config::FILE_WRITE_PERIOD_MS, 100_u32)
        .number(trace_config::WRITE_FLUSH_MODE, 2_u32);
    let mut all = setting(&large);
    all.world.files_are_stuck = true;
    let mut written = 0;
    for _ in 0..400 {
        all.writer.packet().bytes(900, &[1; 220_000]);
        all.writer.flush();
        all.program.speak(&mut all.world);
        written += 1;
        if written % 20 == 0 {
            all.world.pass(100);
        }
    }
    let waiting = all.world.unwritten();
    assert!((64 << 20..66 << 20).contains(&waiting), "{waiting}");
    all.world.unstick_files();
    all.consumer.simple(&mut all.world, "DisableTracing");
    let long = packets(&all.world.files[&all.file]).iter().filter(|packet| packet.len() > 200_000).count();
    assert_eq!(long, written, "nothing is lost");
}

#[test]
fn a_file_that_takes_nothing_keeps_neither_the_name_nor_the_places_of_sessions_that_are_gone() {
    let named = config(1000).bytes(trace_config::UNIQUE_SESSION_NAME, b"one");
    let mut all = setting(&named);
    all.world.files_are_stuck = true;
    all.write(&[1]);
    all.world.hang_up(all.consumer.connection);
    for uid in 0..4 {
        for _ in 0..4 {
            let mut consumer = Consumer::of(&mut all.world, uid);
            let file = all.world.file();
            let enabled = consumer.enable_with(&mut all.world, &named, Some(file));
            assert_eq!(consumer.ended(&all.world, enabled), None);
            all.world.hang_up(consumer.connection);
        }
    }
    // A user's own are those that it has left, too.
    let mut consumer = Consumer::of(&mut all.world, 0);
    let enabled = consumer.enable(&mut all.world, &config_of(&[64], &[]));
    assert!(consumer.ended(&all.world, enabled).is_some_and(|error| error.contains("(5) for uid 0")));
    all.world.unstick_files();
    assert!(all.is_complete());
    assert_eq!(all.times(), [1]);
}

#[test]
fn writes_come_after_a_flush_if_the_session_says_so_whether_it_is_answered_or_not() {
    let config = config_of(&[64], &[("events", 0)])
        .number(trace_config::WRITE_INTO_FILE, true)
        .number(trace_config::FILE_WRITE_PERIOD_MS, 10_000_u32)
        .number(trace_config::FFLUSH_POST_WRITE, 2_u32);
    let mut all = setting(&config);
    all.program.commands(&all.world);
    all.write(&[1]);
    all.world.pass(10_000);
    let [flush] = all.program.flushes(&all.world)[..] else { panic!("it is asked") };
    assert_eq!(all.times(), []);
    all.program.answer(&mut all.world, flush);
    assert_eq!((all.times(), all.world.files[&all.file].syncs), (vec![1], 1));
    all.write(&[2]);
    all.world.pass(10_000);
    all.write(&[3]);
    all.world.pass(5_000);
    assert_eq!(all.times(), [1, 2, 3]);
}

#[test]
fn a_trace_goes_into_a_descriptor_or_a_path_and_each_is_refused_without_the_other() {
    let mut world = World::default();
    let by_path = |path: &str| config(1000).bytes(trace_config::OUTPUT_PATH, path.as_bytes());
    let refused = |world: &mut World, uid, config: &ProtoBuilder, has_file: bool| {
        let mut consumer = Consumer::of(world, uid);
        let file = has_file.then(|| world.file());
        let enabled = consumer.enable_with(world, config, file);
        let error = consumer.ended(world, enabled);
        assert!(file.is_none_or(|file| world.discarded.contains(&file)), "it is closed");
        error.expect("it is refused")
    };
    assert!(refused(&mut world, 0, &config(1000), false).contains("write_into_file"));
    assert!(refused(&mut world, 0, &by_path("/a"), true).contains("write_into_file"));
    assert!(refused(&mut world, 5, &by_path("/a"), false).contains("not allowed"));
    let mut consumer = Consumer::of(&mut world, 0);
    consumer.enable(&mut world, &by_path("/a"));
    consumer.simple(&mut world, "DisableTracing");
    assert!(world.created("/a").is_some_and(|file| file.is_complete && !file.bytes.is_empty()));
    assert!(refused(&mut world, 0, &by_path("/a"), false).contains("exists"));
}
