//! The commit of a chunk: from a producer's bytes to a stored chunk.

use super::chunk::{ChunkHeader, Commit, Refusal};
use super::chunk_list::Place;
use super::frag_iterator::{Tokens, starts_fragment, tokenise, tokenise_inline};
use super::observer::OverwriteObserver;
use super::overwrite::Cleared;
use super::region::{Intact, Mode, State};
use super::sequence_state::Status;
use super::sequence_table::lookup;
use super::source::{Look, Source, probe};
use super::tb_chunk::{Flags, Item, MAX_PAYLOAD, PAYLOAD, Stored, TBChunk, outer_size};
use super::words::{Le16, Le32};
use crate::SMALL;
use crate::prefetch::{prefetch, prefetch_ahead, prefetch_copy, prefetch_value};
use zerocopy::IntoBytes;

/// What a chunk that is not new comes back from, a copy of which `read` bytes had been read.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Origin {
    New,
    /// The copy erased last.
    Erased {
        read: u16,
    },
    /// A copy just taken out of the ring.
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
    /// How many fragments may be looked at: in a scraped chunk, all except the last.
    pub(super) declared: u32,
    /// What it holds, if its bytes are private.
    pub(super) tokens: Option<Tokens>,
}

impl<'h> Offer<'h> {
    #[cfg_attr(not(tracebuf_small), inline(always))]
    #[cfg_attr(tracebuf_small, inline(never))]
    fn new<S: Source>(header: &'h ChunkHeader, source: &S) -> Self {
        let mut flags = Flags::of(header) & Flags::COMMITTED;
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
        if outcome == Commit::Refused(Refusal::TooLarge) && header.complete {
            // What comes after it reports the gap that it leaves, even after the first of a sequence.
            self.note_unknown(header.producer_id, header.writer_id);
        }
        let counters = &mut self.header.counters;
        let counter = match outcome {
            Commit::Written => &mut counters.chunks_written,
            Commit::Rewritten => &mut counters.chunks_rewritten,
            Commit::Relocated => &mut counters.chunks_relocated,
            Commit::Unchanged => &mut counters.chunks_unchanged,
            Commit::Discarded => &mut counters.chunks_discarded,
            Commit::Refused(why) => {
                counters.abi_violations.add(u32::from(why.is_violation()));
                &mut counters.chunks_refused
            }
        };
        counter.add(1);
        outcome
    }

