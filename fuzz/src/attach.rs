//! `attach`: memory of any content as a region.
//!
//! Rubbish, rubbish behind a sound header, and regions of real work that were damaged or cut off.

use crate::cost::bounded;
use crate::input::Input;
use tracebuf::buffer::{
    Chunk, ChunkHeader, Config, FillPolicy, ReadOnlyTraceBuffer, RingView, Salvage, TraceBuffer,
};
use tracebuf_conformance::random::driver::Real;
use tracebuf_conformance::random::ops::{BufferOp, KeptPackets};
use tracebuf_conformance::random::rng::Rng;
use tracebuf_conformance::random::writers::{self, Truth};

type Packets = Vec<((u16, u16), Vec<u8>)>;

/// Bytes of a region before its ring and table that a checksum covers.
const HEADER: usize = 64;

/// Runs one input.
pub fn run(data: &[u8]) {
    packets_of(data);
}

/// The same; returns how many packets came out.
pub fn packets_of(data: &[u8]) -> usize {
    let mut input = Input::new(data);
    let how = input.byte();
    let (crc, histograms) = (how & 4 != 0, how & 8 != 0);
    // The program that continues with the region may have another policy than the one that began it.
    let next_policy = if how & 16 != 0 { FillPolicy::Discard } else { FillPolicy::RingBuffer };
    let config = |policy, table| Config::new(policy).sequences(table).crc(crc).histograms(histograms);
    match how % 4 {
        0 => look(input.rest().to_vec(), config(next_policy, 4)).len(),
        1 => {
            let table = 4 + u16::from(input.byte() % 8);
            let first = config(FillPolicy::RingBuffer, table);
            let ring = 64 + u32::from(input.u16()) % 2000;
            let memory = vec![0; first.region_size(ring) as usize];
            let mut memory = TraceBuffer::new(memory, first).expect("room for it").into_memory();
            let start = HEADER.min(usize::from(input.byte()));
            let noise = input.rest();
            let places = memory.iter_mut().skip(HEADER + start);
            places.zip(noise).for_each(|(byte, noise)| *byte = *noise);
            look(memory, config(next_policy, table)).len()
        }
        _ => {
            let size = usize::from(input.u16());
            let (setup, ops, truth) = writers::case_of(Rng::of_bytes(input.bytes(size)));
            let policy = if setup.discard { FillPolicy::Discard } else { FillPolicy::RingBuffer };
            let mut real = Real::with_config(config(policy, setup.table), setup.ring.min(1 << 14));
            // The last operation reads everything: at least this one is left out, so that packets remain.
            let left_out = 1 + usize::from(input.u16()) % ops.len();
            for op in &ops[..ops.len() - left_out] {
                // The memory is the same with or without an observer.
                let op = match op.clone() {
                    BufferOp::Commit { header, payload, closure, .. } => {
                        BufferOp::Commit { header, payload, closure, keep: KeptPackets::Unobserved }
                    }
                    other => other,
                };
                real.apply(&op);
            }
            let mut memory = real.buffer.into_memory();
            let flipped = damage(&mut memory, &mut input);
            let packets = look(memory, config(next_policy, setup.table));
            if crc || !flipped {
                only_written(&packets, &truth);
            }
            packets.len()
        }
    }
}

/// Changes bytes, or cuts the end off; returns whether a byte was changed.
fn damage(memory: &mut Vec<u8>, input: &mut Input<'_>) -> bool {
    let mut flipped = false;
    while !input.is_over() && !memory.is_empty() {
        let at = usize::from(input.u16()) % memory.len();
        match input.byte() {
            0 => memory.truncate(at),
            flips => {
                memory[at] ^= flips;
                flipped = true;
            }
        }
    }
    flipped
}

/// Attaches in all ways, and checks whether there is a buffer. Returns what comes out; `next` is the configuration that
/// a restarted program asks for.
fn look(memory: Vec<u8>, next: Config) -> Packets {
    look_at_items(&memory);
    let mut copy = memory.clone();
    // Where items lead nowhere, the walk over them begins again, up to 256 times.
    let attached = bounded(8 * memory.len(), 0, || TraceBuffer::attach(&mut copy[..]));
    let mut found = start_again(memory.clone(), next);
    let Ok((mut buffer, salvage)) = attached else {
        assert_eq!(copy, memory, "what is no region is left alone");
        found.extend(look_at_part(&memory));
        return found;
    };
    let ring = buffer.check().expect("a sound buffer");
    assert_eq!(ring.chunks, u64::from(salvage.chunks_kept));
    found.extend(look_again(copy, &salvage));
    found.extend(look_at_end(memory, &salvage));
    found
}

