//! Programs of data sources, into whose states a ring folds what it overwrites, as traces have them for Perfetto.

use std::time::Duration;

use tracebuf::proto::Sink;
use tracebuf::proto::reader::{FieldValue, Fields, messages, number};
use tracebuf_session::{PacketWriter, RingProgram, Session, SessionError};
use tracebuf_testing::trace::scratch;

const RING: u64 = 64 << 10;
const OWN: u16 = Session::OWN_PRODUCER_ID;

fn field(of: u32, bytes: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    let Ok(()) = out.bytes(of, bytes);
    out
}

fn varint(of: u32, value: u64) -> Vec<u8> {
    let mut out = Vec::new();
    let Ok(()) = out.varint(of, value);
    out
}

/// `select` of one field, with an operation in it.
fn select(cursor: u64, path: u32, create: bool, nested: &[u8]) -> Vec<u8> {
    let select = [varint(1, cursor), field(2, &varint(1, path.into())), varint(3, create.into())].concat();
    [field(1, &select), field(7, nested)].concat()
}

/// Merges the track event into the state, and takes over the time.
fn merges_events() -> Vec<u8> {
    const MERGE: &[u8] = &[0x1A, 0];
    const SET: &[u8] = &[0x22, 0];
    let of = |path, operation| select(1, path, false, &select(2, path, true, operation));
    // What is not there is skipped, but for the event.
    let maybe = |path| [of(path, SET), varint(6, 1)].concat();
    [of(11, MERGE), maybe(8), maybe(58)].iter().flat_map(|instruction| field(2, instruction)).collect()
}

/// Takes nothing.
fn knows_nothing() -> Vec<u8> {
    field(2, &select(1, 9999, false, &[0x1A, 0]))
}

fn program(source: &'static str, program: &'static [u8]) -> RingProgram<'static> {
    RingProgram { source, program, memory_limit_kb: 64 }
}

/// The first packet has what a counter's event needs, and the others only what has changed.
fn write(writer: &mut PacketWriter, time: u64, value: u64) {
    writer.packet(|packet| {
        packet.varint(8, time);
        if value == 0 {
            packet.varint(58, 6);
        }
        let mut event = packet.message(11);
        if value == 0 {
            event.varint(9, 4);
            event.varint(11, 77);
        }
        event.varint(30, value);
    });
}

/// The message in a field of another, if it is there.
fn part(of: &[u8], number: u32) -> Option<&[u8]> {
    messages(of, number).next()
}

fn packets(trace: &[u8]) -> Vec<&[u8]> {
    tracebuf::proto::TracePackets::new(trace).map(|packet| packet.expect("a packet")).collect()
}

#[test]
fn what_a_ring_has_lost_is_in_the_state_with_which_readers_go_on() {
    let session = Session::builder().ring(RING).keep_descriptions(4096).start().expect("a session");
    let (events, nothing): (&[u8], &[u8]) = (merges_events().leak(), knows_nothing().leak());
    for one in [program("none", nothing), program("events", events), program("again", events)] {
        session.add_program(0, one, OWN).expect("a program");
    }
    // One that is there already has another producer from now on.
    session
        .add_program(0, RingProgram { memory_limit_kb: 1, ..program("events", events) }, 99)
        .expect("a program");
    let mut writer = session.recorder().packet_writer().expect("a writer");
    let start = session.now();
    writer.packet(|packet| {
        let mut described = packet.message(60);
        described.varint(1, 77);
        described.string(2, "folded");
        described.message(8);
    });
    const VALUES: u64 = 20_000;
    (0..VALUES).for_each(|value| {
        write(&mut writer, start + value, value);
        if value % 1000 == 0 {
            session.flush(Duration::from_secs(5)).expect("a flush");
        }
    });
    let snapshot = session.snapshot().expect("a snapshot");
    let all = session.summary().expect("a summary").vms.remove(0);
    let told: Vec<_> = all.iter().map(|vm| (vm.source.as_str(), vm.producers.as_slice())).collect();
    assert_eq!(told, [("none", &[OWN][..]), ("events", &[OWN, 99]), ("again", &[OWN])]);
    let [none, events_vm, again] = &all[..] else { panic!("{all:?}") };
    assert!(none.vm.errors == none.vm.patches && none.vm.errors > VALUES / 2, "{none:?}");
    // The descriptor is nobody's.
    assert!(events_vm.vm.errors == 1 && again.vm.patches == 1 && events_vm.vm.aborts == 0, "{all:?}");
    assert!(events_vm.vm.used > 0 && events_vm.vm.used <= events_vm.vm.high_water);
    // What comes later is not in the copy.
    (VALUES..2 * VALUES).for_each(|value| write(&mut writer, start + value, value));
    let path = scratch("programs.pftrace");
    snapshot.write_to(&path).expect("a file");
    let trace = std::fs::read(&path).expect("a file");
    let packets = packets(&trace);
    let of = |number: u32| {
        let mut all = packets.iter().enumerate().filter_map(|(at, packet)| Some((at, part(packet, number)?)));
        let first = all.next().expect("it is told");
        assert!(all.next().is_none());
        first
    };
    let ((provenance_at, provenance), (vms_at, vms)) = (of(124), of(125));
    let first_event = packets.iter().position(|packet| part(packet, 11).is_some()).expect("an event");
    assert!(provenance_at < vms_at && vms_at < first_event);
    // The writer's sequence is the producer's.
    let writer_of = |packet: &[u8]| number(packet, 10).expect("a sequence");
    let buffer = part(provenance, 2).expect("a buffer");
    let sequences: Vec<_> = messages(buffer, 1).map(|one| (number(one, 1), number(one, 2))).collect();
    assert!(sequences.contains(&(Some(writer_of(packets[first_event])), Some(OWN.into()))), "{sequences:?}");
    let instances: Vec<_> = messages(vms, 1).collect();
    assert_eq!(instances.len(), 3);
    let instance = instances[1];
    let producers = Fields::of(instance).filter_map(|field| match field.value {
        FieldValue::Number(producer) if field.number == 4 => Some(producer),
        _ => None,
    });
    let producers: Vec<_> = producers.collect();
    assert_eq!((part(instance, 1), number(instance, 3)), (Some(events), Some(64)));
    assert_eq!(producers, [u64::from(OWN)]);
    // The state goes up to the first event that the ring still has.
    let next = number(part(packets[first_event], 11).expect("an event"), 30).expect("a value");
    let expected = [
        varint(8, start + next - 1),
        field(11, &[varint(9, 4), varint(11, 77), varint(30, next - 1)].concat()),
        varint(58, 6),
    ];
    assert_eq!(part(instance, 2), Some(&expected.concat()[..]));
    assert_eq!(part(instances[0], 2), Some(&[][..]), "it is there though it is empty");
    // It says all the same that packets are gone.
    assert!(number(packets[first_event], 42).is_some());
}

