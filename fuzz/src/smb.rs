//! `smb`: drain and scrape of arbitrary shared memory, including memory that changes between two reads.
//!
//! The input is a page size, a list of what the service does, and the image. Whatever the image contains, the service
//! only changes the headers and states of chunks it takes, the buffer stays consistent, and the printer of images
//! copes.

use crate::input::Input;
use crate::memory::Memory;
use std::cell::Cell;
use std::sync::atomic::Ordering::Relaxed;
use tracebuf::buffer::{ChunkFlags, ChunkHeader, Config, FillPolicy, TraceBuffer};
use tracebuf::producer::{
    AtomicU32, ChunkPatch, ChunkState, ChunkToMove, ChunkToPatch, CommitRequest, Consumer, SharedMemory,
    atomic_words,
};
use tracebuf::service::{ProducerEndpoint, ProducerIdentity};

const PAGE_SIZES: [u32; 8] = [64, 72, 128, 256, 300, 512, 1024, 4096];
const MOST_STEPS: usize = 24;
const IDENTITY: ProducerIdentity = ProducerIdentity { producer_id: 1, uid: 1000, pid: 42 };

/// Runs one input.
pub fn run(data: &[u8]) {
    let mut input = Input::new(data);
    let page_size = PAGE_SIZES[usize::from(input.byte() % 8)];
    let (ring, count) = (input.byte(), usize::from(input.byte()) % MOST_STEPS);
    let steps: Vec<[u8; 4]> = (0..count).map(|_| input.u32().to_le_bytes()).collect();
    let mut image: Vec<u32> = tracebuf_conformance::smb::words(input.rest());
    let words = atomic_words(&mut image);
    let Ok(memory) = SharedMemory::new(words, page_size) else { return };

    let policy = if ring & 1 != 0 { FillPolicy::Discard } else { FillPolicy::RingBuffer };
    let config = Config::new(policy).sequences(4 + u16::from(ring >> 5));
    let region = config.region_size(64 + u32::from(ring) * 16) as usize;
    let mut buffers = [0, 4]
        .map(|at| TraceBuffer::new(Memory::new(region + 8, at), config).expect("a region large enough"));
    let mut endpoint = ProducerEndpoint::<4>::new(Consumer::new(memory), IDENTITY);
    endpoint.allow(0);
    for writer in 0..4 {
        endpoint.register_writer(writer, 0);
    }
    let mut offered = 0;
    for [what, at, how, value] in steps {
        let before = snapshot(words);
        match what % 8 {
            1 if how == 0xFF => drop(endpoint.disconnect(&mut buffers)),
            0 | 1 => drop(endpoint.scrape(&mut buffers)),
            2 | 3 => {
                let chunks = [0, 1, 2].map(|i| ChunkToMove {
                    page: u32::from(at) % (memory.pages() + 1),
                    chunk: u32::from(how) % 14 + i,
                    target: u16::from(value % 3),
                });
                let patches =
                    [ChunkPatch { chunk_id: u32::from(value), offset: u16::from(how), data: [value; 4] }; 9];
                let patched = [ChunkToPatch {
                    writer_id: u16::from(at % 6),
                    chunk_id: u32::from(value),
                    target: u16::from(how % 3),
                    patches: &patches[..usize::from(value % 10)],
                    has_more: what & 8 != 0,
                }];
                let request = CommitRequest {
                    chunks_to_move: &chunks,
                    chunks_to_patch: &patched,
                    ..CommitRequest::default()
                };
                endpoint.carry_out(&request, &mut buffers);
                assert_only_headers_changed(memory, &before, &snapshot(words));
            }
            4 => offered += scrape_changing(memory, words, &mut buffers[0], [at, how, value]),
            5 => offered += take_changing(memory, words, &mut buffers[0], [at, how, value]),
            6 => words[usize::from(at) * 7 % words.len()]
                .store(u32::from_le_bytes([how, value, how, value]), Relaxed),
            _ => {
                let mut reader = buffers[0].read();
                while let Some(packet) = reader.next_packet() {
                    assert_eq!(packet.producer_id(), 1);
                    assert_eq!(packet.slices().map(<[u8]>::len).sum::<usize>(), packet.len());
                }
            }
        }
        if what % 8 < 2 {
            assert_eq!(before, snapshot(words), "a scrape changes nothing");
        }
        for buffer in &mut buffers {
            buffer.check().expect("a consistent region");
        }
        let stats = buffers[0].stats();
        let taken = endpoint.stats();
        assert_eq!(
            stats.chunks_offered(),
            taken.chunks_moved + taken.chunks_scraped + offered,
            "{taken:?} {stats:?}"
        );
        // Nobody may write to the second one.
        assert_eq!(buffers[1].stats().bytes_written, 0);
    }
    endpoint.disconnect(&mut buffers);
    while buffers[0].read().next_packet().is_some() {}
    assert_eq!(buffers[0].check().expect("a consistent region").chunks, 0, "nothing waits");
    tracebuf_conformance::smb::dump(memory, &mut std::io::sink()).expect("a sink takes all");
}

