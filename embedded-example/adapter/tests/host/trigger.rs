//! The trigger, with a pin whose every look is foreseen.

use embedded_hal_mock::eh1::MockError;
use embedded_hal_mock::eh1::digital::{Mock, State, Transaction};
use tracebuf::buffer::{Chunk, ChunkHeader, Config, FillPolicy, TraceBuffer};
use tracebuf::proto::TracePackets;
use tracebuf_analysis::trace_stats::TraceReport;
use tracebuf_embedded::export::Blocking;
use tracebuf_embedded::send::Sender;
use tracebuf_embedded::trigger::{High, Low, Trigger, TriggerError};

type Ring = TraceBuffer<Vec<u8>>;

fn ring() -> Ring {
    let config = Config::new(FillPolicy::RingBuffer).sequences(4);
    TraceBuffer::new(vec![0; config.region_size(1024) as usize], config).unwrap()
}

/// A chunk of 32 bytes of payload, 56 in all: a packet, whose timestamp is its number, and its string.
fn commit(ring: &mut Ring, number: u8) {
    let header = ChunkHeader {
        producer_id: 1,
        writer_id: 1,
        chunk_id: number.into(),
        fragments: 1,
        ..Default::default()
    };
    let payload = [&[31, 0x40, number, 0x0A, 27][..], &[b'x'; 27]].concat();
    ring.copy_chunk_untrusted(&Chunk { header, payload: &payload });
}

fn numbers(snapshot: &mut tracebuf::buffer::ReadOnlyTraceBuffer<Vec<u8>>) -> Vec<u8> {
    let (mut numbers, mut reader) = (Vec::new(), snapshot.read());
    while let Some(packet) = reader.next_packet() {
        numbers.push(packet.slices().flatten().copied().nth(1).unwrap());
    }
    numbers
}

fn looks(states: &[State]) -> Mock {
    Mock::new(&states.iter().map(|state| Transaction::get(*state)).collect::<Vec<_>>())
}

#[test]
fn a_snapshot_holds_so_much_after_the_event_and_before_it_what_the_ring_holds() {
    for after in [0u32, 1, 5, 10] {
        let mut ring = ring();
        // Low for 40 chunks, then high; nobody looks again.
        let mut pin = looks(&[[State::Low; 40].as_slice(), &[State::High]].concat());
        let mut trigger = Trigger::new(High(pin.clone()), after * 56);
        let mut memory = Some(vec![0; 2048]);
        let mut taken = None;
        for number in 0..100 {
            commit(&mut ring, number);
            if let Some(mut snapshot) = trigger.poll(&ring, &mut memory).unwrap() {
                taken = Some((number, numbers(&mut snapshot)));
            }
        }
        let (number, numbers) = taken.expect("a snapshot");
        // The event is seen after chunk 40.
        assert_eq!((number, numbers.last()), (40 + after as u8, Some(&number)));
        // Some 18 are in a ring of 1 KiB.
        let first = numbers[0];
        assert!(
            numbers.iter().copied().eq(first..=number) && (16..=18).contains(&numbers.len()),
            "{numbers:?}"
        );
        pin.done();
    }
}

#[test]
fn recording_goes_on_while_a_snapshot_is_looked_at_and_the_trigger_can_be_armed_again() {
    let mut ring = ring();
    let mut pin = looks(&[State::Low, State::High, State::Low]);
    let mut trigger = Trigger::new(Low(pin.clone()), 0);
    let mut memory = Some(vec![0; 2048]);
    commit(&mut ring, 0);
    let mut snapshot = trigger.poll(&ring, &mut memory).unwrap().expect("the pin is low");
    assert!(trigger.poll(&ring, &mut memory).unwrap().is_none(), "one is enough");
    for number in 1..200 {
        commit(&mut ring, number);
    }
    assert_eq!(numbers(&mut snapshot), [0]);
    assert!(ring.read().next_packet().is_some());

    memory = Some(snapshot.into_memory());
    trigger.arm();
    assert!(trigger.poll(&ring, &mut memory).unwrap().is_none(), "the pin is high");
    let mut second = trigger.poll(&ring, &mut memory).unwrap().expect("the pin is low again");
    assert_eq!(numbers(&mut second).last(), Some(&199));
    pin.done();
}

#[test]
fn a_trigger_without_memory_waits_and_one_with_too_little_says_so() {
    let mut ring = ring();
    commit(&mut ring, 0);
    let mut pin = looks(&[State::High]);
    let mut trigger = Trigger::new(High(pin.clone()), 0);
    let mut memory: Option<Vec<u8>> = None;
    assert!(trigger.poll(&ring, &mut memory).unwrap().is_none());
    assert!(trigger.has_fired());
    memory = Some(vec![0; 64]);
    assert!(matches!(trigger.poll(&ring, &mut memory), Err(TriggerError::Memory(_))));
    assert!(!trigger.has_fired());
    pin.done();
}

#[test]
fn a_pin_that_cannot_be_read_is_reported_and_looked_at_again() {
    let mut ring = ring();
    commit(&mut ring, 0);
    let broken = Transaction::get(State::High).with_error(MockError::Io(std::io::ErrorKind::Other));
    let mut pin = Mock::new(&[broken, Transaction::get(State::High)]);
    let mut trigger = Trigger::new(High(pin.clone()), 0);
    let mut memory = Some(vec![0; 2048]);
    assert!(matches!(trigger.poll(&ring, &mut memory), Err(TriggerError::Condition(_))));
    assert!(trigger.poll(&ring, &mut memory).unwrap().is_some());
    pin.done();
}

#[test]
fn a_snapshot_is_sent_as_a_trace_file() {
    let mut ring = ring();
    (0..3).for_each(|number| commit(&mut ring, number));
    let mut snapshot = ring.clone_read_only(vec![0; 2048]).unwrap();
    let mut file = [0; 512];
    let mut sender = Sender::raw(Blocking(&mut file[..]));
    sender.send_snapshot(&mut snapshot).unwrap();
    assert_eq!(sender.packets(), 3);
    let end = file.iter().rposition(|byte| *byte != 0).unwrap() + 1;
    // What the last one says nothing more of was not lost.
    let report = TraceReport::of(&file[..end]);
    assert!(!report.has_losses(), "{report}");
    let packets = TracePackets::new(&file[..end]).take(3);
    let timestamps: Vec<u8> = packets.map(|packet| packet.unwrap()[1]).collect();
    assert_eq!(timestamps, [0, 1, 2]);
}
