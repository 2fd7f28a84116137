//! `Consumer`: the service's side, which takes complete chunks and copies them.

use super::atomics::{AtomicU32, Ordering};
use super::chunk_header::SmbChunkHeader;
use super::page::{ChunkPlace, ChunkState};
use super::smb::SharedMemory;
use core::sync::atomic::compiler_fence;

/// The service's side of a shared memory buffer: takes complete chunks, frees them, and scrapes.
///
/// Make one for a buffer: the exclusive borrows keep a chunk from being freed while a scrape copies it. Nothing that
/// the producer does to the memory, at any moment, can do harm here: a header is read once, sizes come from the page's
/// layout as it was when the chunk was taken, and payload is copied before anybody looks at it.
///
/// ```
/// # use tracebuf::producer::*;
/// # let mut memory = vec![0u32; 1024];
/// # let memory = SharedMemory::new(atomic_words(&mut memory), 4096)?;
/// # let request = CommitRequest::default();
/// let mut consumer = Consumer::new(memory);
/// for wanted in request.chunks_to_move {
///     let Some(chunk) = consumer.take(wanted.page, wanted.chunk) else { continue };
///     let mut private = vec![0; chunk.len()];
///     chunk.fill(0, &mut private);
///     println!("writer {}, chunk {}", chunk.header().writer_id, chunk.header().chunk_id);
/// } // freed here
/// # Ok::<(), MemoryError>(())
/// ```
pub struct Consumer<'a> {
    memory: SharedMemory<'a>,
}

/// A chunk that the service has taken. Dropping it zeroes its header and frees it.
pub struct ReadChunk<'c> {
    place: ChunkPlace<'c>,
    header: SmbChunkHeader,
}

impl<'a> Consumer<'a> {
    /// The consumer of a buffer, the only one.
    pub fn new(memory: SharedMemory<'a>) -> Self {
        Consumer { memory }
    }

    /// The shared memory.
    pub fn memory(&self) -> SharedMemory<'a> {
        self.memory
    }

    /// Takes a complete chunk that a request has named; `None` if it is not there or not complete. Do not take others:
    /// chunks completed before them may then never be named.
    pub fn take(&mut self, page: u32, chunk: u32) -> Option<ReadChunk<'_>> {
        let page = self.memory.page(page)?;
        let place = page.place(page.bitmap().layout()?, chunk)?;
        if !place.change_state(ChunkState::Complete, ChunkState::BeingRead) {
            return None;
        }
        Some(ReadChunk { place, header: place.header() })
    }

    /// Gives back the chunks that an earlier consumer had taken and not freed when it crashed, and returns their
    /// number. They are complete again; a commit of one that had been moved already changes nothing. Do not call it
    /// beside a living consumer.
    pub fn reclaim(&mut self) -> u32 {
        let mut reclaimed = 0;
        for page in self.memory.all_pages() {
            let Some(layout) = page.bitmap().layout() else { continue };
            for place in (0..layout.chunks()).filter_map(|chunk| page.place(layout, chunk)) {
                // Without a writer it has been moved, and was being freed.
                let is_moved = place.header().writer_id == 0;
                let state = if is_moved { ChunkState::Free } else { ChunkState::Complete };
                reclaimed += u32::from(place.change_state(ChunkState::BeingRead, state) && !is_moved);
            }
        }
        reclaimed
    }
}

impl ReadChunk<'_> {
    /// The header, as it was when the chunk was taken.
    pub fn header(&self) -> SmbChunkHeader {
        self.header
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

impl Drop for ReadChunk<'_> {
    fn drop(&mut self) {
        // After a crash, a chunk of nobody is taken for one that was moved: what moving did comes first, even where it
        // stores in memory that no other thread looks at.
        compiler_fence(Ordering::SeqCst);
        // A scrape must not take the next chunk here for this one.
        self.place.clear_header();
        self.place.change_state(ChunkState::BeingRead, ChunkState::Free);
    }
}

