//! A copy with more room holds what the buffer held, and takes that much more before it overwrites anything.

use tracebuf::buffer::{Chunk, ChunkHeader, Commit, Config, FillPolicy, TraceBuffer};
use tracebuf_conformance::random::cases::{check_with, count, first_seed};
use tracebuf_conformance::random::driver::{Real, short};
use tracebuf_conformance::random::hostile;
use tracebuf_conformance::random::ops::{BufferOp, Setup};

/// Switches to a larger ring now and then. Everything that can be read, with its losses, must be as it was.
fn run(setup: &Setup, ops: &[BufferOp]) -> Result<(), String> {
    let mut real = Real::new(setup);
    for (number, op) in (1..).zip(ops) {
        real.apply(op);
        if number % 17 == 0 {
            real = grow(real, number % 5 * 20)
                .map_err(|what| format!("after operation {number} ({}): {what}", short(op)))?;
        }
    }
    Ok(())
}

fn grow(mut real: Real, more: usize) -> Result<Real, String> {
    let (size, counters) = (real.buffer.stats().buffer_size, real.buffer.stats());
    let expected = real.apply(&BufferOp::Clone).packets;
    let found = real.buffer.into_read_only();
    let memory = vec![0xEE; found.grown_size(more)];
    let buffer = found.grow(memory).map_err(|error| error.to_string())?;
    // What is committed into the room that was asked for overwrites nothing.
    room_is_free(found.grow(vec![0; found.grown_size(more)]).expect("room"), more)?;
    real.buffer = buffer;
    real.buffer.check().map_err(|why| format!("check: {why}"))?;
    let mut stats = real.buffer.stats();
    let grown = std::mem::replace(&mut stats.buffer_size, size);
    if grown < size + more as u64 || stats != counters {
        return Err(format!("counters:\n  {counters:?}\n  {stats:?}"));
    }
    let found = real.apply(&BufferOp::Clone).packets;
    if found == expected { Ok(real) } else { Err(format!("packets:\n  {expected:?}\n  {found:?}")) }
}

fn room_is_free(mut buffer: TraceBuffer<Vec<u8>>, more: usize) -> Result<(), String> {
    let is_ring = buffer.policy() == FillPolicy::RingBuffer;
    let header = ChunkHeader { producer_id: 99, fragments: 1, ..ChunkHeader::default() };
    let before = buffer.stats();
    // A chunk of 28 bytes each.
    for chunk_id in 0..more as u32 / 28 {
        let commit = buffer.commit_with(&ChunkHeader { chunk_id, ..header }, 3, |at, to| {
            to.iter_mut().zip([2, 0x40, 5].into_iter().skip(at)).for_each(|(to, from)| *to = from);
        });
        // The table may be full of others.
        if is_ring && !matches!(commit, Commit::Written | Commit::Refused(_)) {
            return Err(format!("{commit:?}"));
        }
    }
    let after = buffer.stats();
    if (after.chunks_overwritten, after.bytes_overwritten)
        != (before.chunks_overwritten, before.bytes_overwritten)
    {
        return Err(format!("overwritten:\n  {before:?}\n  {after:?}"));
    }
    buffer.check().map(drop).map_err(|why| format!("check with more: {why}"))
}

#[test]
fn a_buffer_in_more_memory_is_what_it_was_and_has_more_room() {
    for seed in first_seed()..first_seed() + count(200) {
        let (setup, ops) = hostile::case(seed, false);
        check_with("grow", seed, &setup, &ops, |ops| run(&setup, ops));
    }
}

/// So that two of them have the same room.
#[repr(align(8))]
struct Memory([u8; 512]);

impl AsRef<[u8]> for Memory {
    fn as_ref(&self) -> &[u8] {
        &self.0
    }
}

impl AsMut<[u8]> for Memory {
    fn as_mut(&mut self) -> &mut [u8] {
        &mut self.0
    }
}

#[test]
fn a_ring_that_is_full_to_its_end_is_the_same_in_as_much_memory() {
    let config = Config::new(FillPolicy::RingBuffer).sequences(4);
    let mut buffer = TraceBuffer::new(Memory([0; 512]), config).unwrap();
    let mut commit = |chunk_id, len: usize| {
        let header = ChunkHeader { producer_id: 1, chunk_id, fragments: 1, ..ChunkHeader::default() };
        let payload = &mut [0; 40][..len];
        payload[0] = len as u8 - 1;
        assert_eq!(buffer.copy_chunk_untrusted(&Chunk { header, payload }), Commit::Written);
        buffer.stats()
    };
    // 32 bytes each, except one that fills the end. The next one has the first one's place.
    let size = commit(0, 8).buffer_size as u32;
    let (chunks, rest) = (size / 32, size as usize % 32);
    for chunk_id in 1..chunks - 1 {
        commit(chunk_id, 8);
    }
    assert_eq!(commit(chunks - 1, 8 + rest).chunks_overwritten, 0);
    let stats = commit(chunks, 8);
    assert_eq!((stats.chunks_overwritten, stats.padding_bytes_written), (1, 0));
    let mut copy = buffer.into_read_only().grow(Memory([0xEE; 512])).unwrap();
    assert_eq!((copy.check().map(drop), copy.stats()), (Ok(()), stats));
    let (mut reader, mut packets) = (copy.read(), 0);
    while let Some(packet) = reader.next_packet() {
        assert!(packet.loss().is_empty() || packets == 0);
        packets += 1;
    }
    assert_eq!(packets, chunks);
}
