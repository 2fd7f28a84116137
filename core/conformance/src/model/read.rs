//! The consumption of a sequence in its order, for a reader and for overwriting alike.

use std::collections::BTreeSet;

use super::chunk::{Fragment, Kind};
use super::{
    ANY, CHUNK_CORRUPTED, Handle, Model, ModelPacket, NEEDS_PATCHING, ORPHAN_CONTINUATION, OVERWRITE,
    Observer, REASSEMBLY_BROKEN_CHAIN, REASSEMBLY_GAP,
};

/// What one step at the front of a sequence did.
pub(super) enum Step {
    Packet(ModelPacket),
    /// Something was consumed, but no packet came of it.
    Passed,
    /// What comes next is not there yet.
    Stalled,
}

/// Who consumes: a reader, who may have to wait, or overwriting, which cannot.
pub(super) enum Consumer<'a> {
    Reader,
    Eraser(Observer<'a>),
}

impl Consumer<'_> {
    fn erases(&self) -> bool {
        matches!(self, Consumer::Eraser(_))
    }
}

/// If a packet goes on in more chunks than this, all but the last go with its beginning.
const LOOKED_AT_AGAIN: usize = 16;

#[derive(Clone, Copy, PartialEq, Eq)]
enum ChainEnd {
    Complete,
    NotYet,
    Gap,
    Broken,
}

/// A chunk of a chain: its fragment, or none when the chunk was declared without any.
type Link = (Handle, Option<Fragment>);

impl Model {
    /// Begins a read and takes packets until there are none or `limit` of them; the second value says whether the read
    /// came to its end.
    pub fn read(&mut self, limit: Option<usize>) -> (Vec<ModelPacket>, bool) {
        let mut packets = Vec::new();
        let mut stalled = BTreeSet::new();
        for handle in self.ring.chunks_oldest_first() {
            while let Some(chunk) = self.chunks.get(&handle) {
                if limit == Some(packets.len()) {
                    return (packets, false);
                }
                let key = chunk.key;
                if stalled.contains(&key) {
                    break;
                }
                let sequence = self.find_sequence(key).expect("a stored chunk has a sequence");
                match self.step(sequence, &mut Consumer::Reader) {
                    Step::Packet(packet) => packets.push(packet),
                    Step::Passed => {}
                    Step::Stalled => drop(stalled.insert(key)),
                }
            }
        }
        let ended = limit != Some(packets.len());
        (packets, ended)
    }

    /// Consumes the next thing at the front of a sequence that has chunks.
    pub(super) fn step(&mut self, s: usize, by: &mut Consumer<'_>) -> Step {
        let handle = self.sequences[s].chunks[0];
        let chunk = self.chunks.get_mut(&handle).expect("listed chunks are stored");
        if by.erases() && chunk.seen.is_none() {
            chunk.seen = Some(chunk.read);
            chunk.unread = chunk.read < chunk.payload.len();
        }
        match chunk.fragment_at(chunk.read) {
            None if chunk.complete || by.erases() => {
                self.touch(s, handle);
                self.retire(s, handle, by.erases());
                Step::Passed
            }
            None => Step::Stalled,
            Some(Err(())) => {
                let end = chunk.payload.len();
                self.touch(s, handle);
                self.blame(s, CHUNK_CORRUPTED, by);
                self.sequences[s].malformed += 1;
                self.consume(s, handle, end, by);
                Step::Passed
            }
            Some(Ok(f)) => match f.kind {
                Kind::Whole => self.take_whole(s, handle, f, by),
                Kind::Begin => self.take_chain(s, handle, f, by),
                Kind::Continue | Kind::End => {
                    self.touch(s, handle);
                    self.blame(s, ORPHAN_CONTINUATION, by);
                    self.consume(s, handle, f.end, by);
                    Step::Passed
                }
            },
        }
    }

    fn take_whole(&mut self, s: usize, handle: Handle, f: Fragment, by: &mut Consumer<'_>) -> Step {
        self.touch(s, handle);
        let packet = self.packet(s, &[(handle, Some(f))]);
        let (step, _) = self.deliver(s, (handle, f.end), packet, by);
        self.consume(s, handle, f.end, by);
        step
    }

