//! Clones of sessions.

use tracebuf::producer::TraceWriter;
use tracebuf::proto::fields::config::{buffer_config, trace_config};
use tracebuf::proto::fields::consumer::{
    clone_session_request as asked, clone_session_response as answer, received_trigger, trace_uuid,
    tracing_service_event as moment,
};
use tracebuf::proto::fields::trace_packet;
use tracebuf::proto::reader::{message, number};
use tracebuf_service::wire::ProtoBuilder;

use crate::clients::{Consumer, Program, config_of, replies, source, times};
use crate::world::{MS, World};

pub const USER: u32 = 700;

pub fn by_id(id: u64) -> ProtoBuilder {
    ProtoBuilder::new().number(asked::SESSION_ID, id)
}

pub fn by_name(name: &str) -> ProtoBuilder {
    ProtoBuilder::new().bytes(asked::UNIQUE_SESSION_NAME, name.as_bytes())
}

/// What was said to a consumer that has asked: its UUID, or why not. `None` while it waits.
pub fn answered(world: &World, consumer: &Consumer, request: u64) -> Option<Result<[u64; 2], String>> {
    let answers = replies(world, consumer.connection, request);
    let [(true, false, said)] = &answers[..] else {
        assert!(answers.is_empty(), "{answers:?}");
        return None;
    };
    let of = |field| number(said, field).expect("well-formed");
    Some(match of(answer::SUCCESS) {
        1 => Ok([of(answer::UUID_MSB), of(answer::UUID_LSB)]),
        _ => Err(String::from_utf8_lossy(message(said, answer::ERROR).expect("a text")).into_owned()),
    })
}

/// Why a clone is refused at once.
pub fn refused(world: &mut World, uid: u32, arguments: &ProtoBuilder) -> String {
    let mut consumer = Consumer::of(world, uid);
    let request = consumer.call(world, "CloneSession", arguments);
    answered(world, &consumer, request).expect("at once").expect_err("it is refused")
}

pub struct Setting {
    pub world: World,
    program: Program,
    consumer: Consumer,
    writers: Vec<TraceWriter<'static>>,
}

/// A session with these buffers, each with a data source.
pub fn setting(buffers: &[ProtoBuilder], rest: &ProtoBuilder) -> Setting {
    let mut world = World::default();
    let names = ["first", "second"].get(..buffers.len()).expect("at most two");
    let mut program = Program::offering(&mut world, 1000, &[]);
    names.iter().for_each(|name| program.offer(&mut world, name, 0));
    let mut consumer = Consumer::of(&mut world, USER);
    let mut config = ProtoBuilder::new();
    for (buffer, (name, place)) in buffers.iter().zip(names.iter().zip(0..)) {
        config = config.message(trace_config::BUFFERS, buffer);
        config = config.message(trace_config::DATA_SOURCES, &source(name, place));
    }
    consumer.enable(&mut world, &config.fields(rest.as_bytes()));
    let writers = program.starts(&world).into_iter().map(|(_, buffer)| program.writer(&world, buffer));
    let writers: Vec<_> = writers.collect();
    assert_eq!(writers.len(), buffers.len(), "{:?}", world.log);
    Setting { world, program, consumer, writers }
}

pub fn buffer() -> ProtoBuilder {
    ProtoBuilder::new().number(buffer_config::SIZE_KB, 64_u32)
}

impl Setting {
    fn write(&mut self, buffer: usize, all: &[u64]) {
        self.program.write(&mut self.world, &mut self.writers[buffer], all);
    }

    /// Begins to clone, and answers the flush when `meanwhile` was done.
    fn clone(
        &mut self,
        arguments: &ProtoBuilder,
        meanwhile: impl FnOnce(&mut Self),
    ) -> (Consumer, Result<[u64; 2], String>) {
        self.program.commands(&self.world);
        let mut cloner = Consumer::of(&mut self.world, USER);
        let request = cloner.call(&mut self.world, "CloneSession", arguments);
        assert_eq!(answered(&self.world, &cloner, request), None, "it waits for the program");
        let flush = *self.program.flushes(&self.world).last().expect("it is asked");
        meanwhile(self);
        self.program.answer(&mut self.world, flush);
        let made = answered(&self.world, &cloner, request).expect("an answer");
        (cloner, made)
    }
}

