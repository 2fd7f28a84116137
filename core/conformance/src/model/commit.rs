//! Commits: of new chunks, of chunks that are already there, of chunks that were.

use super::chunk::{Tokens, filled, only_empty, tokenise};
use super::{
    FIRST_CONTINUES, Handle, Header, LAST_CONTINUES, LastErased, Model, NEEDS_PATCHING, OVERHEAD, OVERWRITE,
    Observer, Outcome, Why, precedes,
};

const MAX_PAYLOAD: usize = 65_535;

/// What a commit offers, after what a scrape leaves out.
pub(super) struct Offer<'a> {
    pub(super) header: Header,
    pub(super) payload: &'a [u8],
    pub(super) unseen: bool,
    pub(super) declared: usize,
    pub(super) flags: u8,
}

impl Offer<'_> {
    pub(super) fn key(&self) -> (u16, u16) {
        (self.header.producer, self.header.writer)
    }

    pub(super) fn flags_after(&self, tokens: Tokens) -> u8 {
        if tokens.truncated() { self.flags & FIRST_CONTINUES } else { self.flags }
    }

    pub(super) fn room(&self, tokens: Tokens) -> usize {
        if self.header.complete { tokens.valid } else { self.payload.len() }
    }

    /// Whether it has only empty packets after what was read of it.
    fn is_nothing_after(&self, tokens: Tokens, read: usize) -> bool {
        let goes_on = self.flags & LAST_CONTINUES != 0;
        let reach = if goes_on { tokens.valid } else { filled(&self.payload[..tokens.valid]) };
        (reach..=tokens.valid).contains(&read)
    }
}

pub(super) fn outer_size(room: usize) -> u64 {
    (room as u64 + OVERHEAD).next_multiple_of(4)
}

/// What becomes of a chunk whose id is not in the buffer.
pub(super) enum Admission {
    New,
    /// The last erased one comes again: this many bytes of it were read.
    Again(usize),
    TooLate,
    /// The last erased one comes again, cut into fragments other than those read from it.
    Changed,
}

impl Model {
    /// Offers a chunk. `unseen`: its bytes can only be copied into the ring and looked at there, so all of them need
    /// room for a moment, slack included.
    pub fn commit(
        &mut self,
        header: Header,
        payload: &[u8],
        unseen: bool,
        observer: Observer<'_>,
    ) -> Outcome {
        let outcome = self.try_commit(header, payload, unseen, observer);
        if outcome == Outcome::Refused(Why::TooLarge) && header.complete {
            // What comes next in a new sequence may have this chunk before it.
            self.forgotten.insert((header.producer, header.writer));
        }
        let stats = &mut self.stats;
        match outcome {
            Outcome::Written => stats.chunks_written += 1,
            Outcome::Rewritten => stats.chunks_rewritten += 1,
            Outcome::Relocated => stats.chunks_relocated += 1,
            Outcome::Unchanged => stats.chunks_unchanged += 1,
            Outcome::Discarded => stats.chunks_discarded += 1,
            Outcome::Refused(why) => {
                stats.chunks_refused += 1;
                stats.abi_violations += u64::from(!matches!(why, Why::TableFull | Why::NullSequence));
            }
        }
        outcome
    }

    fn try_commit(
        &mut self,
        header: Header,
        payload: &[u8],
        unseen: bool,
        observer: Observer<'_>,
    ) -> Outcome {
        if (header.producer, header.writer) == (0, 0) {
            return Outcome::Refused(Why::NullSequence);
        }
        if payload.len() > MAX_PAYLOAD {
            return Outcome::Refused(Why::TooLarge);
        }
        let mut declared = usize::from(header.fragments);
        let mut flags = header.flags & (FIRST_CONTINUES | LAST_CONTINUES | NEEDS_PATCHING);
        if !header.complete && declared > 0 {
            declared -= 1;
            flags &= FIRST_CONTINUES;
        }
        let offer = Offer { header, payload, unseen, declared, flags };
        match self.find_chunk(offer.key(), header.chunk_id) {
            Some(handle) => self.recommit(&offer, handle, observer),
            None => self.admit(&offer, observer),
        }
    }

