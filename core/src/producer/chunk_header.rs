//! The header of a chunk in shared memory.

use super::atomics::{AtomicU32, Ordering};
use bitflags::bitflags;

bitflags! {
    /// Flags of a chunk, bits 10–15 of the header's `packets` half-word; the other three of them are kept but ignored.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub struct HeaderFlags: u8 {
        /// The first fragment continues a packet of the previous chunk.
        const CONTINUES_FROM_PREVIOUS = 1;
        /// The last fragment continues on the next chunk.
        const CONTINUES_ON_NEXT = 2;
        /// A size field in the chunk is still to be patched.
        const NEEDS_PATCHING = 4;
    }
}

/// What a chunk's header says, as its producer wrote it: not to be trusted.
///
/// In memory two words: the chunk's id, then `writer_id | (fragments | flags << 10) << 16`. The ABI has the
/// second as two half-words; both are stored as one word here, because racing accesses of mixed sizes are
/// undefined behaviour and only the chunk's owner ever changes it.
///
/// ```
/// use tracebuf::producer::{SmbChunkHeader, HeaderFlags};
///
/// let header = SmbChunkHeader { chunk_id: 7, writer_id: 2, fragments: 3, flags: HeaderFlags::CONTINUES_ON_NEXT };
/// assert_eq!(header.to_words(), [7, 0x0803_0002]);
/// assert_eq!(SmbChunkHeader::from_words(header.to_words()), header);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SmbChunkHeader {
    /// Position in the writer's sequence; wraps.
    pub chunk_id: u32,
    /// The writer; 0 is no writer.
    pub writer_id: u16,
    /// Fragments started, 0 to [`SmbChunkHeader::MAX_FRAGMENTS`].
    pub fragments: u16,
    /// Continuation and patching.
    pub flags: HeaderFlags,
}

impl SmbChunkHeader {
    /// Bytes of a header in shared memory.
    pub const SIZE: usize = 8;
    /// The largest number of fragments that the header's ten bits can say.
    pub const MAX_FRAGMENTS: u16 = 1023;

    /// The header from its two words, in native byte order.
    #[inline]
    pub const fn from_words(words: [u32; 2]) -> Self {
        let [chunk_id, second] = words;
        let packets = (second >> 16) as u16;
        SmbChunkHeader {
            chunk_id,
            writer_id: (second & 0xFFFF) as u16,
            fragments: packets & Self::MAX_FRAGMENTS,
            flags: HeaderFlags::from_bits_retain((packets >> 10) as u8),
        }
    }

    /// The header's two words, in native byte order.
    #[inline]
    pub const fn to_words(self) -> [u32; 2] {
        let packets = (self.fragments & Self::MAX_FRAGMENTS) as u32 | (self.flags.bits() as u32) << 10;
        [self.chunk_id, self.writer_id as u32 | packets << 16]
    }
}

/// Sets flags in a chunk's header, with the chunk's owner as the only writer.
pub(crate) fn add_flags(words: &[AtomicU32], flags: HeaderFlags) {
    let [_, packets, ..] = words else { return };
    let flags = u32::from(flags.bits()) << 26;
    packets.store(packets.load(Ordering::Relaxed) | flags.to_le(), Ordering::Release);
}

/// Stores a chunk's header, the second word last: when a fragment starts, those before it are all there.
pub(crate) fn set_header(words: &[AtomicU32], header: SmbChunkHeader) {
    let [id, packets, ..] = words else { return };
    let [first, second] = header.to_words();
    id.store(first.to_le(), Ordering::Relaxed);
    packets.store(second.to_le(), Ordering::Release);
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn every_bit_of_both_words_comes_back() {
        for bit in 0..32 {
            for words in [[1 << bit, 0], [0, 1 << bit], [!0, !(1 << bit)]] {
                assert_eq!(SmbChunkHeader::from_words(words).to_words(), words);
            }
        }
    }

    #[test]
    fn flags_that_the_abi_does_not_define_are_told_from_those_that_it_does() {
        let header = SmbChunkHeader::from_words([0, 0xFC00_0000]);
        assert_eq!((header.fragments, header.flags.bits()), (0, 63));
        assert_eq!(header.flags.difference(HeaderFlags::all()).bits(), 63 - 7);
        assert_ne!(SmbChunkHeader::from_words([0, 0x2000_0000]), SmbChunkHeader::default());
    }
}
