//! Dumps that something has overwritten.

use proptest::prelude::*;
use std::vec::Vec;

use std::sync::atomic::{AtomicU32, Ordering};

use super::super::layout::{FRONT, kind};
use super::super::{ChunkView, Recorder, Region, RegionView};
use super::{dump, timer, told};

/// Decodes all there is; returns how much that was.
fn decode(dump: &[u8]) -> usize {
    let Some(view) = RegionView::find(dump) else { return 0 };
    let records = view.chunks().flat_map(|chunk| chunk.records());
    records.filter_map(|record| record.ok().map(|(_, record)| told(&view, record).len())).sum::<usize>() + 1
}

fn recorded() -> Vec<u8> {
    let trace = Region::<16, 64, 16, 32>::zeroed();
    let recorder = Recorder::new(&trace, || 0, 1_000);
    let writer = recorder.writer("w");
    for value in 0..300 {
        writer.instant_with("x", |details| {
            details.arg("n", value).arg_text("t", "text").flow(3);
        });
    }
    drop(writer);
    dump(&trace)
}

proptest! {
    #[test]
    fn damaged_dumps_are_decoded_as_far_as_they_go(
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..60),
        len in any::<prop::sample::Index>(),
    ) {
        let mut dump = recorded();
        prop_assert!(decode(&dump) > 1);
        for (at, byte) in changes {
            *at.get_mut(&mut dump) = byte;
        }
        decode(&dump);
        // The header is what it was, so that the rest is looked at.
        let whole = recorded();
        dump[..64].copy_from_slice(&whole[..64]);
        prop_assert!(decode(&dump) > 0);
        decode(&dump[..len.index(dump.len())]);
    }
}

/// With sums, whatever bit is another one in a complete chunk is noticed; without them, nothing is said.
#[test]
fn any_bit_that_changes_in_a_complete_chunk_is_noticed_by_its_sum() {
    let whole = recorded();
    let view = RegionView::find(&whole).expect("a region");
    assert_eq!(view.has_sums(), cfg!(feature = "inplace-crc"));
    let chunks: Vec<_> = view.chunks().collect();
    let open = chunks.iter().filter(|chunk| chunk.is_open()).count();
    let intact = chunks.iter().filter(|chunk| chunk.is_intact() == Some(true)).count();
    assert_eq!((open, intact), (0, if view.has_sums() { chunks.len() } else { 0 }));
    if !view.has_sums() {
        return;
    }
    // Of the last chunk of the dump, up to its sum, but for the state and the position of its first word.
    let first = whole.len() - 128;
    let used = chunks.last().expect("chunks").records().count() + 4;
    let writer = first * 8 + 24..first * 8 + 30;
    for at in writer.chain((first + 4) * 8..(first + used * 4) * 8) {
        let mut dump = whole.clone();
        dump[at / 8] ^= 1 << (at % 8);
        let chunk = RegionView::find(&dump).and_then(|view| view.chunks().last()).expect("a chunk");
        assert_ne!(chunk.is_intact(), Some(true), "bit {at}");
    }
}

/// A reset completes what was open.
#[test]
fn what_a_restart_completes_has_a_sum_too() {
    static TRACE: Region<16, 64, 4, 32> = Region::zeroed();
    for start in 1..4 {
        let (recorder, _) = Recorder::attach_or_new(&TRACE, || 0, 1_000);
        let writer = recorder.writer("w");
        (0..start).for_each(|value| writer.count("n", value));
        core::mem::forget(writer);
        let dump = dump(&TRACE);
        let view = RegionView::find(&dump).expect("a region");
        for chunk in view.chunks() {
            let expected = (!chunk.is_open() && view.has_sums()).then_some(true);
            assert_eq!(chunk.is_intact(), expected);
        }
    }
}

/// Whether a writer may have recorded all that is there.
fn is_likely(dump: &[u8]) -> bool {
    let view = RegionView::find(dump).expect("a region");
    let mut chunks: Vec<_> = view.chunks().collect();
    chunks.sort_by_key(|chunk| (chunk.writer(), chunk.number()));
    let is_next = |pair: &&[ChunkView<'_>]| {
        pair[0].writer() == pair[1].writer() && pair[0].number() + 1 == pair[1].number()
    };
    chunks.iter().all(|chunk| view.is_likely(chunk))
        && chunks.windows(2).filter(is_next).all(|pair| pair[0].may_precede(&pair[1]))
}

#[test]
#[cfg_attr(miri, ignore = "it reads a hundred dumps")]
fn what_no_writer_can_have_recorded_is_not_likely() {
    timer!(TIME, ticks);
    let trace = Region::<16, 64, 16, 32>::zeroed();
    let recorder = Recorder::new(&trace, ticks, 1_000);
    let (writer, motor) = (recorder.writer("w"), recorder.track("motor", 1));
    for value in 0..200 {
        TIME.store(value as u32 * 1000, Ordering::Relaxed);
        writer.switch_to(Some(motor));
        writer.count("n", value);
        writer.on(motor).begin_with("x", |details| {
            details.arg("a", value).flow(3);
        });
    }
    drop(writer);
    let whole = dump(&trace);
    assert!(is_likely(&whole));
    let chunks = 64 + 16 * 8 + 64 * 4..whole.len();
    let front = 4 * FRONT as usize;
    let numbers: Vec<_> = {
        let view = RegionView::find(&whole).expect("a region");
        (1..16).filter_map(|number| Some((number, view.name(number)?.is_track))).collect()
    };
    assert!(numbers.len() >= 3, "{numbers:?}");
    assert_eq!(RegionView::find(&whole).map(|view| view.chunks().count()), Some(16));
    let mut emptied = 0;
    for chunk in chunks.step_by(128) {
        let with = |at: usize, words: &[u32]| {
            let mut dump = whole.clone();
            let bytes: Vec<_> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
            dump[chunk + at..][..bytes.len()].copy_from_slice(&bytes);
            is_likely(&dump)
        };
        assert!(!with(8, &[1]), "{chunk}: later than the device's clock");
        // Nothing where something was.
        emptied += usize::from(with(front, &[0]));
        // A task, a counter or a name that is of another kind. (A step of no time, so that nothing else is wrong.)
        for (number, is_track) in &numbers {
            let word = |kind: u32| [kind << 29 | number << 18];
            assert!(*is_track || !with(front, &word(kind::SWITCH)), "{number}");
            for kind in [kind::BEGIN, kind::INSTANT] {
                assert!(!is_track || !with(front, &word(kind)), "{number}");
            }
        }
    }
    assert_eq!(emptied, 1, "the newest, behind which there is none");
    let view = RegionView::find(&whole).expect("a region");
    assert!(
        view.has_writer(1, 0) && !view.has_writer(1, 1) && !view.has_writer(2, 0) && !view.has_writer(1, 63)
    );
}
