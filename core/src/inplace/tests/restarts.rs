//! Resets: what was finished stays.

use std::format;
use std::sync::atomic::{AtomicU32, Ordering};
use std::vec::Vec;

use super::super::{Found, Recorder, Region};
use super::{by_writer, dump, timer};
use crate::atomics::watched::stopped_at;
use crate::inplace::layout::{NameWord, State};
use crate::inplace::region::sealed::Words;

#[test]
fn a_restart_keeps_what_was_recorded_and_goes_on_behind_it() {
    static TRACE: Region<16, 64, 8> = Region::zeroed();
    timer!(TIME, ticks);
    for start in 1..=40 {
        TIME.store(start, Ordering::Relaxed);
        let (recorder, found) = Recorder::attach_or_new(&TRACE, ticks, 1_000);
        assert_eq!(found, if start == 1 { Found::Nothing } else { Found::Start(start) });
        let writer = recorder.writer("main");
        for value in 0..5 {
            writer.count("n", value);
        }
        // A reset drops nothing.
        core::mem::forget(writer);
        let all = by_writer(&dump(&TRACE));
        for kept in start.saturating_sub(3).max(1)..=start {
            let told: Vec<_> = all[&(kept % 32, 0)].iter().map(|(_, told)| told.clone()).collect();
            assert_eq!(told, (0..5).map(|value| format!("n {value}")).collect::<Vec<_>>());
        }
        // Names are entered once.
        assert!(crate::inplace::RegionView::find(&dump(&TRACE)).is_some_and(|view| view.name(17).is_none()));
    }
    assert_eq!(Words::header(&TRACE, crate::inplace::layout::header::TEXT_USED).load(Ordering::Relaxed), 2);
}

/// Chunks name the start modulo 32.
#[test]
fn what_is_left_of_32_starts_ago_is_not_taken_for_this_start_s() {
    static TRACE: Region<16, 64, 8> = Region::zeroed();
    let (recorder, _) = Recorder::attach_or_new(&TRACE, || 0, 1_000);
    let writer = recorder.writer("main");
    (0..3).for_each(|value| writer.count("old", value));
    core::mem::forget(writer);
    for start in 2..=33 {
        assert_eq!(by_writer(&dump(&TRACE)).keys().next(), Some(&(1, 0)), "kept until then");
        assert_eq!(Recorder::attach_or_new(&TRACE, || 0, 1_000).1, Found::Start(start));
    }
    assert!(by_writer(&dump(&TRACE)).is_empty());
    Recorder::existing(&TRACE, || 0).expect("there").writer("main").count("new", 7);
    let all = by_writer(&dump(&TRACE));
    assert_eq!(all.values().flatten().map(|(_, told)| told.as_str()).collect::<Vec<_>>(), ["new 7"]);
}

#[test]
fn another_layout_or_frequency_begins_anew() {
    static TRACE: Region<16, 64, 8> = Region::zeroed();
    assert!(Recorder::existing(&TRACE, || 0).is_none());
    let (recorder, _) = Recorder::attach_or_new(&TRACE, || 0, 1_000);
    recorder.writer("main").instant("x");
    Recorder::existing(&TRACE, || 0).expect("there").writer("other").instant("y");
    assert_eq!(by_writer(&dump(&TRACE)).len(), 2);
    assert_eq!(Recorder::attach_or_new(&TRACE, || 0, 1_001).1, Found::Nothing);
    assert!(by_writer(&dump(&TRACE)).is_empty());
}

#[test]
fn a_chunk_that_was_being_claimed_is_given_up_alone() {
    static TRACE: Region<16, 64, 8> = Region::zeroed();
    let (recorder, _) = Recorder::attach_or_new(&TRACE, || 0, 1_000);
    let writer = recorder.writer("main");
    writer.instant("kept");
    let place = <Region<16, 64, 8> as Words>::word(Words::chunk(&TRACE, 1), 0);
    place.store(State::new(State::CLAIMED, 5, 1).0, Ordering::Relaxed);
    core::mem::forget(writer);
    assert_eq!(by_writer(&dump(&TRACE)).len(), 1);
    let (recorder, found) = Recorder::attach_or_new(&TRACE, || 0, 1_000);
    assert_eq!((found, State(place.load(Ordering::Relaxed)).is()), (Found::Start(2), State::FREE));
    let writer = recorder.writer("main");
    writer.instant("next");
    let all = by_writer(&dump(&TRACE));
    assert_eq!(
        (&all[&(1, 0)][..], &all[&(2, 0)][..]),
        (&[(0, "instant kept".into())][..], &[(0, "instant next".into())][..])
    );
}

