//! Tests of the table of writers.

use super::*;
use crate::steps::steps_of;

#[test]
fn chunks_are_told_apart_from_one_that_is_unfinished_wherever_ids_begin_anew() {
    for id in [0, 1, 0x3FFF, 0x7FFF, 0x8000, 0xFFFF, u32::MAX - 1, u32::MAX] {
        let unfinished = Unfinished::of(id);
        for step in [1, 2, 0x3FFE] {
            let (newer, older) = (id.wrapping_add(step), id.wrapping_sub(step));
            assert!(unfinished.is_before(newer) && !unfinished.is_behind(newer), "{id} {step}");
            assert!(unfinished.is_behind(older) && !unfinished.is_before(older), "{id} {step}");
        }
        assert!(!unfinished.is_before(id) && !unfinished.is_behind(id));
        assert!(!Unfinished::NONE.is_before(id) && !Unfinished::NONE.is_behind(id));
    }
    assert_eq!(size_of::<Writer>(), if cfg!(target_os = "none") { 20 } else { 28 });
}

fn whole(writer_id: u16, chunk_id: u32) -> ChunkHeader {
    ChunkHeader { writer_id, chunk_id, ..ChunkHeader::default() }
}

fn has_shown(writers: &Writers<2>, header: &ChunkHeader) -> bool {
    writers.get(header.writer_id).is_some_and(|writer| writer.has_shown(header))
}

fn show(writers: &mut Writers<2>, header: &ChunkHeader) {
    if let Some(writer) = writers.get_mut(header.writer_id) {
        writer.show(header);
    }
}

/// Whether the chunks from the last id but one on are known.
fn known(writers: &Writers<2>) -> [bool; 4] {
    [u32::MAX - 1, u32::MAX, 0, 1].map(|chunk_id| has_shown(writers, &whole(1, chunk_id)))
}

#[test]
fn chunks_shown_are_known_as_far_as_they_follow_each_other_until_their_commits_come() {
    let mut writers = Writers::<2>::new();
    assert!(writers.add(1, 0) && writers.add(2, 0) && !writers.add(3, 0));
    assert_eq!(known(&writers), [false; 4], "none was");
    assert!(!has_shown(&writers, &ChunkHeader { fragments: 1, complete: false, ..whole(1, 0) }));
    show(&mut writers, &whole(1, u32::MAX));
    show(&mut writers, &whole(1, 0));
    assert_eq!(known(&writers), [false, true, true, false]);
    assert!(!has_shown(&writers, &whole(2, u32::MAX)), "another's");
    show(&mut writers, &whole(1, u32::MAX));
    assert_eq!(known(&writers), [false, true, true, false], "shown again");
    // Behind a gap none is known, and those before it still are.
    show(&mut writers, &whole(1, 2));
    assert_eq!(known(&writers), [false, true, true, false]);
    assert!(!has_shown(&writers, &whole(1, 2)));
    // Those that are older change nothing.
    let before = [false, true, true, false];
    for (passed, expected) in
        [(u32::MAX - 7, before), (u32::MAX - 1, before), (u32::MAX, [false, false, true, false])]
    {
        writers.get_or_see(1).unwrap().pass(passed);
        assert_eq!(known(&writers), expected);
    }
    writers.get_or_see(1).unwrap().pass(1);
    assert_eq!(known(&writers), [false; 4]);
    show(&mut writers, &whole(1, 3));
    assert!(!has_shown(&writers, &whole(1, 2)) && has_shown(&writers, &whole(1, 3)));
    // The next writer of the number has shown nothing.
    writers.remove(1);
    assert!(writers.add(1, 0) && !has_shown(&writers, &whole(1, 3)));
}

