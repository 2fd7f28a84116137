//! Programs of data sources, into whose states the service folds what buffers overwrite.

use tracebuf::producer::TraceWriter;
use tracebuf::proto::Sink;
use tracebuf::proto::fields::config::{buffer_config, trace_config};
use tracebuf::proto::fields::consumer::clone_session_request;
use tracebuf::proto::fields::ipc::{data_source_descriptor, method, register_data_source_request};
use tracebuf::proto::fields::{protovms, protovms_instance, trace_packet};
use tracebuf::proto::reader::{FieldValue, Fields, message, messages, number};
use tracebuf::vm::{Keep, Program as VmProgram};
use tracebuf_service::wire::ProtoBuilder;

use crate::clients::{Consumer, MERGE, Program, data, replies, source_with, times};
use crate::world::World;

const USER: u32 = 700;
/// A field of a packet that readers do not know.
const TEXT: u32 = 9000;

fn keeps_tracks() -> Vec<u8> {
    let mut bytes = [0; 128];
    VmProgram::keep_last_by(&[Keep::TRACKS], &mut bytes).expect("room").to_vec()
}

/// Offers a data source with a program.
fn offer(world: &mut World, program: &mut Program, name: &str, bytes: &[u8]) {
    let told = ProtoBuilder::new()
        .bytes(data_source_descriptor::NAME, name.as_bytes())
        .bytes(data_source_descriptor::PROTOVM_PROGRAM, bytes);
    let told = ProtoBuilder::new().message(register_data_source_request::DATA_SOURCE_DESCRIPTOR, &told);
    assert!(program.call(world, method::REGISTER_DATA_SOURCE, &told));
}

fn config(buffer: &ProtoBuilder, sources: &[ProtoBuilder]) -> ProtoBuilder {
    let buffers = ProtoBuilder::new().message(trace_config::BUFFERS, buffer);
    sources.iter().fold(buffers, |config, source| config.message(trace_config::DATA_SOURCES, source))
}

fn ring_of(kb: u32) -> ProtoBuilder {
    ProtoBuilder::new().number(buffer_config::SIZE_KB, kb)
}

fn ring() -> ProtoBuilder {
    ring_of(8)
}

/// One program and its session, with a ring of 8 KiB.
struct Setting {
    world: World,
    program: Program,
    consumer: Consumer,
    writer: TraceWriter<'static>,
}

fn setting(buffer: &ProtoBuilder, program_bytes: &[u8], limit_kb: Option<u32>) -> Setting {
    let mut world = World::default();
    let mut program = Program::offering(&mut world, 1000, &[]);
    offer(&mut world, &mut program, "state", program_bytes);
    let mut consumer = Consumer::of(&mut world, USER);
    consumer.enable(&mut world, &config(buffer, &[source_with("state", 0, limit_kb)]));
    let [(_, number)] = program.starts(&world)[..] else { panic!("{:?}", world.log) };
    let writer = program.writer(&world, number);
    Setting { world, program, consumer, writer }
}

impl Setting {
    fn write(&mut self, times: impl Iterator<Item = u64>) {
        // One after the other: there is not shared memory for all.
        times.for_each(|time| self.program.write(&mut self.world, &mut self.writer, &[time]));
    }

    fn text(&mut self, text: &str) {
        self.writer.packet().string(TEXT, text);
        self.writer.flush();
        self.program.speak(&mut self.world);
    }
}

/// What a trace says of a program: the program, the state, the limit and the producers.
type Told = (Vec<u8>, Vec<u8>, u64, Vec<u64>);

fn told(packets: &[Vec<u8>]) -> Vec<Told> {
    let vms = packets.iter().flat_map(|packet| messages(packet, trace_packet::PROTOVMS));
    let part = |of, field| message(of, field).expect("well-formed").to_vec();
    let of_one = |one| {
        let producers = Fields::of(one).filter_map(|field| match field.value {
            FieldValue::Number(id) if field.number == protovms_instance::PRODUCER_ID => Some(id),
            _ => None,
        });
        let limit = number(one, protovms_instance::MEMORY_LIMIT_KB).expect("a limit");
        let (program, state) = (part(one, protovms_instance::PROGRAM), part(one, protovms_instance::STATE));
        (program, state, limit, producers.collect())
    };
    vms.flat_map(|vms| messages(vms, protovms::INSTANCE)).map(of_one).collect()
}

fn state_of(packets: &[Vec<u8>]) -> Vec<u8> {
    let [(_, state, ..)] = &told(packets)[..] else { panic!("one program") };
    state.clone()
}

fn fields(fields: &[(u32, u64)]) -> Vec<u8> {
    let mut out = Vec::new();
    fields.iter().for_each(|(field, value)| {
        let Ok(()) = out.varint(*field, *value);
    });
    out
}

fn has(packet: &[u8], field: u32) -> bool {
    Fields::of(packet).any(|known| known.number == field)
}

