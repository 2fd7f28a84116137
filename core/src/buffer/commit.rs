//! `copy_chunk_untrusted`: from a producer's chunk to a stored one.

use super::chunk::{ChunkHeader, Commit, Refusal};
use super::chunk_list::Place;
use super::data_loss::DataLoss;
use super::frag_iterator::{Tokens, starts_fragment, tokenise, tokenise_inline};
use super::overwrite::{Cleared, OverwriteObserver};
use super::recommit::Recommit;
use super::region::{Mode, State};
use super::sequence_state::Status;
use super::sequence_table::lookup;
use super::source::{Source, probe};
use super::tb_chunk::{Flags, Item, MAX_PAYLOAD, NewChunk, PAYLOAD, Stored, outer_size};
use crate::prefetch::{prefetch, prefetch_to_write};

/// What a chunk comes back from, when it is not new.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Origin {
    New,
    /// The copy erased last, of which so many bytes had been read.
    Erased {
        read: u16,
    },
    /// A copy just taken out of the ring, of which all these bytes had been read.
    Relocated {
        read: u16,
    },
}

impl Origin {
    fn read(self) -> u16 {
        match self {
            Self::New => 0,
            Self::Erased { read } | Self::Relocated { read } => read,
        }
    }
}

/// A chunk on offer.
pub(super) struct Offer<'h> {
    pub(super) header: &'h ChunkHeader,
    /// Bytes in all, at most [`MAX_PAYLOAD`].
    pub(super) size: usize,
    /// The flags as a stored chunk carries them.
    pub(super) flags: Flags,
    /// The fragments that may be looked at: of a scraped chunk not the last.
    pub(super) declared: u32,
    /// What it holds, if its bytes are private.
    pub(super) tokens: Option<Tokens>,
}

impl<'h> Offer<'h> {
    #[cfg_attr(not(target_os = "none"), inline(always))]
    #[cfg_attr(target_os = "none", inline(never))]
    fn new<S: Source>(header: &'h ChunkHeader, source: &S) -> Self {
        let mut flags = Flags::from_bits_retain(u16::from(header.flags.bits())) & Flags::COMMITTED;
        if !header.complete {
            flags |= Flags::INCOMPLETE;
            if header.fragments > 0 {
                flags -= Flags::CONTINUES_ON_NEXT | Flags::NEEDS_PATCHING;
            }
        }
        let declared = u32::from(header.fragments).saturating_sub(u32::from(!header.complete));
        let tokens = source.private().map(|bytes| tokenise_inline(bytes, 0, 0, declared, flags));
        Self { header, size: source.size(), flags, declared, tokens }
    }

    /// Whether a fragment starts at `offset`, or the chunk ends there: what was read of an earlier copy can only
    /// be skipped if it is whole fragments of this one, too.
    #[inline(never)]
    pub(super) fn starts_at<S: Source>(&self, source: &mut S, offset: u16) -> bool {
        match (source.private(), &self.tokens) {
            (Some(bytes), Some(tokens)) => {
                starts_fragment(bytes.get(..usize::from(tokens.valid)).unwrap_or(bytes), offset)
            }
            _ => probe(source, self.declared, self.flags, offset).1,
        }
    }
}

