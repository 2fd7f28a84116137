//! Tests of a writer as any recorder of events.

use std::sync::atomic::{AtomicU32, Ordering};
use std::vec::Vec;

use super::super::{Recorder, Region};
use super::{by_writer, dump, timer};
use crate::NewTracks;

fn work(events: &impl NewTracks) {
    let (low, high) = (events.track("low", 1), events.track("high", 2));
    events.begin("step");
    events.count("level", -5);
    events.count("total", 1 << 40);
    events.begin_on(low, "turn");
    events.instant_on(low, "half");
    events.end_on(low);
    events.switch(Some(high));
    events.instant("alarm");
    events.switch(None);
    events.end();
}

#[test]
fn what_hooks_record_with_a_writer_is_on_its_tracks() {
    static TRACE: Region<32, 64, 8> = Region::zeroed();
    timer!(TIME, ticks);
    work(&Recorder::new(&TRACE, ticks, 1_000_000).writer("main loop"));
    let all = by_writer(&dump(&TRACE));
    let told: Vec<_> = all.values().flatten().map(|(_, told)| told.as_str()).collect();
    let expected = [
        "begin step",
        "level -5",
        "total 1099511627776",
        "on low",
        "begin turn",
        "on low",
        "instant half",
        "on low",
        "end",
        "switch high",
        "instant alarm",
        "switch ?",
        "end",
    ];
    assert_eq!(told, expected);
}
