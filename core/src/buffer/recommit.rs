//! Re-commits: a chunk that is in the ring is committed again, as after every scrape.

use super::change::ChangeKind;
use super::chunk::{Commit, Refusal};
use super::commit::{Offer, Origin};
use super::frag_iterator::{Tokens, count_frags, tokenise};
use super::region::{Intact, Mode, State};
use super::sequence_state::Status;
use super::source::{Source, probe};
use super::tb_chunk::{Flags, Stored};

impl State<'_> {
    /// Takes over what a new commit of a stored chunk has beyond the stored bytes, or takes that chunk out of the
    /// ring, to be stored anew.
    ///
    /// The stored fragments were decided on when they came; they stay as they are, whatever the producer says now. Only
    /// the bytes after them are copied and looked at.
    #[inline(never)]
    pub(super) fn recommit<S: Source>(
        &mut self,
        offset: u32,
        offer: &Offer<'_>,
        source: &mut S,
    ) -> Intact<Result<Origin, Commit>> {
        let stored = self.ring.front(offset)?.stored_at(offset);
        if !Flags::of(offer.header).contains(stored.flags() & Flags::COMMITTED) {
            return Some(Err(Commit::Refused(Refusal::ClearsFlags)));
        }
        let old = stored.valid.get();
        let (frags, _) = count_frags(self.ring.payload(offset, old)?);
        if offer.size < usize::from(old) || offer.declared < frags {
            return Some(Err(Commit::Refused(Refusal::Shrinks)));
        }
        if source.private().is_none() && !stored.has(Flags::INCOMPLETE) {
            // A complete chunk has no room for more.
            let same = offer.declared == frags || stored.has(Flags::END_MARKS);
            let refused = Commit::Refused(Refusal::ExceedsReservedRoom);
            return Some(Err(if same { Commit::Unchanged } else { refused }));
        }
        let room = stored.room().saturating_sub(self.header.checksum_size());
        self.begin_change(&stored, old, ChangeKind::Growth)?;
        let (tokens, cut_off) = match source.private() {
            Some(bytes) => (tokenise(bytes, old, frags, offer.declared, offer.flags), false),
            None => {
                let end = offer.size.min(usize::from(room)) as u16;
                source
                    .copy(usize::from(old), self.ring.payload_mut(offset, end)?.get_mut(usize::from(old)..)?);
                let payload = self.ring.payload(offset, end)?;
                let tokens = tokenise(payload, old, frags, offer.declared, offer.flags);
                (tokens, tokens.flags.contains(Flags::TRUNCATED) && offer.size > usize::from(room))
            }
        };
        let mut marks = tokens.flags & Flags::END_MARKS;
        let mut flags = stored.flags();
        let outcome = if tokens.valid > room || cut_off {
            Err(Commit::Refused(Refusal::ExceedsReservedRoom))
        } else if offer.header.complete && !tokens.flags.contains(stored.flags() & Flags::COMMITTED) {
            Err(Commit::Refused(Refusal::ClearsFlags))
        } else if tokens.valid == old {
            // No new bytes; but a scraped chunk may be complete now, and how it ends is better known.
            if stored.has(Flags::INCOMPLETE) {
                flags = (flags - Flags::END_MARKS) | marks;
                flags.set(Flags::INCOMPLETE, !offer.header.complete);
            } else {
                marks = Flags::empty();
            }
            Err(Commit::Unchanged)
        } else if offer.header.complete
            && self.may_move(&stored)?
            && probe(source, offer.declared, old).goes_on_at(old)
        {
            Ok(Origin::Relocated { read: old })
        } else {
            flags = self.grow(&stored, &tokens, source)?;
            Err(Commit::Rewritten)
        };
        self.end_change(&stored, flags);
        match outcome {
            Ok(_) => self.withdraw(&stored, &tokens)?,
            Err(Commit::Refused(_)) => {}
            Err(_) => self.count_end(marks - stored.flags()),
        }
        Some(outcome)
    }

    /// Whether a chunk was scraped and all that was there has been read: then it may move to the write cursor.
    #[cfg_attr(tracebuf_small, inline(always))]
    fn may_move(&self, stored: &Stored) -> Option<bool> {
        let first = self.sequence(stored.slot.get())?.first() == stored.offset;
        let was_read = stored.has(Flags::INCOMPLETE)
            && stored.valid.get() > 0
            && stored.read.get() == stored.valid.get();
        Some(first && was_read && !self.header.mode().contains(Mode::DISCARD))
    }

    /// Takes a scraped chunk, all of whose bytes were read, out of the ring, to be stored elsewhere. If that fails,
    /// what the new commit had more is lost, unless that was nothing but empty packets.
    #[cfg_attr(tracebuf_small, inline(always))]
    fn withdraw(&mut self, stored: &Stored, tokens: &Tokens) -> Option<()> {
        let has_more =
            tokens.packets > 0 || tokens.flags.intersects(Flags::CONTINUES_ON_NEXT | Flags::END_MARKS);
        let mut open = Status::ERASED_INCOMPLETE;
        open.set(Status::TENTATIVE_OVERWRITE, has_more);
        self.erase_first(stored, open)?;
        if let Some(histogram) = self.histogram(stored.slot.get()) {
            histogram.remove(stored.valid.get());
        }
        Some(())
    }

    /// Adds the new bytes in place. Returns the flags that the chunk has now.
    #[cfg_attr(tracebuf_small, inline(always))]
    fn grow<S: Source>(&mut self, stored: &Stored, tokens: &Tokens, source: &mut S) -> Option<Flags> {
        let (offset, old) = (stored.offset, stored.valid.get());
        if source.private().is_some() {
            let added = self.ring.payload_mut(offset, tokens.valid)?.get_mut(usize::from(old)..)?;
            source.copy(usize::from(old), added);
        }
        let mut kept = stored.flags() - (Flags::END_MARKS | Flags::INCOMPLETE);
        if tokens.flags.contains(Flags::INCOMPLETE) {
            // Scraped after it was complete: its end is open again, so no packet goes on after it.
            kept -= Flags::CONTINUES_ON_NEXT | Flags::NEEDS_PATCHING;
        }
        // What was the last fragment, perhaps a packet's beginning, may no longer be the last: all are counted anew.
        let payload = self.ring.payload(offset, tokens.valid)?;
        let all = tokenise(payload, 0, 0, tokens.frags, kept | tokens.flags);
        let header = &mut self.ring.front_mut(offset)?.header;
        header.valid.set(tokens.valid);
        header.packets.set(all.packets);
        if let Some(histogram) = self.histogram(stored.slot.get()) {
            histogram.remove(old);
            histogram.add(tokens.valid);
        }
        Some(all.flags)
    }
}
