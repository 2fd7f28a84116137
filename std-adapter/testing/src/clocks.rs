//! A reader of a trace's clocks that never extrapolates backwards.

use std::collections::HashMap;

use crate::trace::{Field, Trace, fields, message, number};

const REALTIME: u64 = 1;
const MONOTONIC: u64 = 3;
const BOOTTIME: u64 = 6;

/// What the clocks showed at one moment, in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Moment {
    pub boottime: u64,
    pub monotonic: u64,
    pub realtime: u64,
}

impl Moment {
    fn clock(&self, id: u64) -> u64 {
        match id {
            REALTIME => self.realtime,
            MONOTONIC => self.monotonic,
            BOOTTIME => self.boottime,
            other => panic!("clock {other}"),
        }
    }

    /// The moment at which a clock shows this, as far as this one tells.
    fn at(&self, id: u64, time: u64) -> Self {
        let passed = time - self.clock(id);
        let [boottime, monotonic, realtime] =
            [self.boottime, self.monotonic, self.realtime].map(|clock| clock + passed);
        Self { boottime, monotonic, realtime }
    }
}

/// The clocks in a `ClockSnapshot`, by their numbers.
fn readings(packet: &[u8]) -> HashMap<u64, u64> {
    let clocks = fields(message(packet, 6).unwrap_or_default());
    let reading = |field| match field {
        Field::Bytes(1, clock) => Some((number(clock, 1)?, number(clock, 2).unwrap_or_default())),
        _ => None,
    };
    clocks.into_iter().filter_map(reading).collect()
}

fn is_of_service(packet: &[u8]) -> bool {
    number(packet, 10) == Some(1)
}

impl Trace {
    /// The pairs of clocks that the service tells, in the order of the file, which must be that of time.
    pub fn clock_pairs(&self) -> Vec<Moment> {
        let told = self.packets().filter(|packet| is_of_service(packet)).map(readings);
        let pairs: Vec<Moment> = told
            .filter(|clocks| !clocks.is_empty())
            .map(|clocks| Moment {
                boottime: clocks[&BOOTTIME],
                monotonic: clocks[&MONOTONIC],
                realtime: clocks[&REALTIME],
            })
            .collect();
        assert!(pairs.is_sorted_by(|one, next| one.boottime < next.boottime), "boot time goes on: {pairs:?}");
        pairs
    }

    /// When each event was, in the order of the file.
    ///
    /// # Panics
    /// There is no pair of clocks from before it; or, where its own clock is not boot time, none before it in the file.
    pub fn moments(&self) -> Vec<Moment> {
        let (all, mut told) = (self.clock_pairs(), 0);
        let newest = |pairs: &[Moment], id: u64, time: u64| {
            let before = pairs.iter().rev().find(|pair| pair.clock(id) <= time);
            before.unwrap_or_else(|| panic!("clock {id}: no pair before {time} in {pairs:?}")).at(id, time)
        };
        // For each sequence, the number of its clock and what that shows.
        let mut sequences: HashMap<u64, (u64, u64)> = HashMap::new();
        let mut moments = Vec::new();
        for packet in self.packets() {
            let clocks = readings(packet);
            if is_of_service(packet) {
                told += usize::from(!clocks.is_empty());
                continue;
            }
            let sequence = number(packet, 10).expect("a sequence");
            if let Some((id, time)) = clocks.into_iter().find(|(id, _)| *id < 64) {
                sequences.insert(sequence, (id, time));
                continue;
            }
            let Some(delta) = number(packet, 8) else { continue };
            let Some((id, time)) = sequences.get_mut(&sequence) else { continue };
            *time += delta;
            if message(packet, 11).is_some() {
                let boottime = match *id {
                    BOOTTIME => *time,
                    id => newest(&all[..told], id, *time).boottime,
                };
                moments.push(newest(&all, BOOTTIME, boottime));
            }
        }
        moments
    }
}
