//! What lies where in the region, and how large the region must be.
//!
//! | bytes | what |
//! |---|---|
//! | 256 | header: magic, version, sizes, cursors, counters |
//! | 48 a sequence | the sequence table and its hash index |
//! | 176 a sequence, if asked for | histograms of chunk sizes |
//! | the rest | the ring of chunks |
//!
//! Offsets count from the ring's start, so the region may be copied or mapped anywhere.

mod grow;

use super::config::{Config, FillPolicy};
use super::crc::{CRC_SIZE, Crc};
use super::error::{AttachError, RegionError};
use super::histogram::StoredHistogram;
use super::ring::Ring;
use super::sequence_state::{NO_SLOT, SequenceState};
use super::stats::{BufferStats, Counters};
use super::tb_chunk::PAYLOAD;
use super::words::{Le16, Le32, Le64};
use core::mem::offset_of;
use core::ops::Range;
use core::sync::atomic::{Ordering, compiler_fence};
use static_assertions::const_assert_eq;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, transmute_ref};

/// `TBUF` in the order of the bytes.
const MAGIC: u32 = u32::from_le_bytes(MAGIC_BYTES);
pub(super) const MAGIC_BYTES: [u8; 4] = *b"TBUF";
/// Counts up whenever the layout changes.
const VERSION: u16 = 1;
const HEADER: usize = 256;
/// The smallest ring worth having: one chunk of 40 bytes.
const SMALLEST_RING: usize = 64;

bitflags::bitflags! {
    /// The state of the whole buffer.
    #[derive(Clone, Copy, PartialEq, Eq)]
    pub(super) struct Mode: u32 {
        /// Full buffers stop.
        const DISCARD = 1;
        /// The buffer has stopped.
        const SEALED = 2;
        /// The lap being written, odd or even.
        const LAP = 4;
        /// Chunks carry checksums.
        const CRC = 8;
        /// The bits that change only when a region is taken over with another policy.
        const FIXED = Self::DISCARD.bits() | Self::CRC.bits();
    }
}

/// The first bytes of a region. Aligned to 8 bytes even on targets where 64-bit integers need only 4.
#[derive(Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C, align(8))]
pub(super) struct Header {
    magic: Le32,
    version: Le16,
    header_size: Le16,
    ring_offset: Le32,
    ring_size: Le32,
    sequences: Le16,
    sequence_size: Le16,
    histogram_size: Le16,
    chunk_header_size: Le16,
    mode: Le32,
    /// Where the next chunk goes.
    pub(super) write: Le32,
    /// The ring holds items up to here; the rest was never written.
    pub(super) used: Le32,
    reserved_words: [Le32; 2],
    /// Slots of the table given out so far.
    pub(super) slots: Le16,
    pub(super) longest_empty: Le16,
    pub(super) latest_empty: Le16,
    /// Read sessions begun; never 0 after the first.
    pub(super) generation: Le16,
    /// Checksum of what stays as it was made, or as `attach_or_new` asked for: everything up to `chunk_header_size`,
    /// and the fixed part of `mode`.
    check: Le32,
    /// Bytes that the write cursor has moved in all.
    pub(super) position: Le64,
    /// How far, counted like `position`, memory was written to: a chunk from shared memory may turn out to be shorter
    /// than what was copied. Never beyond the next item, so leases begun later are not affected.
    pub(super) touched: Le64,
    reserved: [Le32; 4],
    pub(super) counters: Counters,
}
const_assert_eq!(size_of::<Header>(), HEADER);
const_assert_eq!(align_of::<Header>(), 8);
// What follows the header stays aligned.
const_assert_eq!((size_of::<SequenceState>() | size_of::<StoredHistogram>()) % 8, 0);

impl Header {
    /// Bytes at the end of each chunk's room that hold its checksum.
    #[inline]
    pub(super) fn checksum_size(&self) -> u16 {
        if cfg!(feature = "crc") && self.mode().contains(Mode::CRC) { CRC_SIZE } else { 0 }
    }
    pub(super) fn mode(&self) -> Mode {
        Mode::from_bits_retain(self.mode.get())
    }
    pub(super) fn set_mode(&mut self, mode: Mode) {
        self.mode.set(mode.bits());
    }
    #[inline]
    pub(super) fn ring_size(&self) -> u32 {
        self.ring_size.get()
    }

    /// Changes what a full buffer does. A ring that has lapped is full: when nothing may be overwritten any more, it
    /// takes nothing more.
    pub(super) fn set_policy(&mut self, policy: FillPolicy) {
        let discard = policy == FillPolicy::Discard;
        let mut mode = self.mode();
        if mode.contains(Mode::DISCARD) != discard {
            mode.set(Mode::DISCARD, discard);
            mode.set(Mode::SEALED, discard && self.write.get() < self.used.get());
            self.set_mode(mode);
            self.check.set(self.checksum());
        }
    }