    fn take_chain(&mut self, s: usize, first: Handle, f: Fragment, by: &mut Consumer<'_>) -> Step {
        let (links, end) = self.look_ahead(s, first, f, by.erases());
        match end {
            _ if by.erases() => {}
            ChainEnd::Complete => self.stats.readaheads_succeeded += 1,
            _ => self.stats.readaheads_failed += 1,
        }
        if end == ChainEnd::NotYet && !by.erases() {
            return Step::Stalled;
        }
        self.touch(s, first);
        let (step, kept) = if end == ChainEnd::Complete {
            let packet = self.packet(s, &links);
            self.deliver(s, (first, f.end), packet, by)
        } else {
            match end {
                ChainEnd::Gap => self.blame(s, REASSEMBLY_GAP, by),
                ChainEnd::Broken => self.blame(s, REASSEMBLY_BROKEN_CHAIN, by),
                _ => self.blame(s, 0, by),
            }
            self.sequences[s].broken += 1;
            self.chunks.get_mut(&first).expect("stored").broken += u64::from(by.erases());
            (Step::Passed, false)
        };
        // What nobody kept may come again, and its rest must be there then, except that of a packet without content.
        let behind = links.len() - 1;
        let is_empty = links.iter().all(|(_, fragment)| fragment.is_none_or(|f| f.start == f.end));
        let passes = !by.erases() || kept || is_empty && end == ChainEnd::Complete;
        for (handle, fragment) in links.into_iter().take(if passes { usize::MAX } else { 1 }) {
            let chunk = self.chunks.get_mut(&handle).expect("stored");
            let end = fragment.map_or(chunk.payload.len(), |f| f.end);
            // What an observer kept was read, and so was what is empty.
            let by = if handle != first { &Consumer::Reader } else { &*by };
            chunk.unread |= by.erases() && !kept && !chunk.payload.is_empty();
            let read = chunk.seen.unwrap_or(chunk.read);
            self.touch(s, handle);
            self.consume(s, handle, end, by);
            if by.erases() && !self.chunks.contains_key(&handle) {
                // What goes with an evicted packet was not read.
                self.sequences[s].last.as_mut().expect("just erased").read = read;
            }
        }
        if !passes && behind > LOOKED_AT_AGAIN {
            for _ in 1..behind {
                let next = self.sequences[s].chunks[0];
                while self.chunks.contains_key(&next) {
                    self.step(s, by);
                }
            }
        }
        step
    }

    /// Gathers one fragment per chunk after a begin.
    fn look_ahead(&self, s: usize, first: Handle, f: Fragment, erases: bool) -> (Vec<Link>, ChainEnd) {
        let chunk = &self.chunks[&first];
        let mut links = vec![(first, Some(f))];
        let mut unpatched = chunk.flags & NEEDS_PATCHING != 0;
        if (unpatched && !erases) || !chunk.complete {
            return (links, ChainEnd::NotYet);
        }
        let mut id = chunk.id;
        for handle in self.sequences[s].chunks.iter().skip(1) {
            let next = &self.chunks[handle];
            if next.id != id.wrapping_add(1) {
                return (links, ChainEnd::Gap);
            }
            id = next.id;
            if next.declared_empty() {
                links.push((*handle, None));
                continue;
            }
            match next.fragment_at(0) {
                // Even when cut short: a complete commit may still bring more.
                None if !next.complete => return (links, ChainEnd::NotYet),
                None | Some(Err(())) => return (links, ChainEnd::Broken),
                Some(Ok(_)) if next.read != 0 => return (links, ChainEnd::Broken),
                Some(Ok(f)) => match f.kind {
                    Kind::Whole | Kind::Begin => return (links, ChainEnd::Broken),
                    // Even for an end, which has nothing to do with the part to patch.
                    _ if next.flags & NEEDS_PATCHING != 0 && !erases => return (links, ChainEnd::NotYet),
                    Kind::Continue | Kind::End => {
                        // The part to patch is the last one of the chunk: never an end.
                        unpatched |= f.kind == Kind::Continue && next.flags & NEEDS_PATCHING != 0;
                        links.push((*handle, Some(f)));
                        if f.kind == Kind::End {
                            // Nobody can wait for the patches: the packet leaves as it is, and reaches nobody.
                            return (links, if unpatched { ChainEnd::NotYet } else { ChainEnd::Complete });
                        }
                    }
                },
            }
        }
        (links, ChainEnd::NotYet)
    }

