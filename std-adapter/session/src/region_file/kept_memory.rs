//! The part of the file in which a ring's descriptions, and what recovery needs to read the ring, are kept.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use memmap2::MmapMut;

use super::KEPT_COUNTS;
use super::memory::Control;

/// Memory of a machine.
pub(crate) enum VmMemory {
    Heap(Vec<u8>),
    File(MmapMut),
}

impl AsMut<[u8]> for VmMemory {
    fn as_mut(&mut self) -> &mut [u8] {
        match self {
            Self::Heap(memory) => memory,
            Self::File(memory) => memory,
        }
    }
}

/// Two areas of the same size, of which one counts: another content is made in the other one, and then counts by one
/// store. It keeps the file locked.
pub(crate) struct KeptMemory {
    control: Arc<Control>,
    /// Those that nobody has.
    areas: [Option<VmMemory>; 2],
    /// Which one counts, from 1; 0: none so far.
    counts: usize,
    bytes: usize,
}

impl KeptMemory {
    pub(super) fn new(control: Arc<Control>, areas: [MmapMut; 2]) -> Self {
        let bytes = areas.each_ref().map(|area| area.len()).into_iter().min().unwrap_or(0);
        Self { control, areas: areas.map(|area| Some(VmMemory::File(area))), counts: 0, bytes }
    }

    /// Bytes of an area.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    fn other(&self) -> usize {
        if self.counts == 1 { 2 } else { 1 }
    }

    /// The area that does not count.
    pub(crate) fn take(&mut self) -> Option<VmMemory> {
        let other = self.other();
        self.areas.get_mut(other - 1)?.take()
    }

    /// From here on it counts.
    pub(crate) fn swap(&mut self) {
        self.counts = self.other();
        // What is in it must be stored before.
        self.control.word(KEPT_COUNTS).store((self.counts as u64).to_le(), Ordering::SeqCst);
    }

    /// Takes back the one that counted before.
    pub(crate) fn give_back(&mut self, memory: VmMemory) {
        let other = self.other();
        if let Some(area) = self.areas.get_mut(other - 1) {
            *area = Some(memory);
        }
    }
}
