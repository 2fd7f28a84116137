//! The region: its parts, where they lie, and how large it must be.
//!
//! | bytes | what |
//! |---|---|
//! | 256 | header: magic, version, sizes, cursors, counters |
//! | 48 a sequence | the sequence table and its hash index |
//! | 176 a sequence, if asked for | histograms of chunk sizes |
//! | the rest | the ring of chunks |
//!
//! Offsets count from the ring's start, so the region may be copied or mapped anywhere.
//!
//! Version 2 of the layout gave the causes of loss a field of their own in a sequence's entry. A region of version 1
//! can be looked at as it is; attaching makes it one of version 2.

mod header;

use super::config::{Config, FillPolicy};
use super::error::{AttachError, RegionError};
use super::ring::Ring;
use super::sequence_state::SequenceState;
use super::stats::{BufferStats, StoredHistogram};
use super::words::Le32;
use core::ops::Range;
#[cfg(tracebuf_small)]
use core::sync::atomic;
use zerocopy::FromBytes;

pub(super) use header::{Header, MAGIC_BYTES, Mode};

/// The smallest ring: one chunk of 40 bytes.
const SMALLEST_RING: usize = 64;

impl Config {
    /// Bytes of region, aligned to 8, in which `ring` bytes are left for chunks and their headers.
    pub const fn region_size(&self, ring: u32) -> u64 {
        self.overhead() as u64 + ring as u64
    }

    pub(super) const fn overhead(&self) -> usize {
        let histogram = if self.histograms { size_of::<StoredHistogram>() } else { 0 };
        size_of::<Header>() + self.sequences as usize * (size_of::<SequenceState>() + histogram)
    }
}

/// Zeroes memory.
#[cfg(not(tracebuf_small))]
fn clear(bytes: &mut [u8]) {
    bytes.fill(0);
}

/// Zeroes memory word by word, so that the compiler does not make it a call of `memset`: that is 200 bytes of code.
#[cfg(tracebuf_small)]
fn clear(bytes: &mut [u8]) {
    for word in <[Le32]>::mut_from_bytes(bytes).unwrap_or_default() {
        word.set(0);
        atomic::compiler_fence(atomic::Ordering::SeqCst);
    }
}

/// Where the parts are; kept outside the region, because anything in it may have been scribbled over.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct RegionLayout {
    /// Bytes skipped to reach 8-byte alignment.
    start: usize,
    pub(super) sequences: u16,
    pub(super) histograms: bool,
    pub(super) ring_offset: usize,
    /// Bytes of the ring that are there.
    pub(super) ring_size: u32,
}

/// Whether a region may be cut off in its ring.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum RingEnd {
    Required,
    MayBeMissing,
}

impl RegionLayout {
    pub(super) fn fit(memory: &[u8], config: &Config) -> Result<Self, RegionError> {
        if config.sequences < 4 {
            return Err(RegionError::TooFewSequences);
        }
        let start = memory.as_ptr().align_offset(align_of::<Header>());
        let ring_offset = config.overhead();
        let too_small = RegionError::TooSmall { needed: ring_offset.saturating_add(SMALLEST_RING) };
        let room = memory.len().checked_sub(start).and_then(|room| room.checked_sub(ring_offset));
        let left = room.filter(|left| *left >= SMALLEST_RING).ok_or(too_small)?;
        let ring_size = u32::try_from(left).unwrap_or(u32::MAX) & !3;
        Ok(Self { start, sequences: config.sequences, histograms: config.histograms, ring_offset, ring_size })
    }

    /// Lays out a new region. Touches the header and the table, not the ring, nor histograms: those are cleared as
    /// sequences get them, so that a large table takes no memory for them before.
    pub(super) fn format(memory: &mut [u8], config: &Config) -> Result<Self, RegionError> {
        let layout = Self::fit(memory, config)?;
        if let Some(header) = layout.header_mut(memory) {
            header.disown();
        }
        if let Some(bytes) = layout.used_part_mut(memory, 0) {
            #[cfg(feature = "histograms")]
            let bytes = {
                let histograms = layout.histogram_count() * size_of::<StoredHistogram>();
                bytes.get_mut(..layout.ring_offset.saturating_sub(histograms)).unwrap_or_default()
            };
            clear(bytes);
        }
        if let Some(header) = layout.header_mut(memory) {
            header.describe(&layout, config);
        }
        Ok(layout)
    }

    /// This layout for a copy of the region in which only `used` bytes of the ring are there.
    pub(super) fn of_copy(&self, memory: &[u8], used: u32) -> Result<Self, RegionError> {
        let start = memory.as_ptr().align_offset(align_of::<Header>());
        let copy = Self { start, ring_size: used, ..*self };
        let needed = self.ring_offset.saturating_add(used as usize);
        if memory.len().saturating_sub(start) < needed {
            return Err(RegionError::TooSmall { needed });
        }
        Ok(copy)
    }