/// A chunk's payload, whichever kind the chunk is: what takes it is compiled once.
#[derive(Clone, Copy)]
pub(crate) struct Payload<'c>(pub(super) &'c [AtomicU32]);

impl<'c> Payload<'c> {
    /// Bytes.
    pub(crate) fn len(self) -> usize {
        self.0.len() * 4
    }

    /// Copies from `offset` on; what lies beyond the payload is zero.
    pub(crate) fn fill(self, offset: usize, to: &mut [u8]) {
        copy_out(self.0, offset, to);
    }

    /// A function that does so. Its type is the same for every caller, unlike the type of a caller's own closure.
    pub(crate) fn filling(self) -> impl Fn(usize, &mut [u8]) + 'c {
        move |offset, to| self.fill(offset, to)
    }
}

/// Copies bytes out of shared words, each word loaded once.
pub(super) fn copy_out(words: &[AtomicU32], offset: usize, to: &mut [u8]) {
    let load = |word: &AtomicU32| word.load(Ordering::Relaxed).to_ne_bytes();
    let (mut words, skip) = (words.get(offset / 4..).unwrap_or_default(), offset % 4);
    let mut rest = to;
    if skip != 0 {
        let here = rest.len().min(4 - skip);
        let Some((head, tail)) = core::mem::take(&mut rest).split_at_mut_checked(here) else { return };
        let word = words.split_off_first().map_or([0; 4], load);
        head.iter_mut().zip(word.iter().skip(skip)).for_each(|(to, from)| *to = *from);
        rest = tail;
    }
    let (fours, tail) = rest.as_chunks_mut::<4>();
    let there = fours.len().min(words.len());
    fours.iter_mut().zip(words).for_each(|(to, from)| *to = load(from));
    fours.iter_mut().skip(there).for_each(|to| *to = [0; 4]);
    let last = words.get(there).map_or([0; 4], load);
    tail.iter_mut().zip(last).for_each(|(to, from)| *to = from);
}

#[cfg(all(test, not(loom)))]
pub(super) mod tests {
    use super::*;
    use crate::producer::atomics::{atomic_words, atomic_words_in};
    use crate::producer::{CommitRequest, CommitSink, Exhaustion, Layout, Producer, ProducerStorage};

    pub(in crate::producer) struct Silent;
    impl CommitSink for Silent {
        fn commit(&self, _: &CommitRequest<'_>) {}
    }

    #[test]
    fn any_range_of_bytes_is_copied_and_zeros_follow_the_end() {
        let mut memory: std::vec::Vec<u32> =
            (0..5).map(|i| (0x0403_0201_u32 + i * 0x0404_0404).to_le()).collect();
        let bytes: &mut [u8] = zerocopy::IntoBytes::as_mut_bytes(&mut memory[..]);
        let words = atomic_words_in(bytes);
        for offset in (0..24).step_by(if cfg!(miri) { 5 } else { 1 }) {
            for len in 0..12 {
                let mut out = [0xEE; 12];
                copy_out(words, offset, &mut out[..len]);
                for (i, byte) in out.iter().enumerate() {
                    let expected = match offset + i + 1 {
                        _ if i >= len => 0xEE,
                        n if n <= 20 => n as u8,
                        _ => 0,
                    };
                    assert_eq!(*byte, expected, "{offset} {len} {i}");
                }
            }
        }
    }

    #[test]
    fn a_chunk_that_was_being_freed_in_a_crash_is_free() {
        let mut memory = [0u32; 2 * 16];
        let memory = SharedMemory::new(atomic_words(&mut memory), 64).unwrap();
        let (storage, silent) = (ProducerStorage::<3, 1>::new(), Silent);
        let producer = Producer::new(memory, Layout::One, &storage, &silent).unwrap();
        let mut writer = producer.writer(0, Exhaustion::Drop).unwrap();
        writer.packet().varint(8, 1);
        writer.flush();
        let mut consumer = Consumer::new(memory);
        let taken = consumer.take(0, 0).unwrap();
        taken.place.clear_header();
        core::mem::forget(taken);
        assert_eq!(consumer.reclaim(), 0);
        assert_eq!(memory.page(0).unwrap().bitmap().state(0), ChunkState::Free);
    }

