//! Shared memory as a writer fills it, edge by edge.

use crate::model::*;
use tracebuf::producer::*;

pub(crate) const FOR_TESTING: u32 = 900;

pub(crate) fn text(n: usize, len: usize) -> String {
    (0..len).map(|i| (b'a' + ((i + n) % 26) as u8) as char).collect()
}

/// A packet with a nested message on either side of a string.
pub(crate) fn write(writer: &mut TraceWriter<'_>, n: usize, len: usize) {
    let mut packet = writer.packet();
    packet.varint(8, n as u64);
    let mut outer = packet.message(FOR_TESTING);
    outer.varint(4, n as u64);
    outer.message(5).string(1, &text(n, len));
    outer.message(6).varint(7, u64::MAX);
}

pub(crate) fn check(packet: &[u8], n: usize, len: usize) {
    let all: Vec<_> = fields(packet).into_iter().filter(|(f, _)| *f != 87 && *f != 42).collect();
    assert_eq!(all[0], (8, Value::Int(n as u64)));
    assert_eq!((all.len(), all[1].0), (2, FOR_TESTING));
    let outer = all[1].1.inside();
    assert_eq!(outer[0], (4, Value::Int(n as u64)));
    assert_eq!(outer[1].1.inside(), [(1, Value::Bytes(text(n, len).into_bytes()))]);
    assert_eq!(outer[2].1.inside(), [(7, Value::Int(u64::MAX))]);
    assert_eq!(outer.len(), 3);
}

#[cfg(feature = "patches")]
#[test]
fn packets_of_every_size_come_out_whole_in_chunks_of_every_size() {
    for chunk_size in [56, 60, 64, 100, 256, 1020, 4088] {
        let (model, mut writer) = only_writer(16, chunk_size, Pace::Prompt, Exhaustion::Drop);
        let (step, longest) = if cfg!(miri) { (60, 700) } else { (1, 20_000) };
        let sizes = (0..300).step_by(step).chain([500, 127, 128, 126, longest / 4, longest, 0]);
        let sizes: Vec<usize> = sizes.collect();
        for (n, len) in sizes.iter().enumerate() {
            write(&mut writer, n, *len);
        }
        writer.flush();
        assert_eq!(writer.stats().dropped, 0);
        assert_eq!(writer.stats().packets, sizes.len() as u64);
        let packets = model.packets(writer.id());
        assert_eq!(packets.len(), sizes.len());
        for (n, len) in sizes.iter().enumerate() {
            check(packets[n].as_ref().unwrap(), n, *len);
        }
    }
}

#[test]
fn only_the_first_packet_says_that_it_is_the_first() {
    let (model, mut writer) = only_writer(4, 256, Pace::Prompt, Exhaustion::Drop);
    writer.packet().varint(8, 1);
    writer.packet().varint(8, 2);
    writer.flush();
    let packets = model.packets(1);
    assert_eq!(packets, [Some(vec![0xB8, 0x05, 1, 0x40, 1]), Some(vec![0x40, 2])]);
}

#[test]
fn what_a_writer_lost_last_is_said_by_the_next_one_of_its_id() {
    let (model, producer) = chunk_a_page(4, 64, Pace::Absent(0));
    let mut greedy = producer.writer(40, Exhaustion::Drop).unwrap();
    let mut writer = producer.writer(40, Exhaustion::Drop).unwrap();
    writer.packet().varint(8, 1);
    writer.flush();
    while greedy.stats().dropped == 0 {
        greedy.packet().bytes(1, &[1; 44]);
    }
    writer.packet().varint(8, 2);
    let id = writer.id();
    assert_eq!(writer.stats().dropped, 1);
    drop(writer);
    model.drain();
    producer.commit();
    // The first packet says it, for what was written before; the next one's writer has nothing to report.
    for n in [3, 4] {
        let mut writer = producer.writer(40, Exhaustion::Drop).unwrap();
        assert_eq!(writer.id(), id);
        writer.packet().varint(8, n);
        drop(writer);
        model.drain();
        producer.commit();
    }
    let packets: Vec<_> = model.packets(id).iter().map(|packet| fields(packet.as_ref().unwrap())).collect();
    let first = (87, Value::Int(1));
    let number = |n| (8, Value::Int(n));
    assert_eq!(packets[1], [first.clone(), (42, Value::Int(257)), number(3)]);
    assert_eq!(packets[2], [first, number(4)]);
    assert_eq!(model.state().targets.last(), Some(&40));
}

