//! Names that the linker has numbered, beside those of the table.

use std::vec::Vec;

use super::super::layout::header;
use super::super::{LINKED_NAMES, LinkedName, Memory, Name, Record, Recorder, Region, RegionView};
use super::{Detail, Value, dump};

/// As the linker of a build gives them, on whatever this runs.
#[derive(Clone, Copy)]
struct Of<const BUILD: u32>(u32);

impl<const BUILD: u32> Name for Of<BUILD> {
    fn address(self) -> usize {
        unreachable!("it has a number")
    }

    fn known_len(self) -> Option<usize> {
        unreachable!("it has a number")
    }

    fn text(self) -> &'static str {
        unreachable!("it has a number")
    }

    fn number(self) -> Option<u32> {
        Some(self.0)
    }

    fn build() -> u32 {
        BUILD
    }
}

const FIRST: u32 = *LINKED_NAMES.start();

/// The numbers of names in all events.
fn numbers(view: &RegionView<'_>) -> Vec<u32> {
    let records = view.chunks().flat_map(|chunk| chunk.records()).map(|record| record.expect("an event").1);
    let number = |record| match record {
        Record::Begin { name } | Record::Instant { name } => name,
        Record::Count { counter, .. } | Record::Measure { counter, .. } => counter,
        Record::Detail(Detail::Arg(name, Value::I32(_) | Value::Text(_))) => name,
        _ => 0,
    };
    records.map(number).filter(|number| *number != 0).collect()
}

fn words_of<M: Memory>(region: &M, index: usize) -> u32 {
    region.header(index).load(super::Ordering::Relaxed)
}

#[test]
fn linked_names_are_their_numbers_everywhere_and_take_no_place_in_the_table() {
    // One place, which is the track's.
    let region = Region::<1, 4, 4>::zeroed();
    let writer = Recorder::new(&region, || 7, 1_000).writer("thread");
    let used = words_of(&region, header::TEXT_USED);
    let (first, last) = (*LINKED_NAMES.start(), *LINKED_NAMES.end());
    drop(writer.named(Of::<0>(first)).enter());
    writer.named(Of::<0>(last)).instant();
    writer.named(Of::<0>(first + 1)).count(-1);
    writer.named(Of::<0>(first + 2)).count_i64(i64::MIN);
    writer.named(Of::<0>(first + 3)).measure(0.5);
    let track = writer.track("thread", 1);
    writer.on(track).begin(Of::<0>(first + 4));
    writer.instant_with(Of::<0>(first + 5), |details| {
        details.arg(Of::<0>(first + 6), -1).arg_text(Of::<0>(last), "text");
    });
    writer.log(4, Of::<0>(first + 7), "line");
    let bytes = dump(&region);
    let view = RegionView::find(&bytes).expect("a region");
    let later = [4, 6].map(|ahead| first + ahead);
    let mut wanted = Vec::from([first, last, first + 1, first + 2, first + 3]);
    wanted.extend([later[0], later[1], last, first + 5, first + 7]);
    assert_eq!(numbers(&view), wanted);
    assert!(LINKED_NAMES.clone().all(|number| view.name(number).is_none()), "they are in no table");
    assert_eq!(words_of(&region, header::TEXT_USED), used);
    // The track, for which there was no room beside the thread's.
    assert_eq!(view.unnamed(), 1);
}

#[test]
fn no_number_of_a_full_table_is_a_linked_name() {
    let region = Region::<1024, 8, 4>::zeroed();
    let recorder = Recorder::new(&region, || 7, 1_000);
    let writer = recorder.writer("thread");
    let tracks: Vec<_> = (0..1023).map(|number| recorder.track("t", number)).collect();
    tracks.iter().for_each(|track| writer.switch_to(Some(*track)));
    let bytes = dump(&region);
    let view = RegionView::find(&bytes).expect("a region");
    let switches = view.chunks().flat_map(|chunk| chunk.records()).filter_map(|record| match record {
        Ok((_, Record::Switch { task })) => Some(task),
        _ => None,
    });
    let tasks: Vec<_> = switches.collect();
    assert!(tasks.len() > 100 && tasks.iter().all(|task| !LINKED_NAMES.contains(task) && *task > 0));
    assert!((1..=1024).all(|number| view.name(number).is_some()), "the table is full");
}

#[test]
fn a_number_that_is_none_changes_nothing_else_in_an_event() {
    let region = Region::<4, 8, 4>::zeroed();
    let writer = Recorder::new(&region, || 7, 1_000).writer("thread");
    writer.named(Of::<0>(u32::MAX)).count(5);
    writer.on(writer.track("thread", 1)).instant(Of::<0>(u32::MAX - 1));
    let bytes = dump(&region);
    let view = RegionView::find(&bytes).expect("a region");
    assert_eq!(numbers(&view), [*LINKED_NAMES.end(), *LINKED_NAMES.end() - 1]);
}

#[test]
fn only_what_a_symbol_can_have_is_a_linked_name() {
    for text in ["motor", "a b {c} \u{b5} #;% '", "::", "0"] {
        assert!(LinkedName::is_plain(text), "{text}");
    }
    for text in ["", "a\"b", "\\", "a@b", "line\n", "\u{7f}"] {
        assert!(!LinkedName::is_plain(text), "{text:?}");
    }
}