#[test]
fn a_clone_has_what_was_flushed_for_it_and_the_session_goes_on_with_everything() {
    let mut all =
        setting(&[buffer()], &ProtoBuilder::new().bytes(trace_config::UNIQUE_SESSION_NAME, b"mine"));
    all.write(0, &[1, 2]);
    let (mut cloner, made) = all.clone(&by_name("mine"), |all| all.write(0, &[3]));
    let uuid = made.expect("it is cloned");
    all.write(0, &[4]);
    let packets = cloner.read(&mut all.world);
    assert_eq!(times(&packets), [1, 2, 3]);
    let told =
        |field| packets.iter().filter_map(move |packet| message(packet, field).filter(|all| !all.is_empty()));
    let uuids: Vec<_> = told(trace_packet::TRACE_UUID)
        .map(|of| [trace_uuid::MSB, trace_uuid::LSB].map(|field| number(of, field).unwrap_or(0)))
        .collect();
    assert_eq!(uuids, [uuid]);
    let kinds = |kind: u32| {
        told(trace_packet::SERVICE_EVENT)
            .filter(|of| number(of, kind).is_some_and(|_| of[0] >> 3 == kind as u8))
            .count()
    };
    assert_eq!(
        [moment::TRACING_STARTED, moment::CLONE_STARTED, moment::BUFFER_CLONED, moment::TRACING_DISABLED]
            .map(kinds),
        [1; 4]
    );
    assert_eq!((told(trace_packet::TRACE_CONFIG).count(), told(trace_packet::TRACE_STATS).count()), (1, 1));
    assert!(times(&cloner.read(&mut all.world)).is_empty(), "all was read");
    // The session has everything still, and its consumer reads it.
    assert_eq!(times(&all.consumer.read(&mut all.world)), [1, 2, 3, 4]);
    // What was read is in no clone; a clone of that name can be had again, but for by a consumer that has one.
    let request = cloner.call(&mut all.world, "CloneSession", &by_name("mine"));
    assert!(
        answered(&all.world, &cloner, request)
            .expect("at once")
            .is_err_and(|error| error.contains("only one"))
    );
    let (mut second, made) = all.clone(&by_id(1), |all| all.write(0, &[5]));
    assert!(made.is_ok_and(|[_, lsb]| lsb == uuid[1]));
    assert_eq!(times(&second.read(&mut all.world)), [5]);
}

#[test]
fn a_clone_outlives_its_session_and_ends_with_its_consumer_whatever_that_calls() {
    let mut all = setting(&[buffer()], &ProtoBuilder::new());
    all.write(0, &[1]);
    let (mut cloner, made) = all.clone(&by_id(1), |_| ());
    made.expect("it is cloned");
    assert!(all.consumer.simple(&mut all.world, "FreeBuffers"));
    for call in ["DisableTracing", "StartTracing"] {
        assert!(cloner.simple(&mut all.world, call));
    }
    let request = cloner.call(&mut all.world, "Flush", &ProtoBuilder::new());
    assert!(!replies(&all.world, cloner.connection, request)[0].0, "there is nobody to flush");
    all.world.hang_up(all.program.connection);
    assert_eq!(times(&cloner.read(&mut all.world)), [1]);
    all.world.hang_up(cloner.connection);
    assert!(refused(&mut all.world, USER, &by_id(2)).contains("no such session"));
}

