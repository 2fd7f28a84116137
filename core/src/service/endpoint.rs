//! The service's end of one producer: what the producer commits goes into the central buffers, and so does what it
//! left.

use crate::buffer::{self, ChunkFlags, Commit, OverwriteObserver, TraceBuffer};
use crate::producer::{
    ChunkToMove, ChunkToPatch, CommitRequest, Consumer, HeaderFlags, Request, SmbChunkHeader,
};

use super::buffers::{AllowedBuffers, Buffers};
use super::endpoint_stats::EndpointStats;
use super::writers::{Writer, waits_for_patches};

mod discarded;
mod patching;
mod state;

pub use state::EndpointState;

/// Who a producer is, as the service knows it, not as the producer says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct ProducerIdentity {
    /// Its number, which the service gives, from 1. Before you give it to another producer, call
    /// [`TraceBuffer::forget_producer`]: while a buffer has unread chunks of the first, the other's would be taken for
    /// that one's.
    pub producer_id: u16,
    /// Its user, `u32::MAX` if unknown.
    pub uid: u32,
    /// Its process, −1 if unknown.
    pub pid: i32,
}

/// The service's end of one producer.
///
/// It knows the producer's writers (up to `WRITERS`, 28 bytes each, 20 on microcontrollers; with the feature `alloc`, on
/// the heap) and the buffers they write to. Central buffers are handed to each call: as a slice, in which a writer's
/// target is an index, or as anything else that finds [`Buffers`] by number. Those that the producer may write to are
/// some of the first 32, or of an own set `A` of [`AllowedBuffers`]. Nothing that the producer does, says, or changes
/// while it is read can do harm: it is refused and counted.
///
/// A writer has a place here from its registration on or, without one, from the first of its chunks that is taken,
/// until it is unregistered. If there are more than `WRITERS` at a time, the others' chunks are discarded, so that no
/// producer gets all sequences of a buffer; as many as its [`ProducerStorage`](crate::producer::ProducerStorage) has
/// are enough. The sequence of a writer that has ended stays in its buffer until it is read or overwritten, or
/// [another needs its place](TraceBuffer::make_place): if you trust no producer, count what each one
/// [unregisters](Request::Unregister), and disconnect one that does nothing else.
///
/// ```
/// use tracebuf::buffer::{Config, FillPolicy, TraceBuffer};
/// use tracebuf::producer::*;
/// use tracebuf::service::{ProducerEndpoint, ProducerIdentity};
///
/// # struct Nowhere;
/// # impl CommitSink for Nowhere { fn commit(&self, _: &CommitRequest<'_>) {} }
/// let mut words = vec![0u32; 4096];
/// let memory = SharedMemory::new(atomic_words(&mut words), 4096)?;
/// let identity = ProducerIdentity { producer_id: 1, uid: 1000, pid: 42 };
/// let mut endpoint = ProducerEndpoint::<8>::new(Consumer::new(memory), identity);
/// endpoint.allow(0);
/// let mut buffers = [TraceBuffer::new(vec![0u8; 8192], Config::new(FillPolicy::RingBuffer)).unwrap()];
///
/// let storage = ProducerStorage::<4, 8>::new();
/// let producer = Producer::new(memory, Layout::One, &storage, &Nowhere)?;
/// let mut writer = producer.writer(0, Exhaustion::Drop).expect("one of eight");
/// endpoint.register_writer(1, 0); // in a program, the producer's sink is told to
/// writer.packet().varint(8, 1_000_000); // a timestamp
/// drop(writer);
///
/// assert_eq!(endpoint.disconnect(&mut buffers), 1); // a chunk that nobody had moved
/// assert_eq!(buffers[0].read().next_packet().expect("a packet").producer_id(), 1);
/// # Ok::<(), MemoryError>(())
/// ```
pub struct ProducerEndpoint<'m, const WRITERS: usize, A = u32> {
    consumer: Consumer<'m>,
    known: EndpointState<WRITERS, A>,
}

crate::debug::opaque_debug! {
    "ProducerEndpoint": [const WRITERS: usize, A] ProducerEndpoint<'_, WRITERS, A>,
}