#[test]
fn an_unfinished_chunk_is_known_until_there_is_more_in_it() {
    let begun = |fragments| ChunkHeader { fragments, complete: false, ..whole(1, 8) };
    for shown_before in [false, true] {
        let mut writers = Writers::<2>::new();
        assert!(writers.add(1, 0));
        if shown_before {
            show(&mut writers, &whole(1, 7));
        }
        show(&mut writers, &begun(2));
        let is_known = |writers: &_| [&begun(2), &begun(3), &whole(1, 8)].map(|it| has_shown(writers, it));
        assert_eq!(is_known(&writers), [true, false, false]);
        show(&mut writers, &begun(3));
        assert_eq!(is_known(&writers), [false, true, false]);
        writers.get_or_see(1).unwrap().pass(7);
        assert_eq!(is_known(&writers), [false, true, false]);
        show(&mut writers, &whole(1, 8));
        assert_eq!(is_known(&writers), [true; 3], "all of it");
        writers.get_or_see(1).unwrap().pass(8);
        assert_eq!(is_known(&writers), [false; 3]);
    }
    // Nor is the next one taken for it.
    for is_committed in [false, true] {
        let mut writers = Writers::<2>::new();
        assert!(writers.add(1, 0));
        show(&mut writers, &begun(2));
        if is_committed {
            writers.get_or_see(1).unwrap().pass(8);
        } else {
            show(&mut writers, &whole(1, 8));
        }
        for fragments in [1, 2] {
            assert!(!has_shown(&writers, &ChunkHeader { chunk_id: 9, ..begun(fragments) }), "{is_committed}");
        }
    }
}

#[test]
fn how_far_a_scrape_goes_while_patches_are_to_come_is_counted_from_their_chunk_where_none_was_shown() {
    // As for a writer that goes on at a new endpoint: its first chunk there can have any id.
    for id in [0, 1 << 20, u32::MAX - 7] {
        let mut writer = Writer::new(1, 0, Registration::Begun);
        let waiting = |chunk_id| ChunkHeader { flags: ChunkFlags::NEEDS_PATCHING, ..whole(1, chunk_id) };
        // Offered again by its commit.
        writer.offer(&waiting(id));
        writer.offer(&waiting(id));
        // Of the next one, nothing was shown.
        let next = ChunkHeader { fragments: 1, complete: false, ..whole(1, id.wrapping_add(1)) };
        assert!(!writer.has_shown(&next));
        let is_too_far = |writer: &Writer, ahead: u32| writer.is_too_far(&whole(1, id.wrapping_add(ahead)));
        let is_told = |writer: &Writer| [1, MOST_AHEAD + 1, MOST_AHEAD + 2].map(|it| is_too_far(writer, it));
        assert_eq!(is_told(&writer), [false, false, true]);
        writer.patched();
        assert_eq!(is_told(&writer), [false; 3], "all patches have come");
        writer.patched();
        assert_eq!(is_told(&writer), [false; 3], "none was to come");
        // Of two chunks, those of one have come.
        writer.offer(&waiting(id.wrapping_add(1)));
        writer.offer(&waiting(id.wrapping_add(2)));
        writer.patched();
        assert!(is_too_far(&writer, MOST_AHEAD + 4));
    }
}

#[test]
fn a_producer_has_a_registered_writer_beside_those_of_which_only_chunks_are_known() {
    let mut writers = Writers::<2>::new();
    assert!(!writers.has_registered());
    assert!(writers.get_or_see(1).is_some() && !writers.has_registered());
    assert!(writers.add(2, 0) && writers.has_registered());
}

#[test]
fn how_a_writer_counted_that_has_ended_is_known_as_long_as_there_is_room() {
    let mut writers = Writers::<3>::new();
    assert!(writers.add(1, 0) && writers.add(2, 0));
    writers.end(1);
    assert!(writers.add(3, 0));
    assert!(writers.counting(1, 0).is_some());
    assert!(writers.add(4, 0), "in the place of the first");
    assert!(writers.counting(1, 0).is_none());
    // What is said again about one that has ended is not about it.
    writers.end(2);
    writers.end(2);
    assert!(writers.counting(2, 0).is_none());
}

/// Otherwise a producer whose writers take all places could hold up the service by chunks of others.
#[test]
fn for_one_that_finds_no_place_those_that_have_ended_are_only_looked_for_if_there_are_any() {
    let mut writers = Writers::<64>::new();
    for id in 0..64 {
        assert!(writers.add(id, 0));
    }
    let looks_for_another = |writers: &mut Writers<64>| {
        let (seen, steps) = steps_of(|| writers.get_or_see(100).is_some());
        assert!(!seen);
        steps
    };
    let looks = looks_for_another(&mut writers);
    assert!(looks <= 16, "{looks}");
    // The same once some have ended and made place for others.
    writers.end(1);
    assert!(writers.add(70, 0));
    writers.end(2);
    writers.remove(2);
    assert!(writers.add(71, 0));
    assert_eq!(looks_for_another(&mut writers), looks);
}