    fn packet(&self, s: usize, links: &[Link]) -> ModelPacket {
        let sequence = &self.sequences[s];
        let slice = |(h, f): &Link| f.map(|f| self.chunks[h].payload[f.start..f.end].to_vec());
        let slices = links.iter().filter_map(slice).filter(|s| !s.is_empty()).collect();
        let (producer, writer, uid, pid) = (sequence.producer, sequence.writer, sequence.uid, sequence.pid);
        let loss = if sequence.pending == 0 { 0 } else { sequence.pending | ANY };
        ModelPacket { producer, writer, uid, pid, loss, slices }
    }

    /// Hands a whole packet, which begins in a chunk and goes on there up to `end`, to whoever it is for, and an empty
    /// one to nobody. Returns whether an observer kept it.
    fn deliver(
        &mut self,
        s: usize,
        (first, end): (Handle, usize),
        mut packet: ModelPacket,
        by: &mut Consumer<'_>,
    ) -> (Step, bool) {
        if packet.slices.is_empty() {
            return (Step::Passed, false);
        }
        let sequence = &mut self.sequences[s];
        match by {
            Consumer::Reader => {
                sequence.pending = 0;
                (Step::Packet(packet), false)
            }
            Consumer::Eraser(observer) => {
                let chunk = self.chunks.get_mut(&first).expect("stored");
                // What was lost of this chunk so far.
                if sequence.tentative != 0 {
                    packet.loss |= sequence.tentative | ANY;
                }
                let kept = observer(&packet);
                if kept {
                    (sequence.pending, sequence.tentative, chunk.evicted) = (0, 0, 0);
                    chunk.unread = !chunk.only_empties_after(end);
                    chunk.seen = Some(if chunk.unread { end } else { chunk.payload.len() });
                } else {
                    chunk.evicted += 1;
                    sequence.tentative |= OVERWRITE;
                    sequence.evicted += 1;
                }
                (Step::Passed, kept)
            }
        }
    }

    /// Something is lost, and what an eviction loses may yet be committed again.
    fn blame(&mut self, s: usize, cause: u16, by: &Consumer<'_>) {
        let sequence = &mut self.sequences[s];
        if !by.erases() {
            sequence.pending |= cause;
        } else {
            sequence.tentative |= OVERWRITE;
        }
    }

    /// Goes past the first fragment of a chunk, or past a chunk that has none.
    fn touch(&mut self, s: usize, handle: Handle) -> bool {
        let sequence = &mut self.sequences[s];
        let chunk = self.chunks.get_mut(&handle).expect("stored");
        if chunk.touched {
            return false;
        }
        chunk.touched = true;
        let gap = match sequence.last {
            Some(last) => chunk.id != last.id && chunk.id != last.id.wrapping_add(1),
            None => sequence.unknown_start && chunk.id != 0,
        };
        if gap {
            sequence.pending |= super::READ_GAP;
        }
        if sequence.last.is_none_or(|last| last.id != chunk.id) {
            sequence.pending |= sequence.tentative;
            sequence.tentative = 0;
        }
        gap
    }

    /// Marks a chunk as read up to `to`, along with any empty packets up to its end.
    fn consume(&mut self, s: usize, handle: Handle, to: usize, by: &Consumer<'_>) {
        let chunk = self.chunks.get_mut(&handle).expect("stored");
        let had = chunk.read < chunk.payload.len();
        chunk.read = to;
        if chunk.only_empties_after(to) {
            chunk.read = chunk.payload.len();
        }
        let done = chunk.read == chunk.payload.len();
        let complete = chunk.complete;
        // What an observer kept was read.
        if had && done && (!by.erases() || chunk.seen == Some(chunk.payload.len())) {
            self.stats.chunks_read += 1;
        }
        if done && complete {
            self.retire(s, handle, by.erases());
        }
    }
}
