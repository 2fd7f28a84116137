//! `TraceWriter`: packets one after the other, from chunk to chunk.

use super::arbiter::{NONE, Producer};
use super::atomics::Ordering;
use super::chunk_header::{HeaderFlags, SmbChunkHeader};
use super::cursor::Cursor;
use super::storage::WriterSlot;
use fields::Level;
use heapless::Vec;
use short_sizes::ShortSizes;

mod chunks;
mod fields;
mod short_sizes;

/// What a writer does when shared memory is full.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[doc(alias = "BufferExhaustedPolicy")]
pub enum Exhaustion {
    /// Gives the packet up, counts it, and tries again at the next one. Where chunks are [taken
    /// back](super::CommitSink::thread_fence), a writer's first packet, and the first after its chunk was taken, waits
    /// for up to 17 steps, some 0.1 s.
    #[default]
    Drop,
    /// Waits for the service, in growing steps, until [`CommitSink::stall`](super::CommitSink::stall) says to give up.
    /// Nothing is lost, but it waits for ever if no service runs. Not for interrupts. Needs more chunks than there are
    /// writers, and two for each writer where packets stay open meanwhile.
    Stall,
    /// Waits up to [300 steps](TraceWriter::STALL_STEPS), about 28 s if [`CommitSink::stall`](super::CommitSink::stall)
    /// waits as long as it is asked to, for a free chunk, then drops until there is one. Not for interrupts.
    StallThenDrop,
}

/// What a writer has done so far; on targets of 32 bits modulo 2³².
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct TraceWriterStats {
    /// Packets begun, including dropped ones. Empty ones do not count, unless there was no chunk to begin them in, or
    /// they carry a flag, as a writer's first packet and one after a loss do.
    pub packets: u64,
    /// Packets given up.
    pub dropped: u64,
    /// Of these, packets given up because of too deep nesting, too many patches (16 at a time), too large a size, a
    /// message over more than [`TraceWriter::MAX_PATCHED`] chunks, an invalid field number or, without the feature
    /// `patches`, a third chunk while a message of the first is open.
    pub over_limit: u64,
    /// Chunks completed.
    pub chunks: u64,
}

/// Writes the packets of one thread, interrupt priority or core straight into shared memory.
///
/// Dropping it flushes what there is and returns its id.
///
/// ```
/// # use tracebuf::producer::*;
/// # struct Nowhere;
/// # impl CommitSink for Nowhere { fn commit(&self, _: &CommitRequest<'_>) {} }
/// # let (mut words, storage) = (vec![0u32; 1024], ProducerStorage::<4, 1>::new());
/// # let memory = SharedMemory::new(atomic_words(&mut words), 4096)?;
/// # let producer = Producer::new(memory, Layout::Four, &storage, &Nowhere)?;
/// # let mut writer = producer.writer(0, Exhaustion::Drop).expect("the only one");
/// let mut packet = writer.packet();
/// packet.varint(8, 1_000_000); // timestamp
/// packet.message(900).string(1, "hello"); // for_testing
/// drop(packet); // ends it
/// writer.flush();
/// assert_eq!(writer.stats().packets, 1);
/// # Ok::<(), MemoryError>(())
/// ```
///
/// A packet that does not fit the chunk goes on in the next; the reader joins its fragments. The chunk before the
/// current one is *held back*, still being written, so that size fields in it are filled in place. Only when the packet
/// needs a third chunk is the first given away, with a promise to send patches. Patches lie outside shared memory:
/// after a crash, packets whose patches were not sent are lost. Without the feature `patches`, a packet is given up if
/// it needs a third chunk while a message that began in the first is open: make chunks as long as the longest packet.
// Small fields first: instructions for Cortex-M are shorter for fields near the start.
#[repr(C)]
pub struct TraceWriter<'a> {
    is_open: bool,
    dropping: bool,
    /// What the next packet has to say besides its own content: [`FIRST`], [`LOST`], [`FULL`].
    news: u8,
    gave_up_waiting: bool,
    /// Whether patches have become ready and are not sent.
    has_ready_patches: bool,
    id: u16,
    cursor: Cursor<'a>,
    /// Where the current fragment's size field is, in bytes of the chunk.
    fragment: usize,
    /// Bytes of the open packet before this chunk, less the position where its fragment's content begins: the packet's
    /// size so far is this plus the position, modulo 2³².
    base: u32,
    producer: &'a Producer<'a>,
    /// Steps to wait for a chunk.
    patience: u32,
    /// The current chunk, or [`NONE`].
    chunk: u32,
    /// The chunk before the current one, when open messages have size fields in it.
    held: u32,
    /// The next chunk's id: the current one's is one less, that of the one held back two.
    next_chunk: u32,
    counts: Counts,
    /// What outlives the writer: its id, and the size fields in chunks that were given away.
    slot: &'a WriterSlot,
    /// How many of the open messages have, or have had, a place in its list of patches.
    promised: usize,
    levels: Vec<Level, { TraceWriter::MAX_NESTING }>,
    /// Chunks that the producer had completed when the current one was begun.
    begun: u32,
    short: ShortSizes<'a>,
    /// Whether its chunk was taken back, and it has no other.
    #[cfg(not(tracebuf_small))]
    was_taken_from: bool,
}

