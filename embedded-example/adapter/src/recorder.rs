//! The recorder: writers in front, shared memory between, the ring behind, all in one region.
//!
//! Writers run at any priority and never wait. What they complete is noted in the [`Inbox`]; the drain, at the
//! lowest priority, moves it into the ring: in the main loop, the PendSV handler, or an RTOS's lowest task, which
//! [`Inbox::with_wake`] pends or wakes.
//!
//! ```
//! use tracebuf::producer::Exhaustion;
//! use tracebuf::producer::track_event::{Tracer, TracerConfig, Track};
//! use tracebuf_embedded::recorder::{Inbox, RingRecorder, Storage, state_every};
//! use tracebuf_embedded::region::Region;
//! use tracebuf_embedded::send::Sender;
//!
//! const BYTES: usize = 8 * 1024;
//! static TRACE: Region<{ BYTES / 8 }> = Region::zeroed(); // on a target, in the section .uninit
//! static STORAGE: Storage = Storage::new();
//! static INBOX: Inbox = Inbox::new();
//! static MAIN: Track<'static> = Track::thread(1, 1, "main loop");
//!
//! // SAFETY: nobody else takes it.
//! let region = unsafe { TRACE.take() };
//! let (producer, mut recorder) = RingRecorder::new(region, &STORAGE, &INBOX)?;
//! let writer = producer.writer(0, Exhaustion::Drop).expect("one of four");
//! let config = TracerConfig::new(1_000_000).state_every(state_every(BYTES));
//! # let ticks = || 5;
//! let tracer: Tracer<'_, _, 16, 4> = Tracer::with_tables(writer, ticks, &MAIN, config);
//!
//! tracer.track().slice("work", || { /* the firmware's work */ });
//! recorder.scrape(&producer); // or drain, in the main loop
//! let mut file: Vec<u8> = Vec::new();
//! let line = |bytes: &[u8]| {
//!     file.extend(bytes); // on a target, a UART or a probe
//!     Ok::<_, ()>(bytes.len())
//! };
//! Sender::raw(line).finish(&mut recorder).expect("a line that takes everything");
//! assert!(file.windows(4).any(|name| name == b"work"));
//! # Ok::<(), tracebuf_embedded::recorder::RingRecorderError>(())
//! ```

use crate::region::{bytes, words};
use core::fmt;
use tracebuf::buffer::{Config, FillPolicy, RegionError, RingContent, Salvage, TraceBuffer};
use tracebuf::producer::{
    Consumer, Layout, MemoryError, Producer, ProducerStorage, Request, SharedMemory, atomic_words,
};
use tracebuf::service::{ProducerEndpoint, ProducerIdentity, StartMark};

pub use crate::inbox::{Inbox, InboxLosses, WRITERS};

/// Memory of the producer beside its region.
pub type Storage = ProducerStorage<{ Inbox::CHUNKS }, WRITERS>;

/// Sequences that the ring knows: this start's writers, and earlier ones whose chunks are still there.
const SEQUENCES: usize = 2 * WRITERS;
/// The ring's layout.
pub const CONFIG: Config = Config::new(FillPolicy::RingBuffer).sequences(SEQUENCES as u16);
/// Bytes of a chunk of shared memory with its header; each writer holds one, and two while a packet spans them.
const CHUNK: usize = 120;
/// Four chunks and their states. When all chunks are taken, each event looks at all pages, so these are few.
const PAGE: usize = 8 + 4 * CHUNK;
/// One chunk, for regions so small that a page more or less would be a lot.
const SMALL_PAGE: usize = 8 + CHUNK;
/// What a full chunk takes in the ring, with the 24 bytes that the ring keeps about each.
const IN_RING: usize = 24 + CHUNK - 8;
/// A ring of fewer chunks, some 3.7 KiB, holds half as many events more, or twice as many, with states at half of it.
const SMALL_RING: usize = 28;
/// Room in the ring for two chunks that are full: with less than one it would take nothing.
const LEAST_RING: u32 = 2 * IN_RING as u32;

/// The drain and the ring, of at most [`WRITERS`] writers at a time: `Producer::writer` gives no more.
pub struct RingRecorder<'a> {
    endpoint: ProducerEndpoint<'a, WRITERS>,
    inbox: &'a Inbox,
    buffers: [TraceBuffer<&'a mut [u8]>; 1],
}

/// Why a region cannot be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RingRecorderError {
    /// Its part for shared memory, a quarter.
    SharedMemory(MemoryError),
    /// Its part for the ring.
    Ring(RegionError),
}

impl fmt::Display for RingRecorderError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::SharedMemory(error) => write!(f, "a quarter of the region is no shared memory: {error}"),
            Self::Ring(error) => write!(f, "the rest of the region is no ring: {error}"),
        }
    }
}

impl core::error::Error for RingRecorderError {}