#[cfg(not(tracebuf_linked))]
#[test]
fn where_nothing_numbers_them_they_are_names_of_the_table() {
    let region = Region::<8, 32, 4>::zeroed();
    let writer = Recorder::new(&region, || 7, 1_000).writer("thread");
    writer.named(LinkedName::of("motor")).begin();
    writer.begin("motor");
    let bytes = dump(&region);
    let view = RegionView::find(&bytes).expect("a region");
    let told: Vec<_> = numbers(&view).into_iter().map(|number| super::name(&view, number)).collect();
    assert_eq!(told, ["motor", "motor"]);
}

#[test]
fn the_region_says_of_each_start_which_build_numbered_its_names() {
    let region = Region::<4, 8, 8>::zeroed();
    let builds = |starts: core::ops::Range<u32>| -> Vec<_> {
        let bytes = dump(&region);
        let view = RegionView::find(&bytes).expect("a region");
        starts.map(|start| view.build(start & 31)).collect()
    };
    let start = |named: u32, of_table: bool| {
        let (recorder, _) = Recorder::attach_or_new(&region, || 7, 1_000);
        let writer = recorder.writer("thread");
        match named {
            0 => {}
            // Whatever is recorded first.
            1 => writer.named(Of::<1>(FIRST)).count(1),
            2 => writer.instant_with("x", |details| {
                details.arg(Of::<2>(FIRST), 1);
            }),
            _ => writer.on(writer.track("t", 1)).begin(Of::<3>(FIRST)),
        }
        if of_table {
            writer.instant("x");
        }
        if named == 2 {
            writer.named(Of::<2>(FIRST)).instant();
        }
    };
    start(0, true);
    assert_eq!(builds(1..2), [None], "no such name");
    start(1, false);
    start(1, true);
    assert_eq!(builds(2..4), [Some(1); 2]);
    start(2, true);
    assert_eq!(builds(1..5), [None, Some(1), Some(1), Some(2)]);
    start(2, false);
    start(3, false);
    // Nobody knows any more what was before the build before.
    assert_eq!(builds(1..7), [None, None, None, Some(2), Some(2), Some(3)]);
    // As many starts later as are told apart.
    (0..30).for_each(|_| start(3, false));
    assert_eq!(builds(5..37), [&[Some(2)][..], &[Some(3); 31]].concat());
}

#[test]
fn whatever_is_recorded_first_says_its_build_and_is_the_same_event_as_by_a_name_of_the_table() {
    fn record<N: Name>(name: N, which: u32) -> (Option<u32>, Vec<std::string::String>) {
        let region = Region::<4, 8, 8>::zeroed();
        let (recorder, _) = Recorder::attach_or_new(&region, || 7, 1_000);
        let writer = recorder.writer("thread");
        let named = writer.named(name);
        match which {
            0 => named.begin(),
            1 => drop(named.enter()),
            2 => named.instant(),
            3 => named.count(-3),
            4 => named.count_i64(1 << 40),
            5 => named.measure(0.5),
            _ => named.end(),
        }
        let bytes = dump(&region);
        let view = RegionView::find(&bytes).expect("a region");
        assert_eq!((view.chunks_missing(), view.chunks_erased()), (0, 0));
        let records =
            view.chunks().flat_map(|chunk| chunk.records()).map(|record| record.expect("an event").1);
        let told = records.map(|record| {
            let text = std::format!("{record:?}");
            let value = text.split_once("value").unwrap_or_default().1;
            [text.split(' ').next().unwrap_or_default(), value].concat()
        });
        (view.build(1), told.collect())
    }
    for which in 0..7 {
        let (build, linked) = record(Of::<1>(FIRST), which);
        assert_eq!(build, (which < 6).then_some(1), "{which}: an end has no name");
        assert_eq!(record("x", which), (None, linked), "{which}");
    }
}

#[test]
#[cfg_attr(miri, ignore = "takes minutes")]
fn chunks_that_were_overwritten_with_zeros_are_counted() {
    let region = Region::<4, 8, 8>::zeroed();
    let (recorder, _) = Recorder::attach_or_new(&region, || 7, 1_000);
    recorder.writer("thread").instant("x");
    let bytes = dump(&region);
    let erased = |bytes: &[u8]| RegionView::find(bytes).expect("a region").chunks_erased();
    assert_eq!(erased(&bytes), 0);
    let chunk =
        RegionView::find(&bytes).expect("a region").chunks().next().expect("a chunk").records().count();
    assert!(chunk > 0);
    // Wherever the one chunk in use lies, with all behind the names.
    let lost = (0..bytes.len()).rev().find(|from| {
        let damaged: Vec<u8> =
            bytes[..*from].iter().copied().chain(std::iter::repeat_n(0, bytes.len() - from)).collect();
        RegionView::find(&damaged).is_some_and(|view| view.chunks_erased() == 1)
    });
    assert!(lost.is_some());
}
