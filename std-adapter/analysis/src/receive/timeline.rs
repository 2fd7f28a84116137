//! The host's time of a device's times, from when what it sent arrived.
//!
//! Whatever is sent at a device's time arrives later: by the least delay of the line, and by what queues, busy hosts and
//! polls add. So of the distances between the two clocks the least ones tell the most. In each quarter of a second the
//! least is kept, for half a minute; a line below them all, fitted to most of them, tells how far the clocks are apart
//! and how fast they drift.
//!
//! Times that were told stay as they are, and never change their order: what becomes known later turns the line from
//! there on, so that it meets what is known a second later.

use std::collections::VecDeque;

/// Nanoseconds of which the least distance is kept.
const BUCKET: u64 = 250_000_000;
/// Distances that are kept: half a minute.
const KEPT: usize = 120;
/// Nanoseconds after which the first times may be told.
const SETTLING: u64 = 4_000_000_000;
/// Buckets that there have to be by then.
const SETTLED: usize = 16;
/// Nanoseconds within which the line turns to what is known.
const TURN: f64 = 1e9;
/// The largest drift that a clock may have: that of a bad oscillator of resistor and capacitor. More is a line on which
/// old data waited.
const DRIFT_MAX: f64 = 0.05;
/// The drift of a crystal. More takes more to be believed.
const DRIFT_USUAL: f64 = 100e-6;
/// Nanoseconds in which a drift shows.
const LEAST_SPAN: f64 = 1e9;
/// Nanoseconds by which times may be too early before they jump.
const JUMP: f64 = 20e6;
/// Nanoseconds by which a device's clock has stood still, as in sleep, if nothing in so many buckets comes earlier.
const STOOD_STILL: (f64, usize) = (500e6, 8);
/// Places of the line, the oldest of which get fewer.
const PLACES: usize = 4096;

/// A device's time, and how far the host was ahead of it when it arrived. Both in nanoseconds.
#[derive(Clone, Copy, Debug)]
struct Sample {
    device: u64,
    ahead: i64,
}

/// A place of the line: the same moment by both clocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Pair {
    pub(super) device: u64,
    pub(super) host: u64,
}

/// One start's times.
#[derive(Debug, Default)]
pub(super) struct Timeline {
    least: VecDeque<Sample>,
    first_host: Option<u64>,
    last_host: u64,
    places: Vec<Pair>,
    /// Nanoseconds of the host for each of the device, before the first place and after the last.
    before: f64,
    after: f64,
    /// The latest device's time that was told.
    told: Option<u64>,
    error: u64,
}

/// A straight line: how far the host is ahead at a device's time.
#[derive(Clone, Copy, Debug)]
struct Fit {
    at: u64,
    ahead: f64,
    drift: f64,
}

impl Fit {
    /// The host's time.
    fn host(&self, device: u64) -> f64 {
        device as f64 + self.ahead + self.drift * distance(self.at, device)
    }
}

/// From one time to another.
fn distance(from: u64, to: u64) -> f64 {
    to.wrapping_sub(from) as i64 as f64
}

/// A time, so far from another.
fn moved(time: u64, by: f64) -> u64 {
    time.saturating_add_signed(by as i64)
}

impl Timeline {
    /// Notes that what the device sent at its time arrived when the host's clock showed `host`, or earlier.
    pub(super) fn sample(&mut self, device: u64, host: u64) {
        self.first_host.get_or_insert(host);
        self.last_host = self.last_host.max(host);
        let sample = Sample { device, ahead: host.wrapping_sub(device) as i64 };
        match self.least.back_mut() {
            Some(last) if device / BUCKET == last.device / BUCKET => {
                if sample.ahead < last.ahead {
                    *last = sample;
                }
            }
            // An event's time may be older than what was sent before: it tells nothing.
            Some(last) if device < last.device => {}
            _ => {
                // The bucket before is complete.
                self.turn();
                self.least.push_back(sample);
                if self.least.len() > KEPT {
                    self.least.pop_front();
                }
            }
        }
        if self.told.is_none() {
            self.turn();
        }
    }

    /// Whether times may be told: enough has come.
    pub(super) fn is_settled(&self) -> bool {
        let first = self.first_host.unwrap_or(self.last_host);
        self.least.len() >= SETTLED && self.last_host - first >= SETTLING
    }

    /// Whether anything is known.
    pub(super) fn is_known(&self) -> bool {
        !self.places.is_empty()
    }

    /// The host's time of a device's time: without any sample the device's.
    pub(super) fn host(&mut self, device: u64) -> u64 {
        self.told = self.told.max(Some(device));
        self.at(device)
    }

    /// Nanoseconds by which times that were told may be wrong, besides the least delay of the line.
    pub(super) fn error(&self) -> u64 {
        self.error
    }

    /// The host's time when the device's clock showed 0, if anything is known.
    pub(super) fn beginning(&self) -> Option<u64> {
        self.is_known().then(|| self.at(0))
    }

    /// The newest place of the line.
    pub(super) fn newest(&self) -> Option<Pair> {
        self.places.last().copied()
    }

