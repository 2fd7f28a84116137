//! Rings that lap.

use std::format;
use std::string::String;
use std::sync::atomic::{AtomicU32, Ordering};
use std::vec::Vec;

use super::super::{Recorder, Region, Writer};
use super::{by_writer, dump, timer};

/// Values in a chunk of 32 words; sums take room.
const FULL: i32 = if cfg!(feature = "inplace-crc") { 12 } else { 13 };

fn told(region: &Region<16, 64, 16, 32>, writer: u32) -> Vec<String> {
    let all = by_writer(&dump(region));
    all.get(&(1, writer)).into_iter().flatten().map(|(_, told)| told.clone()).collect()
}

#[test]
fn the_newest_stay_and_what_is_missing_shows_as_a_gap() {
    static TRACE: Region<16, 64, 16, 32> = Region::zeroed();
    timer!(TIME, ticks);
    let recorder = Recorder::new(&TRACE, ticks, 1_000);
    let busy = recorder.writer("busy");
    let slow = recorder.writer("slow");
    slow.instant("first of slow");
    for value in 0..10_000 {
        TIME.fetch_add(3, Ordering::Relaxed);
        busy.count("n", value);
        let all = told(&TRACE, 0);
        assert_eq!(all.last(), Some(&format!("n {value}")));
        // 15 of 16 chunks, less the one that is being filled and a gap.
        assert!(all.len() as i32 >= (value + 1).min(13 * FULL), "{value}: {}", all.len());
        let firsts = all.iter().filter(|told| *told != "gap").cloned().collect::<Vec<_>>();
        let newest: Vec<_> = (0..=value).rev().take(firsts.len()).map(|value| format!("n {value}")).collect();
        assert!(firsts.iter().rev().eq(&newest), "{value}");
    }
    // However often the ring went round.
    assert_eq!(told(&TRACE, 1), ["instant first of slow"]);
    assert_eq!(recorder.dropped(), 0);
}

#[test]
fn a_slow_writer_s_chunk_stays_half_a_ring_once_it_is_full() {
    // Its place is the next, or soon will be, or has just been tried.
    for busy_chunks in 200..216 {
        let region = Region::zeroed();
        let recorder = Recorder::new(&region, || 0, 1_000);
        let busy = recorder.writer("busy");
        let slow = recorder.writer("slow");
        (0..FULL).for_each(|value| slow.count("s", value));
        (0..FULL * busy_chunks).for_each(|value| busy.count("n", value));
        // Full, and about to be completed.
        slow.count("s", FULL);
        (0..FULL * 6).for_each(|value| busy.count("n", value));
        assert_eq!(told(&region, 1), (0..=FULL).map(|value| format!("s {value}")).collect::<Vec<_>>());
    }
}

#[test]
fn events_without_a_place_are_counted_and_said_before_the_next_one() {
    static TRACE: Region<16, 64, 4, 128> = Region::zeroed();
    let recorder = Recorder::new(&TRACE, || 0, 1_000);
    let mut holders: Vec<Writer<'_, _, _>> = (0..4).map(|_| recorder.writer("h")).collect();
    holders.iter().for_each(|holder| holder.instant("x"));
    let late = recorder.writer("late");
    (0..5).for_each(|_| late.instant("y"));
    assert_eq!(recorder.dropped(), 5);
    drop(holders.pop());
    // Completed just now, it goes only after half a ring: each try makes it older.
    late.instant("z");
    let all = by_writer(&dump(&TRACE));
    let told: Vec<_> = all[&(1, 4)].iter().map(|(_, told)| told.as_str()).collect();
    assert_eq!(told, ["lost 5", "instant z"]);
}
