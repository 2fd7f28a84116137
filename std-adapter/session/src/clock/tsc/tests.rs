//! Tests of the counter's time: steered, restarted, and in a child.

use std::time::Instant;

use super::*;

#[test]
fn the_counter_s_time_is_boot_time_and_stays_it() {
    let Some(clock) = TscClock::get() else { return };
    let error = || {
        let before = BootClock.now();
        let now = clock.now();
        let after = BootClock.now();
        (now as i64 - before as i64).min(0) + (now as i64 - after as i64).max(0)
    };
    for _ in 0..12 {
        std::thread::sleep(Duration::from_millis(100));
        clock.steer();
        let error = (0..5).map(|_| error().abs()).min().unwrap_or(0);
        assert!(error < 100_000, "{error} ns away");
    }
}

#[test]
fn a_child_does_not_wait_for_the_thread_that_steered_its_parent_s_clock() {
    use crate::Session;

    let Some(clock) = TscClock::get() else { return };
    let parents = Session::builder().fast_clock().start().expect("a session");
    assert!(tracebuf_testing::fork::in_child(|| {
        // As a fork in the middle of a change leaves them.
        let _steering = clock.steering.try_lock();
        clock.sequence.fetch_or(1, Ordering::Relaxed);
        parents.now();
        // The clock of the child's own session.
        TscClock::get().is_none()
    }));
}

/// A clock that was last compared at one second of boot time, at 2 ticks per nanosecond.
fn at_one_second() -> (TscClock, Measured) {
    let first = Measured { counter: 10_000_000_000, nanoseconds: 500_000_000 };
    let last = Measured { counter: 11_000_000_000, nanoseconds: 1_000_000_000 };
    (TscClock::new(&first, last), last)
}

/// What the clock shows after one more comparison.
fn compared(clock: &TscClock, counter: u64, nanoseconds: u64) -> u64 {
    clock.follow(&mut clock.steering.lock().expect("a lock"), Measured { counter, nanoseconds });
    shown(clock, counter)
}

fn shown(clock: &TscClock, counter: u64) -> u64 {
    clock.line(|| counter).0.at(counter)
}

const HOUR: u64 = 3_600_000_000_000;

#[test]
fn after_a_sleep_in_which_the_counter_stood_still_it_shows_the_clock_at_once() {
    let (clock, last) = at_one_second();
    // A tenth of a second awake, an hour asleep.
    let (counter, woken) = (last.counter + 200_000_000, last.nanoseconds + 100_000_000 + HOUR);
    let time = compared(&clock, counter, woken);
    assert!((woken..woken + 2 * ERROR).contains(&time), "{time}");
    // And goes on at its previous pace: 2 ticks per nanosecond.
    let later = shown(&clock, counter + 2 * PERIOD);
    assert!(later.abs_diff(time + PERIOD) < 10, "{}", later - time);
    let later = compared(&clock, counter + 2 * PERIOD, woken + PERIOD);
    assert!(later.abs_diff(woken + PERIOD) < 2 * ERROR);
}

#[test]
fn after_a_sleep_that_restarted_the_counter_it_shows_the_clock_at_once() {
    let (clock, last) = at_one_second();
    let woken = last.nanoseconds + HOUR;
    let time = compared(&clock, 3_000_000, woken);
    assert!((woken..woken + 2 * ERROR).contains(&time), "{time}");
    let later = shown(&clock, 3_000_000 + 2 * PERIOD);
    assert!(later.abs_diff(time + PERIOD) < 10, "{}", later - time);
}

#[test]
fn until_it_is_steered_a_restarted_counter_s_time_is_the_clock_s() {
    // The last comparison was at a value that no counter reaches.
    let last = Measured { counter: u64::MAX / 2, nanoseconds: BootClock.now() };
    let first = Measured { counter: last.counter - 2000, nanoseconds: last.nanoseconds - 1000 };
    let clock = TscClock::new(&first, last);
    std::thread::sleep(Duration::from_millis(20));
    let before = BootClock.now();
    let found = clock.now();
    assert!((before..=BootClock.now()).contains(&found));
    clock.steer();
    let (time, after) = (clock.now(), BootClock.now());
    assert!(time > found && time.abs_diff(after) < OFF, "{time} {after}");
}

#[test]
fn a_session_that_starts_when_none_has_run_for_a_while_has_the_clock_s_time() {
    let (clock, mut now) = at_one_second();
    // The rate was measured wrong by 50 millionths, and each session compares only once.
    let mut pass = |seconds| {
        now.counter += 2_000_100_000 * seconds;
        now.nanoseconds += PERIOD * seconds;
        now
    };
    for _ in 0..5 {
        let now = pass(60);
        clock.resume_at(&mut clock.steering.lock().expect("a lock"), now);
        assert_eq!(shown(&clock, now.counter), now.nanoseconds);
        let now = pass(1);
        assert!(compared(&clock, now.counter, now.nanoseconds).abs_diff(now.nanoseconds) < 100_000);
    }
    // While another session runs, a new one leaves the line to that.
    let now = pass(1);
    let before = shown(&clock, now.counter);
    clock.resume_at(&mut clock.steering.lock().expect("a lock"), now);
    assert_eq!(shown(&clock, now.counter), before);
}

#[test]
fn a_counter_that_jumped_ahead_slows_time_and_does_not_turn_it_back() {
    let (clock, last) = at_one_second();
    let mut time = shown(&clock, last.counter + 2 * PERIOD);
    let (jump, mut second) = (2 * 60 * PERIOD, last.nanoseconds);
    for passed in 1..200 {
        let counter = last.counter + jump + 2 * PERIOD * passed;
        second += PERIOD;
        let now = compared(&clock, counter, second);
        assert!(now >= time, "{passed}");
        time = now;
    }
    assert!(time.abs_diff(second) < OFF, "a minute ahead, it has met the clock after two");
}

#[test]
fn a_rate_that_was_measured_wrong_is_found_and_put_right() {
    for ticks in [1_900_000_000, 2_100_000_000] {
        let (clock, last) = at_one_second();
        let times = (1..10).map(|second| {
            let clock_s = last.nanoseconds + second * PERIOD;
            compared(&clock, last.counter + second * ticks, clock_s).abs_diff(clock_s)
        });
        assert!(times.last().is_some_and(|error| error < 2 * ERROR), "{ticks}");
    }
}

#[test]
fn time_does_not_go_back_while_it_is_steered() {
    let Some(clock) = TscClock::get() else { return };
    let (start, mut last) = (Instant::now(), clock.now());
    while start.elapsed() < Duration::from_millis(1100) {
        clock.steer();
        let now = clock.now();
        assert!(now >= last);
        last = now;
    }
}
