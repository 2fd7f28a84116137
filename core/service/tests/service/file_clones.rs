//! Clones of sessions that write files: what is in the file, and what is not yet.

use tracebuf::producer::TraceWriter;
use tracebuf::proto::TracePackets;
use tracebuf::proto::fields::config::trace_config;
use tracebuf::proto::fields::consumer::{
    clone_session_request as asked, clone_session_response as answer, detach_request, trace_uuid,
};
use tracebuf::proto::fields::trace_packet;
use tracebuf::proto::reader::{message, number};
use tracebuf_service::wire::ProtoBuilder;
use tracebuf_service::{Event, FileToken};

use crate::clients::{Consumer, HAS_PROGRAM, Program, config_of, data, replies, source_with, times};
use crate::known::left;
use crate::world::World;

const USER: u32 = 700;

fn config() -> ProtoBuilder {
    writing(config_of(&[256], &[("events", 0)]))
}

fn writing(config: ProtoBuilder) -> ProtoBuilder {
    config
        .number(trace_config::WRITE_INTO_FILE, true)
        .number(trace_config::FILE_WRITE_PERIOD_MS, 1000_u32)
        .number(trace_config::WRITE_FLUSH_MODE, 2_u32)
}

struct Setting {
    world: World,
    program: Program,
    consumer: Consumer,
    writers: [TraceWriter<'static>; 2],
    file: FileToken,
}

fn setting(config: &ProtoBuilder) -> Setting {
    let mut world = World::default();
    let mut program = Program::offering(&mut world, 1000, &[("events", HAS_PROGRAM)]);
    let mut consumer = Consumer::of(&mut world, USER);
    let file = world.file();
    consumer.enable_with(&mut world, config, Some(file));
    let [(_, buffer)] = program.starts(&world)[..] else { panic!("one: {:?}", world.log) };
    let writers = [(); 2].map(|()| program.writer(&world, buffer));
    Setting { world, program, consumer, writers, file }
}

impl Setting {
    fn write(&mut self, writer: usize, times: &[u64]) {
        self.program.write(&mut self.world, &mut self.writers[writer], times);
    }

    /// Asks for a clone into a file.
    fn ask(&mut self) -> (Consumer, u64, FileToken) {
        let (mut cloner, file) = (Consumer::of(&mut self.world, USER), self.world.file());
        let by_id = ProtoBuilder::new().number(asked::SESSION_ID, 1_u32);
        let request = cloner.call_with(&mut self.world, "CloneSession", &by_id, Some(file));
        (cloner, request, file)
    }

    fn flush(&mut self) {
        let flushes = self.program.flushes(&self.world);
        self.program.answer(&mut self.world, *flushes.last().expect("it is asked"));
    }

