//! Re-commits: a chunk that is in the ring is committed again, as after every scrape.

use super::change::{Change, Kind};
use super::chunk::{Commit, Refusal};
use super::commit::Offer;
use super::frag_iterator::{Tokens, count_frags, tokenise};
use super::region::{Mode, State};
use super::sequence_state::Status;
use super::source::Source;
use super::tb_chunk::{Flags, Stored};

/// What a re-commit led to.
pub(super) enum Recommit {
    Done(Commit),
    /// The chunk, of which so many bytes were read, was taken out of the ring and is to be stored anew.
    Relocate {
        read: u16,
    },
}

impl State<'_> {
    /// Takes over what a new commit of a stored chunk has beyond the stored bytes.
    ///
    /// The stored fragments were decided on when they came; they stay as they are, whatever the producer says
    /// now. Only the bytes behind them are copied and looked at.
    #[inline(never)]
    pub(super) fn recommit<S: Source>(
        &mut self,
        offset: u32,
        offer: &Offer<'_>,
        source: &mut S,
    ) -> Option<Recommit> {
        let stored = self.ring.chunk(offset)?;
        let flags = offer.flags;
        let committed = Flags::from_bits_retain(u16::from(offer.header.flags.bits()));
        if !committed.contains(stored.flags() & Flags::COMMITTED) {
            return Some(Recommit::Done(Commit::Refused(Refusal::ClearsFlags)));
        }
        let (old, frags) =
            (stored.valid.get(), count_frags(self.ring.payload(offset, stored.valid.get())?).0);
        let (size, declared) = (offer.size, offer.declared);
        if size < usize::from(old) || declared < frags {
            return Some(Recommit::Done(Commit::Refused(Refusal::Shrinks)));
        }
        let room = stored.room().saturating_sub(self.header.checksum_size());
        let mut busy = None;
        let tokens = match source.private() {
            Some(bytes) => tokenise(bytes, old, frags, declared, flags),
            // A complete chunk has no room for more.
            None if !stored.has(Flags::INCOMPLETE) => {
                let same = declared == frags || stored.has(Flags::END_MARKS);
                return Some(Recommit::Done(if same {
                    Commit::Unchanged
                } else {
                    Commit::Refused(Refusal::ExceedsReservedRoom)
                }));
            }
            None => {
                let end = size.min(usize::from(room)) as u16;
                busy = Some(self.begin_change(&stored, old, Kind::Growth)?);
                let spare = self.ring.payload_mut(offset, end)?.get_mut(usize::from(old)..)?;
                source.copy(usize::from(old), spare);
                tokenise(self.ring.payload(offset, end)?, old, frags, declared, flags)
            }
        };
        let cut_off =
            source.private().is_none() && tokens.flags.contains(Flags::TRUNCATED) && size > usize::from(room);
        if tokens.valid > room || cut_off {
            self.leave(&stored, busy)?;
            return Some(Recommit::Done(Commit::Refused(Refusal::ExceedsReservedRoom)));
        }
        if offer.header.complete && !tokens.flags.contains(stored.flags() & Flags::COMMITTED) {
            self.leave(&stored, busy)?;
            return Some(Recommit::Done(Commit::Refused(Refusal::ClearsFlags)));
        }
        if tokens.valid == old {
            self.leave(&stored, busy)?;
            self.settle(&stored, &tokens, offer.header.complete)?;
            return Some(Recommit::Done(Commit::Unchanged));
        }
        let first = self.sequence(stored.slot.get())?.first() == offset;
        let was_read = stored.has(Flags::INCOMPLETE) && old > 0 && stored.read.get() == old;
        // The bytes that were read must end where a fragment of the new copy ends, or they could not be skipped.
        let may_move =
            first && was_read && offer.header.complete && !self.header.mode().contains(Mode::DISCARD);
        if may_move && offer.starts_at(source, old) {
            self.leave(&stored, busy)?;
            self.withdraw(&stored)?;
            return Some(Recommit::Relocate { read: old });
        }
        let change = match busy {
            Some(change) => change,
            None => self.begin_change(&stored, old, Kind::Growth)?,
        };
        self.grow(&stored, &tokens, source, change)?;
        Some(Recommit::Done(Commit::Rewritten))
    }

    /// No new bytes; but the chunk may be complete now, and how it ends is known better.
    #[cfg_attr(target_os = "none", inline(always))]
    fn settle(&mut self, stored: &Stored, tokens: &Tokens, complete: bool) -> Option<()> {
        let marks = tokens.flags & Flags::END_MARKS;
        let mut flags = stored.flags() | marks;
        if stored.has(Flags::INCOMPLETE) {
            flags = (flags - Flags::END_MARKS) | marks;
        }
        if complete {
            flags -= Flags::INCOMPLETE;
        }
        self.count_end(marks - stored.flags());
        self.change_flags(stored, flags)
    }

    /// Ends a change that was none: bytes behind the valid ones may be anything.
    fn leave(&mut self, stored: &Stored, change: Option<Change>) -> Option<()> {
        match change {
            Some(change) => self.end_change(stored.offset, stored.flags(), change),
            None => Some(()),
        }
    }

    /// Takes a scraped chunk, all of whose bytes were read, out of the ring, to be stored elsewhere. Should
    /// that fail, what it had more is lost.
    #[cfg_attr(target_os = "none", inline(always))]
    fn withdraw(&mut self, stored: &Stored) -> Option<()> {
        let open = Status::ERASED_INCOMPLETE | Status::TENTATIVE_OVERWRITE;
        self.erase_first(stored, open)?;
        self.header.counters.bytes_read.add(u64::from(stored.outer_size()));
        if let Some(histogram) = self.histograms.get_mut(usize::from(stored.slot.get())) {
            histogram.remove(stored.valid.get());
        }
        Some(())
    }

    /// Adds the new bytes in place.
    #[cfg_attr(target_os = "none", inline(always))]
    fn grow<S: Source>(
        &mut self,
        stored: &Stored,
        tokens: &Tokens,
        source: &mut S,
        change: Change,
    ) -> Option<()> {
        let (offset, old) = (stored.offset, stored.valid.get());
        if source.private().is_some() {
            let added = self.ring.payload_mut(offset, tokens.valid)?.get_mut(usize::from(old)..)?;
            source.copy(usize::from(old), added);
        }
        let mut kept = stored.flags() - (Flags::END_MARKS | Flags::INCOMPLETE);
        if tokens.flags.contains(Flags::INCOMPLETE) {
            // Scraped after it was complete: its end is open again, so no packet goes on behind it.
            kept -= Flags::CONTINUES_ON_NEXT | Flags::NEEDS_PATCHING;
        }
        // What was the last fragment, a packet's beginning perhaps, may be none any more: all are counted anew.
        let payload = self.ring.payload(offset, tokens.valid)?;
        let all = tokenise(payload, 0, 0, tokens.frags, kept | tokens.flags);
        let chunk = &mut self.ring.front_mut(offset)?.header;
        chunk.valid.set(tokens.valid);
        chunk.packets.set(all.packets);
        self.end_change(offset, all.flags, change)?;
        self.count_end((tokens.flags & Flags::END_MARKS) - stored.flags());
        if let Some(histogram) = self.histograms.get_mut(usize::from(stored.slot.get())) {
            histogram.remove(old);
            histogram.add(tokens.valid);
        }
        Some(())
    }
}