/// [`TraceWriterStats`] in the machine's words.
#[derive(Default)]
struct Counts {
    packets: usize,
    dropped: usize,
    over_limit: usize,
    chunks: usize,
}

/// It is the first of the sequence.
const FIRST: u8 = 1;
/// The packet before it was given up.
const LOST: u8 = 2;
/// One of those given up was given up for want of shared memory.
const FULL: u8 = 4;

impl<'a> Producer<'a> {
    /// A writer to the central buffer `target`; `None` when all ids are taken.
    ///
    /// The id becomes free when the writer is dropped. Cost: a few looks at ids; on microcontrollers, and when those to
    /// the same buffer are all taken, up to two at each.
    ///
    /// Have as many ids as all buffers together have writers at a time. With fewer, an id may go to a writer to another
    /// buffer, which then takes earlier chunks for lost, and a service that scrapes before it has heard of the change
    /// puts the new writer's chunks into the old one's buffer.
    pub fn writer(&'a self, target: u16, exhaustion: Exhaustion) -> Option<TraceWriter<'a>> {
        let (slot, id) = self.ids.take(self.writers, target)?;
        // Only the writer of an id writes this.
        let news = slot.news(target);
        slot.target.store(u32::from(target), Ordering::Relaxed);
        self.sink.register_writer(id, target);
        let next_chunk = slot.next_chunk.load(Ordering::Relaxed);
        Some(TraceWriter {
            producer: self,
            cursor: Cursor::NONE,
            chunk: NONE,
            held: NONE,
            levels: Vec::new(),
            slot,
            promised: 0,
            counts: Counts::default(),
            next_chunk,
            begun: 0,
            fragment: 0,
            base: 0,
            patience: match exhaustion {
                Exhaustion::Drop => 0,
                Exhaustion::Stall => u32::MAX,
                Exhaustion::StallThenDrop => TraceWriter::STALL_STEPS,
            },
            id,
            is_open: false,
            dropping: false,
            news: news | FIRST,
            gave_up_waiting: false,
            has_ready_patches: false,
            short: ShortSizes::NONE,
            #[cfg(not(tracebuf_small))]
            was_taken_from: false,
        })
    }
}

impl<'a> TraceWriter<'a> {
    /// Messages that can be open within each other; a deeper one gives the packet up.
    pub const MAX_NESTING: usize = 12;
    /// Chunks that a message can span, with the feature `patches`; a longer one gives the packet up. Less than
    /// [`WALK_LIMIT`](crate::buffer::WALK_LIMIT): the rest is room for chunks that are scraped before the patch comes.
    /// To a writer that has 16 size fields waiting, or whose patches another writer has yet to send, shared memory is
    /// full.
    pub const MAX_PATCHED: u32 = 3_072;
    /// Steps that [`Exhaustion::StallThenDrop`] waits, as many as the reference takes before it aborts.
    pub const STALL_STEPS: u32 = 300;
    /// Steps of less than a millisecond: in these, not each writer that waits looks for chunks to take back.
    #[cfg(not(tracebuf_small))]
    const EAGER_STEPS: u32 = 11;
    /// Steps that a writer waits that others keep from a chunk, or have taken it from.
    #[cfg(not(tracebuf_small))]
    const GRACE_STEPS: u32 = 17;
    /// A packet is not begun with less room than this in the chunk.
    const MIN_ROOM: usize = 12;
    /// Nor beyond this many fragments.
    const MAX_FRAGMENTS: u16 = SmbChunkHeader::MAX_FRAGMENTS - 1;

    /// The writer's id in its producer, from 1.
    pub fn id(&self) -> u16 {
        self.id
    }

    /// Counts of packets and chunks.
    pub fn stats(&self) -> TraceWriterStats {
        let Counts { packets, dropped, over_limit, chunks } = self.counts;
        TraceWriterStats {
            packets: packets as u64,
            dropped: dropped as u64,
            over_limit: over_limit as u64,
            chunks: chunks as u64,
        }
    }

