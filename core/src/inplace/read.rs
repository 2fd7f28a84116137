//! Reading while recording goes on: copies of whole chunks.

use super::layout::State;
use super::order::before_masking;
use super::recorder::Recorder;
use super::region::Memory;
use super::time::Timer;
use crate::atomics::Ordering;

/// A copy of a chunk that was complete. It is read again, by another call, until it is [`taken`](Self::taken).
pub struct ChunkCopy<'a, M> {
    region: &'a M,
    place: u32,
    state: State,
}

impl<M: Memory> ChunkCopy<'_, M> {
    /// Which place of the ring it has.
    pub fn place(&self) -> u32 {
        self.place
    }

    /// Says that it need not be read again: it has been sent. It stays where it is until its place is needed, for a dump
    /// to show. False if it was overwritten meanwhile.
    pub fn taken(self) -> bool {
        let free = before_masking(self.state.with(State::FREE).0);
        let word = M::word(self.region.chunk(self.place), 0);
        word.compare_exchange(self.state.0, free, Ordering::Relaxed, Ordering::Relaxed).is_ok()
    }
}

impl<'a, M: Memory, T: Timer> Recorder<'a, M, T> {
    /// Copies the chunk that was completed first of those that nobody has taken. `None` if there is none, or if `copy`
    /// has less room than a chunk.
    ///
    /// Writers go on meanwhile; if one takes the place, the next oldest is copied. Cost: a look at each chunk, and a
    /// load and a store for each word.
    pub fn copy_chunk(&self, copy: &mut [u32]) -> Option<ChunkCopy<'a, M>> {
        let copy = copy.get_mut(..M::WORDS as usize)?;
        // Another one may be overwritten each time, so this ends.
        (0..M::CHUNKS).find_map(|_| {
            let position = self.position();
            let oldest = (0..M::CHUNKS)
                .map(|place| (place, self.state(place)))
                .filter(|(_, state)| state.is() == State::COMPLETE)
                .max_by_key(|(_, state)| state.age(position));
            match oldest {
                // One that was claimed during the look: an older one may have come behind it.
                Some((_, state)) if state.age(position) < 0 => None,
                Some(oldest) => self.copy(oldest, copy).map(Some),
                None => Some(None),
            }
        })?
    }

    /// Copies a chunk that a writer is still adding to, for the last export: the first from `place` on.
    pub fn copy_open(&self, place: u32, copy: &mut [u32]) -> Option<u32> {
        let copy = copy.get_mut(..M::WORDS as usize)?;
        (place..M::CHUNKS).find(|place| {
            let state = self.state(*place);
            state.is() == State::OPEN && self.copy((*place, state), copy).is_some()
        })
    }

    /// Whether there is a complete chunk of that writer that nobody has taken.
    pub(super) fn has_complete(&self, writer: u32) -> bool {
        (0..M::CHUNKS)
            .map(|place| self.state(place))
            .any(|state| state.is() == State::COMPLETE && state.writer() == writer)
    }

    /// `None` if the chunk's state changed meanwhile.
    fn copy(&self, (place, state): (u32, State), copy: &mut [u32]) -> Option<ChunkCopy<'a, M>> {
        let chunk = self.region.chunk(place);
        for (word, at) in copy.iter_mut().zip(0..) {
            *word = M::word(chunk, at).load(Ordering::Acquire);
        }
        // Acquiring each word keeps this load behind them.
        (self.state(place) == state).then_some(ChunkCopy { region: self.region, place, state })
    }

    fn state(&self, place: u32) -> State {
        State(M::word(self.region.chunk(place), 0).load(Ordering::Acquire))
    }

    fn position(&self) -> u32 {
        self.region.header(super::layout::header::POSITION).load(Ordering::Relaxed)
    }
}