impl<'a> RingRecorder<'a> {
    /// Lays a region out, whatever is in it: a [mark](StartMark), shared memory (a quarter, up to 4 KiB), the ring.
    ///
    /// # Errors
    /// [`RingRecorderError`] below 1176 bytes. Events of a ring that was lapped can be decoded from about 4 KiB on.
    pub fn new(
        region: &'a mut [u64],
        storage: &'a Storage,
        inbox: &'a Inbox,
    ) -> Result<(Producer<'a>, Self), RingRecorderError> {
        let parts = Parts::of(region)?;
        let ring = TraceBuffer::new(bytes(parts.ring), CONFIG).map_err(RingRecorderError::Ring)?;
        Self::start(parts.mark, 1, parts.shared, ring, storage, inbox)
    }

    /// Finds what an earlier start has recorded, hands it to `before`, and goes on recording behind it.
    ///
    /// That is the ring as it was salvaged, with the packets that were finished but still in shared memory. A packet
    /// that was not finished, or waited for a patch, is given up. What `before` reads is not read again later; what it
    /// leaves is overwritten by and by. It is not called if nothing is found, as after power-on.
    ///
    /// The producer's number is the start's. If the ring's table has no room for [`WRITERS`] more, because start
    /// followed start with little recorded in between, the oldest starts are given up after `before`, and count as
    /// overwritten; the one just before this one never is.
    ///
    /// # Errors
    /// As [`RingRecorder::new`].
    pub fn attach_or_new(
        region: &'a mut [u64],
        storage: &'a Storage,
        inbox: &'a Inbox,
        before: impl FnOnce(&mut TraceBuffer<&'a mut [u8]>, Salvage),
    ) -> Result<(Producer<'a>, Self), RingRecorderError> {
        let parts = Parts::of(region)?;
        let (mut ring, found) =
            TraceBuffer::attach_or_new(bytes(parts.ring), CONFIG).map_err(RingRecorderError::Ring)?;
        let mut number = 1;
        if let Some(salvage) = found {
            let (memory, _) = shared_memory(parts.shared)?;
            // Divided otherwise, the mark is another program's.
            let mark = StartMark::from_word(*parts.mark).filter(|mark| mark.is_of(&memory));
            let last = mark.map(StartMark::start);
            if let Some(last) = last {
                Consumer::new(memory).reclaim();
                let mut rings = [ring];
                endpoint(memory, last).disconnect(&mut rings);
                [ring] = rings;
            }
            before(&mut ring, salvage);
            // Without a number of its own, the start before this one is known by its writers.
            let of_writers = || ring.sequences().map(|sequence| sequence.producer_id).max();
            let last = last.or_else(of_writers).unwrap_or(0);
            number = last.checked_add(1).unwrap_or(1);
            if !make_room(&mut ring, last, number) {
                ring = TraceBuffer::new(ring.into_memory(), CONFIG).map_err(RingRecorderError::Ring)?;
            }
        }
        Self::start(parts.mark, number, parts.shared, ring, storage, inbox)
    }

    fn start(
        mark: &mut u64,
        number: u16,
        shared: &'a mut [u64],
        ring: TraceBuffer<&'a mut [u8]>,
        storage: &'a Storage,
        inbox: &'a Inbox,
    ) -> Result<(Producer<'a>, Self), RingRecorderError> {
        // Shared memory starts out as zeros. What was there is in the ring, so that a crash from here on loses
        // nothing; and the number changes when nothing is left that could be taken for this start's.
        shared.fill(0);
        let (memory, layout) = shared_memory(shared)?;
        *mark = StartMark::new(number, &memory).to_word();
        inbox.restart();
        let producer =
            Producer::new(memory, layout, storage, inbox).map_err(RingRecorderError::SharedMemory)?;
        let endpoint = endpoint(memory, number);
        Ok((producer, RingRecorder { endpoint, inbox, buffers: [ring] }))
    }

    /// Moves what the writers of `producer` have completed into the ring, and acknowledges their flushes.
    pub fn drain(&mut self, producer: &Producer<'_>) {
        producer.commit();
        while let Some(request) = self.next_request() {
            self.carry_out(request, producer);
        }
    }

    /// The drain's next request, for programs that do other things in between.
    pub fn next_request(&mut self) -> Option<Request> {
        self.inbox.take()
    }

    /// Does what [`next_request`](Self::next_request) returned.
    pub fn carry_out(&mut self, request: Request, producer: &Producer<'_>) {
        if let Some(flush) = self.endpoint.carry_out_one(&request, &mut self.buffers) {
            producer.flushed(flush);
        }
    }

    /// Drains, and copies finished packets of chunks that are still being written: for the last export, say.
    pub fn scrape(&mut self, producer: &Producer<'_>) {
        self.drain(producer);
        self.endpoint.scrape(&mut self.buffers);
    }

    /// Losses before the ring. [`Sender::finish`](crate::send::Sender::finish) sends them with the ring's counters.
    pub fn losses(&self) -> InboxLosses {
        self.inbox.losses()
    }

    /// The ring.
    pub fn buffer(&mut self) -> &mut TraceBuffer<&'a mut [u8]> {
        let [buffer] = &mut self.buffers;
        buffer
    }
}

