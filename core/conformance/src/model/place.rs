//! Room in the table and in the ring for a chunk that is to be stored.

use super::chunk::{StoredChunk, Tokens};
use super::commit::{Admission, Offer, outer_size};
use super::ring::Space;
use super::{Handle, Model, Observer, READ_GAP, Sequence, precedes};

impl Model {
    /// A place in the table for a sequence never seen, or no longer known.
    pub(super) fn enter(&mut self, offer: &Offer<'_>) {
        let unknown_start = self.forgotten.contains(&offer.key());
        if self.sequences.len() >= self.table {
            let empty = self.sequences.iter().enumerate().filter(|(_, s)| s.chunks.is_empty());
            let oldest = empty.min_by_key(|(_, s)| s.emptied).map(|(i, _)| i);
            let gone = self.sequences.remove(oldest.expect("looked before"));
            self.forgotten.insert((gone.producer, gone.writer));
        }
        let (producer, writer) = offer.key();
        self.sequences.push(Sequence {
            producer,
            writer,
            uid: offer.header.uid,
            pid: offer.header.pid,
            unknown_start,
            ..Sequence::default()
        });
    }

    /// Bytes of the ring to clear.
    pub(super) fn claim(&self, offer: &Offer<'_>, tokens: Tokens) -> u64 {
        let room = offer.room(tokens);
        outer_size(if offer.unseen { room.max(offer.payload.len()) } else { room })
    }

    /// Makes room and stores, unless that makes the sequence go past the chunk.
    pub(super) fn place(
        &mut self,
        offer: &Offer<'_>,
        tokens: Tokens,
        bytes: Vec<u8>,
        observer: Observer<'_>,
    ) -> Result<(), Admission> {
        let room = offer.room(tokens);
        let outer = outer_size(room);
        let claim = self.claim(offer, tokens);
        if self.ring.write + claim > self.ring.size {
            let (tail, end) = (self.ring.write, self.ring.size);
            self.erase_range(tail, end, observer);
            self.ring.clear(tail, end);
            self.pad(tail, end);
            self.ring.write = 0;
            self.stats.write_wrap_count += 1;
        }
        let at = self.ring.write;
        let (end, padded) = self.erase_range(at, at + claim, observer);
        self.ring.clear(at, end);

        let s = self.find_sequence(offer.key()).expect("entered before");
        let mut before = Tokens::default();
        let read = match self.admission(offer, tokens) {
            Admission::New => 0,
            Admission::Again(read) => {
                self.take_back(s);
                let sequence = &mut self.sequences[s];
                before = sequence.last.map_or(before, |last| last.tokens);
                if sequence.last.is_some_and(|last| last.first) && sequence.pending & !READ_GAP == 0 {
                    // As if it had never left. If there is a loss to report, it reports it, and no older chunk does.
                    (sequence.last, sequence.unknown_start) = (None, false);
                }
                read
            }
            late => {
                self.ring.free_range(at, end);
                return Err(late);
            }
        };
        let handle = self.next_handle;
        self.next_handle += 1;
        self.ring.set(at, outer, Space::Chunk(handle));
        if padded {
            self.pad(at + outer, end);
        } else {
            self.ring.free_range(at + outer, end);
        }
        self.ring.write = at + outer;
        self.stats.bytes_written += outer;
        let id = offer.header.chunk_id;
        let stored = StoredChunk {
            key: offer.key(),
            id,
            at,
            room,
            outer,
            flags: offer.flags_after(tokens),
            complete: offer.header.complete,
            tokens,
            payload: bytes,
            read,
            touched: false,
            seen: None,
            unread: false,
            evicted: 0,
            broken: 0,
        };
        self.chunks.insert(handle, stored);
        let newer = |h: &&Handle| precedes(id, self.chunks[*h].id);
        let behind = self.sequences[s].chunks.iter().rev().take_while(newer).count();
        let list = &mut self.sequences[s].chunks;
        list.insert(list.len() - behind, handle);
        self.stats.chunks_committed_out_of_order += u64::from(behind > 0);
        self.count_violations(before, tokens);
        Ok(())
    }
}