#[test]
fn a_clone_is_cloned_by_its_number_alone_and_has_what_nobody_has_read_of_it() {
    let buffers = [
        buffer().number(buffer_config::TRANSFER_ON_CLONE, true),
        buffer().number(buffer_config::CLEAR_BEFORE_CLONE, true),
    ];
    let name = ProtoBuilder::new().bytes(trace_config::UNIQUE_SESSION_NAME, b"mine");
    let mut all = setting(&buffers, &name);
    let (mut cloner, made) = all.clone(&by_id(1), |all| {
        all.write(0, &[1]);
        all.write(1, &[2]);
    });
    made.expect("it is cloned");
    let mut again = |arguments: &ProtoBuilder| {
        let mut consumer = Consumer::of(&mut all.world, USER);
        let request = consumer.call(&mut all.world, "CloneSession", arguments);
        all.world.pass(5000);
        answered(&all.world, &consumer, request).expect("now").expect("it is cloned");
        let read = times(&consumer.read(&mut all.world));
        all.world.hang_up(consumer.connection);
        read
    };
    assert_eq!([again(&by_id(2)), again(&by_id(2))], [[1, 2]; 2]);
    assert!(again(&by_name("mine")).is_empty(), "the session's own buffers");
    assert_eq!(times(&cloner.read(&mut all.world)), [1, 2]);
}

#[test]
fn a_transferred_buffer_is_the_clones_and_a_cleared_one_has_what_is_flushed_for_it() {
    let buffers = [
        buffer().number(buffer_config::TRANSFER_ON_CLONE, true),
        buffer().number(buffer_config::CLEAR_BEFORE_CLONE, true),
    ];
    let mut all = setting(&buffers, &ProtoBuilder::new());
    all.write(0, &[1]);
    all.write(1, &[10]);
    let (mut cloner, made) = all.clone(&by_id(1), |all| {
        all.write(0, &[2]);
        all.write(1, &[20]);
    });
    made.expect("it is cloned");
    assert_eq!(times(&cloner.read(&mut all.world)), [1, 2, 20]);
    all.write(0, &[3]);
    all.write(1, &[30]);
    let (mut cloner, made) = all.clone(&by_id(1), |_| ());
    made.expect("it is cloned");
    assert_eq!(times(&cloner.read(&mut all.world)), [3], "the other one was emptied");
    assert_eq!(times(&all.consumer.read(&mut all.world)), []);
}

#[test]
fn buffers_that_are_given_to_a_clone_and_others_do_not_keep_each_other_waiting() {
    for slow_is_given in [true, false] {
        let mut world = World::default();
        let mut slow = Program::offering(&mut world, 1000, &[("first", 0)]);
        let mut quick = Program::offering(&mut world, 1000, &[("second", 0)]);
        let given = |is: bool| buffer().number(buffer_config::TRANSFER_ON_CLONE, is);
        let config = ProtoBuilder::new()
            .message(trace_config::BUFFERS, &given(slow_is_given))
            .message(trace_config::BUFFERS, &given(!slow_is_given))
            .message(trace_config::DATA_SOURCES, &source("first", 0))
            .message(trace_config::DATA_SOURCES, &source("second", 1))
            .number(trace_config::FLUSH_TIMEOUT_MS, 300_u32);
        let mut consumer = Consumer::of(&mut world, USER);
        consumer.enable(&mut world, &config);
        let [(_, first)] = slow.starts(&world)[..] else { panic!("one") };
        let [(_, second)] = quick.starts(&world)[..] else { panic!("one") };
        let (mut early, mut late) = (quick.writer(&world, second), slow.writer(&world, first));
        quick.write(&mut world, &mut early, &[10]);
        let mut cloner = Consumer::of(&mut world, USER);
        let request = cloner.call(&mut world, "CloneSession", &by_id(1));
        let [flush] = quick.flushes(&world)[..] else { panic!("it is asked for its own alone") };
        quick.answer(&mut world, flush);
        let copied = world.boot_time();
        quick.write(&mut world, &mut early, &[11]);
        slow.write(&mut world, &mut late, &[1]);
        world.pass(299);
        assert_eq!(answered(&world, &cloner, request), None);
        world.pass(1);
        assert!(answered(&world, &cloner, request).expect("now").is_ok());
        let packets = cloner.read(&mut world);
        assert_eq!(times(&packets), [1, 10], "as it was when it was flushed");
        let moments = packets.iter().filter_map(|packet| {
            let event = message(packet, trace_packet::SERVICE_EVENT).filter(|event| !event.is_empty())?;
            let place = number(event, moment::BUFFER_CLONED).filter(|_| event[0] >> 3 == 11)?;
            Some((place, number(packet, trace_packet::TIMESTAMP).expect("a time")))
        });
        assert_eq!(moments.collect::<Vec<_>>(), [(1, copied), (0, world.boot_time())]);
        let left = if slow_is_given { vec![10, 11] } else { vec![1, 11] };
        assert_eq!(times(&consumer.read(&mut world)), left, "what is given is the clone's alone");
    }
}