impl State<'_> {
    /// Stores a chunk and counts what became of it.
    pub(super) fn commit<S: Source, O: OverwriteObserver>(
        &mut self,
        header: &ChunkHeader,
        mut source: S,
        observer: &mut O,
    ) -> Commit {
        let outcome =
            self.try_commit(header, &mut source, observer).unwrap_or(Commit::Refused(Refusal::RegionDamaged));
        let counters = &mut self.header.counters;
        match outcome {
            Commit::Written => counters.chunks_written.add(1),
            Commit::Rewritten => counters.chunks_rewritten.add(1),
            Commit::Relocated => counters.chunks_relocated.add(1),
            Commit::Unchanged => counters.chunks_unchanged.add(1),
            Commit::Discarded => counters.chunks_discarded.add(1),
            Commit::Refused(why) => {
                counters.chunks_refused.add(1);
                counters.abi_violations.add(u64::from(why.is_violation()));
            }
        }
        outcome
    }

    #[cfg_attr(not(target_os = "none"), inline)]
    #[cfg_attr(target_os = "none", inline(never))]
    fn try_commit<S: Source, O: OverwriteObserver>(
        &mut self,
        header: &ChunkHeader,
        source: &mut S,
        observer: &mut O,
    ) -> Option<Commit> {
        if header.producer_id == 0 && header.writer_id == 0 {
            return Some(Commit::Refused(Refusal::NullSequence));
        }
        if source.size() > MAX_PAYLOAD {
            return Some(Commit::Refused(Refusal::TooLarge));
        }
        let known = lookup(self.table, header.producer_id, header.writer_id);
        if let Some(slot) = known {
            // The newest chunk's id is needed next; with many writers it is long out of the cache.
            prefetch(self.ring.bytes(), self.sequence(slot)?.last() as usize);
        }
        // Where the chunk will most likely go: the lines come in while its fragments are looked at.
        let target = self.header.write.get().wrapping_add(PAYLOAD);
        prefetch_to_write(self.ring.bytes(), target as usize, source.size());
        let offer = Offer::new(header, source);
        let (mut origin, mut place) = (Origin::New, Place::Last);
        if let Some(slot) = known {
            place = self.place(slot, header.chunk_id)?;
            match place {
                Place::Last | Place::First | Place::After(_) => {}
                Place::Existing(offset) => match self.recommit(offset, &offer, source)? {
                    Recommit::Relocate { read } => {
                        (origin, place) = (Origin::Relocated { read }, Place::ErasedLast);
                    }
                    Recommit::Done(outcome) => return Some(outcome),
                },
                Place::ErasedLast => match self.come_back(slot, &offer, source)? {
                    Some(back) => origin = back,
                    None => return Some(Commit::Discarded),
                },
                Place::Consumed => return Some(Commit::Discarded),
                Place::TooFar => return Some(Commit::Refused(Refusal::TooFarOutOfOrder)),
            }
        }
        if self.header.mode().contains(Mode::SEALED) {
            return Some(Commit::Discarded);
        }
        if matches!(origin, Origin::Erased { .. }) && !offer.starts_at(source, origin.read()) {
            return Some(Commit::Refused(Refusal::ChangesFragments));
        }
        self.store(known, place, &offer, source, origin, observer)
    }

    /// The chunk was the last one erased. It may come back if it has more than was read of it.
    #[inline(never)]
    fn come_back<S: Source>(
        &mut self,
        slot: u16,
        offer: &Offer<'_>,
        source: &mut S,
    ) -> Option<Option<Origin>> {
        let entry = self.sequence(slot)?;
        let read = entry.erased_read.get();
        let empty = entry.is_empty();
        // What is behind it in the list must not have been read yet.
        let in_time = empty || self.ring.front(entry.first())?.header.read.get() == 0;
        // Of shared memory the size fields are enough to say so without evicting anything for nothing.
        let tokens = offer.tokens.unwrap_or_else(|| probe(source, offer.declared, offer.flags, 0).0);
        if tokens.valid > read && in_time {
            return Some(Some(Origin::Erased { read }));
        }
        // Later, what was open has been reported as a loss already.
        if in_time && offer.header.complete {
            self.complete_erased(slot, &tokens);
        }
        Some(None)
    }

    /// A scraped chunk that was erased had nothing more to come: nothing is lost, and its end is passed.
    fn complete_erased(&mut self, slot: u16, tokens: &Tokens) -> Option<()> {
        let entry = self.sequence_mut(slot)?;
        if !entry.has(Status::ERASED_INCOMPLETE) || tokens.valid != entry.erased_read.get() {
            return None;
        }
        entry.take_back();
        entry.pass_end(tokens.flags);
        self.count_end(tokens.flags);
        Some(())
    }

    /// Counts how a chunk ends, if not with its last declared fragment.
    #[cfg_attr(target_os = "none", inline(never))]
    pub(super) fn count_end(&mut self, flags: Flags) {
        let counters = &mut self.header.counters;
        counters.abi_violations.add(u64::from(flags.contains(Flags::TRUNCATED)));
        counters.trace_writer_packet_loss.add(u64::from(flags.contains(Flags::ABORTED)));
    }

    /// Stores a chunk that is not in the ring at the write cursor.
    #[cfg_attr(not(target_os = "none"), inline(always))]
    #[cfg_attr(target_os = "none", inline(never))]
    fn store<S: Source, O: OverwriteObserver>(
        &mut self,
        known: Option<u16>,
        place: Place,
        offer: &Offer<'_>,
        source: &mut S,
        origin: Origin,
        observer: &mut O,
    ) -> Option<Commit> {
        let extra = self.header.checksum_size();
        if offer.size > MAX_PAYLOAD - usize::from(extra) {
            return Some(Commit::Refused(Refusal::TooLarge));
        }
        // Room for all of a scraped chunk, which may grow; of a complete one only for what is valid.
        let room = match offer.tokens {
            Some(tokens) if offer.header.complete => tokens.valid,
            _ => offer.size as u16,
        };
        let outer = outer_size(u32::from(room) + u32::from(extra));
        let left = self.header.ring_size().checked_sub(self.header.write.get())?;
        if outer > self.header.ring_size() {
            return Some(Commit::Refused(Refusal::TooLarge));
        }
        if outer > left && self.header.mode().contains(Mode::DISCARD) {
            self.header.set_mode(self.header.mode() | Mode::SEALED);
            return Some(Commit::Discarded);
        }
        let Some(slot) = known.or_else(|| self.open_sequence(offer.header)) else {
            return Some(Commit::Refused(Refusal::TableFull));
        };
        let cleared = self.make_room(outer, left, observer)?;
        // Making room may have taken newer chunks of the same sequence along.
        let Some(place) = self.place_now(slot, place, offer.header.chunk_id, origin)? else {
            // What was withdrawn to be moved is a loss where it was, before the chunks that went now.
            if !matches!(origin, Origin::Relocated { .. }) {
                self.sequence_mut(slot)?.lose(DataLoss::OVERWRITE);
            }
            return Some(Commit::Discarded);
        };
        source.copy(0, self.ring.payload_mut(cleared.at, room)?);
        let tokens = match offer.tokens {
            Some(tokens) => tokens,
            None => {
                self.header.touched.set(self.header.position.get().saturating_add(u64::from(outer)));
                tokenise(self.ring.payload(cleared.at, room)?, 0, 0, offer.declared, offer.flags)
            }
        };
        if origin != Origin::New {
            // Of shared memory it was true when it was looked at; it may have changed since.
            let fits = starts_fragment(self.ring.payload(cleared.at, tokens.valid)?, origin.read());
            if !fits || tokens.valid <= origin.read() {
                // What was cleared stays a gap at the write cursor; `touched` ends leases on what it held.
                return Some(if fits {
                    Commit::Discarded
                } else {
                    Commit::Refused(Refusal::ChangesFragments)
                });
            }
        }
        let lap = if self.header.mode().contains(Mode::LAP) { Flags::LAP } else { Flags::empty() };
        let chunk = NewChunk {
            room: if offer.header.complete { tokens.valid } else { room }.wrapping_add(extra),
            flags: tokens.flags | lap,
            chunk_id: offer.header.chunk_id,
            valid: tokens.valid,
            read: origin.read(),
            slot,
            packets: tokens.packets,
        };
        self.put(&chunk, place, &cleared)?;
        if let Some(next) = self.ring.item(cleared.boundary) {
            self.prefetch_header(cleared.boundary.wrapping_add(next.size()));
        }
        if tokens.flags.intersects(Flags::END_MARKS) {
            self.count_end(tokens.flags);
        }
        if origin != Origin::New {
            self.sequence_mut(slot)?.readmit();
        }
        if let Some(histogram) = self.histograms.get_mut(usize::from(slot)) {
            histogram.add(tokens.valid);
        }
        Some(if matches!(origin, Origin::Relocated { .. }) { Commit::Relocated } else { Commit::Written })
    }

    /// The place for a chunk now that there is room; `None` if its time is over.
    #[cfg_attr(not(target_os = "none"), inline)]
    #[cfg_attr(target_os = "none", inline(always))]
    fn place_now(&self, slot: u16, before: Place, chunk_id: u32, origin: Origin) -> Option<Option<Place>> {
        if before == Place::Last && self.sequence(slot)?.is_newer(chunk_id) {
            return Some(Some(Place::Last));
        }
        self.place_again(slot, chunk_id, origin)
    }

    #[cfg_attr(not(target_os = "none"), inline(never))]
    #[cfg_attr(target_os = "none", inline(always))]
    fn place_again(&self, slot: u16, chunk_id: u32, origin: Origin) -> Option<Option<Place>> {
        Some(match self.place(slot, chunk_id)? {
            place @ (Place::Last | Place::First | Place::After(_)) => Some(place),
            Place::ErasedLast if origin != Origin::New => Some(Place::ErasedLast),
            _ => None,
        })
    }

    /// Clears `size` bytes at the write cursor, which goes back to the start if `left` are too few.
    #[inline]
    fn make_room<O: OverwriteObserver>(&mut self, size: u32, left: u32, observer: &mut O) -> Option<Cleared> {
        if size > left {
            self.wrap(left, observer)?;
        }
        let cleared = self.delete_next_chunks_for(self.header.write.get(), size, observer)?;
        self.leave_free(&cleared);
        self.prefetch_header(cleared.boundary);
        Some(cleared)
    }

    /// Asks for the header of a chunk that will soon be overwritten. The next commit overwrites one or two: the
    /// first is asked for before the copy of this one, which takes long enough, the second after it.
    #[inline]
    fn prefetch_header(&self, offset: u32) {
        prefetch(self.ring.bytes(), offset as usize);
        prefetch(self.ring.bytes(), offset.wrapping_add(PAYLOAD - 1) as usize);
    }

    #[cfg_attr(not(target_os = "none"), inline(never))]
    #[cfg_attr(target_os = "none", inline(always))]
    fn wrap<O: OverwriteObserver>(&mut self, left: u32, observer: &mut O) -> Option<()> {
        let at = self.header.write.get();
        self.delete_next_chunks_for(at, left, observer)?;
        if left > 0 {
            self.ring.set_gap(at, Item::Padding(left));
            self.header.counters.padding_bytes_written.add(u64::from(left));
        }
        self.header.used.set(self.header.ring_size());
        self.header.write.set(0);
        self.header.position.add(u64::from(left));
        self.header.set_mode(self.header.mode() ^ Mode::LAP);
        self.header.counters.write_wrap_count.add(1);
        Some(())
    }

    /// Makes one free item of a place: what a crash leaves, and a chunk that turns out not to be stored.
    #[cfg_attr(target_os = "none", inline(always))]
    fn leave_free(&mut self, cleared: &Cleared) {
        let end = cleared.boundary.min(self.header.used.get());
        if let Some(size @ 1..) = end.checked_sub(cleared.at) {
            self.ring.set_gap(cleared.at, Item::Free(size));
        }
    }

    /// Puts a chunk, whose payload is there already, at the write cursor.
    ///
    /// Whoever parses the ring in between finds one gap in place of all that was erased, until the last store
    /// of `publish` makes a chunk, and perhaps a gap behind it, of that gap.
    #[inline(always)]
    fn put(&mut self, chunk: &NewChunk, place: Place, cleared: &Cleared) -> Option<()> {
        let stored = Stored { offset: cleared.at, header: chunk.header() };
        let size = stored.outer_size();
        let end = cleared.at.checked_add(size)?;
        if let Some(rest @ 1..) = cleared.boundary.checked_sub(end) {
            self.ring.set_gap(end, if cleared.free_tail { Item::Free(rest) } else { Item::Padding(rest) });
            if !cleared.free_tail {
                self.header.counters.padding_bytes_written.add(u64::from(rest));
            }
        }
        let links = self.link(chunk.slot, cleared.at, place)?;
        if self.header.mode().contains(Mode::CRC) {
            self.seal(&stored, stored.flags())?;
        }
        self.ring.publish(&stored, links);
        self.header.used.set(self.header.used.get().max(end));
        self.header.write.set(end);
        self.header.position.add(u64::from(size));
        self.header.counters.bytes_written.add(u64::from(size));
        Some(())
    }
}
