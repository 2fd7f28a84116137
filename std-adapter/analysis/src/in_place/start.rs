//! The writers of one start of a device.

use std::collections::BTreeMap;

use tracebuf::inplace::ChunkView;

use super::identity::Identity;
use super::names::Names;
use super::sequence::Sequence;
use super::surroundings::{Process, Surroundings};

/// Makes packets of the chunks of one start, which come in any order of writers, and each writer's nearly in its own.
#[derive(Debug)]
pub(crate) struct StartPackets {
    process: Process,
    /// Whether a writer's first chunk has to be its chunk 0.
    is_from_beginning: bool,
    writers: BTreeMap<u32, Sequence>,
}

impl StartPackets {
    /// Of the start with this number. If it is not `from_beginning`, chunks before the first that comes are not missed.
    pub(crate) fn new(identity: Identity, start: u32, frequency: u32, from_beginning: bool) -> Self {
        let process = Process { identity, start, frequency, state_every: usize::MAX };
        Self { process, is_from_beginning: from_beginning, writers: BTreeMap::new() }
    }

    /// Repeats names of processes and tracks after so many bytes of a sequence, as is needed in a ring.
    pub(crate) fn state_every(&mut self, bytes: usize) {
        self.process.state_every = bytes;
    }

    /// Nanoseconds of the device's time.
    pub(crate) fn nanoseconds(&self, ticks: u64) -> u64 {
        self.process.nanoseconds(ticks)
    }

    /// Takes a chunk. If it was taken already, only what is new in it counts.
    pub(crate) fn chunk<N: Names>(&mut self, chunk: &ChunkView<'_>, around: &mut Surroundings<'_, N>) {
        let is_from_beginning = self.is_from_beginning;
        let new = || Sequence::new((around.next_sequence)(), chunk, is_from_beginning);
        let writer = self.writers.entry(chunk.writer()).or_insert_with(new);
        writer.chunk(&self.process, chunk, around);
    }
}