#[test]
fn the_next_writer_of_an_id_says_that_shared_memory_was_full_only_if_it_was() {
    let (model, producer) = chunk_a_page(4, 64, Pace::Prompt);
    producer.writer(40, Exhaustion::Drop).unwrap().packet().varint(0, 1);
    producer.writer(40, Exhaustion::Drop).unwrap().packet().varint(8, 1);
    let packets = model.packets(1);
    let says = [(87, Value::Int(1)), (42, Value::Int(1)), (8, Value::Int(1))];
    assert_eq!(fields(packets[1].as_ref().unwrap()), says);
}

#[test]
fn what_was_lost_to_one_buffer_is_said_there_and_not_in_another() {
    for other_ids_are_taken in [false, true] {
        let (model, producer) = chunk_a_page(1, 64, Pace::Absent(0));
        let mut greedy = producer.writer(40, Exhaustion::Drop).unwrap();
        fill(&mut greedy);
        // It never has a chunk.
        let mut writer = producer.writer(40, Exhaustion::Drop).unwrap();
        fill(&mut writer);
        let id = writer.id();
        assert_eq!((writer.stats().dropped, writer.stats().chunks), (1, 0));
        drop(writer);
        model.drain();
        producer.commit();
        let says_on = |mut writer: TraceWriter<'_>| {
            writer.packet().varint(8, 1);
            writer.flush();
            model.drain();
            let packets = model.packets(writer.id());
            fields(packets[0].as_ref().unwrap()).contains(&(42, Value::Int(257)))
        };
        let mut others = Vec::new();
        let mut other = producer.writer(41, Exhaustion::Drop).unwrap();
        assert_ne!(other.id(), id, "it waits for a writer to its own buffer");
        while other_ids_are_taken && other.id() != id {
            others.push(std::mem::replace(&mut other, producer.writer(41, Exhaustion::Drop).unwrap()));
        }
        assert!(!says_on(other), "that nothing was lost there");
        drop(others);
        let writer = producer.writer(40, Exhaustion::Drop).unwrap();
        if !other_ids_are_taken {
            assert_eq!(writer.id(), id);
            assert!(says_on(writer));
        }
    }
}

#[test]
fn a_short_packet_has_a_size_of_one_byte_and_a_longer_one_of_four() {
    let (model, mut writer) = only_writer(4, 1020, Pace::Prompt, Exhaustion::Drop);
    writer.packet().varint(8, 1);
    for len in [123, 124, 125] {
        writer.packet().string(1, &text(0, len));
    }
    writer.flush();
    let state = model.state();
    let payload = &state.chunks[&(1, 0)].payload;
    // 5 bytes; then a tag, a length and the text: 125, 126 and 127 bytes.
    assert_eq!(payload[0], 5);
    assert_eq!(payload[6], 125);
    assert_eq!(payload[6 + 126], 126);
    assert_eq!(payload[6 + 126 + 127..][..4], [0xFF, 0x80, 0x80, 0]);
}

#[test]
fn a_flushed_chunk_ends_with_an_empty_fragment_and_a_full_one_does_not() {
    let (model, mut writer) = only_writer(4, 64, Pace::Prompt, Exhaustion::Drop);
    writer.packet().varint(8, 1);
    writer.flush();
    writer.packet().string(1, &text(0, 42));
    writer.packet().varint(8, 3);
    writer.flush();
    let state = model.state();
    assert_eq!(state.chunks[&(1, 0)].header.fragments, 2);
    assert_eq!(state.chunks[&(1, 0)].payload[6], 0);
    // 45 of 56 bytes used: fewer than 12 are left, so the next packet begins elsewhere.
    assert_eq!(state.chunks[&(1, 1)].header.fragments, 1);
    assert_eq!(state.chunks[&(1, 2)].header.fragments, 2);
}

#[test]
fn a_chunk_counts_at_most_1022_packets_before_the_next_is_begun_elsewhere() {
    let (model, mut writer) = only_writer(4, 4088, Pace::Prompt, Exhaustion::Drop);
    for _ in 0..1100 {
        writer.packet().varint(8, 1);
    }
    writer.flush();
    let state = model.state();
    assert_eq!(state.chunks[&(1, 0)].header.fragments, 1022);
    drop(state);
    assert_eq!(model.packets(1).len(), 1100);
}

#[test]
fn an_empty_packet_leaves_no_trace() {
    let (model, mut writer) = only_writer(4, 256, Pace::Prompt, Exhaustion::Drop);
    writer.packet().varint(8, 1);
    for _ in 0..if cfg!(miri) { 50 } else { 2000 } {
        let _ = writer.packet();
    }
    writer.packet().varint(8, 2);
    writer.flush();
    assert_eq!(writer.stats().packets, 2);
    assert_eq!(model.packets(1).len(), 2);
    assert_eq!(model.state().chunks.len(), 1);
}

