//! Dropped chunks, and the reasons given for them.

use super::crash::attach;
use crate::buffer::region::State;
use crate::buffer::sequence_state::Status;
use crate::buffer::tb_chunk::{Flags, Item, Links, TBChunk};
use crate::buffer::tests::memory::{Memory, change};
use crate::buffer::tests::with_options;
use crate::buffer::words::Le32;
use crate::buffer::*;
use std::string::ToString;
use std::vec::Vec;

pub(super) const ROOM: usize = 16;
/// Bytes of a chunk in the ring, with a checksum.
pub(super) const OUTER: u32 = 24 + ROOM as u32 + 4;

pub(super) fn header(writer_id: u16, chunk_id: u32) -> ChunkHeader {
    ChunkHeader { producer_id: 1, writer_id, chunk_id, fragments: 2, ..ChunkHeader::default() }
}

fn buffer(crc: bool) -> TraceBuffer<Memory> {
    let config = with_options(Config::new(FillPolicy::RingBuffer).sequences(4), crc, false);
    let memory = Memory::filled(0, config.region_size(600) as usize);
    TraceBuffer::new(memory, config).expect("room")
}

/// Three chunks of writer 1 and, between them, three of writer 2, each of two packets.
pub(super) fn region(crc: bool) -> Memory {
    let mut buffer = buffer(crc);
    for chunk_id in 0..3 {
        for writer in 1..=2 {
            let packet = |fill| [&[7u8][..], &[fill; 7]].concat();
            let payload = [packet(writer as u8), packet(chunk_id as u8)].concat();
            assert_eq!(payload.len(), ROOM);
            let chunk = Chunk { header: header(writer, chunk_id), payload: &payload };
            assert_eq!(buffer.copy_chunk_untrusted(&chunk), Commit::Written);
        }
    }
    buffer.into_memory()
}

/// Chunks of writer 1 with these ids, each of two packets.
pub(super) fn region_of(ids: &[u32]) -> Memory {
    let mut buffer = buffer(false);
    for id in ids {
        let chunk = Chunk { header: header(1, *id), payload: &[1, 7, 1, 8] };
        assert_eq!(buffer.copy_chunk_untrusted(&chunk), Commit::Written);
    }
    buffer.into_memory()
}

/// Changes the header of the chunk that lies there.
pub(super) fn change_chunk(memory: &mut Memory, at: u32, work: impl FnOnce(&mut TBChunk, &mut Links)) {
    change(memory, |state| {
        let front = state.ring.front_mut(at).expect("a chunk");
        work(&mut front.header, &mut front.links);
    });
}

pub(super) fn set_flags(chunk: &mut TBChunk, flags: Flags) {
    chunk.word = Le32::new(TBChunk::word_of(chunk.room(), flags));
}

/// Checks that what attaching has put right is right, and returns how many chunks are left.
pub(super) fn mended_once(memory: &[u8]) -> u32 {
    let (buffer, salvage) = attach(memory);
    let (_, again) = attach(&buffer.into_memory());
    let Salvage { chunks_kept, sequences_kept, .. } = salvage;
    assert_eq!(again, Salvage { chunks_kept, sequences_kept, ..Salvage::default() });
    chunks_kept
}

/// What is said to have been dropped, and the packets that are left of both writers, with what was lost before.
pub(super) fn found(memory: Memory) -> (Salvage, Vec<(u16, u8, bool)>) {
    let (mut buffer, salvage) = attach(&memory);
    let (mut reader, mut packets) = (buffer.read(), Vec::new());
    while let Some(packet) = reader.next_packet() {
        let bytes: Vec<u8> = packet.slices().flatten().copied().collect();
        packets.push((packet.writer_id(), bytes[0], !packet.loss().is_empty()));
    }
    if !cfg!(miri) {
        mended_once(&memory);
    }
    (salvage, packets)
}

pub(super) fn kept(chunks: u32) -> Salvage {
    Salvage { chunks_kept: chunks, sequences_kept: 2, ..Salvage::default() }
}

