//! Scraping: copies of what writers have finished in chunks that they are still writing.

mod spans;

pub(crate) use spans::insert_at;

use super::chunk_header::SmbChunkHeader;
use super::drain::{Consumer, Payload};
use super::page::{ChunkPlace, ChunkState, Page};
use crate::wrapping::is_after;
use heapless::Vec;
use spans::{Span, begin_with_oldest, of_writer, seen};

/// A chunk as a scrape sees it: complete, or being written with at least one finished fragment.
///
/// ```
/// use tracebuf::producer::*;
///
/// # struct Nowhere;
/// # impl CommitSink for Nowhere { fn commit(&self, _: &CommitRequest<'_>) {} }
/// # let (mut words, storage) = (vec![0u32; 1024], ProducerStorage::<4, 8>::new());
/// # let memory = SharedMemory::new(atomic_words(&mut words), 4096)?;
/// # let producer = Producer::new(memory, Layout::Four, &storage, &Nowhere)?;
/// # let mut writer = producer.writer(0, Exhaustion::Drop).expect("one of eight");
/// # writer.packet().message(900).string(1, "hello");
/// # writer.packet().message(900).string(1, "world");
/// let mut found = Vec::new();
/// Consumer::new(memory).scrape::<8>(|chunk| {
///     let mut payload = vec![0; chunk.len()];
///     chunk.fill(0, &mut payload);
///     // In one that is not complete, the last fragment may still be being written.
///     found.push((chunk.header().writer_id, chunk.is_complete(), payload));
/// });
/// assert!(matches!(found[..], [(1, false, _)]));
/// # Ok::<(), MemoryError>(())
/// ```
pub struct ScrapedChunk<'c> {
    place: ChunkPlace<'c>,
    header: SmbChunkHeader,
    page: u32,
    complete: bool,
}