/// The items of a region, as it was found, follow one another to the end of what is used.
fn look_at_items(memory: &[u8]) {
    let Ok(view) = RingView::find(memory) else { return };
    let end = view.items().fold(0, |end, item| {
        assert_eq!(item.offset, end, "a gap between items");
        end + item.size
    });
    assert_eq!(end, view.used());
}

/// A region whose end is missing can still be read.
fn look_at_part(memory: &[u8]) -> Packets {
    let mut found = Packets::new();
    for attach in [ReadOnlyTraceBuffer::attach, ReadOnlyTraceBuffer::attach_ended] {
        if let Ok((mut part, _)) = bounded(8 * memory.len(), 0, || attach(memory.to_vec())) {
            found.extend(bounded(2 * memory.len(), 0, || packets(&mut part.read(), memory.len())));
        }
    }
    found
}

/// Starts like firmware: an existing region is continued, or a new one begins.
fn start_again(memory: Vec<u8>, next: Config) -> Packets {
    let size = memory.len();
    let started = bounded(8 * size, 0, || TraceBuffer::attach_or_new(memory, next));
    let Ok((mut buffer, salvage)) = started else { return Packets::new() };
    buffer.check().expect("a sound buffer");
    let found = bounded(2 * size, 0, || packets(&mut buffer.read(), size));
    assert!(salvage.is_some() || found.is_empty(), "a new region is empty");
    record(&mut buffer);
    found
}

/// The same for a program that has ended, compared with what was kept for one that has not.
fn look_at_end(memory: Vec<u8>, living: &Salvage) -> Packets {
    let attached = bounded(8 * memory.len(), 0, || ReadOnlyTraceBuffer::attach_ended(memory));
    let (ended, salvage) = attached.expect("the same region");
    // Some of them lack their end.
    assert_eq!(salvage.chunks_kept, living.chunks_kept);
    assert_eq!(salvage.chunks_dropped(), living.chunks_dropped());
    look_again(ended.into_memory(), &salvage)
}

/// What attaching has repaired stays right.
fn look_again<M: AsRef<[u8]> + AsMut<[u8]>>(memory: M, salvage: &Salvage) -> Packets {
    let size = memory.as_ref().len();
    let (mut again, twice) = bounded(size, 0, || TraceBuffer::attach(memory)).expect("a region");
    again.check().expect("a sound buffer");
    let kept = (twice.chunks_kept, twice.chunks_malformed, twice.chunks_unfinished);
    assert_eq!(kept, (salvage.chunks_kept, 0, 0));
    let found = bounded(2 * size, 0, || packets(&mut again.read(), size));
    record(&mut again);
    found
}

fn packets(reader: &mut tracebuf::buffer::Reader<'_>, most: usize) -> Packets {
    let mut packets = Packets::new();
    while let Some(packet) = reader.next_packet() {
        let bytes = packet.slices().flatten().copied().collect();
        packets.push(((packet.producer_id(), packet.writer_id()), bytes));
        assert!(packets.len() <= most, "reading does not end");
    }
    packets
}

/// Continues an old sequence or begins a new one, until the ring has lapped.
fn record<M: AsRef<[u8]> + AsMut<[u8]>>(buffer: &mut TraceBuffer<M>) {
    let known = buffer.sequences().next().map_or((1, 1), |s| (s.producer_id, s.writer_id));
    for n in 0..60u32 {
        let (producer_id, writer_id) = if n % 3 == 0 { (0xFFFF, 0xFFFE) } else { known };
        let header = ChunkHeader {
            producer_id,
            writer_id,
            chunk_id: n.wrapping_mul(0x0100_0001),
            fragments: 2,
            complete: n % 5 != 0,
            ..ChunkHeader::default()
        };
        buffer.copy_chunk_untrusted(&Chunk { header, payload: b"\x03one\x14twenty bytes of text" });
        buffer.check().expect("a sound buffer");
    }
    let _ = packets(&mut buffer.read(), usize::MAX);
    buffer.check().expect("a sound buffer");
}

fn only_written(packets: &Packets, truth: &Truth) {
    for (key, bytes) in packets {
        let written = truth.written.iter().find(|(k, _)| k == key).map_or(&[][..], |(_, all)| all);
        assert!(written.iter().flatten().any(|one| one == bytes), "{key:?} never wrote {bytes:x?}");
    }
}
