//! The bytes that a writer puts into chunks: at their ends, across them, counted and sent.

use crate::model::*;
use std::sync::Mutex;
use tracebuf::producer::*;

fn first_payload(model: &Model) -> Vec<u8> {
    model.state().chunks[&(1, 0)].payload.clone()
}

#[test]
fn fields_of_many_bytes_lie_across_the_end_of_a_chunk_wherever_it_is() {
    let (long, short) = (0x0102_0304_0506_0708, 0x1112_1314);
    for before in (0..60).step_by(if cfg!(miri) { 7 } else { 1 }) {
        let (model, mut writer) = only_writer(64, 64, Pace::Prompt, Exhaustion::Drop);
        let mut packet = writer.packet();
        packet.bytes(1, &vec![7; before]);
        packet.fixed64(2, long);
        packet.fixed32(3, short);
        packet.fixed64(4, !long);
        drop(packet);
        writer.flush();
        let all = fields(model.packets(1)[0].as_ref().unwrap());
        let expected = [
            (1, Value::Bytes(vec![7; before])),
            (2, Value::Fixed(long)),
            (3, Value::Fixed(short.into())),
            (4, Value::Fixed(!long)),
        ];
        // In front, a field says that the packet is the first.
        assert_eq!(all[1..], expected, "behind {before} bytes");
    }
}

#[test]
fn a_packet_that_ends_with_its_chunk_needs_no_other() {
    let (model, mut writer) = only_writer(64, 64, Pace::Prompt, Exhaustion::Drop);
    let mut packet = writer.packet();
    // 56 bytes: a size of 4, 3 saying that it is the first, and these.
    packet.bytes(1, &[7; 45]);
    packet.varint(8, 1);
    drop(packet);
    assert_eq!((writer.stats().chunks, model.state().chunks.len()), (1, 0));
    writer.flush();
    assert_eq!((writer.stats().chunks, model.state().chunks.len()), (1, 1));
    assert!(model.packets(1)[0].is_some());
}

#[test]
fn a_packet_is_begun_where_twelve_bytes_are_left_and_not_where_eleven_are() {
    for (filler, chunks) in [(38, 1), (39, 2)] {
        let (model, mut writer) = only_writer(64, 64, Pace::Prompt, Exhaustion::Drop);
        writer.packet().bytes(1, &vec![7; filler]);
        writer.packet().varint(8, 1);
        writer.flush();
        assert_eq!((writer.stats().chunks, model.state().chunks.len()), (chunks, chunks as usize));
        assert_eq!(model.packets(1).len(), 2);
    }
}

#[test]
fn sizes_of_messages_take_one_byte_up_to_127_and_four_from_128_on() {
    let (model, mut writer) = only_writer(64, 1020, Pace::Prompt, Exhaustion::Drop);
    writer.packet().message(5).varint(4, 1);
    writer.flush();
    assert_eq!(first_payload(model)[..8], [7, 0xB8, 5, 1, 0x2A, 2, 0x20, 1]);
    for (content, size) in [(127, &[127][..]), (128, &[0x80, 0x81, 0x80, 0][..])] {
        let (model, mut writer) = only_writer(64, 1020, Pace::Prompt, Exhaustion::Drop);
        // A tag, a length of one byte, and the rest.
        writer.packet().message(5).bytes(1, &vec![7; content - 2]);
        writer.flush();
        let payload = first_payload(model);
        // After the packet's size of four bytes, the field that says it is the first, and the message's tag.
        assert_eq!(payload[8..][..size.len()], *size, "{content} bytes");
    }
}

#[test]
fn a_packet_is_given_up_once_whatever_else_goes_wrong_in_it() {
    let (_, mut writer) = only_writer(64, 64, Pace::Prompt, Exhaustion::Drop);
    let mut packet = writer.packet();
    packet.varint(0, 1);
    packet.varint(0, 1);
    drop(packet);
    assert_eq!((writer.stats().dropped, writer.stats().over_limit), (1, 1));
    // First for want of a chunk, then for an invalid field number.
    let (_, mut writer) = only_writer(64, 64, Pace::Absent(0), Exhaustion::Drop);
    let mut packet = writer.packet();
    packet.bytes(1, &[7; 64 * 64]);
    packet.varint(0, 1);
    drop(packet);
    assert_eq!((writer.stats().dropped, writer.stats().over_limit), (1, 0));
}

/// Frees chunks as they come.
struct Freeing(Mutex<Consumer<'static>>);

impl CommitSink for Freeing {
    fn commit(&self, request: &CommitRequest<'_>) {
        for chunk in request.chunks_to_move {
            drop(self.0.lock().unwrap().take(chunk.page, chunk.chunk));
        }
    }
}

#[test]
#[cfg_attr(miri, ignore = "writes 256 MiB")]
fn a_packet_larger_than_a_size_can_say_is_given_up() {
    let memory = memory(16 * 65_536, 65_536);
    let sink: &'static Freeing = Box::leak(Box::new(Freeing(Mutex::new(Consumer::new(memory)))));
    let mut writer = producer(memory, Layout::One, sink).writer(0, Exhaustion::Drop).unwrap();
    let part = vec![7; 1 << 20];
    let mut packet = writer.packet();
    (0..255).for_each(|_| packet.bytes(1, &part));
    drop(packet);
    assert_eq!(writer.stats().dropped, 0);
    let mut packet = writer.packet();
    (0..256).for_each(|_| packet.bytes(1, &part));
    drop(packet);
    assert_eq!((writer.stats().dropped, writer.stats().over_limit), (1, 1));
}

#[test]
fn memory_that_cannot_be_used_says_why() {
    let texts = [
        (MemoryError::PageSize, "the page size is not a multiple of 4 from 64 to 65536"),
        (MemoryError::NoPage, "the memory has no room for a page"),
        (MemoryError::TooManyPages, "the memory has room for more than 65536 pages"),
        (MemoryError::ChunkSize, "the chunks would be smaller than 32 bytes"),
        (MemoryError::Storage, "the storage has fewer entries than the buffer has chunks"),
    ];
    for (error, text) in texts {
        assert_eq!(error.to_string(), text);
    }
}