    /// Header, table and the first `used` bytes of the ring.
    pub(super) fn used_part<'a>(&self, memory: &'a [u8], used: u32) -> Option<&'a [u8]> {
        memory.get(self.start..)?.get(..self.ring_offset.checked_add(used as usize)?)
    }

    /// Bytes of memory that a copy needs, wherever it starts.
    pub(super) fn clone_size(&self, memory: &[u8]) -> usize {
        let used = self.header(memory).map_or(0, |header| header.used.get());
        self.used_part(memory, used).map_or(0, <[u8]>::len).saturating_add(7)
    }

    pub(super) fn used_part_mut<'a>(&self, memory: &'a mut [u8], used: u32) -> Option<&'a mut [u8]> {
        memory.get_mut(self.start..)?.get_mut(..self.ring_offset.checked_add(used as usize)?)
    }

    /// The parts of the region. `None` if the memory is not what it was when it was handed over.
    #[cfg_attr(not(tracebuf_small), inline)]
    #[cfg_attr(tracebuf_small, inline(never))]
    pub(super) fn state<'a>(&self, memory: &'a mut [u8]) -> Option<State<'a>> {
        let (header, rest) = Header::mut_from_prefix(memory.get_mut(self.start..)?).ok()?;
        let (table, rest) =
            <[SequenceState]>::mut_from_prefix_with_elems(rest, usize::from(self.sequences)).ok()?;
        #[cfg(feature = "histograms")]
        let (histograms, rest) =
            <[StoredHistogram]>::mut_from_prefix_with_elems(rest, self.histogram_count()).ok()?;
        let (words, _) = <[Le32]>::mut_from_prefix_with_elems(rest, self.ring_words()).ok()?;
        Some(State {
            header,
            table,
            #[cfg(feature = "histograms")]
            histograms,
            ring: Ring { words },
        })
    }

    pub(super) fn header<'a>(&self, memory: &'a [u8]) -> Option<&'a Header> {
        Header::ref_from_prefix(memory.get(self.start..)?).ok().map(|(header, _)| header)
    }

    pub(super) fn stats(&self, memory: &[u8]) -> BufferStats {
        self.header(memory)
            .map(|header| header.counters.snapshot(header.ring_size().into()))
            .unwrap_or_default()
    }

    pub(super) fn policy(&self, memory: &[u8]) -> FillPolicy {
        match self.header(memory) {
            Some(header) if header.mode().contains(Mode::DISCARD) => FillPolicy::Discard,
            _ => FillPolicy::RingBuffer,
        }
    }

    fn histogram_count(&self) -> usize {
        if self.histograms { usize::from(self.sequences) } else { 0 }
    }

    fn ring_words(&self) -> usize {
        self.ring_size as usize / size_of::<Le32>()
    }

    pub(super) fn ring<'a>(&self, memory: &'a [u8]) -> Option<&'a [Le32]> {
        let rest = memory.get(self.start..)?.get(self.ring_offset..)?;
        <[Le32]>::ref_from_prefix_with_elems(rest, self.ring_words()).ok().map(|(words, _)| words)
    }

    fn header_mut<'a>(&self, memory: &'a mut [u8]) -> Option<&'a mut Header> {
        Header::mut_from_prefix(memory.get_mut(self.start..)?).ok().map(|(header, _)| header)
    }

    /// The layout of a region that is there already, as its header says, if that can be true.
    pub(super) fn find(memory: &[u8], end: RingEnd) -> Result<Self, AttachError> {
        let start = memory.as_ptr().align_offset(align_of::<Header>());
        let bytes = memory.get(start..).unwrap_or_default();
        let (header, _) = Header::ref_from_prefix(bytes).map_err(|_| AttachError::NoRegion)?;
        let said = Self::said_by(header)?;
        if bytes.len() < said.ring_offset || end == RingEnd::Required && bytes.len() < said.size() {
            return Err(AttachError::TooShort { needed: said.size() });
        }
        let there = u32::try_from(bytes.len().wrapping_sub(said.ring_offset)).unwrap_or(u32::MAX);
        Ok(Self { start, ring_size: said.ring_size.min(there & !3), ..said })
    }

    /// See [`RingView::place`](super::RingView::place).
    pub(super) fn ring_range(memory: &[u8]) -> Result<Range<usize>, AttachError> {
        let (header, _) = Header::read_from_prefix(memory).map_err(|_| AttachError::NoRegion)?;
        let said = Self::said_by(&header)?;
        Ok(said.ring_offset..said.size())
    }

    fn size(&self) -> usize {
        self.ring_offset.saturating_add(self.ring_size as usize)
    }

    pub(super) fn has_checksums(&self, memory: &[u8]) -> bool {
        self.header(memory).is_some_and(|header| header.mode().contains(Mode::CRC))
    }

    pub(super) fn table<'a>(&self, memory: &'a [u8]) -> Option<(&'a [SequenceState], &'a [StoredHistogram])> {
        let rest = memory.get(self.start..)?.get(size_of::<Header>()..)?;
        let (table, rest) =
            <[SequenceState]>::ref_from_prefix_with_elems(rest, usize::from(self.sequences)).ok()?;
        let (histograms, _) =
            <[StoredHistogram]>::ref_from_prefix_with_elems(rest, self.histogram_count()).ok()?;
        Some((table, histograms))
    }
}

/// The result of an operation as long as the region is as this crate left it. `None`: somebody else wrote into it, and
/// the operation stops where it noticed.
pub(super) type Intact<T> = Option<T>;

/// The region taken apart: what every operation works on.
pub(super) struct State<'a> {
    pub(super) header: &'a mut Header,
    pub(super) table: &'a mut [SequenceState],
    #[cfg(feature = "histograms")]
    pub(super) histograms: &'a mut [StoredHistogram],
    pub(super) ring: Ring<'a>,
}

impl State<'_> {
    /// The histogram of a sequence, if the buffer keeps them.
    #[inline]
    #[cfg_attr(not(feature = "histograms"), expect(unused_variables))]
    pub(super) fn histogram(&mut self, slot: u16) -> Option<&mut StoredHistogram> {
        #[cfg(feature = "histograms")]
        let histogram = self.histograms.get_mut(usize::from(slot));
        #[cfg(not(feature = "histograms"))]
        let histogram = None;
        histogram
    }
}
