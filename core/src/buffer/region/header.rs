//! The header of a region: what it says about the rest, and the state of the whole buffer.

use super::{RegionLayout, SMALLEST_RING};
use crate::buffer::config::{Config, FillPolicy};
use crate::buffer::crc::{CRC_SIZE, Crc};
use crate::buffer::error::AttachError;
use crate::buffer::sequence_state::{NO_SLOT, SequenceState};
use crate::buffer::stats::{Counters, StoredHistogram};
use crate::buffer::tb_chunk::PAYLOAD;
use crate::buffer::words::{Le16, Le32, Le64};
use core::mem::offset_of;
use core::sync::atomic::{Ordering, compiler_fence};
use static_assertions::const_assert_eq;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, transmute_ref};

/// `TBUF` in the order of the bytes.
const MAGIC: u32 = u32::from_le_bytes(MAGIC_BYTES);
pub(in crate::buffer) const MAGIC_BYTES: [u8; 4] = *b"TBUF";
/// Counts up whenever the layout changes.
const VERSION: u16 = 2;
/// The oldest version that can be attached to. What of a sequence's entry is otherwise there, `upgrade` changes.
const OLDEST_VERSION: u16 = 1;
const HEADER: usize = 256;

bitflags::bitflags! {
    /// The state of the whole buffer.
    #[derive(Clone, Copy, PartialEq, Eq)]
    pub(in crate::buffer) struct Mode: u32 {
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
pub(in crate::buffer) struct Header {
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
    pub(in crate::buffer) write: Le32,
    /// The ring holds items up to here; the rest was never written.
    pub(in crate::buffer) used: Le32,
    reserved_words: [Le32; 2],
    /// Slots of the table given out so far.
    pub(in crate::buffer) slots: Le16,
    pub(in crate::buffer) longest_empty: Le16,
    pub(in crate::buffer) latest_empty: Le16,
    /// Read sessions begun; never 0 after the first.
    pub(in crate::buffer) generation: Le16,
    /// Checksum of what stays as it was made, or as `attach_or_new` asked for: everything up to `chunk_header_size`,
    /// and the fixed part of `mode`. The version counts as the oldest, so that one store can change it.
    check: Le32,
    /// Bytes that the write cursor has moved in all.
    pub(in crate::buffer) position: Le64,
    /// How far, counted like `position`, memory was written to: a chunk from shared memory may turn out to be shorter
    /// than what was copied. Never beyond the next item, so leases begun later are not affected.
    pub(in crate::buffer) touched: Le64,
    reserved: [Le32; 4],
    pub(in crate::buffer) counters: Counters,
}
const_assert_eq!(size_of::<Header>(), HEADER);
const_assert_eq!(align_of::<Header>(), 8);
// What follows the header stays aligned.
const_assert_eq!((size_of::<SequenceState>() | size_of::<StoredHistogram>()) % 8, 0);

impl Header {
    /// Bytes at the end of each chunk's room that hold its checksum.
    #[inline]
    pub(in crate::buffer) fn checksum_size(&self) -> u16 {
        if cfg!(feature = "crc") && self.mode().contains(Mode::CRC) { CRC_SIZE } else { 0 }
    }
    pub(in crate::buffer) fn mode(&self) -> Mode {
        Mode::from_bits_retain(self.mode.get())
    }
    pub(in crate::buffer) fn set_mode(&mut self, mode: Mode) {
        self.mode.set(mode.bits());
    }
    #[inline]
    pub(in crate::buffer) fn ring_size(&self) -> u32 {
        self.ring_size.get()
    }
    pub(in crate::buffer) fn set_ring_size(&mut self, bytes: u32) {
        self.ring_size.set(bytes);
        self.check.set(self.checksum());
    }

    /// Changes what a full buffer does. A ring that has lapped is full.
    pub(in crate::buffer) fn set_policy(&mut self, policy: FillPolicy) {
        let discard = policy == FillPolicy::Discard;
        let mut mode = self.mode();
        if mode.contains(Mode::DISCARD) != discard {
            mode.set(Mode::DISCARD, discard);
            mode.set(Mode::SEALED, discard && self.write.get() < self.used.get());
            self.set_mode(mode);
            self.check.set(self.checksum());
        }
    }

    /// Says that there is no region here: half laid out, it must not be taken for one.
    pub(super) fn disown(&mut self) {
        self.magic.set(0);
        compiler_fence(Ordering::SeqCst);
    }

    /// Says what lies where in the rest of the region, and last that there is one.
    pub(super) fn describe(&mut self, layout: &RegionLayout, config: &Config) {
        self.version.set(VERSION);
        self.header_size.set(HEADER as u16);
        self.ring_offset.set(layout.ring_offset as u32);
        self.ring_size.set(layout.ring_size);
        self.sequences.set(layout.sequences);
        self.sequence_size.set(size_of::<SequenceState>() as u16);
        self.histogram_size.set(if layout.histograms { size_of::<StoredHistogram>() as u16 } else { 0 });
        self.chunk_header_size.set(chunk_overhead(config.crc));
        self.longest_empty.set(NO_SLOT);
        self.latest_empty.set(NO_SLOT);
        let mut mode = Mode::empty();
        mode.set(Mode::DISCARD, config.policy == FillPolicy::Discard);
        mode.set(Mode::CRC, config.crc);
        self.set_mode(mode);
        self.check.set(self.checksum());
        compiler_fence(Ordering::SeqCst);
        self.magic.set(MAGIC);
    }

    /// Whether the entries of the table are as in an older version.
    pub(in crate::buffer) fn is_old(&self) -> bool {
        self.version.get() < VERSION
    }
    pub(in crate::buffer) fn set_upgraded(&mut self) {
        self.version.set(VERSION);
    }

    fn checksum(&self) -> u32 {
        const_assert_eq!(offset_of!(Header, version), 4);
        const_assert_eq!(offset_of!(Header, mode), 24);
        let words: &[Le32; HEADER / 4] = transmute_ref!(self);
        let [_, a, b, c, d, e, ..] = *words;
        let a = Le32::new(a.get() & !0xFFFF | u32::from(OLDEST_VERSION));
        let fixed = [Le32::new(MAGIC), a, b, c, d, e, Le32::new((self.mode() & Mode::FIXED).bits())];
        Crc::new().with(fixed.as_bytes()).value()
    }
}

impl RegionLayout {
    /// The layout of a region that begins with this header, if what the header says can be true.
    pub(super) fn said_by(header: &Header) -> Result<Self, AttachError> {
        if header.magic.get() != MAGIC {
            return Err(AttachError::NoRegion);
        }
        if !(OLDEST_VERSION..=VERSION).contains(&header.version.get()) {
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
}

/// Bytes a chunk takes besides its payload and alignment.
const fn chunk_overhead(crc: bool) -> u16 {
    PAYLOAD as u16 + if crc { CRC_SIZE } else { 0 }
}
const_assert_eq!(chunk_overhead(false), 24);
const_assert_eq!(chunk_overhead(true), 28);
