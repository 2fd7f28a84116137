//! Lines with delays, and clocks that drift: how far times are wrong.

use super::*;

/// Numbers that look random.
struct Random(u64);

impl Random {
    fn next(&mut self) -> f64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 11) as f64 / (1u64 << 53) as f64
    }
}

/// A device whose clock shows `start` when the host's shows [`HOST`], and runs fast by this part.
#[derive(Clone, Copy)]
struct Device {
    start: u64,
    drift: fn(f64) -> f64,
}

const HOST: u64 = 2_570_000_000_000;

impl Device {
    /// Its time after so many seconds of the host.
    fn time(&self, seconds: f64) -> u64 {
        self.start + ((seconds + (self.drift)(seconds)) * 1e9) as u64
    }
}

/// Nanoseconds that a time frame takes at 1 Mbaud.
const FRAME: f64 = 21.0 * 10_000.0;

/// Sends a time four times a second, with that delay in seconds; returns the largest error in nanoseconds of events that
/// are up to two seconds old when they come, and the largest that was said.
fn worst(device: Device, seconds: f64, mut delay: impl FnMut(f64, &mut Random) -> f64) -> (f64, u64) {
    let (mut timeline, mut random) = (Timeline::default(), Random(7));
    let (mut worst, mut said) = (0f64, 0);
    let mut before = (0u64, 0u64);
    let mut now = 0.0;
    while now < seconds {
        let arrived = HOST + ((now + delay(now, &mut random)) * 1e9 + FRAME) as u64;
        timeline.sample(device.time(now), arrived);
        if timeline.is_settled() {
            said = said.max(timeline.error());
            let mut told = Vec::new();
            for _ in 0..4 {
                let at = now - 2.0 * random.next();
                if at < 0.0 {
                    continue;
                }
                let host = timeline.host(device.time(at));
                worst = worst.max((host as f64 - HOST as f64 - at * 1e9).abs());
                told.push((device.time(at), host));
            }
            told.push(before);
            told.sort_unstable();
            assert!(told.is_sorted_by_key(|(_, host)| *host), "{told:?}");
            before = told.pop().expect("one");
        }
        now += 0.25;
    }
    assert!(worst > 0.0);
    (worst, said)
}

/// A quiet line of which the host sees each millisecond, and every now and then is busy for a while.
fn busy(_: f64, random: &mut Random) -> f64 {
    let poll = random.next() * 0.001;
    poll + if random.next() < 0.1 { random.next() * 0.080 } else { 0.0 }
}

#[test]
fn below_a_millisecond_at_1_mbaud_whatever_the_drift() {
    let drifts: [fn(f64) -> f64; 5] = [
        |_| 0.0,
        |seconds| seconds * 100e-6,
        |seconds| seconds * -100e-6,
        // It warms up: 40 ppm more in five minutes, and back.
        |seconds| seconds * 20e-6 + 40e-6 * 95.0 * (1.0 - (seconds / 95.0).cos()),
        |seconds| 5e-6 * (seconds / 3.0).sin(),
    ];
    for (number, drift) in drifts.into_iter().enumerate() {
        for start in [0, 1 << 32, 3_600_000_000_000] {
            let (worst, said) = worst(Device { start, drift }, 600.0, busy);
            assert!(worst < 1e6, "{number}: {worst}");
            assert!(said < 1_000_000, "{said}");
        }
    }
}

#[test]
fn a_bad_oscillator_is_followed_and_what_is_not_known_is_said() {
    let (mut timeline, mut random) = (Timeline::default(), Random(3));
    let device = Device { start: 5, drift: |seconds| seconds * 0.01 };
    for quarter in 0..240 {
        let now = f64::from(quarter) / 4.0;
        let arrived = HOST + ((now + busy(now, &mut random)) * 1e9 + FRAME) as u64;
        timeline.sample(device.time(now), arrived);
        if timeline.is_settled() {
            let error = (timeline.host(device.time(now)) as f64 - HOST as f64 - now * 1e9).abs();
            assert!(error < if now < 10.0 { 30e6 } else { 1e6 }, "{now} {error}");
        }
    }
}

#[test]
fn what_waited_before_the_host_listened_does_not_count() {
    // Ten seconds of data come at once, and then the line is as it should be.
    let late = |now: f64, _: &mut Random| if now < 10.0 { 10.0 - now } else { 0.0 };
    let (mut timeline, mut random) = (Timeline::default(), Random(1));
    let device = Device { start: 77, drift: |_| 0.0 };
    for quarter in 0..200 {
        let now = f64::from(quarter) / 4.0;
        timeline.sample(device.time(now), HOST + ((now + late(now, &mut random)) * 1e9) as u64);
        if timeline.is_settled() {
            for at in [0.0, now / 2.0, now] {
                let error = timeline.host(device.time(at)) as f64 - HOST as f64 - at * 1e9;
                assert!(error.abs() < 1e6, "{now} {at} {error}");
            }
        }
    }
    assert!(timeline.is_settled());
}

#[test]
fn a_device_whose_clock_stood_still_is_found_again_and_nothing_goes_back_in_time() {
    let mut timeline = Timeline::default();
    let mut before = 0;
    for quarter in 0..100u64 {
        let device = quarter * BUCKET;
        let host = HOST + device + if quarter > 50 { 60_000_000_000 } else { 0 };
        timeline.sample(device, host);
        if timeline.is_settled() {
            let told = timeline.host(device);
            assert!(told >= before);
            before = told;
            assert!(told.abs_diff(host) < 1_000_000 || (51..61).contains(&quarter), "{quarter}");
        }
    }
    assert!(before > HOST + 60_000_000_000);
}

#[test]
fn without_a_sample_a_time_is_the_device_s() {
    let mut timeline = Timeline::default();
    assert!(!timeline.is_known() && !timeline.is_settled());
    assert_eq!((timeline.host(9), timeline.newest(), timeline.error()), (9, None, 0));
}