impl Consumer<'_> {
    /// The chunks that a scrape may copy now, in address order.
    ///
    /// A single pass can show a chunk without its predecessor, which was completed when the pass was beyond it; reading
    /// that would break a packet. Use [`Consumer::scrape`], or make two passes and copy in the second what the first
    /// has seen of a writer, and all that is older.
    pub fn visible(&self) -> impl Iterator<Item = ScrapedChunk<'_>> {
        (0..self.memory().pages())
            .filter_map(|i| Some((i, self.memory().page(i)?)))
            .flat_map(|(i, page)| visible(i, page))
    }

    /// Shows each chunk to copy, a writer's oldest first: no sequence gets a hole, and a ring that is too small
    /// overwrites the oldest. Nothing is shown of writers beyond `WRITERS`.
    ///
    /// Cost: three walks over the headers, one more where a writer's chunks lie around the memory's end, and for each
    /// chunk a look at some of the writers. For chunks in any other order, up to 256 more walks (299,593 divided by the
    /// pages, if those are more than 1,170); the chunks left then come in address order.
    pub fn scrape<const WRITERS: usize>(&mut self, mut copy: impl FnMut(&ScrapedChunk<'_>)) {
        self.scrape_those::<WRITERS, _>(&mut (), |_, _| true, |_, chunk| copy(chunk));
    }

    /// Like [`scrape`](Self::scrape), for some writers only: the others take no room from these. Both closures get
    /// `state`.
    pub(crate) fn scrape_those<const WRITERS: usize, S>(
        &mut self,
        state: &mut S,
        is_wanted: impl Fn(&S, u16) -> bool,
        mut copy: impl FnMut(&mut S, &ScrapedChunk<'_>),
    ) {
        let wanted = self.visible().filter(|chunk| is_wanted(state, chunk.header.writer_id));
        let mut spans = seen::<WRITERS>(wanted);
        begin_with_oldest(&mut spans, self.visible());
        self.show(&mut spans, self.most_walks(), &mut |chunk| copy(state, chunk));
    }

    /// The most walks: enough for any order that writers leave, and so few that no order of very many chunks holds up
    /// the service.
    fn most_walks(&self) -> u32 {
        (MOST_LOOKS / 14).checked_div(self.memory().pages()).unwrap_or(0).min(MOST_WALKS)
    }

    /// Shows all that the spans have, each writer's chunks in order, as far as `walks` walks besides the first reach.
    fn show(&self, spans: &mut [Span], mut walks: u32, copy: &mut impl FnMut(&ScrapedChunk<'_>)) {
        // Whatever the producer does meanwhile, there is an end to it.
        let most = self.memory().pages().saturating_mul(14);
        let mut shown = 0_u32;
        loop {
            let before = shown;
            // All of a writer's chunks that lie in order, and one run of those that lie in two: a writer begins at the
            // memory's start again when it has come to the end.
            for chunk in self.visible() {
                let SmbChunkHeader { writer_id, chunk_id, .. } = chunk.header;
                if let Some(span) = of_writer(spans, writer_id)
                    && span.next == chunk_id
                    && span.has(chunk_id)
                    && shown < most
                {
                    copy(&chunk);
                    span.next = chunk_id.wrapping_add(1);
                    shown += 1;
                }
            }
            let Some(span) = spans.iter_mut().find(|span| span.has(span.newest)) else { return };
            if shown >= most {
                return;
            }
            if walks == 0 {
                break;
            }
            walks -= 1;
            if shown - before >= AT_ONCE as u32 {
                continue;
            }
            // They lie in no such order.
            walks = walks.saturating_sub(1);
            let older = self.oldest(span);
            if older.is_empty() {
                // Gone since: the producer changed what is not its to change.
                span.next = span.newest.wrapping_add(1);
            }
            for older in &older {
                copy(older);
                span.next = older.header.chunk_id.wrapping_add(1);
                shown = shown.saturating_add(1);
            }
        }
        for chunk in self.visible() {
            let SmbChunkHeader { writer_id, chunk_id, .. } = chunk.header;
            if of_writer(spans, writer_id).is_some_and(|span| span.has(chunk_id)) {
                copy(&chunk);
            }
        }
    }

    /// The oldest chunks of a writer, oldest first.
    fn oldest(&self, span: &Span) -> Vec<ScrapedChunk<'_>, AT_ONCE> {
        let mut oldest: Vec<ScrapedChunk<'_>, AT_ONCE> = Vec::new();
        for mut chunk in self.visible() {
            let SmbChunkHeader { writer_id, chunk_id, .. } = chunk.header;
            if writer_id != span.writer_id || !span.has(chunk_id) {
                continue;
            }
            // It takes the place of the first that is newer, which takes that of the next one.
            for known in &mut oldest {
                if is_after(known.header.chunk_id, chunk.header.chunk_id) {
                    core::mem::swap(known, &mut chunk);
                }
            }
            // If there is no room, the newest is left out.
            let _ = oldest.push(chunk);
        }
        oldest
    }
}

/// Chunks of a writer that are put in order at once.
const AT_ONCE: usize = 16;
/// Walks of one scrape to put chunks in order: the worst order must not hold up the service.
const MOST_WALKS: u32 = 256;
/// Chunks that these walks pass, 14 to a page, for the same reason.
const MOST_LOOKS: u32 = MOST_WALKS * 16_384;

fn visible<'c>(index: u32, page: Page<'c>) -> impl Iterator<Item = ScrapedChunk<'c>> {
    let bitmap = page.bitmap();
    let layout = bitmap.layout();
    (0..layout.map_or(0, |l| l.chunks())).filter_map(move |chunk| {
        let complete = match bitmap.state(chunk) {
            ChunkState::Complete => true,
            ChunkState::BeingWritten => false,
            ChunkState::Free | ChunkState::BeingRead => return None,
        };
        let place = page.place(layout?, chunk)?;
        let header = place.header();
        // The last fragment of a chunk being written may be one that never was: stale bytes.
        let any = complete || header.fragments >= 2;
        any.then_some(ScrapedChunk { place, header, page: index, complete })
    })
}