    fn recommit(&mut self, offer: &Offer<'_>, handle: Handle, observer: Observer<'_>) -> Outcome {
        let s = self.find_sequence(offer.key()).expect("found the chunk by it");
        let stored = &self.chunks[&handle];
        let known = stored.tokens;
        if offer.payload.len() < known.valid || offer.declared < known.fragments {
            return Outcome::Refused(Why::Shrinks);
        }
        // What was stored is already decided: only what lies after it is new.
        let mut bytes = stored.payload.clone();
        bytes.extend_from_slice(&offer.payload[known.valid..]);
        let mut tokens = tokenise(&bytes, known, offer.declared);
        if offer.unseen && stored.complete {
            // None of it may be touched to look at what comes.
            if !known.truncated() && offer.declared > known.fragments {
                return Outcome::Refused(Why::ExceedsReservedRoom);
            }
            tokens = Tokens { aborted: false, malformed: false, ..known };
        } else if offer.unseen && bytes.len() > stored.room {
            // Bytes beyond the room are never seen: a fragment that would end there is too much.
            tokens = tokenise(&bytes[..stored.room], known, offer.declared);
            if tokens.malformed {
                return Outcome::Refused(Why::ExceedsReservedRoom);
            }
        }
        let flags = offer.flags_after(tokens);
        if tokens.valid > stored.room {
            return Outcome::Refused(Why::ExceedsReservedRoom);
        }
        // What only the scrape leaves out is not taken back by the producer.
        let kept = if offer.header.complete { flags } else { offer.header.flags };
        if stored.flags & !kept != 0 {
            return Outcome::Refused(Why::ClearsFlags);
        }
        if tokens.valid == known.valid {
            // How a complete chunk ends is known.
            if !stored.complete {
                let chunk = self.chunks.get_mut(&handle).expect("stored");
                chunk.complete = offer.header.complete;
                chunk.tokens = tokens;
                self.count_violations(known, tokens);
            }
            return Outcome::Unchanged;
        }
        bytes.truncate(tokens.valid);
        let first = self.sequences[s].chunks.first() == Some(&handle);
        // What moves is what was offered: of what was read only the length counts.
        let moved = tokenise(offer.payload, Tokens::default(), offer.declared);
        let goes_on = moved.valid > stored.read && self.cut_at(offer, tokens, stored.read);
        let was_read = stored.read > 0 && stored.read == known.valid && goes_on;
        if !self.discard && !stored.complete && offer.header.complete && was_read && first {
            let has_more =
                flags & LAST_CONTINUES != 0 || tokens.truncated() || !only_empty(&bytes[known.valid..]);
            // How it ends is found anew.
            let chunk = self.chunks.get_mut(&handle).expect("stored");
            chunk.tokens = Tokens::default();
            self.retire(s, handle, false);
            if has_more {
                // Until it is stored again: it may no longer find its place.
                self.sequences[s].tentative |= OVERWRITE;
            }
            let bytes = offer.payload[..moved.valid].to_vec();
            return match self.place(offer, moved, bytes, observer) {
                Ok(()) => Outcome::Relocated,
                Err(Admission::Changed) => Outcome::Refused(Why::ChangesFragments),
                Err(_) => Outcome::Discarded,
            };
        }
        let chunk = self.chunks.get_mut(&handle).expect("stored");
        chunk.payload = bytes;
        chunk.tokens = tokens;
        if !offer.header.complete {
            // Its end is open, or open again: no packet goes on after it.
            chunk.flags &= FIRST_CONTINUES;
        }
        chunk.flags |= flags;
        // With more fragments the mark of a scrape comes too.
        chunk.complete = offer.header.complete;
        self.count_violations(known, tokens);
        Outcome::Rewritten
    }

    fn admit(&mut self, offer: &Offer<'_>, observer: Observer<'_>) -> Outcome {
        let tokens = tokenise(offer.payload, Tokens::default(), offer.declared);
        let mut admission = self.admission(offer, tokens);
        if self.has_nothing_more(offer, tokens) {
            // No room should be made for that.
            admission = Admission::TooLate;
        }
        if !matches!(admission, Admission::New | Admission::Again(_)) {
            self.miss_older(offer);
            return self.turn_away(offer, tokens, &admission);
        }
        let at_risk = self.risk_oldest(offer);
        if self.sealed {
            return Outcome::Discarded;
        }
        let outer = self.claim(offer, tokens);
        if outer > self.ring.size {
            return Outcome::Refused(Why::TooLarge);
        }
        if self.discard && self.ring.write + outer > self.ring.size {
            self.sealed = true;
            return Outcome::Discarded;
        }
        let known = self.find_sequence(offer.key()).is_some();
        let full = self.sequences.len() >= self.table;
        if !known && full && self.sequences.iter().all(|s| !s.chunks.is_empty()) {
            self.forgotten.insert(offer.key());
            return Outcome::Refused(Why::TableFull);
        }
        if !known {
            self.enter(offer);
        }
        let bytes = offer.payload[..tokens.valid].to_vec();
        let s = self.find_sequence(offer.key()).expect("entered before");
        match self.place(offer, tokens, bytes, observer) {
            Ok(()) => {
                if at_risk {
                    self.sequences[s].tentative = 0;
                }
                Outcome::Written
            }
            Err(late) => self.turn_away(offer, tokens, &late),
        }
    }

    /// Whether the last erased chunk comes again with nothing but empty packets after what was read of it.
    fn has_nothing_more(&self, offer: &Offer<'_>, tokens: Tokens) -> bool {
        let last = self.find_sequence(offer.key()).and_then(|s| self.sequences[s].last);
        last.is_some_and(|last| last.id == offer.header.chunk_id && offer.is_nothing_after(tokens, last.read))
    }

