//! Spans of chunk ids that a scrape still has to show, one for each writer.

use super::ScrapedChunk;
use crate::list::List;
use crate::producer::chunk_header::SmbChunkHeader;
use crate::steps::step;
use crate::wrapping::is_after;

/// Chunks of one writer that a scrape still has to show: ids from `next` to `newest`.
#[derive(Clone, Copy)]
pub(super) struct Span {
    pub(super) writer_id: u16,
    pub(super) next: u32,
    pub(super) newest: u32,
}

/// Where the span of a writer is, or belongs, among those of others. They are sorted: a look through all of them at
/// each chunk of every walk would let a producer with many writers hold up the service.
fn place_of(spans: &[Span], writer_id: u16) -> Result<usize, usize> {
    spans.binary_search_by(|span| {
        step();
        span.writer_id.cmp(&writer_id)
    })
}

/// Inserts an item of a sorted list at its place, which is not beyond the list's end. `None` if there is no room. Does
/// not use the list's own way, which can panic.
pub(crate) fn insert_at<T, const N: usize>(list: &mut List<T, N>, place: usize, item: T) -> Option<&mut T> {
    list.push(item).ok()?;
    let behind = list.get_mut(place..)?;
    let (last, others) = behind.split_last_mut()?;
    for other in others {
        step();
        core::mem::swap(other, last);
    }
    behind.first_mut()
}

pub(super) fn of_writer(spans: &mut [Span], writer_id: u16) -> Option<&mut Span> {
    place_of(spans, writer_id).ok().and_then(|place| spans.get_mut(place))
}

/// What a first walk sees of each writer.
pub(super) fn seen<'c, const WRITERS: usize>(
    visible: impl Iterator<Item = ScrapedChunk<'c>>,
) -> List<Span, WRITERS> {
    let mut found = Found { spans: List::<Span, WRITERS>::new(), sorted: 0 };
    for chunk in visible {
        let SmbChunkHeader { writer_id, chunk_id, .. } = chunk.header;
        match found.span(writer_id) {
            Ok(span) if is_after(chunk_id, span.newest) => span.newest = chunk_id,
            Ok(_) => {}
            Err(place) => found.add(place, Span { writer_id, next: chunk_id, newest: chunk_id }),
        }
    }
    found.merge();
    found.spans
}

/// Spans as they are found. They are sorted up to `sorted`, and so are the few behind that, which join the others many
/// at a time: inserted one by one, those of many writers would move all others each.
struct Found<const WRITERS: usize> {
    spans: List<Span, WRITERS>,
    sorted: usize,
}

/// How many join the others at once. Where there is no heap, there are so few writers that all are inserted.
const AT_ONCE: usize = 128;

impl<const WRITERS: usize> Found<WRITERS> {
    /// A writer's span, or else where it belongs.
    fn span(&mut self, writer_id: u16) -> Result<&mut Span, usize> {
        let sorted = self.spans.get(..self.sorted).unwrap_or_default();
        let new = self.spans.get(self.sorted..).unwrap_or_default();
        let place = match place_of(sorted, writer_id) {
            Ok(place) => place,
            Err(_) => place_of(new, writer_id)
                .map(|place| self.sorted.wrapping_add(place))
                .map_err(|place| self.sorted.wrapping_add(place))?,
        };
        self.spans.get_mut(place).ok_or(place)
    }

    fn add(&mut self, place: usize, span: Span) {
        // Of writers beyond those for which there is room, nothing is shown.
        let _ = insert_at(&mut self.spans, place, span);
        if cfg!(feature = "std") && self.spans.len().wrapping_sub(self.sorted) >= AT_ONCE {
            self.merge();
        }
    }

    /// Sorts all.
    fn merge(&mut self) {
        if !cfg!(feature = "std") || self.sorted == 0 {
            self.sorted = self.spans.len();
            return;
        }
        let mut new: List<Span, WRITERS> = List::new();
        for span in self.spans.get(self.sorted..).unwrap_or_default() {
            let _ = new.push(*span);
        }
        // The greatest first, from the end on.
        let (mut old, mut end) = (self.sorted, self.spans.len());
        for span in new.iter().rev() {
            while let Some(other) = old.checked_sub(1).and_then(|last| self.spans.get(last)).copied()
                && other.writer_id > span.writer_id
            {
                step();
                (old, end) = (old.wrapping_sub(1), end.wrapping_sub(1));
                self.put(end, other);
            }
            end = end.wrapping_sub(1);
            self.put(end, *span);
        }
        self.sorted = self.spans.len();
    }

