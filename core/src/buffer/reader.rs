//! The read session: the walk in buffer order around the walks in sequence order.

use super::chunk_seq_reader::ChunkSeqReader;
use super::data_loss::DataLoss;
use super::packet::{Located, Packet};
use super::region::State;
use super::sequence_table::lookup;
use super::tb_chunk::{Item, NONE};
use crate::prefetch::prefetch_range;

/// How far ahead of the reader the cache is filled, in bytes; from 1 to 8 KiB makes no difference.
const PREFETCH_AHEAD: usize = 2048;

/// One read session, from the oldest byte of the buffer to its newest. Reading consumes.
///
/// It borrows the buffer: no commit can come between two packets. A sequence that has to wait (for a patch, for the end
/// of a packet, for the rest of a scraped chunk) is skipped for the rest of the session. Dropping the session early is
/// fine: what was not handed out stays.
///
/// Cost: 17 to 40 ns a packet of 270 bytes (`--bench budgets`) and no copy. Consumed chunks are stepped over once more,
/// those of sequences that wait in each session.
///
/// ```
/// use tracebuf::buffer::{Config, FillPolicy, TraceBuffer};
///
/// let mut memory = vec![0u8; 4096];
/// let mut buffer = TraceBuffer::new(&mut memory[..], Config::new(FillPolicy::RingBuffer))?;
/// let mut reader = buffer.read();
/// while let Some(packet) = reader.next_packet() {
///     for slice in packet.slices() {
///         println!("{slice:?}");
///     }
/// }
/// # Ok::<(), tracebuf::buffer::RegionError>(())
/// ```
pub struct Reader<'b> {
    state: Option<State<'b>>,
    walk: BufferWalk,
}

/// The walk in buffer order.
struct BufferWalk {
    at: u32,
    end: u32,
    /// Whether the walk is between the start and the write cursor; what lies after the cursor comes first.
    second_half: bool,
    /// Where the run of free items starts that ends at `at`; `at` itself if there is none.
    free: u32,
    current: Option<ChunkSeqReader>,
    /// The sequence of the packet handed out last, and the causes it carried.
    last: Option<(u16, DataLoss)>,
    /// The last chunk that a sequence was walked up to.
    done: u32,
}

impl<'b> Reader<'b> {
    pub(super) fn begin(mut state: Option<State<'b>>) -> Self {
        let mut walk =
            BufferWalk { at: 0, end: 0, second_half: true, free: 0, current: None, last: None, done: NONE };
        if let Some(state) = &mut state {
            state.begin_generation();
            (walk.at, walk.end) = (state.header.write.get(), state.header.used.get());
            (walk.free, walk.second_half) = (walk.at, false);
        }
        Self { state, walk }
    }

    /// A session that reads one sequence alone, all of it.
    pub(super) fn begin_sequence(state: Option<State<'b>>, producer_id: u16, writer_id: u16) -> Self {
        let mut reader = Self::begin(state);
        let walk = &mut reader.walk;
        (walk.at, walk.end, walk.second_half) = (0, 0, true);
        walk.current = reader.state.as_ref().and_then(|state| {
            let slot = lookup(state.table, producer_id, writer_id)?;
            let newest = state.ring.chunk_id(state.sequence(slot)?.last())?;
            Some(ChunkSeqReader::new(slot, newest))
        });
        reader
    }

    /// The next whole packet, or `None` when nothing more can be read for now.
    #[doc(alias = "ReadNextTracePacket")]
    #[inline]
    pub fn next_packet(&mut self) -> Option<Packet<'_>> {
        let (state, slot, located, loss) = self.advance()?;
        let ahead = (located.chunk as usize).saturating_add(usize::from(located.start) + PREFETCH_AHEAD);
        prefetch_range(state.ring.bytes(), ahead, usize::from(located.first_size));
        let sequence = state.table.get(usize::from(slot))?;
        Some(Packet { ring: state.ring.words, sequence, located, loss })
    }

    /// Consumes the next packet and returns where it is.
    #[inline]
    pub(super) fn advance(&mut self) -> Option<(&State<'b>, u16, Located, DataLoss)> {
        let state = self.state.as_mut()?;
        let mut located = Located::default();
        let (slot, loss) = self.walk.next_packet(state, &mut located)?;
        self.walk.last = Some((slot, loss));
        Some((state, slot, located, loss))
    }

    /// Reports that the packet handed out last could not be used, for example because it is malformed: the next packet
    /// of its sequence carries `cause` and the causes that this one carried. Without a cause that buffers report
    /// (which [`DataLoss::SHARED_MEMORY_FULL`] is not), it is [`DataLoss::READ_GAP`].
    pub fn reject_packet(&mut self, cause: DataLoss) {
        if let (Some(state), Some((slot, loss))) = (&mut self.state, self.walk.last.take())
            && let Some(entry) = state.sequence_mut(slot)
        {
            entry.lose((loss | cause).of_unused_packet());
            if let Some(current) = &mut self.walk.current {
                current.look_again();
            }
        }
    }
}

impl BufferWalk {
    #[inline]
    fn next_packet(&mut self, state: &mut State<'_>, found: &mut Located) -> Option<(u16, DataLoss)> {
        loop {
            if let Some(current) = &mut self.current {
                if let Some(loss) = current.next_packet(state, found) {
                    return Some((current.slot, loss));
                }
                self.current = None;
            }
            self.next_target(state)?;
        }
    }

    /// Finds the next chunk in buffer order whose sequence has not stalled. Free items on the way are merged into one,
    /// so that no later session steps over them one by one.
    #[cfg_attr(tracebuf_small, inline(always))]
    fn next_target(&mut self, state: &mut State<'_>) -> Option<()> {
        loop {
            if self.at >= self.end {
                if self.second_half {
                    return None;
                }
                (self.at, self.end) = (0, state.header.write.get());
                (self.second_half, self.free) = (true, 0);
                continue;
            }
            let here = self.at;
            let item = state.ring.item(here)?;
            let next = item.end_from(here)?;
            if let Item::Free(_) = item {
                if self.free != here {
                    state.ring.set_gap(self.free, Item::Free(next.wrapping_sub(self.free)));
                }
            } else {
                self.free = here;
                if let Item::Chunk(_) = item {
                    let chunk = &state.ring.front(here)?.header;
                    let (slot, chunk_id) = (chunk.slot.get(), chunk.chunk_id.get());
                    if here != self.done
                        && state.sequence(slot)?.stalled.get() != state.header.generation.get()
                    {
                        self.done = here;
                        self.current = Some(ChunkSeqReader::new(slot, chunk_id));
                        return Some(());
                    }
                }
                self.free = next;
            }
            self.at = next;
        }
    }
}

impl State<'_> {
    /// Numbers a read session; stalled sequences are marked with that number.
    fn begin_generation(&mut self) {
        let next = self.header.generation.get().wrapping_add(1);
        if next == 0 {
            // Once in 65,535 sessions: marks this old must not be taken for new ones.
            for entry in self.table.iter_mut() {
                entry.stalled.set(0);
            }
        }
        self.header.generation.set(next.max(1));
    }

    /// Skips the sequence until the next read session.
    pub(super) fn stall<T>(&mut self, slot: u16) -> Option<T> {
        let generation = self.header.generation;
        self.sequence_mut(slot)?.stalled = generation;
        None
    }
}
