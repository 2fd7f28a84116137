//! Overwriting: the erasure of what lies in the way of a new chunk.

use super::chunk_seq_reader::{FragKind, kind_of};
use super::data_loss::DataLoss;
use super::frag_iterator::{Frag, FragIterator};
use super::packet::{Located, Packet};
use super::reassembly::ChainEnd;
use super::region::State;
use super::ring::fence;
use super::sequence_state::{SequenceState, Status};
use super::tb_chunk::{Flags, Item, Stored};
use super::words::Le32;
use crate::SMALL;

/// Sees the whole packets that a ring overwrites unread, in each sequence's order, just before they go.
///
/// ```
/// use tracebuf::buffer::{OverwriteObserver, Packet};
///
/// /// Counts what it lets go.
/// struct Counter(usize);
/// impl OverwriteObserver for Counter {
///     fn packet(&mut self, _packet: &Packet<'_>) -> bool {
///         self.0 += 1;
///         false
///     }
/// }
/// # let _ = Counter(0);
/// ```
pub trait OverwriteObserver {
    /// Whether anybody looks; if not, evicted chunks are not tokenised again.
    #[doc(hidden)]
    const LOOKS: bool = true;

    /// Whether what it keeps of a packet is only what that means for later ones. Such packets count as overwritten, and
    /// the next packet that is read says so; what else that one says was lost after them. None is shown twice.
    const FOLDS: bool = false;

    /// Returns false while it wants to see nothing: overwriting is then as fast as without an observer.
    fn looks(&self) -> bool {
        Self::LOOKS
    }

    /// Called for each whole packet before it is overwritten. Return true if the observer kept it: then it is not lost,
    /// and the causes that it carries count as reported. One that folds must keep all.
    fn packet(&mut self, packet: &Packet<'_>) -> bool;

    /// Called instead for packets that lie side by side in a chunk, if the observer folds. Those that it does not take
    /// out of the run count as shown.
    fn packets(&mut self, run: &mut PacketRun<'_>) {
        while let Some(packet) = run.next_packet() {
            self.packet(&packet);
        }
    }
}

/// Whole packets of a sequence that lie side by side in a chunk, in their order.
///
/// ```
/// use tracebuf::buffer::{OverwriteObserver, Packet, PacketRun};
///
/// /// Adds up the bytes of what is overwritten.
/// struct Bytes(usize);
/// impl OverwriteObserver for Bytes {
///     const FOLDS: bool = true;
///     fn packet(&mut self, packet: &Packet<'_>) -> bool {
///         self.0 += packet.len();
///         true
///     }
///     fn packets(&mut self, run: &mut PacketRun<'_>) {
///         self.0 += run.map(<[u8]>::len).sum::<usize>();
///     }
/// }
/// # let _ = Bytes(0);
/// ```
pub struct PacketRun<'b> {
    ring: &'b [Le32],
    sequence: &'b SequenceState,
    chunk: u32,
    frags: FragIterator<'b>,
    /// Whether the last fragment goes on in the next chunk: then it is not one of these.
    goes_on: bool,
    loss: DataLoss,
    taken: u16,
    /// Where the last one taken ends.
    end: u16,
    /// Where that last fragment begins.
    begin: Option<u16>,
}

impl<'b> PacketRun<'b> {
    /// The sequence's producer.
    pub fn producer_id(&self) -> u16 {
        self.sequence.producer_id.get()
    }

    /// Its writer.
    pub fn writer_id(&self) -> u16 {
        self.sequence.writer_id.get()
    }

    /// The user that the first commit of the sequence named; `u32::MAX` for none.
    pub fn uid(&self) -> u32 {
        self.sequence.uid.get()
    }

    /// The process that the first commit of the sequence named; −1 for none.
    pub fn pid(&self) -> i32 {
        self.sequence.pid.get() as i32
    }