    /// What a chunk older than all others holds is there to be had, and may be gone in a moment. Newer ones report the
    /// gap before them, unless there never was an older one; then they report this. Returns whether that is so.
    fn risk_oldest(&mut self, offer: &Offer<'_>) -> bool {
        let Some(s) = self.find_sequence(offer.key()) else { return false };
        let sequence = &mut self.sequences[s];
        let first = sequence.chunks.first().map(|h| self.chunks[h].id);
        let at_risk =
            sequence.last.is_none() && first.is_some_and(|first| precedes(offer.header.chunk_id, first));
        if at_risk {
            sequence.tentative |= OVERWRITE;
        }
        at_risk
    }

    fn turn_away(&mut self, offer: &Offer<'_>, tokens: Tokens, admission: &Admission) -> Outcome {
        if matches!(admission, Admission::Changed) && !self.sealed {
            return Outcome::Refused(Why::ChangesFragments);
        }
        self.settle(offer, tokens);
        Outcome::Discarded
    }

    /// A chunk older than all known ones is turned away. The one after it reports that even when it is lost as well: it
    /// may come again, and if nothing of it was read it is in time to report.
    fn miss_older(&mut self, offer: &Offer<'_>) {
        let Some(s) = self.find_sequence(offer.key()) else { return };
        let sequence = &mut self.sequences[s];
        let is_older =
            |last: LastErased| last.first && last.read == 0 && precedes(offer.header.chunk_id, last.id);
        if sequence.tentative & OVERWRITE != 0 && sequence.last.is_some_and(is_older) {
            sequence.pending |= OVERWRITE;
        }
    }

    /// Whether the reader is already inside the sequence's first chunk, past the id.
    fn begun_behind(&self, s: usize, id: u32) -> bool {
        let first = self.sequences[s].chunks.first().map(|h| &self.chunks[h]);
        first.is_some_and(|first| first.read > 0 && precedes(id, first.id))
    }

    pub(super) fn admission(&self, offer: &Offer<'_>, tokens: Tokens) -> Admission {
        let Some(s) = self.find_sequence(offer.key()) else { return Admission::New };
        let sequence = &self.sequences[s];
        let id = offer.header.chunk_id;
        if self.begun_behind(s, id) {
            return Admission::TooLate;
        }
        match sequence.last {
            Some(last) if id == last.id && !self.cut_at(offer, tokens, last.read) => Admission::Changed,
            Some(last) if id == last.id && tokens.valid > last.read => Admission::Again(last.read),
            Some(last) if id == last.id || precedes(id, last.id) => Admission::TooLate,
            _ => Admission::New,
        }
    }

    /// An incomplete copy was evicted, and now the complete chunk turns out to hold nothing that was not read from it:
    /// then the eviction lost nothing.
    fn settle(&mut self, offer: &Offer<'_>, tokens: Tokens) {
        let Some(s) = self.find_sequence(offer.key()) else { return };
        let in_time = !self.begun_behind(s, offer.header.chunk_id);
        let Some(last) = &mut self.sequences[s].last else { return };
        // Later, what was open has been reported as a loss already.
        let same = last.id == offer.header.chunk_id && offer.is_nothing_after(tokens, last.read);
        if in_time && last.open && offer.header.complete && same {
            last.open = false;
            self.take_back(s);
            let sequence = &mut self.sequences[s];
            sequence.malformed += u64::from(tokens.malformed);
            sequence.tentative |= tokens.marks();
            if let Some(last) = &mut sequence.last {
                (last.malformed, last.tokens) = (u64::from(tokens.malformed), tokens);
            }
            self.count_violations(Tokens::default(), tokens);
        }
    }

    /// What was evicted of the last erased chunk is not lost after all.
    pub(super) fn take_back(&mut self, s: usize) {
        let sequence = &mut self.sequences[s];
        sequence.tentative = 0;
        if let Some(last) = &mut sequence.last {
            sequence.evicted -= last.evicted;
            sequence.broken -= last.broken;
            sequence.malformed -= last.malformed;
            (last.evicted, last.broken, last.malformed) = (0, 0, 0);
        }
    }

    /// Whether a fragment of the offer ends, or the first begins, at `at`.
    fn cut_at(&self, offer: &Offer<'_>, tokens: Tokens, at: usize) -> bool {
        if offer.payload.len() <= at || tokens.valid <= at {
            return true;
        }
        let part = |fragments| tokenise(offer.payload, Tokens::default(), fragments).valid;
        let all = tokenise(offer.payload, Tokens::default(), offer.declared).fragments;
        (0..=all).any(|fragments| part(fragments) == at)
    }

    /// Counts the ways in which a chunk ends, except those in which it already ended.
    pub(super) fn count_violations(&mut self, before: Tokens, now: Tokens) {
        if now.aborted && !before.aborted {
            self.stats.trace_writer_packet_loss += 1;
        }
        if now.malformed && !before.malformed {
            self.stats.abi_violations += 1;
        }
    }
}
