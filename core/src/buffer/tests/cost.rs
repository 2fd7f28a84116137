//! Costs of operations in steps: no more in a large ring than in a small one, and no more for chunks made to cost.

use super::memory::{Memory, change};
use crate::buffer::words::Le32;
use crate::buffer::*;
use crate::steps::steps_of;
use std::vec;

type Buffer = TraceBuffer<Memory>;

const CONTINUES: ChunkFlags = ChunkFlags::CONTINUES_ON_NEXT;
const CONTINUED: ChunkFlags = ChunkFlags::CONTINUES_FROM_PREVIOUS;
#[cfg(not(miri))]
const SIZES: [u32; 3] = [4 << 10, 64 << 10, 1 << 20];
#[cfg(miri)]
const SIZES: [u32; 1] = [1 << 10];

fn buffer(ring: u32) -> Buffer {
    with_sequences(8, ring)
}

fn with_sequences(sequences: u16, ring: u32) -> Buffer {
    let config = Config::new(FillPolicy::RingBuffer).sequences(sequences);
    TraceBuffer::new(Memory::filled(0, config.region_size(ring) as usize), config).expect("room")
}

fn header(chunk_id: u32, fragments: u16, flags: ChunkFlags) -> ChunkHeader {
    ChunkHeader { producer_id: 1, writer_id: 1, chunk_id, fragments, flags, ..Default::default() }
}

/// Commits a chunk, and returns how many steps that took.
fn commit(buffer: &mut Buffer, header: ChunkHeader, payload: &[u8]) -> (Commit, u64) {
    steps_of(|| buffer.copy_chunk_untrusted(&Chunk { header, payload }))
}

fn plain(buffer: &mut Buffer, chunk_id: u32) -> (Commit, u64) {
    commit(buffer, header(chunk_id, 3, ChunkFlags::empty()), b"\x03one\x03two\x05three")
}

/// A ring that has lapped, of plain chunks; and the next id.
fn lapped(ring: u32) -> (Buffer, u32) {
    let mut buffer = buffer(ring);
    let mut chunk_id = 0;
    while buffer.stats().write_wrap_count < 2 {
        plain(&mut buffer, chunk_id);
        chunk_id += 1;
    }
    (buffer, chunk_id)
}

fn chunks(buffer: &mut Buffer) -> u64 {
    buffer.check().expect("a sound buffer").chunks
}

/// Reads all there is, and returns how many packets and steps that were.
fn read_all(buffer: &mut Buffer) -> (u64, u64) {
    steps_of(|| {
        let (mut reader, mut packets) = (buffer.read(), 0);
        while reader.next_packet().is_some() {
            packets += 1;
        }
        packets
    })
}

#[test]
fn a_commit_costs_the_same_in_any_ring() {
    for ring in SIZES {
        let (mut buffer, next) = lapped(ring);
        for chunk_id in next..next + 50 {
            let (outcome, steps) = plain(&mut buffer, chunk_id);
            assert_eq!(outcome, Commit::Written);
            assert!((6..=16).contains(&steps), "{steps} steps with a ring of {ring}");
        }
    }
}

#[test]
fn reading_costs_the_same_for_each_packet_in_any_ring() {
    for ring in SIZES {
        let (mut buffer, _) = lapped(ring);
        let (packets, steps) = read_all(&mut buffer);
        assert!(packets > 50 && steps >= packets && steps <= 6 * packets + 10, "{steps} for {packets}");
        // What was consumed is stepped over chunk by chunk once, and at once from then on.
        read_all(&mut buffer);
        let (packets, steps) = read_all(&mut buffer);
        assert!(packets == 0 && steps < 5, "{steps} steps for nothing");
    }
}

#[test]
fn a_patch_of_a_chunk_that_is_gone_or_newest_costs_the_same_in_any_ring() {
    let patches = [Patch { offset: 0, data: [3, b'a', b'b', b'c'] }];
    for ring in SIZES {
        let (mut buffer, next) = lapped(ring);
        for (chunk_id, there) in [(0, false), (next, false), (next - 1, true)] {
            let (done, steps) = steps_of(|| buffer.try_patch_chunk_contents(1, 1, chunk_id, &patches, false));
            assert!(done == there && (1..=8).contains(&steps), "{steps} steps with a ring of {ring}");
        }
    }
}