fn snapshot(words: &[AtomicU32]) -> Vec<u32> {
    words.iter().map(|word| word.load(Relaxed)).collect()
}

/// A drain changes only page bitmaps, and headers to zero.
fn assert_only_headers_changed(memory: SharedMemory<'_>, before: &[u32], after: &[u32]) {
    let page_words = memory.page_size() as usize / 4;
    for (i, (old, new)) in before.iter().zip(after).enumerate() {
        assert!(old == new || i % page_words == 0 || *new == 0, "word {i} changed from {old:#x} to {new:#x}");
    }
    let changed = before.iter().zip(after).filter(|(old, new)| old != new).count();
    assert!(changed <= 9, "three chunks have three words each");
}

fn header_of(header: &tracebuf::producer::SmbChunkHeader, complete: bool) -> ChunkHeader {
    ChunkHeader {
        producer_id: IDENTITY.producer_id,
        writer_id: header.writer_id,
        chunk_id: header.chunk_id,
        fragments: header.fragments,
        flags: ChunkFlags::from_bits_truncate(header.flags.bits()),
        complete,
        ..ChunkHeader::default()
    }
}

/// What the producer does while the service looks.
fn disturb(words: &[AtomicU32], [at, how, value]: [u8; 3], calls: &Cell<u32>) {
    let call = calls.get();
    calls.set(call + 1);
    let index = (usize::from(at) * 3 + call as usize * usize::from(how)) % words.len();
    words[index].store(u32::from(value).wrapping_mul(0x0101_0101).wrapping_add(call), Relaxed);
}

/// A scrape during which each look at a chunk changes some word, perhaps a bitmap or a header.
fn scrape_changing(
    memory: SharedMemory<'_>,
    words: &[AtomicU32],
    buffer: &mut TraceBuffer<Memory>,
    how: [u8; 3],
) -> u64 {
    let (mut consumer, calls, mut offered) = (Consumer::new(memory), Cell::new(0), 0);
    consumer.scrape::<3>(|chunk| {
        disturb(words, how, &calls);
        let (page, index) = chunk.position();
        assert!(page < memory.pages() && index < 14);
        assert!(chunk.len() < memory.page_size() as usize);
        let header = header_of(&chunk.header(), chunk.is_complete());
        buffer.commit_with(&header, chunk.len(), |offset, target| {
            disturb(words, how, &calls);
            chunk.fill(offset, target);
        });
        offered += 1;
    });
    offered
}

/// The same for chunks taken one by one.
fn take_changing(
    memory: SharedMemory<'_>,
    words: &[AtomicU32],
    buffer: &mut TraceBuffer<Memory>,
    how: [u8; 3],
) -> u64 {
    let (mut consumer, calls, mut offered) = (Consumer::new(memory), Cell::new(0), 0);
    for page in 0..memory.pages() {
        for index in 0..14 {
            let complete = memory.page(page).is_some_and(|page| {
                let bitmap = page.bitmap();
                bitmap.layout().is_some_and(|layout| index < layout.chunks())
                    && bitmap.state(index) == ChunkState::Complete
            });
            let Some(chunk) = consumer.take(page, index) else { continue };
            assert!(complete, "only complete chunks can be taken");
            let header = header_of(&chunk.header(), true);
            buffer.commit_with(&header, chunk.len(), |offset, target| {
                disturb(words, how, &calls);
                chunk.fill(offset, target);
            });
            disturb(words, how, &calls);
            offered += 1;
        }
    }
    offered
}