#[test]
fn of_a_whole_region_nothing_is_dropped() {
    for crc in [false, true] {
        let (salvage, packets) = found(region(crc));
        assert_eq!(salvage, kept(6));
        assert!(salvage.is_clean() && salvage.chunks_dropped() == 0);
        assert_eq!(salvage.to_string(), "6 chunks of 2 sequences kept");
        assert_eq!(packets.len(), 12);
        assert!(packets.iter().all(|(_, _, loss)| !loss));
    }
}

#[test]
fn a_chunk_that_contradicts_itself_is_malformed() {
    let changes: [fn(&mut TBChunk); 8] = [
        |chunk| chunk.valid.set(ROOM as u16 + 1),
        |chunk| chunk.read.set(ROOM as u16 + 1),
        |chunk| chunk.read.set(3),
        |chunk| chunk.packets.set(1),
        |chunk| set_flags(chunk, Flags::SINGLE),
        |chunk| set_flags(chunk, Flags::EMPTY_LAST),
        |chunk| set_flags(chunk, Flags::INCOMPLETE | Flags::CONTINUES_ON_NEXT),
        |chunk| set_flags(chunk, Flags::INCOMPLETE | Flags::NEEDS_PATCHING),
    ];
    for (n, work) in changes.into_iter().enumerate() {
        let mut memory = region(false);
        // The second chunk of writer 1.
        change_chunk(&mut memory, 2 * (OUTER - 4), |chunk, _| work(chunk));
        let (salvage, packets) = found(memory);
        assert_eq!(salvage, Salvage { chunks_malformed: 1, ..kept(5) }, "{n}");
        assert!(!salvage.is_clean() && salvage.chunks_dropped() == 1);
        assert_eq!(salvage.to_string(), "5 chunks of 2 sequences kept, 1 chunk dropped as malformed");
        let of_1: Vec<_> = packets.iter().filter(|packet| packet.0 == 1).map(|one| (one.1, one.2)).collect();
        // Before the first packet after it, and not earlier.
        assert_eq!(of_1, [(1, false), (0, false), (1, true), (2, false)], "{n}");
    }
}

#[cfg(feature = "crc")]
#[test]
fn a_chunk_whose_checksum_is_wrong_is_dropped_wherever_the_bit_is() {
    for (at, mask) in [(8, 2), (11, 1), (24, 1), (24 + ROOM - 1, 0x80), (24 + ROOM, 1)] {
        let mut memory = region(true);
        let start = memory.len() - memory.len() % 4 - 600 + 2 * OUTER as usize;
        memory[start + at] ^= mask;
        let (salvage, packets) = found(memory);
        assert_eq!((salvage.chunks_kept, salvage.chunks_dropped()), (5, 1), "{at}: {salvage}");
        assert_eq!(packets.len(), 10, "{at}");
    }
}