#[test]
fn a_user_has_as_many_clones_as_there_can_be_sessions_those_that_are_being_made_too() {
    let mut all = setting(&[buffer()], &ProtoBuilder::new());
    let mut ask = |uid: u32| {
        let mut cloner = Consumer::of(&mut all.world, uid);
        let request = cloner.call(&mut all.world, "CloneSession", &by_id(1));
        (answered(&all.world, &cloner, request), cloner, request)
    };
    let mut asked: Vec<_> = (0..16).map(|_| ask(USER)).collect();
    let (answer, ..) = asked.pop().expect("the sixteenth");
    assert!(answer.is_some_and(|made| made.is_err_and(|why| why.contains("(15) for uid"))));
    let (of_root, ..) = ask(0);
    assert!(of_root.is_none() && asked.iter().all(|(answer, ..)| answer.is_none()), "they wait");
    for flush in all.program.flushes(&all.world) {
        all.program.answer(&mut all.world, flush);
    }
    let is_made = |(_, cloner, request): &(_, Consumer, u64)| {
        answered(&all.world, cloner, *request).is_some_and(|made| made.is_ok())
    };
    assert!(asked.iter().all(is_made));
    // They keep no other user from recording.
    let mut other = Consumer::of(&mut all.world, USER + 1);
    let enabled = other.enable(&mut all.world, &config_of(&[64], &[]));
    assert_eq!(other.ended(&all.world, enabled), None);
    let error = refused(&mut all.world, USER, &by_id(1));
    assert!(error.contains("(15) for uid"), "{error}");
}

#[test]
fn what_is_over_is_read_writer_by_writer_and_what_goes_on_the_oldest_first() {
    let mut all = setting(&[buffer(), buffer()], &ProtoBuilder::new());
    let buffer = 1;
    let mut later = all.program.writer(&all.world, buffer);
    all.program.write(&mut all.world, &mut later, &[1]);
    all.write(0, &[2]);
    assert_eq!(times(&all.consumer.read(&mut all.world)), [1, 2]);
    all.program.write(&mut all.world, &mut later, &[3]);
    all.write(0, &[4]);
    all.program.write(&mut all.world, &mut later, &[5]);
    let (mut cloner, made) = all.clone(&by_id(1), |_| ());
    assert!(made.is_ok());
    assert_eq!(times(&cloner.read(&mut all.world)), [4, 3, 5]);
    all.consumer.simple(&mut all.world, "DisableTracing");
    assert_eq!(times(&all.consumer.read(&mut all.world)), [4, 3, 5]);
    assert_eq!(times(&all.consumer.read(&mut all.world)), [0; 0]);
}

