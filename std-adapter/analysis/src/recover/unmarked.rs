//! Shared memory before a ring whose mark is gone.

use tracebuf::producer::{ChunkState, FragmentKind, Page, SharedMemory, atomic_words};
use tracebuf::proto::reader::Fields;

use super::shared::is_page;

/// Bytes before a ring that are looked at.
const MOST: usize = 128 << 10;
/// The largest page that is looked for.
const LARGEST_PAGE: usize = 8192;
/// More writers than firmware has.
const WRITERS: u16 = 1024;

/// How many chunks of writers lie in pages right before a ring, judging by what is in them, since no mark says how
/// large the pages are: each must be divided, and each of its packets must be made of fields. 0 if there are none.
///
/// Cost: for each possible size of a page, a look at those that might be pages of that size.
pub(super) fn chunks_before(bytes: &[u8]) -> u64 {
    let near = bytes.get(bytes.len().saturating_sub(MOST)..).unwrap_or_default();
    let mut words: Vec<u32> = near.as_rchunks().1.iter().map(|word| u32::from_ne_bytes(*word)).collect();
    let sizes = (SharedMemory::MIN_PAGE as usize..=LARGEST_PAGE.min(near.len())).step_by(4);
    // Between the last page and the ring, nothing or a word.
    sizes
        .flat_map(|size| [(size, 0), (size, 1)])
        .map(|(size, gap)| chunks_in(&mut words, size, gap))
        .max()
        .unwrap_or(0)
}

/// How many there are in pages of this size, which end so many words before the end.
fn chunks_in(words: &mut [u32], page_size: usize, gap: usize) -> u64 {
    let end = words.len().saturating_sub(gap);
    let pages = words.get_mut(..end).unwrap_or_default().rchunks_exact_mut(page_size / 4);
    let chunks = pages.map_while(|page| {
        // Looked at first, because it costs least.
        if !is_page(page) {
            return None;
        }
        let memory = SharedMemory::new(atomic_words(page), page_size as u32).ok()?;
        memory.page(0).and_then(|page| chunks_of(&page))
    });
    chunks.sum()
}

/// How many chunks of a page have something in them; `None` if it is no page that a writer has left.
fn chunks_of(page: &Page<'_>) -> Option<u64> {
    let bitmap = page.bitmap();
    if bitmap.layout().is_none() {
        return (bitmap.0 == 0).then_some(0);
    }
    let mut there = 0;
    for chunk in page.chunks().filter(|chunk| chunk.state() != ChunkState::Free) {
        let header = chunk.header();
        if header.writer_id == 0 {
            // It was being taken, or freed.
            continue;
        }
        let is_growing = chunk.state() == ChunkState::BeingWritten;
        let fragments: Vec<_> = chunk.fragments().filter(|one| one.kind == FragmentKind::Valid).collect();
        // The last one of a chunk that grows may be anything.
        let whole = fragments.len() - usize::from(is_growing && !fragments.is_empty());
        let is_one = |(at, fragment): (usize, &tracebuf::producer::Fragment)| {
            let is_inner = at > 0 && at + 1 < whole;
            let mut content = vec![0; fragment.size];
            chunk.fill(fragment.offset + fragment.header, &mut content);
            let mut fields = Fields::of(&content);
            // The first and the last may be parts of packets.
            !is_inner || fields.by_ref().count() > 0 && fields.is_at_end()
        };
        let is_writer_s = header.writer_id <= WRITERS
            && header.fragments > 0
            && (is_growing || fragments.len() + 1 >= usize::from(header.fragments))
            && fragments.iter().enumerate().all(is_one);
        if !is_writer_s {
            return None;
        }
        there += u64::from(whole > 0);
    }
    Some(there)
}