#[test]
fn what_a_ring_has_lost_is_in_the_state_before_all_that_it_still_has() {
    let mut all = setting(&ring(), MERGE, Some(64));
    all.text("the only one");
    all.write(1..=600);
    let packets = all.consumer.read(&mut all.world);
    let data_there = data(&packets);
    let (first, sequence, loss) = data_there[0];
    assert!(first > 50 && data_there.len() > 5, "{first}");
    assert!(loss != 0, "it says all the same that packets are gone");
    let mut expected = fields(&[(trace_packet::TIMESTAMP, first - 1)]);
    expected.extend(fields(&[(trace_packet::FIRST_PACKET_ON_SEQUENCE, 1)]));
    let Ok(()) = expected.string(TEXT, "the only one");
    assert_eq!(told(&packets), [(MERGE.to_vec(), expected, 64, vec![1])]);
    // Whose packets these are is said before, and both before any of them.
    let place = |field| packets.iter().position(|packet| has(packet, field)).expect("it is said");
    let (provenance, vms) = (place(trace_packet::TRACE_PROVENANCE), place(trace_packet::PROTOVMS));
    let is_data = |packet: &Vec<u8>| number(packet, trace_packet::TRUSTED_PACKET_SEQUENCE_ID) > Some(1);
    assert!(provenance < vms && packets.iter().position(is_data) > Some(vms));
    let buffers = message(&packets[provenance], trace_packet::TRACE_PROVENANCE).expect("well-formed");
    let sequences: Vec<_> = messages(message(buffers, 2).expect("a buffer"), 1).collect();
    assert_eq!(sequences, [fields(&[(1, sequence), (2, 1)])]);
    // It is said once.
    all.write(700..=800);
    let packets = all.consumer.read(&mut all.world);
    assert!(told(&packets).is_empty() && times(&packets).contains(&800));
    assert!(all.world.log.is_empty(), "{:?}", all.world.log);
}

#[test]
fn a_ready_made_program_keeps_every_track_and_a_packet_over_chunks_is_one_patch() {
    let mut all = setting(&ring_of(32), &keeps_tracks(), Some(64));
    let long = "x".repeat(5_000);
    for (uuid, name) in [(7, "first"), (8, &*long), (7, "renamed")] {
        let mut packet = all.writer.packet();
        let mut track = packet.message(trace_packet::TRACK_DESCRIPTOR);
        track.varint(1, uuid);
        track.string(2, name);
        drop(track);
        drop(packet);
        all.writer.flush();
        all.program.speak(&mut all.world);
    }
    all.write(1..=2000);
    let state = state_of(&all.consumer.read(&mut all.world));
    let tracks = messages(&state, Keep::TRACKS.list).map(|packet| {
        let track = message(packet, trace_packet::TRACK_DESCRIPTOR).expect("a track");
        (number(track, 1).expect("a number"), message(track, 2).expect("a name").to_vec())
    });
    let expected = [(7, b"renamed".to_vec()), (8, long.into_bytes())];
    assert!(tracks.eq(expected), "{} bytes", state.len());
}

#[test]
fn nothing_is_folded_without_a_program_without_memory_or_where_nothing_is_overwritten() {
    let discards = ring().number(buffer_config::FILL_POLICY, 2_u32);
    for (buffer, bytes, limit, is_told) in [
        (ring(), &[][..], Some(64), false),
        (ring(), MERGE, None, false),
        (ring(), MERGE, Some(0), false),
        (discards, MERGE, Some(64), true),
    ] {
        let mut all = setting(&buffer, bytes, limit);
        all.write(1..=600);
        let packets = all.consumer.read(&mut all.world);
        assert!(!times(&packets).is_empty());
        let states: Vec<_> = told(&packets).into_iter().map(|(_, state, ..)| state).collect();
        assert_eq!(states, if is_told { vec![Vec::<u8>::new()] } else { vec![] });
        assert_eq!(all.world.log.len(), usize::from(limit == Some(0)), "{:?}", all.world.log);
    }
}

#[test]
fn producers_with_the_same_program_share_a_state_and_a_version_of_it_has_its_own() {
    let mut world = World::default();
    let other_version = [MERGE, &[0x08, 1]].concat();
    let versions = [MERGE, MERGE, &other_version];
    let mut programs: Vec<_> = versions
        .iter()
        .map(|bytes| {
            let mut program = Program::offering(&mut world, 1000, &[]);
            offer(&mut world, &mut program, "state", bytes);
            program
        })
        .collect();
    let mut consumer = Consumer::of(&mut world, USER);
    consumer.enable(&mut world, &config(&ring(), &[source_with("state", 0, Some(16))]));
    for (at, program) in (1..).zip(&mut programs) {
        let [(_, number)] = program.starts(&world)[..] else { panic!("{:?}", world.log) };
        let mut writer = program.writer(&world, number);
        for value in 0..600 {
            writer.packet().varint(TEXT + at, value);
            writer.flush();
            program.speak(&mut world);
        }
    }
    let all = told(&consumer.read(&mut world));
    let [(program, state, 16, producers), (other, others, 16, third)] = &all[..] else { panic!("{all:?}") };
    assert_eq!((&program[..], &other[..]), (MERGE, &other_version[..]));
    // Of the first all has left the ring.
    assert_eq!((&third[..], number(state, TEXT + 1)), (&[3][..], Some(599)));
    assert!(number(others, TEXT + 3).is_some() && !has(others, TEXT + 1) && !has(state, TEXT + 3));
    // Readers take a producer that has no sequence any more for an error.
    assert!(producers.iter().all(|producer| [1, 2].contains(producer)) && producers.contains(&2));
}

