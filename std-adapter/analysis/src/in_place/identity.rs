//! The numbers of a device in a trace: of its processes, threads and tracks.

/// What something of a device is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Process = 1,
    Thread,
    Track,
    Counter,
}

/// A device, as it is told from others and from the host in the same trace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Identity {
    name: String,
    /// Nothing if it is alone in its trace, which needs no large numbers.
    seed: Option<u64>,
}

/// The name of a device that has none.
const NAMELESS: &str = "firmware";

/// Above all numbers of processes that a system gives: Linux gives up to 2²² of them.
const PIDS: u64 = 1 << 30;

impl Identity {
    /// A device that has a trace of its own.
    pub(crate) fn alone(name: Option<&str>) -> Self {
        Self { name: name.unwrap_or(NAMELESS).to_owned(), seed: None }
    }

    /// A device among others. Its numbers come from its name.
    pub(crate) fn among_others(name: Option<&str>) -> Self {
        let name = name.unwrap_or(NAMELESS);
        Self { name: name.to_owned(), seed: Some(hash(name.as_bytes())) }
    }

    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// The number of a track. Those of one device are all different.
    pub(crate) fn uuid(&self, kind: Kind, start: u32, number: u32) -> u64 {
        let told = (kind as u64) << 56 | u64::from(start) << 32 | u64::from(number);
        mixed(told ^ self.seed.unwrap_or_default())
    }

    /// The number of a track that its name alone tells from others: the same text may lie at several addresses.
    pub(crate) fn uuid_of(&self, kind: Kind, start: u32, name: &[u8]) -> u64 {
        mixed(hash(name) ^ self.uuid(kind, start, u32::MAX))
    }

    /// The number of a start's process.
    pub(crate) fn pid(&self, start: u32) -> u64 {
        match self.seed {
            // No start is process 0, which is the idle one.
            None => u64::from(start.max(1) & 0x7FFF_FFFF),
            Some(seed) => PIDS | (mixed(seed) & 0x3FFF) << 16 | u64::from(start & 0x3FF) << 6,
        }
    }

    /// The number of a writer's thread.
    pub(crate) fn tid(&self, start: u32, writer: u32) -> u64 {
        let number = u64::from(writer) + 1;
        if self.seed.is_some() { self.pid(start) + number } else { number }
    }

    /// The number of a start's clock, which is everybody's in the trace.
    pub(crate) fn clock(&self, start: u32) -> u64 {
        // Below 128 are clocks of the system, and of sequences.
        128 + (mixed(self.seed.unwrap_or_default() ^ u64::from(start)) & 0xFF_FFFF)
    }
}

/// FNV-1a.
fn hash(bytes: &[u8]) -> u64 {
    let hash = |hash: u64, byte: &u8| (hash ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01B3);
    bytes.iter().fold(0xCBF2_9CE4_8422_2325, hash)
}

/// Different for different numbers: the end of SplitMix64.
fn mixed(number: u64) -> u64 {
    let number = number.wrapping_add(0x9E37_79B9_7F4A_7C15);
    let number = (number ^ number >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let number = (number ^ number >> 27).wrapping_mul(0x94D0_49BB_1331_11EB);
    number ^ number >> 31
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn two_devices_share_no_number_with_each_other_nor_with_the_system() {
        let devices = ["oven", "door"].map(|name| Identity::among_others(Some(name)));
        let (mut uuids, mut ids, mut clocks) = (BTreeSet::new(), BTreeSet::new(), BTreeSet::new());
        for device in &devices {
            for start in 1..4 {
                assert!(clocks.insert(device.clock(start)) && device.clock(start) >= 128);
                assert!(ids.insert(device.pid(start)));
                for number in 0..63 {
                    let id = device.tid(start, number);
                    assert!(ids.insert(id) && id > 1 << 22 && i32::try_from(id).is_ok(), "{id}");
                    for kind in [Kind::Process, Kind::Thread, Kind::Track, Kind::Counter] {
                        assert!(uuids.insert(device.uuid(kind, start, number)));
                    }
                }
            }
        }
    }

    #[test]
    fn a_device_that_is_alone_has_small_numbers() {
        let device = Identity::alone(None);
        assert_eq!((device.pid(3), device.tid(3, 0), device.name()), (3, 1, "firmware"));
        assert_ne!(device.pid(0), 0);
    }
}