    fn put(&mut self, place: usize, span: Span) {
        if let Some(slot) = self.spans.get_mut(place) {
            *slot = span;
        }
    }
}

/// Lets the spans begin with the oldest chunks that a second walk sees: what is older than a chunk that was seen can be
/// seen now, even if it could not when the first walk came by.
pub(super) fn begin_with_oldest<'c>(spans: &mut [Span], visible: impl Iterator<Item = ScrapedChunk<'c>>) {
    for chunk in visible {
        let SmbChunkHeader { writer_id, chunk_id, .. } = chunk.header;
        if let Some(span) = of_writer(spans, writer_id).filter(|span| is_after(span.next, chunk_id)) {
            span.next = chunk_id;
        }
    }
}

impl Span {
    pub(super) fn has(&self, chunk_id: u32) -> bool {
        !is_after(self.next, chunk_id) && !is_after(chunk_id, self.newest)
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use crate::producer::SmbChunkHeader;
    use crate::producer::atomics::atomic_words;
    use crate::producer::chunk_header::HeaderFlags;
    use crate::producer::chunk_header::set_header;
    use crate::producer::drain::Consumer;
    use crate::producer::layout::{Division, Layout};
    use crate::producer::smb::SharedMemory;
    use crate::steps::steps_of;

    #[test]
    fn chunks_of_many_writers_in_the_worst_order_cost_some_looks_each() {
        const WRITERS: u16 = if cfg!(miri) { 32 } else { 1024 };
        let pages = 2 * u32::from(WRITERS);
        let mut memory = std::vec![0u32; 16 * pages as usize];
        let memory = SharedMemory::new(atomic_words(&mut memory), 64).unwrap();
        let division = Division::new(Layout::One, 64);
        for page in 0..pages {
            division.acquire(memory.bitmap(page).unwrap());
            // One of each writer, and as many more of the last, each before the one that it follows.
            let writer_id = WRITERS.min(page as u16 + 1);
            let header = SmbChunkHeader {
                writer_id,
                chunk_id: pages - page,
                fragments: 2,
                flags: HeaderFlags::empty(),
            };
            set_header(memory.chunk(page, 0, &division), header);
        }
        let mut consumer = Consumer::new(memory);
        let mut shown = 0;
        let scrape = || consumer.scrape::<{ WRITERS as usize }>(|_| shown += 1);
        let ((), steps) = steps_of(scrape);
        assert_eq!(shown, pages);
        // In each of so many walks; half of them look for the oldest of one writer, and at no other.
        let walks = (u64::from(pages) / 17 + 3).min(128 + 4);
        let most = walks * u64::from(pages) * u64::from(WRITERS.ilog2() + 2);
        assert!(steps <= most, "{steps} steps, at most {most}");
    }

    #[test]
    #[cfg(feature = "std")]
    fn all_writers_that_there_can_be_are_found_in_any_order_and_move_few_others() {
        const WRITERS: u32 = if cfg!(miri) { 300 } else { 32_768 };
        let division = Division::new(Layout::One, 64);
        // Upwards, downwards, and as neither.
        for order in [1, WRITERS - 1, 12_347 % WRITERS] {
            let mut memory = std::vec![0u32; 16 * WRITERS as usize];
            let memory = SharedMemory::new(atomic_words(&mut memory), 64).unwrap();
            for page in 0..WRITERS {
                division.acquire(memory.bitmap(page).unwrap());
                let writer_id = (page * order % WRITERS) as u16;
                let header =
                    SmbChunkHeader { writer_id, chunk_id: page, fragments: 2, flags: HeaderFlags::empty() };
                set_header(memory.chunk(page, 0, &division), header);
            }
            let consumer = Consumer::new(memory);
            let (spans, steps) = steps_of(|| super::seen::<{ WRITERS as usize }>(consumer.visible()));
            let writers: std::vec::Vec<_> = spans.iter().map(|span| u32::from(span.writer_id)).collect();
            assert_eq!(writers, std::vec::Vec::from_iter(0..WRITERS));
            let most = u64::from(WRITERS) * 300;
            assert!(steps <= most, "{steps} steps, at most {most}, {order}");
        }
    }
}