    /// Completes the chunk, filled or not, and sends all there is to send. Returns a number that the service
    /// acknowledges: [`Producer::is_flushed`]. Never waits: if another writer is sending just then, that one sends this
    /// too.
    pub fn flush(&mut self) -> u32 {
        self.enter();
        self.end_chunk();
        let flush = self.producer.ask_flush();
        self.send();
        self.leave();
        flush
    }

    /// Ends the open packet and completes the chunk, filled or not.
    pub(crate) fn end_chunk(&mut self) {
        self.finish();
        if self.chunk != NONE {
            // The next packet is counted already: it ends here as an empty fragment.
            self.cursor.put(0, 1);
            self.complete_current();
        }
    }

    /// The id of the chunk that comes after the current one.
    pub(crate) fn next_chunk(&self) -> u32 {
        self.next_chunk
    }

    /// Packets begun, in the machine's words.
    pub(crate) fn packets(&self) -> usize {
        self.counts.packets
    }

    pub(crate) fn producer(&self) -> &'a Producer<'a> {
        self.producer
    }

    /// Opens a packet; the writer was [entered](Self::enter). False: it is given up, and what is written into it goes
    /// nowhere.
    pub(crate) fn begin(&mut self) -> bool {
        self.finish();
        self.counts.packets = self.counts.packets.wrapping_add(1);
        self.is_open = true;
        if self.chunk == NONE && !self.take_chunk(HeaderFlags::empty()) {
            self.news |= FULL;
            self.abandon();
            return false;
        }
        self.begin_fragment(0);
        if self.news & FIRST != 0 {
            // first_packet_on_sequence: 1
            self.cursor.put(0x01_05B8, 3);
        }
        if self.news & LOST != 0 {
            // previous_packet_dropped: 1 as a varint of two bytes, and if shared memory was full 256 with it.
            self.cursor.put(0x0081_02D0 | u32::from(self.news & FULL) << 23, 4);
        }
        true
    }

    /// Whether the last packet is missing, or the next is the first: the next one has to say so.
    #[inline]
    pub(crate) fn is_interrupted(&self) -> bool {
        self.news != 0
    }

    /// How many chunks the producer has completed since the writer began its own.
    pub(crate) fn chunk_age(&self) -> u32 {
        self.producer.completed().wrapping_sub(self.begun)
    }

    /// The id of the chunk begun last.
    pub(super) fn chunk_id(&self) -> u32 {
        self.next_chunk.wrapping_sub(1)
    }

    /// Whether a packet of up to `bytes` bytes, if written next, goes into this chunk as a whole.
    pub(crate) fn goes_into(&self, chunk_id: u32, bytes: usize) -> bool {
        self.chunk != NONE && self.age(chunk_id) == 0 && self.cursor.room() >= bytes
    }

    /// Ends the open packet, if there is one, and whatever is open in it.
    pub(crate) fn finish(&mut self) {
        if !core::mem::take(&mut self.is_open) {
            return;
        }
        self.close_levels(0);
        if core::mem::take(&mut self.dropping) {
            return self.send_ready_patches();
        }
        let (packet, size) = (self.size_so_far(), self.fragment_size());
        if packet == 0 {
            // Readers swallow empty packets; this one never was.
            self.cursor.rewind(self.fragment);
            self.counts.packets = self.counts.packets.wrapping_sub(1);
            return;
        }
        if packet == size && size < 127 {
            self.cursor.compact(self.fragment, size);
        } else {
            self.cursor.fill_size(self.fragment, size);
        }
        self.news = 0;
        if self.held != NONE {
            self.release_held();
        }
        self.count_packet();
        self.send_ready_patches();
    }

    /// Lets a packet be seen, in the last of the chunks it lies in.
    #[cfg_attr(not(tracebuf_small), inline)]
    fn count_packet(&mut self) {
        if self.cursor.room() < Self::MIN_ROOM || !self.cursor.count_fragment(Self::MAX_FRAGMENTS) {
            self.complete_current();
        }
    }

    /// Reserves a fragment's size field, with `size_so_far` bytes of the packet in the chunks before.
    fn begin_fragment(&mut self, size_so_far: u32) {
        self.fragment = self.cursor.pos();
        self.cursor.put(0, 4);
        self.base = size_so_far.wrapping_sub(self.cursor.pos() as u32);
    }

    /// Bytes of the open packet before the position.
    #[inline]
    fn size_so_far(&self) -> u32 {
        self.base.wrapping_add(self.cursor.pos() as u32)
    }

    fn fragment_size(&self) -> u32 {
        self.cursor.pos().wrapping_sub(self.fragment + 4) as u32
    }
}

impl Drop for TraceWriter<'_> {
    fn drop(&mut self) {
        self.flush();
        self.slot.end(self.next_chunk, self.news);
        self.producer.commit();
    }
}