#[test]
fn a_clone_comes_although_a_program_does_not_answer_and_fails_if_its_session_or_memory_goes() {
    let mut all = setting(&[buffer()], &ProtoBuilder::new().number(trace_config::FLUSH_TIMEOUT_MS, 300_u32));
    all.write(0, &[1]);
    let ask = |world: &mut World| {
        let mut cloner = Consumer::of(world, USER);
        let request = cloner.call(world, "CloneSession", &by_id(1));
        (cloner, request)
    };
    let (mut first, request) = ask(&mut all.world);
    let again = first.call(&mut all.world, "CloneSession", &by_id(1));
    assert!(answered(&all.world, &first, again).expect("at once").is_err(), "the first goes on");
    all.world.pass(299);
    assert_eq!(answered(&all.world, &first, request), None);
    all.world.pass(1);
    assert!(answered(&all.world, &first, request).expect("now").is_ok());
    assert_eq!(times(&first.read(&mut all.world)), [1]);
    // One hangs up meanwhile, one wants a session of its own as well, for one there is no memory.
    let (gone, _) = ask(&mut all.world);
    all.world.hang_up(gone.connection);
    let (mut busy, of_busy) = ask(&mut all.world);
    let enabled = busy.enable(&mut all.world, &config_of(&[], &[]));
    assert!(
        busy.ended(&all.world, enabled).is_some_and(|why| why.contains("only one")),
        "the clone comes first"
    );
    all.world.pass(150);
    let (poor, of_poor) = ask(&mut all.world);
    all.world.pass(150);
    assert!(answered(&all.world, &busy, of_busy).expect("now").is_ok());
    all.world.limit_memory(100);
    all.world.pass(150);
    let error = answered(&all.world, &poor, of_poor).expect("now").expect_err("there is none");
    assert!(error.contains("No memory"), "{error}");
    all.world.hang_up(busy.connection);
    let (late, of_late) = ask(&mut all.world);
    all.world.hang_up(all.consumer.connection);
    let error = answered(&all.world, &late, of_late).expect("at once").expect_err("it is gone");
    assert!(error.contains("ended"), "{error}");
}

#[test]
fn a_clone_for_a_trigger_says_so_and_takes_the_triggers_that_its_session_has_received() {
    use tracebuf::proto::fields::config::{trigger, trigger_config};
    use tracebuf::proto::fields::ipc::{activate_triggers_request, method};
    let triggers = ProtoBuilder::new()
        .number(trigger_config::TRIGGER_MODE, 4_u32)
        .number(trigger_config::TRIGGER_TIMEOUT_MS, 60_000_u32)
        .message(trigger_config::TRIGGERS, &ProtoBuilder::new().bytes(trigger::NAME, b"go"));
    let mut all = setting(&[buffer()], &ProtoBuilder::new().message(trace_config::TRIGGER_CONFIG, &triggers));
    all.write(0, &[1]);
    let names = ProtoBuilder::new().bytes(activate_triggers_request::TRIGGER_NAMES, b"go");
    assert!(all.program.call(&mut all.world, method::ACTIVATE_TRIGGERS, &names));
    let time = all.world.boot_time();
    all.world.pass(10);
    let arguments = by_id(1)
        .bytes(asked::CLONE_TRIGGER_NAME, b"go")
        .bytes(asked::CLONE_TRIGGER_PRODUCER_NAME, b"program")
        .number(asked::CLONE_TRIGGER_TRUSTED_PRODUCER_UID, 1000_u32)
        .number(asked::CLONE_TRIGGER_BOOT_TIME_NS, time)
        .number(asked::CLONE_TRIGGER_DELAY_MS, 9_u32);
    let told = |packets: &[Vec<u8>], field| {
        let all = packets.iter().filter_map(|packet| {
            let fired = message(packet, field).filter(|fired| !fired.is_empty())?;
            let name = message(fired, received_trigger::TRIGGER_NAME).expect("a name").to_vec();
            let said = |of: &[u8], field| number(of, field).unwrap_or(0);
            Some((name, said(packet, trace_packet::TIMESTAMP), said(fired, received_trigger::STOP_DELAY_MS)))
        });
        all.collect::<Vec<_>>()
    };
    for expected in [vec![(b"go".to_vec(), time, 0)], vec![]] {
        let (mut cloner, made) = all.clone(&arguments, |_| ());
        made.expect("it is cloned");
        let packets = cloner.read(&mut all.world);
        assert_eq!(times(&packets), [1]);
        assert_eq!(told(&packets, trace_packet::CLONE_SNAPSHOT_TRIGGER), [(b"go".to_vec(), time, 9)]);
        assert_eq!(told(&packets, trace_packet::TRIGGER), expected);
    }
    assert!(all.world.boot_time() >= time + 10 * MS);
}