/// Shows the counts of inbox, drain and ring; interrupts are masked for a look at the inbox.
impl fmt::Debug for RingRecorder<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [ring] = &self.buffers;
        f.debug_struct("RingRecorder")
            .field("start", &self.endpoint.identity().producer_id)
            .field("inbox", &self.inbox)
            .field("endpoint", &self.endpoint.stats())
            .field("ring", &ring.stats())
            .finish()
    }
}

/// The value of [`TracerConfig::state_every`](tracebuf::producer::track_event::TracerConfig::state_every) for a region
/// of this many bytes: a quarter of its ring, or half of one so small that its writers' states would be most of it; at
/// least a chunk. It is in bytes of shared memory, of which chunks in the ring take somewhat more.
pub const fn state_every(region: usize) -> u32 {
    let other = size_of::<u64>() + shared_size(region / 4) + CONFIG.region_size(0) as usize;
    let all = region.saturating_sub(other) / IN_RING;
    let chunks = if all < SMALL_RING { all / 2 } else { all / 4 };
    let bytes = if chunks == 0 { CHUNK } else { chunks * CHUNK };
    if bytes < u32::MAX as usize { bytes as u32 } else { u32::MAX }
}

/// Bytes of shared memory that come nearest to these.
const fn shared_size(bytes: usize) -> usize {
    if bytes < 2 * PAGE {
        return bytes / SMALL_PAGE * SMALL_PAGE;
    }
    let (pages, most) = ((bytes + PAGE / 2) / PAGE, Inbox::CHUNKS / 4);
    if pages < most { pages * PAGE } else { most * PAGE }
}

/// Shared memory of such a size.
fn shared_memory(part: &mut [u64]) -> Result<(SharedMemory<'_>, Layout), RingRecorderError> {
    let (layout, page) =
        if size_of_val(part) < 2 * PAGE { (Layout::One, SMALL_PAGE) } else { (Layout::Four, PAGE) };
    let memory = SharedMemory::new(atomic_words(words(part)), page as u32);
    memory.map(|memory| (memory, layout)).map_err(RingRecorderError::SharedMemory)
}

/// The service's end of this start's writers, or of an earlier one's.
fn endpoint(memory: SharedMemory<'_>, start: u16) -> ProducerEndpoint<'_, WRITERS> {
    let identity = ProducerIdentity { producer_id: start, uid: 0, pid: -1 };
    let mut endpoint = ProducerEndpoint::new(Consumer::new(memory), identity);
    endpoint.allow(0);
    for writer in 1..=WRITERS as u16 {
        endpoint.register_counting_writer(writer, 0);
    }
    endpoint
}

/// Makes room in the ring's table for the writers of a start of this number, without the `last` one losing anything.
/// False if there is none, as only a damaged table can have.
fn make_room(ring: &mut TraceBuffer<&mut [u8]>, last: u16, number: u16) -> bool {
    // After 65,535 starts, the numbers begin anew: an earlier start with this number has nothing to do with this one.
    ring.forget_producer(number);
    // Each time there is one start less, and there are at most this many.
    for _ in 0..=SEQUENCES {
        if ring.sequences().count() + WRITERS <= SEQUENCES {
            return true;
        }
        let starts = || ring.sequences().map(|sequence| sequence.producer_id).filter(|start| *start != last);
        let is_of =
            |content, start| matches!(content, RingContent::Chunk(chunk) if chunk.producer_id == start);
        let empty = starts().find(|start| !ring.inspect().items().any(|item| is_of(item.content, *start)));
        // The oldest: the farthest before the last one.
        let Some(start) = empty.or_else(|| starts().max_by_key(|start| last.wrapping_sub(*start))) else {
            break;
        };
        ring.forget_producer(start);
    }
    false
}

/// The parts of a region.
struct Parts<'a> {
    mark: &'a mut u64,
    shared: &'a mut [u64],
    ring: &'a mut [u64],
}

impl<'a> Parts<'a> {
    fn of(region: &'a mut [u64]) -> Result<Self, RingRecorderError> {
        let shared = shared_size(size_of_val(region) / 4) / size_of::<u64>();
        let needed = CONFIG.region_size(LEAST_RING) as usize;
        let too_small = RingRecorderError::Ring(RegionError::TooSmall { needed });
        let (mark, rest) = region.split_first_mut().ok_or(too_small)?;
        let (shared, ring) = rest.split_at_mut_checked(shared).ok_or(too_small)?;
        if size_of_val(ring) < needed {
            return Err(too_small);
        }
        Ok(Parts { mark, shared, ring })
    }
}