#[test]
fn a_straggler_costs_a_walk_of_bounded_length() {
    let mut buffer = buffer(1 << 20);
    let most = if cfg!(miri) { 50 } else { 2 * WALK_LIMIT };
    plain(&mut buffer, 0);
    for chunk_id in 2..most {
        plain(&mut buffer, chunk_id);
    }
    let limit = u64::from(WALK_LIMIT);
    let (outcome, steps) = plain(&mut buffer, 1);
    let there = if cfg!(miri) { Commit::Written } else { Commit::Refused(Refusal::TooFarOutOfOrder) };
    // Where it belongs is looked for again once there is room for it.
    assert!(outcome == there && steps <= 2 * limit + 16, "{outcome}, {steps} steps");
    let (_, steps) = steps_of(|| buffer.try_patch_chunk_contents(1, 1, 0, &[], false));
    assert!(steps <= limit + 16, "{steps} steps");
}

#[test]
fn a_chunk_of_empty_packets_is_read_once() {
    let size = if cfg!(miri) { 500 } else { 60_000 };
    // All empty; with one at the end that is not; and with one in the middle.
    for full in [size + 1, size - 2, size / 2] {
        let mut payload = vec![0; size];
        if let Some(place) = payload.get_mut(full..full + 2) {
            place.copy_from_slice(&[1, 7]);
        }
        let fragments = (size - usize::from(full < size)) as u16;
        let mut buffer = buffer(1 << 17);
        let (outcome, steps) = commit(&mut buffer, header(0, fragments, ChunkFlags::empty()), &payload);
        assert!(outcome == Commit::Written && steps <= size as u64 + 20, "{steps} steps to commit");
        let (packets, steps) = read_all(&mut buffer);
        assert_eq!(packets, u64::from(full < size));
        assert!(steps >= size as u64 / 2 && steps <= 6 * size as u64, "{steps} steps to read");
        assert_eq!(chunks(&mut buffer), 0);
    }
}

#[test]
fn a_packet_that_does_not_end_costs_a_session_one_look_at_its_chunks() {
    for ring in SIZES {
        let mut buffer = buffer(ring);
        for chunk_id in 0..ring / 40 {
            let flags = if chunk_id == 0 { CONTINUES } else { CONTINUES | CONTINUED };
            commit(&mut buffer, header(chunk_id, 1, flags), &[9; 10]);
        }
        for _ in 0..2 {
            let before = chunks(&mut buffer);
            let (packets, steps) = read_all(&mut buffer);
            assert!(packets == 0 && steps <= 8 * before + 10, "{steps} steps for {before} chunks");
        }
    }
}

#[test]
fn packets_that_break_off_are_read_once() {
    for ring in SIZES {
        let mut buffer = buffer(ring);
        // Each is a beginning that the next does not continue; empty ones lie between.
        for chunk_id in 0..ring / 40 {
            let (fragments, flags) =
                if chunk_id % 9 == 0 { (1, CONTINUES) } else { (0, ChunkFlags::empty()) };
            commit(
                &mut buffer,
                header(chunk_id, fragments, flags),
                if fragments > 0 { &[3, 1, 2, 3] } else { &[] },
            );
        }
        let before = chunks(&mut buffer);
        let (packets, steps) = read_all(&mut buffer);
        assert!(packets == 0 && steps <= 12 * before, "{steps} steps for {before} chunks");
    }
}

#[test]
fn what_is_overwritten_costs_as_often_as_it_was_written() {
    for ring in SIZES {
        let mut buffer = buffer(ring);
        let (mut steps, mut commits) = (0, 0);
        // Long packets, in an order that is not the ring's.
        while buffer.stats().write_wrap_count < 3 {
            let (chunk_id, within) = (commits ^ 3, (commits ^ 3) % 16);
            let flags = match within {
                0 => CONTINUES,
                15 => CONTINUED,
                _ => CONTINUES | CONTINUED,
            };
            steps += commit(&mut buffer, header(chunk_id, 1, flags), &[5, 1, 2, 3, 4, 5]).1;
            commits += 1;
        }
        assert!(steps <= 40 * u64::from(commits), "{steps} steps for {commits} commits");
    }
}

