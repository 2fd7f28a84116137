//! Half-made changes, and their repair.

use super::crash::attach;
use super::dropped::{OUTER, ROOM, change_chunk, found, kept, region, set_flags};
use crate::buffer::change::ChangeKind;
use crate::buffer::tb_chunk::{Flags, Links, TBChunk};
use crate::buffer::tests::memory::change;
use crate::buffer::*;
use std::vec::Vec;

/// A chunk in the middle of a change, from the byte `from` on.
fn busy(chunk: &mut TBChunk, links: &mut Links, from: u32, is_patch: bool) {
    set_flags(chunk, chunk.flags() | Flags::BUSY);
    links.prev.set(from | u32::from(is_patch) << 16);
}

#[test]
fn what_was_being_changed_is_what_it_had_been_or_ends_before_it() {
    let unfinished = || Salvage { chunks_unfinished: 1, ..kept(5) };
    for (from, is_patch, read, expected, left) in [
        (16, false, 0, Salvage { chunks_reverted: 1, ..kept(6) }, 12),
        (16, false, 8, Salvage { chunks_reverted: 1, ..kept(6) }, 12),
        // Not where a fragment ends: either the change was never one of ours, or the read position was not a reader's.
        (9, false, 0, unfinished(), 10),
        (17, false, 0, unfinished(), 10),
        (16, false, 9, unfinished(), 10),
        (16, true, 9, unfinished(), 10),
        (9, true, 0, Salvage { chunks_cut: 1, ..kept(6) }, 11),
        (9, true, 9, Salvage { chunks_cut: 1, ..kept(6) }, 11),
        (3, true, 0, Salvage { chunks_cut: 1, ..kept(6) }, 10),
    ] {
        let mut memory = region(false);
        change_chunk(&mut memory, 2 * (OUTER - 4), |chunk, links| {
            busy(chunk, links, from, is_patch);
            chunk.read.set(read);
        });
        let (salvage, packets) = found(memory);
        assert_eq!((salvage, packets.len()), (expected, left), "{from} {is_patch} {read}: {salvage}");
    }
}

#[test]
fn what_a_crash_left_half_changed_is_sound_once_it_was_attached() {
    for (crc, from, kind) in [
        (false, 16, ChangeKind::Growth),
        (cfg!(feature = "crc"), 16, ChangeKind::Growth),
        (false, 11, ChangeKind::Patch),
        (cfg!(feature = "crc"), 11, ChangeKind::Patch),
    ] {
        let mut memory = region(crc);
        let at = if crc { OUTER } else { OUTER - 4 };
        change(&mut memory, |state| {
            let chunk = state.ring.chunk(at).expect("a chunk");
            state.begin_change(&chunk, from, kind).expect("a chunk");
        });
        let changed = memory.clone();
        let (buffer, salvage) = TraceBuffer::attach(memory).expect("a region");
        assert_eq!((salvage.chunks_kept, salvage.chunks_dropped()), (6, 0), "{salvage}");
        assert_eq!(
            (salvage.chunks_cut, salvage.chunks_reverted),
            if kind == ChangeKind::Patch { (1, 0) } else { (0, 1) }
        );
        let (salvage, packets) = found(buffer.into_memory());
        assert_eq!((salvage, packets.len()), (kept(6), if kind == ChangeKind::Patch { 11 } else { 12 }));
        // What is before the change must match its checksum, if there is one.
        let mut memory = changed;
        change(&mut memory, |state| state.ring.payload_mut(at, 3).expect("a chunk")[2] ^= 1);
        let dropped = u32::from(crc);
        assert_eq!(found(memory).0.chunks_unfinished, dropped);
    }
}

#[test]
fn a_chunk_that_was_being_completed_keeps_all_its_bytes() {
    let mut memory = region(false);
    change_chunk(&mut memory, 0, |chunk, links| {
        set_flags(chunk, chunk.flags() | Flags::BUSY | Flags::INCOMPLETE);
        links.prev.set(ROOM as u32);
    });
    let (mut buffer, salvage) = attach(&memory);
    assert_eq!(salvage, Salvage { chunks_reverted: 1, ..kept(6) });
    let mut reader = buffer.read();
    for fill in [1, 0] {
        let packet = reader.next_packet().expect("two packets");
        assert_eq!(packet.slices().collect::<Vec<_>>(), [[fill; 7]]);
    }
}