#[test]
fn a_packet_over_many_chunks_is_one_patch_and_a_longer_one_is_counted() {
    let session = Session::builder().ring(RING).start().expect("a session");
    session.add_program(0, program("events", merges_events().leak()), OWN).expect("a program");
    let mut writer = session.recorder().packet_writer().expect("a writer");
    for (uuid, len) in [(1, 10_000), (2, 70_000)] {
        writer.packet(|packet| {
            let mut event = packet.message(11);
            event.varint(11, uuid);
            event.string(23, &"x".repeat(len));
        });
        session.flush(Duration::from_secs(5)).expect("a flush");
    }
    (0..1000).for_each(|_| writer.packet(|packet| packet.string(9999, &"y".repeat(200))));
    session.flush(Duration::from_secs(5)).expect("a flush");
    let summary = session.summary().expect("a summary");
    let [vm] = &summary.vms[0][..] else { panic!("one program") };
    assert!(vm.vm.patches > 500 && vm.vm.errors == vm.vm.patches - 1 && vm.too_long == 0, "{vm:?}");
    // A packet longer than the ring never was in it.
    assert!(summary.sequences.iter().any(|sequence| sequence.packets_broken > 0));
}

#[test]
fn programs_that_nobody_can_have_are_refused_and_fields_that_only_the_service_says_are_left_out() {
    let session = Session::builder().ring(RING).start().expect("a session");
    let add = |buffer, program: RingProgram<'_>| session.add_program(buffer, program, OWN);
    let is_refused = |result| matches!(result, Err(SessionError::Program));
    let long = vec![0; (64 << 10) + 1];
    assert!(is_refused(add(1, program("events", &[]))));
    assert!(is_refused(add(0, RingProgram { source: "long", program: &long, memory_limit_kb: 64 })));
    assert!(is_refused(add(0, RingProgram { memory_limit_kb: 0, ..program("small", &[]) })));
    // The whole packet, whatever is in it: trusted fields, too.
    let merge = field(2, &[0x1A, 0]);
    for version in 0..64 {
        let bytes = [&merge[..], &varint(1, version)].concat();
        add(0, RingProgram { source: "versions", program: &bytes, memory_limit_kb: 4 }).expect("a program");
    }
    assert!(is_refused(add(0, program("one too many", &[]))));
    let mut writer = session.recorder().packet_writer().expect("a writer");
    for _ in 0..2000 {
        writer.packet(|packet| {
            packet.varint(10, 4711);
            packet.string(9999, &"y".repeat(100));
        });
    }
    let mut trace = Vec::new();
    session.snapshot().expect("a snapshot").write(&mut trace).expect("memory");
    let packets = packets(&trace);
    let vms = packets.iter().find_map(|packet| part(packet, 125)).expect("programs");
    let state = part(messages(vms, 1).next().expect("a program"), 2).expect("a state");
    let told = [varint(87, 1), field(9999, "y".repeat(100).as_bytes())];
    assert_eq!(state, told.concat());
    let summary = session.summary().expect("a summary");
    assert_eq!((summary.vms[0].len(), summary.vms_refused), (64, 3));
}

#[test]
fn a_window_leaves_out_no_patches_which_readers_need_to_go_on() {
    let session = Session::builder().ring(RING).keep_descriptions(4096).start().expect("a session");
    session.add_program(0, program("events", merges_events().leak()), OWN).expect("a program");
    let mut writer = session.recorder().packet_writer().expect("a writer");
    let start = session.now();
    // The first has what all need, and the window begins behind it.
    (0..100).for_each(|value| write(&mut writer, start + value, value));
    let mut trace = Vec::new();
    let snapshot = session.snapshot().expect("a snapshot").since(start + 50);
    snapshot.write(&mut trace).expect("memory");
    let packets = packets(&trace);
    assert!(packets.iter().any(|packet| part(packet, 125).is_some()));
    let values = packets.iter().filter_map(|packet| number(part(packet, 11)?, 30));
    assert!(values.eq(0..100));
}
