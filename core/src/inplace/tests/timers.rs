//! Times, whatever bits the timer has and however long a pause is.

use std::sync::atomic::{AtomicU64, Ordering};
use std::vec::Vec;

use super::super::{Bits, Recorder, Region, Timer};
use super::{by_writer, dump};

static NOW: AtomicU64 = AtomicU64::new(0);

fn check<T: Timer>(region: &'static Region<8, 16, 64>, timer: T, first: u64) {
    NOW.store(first, Ordering::Relaxed);
    let recorder = Recorder::new(region, timer, 1_000);
    let (one, other) = (recorder.writer("one"), recorder.writer("other"));
    // Pauses around those that have no room in an event, and up to three eighths of the period.
    let most = 3 << (T::BITS - 3);
    let pauses = [0, 1, (1 << 18) - 1, 1 << 18, (1 << 18) + 1, 1 << (T::BITS - 2), most - 1, 2, 77];
    let mut times = [Vec::new(), Vec::new()];
    for turn in 0..120 {
        let now = NOW.load(Ordering::Relaxed) + pauses[turn * 5 % pauses.len()].min(most);
        NOW.store(now, Ordering::Relaxed);
        // The other one is idle for long, while the first keeps the time.
        let is_first = turn % 7 != 0;
        if is_first {
            one.instant("x")
        } else {
            other.instant("x")
        }
        times[usize::from(!is_first)].push(now);
    }
    let told = by_writer(&dump(region));
    for (writer, times) in times.iter().enumerate() {
        let told: Vec<_> = told[&(1, writer as u32)].iter().map(|(time, _)| *time).collect();
        assert_eq!(told, *times);
    }
    assert_eq!(recorder.now(), NOW.load(Ordering::Relaxed));
}

#[test]
fn times_are_exact_with_timers_of_16_to_32_bits() {
    static TRACES: [Region<8, 16, 64>; 4] = [const { Region::zeroed() }; 4];
    let now = || NOW.load(Ordering::Relaxed) as u32;
    check(&TRACES[0], now, 0);
    check(&TRACES[1], now, 3_000_000_000);
    check(&TRACES[2], Bits::<24, _>(|| NOW.load(Ordering::Relaxed) as u32 & 0xFF_FFFF), 0xC0_0000);
    check(&TRACES[3], Bits::<16, _>(|| NOW.load(Ordering::Relaxed) as u32 & 0xFFFF), 5);
}
