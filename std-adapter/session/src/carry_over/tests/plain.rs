//! Tests of the quick looks at what a ring overwrites: they see what the thorough ones see.

use tracebuf::buffer::{Chunk, ChunkHeader, Config, FillPolicy, TraceBuffer};
use tracebuf_testing::mix::mix;

use super::event::{Plain, quick};
use super::*;

/// Numbers below others, the same in each run.
fn random(mut seed: u64) -> impl FnMut(usize) -> usize {
    move |below| {
        seed = mix(seed);
        (seed % below as u64) as usize
    }
}

/// `68 02  5A len { 48 kind  50 name }  40 time`, or with its time before if it has an argument of so many bytes.
fn written(kind: u8, name: Option<u8>, argument: Option<u8>, time: u64) -> Vec<u8> {
    let mut event = vec![0x48, kind];
    event.extend(name.into_iter().flat_map(|name| [0x50, name]));
    event.extend(argument.into_iter().flat_map(|len| [&[0x22, len][..], &vec![0x08; len.into()]].concat()));
    let mut units = Vec::new();
    let Ok(()) = units.varint(8, time);
    let event = [&[0x68, 2, 0x5A, event.len() as u8], &event[..]].concat();
    if argument.is_some() { [units, event].concat() } else { [event, units].concat() }
}

#[test]
fn what_the_first_bytes_of_a_packet_tell_is_what_all_of_it_tells() {
    let mut random = random(11);
    let mut plain = [0; 3];
    for _ in 0..200_000 {
        let kind = 1 + random(3) as u8;
        let (name, argument) = match random(4) {
            0 => (None, None),
            1 => (Some(random(200) as u8), Some(random(100) as u8)),
            _ => (Some(random(128) as u8), None),
        };
        let mut packet = written(kind, name, argument, 1 << random(30));
        for _ in 0..random(3) {
            let at = random(packet.len());
            packet[at] = if random(2) == 0 { random(256) as u8 } else { packet[random(packet.len())] };
        }
        let bytes = [&[packet.len() as u8], &packet[..], &[random(256) as u8; 16]].concat();
        let Some(seen) = Plain::of(bytes.first_chunk().expect("16 bytes")) else { continue };
        let (units, event) = quick(&packet).expect("as it should be");
        assert_eq!((&bytes[seen.at.into()..][..seen.len.into()], seen.units), (event, units), "{packet:?}");
        let event = Event::of(event).expect("an event");
        assert_eq!((seen.kind, None), (event.kind, event.track), "{packet:?}");
        plain[[2, 4, usize::MAX].partition_point(|most| event.bytes.len() > *most)] += 1;
    }
    // Ends, others, and those with an argument.
    assert!(plain.iter().all(|count| *count > 1000), "{plain:?}");
}

/// Names and times of the slices that are open.
fn open(carried: &mut CarryOver) -> Vec<(String, u64)> {
    let mut out = framed(&[&[0x32, 7, 0x0A, 5, 0x08, 6, 0x10, 0xE8, 0x07, 0x50, 1]]);
    carried.begin_file(&mut out);
    let trace = Trace::of(&out).expect("a trace");
    trace.slices().map(|slice| (slice.name().to_owned(), slice.begin())).collect()
}

#[test]
fn a_ring_s_observer_ends_up_as_one_that_folds_the_same_packets() {
    let mut random = random(5);
    for round in 0..300 {
        let names = [1, 2, 3].map(|name| naming(5, 3, name, &format!("name {name}")));
        // Producers do not say which sequence it is.
        let own = |packet: &[u8]| {
            let at =
                packet.windows(4).position(|part| matches!(part, [0x68, _, 0x50, 2])).expect("flags") + 2;
            [&packet[..at], &packet[at + 2..]].concat()
        };
        let mut packets = vec![own(STATE)];
        packets.extend(names.iter().map(|packet| own(packet)));
        // Deeper than what is held aside, and back.
        let steps = [100, 200, 40][round % 3];
        for step in 0..steps {
            let down = random(steps) > step;
            let name = 1 + random(3) as u8;
            let time = [100, 1000, 100_000][random(3)];
            packets.push(match (down, random(4)) {
                (true, 0) => written(1, Some(name), Some(random(9) as u8), time),
                (true, _) => written(1, Some(name), None, time),
                (false, 0) => written(3, Some(name), None, time),
                // With its clock, as nobody writes it.
                (false, 1) => [written(2, None, None, time), vec![0xD0, 3, 64]].concat(),
                (false, _) => written(2, None, None, time),
            });
        }
        let mut folded = CarryOver::default();
        for packet in &packets {
            folded.fold(&framed(&[&[&packet[..], &[0x50, 2]].concat()]));
        }
        let mut payload = Vec::new();
        for packet in &packets {
            payload.push(packet.len() as u8);
            payload.extend_from_slice(packet);
        }
        let config = Config::new(FillPolicy::RingBuffer).sequences(4);
        let memory = vec![0; config.region_size(8 << 10) as usize + 8];
        let ring = TraceBuffer::new(memory, config).expect("room");
        let mut ring = ring.observed_by(CarryOver::of_ring());
        let mut commit = |writer_id, chunk_id, payload: &[u8], fragments| {
            let header = ChunkHeader {
                producer_id: 1,
                writer_id,
                chunk_id,
                fragments,
                complete: true,
                ..ChunkHeader::default()
            };
            ring.copy_chunk_untrusted(&Chunk { header, payload });
        };
        commit(1, 0, &payload, packets.len() as u16);
        commit(2, 0, &[0; 7 << 10], 7 << 10);
        commit(2, 1, &[0; 7 << 10], 7 << 10);
        let expected = open(&mut folded);
        assert_eq!(open(&mut ring.observer().clone()), expected, "{round}");
    }
}
