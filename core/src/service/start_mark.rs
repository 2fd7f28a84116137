//! The start mark: the first word of a recorder's memory, which says what lies behind it.

use crate::producer::SharedMemory;

/// The first word of memory that a recorder has for itself: which start records there, and where shared memory ends.
///
/// After a reset, or in a dump of memory, it must be possible to find what writers had finished and nobody had moved
/// into the ring. So the memory is divided like this, from an 8-byte boundary on:
///
/// | bytes | what |
/// |---|---|
/// | 8 | the mark, by [`to_word`](Self::to_word) |
/// | [`pages`](Self::pages) times [`page_size`](Self::page_size) | [`SharedMemory`], all zeros when a start begins |
/// | 0 or 4 | nothing, up to the next 8-byte boundary |
/// | the rest | the region of a [`TraceBuffer`](crate::buffer::TraceBuffer) |
///
/// In a dump, `tracebuf recover` finds the ring and, by the mark, shared memory before it, if that is less than 128
/// KiB, or less than 1 MiB in at most 780 pages. The start's number is the `producer_id` of all that its writers have
/// in the ring, where they have neither user nor process.
///
/// Change the mark once shared memory is zeroed, not before: what the last start left must not be taken for this one's.
///
/// ```
/// use tracebuf::buffer::{Config, FillPolicy, RegionError, TraceBuffer};
/// use tracebuf::producer::{Consumer, SharedMemory, atomic_words_in};
/// use tracebuf::service::{ProducerEndpoint, ProducerIdentity, StartMark};
///
/// #[repr(align(8))]
/// struct Memory([u8; 8 * 1024]);
///
/// /// Begins to record, with what the start before has left in the ring.
/// fn start(Memory(memory): &mut Memory) -> Result<(StartMark, TraceBuffer<&mut [u8]>), RegionError> {
///     let (word, rest) = memory.split_first_chunk_mut::<8>().expect("8 KiB");
///     let (shared, ring) = rest.split_at_mut(4 * 256);
///     let (mut ring, found) = TraceBuffer::attach_or_new(ring, Config::new(FillPolicy::RingBuffer))?;
///     let pages = SharedMemory::new(atomic_words_in(shared), 256).expect("4 pages");
///     let last = StartMark::from_word(u64::from_ne_bytes(*word));
///     // Only if it is divided as it is now: otherwise it is another program's.
///     let last = last.filter(|last| found.is_some() && last.is_of(&pages));
///     if let Some(last) = last {
///         Consumer::new(pages).reclaim();
///         let identity = ProducerIdentity { producer_id: last.start(), uid: 0, pid: -1 };
///         let mut endpoint = ProducerEndpoint::<2>::new(Consumer::new(pages), identity);
///         endpoint.allow(0);
///         (1..=2).for_each(|writer| assert!(endpoint.register_counting_writer(writer, 0)));
///         let mut rings = [ring];
///         endpoint.disconnect(&mut rings);
///         [ring] = rings;
///     }
///     let number = last.map_or(0, StartMark::start).checked_add(1).unwrap_or(1);
///     let mark = StartMark::new(number, &pages);
///     shared.fill(0);
///     *word = mark.to_word().to_ne_bytes();
///     Ok((mark, ring))
/// }
///
/// // A reset leaves this as it is.
/// let mut memory = Memory([0xA5; 8 * 1024]);
/// assert_eq!(start(&mut memory)?.0.start(), 1);
/// assert_eq!(start(&mut memory)?.0.start(), 2);
/// # Ok::<(), RegionError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct StartMark {
    start: u16,
    /// Words of a page.
    page_words: u16,
    /// The last page's number: there may be 65,536 pages.
    last_page: u16,
}

const _: () = assert!(SharedMemory::MAX_PAGE / 4 <= u16::MAX as u32 && SharedMemory::MAX_PAGES <= 1 << 16);

impl StartMark {
    /// The mark of a start, numbered from 1, with this memory. With the number 0, it reads as no mark.
    pub const fn new(start: u16, memory: &SharedMemory<'_>) -> Self {
        Self {
            start,
            page_words: (memory.page_size() / 4) as u16,
            last_page: memory.pages().wrapping_sub(1) as u16,
        }
    }