/// The beginning of a packet that goes on in `behind` chunks, or has that many without fragments after it, comes back
/// as often as another writer's chunks evict it. Returns the steps of a hundred commits, and how often it came back.
fn beginnings_that_come_back(ring: u32, behind: u32, is_rest: bool) -> (u64, u32) {
    let mut buffer = buffer(ring);
    let other = |chunk_id| ChunkHeader { writer_id: 2, ..header(chunk_id, 1, ChunkFlags::empty()) };
    let begin = |chunk_id| header(chunk_id, 1, CONTINUES);
    commit(&mut buffer, begin(0), &[1, 9]);
    let chunks = ring / 56;
    for chunk_id in 0..chunks {
        // Two of 28 bytes, or one of 24 and one of 32.
        let (fragments, flags, payload, others): (_, _, &[u8], &[u8]) = match is_rest {
            true => (1, CONTINUES | CONTINUED, &[1, 9], &[1, 9]),
            false => (0, ChunkFlags::empty(), &[], &[7, 1, 2, 3, 4, 5, 6, 7]),
        };
        commit(&mut buffer, other(2 * chunk_id), others);
        let header =
            if chunk_id < behind { header(chunk_id + 1, fragments, flags) } else { other(2 * chunk_id + 1) };
        commit(&mut buffer, header, payload);
    }
    let (mut steps, mut came_back) = (0, 0);
    for chunk_id in 0..50.min(behind - 2) {
        steps += commit(&mut buffer, other(2 * (chunks + chunk_id)), &[1, 9]).1;
        let (outcome, again) = commit(&mut buffer, begin(chunk_id), &[1, 9]);
        steps += again;
        came_back += u32::from(outcome == Commit::Written);
    }
    (steps, came_back)
}

#[test]
fn a_beginning_that_comes_back_has_what_is_behind_it_looked_at_a_bounded_number_of_times() {
    for is_rest in [true, false] {
        for ring in SIZES {
            let chunks = ring / 56;
            let (steps, came_back) = beginnings_that_come_back(chunks * 56, 12.min(chunks), is_rest);
            assert!(came_back > 5 && steps <= 500, "{steps} steps, {came_back} of a short one came back");
            let (steps, _) = beginnings_that_come_back(chunks * 56, chunks, is_rest);
            assert!(steps <= 1_500, "{steps} steps with a ring of {ring}");
        }
    }
}

#[test]
fn attaching_looks_at_each_chunk_a_few_times() {
    for ring in SIZES {
        let (mut buffer, _) = lapped(ring);
        let chunks = chunks(&mut buffer);
        let memory = buffer.into_memory();
        let (found, steps) = steps_of(|| TraceBuffer::attach(memory).map(|(_, salvage)| salvage.chunks_kept));
        assert_eq!(found.map(u64::from), Ok(chunks));
        assert!(steps >= chunks && steps <= 24 * chunks + 100, "{steps} steps for {chunks} chunks");
    }
}

#[test]
fn attaching_where_every_other_chunk_is_broken_walks_the_ring_a_bounded_number_of_times() {
    const SIZE: u32 = 32;
    for ring in SIZES {
        let mut buffer = buffer(ring);
        let chunks = ring / SIZE;
        for n in 0..chunks {
            let writer_id = 1 + n as u16 % 2;
            let header = ChunkHeader { writer_id, ..header(n / 2, 1, ChunkFlags::empty()) };
            commit(&mut buffer, header, b"\x07sevens.");
        }
        let mut memory = buffer.into_memory();
        let start = memory.len() - ring as usize;
        // The second writer's chunks become gaps of no length; where the next chunk is, the first writer's links say.
        for at in (SIZE..ring).step_by(2 * SIZE as usize) {
            memory[start + at as usize..][..4].copy_from_slice(&0x8000_0000_u32.to_le_bytes());
        }
        let (kept, steps) = steps_of(|| TraceBuffer::attach(memory).map(|(_, salvage)| salvage.chunks_kept));
        assert!(kept.is_ok_and(|kept| kept >= chunks.min(512) / 2), "{kept:?} kept");
        let walks = steps / u64::from(chunks);
        assert!(walks <= 2 * 256, "{walks} walks over {chunks} chunks");
    }
}