#[test]
fn without_a_free_chunk_packets_are_dropped_counted_once_and_reported_by_the_next() {
    let (model, mut writer) = only_writer(4, 64, Pace::Absent(0), Exhaustion::Drop);
    let mut sent = 0;
    let mut dropped = 0;
    for n in 0..60 {
        if n % 7 == 6 {
            model.drain();
        }
        let before = writer.stats().dropped;
        write(&mut writer, n, n * 3 % 80);
        sent += 1;
        dropped += writer.stats().dropped - before;
        assert!(writer.stats().dropped - before <= 1);
    }
    model.drain();
    writer.packet().varint(8, 99);
    writer.flush();
    model.drain();
    assert!(dropped > 5);
    assert_eq!(writer.stats().packets, sent + 1);
    let packets = model.packets(1);
    let whole: Vec<_> = packets.iter().flatten().collect();
    assert_eq!(whole.len() as u64 + writer.stats().dropped, writer.stats().packets);
    // Every gap in the numbers is reported by the packet after it.
    let mut expected = 0;
    for packet in whole {
        let all = fields(packet);
        let n = all
            .iter()
            .find_map(|(f, v)| if let (8, Value::Int(n)) = (f, v) { Some(*n) } else { None })
            .unwrap();
        let says = all.contains(&(42, Value::Int(257)));
        let n = if n == 99 { sent } else { n };
        assert_eq!(says, n != expected, "packet {n} after {expected}");
        expected = n + 1;
    }
}

#[cfg(feature = "patches")]
#[test]
fn a_writer_that_stalls_loses_nothing_and_waits_in_growing_steps() {
    let (model, mut writer) = only_writer(2, 64, Pace::Lazy, Exhaustion::Stall);
    let count = if cfg!(miri) { 20 } else { 200 };
    for n in 0..count {
        write(&mut writer, n, n * 7 % 500);
    }
    writer.flush();
    model.drain();
    let packets = model.packets(1);
    assert_eq!((packets.len(), writer.stats().dropped), (count, 0));
    for (n, packet) in packets.iter().enumerate() {
        check(packet.as_ref().unwrap(), n, n * 7 % 500);
    }
    assert!(model.state().stalls.iter().all(|micros| *micros == 0));
}

/// A packet that fills a chunk of 64 bytes, and needs no other.
pub(crate) fn fill(writer: &mut TraceWriter<'_>) {
    writer.packet().string(1, &text(0, 42));
}

#[test]
fn stall_then_drop_gives_up_after_its_steps_and_does_not_wait_again_before_a_chunk_is_free() {
    let (model, mut writer) = only_writer(1, 64, Pace::Absent(u32::MAX), Exhaustion::StallThenDrop);
    fill(&mut writer);
    fill(&mut writer);
    assert_eq!(writer.stats().dropped, 1);
    assert_eq!((model.state().stalls.len(), TraceWriter::STALL_STEPS), (300, 300));
    assert_eq!(model.state().stalls[..5], [0, 1, 3, 6, 12]);
    // 100 ms after 18 steps: about 28 s in all.
    assert_eq!(model.state().stalls.iter().sum::<u32>(), 28_399_994);
    assert_eq!(model.state().stalls.last(), Some(&100_000));
    fill(&mut writer);
    assert_eq!(model.state().stalls.len(), TraceWriter::STALL_STEPS as usize);
    // With a chunk again, it waits again.
    for waits in [2, 3] {
        model.drain();
        fill(&mut writer);
        assert_eq!(model.state().stalls.len(), TraceWriter::STALL_STEPS as usize * (waits - 1));
        fill(&mut writer);
        assert_eq!(model.state().stalls.len(), TraceWriter::STALL_STEPS as usize * waits);
    }
    assert_eq!(writer.stats().dropped, 4);
}

#[test]
fn a_hook_that_gives_up_drops_the_packet_even_of_a_writer_that_stalls() {
    let (model, mut writer) = only_writer(1, 64, Pace::Absent(3), Exhaustion::Stall);
    fill(&mut writer);
    fill(&mut writer);
    assert_eq!((writer.stats().dropped, model.state().stalls.len()), (1, 4));
}

#[test]
fn with_a_single_chunk_a_longer_packet_is_dropped_and_shorter_ones_pass() {
    let (model, mut writer) = only_writer(1, 64, Pace::Lazy, Exhaustion::Stall);
    for (n, len) in [10, 100, 12].into_iter().enumerate() {
        write(&mut writer, n, len);
    }
    writer.flush();
    model.drain();
    let packets = model.packets(1);
    assert_eq!((packets.len(), writer.stats().dropped), (3, 1));
    assert!(packets[1].is_none());
    check(packets[2].as_ref().unwrap(), 2, 12);
}