#[test]
fn an_update_of_the_firmware_does_not_change_old_names() {
    // The same address, as a text of another build may have.
    static BYTES: [u8; 8] = *b"oldnew!!";
    static TRACE: Region<16, 64, 8> = Region::zeroed();
    let text = |from, to| core::str::from_utf8(&BYTES[from..to]).expect("ASCII");
    let (recorder, _) = Recorder::attach_or_new(&TRACE, || 0, 1_000);
    let writer = recorder.writer("main");
    writer.instant(text(0, 3));
    let old = dump(&TRACE);
    // What the table says of "old" is changed to be about "new", as if that address had moved.
    let moved = text(3, 6).as_ptr() as u32;
    let is_old =
        |place: &usize| Words::name(&TRACE, *place)[0].load(Ordering::Relaxed) == text(0, 3).as_ptr() as u32;
    let place = (0..16).find(is_old).expect("it was entered");
    Words::name(&TRACE, place)[0].store(moved, Ordering::Relaxed);
    core::mem::forget(writer);
    let (recorder, found) = Recorder::attach_or_new(&TRACE, || 0, 1_000);
    assert_eq!(found, Found::Start(2));
    recorder.writer("main").instant(text(3, 6));
    let all = by_writer(&dump(&TRACE));
    assert_eq!(by_writer(&old)[&(1, 0)], all[&(1, 0)]);
    assert_eq!(all[&(2, 0)], [(0, "instant new".into())]);
}

/// The next start may be reset, too, before it has begun: it is no start then.
#[test]
fn a_reset_within_a_restart_loses_nothing_and_is_no_start() {
    for store in 1.. {
        let region = std::boxed::Box::leak(std::boxed::Box::new(Region::<16, 64, 8, 32>::zeroed()));
        let region: &'static Region<16, 64, 8, 32> = region;
        let recorder = Recorder::new(region, || 0, 1_000);
        for name in ["one", "two"] {
            let writer = recorder.writer(name);
            (0..20).for_each(|value| writer.count(name, value));
            core::mem::forget(writer);
        }
        let before = by_writer(&dump(region));
        let was_stopped = stopped_at(store, || {
            Recorder::attach_or_new(region, || 0, 1_000);
        });
        let (recorder, found) = Recorder::attach_or_new(region, || 0, 1_000);
        assert_eq!(found, Found::Start(if was_stopped { 2 } else { 3 }), "{store}");
        let writer = recorder.writer("three");
        writer.count("three", 3);
        let all = by_writer(&dump(region));
        let Found::Start(start) = found else { panic!("{found:?}") };
        assert_eq!(all[&(start, 0)], [(0, "three 3".into())], "{store}");
        assert_eq!(all.len(), before.len() + 1);
        assert!(before.iter().all(|(key, told)| all[key] == *told), "{store}");
        if !was_stopped {
            assert!(store > 20, "{store}");
            break;
        }
    }
}

#[test]
fn places_of_names_that_were_being_entered_are_free_after_a_reset() {
    static TRACE: Region<4, 16, 4, 32> = Region::zeroed();
    Recorder::new(&TRACE, || 0, 1_000);
    for place in 0..4 {
        Words::name(&TRACE, place)[1].store(NameWord::new(0, 3, 0).0, Ordering::Relaxed);
    }
    let writer = Recorder::attach_or_new(&TRACE, || 0, 1_000).0.writer("main");
    ["a", "b", "c"].iter().for_each(|name| writer.instant(name));
    let told: Vec<_> = by_writer(&dump(&TRACE))[&(2, 0)].iter().map(|(_, told)| told.clone()).collect();
    assert_eq!(told, ["instant a", "instant b", "instant c"]);
}