    fn checksum(&self) -> u32 {
        const_assert_eq!(offset_of!(Header, mode), 24);
        let words: &[Le32; HEADER / 4] = transmute_ref!(self);
        let [_, a, b, c, d, e, ..] = *words;
        let fixed = [Le32::new(MAGIC), a, b, c, d, e, Le32::new((self.mode() & Mode::FIXED).bits())];
        Crc::new().with(fixed.as_bytes()).value()
    }
}

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
#[cfg(not(target_os = "none"))]
fn clear(bytes: &mut [u8]) {
    bytes.fill(0);
}

/// Zeroes memory word by word, so that the compiler does not make it a call of `memset`: that is 200 bytes of code.
#[cfg(target_os = "none")]
fn clear(bytes: &mut [u8]) {
    for word in <[Le32]>::mut_from_bytes(bytes).unwrap_or_default() {
        word.set(0);
        compiler_fence(Ordering::SeqCst);
    }
}

/// Bytes a chunk takes besides its payload and alignment.
const fn chunk_overhead(crc: bool) -> u16 {
    PAYLOAD as u16 + if crc { CRC_SIZE } else { 0 }
}
const_assert_eq!(chunk_overhead(false), 24);
const_assert_eq!(chunk_overhead(true), 28);

/// Where the parts are; kept outside the region, because anything in it may have been scribbled over.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct Layout {
    /// Bytes skipped to reach 8-byte alignment.
    start: usize,
    sequences: u16,
    histograms: bool,
    ring_offset: usize,
    ring_size: u32,
}

/// Whether a region may be cut off in its ring.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum RingEnd {
    Required,
    MayBeMissing,
}

impl Layout {
    pub(super) fn fit(memory: &[u8], config: &Config) -> Result<Self, RegionError> {
        if config.sequences < 4 {
            return Err(RegionError::TooFewSequences);
        }
        let start = memory.as_ptr().align_offset(align_of::<Header>());
        let ring_offset = config.overhead();
        let too_small = RegionError::TooSmall { needed: ring_offset.saturating_add(SMALLEST_RING) };
        let left = memory
            .len()
            .checked_sub(start)
            .and_then(|room| room.checked_sub(ring_offset))
            .ok_or(too_small)?;
        if left < SMALLEST_RING {
            return Err(too_small);
        }
        let ring_size = u32::try_from(left).unwrap_or(u32::MAX) & !3;
        Ok(Self { start, sequences: config.sequences, histograms: config.histograms, ring_offset, ring_size })
    }

    /// Lays out a new region. Touches the header and the table, not the ring.
    pub(super) fn format(memory: &mut [u8], config: &Config) -> Result<Self, RegionError> {
        let layout = Self::fit(memory, config)?;
        if let Some(header) = layout.header_mut(memory) {
            // Half laid out, it must not be taken for a region.
            header.magic.set(0);
            compiler_fence(Ordering::SeqCst);
        }
        if let Some(bytes) =
            memory.get_mut(layout.start..).and_then(|rest| rest.get_mut(..layout.ring_offset))
        {
            clear(bytes);
        }
        if let Some(header) = layout.header_mut(memory) {
            header.version.set(VERSION);
            header.header_size.set(HEADER as u16);
            header.ring_offset.set(layout.ring_offset as u32);
            header.ring_size.set(layout.ring_size);
            header.sequences.set(layout.sequences);
            header.sequence_size.set(size_of::<SequenceState>() as u16);
            header.histogram_size.set(if layout.histograms {
                size_of::<StoredHistogram>() as u16
            } else {
                0
            });
            header.chunk_header_size.set(chunk_overhead(config.crc));
            header.longest_empty.set(NO_SLOT);
            header.latest_empty.set(NO_SLOT);
            let mut mode = Mode::empty();
            mode.set(Mode::DISCARD, config.policy == FillPolicy::Discard);
            mode.set(Mode::CRC, config.crc);
            header.set_mode(mode);
            header.check.set(header.checksum());
            compiler_fence(Ordering::SeqCst);
            header.magic.set(MAGIC);
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

    pub(super) fn used_part_mut<'a>(&self, memory: &'a mut [u8], used: u32) -> Option<&'a mut [u8]> {
        memory.get_mut(self.start..)?.get_mut(..self.ring_offset.checked_add(used as usize)?)
    }

