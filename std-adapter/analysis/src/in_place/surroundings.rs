//! What making packets takes besides a chunk: its start, names, and where packets and counts go.

use std::collections::BTreeSet;

use super::identity::{Identity, Kind};

/// What was made of chunks, and what is missing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Counts {
    pub(crate) packets: u64,
    pub(crate) events: u64,
    /// Chunks of which nothing came though a later one of their writer did.
    pub(crate) missing_chunks: u64,
    pub(crate) dropped_events: u64,
    pub(crate) damaged_chunks: u64,
    pub(crate) unnamed: u64,
    /// Numbers of names that are not there at all.
    pub(crate) unknown: BTreeSet<u32>,
    /// The same with names of a program that is not at hand.
    pub(crate) unlinked: u64,
    /// The first and the last time of the device, in nanoseconds.
    pub(crate) span: Option<(u64, u64)>,
}

/// What making packets takes besides the chunk.
pub(crate) struct Surroundings<'s, N> {
    pub(crate) names: &'s N,
    /// Whether each complete chunk has a sum.
    pub(crate) has_sums: bool,
    /// The time in the trace of the device's nanoseconds.
    pub(crate) time: &'s mut dyn FnMut(u64) -> u64,
    /// The id of a sequence that nobody has.
    pub(crate) next_sequence: &'s mut dyn FnMut() -> u32,
    /// Takes each packet, as it is in a file.
    pub(crate) out: &'s mut dyn FnMut(&[u8]),
    pub(crate) counts: &'s mut Counts,
}

/// A start, as a process.
#[derive(Debug)]
pub(super) struct Process {
    pub(super) identity: Identity,
    pub(super) start: u32,
    /// Ticks per second; 0 if the device gave none.
    pub(super) frequency: u32,
    /// Bytes of packets between two descriptions of the same tracks.
    pub(super) state_every: usize,
}

impl Process {
    pub(super) fn nanoseconds(&self, ticks: u64) -> u64 {
        match self.frequency {
            0 => ticks,
            frequency => {
                (u128::from(ticks) * 1_000_000_000 / u128::from(frequency)).try_into().unwrap_or(u64::MAX)
            }
        }
    }

    pub(super) fn uuid(&self, kind: Kind, number: u32) -> u64 {
        self.identity.uuid(kind, self.start, number)
    }

    pub(super) fn id(&self) -> u64 {
        self.uuid(Kind::Process, 0)
    }
}