    /// All bytes of the chunk, in which those of the packets lie.
    pub fn chunk(&self) -> &'b [u8] {
        self.frags.payload()
    }

    /// What was lost before the first of those that are left. Between others of a run nothing is lost.
    pub fn loss(&self) -> DataLoss {
        self.loss
    }

    /// The next one.
    pub fn next_packet(&mut self) -> Option<Packet<'b>> {
        let loss = self.loss;
        let frag = self.next_frag()?;
        let located = Located::whole(self.chunk, frag);
        Some(Packet { ring: self.ring, sequence: self.sequence, located, loss })
    }

    #[inline(always)]
    fn next_frag(&mut self) -> Option<Frag> {
        loop {
            let frag = self.frags.next_frag()?;
            if self.goes_on && self.frags.is_at_end() {
                self.begin = Some(frag.start);
                return None;
            }
            if frag.size > 0 {
                self.taken = self.taken.wrapping_add(1);
                self.end = frag.end();
                self.loss = DataLoss::empty();
                return Some(frag);
            }
        }
    }
}

/// The bytes of each.
impl<'b> Iterator for PacketRun<'b> {
    type Item = &'b [u8];

    #[inline(always)]
    fn next(&mut self) -> Option<&'b [u8]> {
        let frag = self.next_frag()?;
        self.frags.bytes_of(frag)
    }
}

/// How many chunks after an evicted one stay because its last packet goes on in them and it may be committed again.
pub(super) const LOOKED_AT_AGAIN: u32 = 16;

/// The observer of a buffer that nobody observes.
///
/// ```
/// # use tracebuf::buffer::*;
/// let mut buffer = TraceBuffer::new(vec![0u8; 4096], Config::new(FillPolicy::RingBuffer).sequences(4))?;
/// assert!(!buffer.observer().looks());
/// # Ok::<(), RegionError>(())
/// ```
#[derive(Clone, Copy, Debug, Default)]
pub struct Unobserved;

impl OverwriteObserver for Unobserved {
    const LOOKS: bool = false;
    fn packet(&mut self, _packet: &Packet<'_>) -> bool {
        false
    }
}

/// A place for a chunk, with nothing left in it.
pub(super) struct Cleared {
    pub(super) at: u32,
    /// Where the items that were there end: beyond the place if one straddled its end, before it if the place
    /// reaches into memory never used.
    pub(super) boundary: u32,
    /// Whether the last of them was free: if it straddles the end, what remains of it is then free too, not padding.
    pub(super) free_tail: bool,
}