    /// The parts of the region. `None` if the memory is not what it was when it was handed over.
    #[cfg_attr(not(target_os = "none"), inline)]
    #[cfg_attr(target_os = "none", inline(never))]
    pub(super) fn state<'a>(&self, memory: &'a mut [u8]) -> Option<State<'a>> {
        let (header, rest) = Header::mut_from_prefix(memory.get_mut(self.start..)?).ok()?;
        let (table, rest) =
            <[SequenceState]>::mut_from_prefix_with_elems(rest, usize::from(self.sequences)).ok()?;
        #[cfg(feature = "histograms")]
        let (histograms, rest) =
            <[StoredHistogram]>::mut_from_prefix_with_elems(rest, self.histogram_count()).ok()?;
        let (words, _) = <[Le32]>::mut_from_prefix_with_elems(rest, self.ring_words()).ok()?;
        let ring = Ring { words };
        Some(State {
            header,
            table,
            #[cfg(feature = "histograms")]
            histograms,
            ring,
        })
    }

    pub(super) fn header<'a>(&self, memory: &'a [u8]) -> Option<&'a Header> {
        Header::ref_from_prefix(memory.get(self.start..)?).ok().map(|(header, _)| header)
    }

    /// All counters.
    pub(super) fn stats(&self, memory: &[u8]) -> BufferStats {
        self.header(memory)
            .map(|header| header.counters.snapshot(u64::from(header.ring_size())))
            .unwrap_or_default()
    }

    /// What it does when it is full.
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
        let needed = said.size();
        let there = bytes.len().saturating_sub(said.ring_offset);
        let ring_size = match u32::try_from(there) {
            Ok(there) if there < said.ring_size => {
                if end == RingEnd::Required || bytes.len() < said.ring_offset {
                    return Err(AttachError::TooShort { needed });
                }
                there & !3
            }
            _ => said.ring_size,
        };
        Ok(Self { start, ring_size, ..said })
    }

    /// The bytes of the ring in a region that begins with these bytes, aligned or not; everything after the header may
    /// be missing. The region ends where the ring ends.
    pub(super) fn ring_range(memory: &[u8]) -> Result<Range<usize>, AttachError> {
        let (header, _) = Header::read_from_prefix(memory).map_err(|_| AttachError::NoRegion)?;
        let said = Self::said_by(&header)?;
        Ok(said.ring_offset..said.size())
    }

    fn size(&self) -> usize {
        self.ring_offset.saturating_add(self.ring_size as usize)
    }

    /// The layout of a region that begins with this header, if what the header says can be true.
    fn said_by(header: &Header) -> Result<Self, AttachError> {
        if header.magic.get() != MAGIC {
            return Err(AttachError::NoRegion);
        }
        if header.version.get() != VERSION {
            return Err(AttachError::UnknownVersion { found: header.version.get() });
        }
        let (sequences, ring_size) = (header.sequences.get(), header.ring_size.get());
        let histograms = header.histogram_size.get() > 0;
        let crc = header.mode().contains(Mode::CRC);
        let config = Config { policy: FillPolicy::RingBuffer, sequences, histograms, crc };
        let ring_offset = config.overhead();
        let histogram_size = if histograms { size_of::<StoredHistogram>() } else { 0 };
        let consistent = header.check.get() == header.checksum()
            && usize::from(header.header_size.get()) == HEADER
            && usize::from(header.sequence_size.get()) == size_of::<SequenceState>()
            && usize::from(header.histogram_size.get()) == histogram_size
            && header.chunk_header_size.get() == chunk_overhead(crc)
            && header.ring_offset.get() as usize == ring_offset
            && sequences >= 4
            && ring_size.is_multiple_of(4)
            && ring_size as usize >= SMALLEST_RING;
        if !consistent {
            return Err(AttachError::HeaderDamaged);
        }
        if crc && !cfg!(feature = "crc") {
            return Err(AttachError::CrcLeftOut);
        }
        if histograms && !cfg!(feature = "histograms") {
            return Err(AttachError::HistogramsLeftOut);
        }
        Ok(Self { start: 0, sequences, histograms, ring_offset, ring_size })
    }

    pub(super) fn has_checksums(&self, memory: &[u8]) -> bool {
        self.header(memory).is_some_and(|header| header.mode().contains(Mode::CRC))
    }

    /// How many bytes of the ring are there.
    pub(super) fn ring_size(&self) -> u32 {
        self.ring_size
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
    #[cfg(feature = "histograms")]
    #[inline]
    pub(super) fn histogram(&mut self, slot: u16) -> Option<&mut StoredHistogram> {
        self.histograms.get_mut(usize::from(slot))
    }

    #[cfg(not(feature = "histograms"))]
    #[inline]
    pub(super) fn histogram(&mut self, _slot: u16) -> Option<&mut StoredHistogram> {
        None
    }
}
