//! A list of patches that nobody empties meanwhile, because the sender is kept from doing so.
#![cfg(feature = "patches")]

use crate::model::*;
use std::sync::Mutex;
use tracebuf::producer::*;

/// While it carries out its first request, another writer writes; sending what that one has is left to the first, which
/// is here.
struct Busy {
    model: &'static Model,
    other: Mutex<Option<TraceWriter<'static>>>,
    back: Mutex<Option<TraceWriter<'static>>>,
    packets: usize,
    depth: usize,
}

impl CommitSink for Busy {
    fn commit(&self, request: &CommitRequest<'_>) {
        self.model.commit(request);
        let other = self.other.lock().unwrap().take();
        if let Some(mut writer) = other {
            for n in 0..self.packets {
                let mut packet = writer.packet();
                packet.varint(8, n as u64);
                // Each takes most of a chunk.
                nest(&mut packet, self.depth, 40, 40);
            }
            *self.back.lock().unwrap() = Some(writer);
        }
    }
}

/// Nested messages with `bytes` bytes each, and the innermost with `innermost`.
fn nest(message: &mut MessageHandle<'_, '_>, depth: usize, bytes: usize, innermost: usize) {
    if depth == 0 {
        message.bytes(1, &vec![7; innermost]);
        return;
    }
    if bytes > 0 {
        message.bytes(1, &vec![7; bytes]);
    }
    nest(&mut message.message(5), depth - 1, bytes, innermost);
}

/// How deeply messages are nested here; each has its bytes.
fn depth(message: &[(u32, Value)]) -> usize {
    assert_eq!(message[0], (1, Value::Bytes(vec![7; 40])));
    assert!(message.len() <= 2);
    message.get(1).map_or(0, |(field, inner)| {
        assert_eq!(*field, 5);
        1 + depth(&inner.inside())
    })
}

/// Packets of the writer that nobody sends for: the numbers of those that came out, and the writer's counts.
fn write_beside_a_request(packets: usize, levels: usize) -> (Vec<u64>, TraceWriterStats) {
    let memory = memory(if cfg!(miri) { 128 } else { 1024 } * 64, 64);
    let model = Model::new(memory, Pace::Prompt);
    let (other, back) = (Mutex::new(None), Mutex::new(None));
    let sink: &'static Busy = Box::leak(Box::new(Busy { model, other, back, packets, depth: levels }));
    let producer = producer(memory, Layout::One, sink);
    let mut first = producer.writer(40, Exhaustion::Drop).unwrap();
    *sink.other.lock().unwrap() = producer.writer(40, Exhaustion::Drop);
    first.packet().varint(8, 1);
    first.flush();
    let mut second = sink.back.lock().unwrap().take().unwrap();
    // Everything has been sent meanwhile, so there is room again; and this packet says that some are missing.
    let stats = second.stats();
    let mut packet = second.packet();
    packet.varint(8, packets as u64);
    nest(&mut packet, levels, 40, 40);
    drop(packet);
    second.flush();
    assert_eq!(
        second.stats(),
        TraceWriterStats { packets: stats.packets + 1, chunks: second.stats().chunks, ..stats }
    );
    let found = model.packets(second.id());
    assert_eq!(found.len() as u64, second.stats().packets);
    let mut numbers = Vec::new();
    for packet in found.iter().flatten() {
        let mut fields = fields(packet);
        let number = fields.iter().position(|(field, _)| *field == 8).unwrap();
        let said: Vec<_> = fields.drain(..=number).collect();
        let Value::Int(n) = said[number].1 else { panic!("a number: {said:?}") };
        // Only a packet that follows a loss reports it.
        let is_gap = numbers.last().map_or(0, |last| last + 1) != n;
        assert_eq!(said.contains(&(42, Value::Int(257))), is_gap, "packet {n}");
        assert_eq!(depth(&fields), levels);
        numbers.push(n);
    }
    (numbers, stats)
}

#[test]
fn a_packet_that_finds_no_room_in_the_list_is_given_up_counted_and_told_by_the_next() {
    // Two packets have 14 messages, and all of them have room: there are 16 fields.
    let (numbers, stats) = write_beside_a_request(2, 7);
    assert_eq!((numbers, stats.dropped), (vec![0, 1, 2], 0));
    let (numbers, stats) = write_beside_a_request(7, 7);
    assert_eq!(numbers, [0, 1, 7]);
    assert_eq!((stats.packets, stats.dropped, stats.over_limit), (7, 5, 5));
}

#[test]
fn one_packet_has_room_in_the_list_however_deep_it_is() {
    let (numbers, stats) = write_beside_a_request(1, TraceWriter::MAX_NESTING - 1);
    assert_eq!((numbers, stats.dropped), (vec![0, 1], 0));
    let (numbers, stats) = write_beside_a_request(2, TraceWriter::MAX_NESTING - 1);
    assert_eq!(numbers, [0, 2]);
    assert_eq!((stats.packets, stats.dropped, stats.over_limit), (2, 1, 1));
}

#[test]
fn a_packet_without_messages_needs_no_room_in_it() {
    let (numbers, stats) = write_beside_a_request(7, 0);
    assert_eq!((numbers, stats.dropped), ((0..=7).collect(), 0));
}

#[test]
fn messages_that_have_ended_make_room_for_others_of_the_same_packet() {
    for more in (0..48).step_by(if cfg!(miri) { 13 } else { 1 }) {
        // There are two chunks; each is sent as soon as it is complete.
        let memory = memory(2 * 64, 64);
        let model = Model::new(memory, Pace::Prompt);
        let producer = producer(memory, Layout::One, model);
        let mut writer = producer.writer(40, Exhaustion::Drop).unwrap();
        let mut packet = writer.packet();
        // First each in its own chunk, then all in the chunk in which these end, if it has room for them.
        nest(&mut packet, 9, 40, 90 + more);
        nest(&mut packet, 8, 0, 130);
        drop(packet);
        writer.flush();
        assert_eq!((writer.stats().dropped, writer.stats().packets), (0, 1), "{more} bytes more");
        assert!(model.packets(writer.id()).iter().all(Option::is_some));
    }
}
