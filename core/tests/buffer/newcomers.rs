//! Sequences that come when all places of the table have chunks.

use crate::bench::{Bench, NEXT, PREV, Sent, packet, small_table};
use tracebuf::buffer::{ChunkFlags, Commit, Config, FillPolicy, Refusal};

/// Commits a chunk of one packet for which a place is made.
fn come(b: &mut Bench, writer: u16, id: u32) -> Commit {
    let sent = Sent::new(id, &[packet(&[writer as u8, id as u8])]).writer(writer);
    b.buffer.make_place(sent.header());
    b.check();
    b.commit(sent)
}

/// Who wrote what is left, what it is, and whether something was lost before it.
fn left(b: &mut Bench) -> Vec<(u16, u8, bool)> {
    b.read_all().iter().map(|packet| (packet.writer, packet.bytes[1], !packet.loss.is_empty())).collect()
}

#[test]
fn the_sequence_that_was_silent_for_the_longest_gives_up_its_place() {
    let mut b = Bench::new(small_table(), 4096);
    for (writer, id) in [(1, 0), (2, 0), (2, 1), (3, 0), (4, 0), (1, 1)] {
        assert_eq!(come(&mut b, writer, id), Commit::Written);
    }
    // 2 has been silent since its second chunk; all of it goes, but nothing of 1, which began before it.
    assert_eq!(come(&mut b, 5, 0), Commit::Written);
    assert_eq!(come(&mut b, 5, 1), Commit::Written, "it has its place");
    let stats = b.stats();
    assert_eq!((stats.chunks_overwritten, stats.chunks_refused), (2, 0));
    // 2 comes again, and 3 goes.
    assert_eq!(come(&mut b, 2, 2), Commit::Written);
    let whole = |writer, id| (writer, id, false);
    let expected = [whole(1, 0), whole(4, 0), whole(1, 1), whole(5, 0), whole(5, 1), (2, 2, true)];
    let mut left = left(&mut b);
    left.sort_by_key(|packet| expected.iter().position(|other| other == packet));
    assert_eq!(left, expected);
}

#[test]
fn whoever_makes_up_writers_takes_places_of_its_own() {
    let mut b = Bench::new(small_table(), 4096);
    let come = |b: &mut Bench, producer: u16, writer: u16| {
        let sent = Sent::new(0, &[packet(&[writer as u8, 0])]).producer(producer).writer(writer);
        b.buffer.make_place(sent.header());
        b.check();
        assert_eq!(b.commit(sent), Commit::Written);
    };
    come(&mut b, 1, 1);
    come(&mut b, 1, 2);
    (1..50).for_each(|writer| come(&mut b, 2, writer));
    let of_first = |b: &Bench| b.buffer.sequences().filter(|of| of.producer_id == 1).count();
    // Where code must be small, all writers are trusted.
    let left = if cfg!(tracebuf_small) { 0 } else { 2 };
    assert_eq!(of_first(&b), left, "they were silent longer");
    // One that has none takes that of the longest silent.
    come(&mut b, 3, 1);
    assert_eq!(of_first(&b), left.saturating_sub(1));
}

#[test]
fn where_the_ring_has_lapped_age_is_counted_from_where_it_goes_on() {
    // The places of the four sequences lie in another order each time.
    for first in 0..40 {
        let mut b = Bench::new(small_table(), 400);
        for id in 0..first {
            come(&mut b, 9, id);
        }
        while b.buffer.read().next_packet().is_some() {}
        b.buffer.forget_producer(1);
        for writer in 1..=4 {
            assert_eq!(come(&mut b, writer, 0), Commit::Written);
        }
        for newcomer in 5..12 {
            assert_eq!(come(&mut b, newcomer, 0), Commit::Written);
            let writers = b.buffer.sequences().map(|sequence| sequence.writer_id);
            assert!(writers.eq_sorted(newcomer - 3..=newcomer), "{first} {newcomer}");
        }
    }
}

trait EqSorted: Iterator<Item = u16> + Sized {
    fn eq_sorted(self, expected: impl Iterator<Item = u16>) -> bool {
        let mut all: Vec<_> = self.collect();
        all.sort_unstable();
        all.into_iter().eq(expected)
    }
}

impl<I: Iterator<Item = u16>> EqSorted for I {}

#[test]
fn nobody_gives_up_a_place_that_is_not_needed() {
    let mut b = Bench::new(small_table(), 4096);
    for writer in 1..=4 {
        come(&mut b, writer, 0);
    }
    come(&mut b, 4, 1);
    assert_eq!(b.stats().chunks_overwritten, 0, "it has one");
    while b.buffer.read().next_packet().is_some() {}
    for writer in 5..=8 {
        assert_eq!(come(&mut b, writer, 0), Commit::Written);
    }
    assert_eq!(b.stats().chunks_overwritten, 0, "those of empty sequences are taken");
}

#[test]
fn a_buffer_that_discards_keeps_what_it_has() {
    let mut b = Bench::new(Config::new(FillPolicy::Discard).sequences(4), 4096);
    for writer in 1..=4 {
        come(&mut b, writer, 0);
    }
    assert_eq!(come(&mut b, 5, 0), Commit::Refused(Refusal::TableFull));
    assert_eq!(left(&mut b).len(), 4);
}

/// Chunks of any kind, of three times as many writers as there are places, read, patched and ended in between.
#[test]
fn a_newcomer_finds_a_place_whatever_the_others_have_there() {
    let mut state = 1_u64;
    let mut random = |most: u64| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) % most
    };
    for ring in [300, 700, 4096] {
        let mut b = Bench::new(small_table(), ring);
        for _ in 0..if cfg!(miri) { 100 } else { 3000 } {
            let (writer, id) = (1 + random(12) as u16, random(6) as u32);
            let flags = [ChunkFlags::empty(), NEXT, PREV, NEXT | PREV, NEXT | ChunkFlags::NEEDS_PATCHING];
            let packets = [packet(b"some"), packet(b"more of it")];
            let sent = Sent::new(id, &packets[random(2) as usize..]).writer(writer);
            let sent = sent.flags(flags[random(5) as usize]);
            let sent = if random(4) == 0 { sent.scraped() } else { sent };
            b.buffer.make_place(sent.header());
            b.check();
            assert_ne!(b.commit(sent), Commit::Refused(Refusal::TableFull));
            match random(20) {
                0 => drop(b.read_some(3)),
                1 => drop(b.patch_of(writer, id, &[], false)),
                2 => b.buffer.end_producer(1),
                _ => {}
            }
            b.check();
        }
        assert!(b.stats().chunks_overwritten > 0);
    }
}

#[test]
fn a_lease_of_what_was_given_up_ends() {
    let mut b = Bench::new(small_table(), 4096);
    for writer in 1..=4 {
        let sent = Sent::new(0, &[packet(b"leased"), packet(b"left")]).writer(writer);
        b.commit(sent);
    }
    let lease = b.buffer.read().lease_packet().unwrap();
    assert_eq!(b.buffer.leased(&lease).unwrap().writer_id(), 1);
    assert_eq!(come(&mut b, 5, 0), Commit::Written);
    assert!(b.buffer.leased(&lease).is_err(), "the place is another's");
}