impl State<'_> {
    /// Drops everything left of a sequence. `None` if the region is damaged.
    #[inline]
    pub(super) fn evict_all<O: OverwriteObserver>(&mut self, slot: u16, observer: &mut O) -> Option<()> {
        let entry = self.sequence(slot)?;
        if entry.is_empty() {
            return Some(());
        }
        let last = self.ring.chunk_id(entry.last())?;
        self.evict(slot, last, observer)?;
        self.sequence(slot)?.is_empty().then_some(())
    }

    /// Erases whatever lies in the next `size` bytes from `at`.
    ///
    /// Cost: O(1) for each chunk there, paid for by its commit; with an observer, or where code must be small, a look
    /// at each of its fragments.
    pub(super) fn delete_next_chunks_for<O: OverwriteObserver>(
        &mut self,
        at: u32,
        size: u32,
        observer: &mut O,
    ) -> Option<Cleared> {
        let end = at.checked_add(size)?;
        let used = self.header.used.get();
        let mut cleared = Cleared { at, boundary: at, free_tail: false };
        while cleared.boundary < end && cleared.boundary < used {
            let item = self.ring.item(cleared.boundary)?;
            match item {
                Item::Chunk(_) => {
                    let front = self.ring.front(cleared.boundary)?;
                    let (slot, chunk_id) = (front.header.slot.get(), front.header.chunk_id.get());
                    if O::LOOKS && observer.looks()
                        || SMALL
                        || !self.evict_plain(&front.stored_at(cleared.boundary))?
                    {
                        self.evict(slot, chunk_id, observer)?;
                    }
                    cleared.free_tail = false;
                }
                Item::Padding(size) => {
                    self.header.counters.padding_bytes_cleared.add(size);
                    cleared.free_tail = false;
                }
                Item::Free(_) => cleared.free_tail = true,
            }
            cleared.boundary = item.end_from(cleared.boundary)?;
        }
        Some(cleared)
    }

    /// Drops a chunk that is the first of its sequence and holds nothing but whole packets, all unread, as nearly every
    /// chunk is that a ring laps over: [`evict`](Self::evict) in one go. False if it is another.
    #[inline]
    fn evict_plain(&mut self, chunk: &Stored) -> Option<bool> {
        let entry = self.table.get_mut(usize::from(chunk.slot.get()))?;
        let plain = !chunk.has(Flags::NOT_PLAIN) && chunk.read.get() == 0 && chunk.packets.get() > 0;
        if !plain || entry.first() != chunk.offset {
            return Some(false);
        }
        entry.evict_whole(chunk.chunk_id.get(), chunk.packets.get());
        self.unlink_first(chunk)?;
        self.ring.set_gap(chunk.offset, Item::Free(chunk.outer_size()));
        let counters = &mut self.header.counters;
        counters.chunks_overwritten.add(1);
        counters.bytes_overwritten.add(chunk.outer_size());
        Some(true)
    }

    /// Drops everything left of a sequence up to and including the chunk with this id.
    #[cfg_attr(not(tracebuf_small), inline(never))]
    #[cfg_attr(tracebuf_small, inline(always))]
    fn evict<O: OverwriteObserver>(&mut self, slot: u16, chunk_id: u32, observer: &mut O) -> Option<()> {
        let counters = &self.header.counters;
        let (read, chunks_read) = (counters.bytes_read.get(), counters.chunks_read.get());
        let mut until = chunk_id;
        while let Some(first) = self.first_up_to(slot, until)? {
            let passed = self.drop_first(first, &mut until, observer)?;
            self.consume_chain(slot, passed)?;
        }
        if O::FOLDS {
            // What is folded leaves by the way of what is read.
            let counters = &mut self.header.counters;
            let (bytes, chunks) = (
                counters.bytes_read.get().wrapping_sub(read),
                counters.chunks_read.get().wrapping_sub(chunks_read),
            );
            counters.bytes_read.set(read);
            counters.chunks_read.set(chunks_read);
            counters.bytes_overwritten.add(bytes as u32);
            counters.chunks_overwritten.add(chunks as u32);
        }
        Some(())
    }

    /// Drops the first chunk of a sequence. Returns how many chunks after it the packet at its end goes on in, if the
    /// observer kept that packet, or it is empty. One that nobody kept may come again, and its rest must be there then;
    /// if the rest is long, all of it except the last chunk goes too: `until` moves.
    #[cfg_attr(tracebuf_small, inline(never))]
    fn drop_first<O: OverwriteObserver>(
        &mut self,
        first: u32,
        until: &mut u32,
        observer: &mut O,
    ) -> Option<u32> {
        let mut chunk = self.ring.front(first)?.stored_at(first);
        self.arrive(&chunk);
        let Dropped { mut lost, begin } = if O::FOLDS && observer.looks() {
            self.fold_frags(&mut chunk, observer)?
        } else if O::LOOKS && observer.looks() || SMALL || chunk.read.get() > 0 || chunk.has(Flags::PATCHED) {
            self.drop_frags(&mut chunk, observer)?
        } else {
            self.drop_unseen(&chunk)?
        };
        let mut passed = 0;
        if let Some(start) = begin {
            let mut located = Located::default();
            let end = self.gather(&chunk, start, true, &mut located)?;
            if end != ChainEnd::Whole {
                let entry = self.sequence_mut(chunk.slot.get())?;
                if end.is_broken() {
                    entry.open_broken_here();
                }
                lost = true;
            } else if located.size == 0 {
                passed = located.chunks;
            } else {
                let end = chunk.valid.get();
                lost = !self.show(&mut chunk, end, located, lost, observer)?;
                if !lost {
                    passed = located.chunks;
                }
            }
            let chunk_id = chunk.chunk_id.get();
            if located.chunks > LOOKED_AT_AGAIN.max(until.wrapping_sub(chunk_id)) && passed == 0 {
                *until = chunk_id.wrapping_add(located.chunks - 1);
            }
        }
        let told = self.has_shown::<O>(&chunk);
        self.erase_unread(&chunk, lost)?;
        if told {
            // Not earlier: after a crash in between, the chunk would still be there, and its first packet would not
            // carry the loss.
            fence();
            let entry = self.sequence_mut(chunk.slot.get())?;
            if O::FOLDS {
                entry.fold_pending();
            } else {
                entry.take_pending();
            }
        }
        Some(passed)
    }

    /// Counts what is in a chunk that is wholly unread, from what its commit noted down.
    #[cfg_attr(not(tracebuf_small), inline)]
    #[cfg_attr(tracebuf_small, inline(always))]
    fn drop_unseen(&mut self, chunk: &Stored) -> Option<Dropped> {
        let (flags, packets, valid) = (chunk.flags(), chunk.packets.get(), chunk.valid.get());
        self.sequence_mut(chunk.slot.get())?.count_evicted(packets);
        let lost = packets > 0 || flags.contains(Flags::CONTINUES_FROM_PREVIOUS) && valid > 0;
        let begins = flags.contains(Flags::CONTINUES_ON_NEXT) && !chunk.is_middle() && valid > 0;
        // Where it begins only matters to an observer; here it only matters whether its first fragment is empty.
        let begin = begins.then_some(valid.wrapping_sub(u16::from(!flags.contains(Flags::EMPTY_LAST))));
        Some(Dropped { lost, begin })
    }

    /// Like [`drop_unseen`](Self::drop_unseen), but fragment by fragment, for an observer or where notes are out of
    /// date.
    #[cfg_attr(not(tracebuf_small), inline(never))]
    #[cfg_attr(tracebuf_small, inline(always))]
    fn drop_frags<O: OverwriteObserver>(&mut self, chunk: &mut Stored, observer: &mut O) -> Option<Dropped> {
        let mut dropped = Dropped { lost: false, begin: None };
        let mut at = chunk.read.get();
        while at < chunk.valid.get() {
            let payload = self.ring.payload(chunk.offset, chunk.valid.get())?;
            let Some(frag) = FragIterator::new(payload, at).next_frag() else {
                self.sequence_mut(chunk.slot.get())?.malformed.saturating_add(1);
                dropped.lost = true;
                break;
            };
            match kind_of(chunk, at, frag) {
                FragKind::Begin => dropped.begin = Some(frag.start),
                FragKind::Continuation => dropped.lost = true,
                FragKind::Whole if frag.size > 0 => {
                    let located = Located::whole(chunk.offset, frag);
                    dropped.lost = !self.show(chunk, frag.end(), located, dropped.lost, observer)?;
                }
                FragKind::Whole => {}
            }
            at = frag.end();
        }
        Some(dropped)
    }

    /// Shows an observer that folds the whole packets of a chunk.
    fn fold_frags<O: OverwriteObserver>(&mut self, chunk: &mut Stored, observer: &mut O) -> Option<Dropped> {
        let (slot, valid) = (chunk.slot.get(), chunk.valid.get());
        let payload = self.ring.payload(chunk.offset, valid)?;
        let sequence = self.table.get(usize::from(slot))?;
        let mut frags = FragIterator::new(payload, chunk.read.get());
        let mut lost = false;
        if chunk.read.get() == 0 && chunk.has(Flags::CONTINUES_FROM_PREVIOUS) {
            lost = frags.next_frag().is_some();
        }
        let here = if lost { DataLoss::OVERWRITE } else { DataLoss::empty() };
        let mut run = PacketRun {
            ring: self.ring.words,
            sequence,
            chunk: chunk.offset,
            goes_on: chunk.has(Flags::CONTINUES_ON_NEXT),
            loss: (sequence.lost() | here).marked(),
            taken: 0,
            end: 0,
            begin: None,
            frags,
        };
        if !run.frags.is_at_end() {
            observer.packets(&mut run);
            run.by_ref().for_each(drop);
        }
        let PacketRun { taken, end, begin, frags, .. } = run;
        let is_malformed = begin.is_none() && !frags.is_at_end();
        let end = if is_malformed || begin.is_some() { end } else { valid };
        let entry = self.sequence_mut(slot)?;
        entry.malformed.saturating_add(u16::from(is_malformed));
        if taken > 0 {
            lost = false;
            entry.evicted.saturating_add(taken.into());
            entry.settle_evicted();
            chunk.header.read.set(end);
            self.header.counters.chunks_read.add(u32::from(end == valid));
        }
        Some(Dropped { lost: lost || is_malformed, begin })
    }

    /// Shows the observer a packet whose part in this chunk ends at `end`; `lost`: other packets of the chunk were lost
    /// before it. False if nobody kept it, so it is lost.
    fn show<O: OverwriteObserver>(
        &mut self,
        chunk: &mut Stored,
        end: u16,
        located: Located,
        lost: bool,
        observer: &mut O,
    ) -> Option<bool> {
        let slot = chunk.slot.get();
        let sequence = self.table.get(usize::from(slot))?;
        let here = if lost { DataLoss::OVERWRITE } else { DataLoss::empty() };
        let pending = if O::FOLDS { sequence.lost() } else { sequence.pending() };
        let before = if self.has_shown::<O>(chunk) { DataLoss::empty() } else { pending };
        let loss = (before | here).marked();
        let packet = Packet { ring: self.ring.words, sequence, located, loss };
        let kept = observer.looks() && observer.packet(&packet);
        let entry = self.sequence_mut(slot)?;
        if kept {
            // It counts as read: if the chunk comes back, this packet and what was before it do not.
            entry.settle_evicted();
            entry.evicted.saturating_add(O::FOLDS.into());
            let behind = FragIterator::new(self.ring.payload(chunk.offset, chunk.valid.get())?, end);
            let end = behind.end_before(chunk);
            chunk.header.read.set(end);
            self.header.counters.chunks_read.add(u32::from(end == chunk.valid.get()));
        } else {
            entry.count_evicted(1);
        }
        Some(kept)
    }

    /// Whether an observer kept a packet of a chunk that is being dropped: that packet then carried what was pending.
    fn has_shown<O: OverwriteObserver>(&self, chunk: &Stored) -> bool {
        O::LOOKS && self.ring.chunk(chunk.offset).is_some_and(|stored| stored.read.get() != chunk.read.get())
    }

    /// Erases the first chunk of a sequence on behalf of a commit. What a later commit may still bring again,
    /// losses included, stays open until a later chunk of the sequence has its turn.
    pub(super) fn erase_unread(&mut self, chunk: &Stored, lost: bool) -> Option<()> {
        let incomplete = chunk.has(Flags::INCOMPLETE);
        let mut open = Status::of_end(chunk.flags());
        open.set(Status::TENTATIVE_OVERWRITE, lost || incomplete);
        open.set(Status::ERASED_INCOMPLETE, incomplete);
        self.erase_first(chunk, open)
    }
}

/// What has been dropped of a chunk so far.
#[derive(Clone, Copy)]
struct Dropped {
    lost: bool,
    /// Where in the payload a packet begins that goes on in the next chunk.
    begin: Option<u16>,
}