#[test]
fn a_program_that_comes_after_the_first_read_is_told_of_before_its_data() {
    let mut all = setting(&ring_of(32), MERGE, Some(64));
    all.write(1..=10);
    assert_eq!(told(&all.consumer.read(&mut all.world)).len(), 1);
    let mut late = Program::offering(&mut all.world, 1000, &[]);
    let other = [MERGE, &[0x08, 2]].concat();
    offer(&mut all.world, &mut late, "state", &other);
    let [(_, number)] = late.starts(&all.world)[..] else { panic!("{:?}", all.world.log) };
    assert!(told(&all.consumer.read(&mut all.world)).is_empty(), "it has no packets yet");
    let mut writer = late.writer(&all.world, number);
    late.write(&mut all.world, &mut writer, &[20, 21]);
    let packets = all.consumer.read(&mut all.world);
    assert_eq!(told(&packets), [(other, vec![], 64, vec![2])]);
    let place = packets.iter().position(|packet| has(packet, trace_packet::PROTOVMS)).expect("it is told");
    let data_at = packets.iter().position(|packet| times(std::slice::from_ref(packet)) == [20]);
    assert!(data_at.is_some_and(|data_at| place < data_at));
}

#[test]
fn what_only_the_service_may_say_is_in_no_state() {
    let mut all = setting(&ring(), MERGE, Some(64));
    for _ in 0..600 {
        let mut packet = all.writer.packet();
        packet.varint(trace_packet::TRUSTED_PACKET_SEQUENCE_ID, 4711);
        packet.string(TEXT, "y");
        drop(packet);
        all.writer.flush();
        all.program.speak(&mut all.world);
    }
    let state = state_of(&all.consumer.read(&mut all.world));
    assert!(!has(&state, trace_packet::TRUSTED_PACKET_SEQUENCE_ID) && has(&state, TEXT));
}

/// A clone's trace, for which the program has flushed what it had.
fn cloned(all: &mut Setting) -> Vec<Vec<u8>> {
    let mut cloner = Consumer::of(&mut all.world, USER);
    let by_id = ProtoBuilder::new().number(clone_session_request::SESSION_ID, 1_u64);
    let request = cloner.call(&mut all.world, "CloneSession", &by_id);
    let [flush] = all.program.flushes(&all.world)[..] else { panic!("it is asked") };
    all.program.answer(&mut all.world, flush);
    assert_eq!(replies(&all.world, cloner.connection, request).len(), 1);
    cloner.read(&mut all.world)
}

#[test]
fn a_clone_has_the_state_as_of_then_and_the_session_s_goes_on() {
    let mut all = setting(&ring(), MERGE, Some(64));
    all.write(1..=600);
    let clone = cloned(&mut all);
    all.write(601..=1200);
    let time = |packets: &[Vec<u8>]| number(&state_of(packets), trace_packet::TIMESTAMP);
    assert_eq!(time(&clone), Some(times(&clone)[0] - 1));
    let rest = all.consumer.read(&mut all.world);
    assert!(time(&rest) == Some(times(&rest)[0] - 1) && time(&rest) > time(&clone));
}

#[test]
fn a_buffer_that_a_clone_takes_with_it_or_empties_leaves_the_program_with_an_empty_state() {
    for (field, has_state) in
        [(buffer_config::TRANSFER_ON_CLONE, true), (buffer_config::CLEAR_BEFORE_CLONE, false)]
    {
        let mut all = setting(&ring().number(field, true), MERGE, Some(64));
        all.text("early");
        all.write(1..=600);
        let clone = cloned(&mut all);
        let early: Vec<_> = told(&clone).iter().map(|(_, state, ..)| has(state, TEXT)).collect();
        assert_eq!(early, if has_state { vec![true] } else { vec![] }, "{field}");
        all.write(601..=1200);
        let rest = all.consumer.read(&mut all.world);
        let state = state_of(&rest);
        assert_eq!(number(&state, trace_packet::TIMESTAMP), Some(times(&rest)[0] - 1));
        assert!(!has(&state, TEXT), "{field}");
    }
}