#[test]
fn chunks_of_a_sequence_that_is_nobody_belong_to_none() {
    let forget: [fn(&mut State<'_>); 2] = [
        |state| state.sequence_mut(0).expect("a sequence").remove(Status::IN_USE),
        |state| {
            let nobody = state.sequence_mut(0).expect("a sequence");
            nobody.producer_id.set(0);
            nobody.writer_id.set(0);
        },
    ];
    for work in forget {
        let mut memory = region(false);
        change(&mut memory, work);
        let (salvage, packets) = found(memory);
        assert_eq!(salvage, Salvage { chunks_of_no_sequence: 3, sequences_kept: 1, ..kept(3) });
        assert!(packets.iter().all(|packet| packet.0 == 2) && packets.len() == 6);
    }
    // Its later packets say that something was before them, and no others do.
    for (writer, chunk_id, is_lost) in [(1, 3, true), (2, 3, false), (3, 0, false)] {
        let mut memory = region(false);
        change(&mut memory, forget[0]);
        let (mut buffer, _) = TraceBuffer::attach(memory).expect("a region");
        let mut reader = buffer.read();
        while reader.next_packet().is_some() {}
        let chunk = Chunk { header: header(writer, chunk_id), payload: &[1, 7, 1, 8] };
        assert_eq!(buffer.copy_chunk_untrusted(&chunk), Commit::Written);
        let loss = buffer.read().next_packet().expect("a packet").loss();
        let expected = if is_lost { DataLoss::ANY | DataLoss::READ_GAP } else { DataLoss::empty() };
        assert_eq!(loss, expected, "chunk {chunk_id} of {writer}");
    }
    // One of the two numbers may be 0.
    for (producer, writer) in [(0, 9), (9, 0)] {
        let mut memory = region(false);
        change(&mut memory, |state| {
            let someone = state.sequence_mut(0).expect("a sequence");
            someone.producer_id.set(producer);
            someone.writer_id.set(writer);
        });
        assert_eq!(found(memory).0, kept(6));
    }
}

#[test]
fn of_two_chunks_with_one_number_one_is_dropped() {
    let mut memory = region(false);
    change_chunk(&mut memory, 4 * (OUTER - 4), |chunk, _| chunk.chunk_id.set(0));
    let (salvage, packets) = found(memory);
    assert_eq!(salvage, Salvage { chunks_out_of_order: 1, ..kept(5) });
    // Its number is not known: the loss is reported at once.
    assert_eq!(
        packets.iter().map(|packet| packet.2).collect::<Vec<_>>(),
        [&[true][..], &[false; 9]].concat()
    );
}

#[test]
fn of_two_sequences_with_one_name_neither_can_be_believed_if_both_have_chunks() {
    let mut memory = region(false);
    change(&mut memory, |state| state.sequence_mut(1).expect("a sequence").writer_id.set(1));
    let (mut buffer, salvage) = TraceBuffer::attach(memory).expect("a region");
    assert_eq!((salvage.chunks_kept, salvage.sequences_kept), (0, 0), "{salvage}");
    // The name is free for a new one.
    let chunk = Chunk { header: header(1, 7), payload: b"\x01a\x01b" };
    assert_eq!(buffer.copy_chunk_untrusted(&chunk), Commit::Written);
    assert_eq!((buffer.sequences().count(), found(buffer.into_memory()).1.len()), (1, 2));

    // One without chunks gives way to the one that has them, whichever comes first in the table.
    for (empty, full) in [(0, 1), (1, 0)] {
        let mut memory = region(false);
        change(&mut memory, |state| {
            for at in [0, 2, 4].map(|n| (n + empty) * (OUTER - 4)) {
                let chunk = state.ring.chunk(at).expect("a chunk");
                state.ring.set_gap(at, Item::Free(chunk.outer_size()));
            }
            let name = state.sequence(full as u16).expect("a sequence").writer_id;
            state.sequence_mut(empty as u16).expect("a sequence").writer_id = name;
        });
        let (salvage, packets) = found(memory);
        assert_eq!((salvage.chunks_kept, salvage.sequences_kept, packets.len()), (3, 1, 6), "{salvage}");
    }
}

/// Makes the `n`-th chunk a gap that goes beyond all there is.
fn break_item(state: &mut State<'_>, n: u32) {
    state.ring.words[(n * (OUTER - 4) / 4) as usize] = Le32::new(1 << 31 | 0x3FFF_FFFF);
}

#[test]
fn behind_what_is_no_item_the_next_chunk_that_somebody_knows_is_found() {
    for broken in [0, 1, 2, 3, 4] {
        let mut memory = region(false);
        change(&mut memory, |state| break_item(state, broken));
        let (salvage, packets) = found(memory);
        assert_eq!(salvage.bytes_unreadable, u64::from(OUTER - 4), "{broken}: {salvage}");
        assert_eq!((salvage.chunks_kept, packets.len()), (5, 10), "{broken}: {salvage}");
        assert_eq!(salvage.to_string(), "5 chunks of 2 sequences kept, 40 bytes unreadable");
    }
}

/// What is found after `change_more` has changed something after a broken second chunk.
fn behind_a_broken_chunk(change_more: impl FnOnce(&mut State<'_>)) -> Salvage {
    let mut memory = region(false);
    change(&mut memory, |state| {
        break_item(state, 1);
        change_more(state);
    });
    found(memory).0
}

#[test]
fn where_the_search_goes_on_something_else_must_lead_and_a_sound_chunk_must_be() {
    let one = OUTER - 4;
    let unreadable = |chunks: u32| u64::from(chunks * one);
    // Into the payload of the broken one: not where a chunk begins.
    let salvage = behind_a_broken_chunk(|state| {
        state.ring.words[(one + 32) as usize / 4] = Le32::new(0x0100_0107);
        state.sequence_mut(1).expect("a sequence").set_first(one + 32);
    });
    assert_eq!((salvage.chunks_kept, salvage.bytes_unreadable), (5, unreadable(1)), "{salvage}");
    // To one that contradicts itself, which leads nowhere itself: it goes on with the last of its sequence.
    let salvage = behind_a_broken_chunk(|state| {
        state.ring.front_mut(2 * one).expect("a chunk").header.read.set(3);
    });
    assert_eq!((salvage.chunks_kept, salvage.chunks_malformed), (3, 0), "{salvage}");
    assert_eq!(salvage.bytes_unreadable, unreadable(3), "{salvage}");
}

#[test]
fn a_chunk_with_bits_that_mean_nothing_is_no_item() {
    let mut memory = region(false);
    change_chunk(&mut memory, OUTER - 4, |chunk, _| chunk.word = Le32::new(chunk.word.get() | 1 << 27));
    let (salvage, packets) = found(memory);
    assert_eq!((salvage.bytes_unreadable, salvage.chunks_kept, packets.len()), (40, 5, 10));
}

#[test]
fn where_the_ring_ends_is_found_if_the_header_does_not_know() {
    for used in [0, 2, 20, 36, 240, 244, 596, 604, u32::MAX] {
        let mut memory = region(false);
        change(&mut memory, |state| state.header.used.set(used));
        let (salvage, packets) = found(memory);
        // An end between two chunks could be true.
        let chunks = if used == 0 { 0 } else { 6 };
        assert_eq!(
            (salvage, packets.len()),
            (Salvage { sequences_kept: 2, ..kept(chunks) }, chunks as usize * 2),
            "{used}"
        );
    }
}

#[test]
fn who_was_there_is_known_by_name() {
    let (mut buffer, _) = TraceBuffer::attach(region(false)).expect("a region");
    for writer in [1, 2, 1] {
        let chunk_id = buffer.stats().chunks_written as u32;
        let chunk = Chunk { header: header(writer, chunk_id), payload: b"\x01a\x01b" };
        assert_eq!(buffer.copy_chunk_untrusted(&chunk), Commit::Written);
    }
    assert_eq!(buffer.sequences().count(), 2);
}

#[test]
fn every_cause_has_its_words() {
    let salvage = Salvage {
        chunks_kept: 1,
        chunks_cut: 2,
        chunks_reverted: 3,
        sequences_kept: 4,
        chunks_malformed: 5,
        chunks_checksum_wrong: 6,
        chunks_of_no_sequence: 7,
        chunks_out_of_order: 8,
        chunks_unfinished: 9,
        bytes_unreadable: 10,
    };
    assert_eq!(salvage.chunks_dropped(), 35);
    let text = salvage.to_string();
    for n in 1..=10 {
        assert!(text.split([' ', ',']).any(|word| word == n.to_string()), "{n}: {text}");
    }
    for only in [
        Salvage { chunks_cut: 1, ..Salvage::default() },
        Salvage { chunks_reverted: 1, ..Salvage::default() },
        Salvage { bytes_unreadable: 1, ..Salvage::default() },
        Salvage { chunks_unfinished: 1, ..Salvage::default() },
    ] {
        assert!(!only.is_clean(), "{only}");
    }
}

#[test]
fn a_patched_chunk_is_kept_if_reading_can_go_on_in_it() {
    for (read, fits) in [(0, true), (16, true), (3, false), (8, false)] {
        let mut memory = region(false);
        change_chunk(&mut memory, 0, |chunk, _| {
            set_flags(chunk, chunk.flags() | Flags::PATCHED);
            chunk.read.set(read);
        });
        // Its first size leaves the chunk: no other fragment can be found.
        change(&mut memory, |state| state.ring.payload_mut(0, 1).expect("a chunk")[0] = 0x7F);
        let salvage = attach(&memory).1;
        assert_eq!(
            (salvage.chunks_kept, salvage.chunks_malformed),
            if fits { (6, 0) } else { (5, 1) },
            "{read}"
        );
    }
}