    #[test]
    fn a_chunk_that_was_read_is_free_and_both_words_of_its_header_are_zero() {
        use crate::producer::layout::Division;

        let mut memory = [0u32; 2 * 16];
        let memory = SharedMemory::new(atomic_words(&mut memory), 128).unwrap();
        let (storage, silent) = (ProducerStorage::<2, 1>::new(), Silent);
        let producer = Producer::new(memory, Layout::Two, &storage, &silent).unwrap();
        let mut writer = producer.writer(0, Exhaustion::Drop).unwrap();
        for value in 0..2 {
            writer.packet().varint(8, value);
            writer.flush();
        }
        let mut consumer = Consumer::new(memory);
        for chunk in 0..2 {
            // The second's id is not 0 before.
            assert_eq!(consumer.take(0, chunk).unwrap().header().chunk_id, chunk);
            let words = memory.chunk(0, chunk, &Division::new(Layout::Two, 128));
            assert_eq!([0, 1].map(|index| words[index].load(Ordering::Relaxed)), [0, 0], "chunk {chunk}");
            assert_eq!(memory.page(0).unwrap().bitmap().state(chunk), ChunkState::Free);
        }
    }

    /// For Miri and sanitizers too: three threads that share nothing but the memory.
    #[test]
    fn writers_a_drain_and_a_scrape_run_side_by_side() {
        use crate::producer::*;
        use std::{
            sync::Mutex, sync::atomic::AtomicBool, sync::atomic::Ordering::Relaxed, thread, vec, vec::Vec,
        };

        struct Queue(Mutex<Vec<ChunkToMove>>);
        impl CommitSink for Queue {
            fn commit(&self, request: &CommitRequest<'_>) {
                self.0.lock().unwrap().extend(request.chunks_to_move);
            }
        }

        let mut memory = vec![0u32; 256];
        let memory = SharedMemory::new(atomic_words(&mut memory), 256).unwrap();
        let (queue, storage) = (Queue(Mutex::default()), ProducerStorage::<16, 2>::new());
        let producer = Producer::new(memory, Layout::Two, &storage, &queue).unwrap();
        let (done, mut fragments) = (AtomicBool::new(false), 0);
        let packets = thread::scope(|scope| {
            let writers = [(); 2].map(|()| producer.writer(0, Exhaustion::Stall).unwrap());
            let threads = writers.map(|mut writer| {
                scope.spawn(move || {
                    for n in 0..20 {
                        writer.packet().message(900).bytes(1, &[n; 30]);
                    }
                    writer.packet().message(900).bytes(1, &[0; 300]);
                    writer.flush();
                    writer.stats().packets
                })
            });
            scope.spawn(|| {
                let mut consumer = Consumer::new(memory);
                let mut private = [0; 256];
                loop {
                    let last = done.load(Relaxed);
                    consumer.scrape::<2>(|chunk| chunk.fill(0, &mut private));
                    for ChunkToMove { page, chunk, .. } in std::mem::take(&mut *queue.0.lock().unwrap()) {
                        let chunk = consumer.take(page, chunk).unwrap();
                        chunk.fill(0, &mut private);
                        fragments += u64::from(chunk.header().fragments);
                    }
                    if last {
                        break;
                    }
                    thread::yield_now();
                }
            });
            let packets: u64 = threads.map(|t| t.join().unwrap()).iter().sum();
            done.store(true, Relaxed);
            packets
        });
        assert_eq!(packets, 42);
        assert!(fragments >= packets);
    }
}
