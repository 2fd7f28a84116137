//! Spans of chunk ids that a scrape still has to show, one for each writer.

use super::ScrapedChunk;
use crate::list::List;
use crate::producer::chunk_header::SmbChunkHeader;
use crate::steps::step;
use crate::wrapping::is_after;

/// Chunks of one writer that a scrape still has to show: ids from `next` to `newest`.
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
    let mut spans: List<Span, WRITERS> = List::new();
    for chunk in visible {
        let SmbChunkHeader { writer_id, chunk_id, .. } = chunk.header;
        match place_of(&spans, writer_id) {
            Ok(place) => {
                if let Some(span) = spans.get_mut(place).filter(|span| is_after(chunk_id, span.newest)) {
                    span.newest = chunk_id;
                }
            }
            Err(place) => {
                let span = Span { writer_id, next: chunk_id, newest: chunk_id };
                let _ = insert_at(&mut spans, place, span);
            }
        }
    }
    spans
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
}