impl<'m, const WRITERS: usize> ProducerEndpoint<'m, WRITERS> {
    /// Makes the service's end of a producer that may not write to any buffer yet.
    pub const fn new(consumer: Consumer<'m>, identity: ProducerIdentity) -> Self {
        Self { consumer, known: EndpointState::new(identity, 0) }
    }
}

impl<'m, const WRITERS: usize, A: AllowedBuffers> ProducerEndpoint<'m, WRITERS, A> {
    /// The service's end of a producer of which so much is known. The memory is always the same one.
    pub const fn of(known: EndpointState<WRITERS, A>, consumer: Consumer<'m>) -> Self {
        Self { consumer, known }
    }

    /// Gives back what is known.
    pub fn into_state(self) -> EndpointState<WRITERS, A> {
        self.known
    }

    /// Who the producer is.
    pub const fn identity(&self) -> ProducerIdentity {
        self.known.identity
    }

    /// Lets the producer write to a buffer. False if the set of those that it may write to has no room for it: if it is
    /// a `u32`, for those beyond the first 32.
    pub fn allow(&mut self, target: u16) -> bool {
        self.known.allowed.allow(target)
    }

    /// Registers a writer that will write to `target`. False, and an earlier registration of the same writer is gone,
    /// if that is no buffer of the producer, or if there are too many writers: its chunks are then discarded.
    ///
    /// If its first chunk has the id 0 and the buffer already knows chunks of an earlier writer of this number, its
    /// chunks go on behind those, and so do those of later ones: Perfetto's writers begin with 0 even when their number
    /// was another's. On microcontrollers nothing is added to ids.
    pub fn register_writer(&mut self, writer_id: u16, target: u16) -> bool {
        let counting = self.known.writers.counting(writer_id, target);
        self.known.writers.remove(writer_id);
        let is_there = self.known.allowed.has(target) && self.known.writers.add(writer_id, target);
        if let (Some(writer), Some(counting)) = (self.known.writers.get_mut(writer_id), counting) {
            writer.go_on(counting);
        }
        is_there
    }

    /// Like [`register_writer`](Self::register_writer), for a writer whose ids are taken as they are, because it went on
    /// counting where the previous one of its number had stopped, as this crate's do. This is for what is found in
    /// shared memory after a crash, when the buffer knows some of it already and no endpoint knows which. The producer's
    /// number must not have been that of another whose chunks the buffer still knows.
    pub fn register_counting_writer(&mut self, writer_id: u16, target: u16) -> bool {
        let is_there = self.register_writer(writer_id, target);
        // Nothing is added to ids on microcontrollers.
        #[cfg(not(target_os = "none"))]
        if let Some(writer) = self.known.writers.get_mut(writer_id) {
            writer.begin();
        }
        is_there
    }

    /// Notes that a writer has ended: another one may have its place.
    pub fn unregister_writer(&mut self, writer_id: u16) {
        self.known.writers.end(writer_id);
    }

    /// Does what a request asks for: moves chunks and applies patches. The caller must acknowledge the flush, if it
    /// asks for one.
    ///
    /// Cost: for each chunk a look at some of the writers and one copy, straight into the buffer's ring.
    pub fn carry_out<B: Buffers + ?Sized>(&mut self, request: &CommitRequest<'_>, buffers: &mut B) {
        for wanted in request.chunks_to_move {
            self.move_chunk(wanted, buffers);
        }
        for patched in request.chunks_to_patch {
            self.patch(patched, buffers);
        }
    }

    /// Does one thing that a producer asked for, as a queue holds it. The caller must acknowledge a flush, with the
    /// number that is returned.
    ///
    /// Cost: that of one chunk in [`carry_out`](Self::carry_out).
    #[must_use = "a flush is to be acknowledged, by `Producer::flushed`"]
    pub fn carry_out_one<B: Buffers + ?Sized>(&mut self, request: &Request, buffers: &mut B) -> Option<u32> {
        match *request {
            Request::Register { writer_id, target } => {
                self.register_writer(writer_id, target);
            }
            Request::Unregister { writer_id } => self.unregister_writer(writer_id),
            Request::Move(chunk) => self.move_chunk(&chunk, buffers),
            Request::Patch { writer_id, target, patch, has_more } => {
                let (chunk_id, patches) = (patch.chunk_id, &[patch]);
                self.patch(&ChunkToPatch { writer_id, target, chunk_id, patches, has_more }, buffers);
            }
            Request::Flush(number) => return Some(number),
        }
        None
    }

