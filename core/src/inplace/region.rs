//! The memory of a recorder: a static that a reset leaves as it is.

use super::layout::{HEADER, NAMES_MAX};
use crate::atomics::{AtomicU32, Ordering};

/// Memory for a [`Recorder`](super::Recorder): `NAMES` places for names, `TEXT` words of their text, a ring of `CHUNKS`
/// chunks of `WORDS` words. All but `TEXT` are powers of two.
///
/// It takes 64 bytes, 8 for each name, and 4 for each word. A chunk has 32, 64 or 128 words, the ring 4 to 32,768
/// chunks; there are up to 1,024 names, and 32,766 words of text. What cannot be does not compile.
///
/// ```
/// use tracebuf::inplace::Region;
///
/// // 8 KiB of events, 64 names of 512 bytes in all. On a target, in the section .uninit.
/// static TRACE: Region<64, 128, 32> = Region::zeroed();
/// assert_eq!(size_of_val(&TRACE), 64 + 64 * 8 + 512 + 8192);
/// ```
#[repr(C)]
pub struct Region<const NAMES: usize, const TEXT: usize, const CHUNKS: usize, const WORDS: usize = 64> {
    header: [AtomicU32; HEADER],
    names: [[AtomicU32; 2]; NAMES],
    text: [AtomicU32; TEXT],
    ring: [[AtomicU32; WORDS]; CHUNKS],
}

impl<const NAMES: usize, const TEXT: usize, const CHUNKS: usize, const WORDS: usize>
    Region<NAMES, TEXT, CHUNKS, WORDS>
{
    const VALID: () = {
        assert!(NAMES.is_power_of_two() && NAMES <= NAMES_MAX as usize, "names: a power of two up to 1,024");
        assert!(TEXT < 0x7FFF, "text: up to 32,766 words");
        assert!(WORDS.is_power_of_two() && WORDS >= 32 && WORDS <= 128, "chunks: 32, 64 or 128 words");
        assert!(CHUNKS.is_power_of_two() && CHUNKS >= 4 && CHUNKS <= 1 << 15, "chunks: 4, 8, 16, … 32,768");
    };

    /// A region of zeros, in which nothing will be found.
    #[cfg(not(loom))]
    pub const fn zeroed() -> Self {
        const { Self::VALID };
        Self {
            header: [const { AtomicU32::new(0) }; HEADER],
            names: [const { [const { AtomicU32::new(0) }; 2] }; NAMES],
            text: [const { AtomicU32::new(0) }; TEXT],
            ring: [const { [const { AtomicU32::new(0) }; WORDS] }; CHUNKS],
        }
    }

    /// All words, as they lie in memory.
    pub fn words(&self) -> impl Iterator<Item = u32> + '_ {
        let parts = [&self.header[..], self.names.as_flattened(), &self.text, self.ring.as_flattened()];
        parts.into_iter().flatten().map(|word| word.load(Ordering::Relaxed))
    }

    /// The same for models.
    #[cfg(loom)]
    pub fn zeroed() -> Self {
        const { Self::VALID };
        let zero = |_| AtomicU32::new(0);
        Self {
            header: core::array::from_fn(zero),
            names: core::array::from_fn(|_| core::array::from_fn(zero)),
            text: core::array::from_fn(zero),
            ring: core::array::from_fn(|_| core::array::from_fn(zero)),
        }
    }
}

/// What a [`Region`] is to its recorder and writers. Sizes are constants, so looking up a word costs no check.
pub trait Memory: sealed::Words + Sync {}

pub(super) mod sealed {
    use crate::atomics::AtomicU32;

    pub trait Words {
        /// Powers of two.
        const NAMES: usize;
        const TEXT: usize;
        const CHUNKS: u32;
        const WORDS: u32;
        type Chunk: 'static;
        /// A copy of a chunk.
        type Words: AsRef<[u32]> + AsMut<[u32]>;
        fn words() -> Self::Words;
        fn header(&self, index: usize) -> &AtomicU32;
        /// Of that place, modulo their number.
        fn name(&self, place: usize) -> &[AtomicU32; 2];
        fn text(&self) -> &[AtomicU32];
        /// The chunk of that place, modulo their number.
        fn chunk(&self, place: u32) -> &Self::Chunk;
        /// The word of a chunk, modulo its size.
        fn word(chunk: &Self::Chunk, at: u32) -> &AtomicU32;
    }
}

impl<const NAMES: usize, const TEXT: usize, const CHUNKS: usize, const WORDS: usize> sealed::Words
    for Region<NAMES, TEXT, CHUNKS, WORDS>
{
    const NAMES: usize = NAMES;
    const TEXT: usize = TEXT;
    const CHUNKS: u32 = CHUNKS as u32;
    const WORDS: u32 = WORDS as u32;
    type Chunk = [AtomicU32; WORDS];
    type Words = [u32; WORDS];

    fn words() -> [u32; WORDS] {
        [0; WORDS]
    }

    #[inline(always)]
    fn header(&self, index: usize) -> &AtomicU32 {
        &self.header[index % HEADER]
    }

    #[inline(always)]
    fn name(&self, place: usize) -> &[AtomicU32; 2] {
        &self.names[place % NAMES]
    }

    #[inline(always)]
    fn text(&self) -> &[AtomicU32] {
        &self.text
    }

    #[inline(always)]
    fn chunk(&self, place: u32) -> &Self::Chunk {
        &self.ring[place as usize % CHUNKS]
    }

    #[inline(always)]
    fn word(chunk: &Self::Chunk, at: u32) -> &AtomicU32 {
        &chunk[at as usize % WORDS]
    }
}

impl<const NAMES: usize, const TEXT: usize, const CHUNKS: usize, const WORDS: usize> Memory
    for Region<NAMES, TEXT, CHUNKS, WORDS>
{
}