impl ScrapedChunk<'_> {
    /// The header now.
    pub fn header(&self) -> SmbChunkHeader {
        self.header
    }

    /// Whether it is complete. If not, the last fragment that the header counts must not be looked at.
    pub fn is_complete(&self) -> bool {
        self.complete
    }

    /// The page and the chunk in it.
    pub fn position(&self) -> (u32, u32) {
        (self.page, self.place.chunk)
    }

    /// Bytes of payload.
    #[allow(clippy::len_without_is_empty)]
    pub fn len(&self) -> usize {
        self.payload().len()
    }

    /// Copies payload from `offset` on; what lies beyond it is zero.
    pub fn fill(&self, offset: usize, to: &mut [u8]) {
        self.payload().fill(offset, to);
    }

    pub(crate) fn payload(&self) -> Payload<'_> {
        Payload(self.place.payload())
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::producer::atomics::atomic_words;
    use crate::producer::chunk_header::HeaderFlags;
    use crate::producer::chunk_header::set_header;
    use crate::producer::layout::{Division, Layout};
    use crate::producer::smb::SharedMemory;

    /// A chunk in each page, of writer 3, being written; with these ids.
    fn pages<'m>(memory: &'m mut [u32], ids: &[u32]) -> (SharedMemory<'m>, Division) {
        let memory = SharedMemory::new(atomic_words(memory), 64).unwrap();
        let division = Division::new(Layout::One, 64);
        for (page, chunk_id) in (0..).zip(ids) {
            division.acquire(memory.bitmap(page).unwrap());
            renumber(memory, &division, page, *chunk_id);
        }
        (memory, division)
    }

    fn renumber(memory: SharedMemory<'_>, division: &Division, page: u32, chunk_id: u32) {
        let header = SmbChunkHeader { writer_id: 3, chunk_id, fragments: 2, flags: HeaderFlags::empty() };
        set_header(memory.chunk(page, 0, division), header);
    }

    #[test]
    fn chunks_are_shown_once_and_in_order_wherever_they_lie() {
        for ids in [[0, 3, 1, 2], [0, 2, 3, 1], [3, 2, 1, 0], [2, 0, 3, 1]] {
            let mut memory = [0u32; 4 * 16];
            let (memory, _) = pages(&mut memory, &ids);
            let mut shown = std::vec::Vec::new();
            Consumer::new(memory).scrape::<1>(|chunk| shown.push(chunk.header().chunk_id));
            assert_eq!(shown, [0, 1, 2, 3], "{ids:?}");
        }
    }

    #[test]
    fn after_the_last_id_comes_0_and_what_is_older_is_still_shown_first() {
        let ids = [u32::MAX - 1, u32::MAX, 0, 1];
        for order in [[0, 1, 2, 3], [3, 2, 1, 0], [2, 3, 0, 1], [1, 3, 0, 2]] {
            let mut memory = [0u32; 4 * 16];
            let (memory, _) = pages(&mut memory, &order.map(|index| ids[index]));
            let mut shown = std::vec::Vec::new();
            Consumer::new(memory).scrape::<1>(|chunk| shown.push(chunk.header().chunk_id));
            assert_eq!(shown, ids, "{order:?}");
        }
    }

    /// The ids of what is shown of these chunks with `walks` walks besides the first.
    fn shown_with(walks: u32, ids: &[u32]) -> std::vec::Vec<u32> {
        let mut memory = std::vec![0u32; 16 * ids.len()];
        let (memory, _) = pages(&mut memory, ids);
        let consumer = Consumer::new(memory);
        let mut spans = seen::<1>(consumer.visible());
        begin_with_oldest(&mut spans, consumer.visible());
        let mut shown = std::vec::Vec::new();
        consumer.show(&mut spans, walks, &mut |chunk| shown.push(chunk.header().chunk_id));
        shown
    }

    #[test]
    fn two_walks_put_16_chunks_in_order_and_without_them_each_comes_once_where_it_lies() {
        const CHUNKS: u32 = 40;
        for first in [u32::MAX - 15, 0].into_iter().take(if cfg!(miri) { 1 } else { 2 }) {
            // Each is before the one that it follows.
            let backward: std::vec::Vec<_> = (0..CHUNKS).rev().map(|id| first.wrapping_add(id)).collect();
            for walks in (0..=6).step_by(if cfg!(miri) { 3 } else { 1 }) {
                let shown = shown_with(walks, &backward);
                // Walks that show few are followed by one that shows 16, while there are some left.
                let in_order = (walks.div_ceil(2) * 17 + 1).min(CHUNKS);
                let expected = (0..in_order).chain((in_order..CHUNKS).rev()).map(|id| first.wrapping_add(id));
                assert_eq!(shown, expected.collect::<std::vec::Vec<_>>(), "{walks} walks from {first}");
            }
        }
    }

    #[test]
    fn one_walk_puts_chunks_in_order_that_were_taken_from_the_memory_s_start_again() {
        const CHUNKS: u32 = 40;
        for first in [u32::MAX - 15, 0] {
            let id = |place: u32| first.wrapping_add((place + 25) % CHUNKS);
            let shown =
                shown_with(1, &core::array::from_fn::<_, { CHUNKS as usize }, _>(|place| id(place as u32)));
            assert_eq!(shown, (0..CHUNKS).map(|id| first.wrapping_add(id)).collect::<std::vec::Vec<_>>());
        }
    }

    #[test]
    fn chunks_are_shown_up_to_a_hole_and_from_behind_it() {
        for ids in [[7, 9, 0, 1, 3], [0, 1, 3, 7, 9], [9, 7, 3, 1, 0]] {
            assert_eq!(shown_with(20, &ids), [0, 1, 3, 7, 9], "{ids:?}");
        }
    }

    #[test]
    fn in_a_large_memory_there_are_fewer_walks() {
        let mut memory = std::vec![0u32; 16 * 65_536];
        for (pages, walks) in [(1, 256), (1170, 256), (8192, 36), (65_536, 4)] {
            let memory = SharedMemory::new(atomic_words(&mut memory[..16 * pages]), 64).unwrap();
            assert_eq!(Consumer::new(memory).most_walks(), walks, "{pages} pages");
        }
    }

    #[test]
    fn a_producer_that_numbers_its_chunks_anew_all_the_time_does_not_keep_a_scrape_busy() {
        const PAGES: u32 = 20;
        let mut memory = [0u32; 16 * PAGES as usize];
        let mut ids: [u32; PAGES as usize] = core::array::from_fn(|page| page as u32);
        // Far away, and what is in between never ends.
        ids[1] = 100_000;
        let (memory, division) = pages(&mut memory, &ids);
        let mut shown = 0;
        Consumer::new(memory).scrape::<1>(|chunk| {
            shown += 1;
            let (page, _) = chunk.position();
            if page != 1 {
                renumber(memory, &division, page, chunk.header().chunk_id + PAGES);
            }
        });
        assert!((PAGES..=2 * 14 * PAGES).contains(&shown), "{shown} chunks shown");
    }

    #[test]
    fn a_chunk_that_the_first_walk_passed_too_early_is_shown_before_the_newer_one() {
        use crate::producer::drain::tests::Silent;
        use crate::producer::*;

        let mut memory = [0u32; 3 * 16];
        let memory = SharedMemory::new(atomic_words(&mut memory), 64).unwrap();
        let storage = ProducerStorage::<3, 1>::new();
        let producer = Producer::new(memory, Layout::One, &storage, &Silent).unwrap();
        let mut writer = producer.writer(0, Exhaustion::Drop).unwrap();
        let mut consumer = Consumer::new(memory);
        let walk = |page| visible(page, memory.page(page).unwrap()).collect::<std::vec::Vec<_>>();
        // The first chunk has nothing to show when the walk passes it.
        let mut packet = writer.packet();
        packet.varint(1, 1);
        let mut first_walk = walk(0);
        assert!(first_walk.is_empty());
        // Before the walk goes on, the writer fills that chunk and the next, and goes on in the third.
        packet.bytes(2, &[7; 60]);
        drop(packet);
        writer.packet().bytes(2, &[8; 30]);
        first_walk.extend((1..3).flat_map(walk));
        let mut spans = seen::<1>(first_walk.into_iter());
        assert_eq!((spans[0].next, spans[0].newest), (1, 2));
        begin_with_oldest(&mut spans, consumer.visible());
        let mut shown = std::vec::Vec::new();
        consumer.show(&mut spans, 0, &mut |chunk| shown.push(chunk.header().chunk_id));
        assert_eq!(shown, [0, 1, 2]);
        shown.clear();
        consumer.scrape::<1>(|chunk| shown.push(chunk.header().chunk_id));
        assert_eq!(shown, [0, 1, 2]);
    }
}