    /// Copies what registered writers have in shared memory and have not committed: finished packets of chunks still
    /// being written, and chunks complete but not sent. These stay where they are, and their commits will come. A chunk
    /// that was copied is offered again only if there is more in it, or if the buffer overwrote it unread and has read
    /// nothing of its writer since. Returns how many chunks were offered.
    ///
    /// Chunks whose buffer is not among those that are handed over are left alone: where several sessions have buffers of
    /// their own, hand over those of one.
    ///
    /// This is for flushes; for a producer that is gone there is [`disconnect`](Self::disconnect). What is offered of a
    /// writer has no gap. While patches of a writer are to come, only about a thousand of its chunks are offered that
    /// are newer than the committed ones.
    ///
    /// Cost: that of [`Consumer::scrape`], which touches each page; none while no writer is registered.
    pub fn scrape<B: Buffers + ?Sized>(&mut self, buffers: &mut B) -> u64 {
        self.scrape_those(
            buffers,
            |writer, header| !writer.is_too_far(header) && !writer.is_behind_unfinished(header),
            |_, _| true,
        )
    }

    /// The same for those chunks alone in which packets go on that begin in chunks which the buffers have. A ring may
    /// otherwise overwrite such a beginning while its writer rests.
    pub fn scrape_rests<B: Buffers + ?Sized>(&mut self, buffers: &mut B) -> u64 {
        let is_wanted =
            |writer: &Writer, header: &_| !writer.is_too_far(header) && !writer.is_behind_unfinished(header);
        self.scrape_those(buffers, is_wanted, TraceBuffer::goes_on_in)
    }

    /// Offers each chunk that is wanted to its writer's buffer, unless that has it.
    #[cfg_attr(target_os = "none", inline(never))]
    fn scrape_those<B: Buffers + ?Sized>(
        &mut self,
        buffers: &mut B,
        is_wanted: fn(&Writer, &buffer::ChunkHeader) -> bool,
        has_part: HasPart<B>,
    ) -> u64 {
        if !self.known.writers.has_registered() {
            // Not even headers are looked at: in memory that nobody has touched, each is a page fault.
            return 0;
        }
        let (identity, discarded) = (self.known.identity, &mut self.known.discarded);
        let mut scraped = 0;
        self.consumer.scrape_those::<WRITERS, _>(
            &mut self.known.writers,
            |writers, writer_id| writers.get(writer_id).is_some(),
            |writers, chunk| {
                let mut header = header_of(&chunk.header(), chunk.is_complete(), identity);
                header.complete &= !writers.may_patch(&header);
                let Some(writer) = writers.get_mut(header.writer_id) else { return };
                let Some(buffer) = buffers.buffer(writer.target) else { return };
                header.chunk_id = writer.id_of(header.chunk_id, || buffer.go_on_from(&header));
                if is_there(writer, &header, buffer)
                    || !is_wanted(writer, &header)
                    || !has_part(buffer, &header)
                {
                    return;
                }
                let commit = discarded.commit(buffer, &header, chunk.payload());
                scraped += 1;
                writer.offer(&header);
                let is_stored = !matches!(commit, Commit::Discarded | Commit::Refused(_));
                // A chunk that waits for patches may still be changed where it lies, though not by a writer of this crate
                // or Perfetto's.
                if is_stored && !waits_for_patches(&header) {
                    writer.show(&header);
                }
            },
        );
        self.known.stats.chunks_scraped = self.known.stats.chunks_scraped.saturating_add(scraped);
        scraped
    }