    /// Reads a word of memory as a mark, if it is one.
    ///
    /// About one word of random bits in 260,000 is taken for a mark, but not all zeros or all ones. So check what it
    /// says: on the device by [`is_of`](Self::is_of), in a dump by the ring that begins where the mark says.
    pub const fn from_word(word: u64) -> Option<Self> {
        let word = u64::from_le(word);
        let mark =
            Self { start: word as u16, page_words: (word >> 16) as u16, last_page: (word >> 32) as u16 };
        let page = mark.page_size();
        let is_page = page >= SharedMemory::MIN_PAGE && page <= SharedMemory::MAX_PAGE;
        if mark.start > 0 && is_page && mark.check() == (word >> 48) as u16 { Some(mark) } else { None }
    }

    /// The mark as it lies in memory: the same bytes whatever the machine's byte order.
    pub const fn to_word(self) -> u64 {
        let fields = self.start as u64 | (self.page_words as u64) << 16 | (self.last_page as u64) << 32;
        (fields | (self.check() as u64) << 48).to_le()
    }

    /// Guards against chance: a flipped bit anywhere is found.
    const fn check(self) -> u16 {
        !(self.start ^ self.page_words ^ self.last_page)
    }

    /// Whether it was made with memory of this size and these pages.
    pub const fn is_of(self, memory: &SharedMemory<'_>) -> bool {
        self.pages() == memory.pages() && self.page_size() == memory.page_size()
    }

    /// The start's number since the memory was laid out: its writers' `producer_id` in the ring.
    pub const fn start(self) -> u16 {
        self.start
    }

    /// Bytes of a page of shared memory.
    pub const fn page_size(self) -> u32 {
        self.page_words as u32 * 4
    }

    /// Pages of shared memory.
    pub const fn pages(self) -> u32 {
        self.last_page as u32 + 1
    }

    /// Bytes from the end of the mark to the ring's region.
    pub const fn ring_offset(self) -> u64 {
        (self.page_size() as u64 * self.pages() as u64).next_multiple_of(8)
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::producer::atomic_words;
    use std::vec;

    fn mark(start: u16, page: u32, pages: usize) -> StartMark {
        let mut memory = vec![0; page as usize / 4 * pages];
        StartMark::new(start, &SharedMemory::new(atomic_words(&mut memory), page).unwrap())
    }

    #[test]
    fn a_word_gives_back_what_it_was_made_of() {
        for (start, page, pages) in [(1, 64, 1), (7, 488, 8), (65_535, 65_536, 2), (300, 64, 65_536)] {
            let mark = mark(start, page, pages);
            let fields = (mark.start(), mark.page_size(), mark.pages() as usize);
            assert_eq!(fields, (start, page, pages));
            assert_eq!(StartMark::from_word(mark.to_word()), Some(mark));
            assert_eq!(mark.ring_offset() as usize, page as usize * pages);
        }
        assert_eq!(mark(1, 68, 3).ring_offset(), 208);
    }

    #[test]
    fn a_mark_is_of_its_memory_and_no_other() {
        let mark = mark(9, 128, 4);
        for (page, pages, is_of) in [(128, 4, true), (128, 5, false), (124, 4, false), (512, 1, false)] {
            let mut memory = vec![0; page as usize / 4 * pages];
            let memory = SharedMemory::new(atomic_words(&mut memory), page).unwrap();
            assert_eq!(mark.is_of(&memory), is_of, "{pages} of {page}");
        }
    }

    #[test]
    fn a_word_lies_in_memory_as_it_is_documented() {
        let bytes = mark(0x0102, 0x1E8, 8).to_word().to_ne_bytes();
        assert_eq!(bytes, [0x02, 0x01, 0x7A, 0x00, 0x07, 0x00, 0x80, 0xFE]);
    }

    #[test]
    fn what_nobody_wrote_is_none() {
        let good = mark(5, 488, 8).to_word();
        for bit in 0..64 {
            assert_eq!(StartMark::from_word(good ^ 1 << bit), None, "{bit}");
        }
        for word in [0, u64::MAX, 0xA5A5_A5A5_A5A5_A5A5, mark(0, 488, 8).to_word()] {
            assert_eq!(StartMark::from_word(word), None, "{word:x}");
        }
        // Pages of 60 bytes and of more than 65,536.
        for page_words in [15, 16_385] {
            let none = StartMark { start: 1, page_words, last_page: 0 };
            assert_eq!(StartMark::from_word(none.to_word()), None, "{page_words}");
        }
    }
}