    fn at(&self, device: u64) -> u64 {
        let next = self.places.partition_point(|place| place.device <= device);
        let (before, after) =
            (next.checked_sub(1).and_then(|last| self.places.get(last)), self.places.get(next));
        match (before, after) {
            (Some(from), Some(to)) => {
                let share = distance(from.device, device) / distance(from.device, to.device);
                moved(from.host, distance(from.host, to.host) * share)
            }
            (Some(from), None) => moved(from.host, distance(from.device, device) * self.after),
            (None, Some(to)) => moved(to.host, distance(to.device, device) * self.before),
            (None, None) => device,
        }
    }

    /// Turns the line to what is known by now.
    fn turn(&mut self) {
        let Some(mut fit) = self.fit() else { return };
        if self.has_stood_still(fit) {
            self.least.drain(..self.least.len() - STOOD_STILL.1);
            fit = self.fit().unwrap_or(fit);
        }
        let Some(newest) = self.least.back() else { return };
        let above = self.newest_above(fit);
        let Some(told) = self.told else {
            self.places = vec![Pair { device: newest.device, host: fit.host(newest.device).max(0.0) as u64 }];
            (self.before, self.after) = (1.0 + fit.drift, 1.0 + fit.drift);
            self.error = above as u64;
            return;
        };
        let last = self.newest().map_or(0, |last| last.device);
        let device = newest.device.max(told).max(last + 1);
        let mut host = self.at(device);
        self.places.push(Pair { device, host });
        let mut from = device;
        if fit.host(device) - host as f64 > JUMP {
            // What was told is far too early, so what comes is not to be.
            (from, host) = (device + 1, fit.host(device + 1) as u64);
            self.places.push(Pair { device: from, host });
        }
        let aim = fit.host(moved(from, TURN)) - host as f64;
        // Never back, and never at once, so that a duration is never far from what it was.
        self.after = (aim / TURN).clamp(0.1, 2.0);
        if self.places.len() > PLACES {
            let mut at = 0;
            let half = PLACES / 2;
            self.places.retain(|_| {
                at += 1;
                at > half || at % 2 == 1
            });
        }
    }

    /// How far the newest samples, the best of a second each, are above a line.
    fn newest_above(&self, fit: Fit) -> f64 {
        let above = |sample: &Sample| sample.device as f64 + sample.ahead as f64 - fit.host(sample.device);
        let newest: Vec<f64> = self.least.iter().rev().take(8).map(above).collect();
        newest
            .chunks(4)
            .map(|second| second.iter().copied().fold(f64::INFINITY, f64::min))
            .fold(0.0, f64::max)
    }

    fn has_stood_still(&self, fit: Fit) -> bool {
        let (by, buckets) = STOOD_STILL;
        let is_late =
            |sample: &Sample| sample.device as f64 + sample.ahead as f64 - fit.host(sample.device) > by;
        self.least.len() > buckets && self.least.iter().rev().take(buckets).all(is_late)
    }

    /// The line below all samples that is nearest to most of them: an edge of their lower hull.
    fn fit(&self) -> Option<Fit> {
        let origin = self.least.front()?;
        let points: Vec<(f64, f64)> = self
            .least
            .iter()
            .map(|sample| {
                (distance(origin.device, sample.device), sample.ahead.wrapping_sub(origin.ahead) as f64)
            })
            .collect();
        let span = points.last()?.0;
        let middle = points.iter().map(|(at, _)| at).sum::<f64>() / points.len() as f64;
        let hull = lower_hull(&points);
        let edge = hull.windows(2).find_map(|edge| match edge {
            [from, to] if to.0 >= middle => Some((to.1 - from.1) / (to.0 - from.0)),
            _ => None,
        });
        let drift = edge.filter(|drift| drift.abs() <= DRIFT_MAX && span >= LEAST_SPAN).unwrap_or(0.0);
        // What looks like a drift may be noise as long as it is not much larger than that.
        let (mut fit, noise) = below(&points, drift);
        if (drift * span).abs() <= 8.0 * noise {
            (fit, _) = below(&points, drift.clamp(-DRIFT_USUAL, DRIFT_USUAL));
        }
        Some(Fit { at: origin.device, ahead: origin.ahead as f64 + fit.ahead, ..fit })
    }
}

/// The highest line of this drift that is below all points, and how far above it the nearest fifth of them are, besides
/// the two on it.
fn below(points: &[(f64, f64)], drift: f64) -> (Fit, f64) {
    let mut above: Vec<f64> = points.iter().map(|(at, ahead)| ahead - at * drift).collect();
    above.sort_by(f64::total_cmp);
    let [ahead, fifth] = [0, above.len() / 5 + 2].map(|at| above.get(at).copied().unwrap_or_default());
    (Fit { at: 0, ahead, drift }, fifth - ahead)
}

/// The corners of the lower hull of points in order.
fn lower_hull(points: &[(f64, f64)]) -> Vec<(f64, f64)> {
    let mut hull: Vec<(f64, f64)> = Vec::new();
    for point in points {
        while let [.., before, last] = hull[..]
            && (last.0 - before.0) * (point.1 - before.1) <= (last.1 - before.1) * (point.0 - before.0)
        {
            hull.pop();
        }
        hull.push(*point);
    }
    hull
}

#[cfg(test)]
mod tests;