    /// Takes what a producer that is gone has left, as [`scrape`](Self::scrape) does, and
    /// [ends](TraceBuffer::end_producer) it in the buffers that it may write to, where nothing waits for it from then
    /// on. None of its writers is registered any more, and a later scrape finds nothing. Returns how many chunks were
    /// offered to a buffer.
    ///
    /// Its sequences keep their places in the buffers' tables until others need them:
    /// [`Config::sequences`](buffer::Config::sequences) must be enough for all producers that are to be read together.
    pub fn disconnect<B: Buffers + ?Sized>(&mut self, buffers: &mut B) -> u64 {
        // No more patches will come, for which a chunk could be too far.
        let scraped = self.scrape_those(buffers, |_, _| true, |_, _| true);
        self.known.writers.end_all();
        let producer_id = self.known.identity.producer_id;
        self.known.allowed.for_each(|target| {
            if let Some(buffer) = buffers.buffer(target) {
                buffer.end_producer(producer_id);
            }
        });
        scraped
    }

    /// What became of chunks and patches before they reached a buffer.
    pub const fn stats(&self) -> EndpointStats {
        self.known.stats
    }

    fn move_chunk<B: Buffers + ?Sized>(&mut self, wanted: &ChunkToMove, buffers: &mut B) {
        let Some(chunk) = self.consumer.take(wanted.page, wanted.chunk) else {
            self.known.stats.chunks_missing = self.known.stats.chunks_missing.saturating_add(1);
            return;
        };
        let mut header = header_of(&chunk.header(), true, self.known.identity);
        let allowed = self.known.allowed.has(wanted.target);
        let buffer = buffers.buffer(wanted.target).filter(|_| allowed);
        // Only a writer whose chunk has a buffer takes a place.
        let found =
            buffer.and_then(|buffer| Some((buffer, self.known.writers.get_or_see(header.writer_id)?)));
        let Some((buffer, writer)) = found.filter(|(_, writer)| writer.may_write_to(wanted.target)) else {
            self.known.discarded.note(header.writer_id);
            self.known.stats.chunks_discarded = self.known.stats.chunks_discarded.saturating_add(1);
            return;
        };
        header.chunk_id = writer.id_of(header.chunk_id, || buffer.go_on_from(&header));
        let is_known = is_there(writer, &header, buffer);
        writer.pass(header.chunk_id);
        writer.offer(&header);
        if is_known {
            // Its packets may have been read since, and the buffer would count it as one that came too late.
            self.known.stats.chunks_scraped_before = self.known.stats.chunks_scraped_before.saturating_add(1);
            return;
        }
        self.known.stats.chunks_moved = self.known.stats.chunks_moved.saturating_add(1);
        self.known.discarded.commit(buffer, &header, chunk.payload());
    }
}

/// Whether a chunk is of interest to its buffer.
type HasPart<B> =
    fn(&mut TraceBuffer<<B as Buffers>::Memory, <B as Buffers>::Observer>, &buffer::ChunkHeader) -> bool;

/// Whether a buffer has, or has given out, all that is in a chunk: a scrape has shown it, and it was not overwritten
/// since, as happens while nobody reads.
fn is_there<M: AsRef<[u8]> + AsMut<[u8]>, O: OverwriteObserver>(
    writer: &Writer,
    header: &buffer::ChunkHeader,
    buffer: &TraceBuffer<M, O>,
) -> bool {
    writer.has_shown(header) && !buffer.has_lost(header)
}

// Both have the bits of the shared memory protocol.
const _: () = assert!(
    HeaderFlags::CONTINUES_FROM_PREVIOUS.bits() == ChunkFlags::CONTINUES_FROM_PREVIOUS.bits()
        && HeaderFlags::CONTINUES_ON_NEXT.bits() == ChunkFlags::CONTINUES_ON_NEXT.bits()
        && HeaderFlags::NEEDS_PATCHING.bits() == ChunkFlags::NEEDS_PATCHING.bits()
);

/// A header of shared memory as the buffer takes it.
fn header_of(header: &SmbChunkHeader, complete: bool, identity: ProducerIdentity) -> buffer::ChunkHeader {
    buffer::ChunkHeader {
        producer_id: identity.producer_id,
        writer_id: header.writer_id,
        chunk_id: header.chunk_id,
        fragments: header.fragments,
        flags: ChunkFlags::from_bits_truncate(header.flags.bits()),
        complete,
        uid: identity.uid,
        pid: identity.pid,
    }
}

#[cfg(all(test, not(loom)))]
mod tests;