    fn packets(&self, file: FileToken) -> Vec<Vec<u8>> {
        let bytes = self.world.files.get(&file.0).map_or(&[][..], |file| &file.bytes);
        TracePackets::new(bytes).map(|packet| packet.expect("whole packets").to_vec()).collect()
    }
}

/// Whether a clone was made, with its number if it is in a file; `None` while there is no answer.
fn answered(world: &World, cloner: &Consumer, request: u64) -> Option<Result<[u64; 2], String>> {
    let [(true, false, said)] = &replies(world, cloner.connection, request)[..] else { return None };
    let of = |field| number(said, field).unwrap_or(0);
    if of(answer::SUCCESS) == 0 {
        return Some(Err(String::from_utf8_lossy(message(said, answer::ERROR).expect("a text")).into()));
    }
    assert_eq!(of(answer::WAS_WRITE_INTO_FILE), 1);
    Some(Ok([of(answer::UUID_MSB), of(answer::UUID_LSB)]))
}

fn all_of(packets: &[Vec<u8>], field: u32) -> Vec<&[u8]> {
    let all = packets.iter().map(|packet| message(packet, field).expect("well-formed"));
    all.filter(|of| !of.is_empty()).collect()
}

#[test]
fn a_clone_has_the_file_and_what_is_not_in_it_yet_without_a_gap_whatever_is_written_meanwhile() {
    let mut all = setting(&config());
    all.write(0, &[1, 2]);
    all.world.pass(1000);
    assert_eq!(times(&all.packets(all.file)), [1, 2]);
    all.write(0, &[3]);
    let (cloner, request, file) = all.ask();
    // Before the flush for it has ended, what was in the buffer is written into the session's file.
    all.world.pass(1000);
    assert_eq!(times(&all.packets(all.file)), [1, 2, 3]);
    assert!(all.packets(file).is_empty() && answered(&all.world, &cloner, request).is_none());
    all.write(1, &[4]);
    all.flush();
    let uuid = answered(&all.world, &cloner, request).expect("now").expect("it is cloned");
    assert!(all.world.files[&file.0].is_complete, "before it is said");
    let packets = all.packets(file);
    // The second writer's packets have the number that they have in the session's file, too.
    assert_eq!(data(&packets), [(1, 2, 0), (2, 2, 0), (3, 2, 0), (4, 3, 0)]);
    all.consumer.simple(&mut all.world, "DisableTracing");
    assert_eq!(data(&all.packets(all.file)), data(&packets), "the session goes on");
    assert_eq!(all_of(&packets, trace_packet::TRACE_CONFIG).len(), 1);
    assert_eq!(all_of(&packets, trace_packet::SYSTEM_INFO).len(), 1);
    assert!(!all_of(&packets, trace_packet::TRACE_STATS).is_empty());
    // It has a number of its own.
    let last = *all_of(&packets, trace_packet::TRACE_UUID).last().expect("its number");
    assert_eq!([trace_uuid::MSB, trace_uuid::LSB].map(|field| number(last, field).unwrap_or(0)), uuid);
    assert!(all.world.discarded.is_empty());
}

#[test]
fn what_is_on_its_way_into_a_slow_file_is_in_the_clone_which_waits_for_its_own_file_alone() {
    let mut all = setting(&config());
    all.write(0, &[1]);
    all.world.files_are_stuck = true;
    all.world.pass(1000);
    let (cloner, request, file) = all.ask();
    all.write(0, &[2]);
    all.flush();
    assert_eq!(answered(&all.world, &cloner, request), None, "its file is not complete");
    all.world.unstick_files();
    assert!(answered(&all.world, &cloner, request).expect("now").is_ok());
    assert_eq!(times(&all.packets(file)), [1, 2]);
}

#[test]
fn a_clone_before_anything_was_written_has_its_beginning_and_one_has_no_limit_of_the_sessions() {
    let mut all = setting(&config().number(trace_config::MAX_FILE_SIZE_BYTES, 6000_u32));
    all.write(0, &[1]);
    let (cloner, request, file) = all.ask();
    all.flush();
    assert!(answered(&all.world, &cloner, request).expect("now").is_ok());
    let packets = all.packets(file);
    assert_eq!(times(&packets), [1]);
    for field in [trace_packet::TRACE_CONFIG, trace_packet::TRACE_UUID, trace_packet::SYSTEM_INFO] {
        assert_eq!(all_of(&packets, field).len(), 1, "{field}");
    }
    let many: Vec<u64> = (2..300).collect();
    many.chunks(20).for_each(|some| all.write(0, some));
    let (cloner, request, file) = all.ask();
    all.flush();
    assert!(answered(&all.world, &cloner, request).expect("now").is_ok());
    let packets = all.packets(file);
    assert_eq!(times(&packets), (1..300).collect::<Vec<_>>());
}

#[test]
fn a_clone_that_cannot_be_written_or_whose_session_ends_fails_and_takes_no_place() {
    let mut all = setting(&config());
    all.write(0, &[1]);
    all.world.pass(1000);
    all.world.copies_fail = true;
    for _ in 0..10 {
        let (cloner, request, file) = all.ask();
        all.flush();
        let error = answered(&all.world, &cloner, request).expect("now").expect_err("it failed");
        assert!(error.contains("no copy") && all.packets(file).is_empty(), "{error}");
        assert!(all.world.files[&file.0].is_complete, "it is closed");
    }
    all.world.copies_fail = false;
    // One whose consumer is gone is closed, before the flush has ended and while it is written.
    let (gone, _, file) = all.ask();
    all.world.hang_up(gone.connection);
    assert!(all.world.discarded.contains(&file));
    all.flush();
    let (gone, request, file) = all.ask();
    all.world.files_are_stuck = true;
    all.flush();
    assert_eq!(answered(&all.world, &gone, request), None);
    all.world.hang_up(gone.connection);
    all.world.unstick_files();
    assert!(all.world.files[&file.0].is_complete);
    // The session's end comes before the flush for a clone has.
    let (late, request, file) = all.ask();
    all.consumer.simple(&mut all.world, "DisableTracing");
    all.flush();
    let error = answered(&all.world, &late, request).expect("now").expect_err("it has ended");
    assert!(error.contains("complete") && all.world.discarded.contains(&file), "{error}");
    // What is complete is cloned without its file, as it has none.
    let (mut last, request, file) = all.ask();
    let [(true, false, said)] = &replies(&all.world, last.connection, request)[..] else { panic!("at once") };
    assert_eq!(
        [answer::SUCCESS, answer::WAS_WRITE_INTO_FILE].map(|field| number(said, field)),
        [Some(1), Some(0)]
    );
    assert!(all.world.discarded.contains(&file) && times(&last.read(&mut all.world)).is_empty());
}

#[test]
fn a_file_that_fails_later_fails_its_clone_and_a_service_that_ends_completes_both() {
    let mut all = setting(&config());
    all.write(0, &[1]);
    all.world.pass(1000);
    all.world.files_are_stuck = true;
    let (cloner, request, file) = all.ask();
    all.flush();
    all.world.handle(Event::Failed { file, error: "no space".into() });
    all.world.unstick_files();
    let error = answered(&all.world, &cloner, request).expect("now").expect_err("it failed");
    assert!(error.contains("no space"), "{error}");
    all.world.files_are_stuck = true;
    let (cloner, request, file) = all.ask();
    all.flush();
    // Asked for another answer while it is written, it reads nothing of what goes into its file.
    let (mut reads, _) = (cloner, ());
    assert!(reads.read(&mut all.world).is_empty());
    all.world.handle(Event::End);
    all.flush();
    assert!(!all.world.service.has_ended());
    all.world.unstick_files();
    assert!(all.world.service.has_ended() && answered(&all.world, &reads, request).expect("now").is_ok());
    assert_eq!(times(&all.packets(file)), [1]);
}

#[test]
fn a_clone_that_was_freed_before_its_file_was_complete_does_not_take_the_next_one_along() {
    let mut all = setting(&config());
    all.world.files_are_stuck = true;
    let (mut cloner, request, _file) = all.ask();
    all.flush();
    // Nor is it left to nobody while its consumer waits for it.
    let key = ProtoBuilder::new().bytes(detach_request::KEY, b"key");
    let detached = cloner.call(&mut all.world, "Detach", &key);
    assert!(matches!(replies(&all.world, cloner.connection, detached)[..], [(false, false, _)]));
    assert!(cloner.simple(&mut all.world, "FreeBuffers") && answered(&all.world, &cloner, request).is_none());
    // Another one, which the same consumer has when the first one's file is complete.
    let (by_id, file) = (ProtoBuilder::new().number(asked::SESSION_ID, 1_u32), all.world.file());
    let next = cloner.call_with(&mut all.world, "CloneSession", &by_id, Some(file));
    all.flush();
    all.world.unstick_files();
    let made = answered(&all.world, &cloner, next).expect("an answer");
    assert!(made.is_ok() && answered(&all.world, &cloner, request).is_some());
    cloner.call(&mut all.world, "GetTraceStats", &ProtoBuilder::new());
    let answers = replies(&all.world, cloner.connection, next + 1);
    assert!(matches!(answers[..], [(true, false, _)]), "it has it still");
    all.world.hang_up(cloner.connection);
    all.world.hang_up(all.consumer.connection);
    all.world.pass(10_000);
    assert_eq!(left(&mut all.world).0, 0);
}

#[test]
fn a_program_whose_state_is_in_the_file_is_not_told_of_again_in_what_the_clone_adds() {
    let source = source_with("events", 0, Some(64));
    let config = config_of(&[256], &[]).message(trace_config::DATA_SOURCES, &source);
    let mut all = setting(&writing(config));
    all.write(0, &[1, 2]);
    all.world.pass(1000);
    let told = |all: &Setting, file| all_of(&all.packets(file), trace_packet::PROTOVMS).len();
    assert_eq!(told(&all, all.file), 1);
    all.write(0, &[3]);
    let (cloner, request, file) = all.ask();
    all.flush();
    assert!(answered(&all.world, &cloner, request).is_some_and(|made| made.is_ok()));
    assert_eq!((times(&all.packets(file)), told(&all, file)), (vec![1, 2, 3], 1));
    all.write(0, &[4]);
    all.world.pass(1000);
    assert_eq!(told(&all, all.file), 1);
}