#[test]
fn attaching_where_all_links_lead_to_one_large_chunk_that_is_none_looks_at_it_a_bounded_number_of_times() {
    const SIZE: u32 = 32;
    for (chunks, len) in if cfg!(miri) { [(16, 100), (32, 100)] } else { [(256, 4_000), (512, 60_000)] } {
        let place = chunks * SIZE;
        let mut buffer = buffer(place + 24 + len);
        for n in 0..chunks {
            let writer_id = 1 + n as u16 % 2;
            let header = ChunkHeader { writer_id, ..header(n / 2, 1, ChunkFlags::empty()) };
            commit(&mut buffer, header, b"\x07sevens.");
        }
        // Of empty packets, so that each byte is looked at.
        let last = header(chunks, len as u16, ChunkFlags::empty());
        assert_eq!(commit(&mut buffer, last, &std::vec![0; len as usize]).0, Commit::Written);
        let mut memory = buffer.into_memory();
        let region = memory.len() as u64;
        change(&mut memory, |state| {
            state.ring.front_mut(place).expect("a chunk").header.packets.set(1);
            for at in (0..place).step_by(2 * SIZE as usize) {
                state.ring.front_mut(at).expect("a chunk").links.prev.set(place);
                state.ring.words[(at + SIZE) as usize / 4] = Le32::new(0x8000_0000);
            }
        });
        let (kept, steps) = steps_of(|| TraceBuffer::attach(memory).map(|(_, salvage)| salvage.chunks_kept));
        assert!(kept.is_ok_and(|kept| kept > 0), "{kept:?} of {chunks} kept");
        assert!(steps <= 64 * region, "{} steps a byte", steps / region);
    }
}

#[test]
fn attaching_to_a_table_of_identities_with_one_hash_looks_at_each_a_bounded_number_of_times() {
    let sequences = if cfg!(miri) { 300 } else { 16_384 };
    // The inverse of the factor that makes the hash.
    let inverse = (0..5).fold(1_u32, |inverse, _| {
        inverse.wrapping_mul(2_u32.wrapping_sub(inverse.wrapping_mul(0x9E37_79B1)))
    });
    let mut buffer = with_sequences(sequences, 1024);
    plain(&mut buffer, 0);
    let mut memory = buffer.into_memory();
    let region = memory.len() as u64;
    change(&mut memory, |state| {
        let template = state.table[0];
        for (key, entry) in (1_u32..).zip(state.table.iter_mut().skip(1)) {
            let key = key.wrapping_mul(inverse);
            *entry = template;
            entry.producer_id.set((key >> 16) as u16);
            entry.writer_id.set(key as u16);
        }
    });
    let (attached, steps) = steps_of(|| TraceBuffer::attach(memory));
    let (mut buffer, salvage) = attached.expect("a region");
    assert_eq!((salvage.sequences_kept, salvage.chunks_kept), (257, 1));
    assert!(steps <= 16 * region, "{} steps a byte", steps / region);
    // Nor do those that come later have to look at more.
    assert!(plain(&mut buffer, 1).1 <= if crate::SMALL { u64::from(sequences) } else { 300 });
}

#[test]
fn a_newcomer_s_place_in_a_full_table_costs_a_bounded_number_of_looks() {
    let places = if cfg!(miri) { 64 } else { 5000 };
    let mut buffer = with_sequences(places, 1 << 19);
    let one = |writer_id: u16| ChunkHeader { writer_id, ..header(0, 1, ChunkFlags::empty()) };
    for writer in 1..=places {
        commit(&mut buffer, one(writer), &[1, 1]);
    }
    for writer in places + 1..places + 100 {
        let ((), steps) = steps_of(|| buffer.make_place(&one(writer)));
        let most = if crate::SMALL { 2 * u64::from(places) } else { 1024 };
        assert!(steps <= most + 10, "{steps}");
        assert_eq!(commit(&mut buffer, one(writer), &[1, 1]).0, Commit::Written);
    }
    assert_eq!(buffer.stats().chunks_overwritten, 99);
}

#[test]
fn a_sequence_is_found_at_once_also_among_many() {
    let mut buffer = with_sequences(if cfg!(miri) { 64 } else { 4096 }, 1 << 19);
    let one = |writer_id: u16| ChunkHeader { writer_id, ..header(0, 1, ChunkFlags::empty()) };
    let writers = if cfg!(miri) { 60 } else { 4000 };
    for writer in 1..=writers {
        commit(&mut buffer, one(writer), &[1, 1]);
    }
    let steps = (1..=writers).map(|writer| commit(&mut buffer, one(writer), &[1, 1]).1);
    let all: u64 = steps.sum();
    let each = if crate::SMALL { u64::from(writers) } else { 12 };
    assert!(all <= each * u64::from(writers), "{all} steps for {writers} sequences");
}