    #[cfg_attr(not(tracebuf_small), inline)]
    #[cfg_attr(tracebuf_small, inline(never))]
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
        prefetch_copy(source.private(), self.ring.bytes(), target as usize, source.size());
        let offer = Offer::new(header, source);
        let (mut origin, mut place) = (Origin::New, Place::Last);
        if let Some(slot) = known {
            place = self.place(slot, header.chunk_id)?;
            let back = match place {
                Place::First => {
                    self.sequence_mut(slot)?.risk_oldest();
                    Ok(Origin::New)
                }
                Place::Last | Place::After(_) => Ok(Origin::New),
                Place::Existing(offset) => self.recommit(offset, &offer, source)?,
                Place::ErasedLast => self.come_back(slot, &offer, source)?,
                Place::Consumed => {
                    self.sequence_mut(slot)?.miss_older();
                    Err(Commit::Discarded)
                }
                Place::TooFar => Err(Commit::Refused(Refusal::TooFarOutOfOrder)),
            };
            match back {
                Ok(back) => origin = back,
                Err(outcome) => return Some(outcome),
            }
        }
        if self.header.mode().contains(Mode::SEALED) {
            return Some(Commit::Discarded);
        }
        self.store(known, place, &offer, source, origin, observer)
    }

    /// Decides on a chunk that was the last one erased: it may come back if it has more than was read of it.
    #[inline(never)]
    fn come_back<S: Source>(
        &mut self,
        slot: u16,
        offer: &Offer<'_>,
        source: &mut S,
    ) -> Intact<Result<Origin, Commit>> {
        let entry = self.sequence(slot)?;
        let read = entry.erased_read.get();
        // What is after it in the list must not have been read yet; otherwise, what was open has been reported as a
        // loss already. An empty list leads to no chunk.
        if self.ring.front(entry.first()).is_some_and(|front| front.header.read.get() > 0) {
            return Some(Err(Commit::Discarded));
        }
        // Looked at before anything is evicted for it.
        let look = probe(source, offer.declared, read);
        // What is more can be nothing but empty packets, and nothing may be evicted for those.
        let reach = if offer.flags.contains(Flags::CONTINUES_ON_NEXT) { look.valid } else { look.filled };
        if reach > read {
            let sealed = self.header.mode().contains(Mode::SEALED);
            return Some(if look.fits || sealed {
                Ok(Origin::Erased { read })
            } else {
                Err(Commit::Refused(Refusal::ChangesFragments))
            });
        }
        if offer.header.complete {
            self.complete_erased(slot, &look);
        }
        Some(Err(Commit::Discarded))
    }

    /// Notes that an erased scraped chunk had nothing more to come: nothing is lost, and its end is passed.
    fn complete_erased(&mut self, slot: u16, look: &Look) -> Option<()> {
        let entry = self.sequence_mut(slot)?;
        if !entry.has(Status::ERASED_INCOMPLETE) || look.valid < entry.erased_read.get() {
            return None;
        }
        entry.take_back();
        entry.leave_open(Status::of_end(look.flags));
        self.count_end(look.flags);
        Some(())
    }

    /// Stores, at the write cursor, a chunk that is not in the ring.
    #[cfg_attr(not(tracebuf_small), inline(always))]
    #[cfg_attr(tracebuf_small, inline(never))]
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
        // Room for all of a scraped chunk, which may grow; for a complete one, only for what is valid.
        let room = match offer.tokens {
            Some(tokens) if offer.header.complete => tokens.valid,
            _ => offer.size as u16,
        };
        let outer = outer_size(u32::from(room) + u32::from(extra));
        let left = self.header.ring_size().checked_sub(self.header.write.get())?;
        if outer > self.header.ring_size() || offer.size > MAX_PAYLOAD - usize::from(extra) {
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
        let Some(new_place) = self.place_now(slot, place, offer.header.chunk_id)? else {
            return Some(Commit::Discarded);
        };
        prefetch_ahead(self.ring.bytes(), cleared.at.wrapping_add(outer) as usize, outer as usize);
        source.copy(0, self.ring.payload_mut(cleared.at, room)?);
        let tokens = match offer.tokens {
            Some(tokens) => tokens,
            None => {
                // An earlier copy, of which little was kept, may have reached farther.
                let reach = self.header.position.get().wrapping_add(u64::from(outer));
                self.header.touched.set(self.header.touched.get().max(reach));
                tokenise(self.ring.payload(cleared.at, room)?, 0, 0, offer.declared, offer.flags)
            }
        };
        if origin != Origin::New {
            // For shared memory this held when the sizes were probed; the producer may have changed them since.
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
        let room = if offer.header.complete { tokens.valid } else { room }.wrapping_add(extra);
        let header = TBChunk {
            word: Le32::new(TBChunk::word_of(room, tokens.flags | lap)),
            chunk_id: Le32::new(offer.header.chunk_id),
            valid: Le16::new(tokens.valid),
            read: Le16::new(origin.read()),
            slot: Le16::new(slot),
            packets: Le16::new(tokens.packets),
        };
        self.put(header, new_place, &cleared)?;
        if let Some(next) = self.ring.front(cleared.boundary) {
            if let Some(entry) = self.sequence(next.header.slot.get()) {
                prefetch_value(entry.as_bytes(), 0, size_of_val(entry));
            }
            self.prefetch_header(cleared.boundary.wrapping_add(next.header.outer_size()));
        }
        let mut marks = tokens.flags;
        if origin != Origin::New {
            // How the erased copy ended has been counted.
            marks -= self.sequence_mut(slot)?.readmit();
        }
        if SMALL || marks.intersects(Flags::END_MARKS) {
            self.count_end(marks);
        }
        if let Some(histogram) = self.histogram(slot) {
            histogram.add(tokens.valid);
        }
        Some(if matches!(origin, Origin::Relocated { .. }) { Commit::Relocated } else { Commit::Written })
    }

    /// The place for a chunk now that there is room; `None` if it is too late for it.
    #[cfg_attr(not(tracebuf_small), inline)]
    #[cfg_attr(tracebuf_small, inline(always))]
    fn place_now(&self, slot: u16, before: Place, chunk_id: u32) -> Intact<Option<Place>> {
        if !SMALL && before == Place::Last && self.sequence(slot)?.is_newer(chunk_id) {
            return Some(Some(Place::Last));
        }
        self.place_again(slot, chunk_id)
    }

    #[cfg_attr(not(tracebuf_small), inline(never))]
    #[cfg_attr(tracebuf_small, inline(always))]
    fn place_again(&self, slot: u16, chunk_id: u32) -> Intact<Option<Place>> {
        Some(match self.place(slot, chunk_id)? {
            Place::Existing(_) | Place::Consumed | Place::TooFar => None,
            place => Some(place),
        })
    }

    /// Clears `size` bytes at the write cursor, which goes back to the start if `left` are too few.
    #[inline]
    fn make_room<O: OverwriteObserver>(
        &mut self,
        size: u32,
        mut left: u32,
        observer: &mut O,
    ) -> Option<Cleared> {
        loop {
            let at = self.header.write.get();
            let cleared = self.delete_next_chunks_for(at, size.min(left), observer)?;
            if size <= left {
                self.leave_free(&cleared);
                self.prefetch_header(cleared.boundary);
                return Some(cleared);
            }
            self.wrap(at, left);
            left = self.header.ring_size();
        }
    }

    /// Asks for the header of a chunk that will soon be overwritten. The next commit overwrites one or two: the first
    /// is asked for before the copy of this one, the second after it, and then what the first one's header leads to.
    #[inline]
    fn prefetch_header(&self, offset: u32) {
        prefetch_value(self.ring.bytes(), offset as usize, PAYLOAD as usize);
    }

    /// Sends the write cursor from `at` back to the start; the `left` cleared bytes up to the end become padding.
    #[cfg_attr(not(tracebuf_small), inline(never))]
    #[cfg_attr(tracebuf_small, inline(always))]
    fn wrap(&mut self, at: u32, left: u32) {
        // If none are left, `at` is the ring's end, where there is nothing to set.
        self.ring.set_gap(at, Item::Padding(left));
        self.header.counters.padding_bytes_written.add(left);
        self.header.used.set(self.header.ring_size());
        self.header.write.set(0);
        self.header.position.add(left);
        self.header.set_mode(self.header.mode() ^ Mode::LAP);
        self.header.counters.write_wrap_count.add(1);
    }

    /// Makes a cleared place one free item, which a crash leaves, or a chunk that turns out not to be stored.
    #[cfg_attr(tracebuf_small, inline(always))]
    fn leave_free(&mut self, cleared: &Cleared) {
        let end = cleared.boundary.min(self.header.used.get());
        if let Some(size @ 1..) = end.checked_sub(cleared.at) {
            self.ring.set_gap(cleared.at, Item::Free(size));
        }
    }

    /// Puts a chunk, whose payload is there already, at the write cursor. What was erased is one gap until the last
    /// store of `publish`.
    #[inline(always)]
    fn put(&mut self, header: TBChunk, place: Place, cleared: &Cleared) -> Option<()> {
        let size = header.outer_size();
        let end = cleared.at.checked_add(size)?;
        if let Some(rest @ 1..) = cleared.boundary.checked_sub(end) {
            self.ring.set_gap(end, if cleared.free_tail { Item::Free(rest) } else { Item::Padding(rest) });
            if !cleared.free_tail {
                self.header.counters.padding_bytes_written.add(rest);
            }
        }
        let links = self.link(header.slot.get(), cleared.at, place)?;
        let stored = Stored { offset: cleared.at, header, links };
        if self.header.checksum_size() > 0 {
            self.write_checksum(&stored, stored.flags())?;
        }
        self.ring.publish(&stored);
        self.header.used.set(self.header.used.get().max(end));
        self.header.write.set(end);
        self.header.position.add(size);
        self.header.counters.bytes_written.add(size);
        Some(())
    }
}
