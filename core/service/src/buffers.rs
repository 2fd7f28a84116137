//! Buffers by number, as sessions own them and producers may write to them.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;

use tracebuf::buffer::{BufferStats, ReadOnlyTraceBuffer, Reader, SequenceInfo, TraceBuffer};
use tracebuf::service::{AllowedBuffers, Buffers};
use tracebuf::vm::RingVms;

/// A buffer, and the machines that fold what it overwrites.
pub(crate) type Buffer<M> = TraceBuffer<M, RingVms>;

/// A clone, with what the machines have kept.
pub(crate) struct Copied<M> {
    pub(crate) buffer: ReadOnlyTraceBuffer<M>,
    pub(crate) vms: RingVms,
}

/// All buffers of a service, whichever session they belong to.
pub(crate) struct BufferSlab<M> {
    all: BTreeMap<u16, Buffer<M>>,
    /// Clones of some, which nobody writes to. Their numbers are among the others.
    copies: BTreeMap<u16, Copied<M>>,
    /// The number given last: the next one is as far from those that rest as can be, so that late commits for a buffer
    /// that is gone find none.
    last: u16,
}

impl<M> BufferSlab<M> {
    pub(crate) const fn new() -> Self {
        Self { all: BTreeMap::new(), copies: BTreeMap::new(), last: 0 }
    }

    pub(crate) fn len(&self) -> usize {
        self.all.len() + self.copies.len()
    }

    /// A number that no buffer has, from 1 on; `None` if all are taken.
    fn next(&mut self) -> Option<u16> {
        let behind = (self.last..u16::MAX).skip(1).chain(1..=self.last.min(u16::MAX - 1));
        let is_free = |number: &u16| !self.all.contains_key(number) && !self.copies.contains_key(number);
        self.last = behind.into_iter().find(is_free)?;
        Some(self.last)
    }

    /// Takes a buffer, and returns its number.
    pub(crate) fn insert(&mut self, buffer: Buffer<M>) -> Option<u16> {
        let number = self.next()?;
        self.all.insert(number, buffer);
        Some(number)
    }

    /// Takes a clone, and returns its number.
    pub(crate) fn insert_copy(&mut self, copy: Copied<M>) -> Option<u16> {
        let number = self.next()?;
        self.copies.insert(number, copy);
        Some(number)
    }

    /// Puts an empty buffer in the place of another, with the same programs.
    pub(crate) fn replace(&mut self, number: u16, buffer: Buffer<M>) -> Option<Buffer<M>>
    where
        M: AsRef<[u8]> + AsMut<[u8]>,
    {
        let place = self.all.get_mut(&number)?;
        let before = core::mem::replace(place, buffer);
        *place.observer_mut() = before.observer().anew();
        Some(before)
    }

    /// The machines of one.
    pub(crate) fn vms(&mut self, number: u16) -> Option<&mut RingVms>
    where
        M: AsRef<[u8]> + AsMut<[u8]>,
    {
        let of_copy = self.copies.get_mut(&number).map(|copy| &mut copy.vms);
        of_copy.or_else(|| self.all.get_mut(&number).map(TraceBuffer::observer_mut))
    }

    /// Forgets one, and says whether it was there.
    pub(crate) fn remove(&mut self, number: u16) -> bool {
        self.all.remove(&number).is_some() || self.copies.remove(&number).is_some()
    }

    /// One that can be written to.
    pub(crate) fn get(&self, number: u16) -> Option<&Buffer<M>> {
        self.all.get(&number)
    }

    /// Those of one session alone.
    pub(crate) fn only<'s>(&'s mut self, numbers: &'s [u16]) -> Only<'s, M> {
        Only { slab: self, numbers }
    }
}

impl<M: AsRef<[u8]> + AsMut<[u8]>> BufferSlab<M> {
    /// Begins to read one.
    pub(crate) fn read(&mut self, number: u16) -> Option<Reader<'_>> {
        match self.all.get_mut(&number) {
            Some(buffer) => Some(buffer.read()),
            None => self.copies.get_mut(&number).map(|copy| copy.buffer.read()),
        }
    }

    /// The sequences of one in the order of their writers, which is that in which producers have made them.
    pub(crate) fn writers(&self, number: u16) -> Vec<(u16, u16)> {
        let mut all: Vec<_> = self.sequences(number).map(|of| (of.producer_id, of.writer_id)).collect();
        all.sort_unstable();
        all
    }

    /// Begins to read one sequence of one.
    pub(crate) fn read_sequence(
        &mut self,
        number: u16,
        (producer, writer): (u16, u16),
    ) -> Option<Reader<'_>> {
        match self.all.get_mut(&number) {
            Some(buffer) => Some(buffer.read_sequence(producer, writer)),
            None => self.copies.get_mut(&number).map(|copy| copy.buffer.read_sequence(producer, writer)),
        }
    }

    /// The statistics of one as a trace has them.
    pub(crate) fn stats(&self, number: u16) -> Option<BufferStats> {
        let of_copy =
            || self.copies.get(&number).map(|Copied { buffer, .. }| buffer.stats().of_trace(buffer.policy()));
        self.get(number).map(|buffer| buffer.stats().of_trace(buffer.policy())).or_else(of_copy)
    }

    /// Bytes that a copy of one needs.
    pub(crate) fn clone_size(&self, number: u16) -> Option<usize> {
        let of_copy = || self.copies.get(&number).map(|copy| copy.buffer.clone_size());
        self.get(number).map(TraceBuffer::clone_size).or_else(of_copy)
    }

    /// A copy of one, also of a copy.
    pub(crate) fn copy(&mut self, number: u16, memory: M) -> Option<Copied<M>> {
        let buffer = match self.copies.get(&number) {
            Some(copy) => copy.buffer.clone_read_only(memory),
            None => self.get(number)?.clone_read_only(memory),
        };
        Some(Copied { buffer: buffer.ok()?, vms: self.vms(number)?.copy() })
    }

    /// What is known of each sequence of one.
    pub(crate) fn sequences(&self, number: u16) -> impl Iterator<Item = SequenceInfo> {
        let copy = self.copies.get(&number).into_iter().flat_map(|copy| copy.buffer.sequences());
        self.get(number).into_iter().flat_map(TraceBuffer::sequences).chain(copy)
    }

    /// Drops what all buffers have of a producer that is gone.
    pub(crate) fn forget_producer(&mut self, producer_id: u16) {
        for buffer in self.all.values_mut() {
            buffer.forget_producer(producer_id);
            buffer.observer_mut().leave(producer_id);
        }
    }

    /// Whether a buffer has something of a producer.
    pub(crate) fn knows_producer(&self, producer_id: u16) -> bool {
        self.all.values().any(|buffer| buffer.sequences().any(|of| of.producer_id == producer_id))
    }
}

impl<M: AsRef<[u8]> + AsMut<[u8]>> Buffers for BufferSlab<M> {
    type Memory = M;
    type Observer = RingVms;

    fn buffer(&mut self, number: u16) -> Option<&mut Buffer<M>> {
        self.all.get_mut(&number)
    }
}

pub(crate) struct Only<'s, M> {
    slab: &'s mut BufferSlab<M>,
    numbers: &'s [u16],
}

impl<M: AsRef<[u8]> + AsMut<[u8]>> Buffers for Only<'_, M> {
    type Memory = M;
    type Observer = RingVms;

    fn buffer(&mut self, number: u16) -> Option<&mut Buffer<M>> {
        self.numbers.contains(&number).then(|| self.slab.buffer(number)).flatten()
    }
}

/// The numbers of buffers that a producer may write to, sorted.
#[derive(Debug, Default)]
pub(crate) struct BufferSet(Vec<u16>);

impl BufferSet {
    pub(crate) fn forbid(&mut self, number: u16) {
        if let Ok(place) = self.0.binary_search(&number) {
            self.0.remove(place);
        }
    }

    pub(crate) fn has_any(&self, numbers: &[u16]) -> bool {
        numbers.iter().any(|number| self.has(*number))
    }
}

impl AllowedBuffers for BufferSet {
    fn allow(&mut self, number: u16) -> bool {
        if let Err(place) = self.0.binary_search(&number) {
            self.0.insert(place, number);
        }
        true
    }

    fn has(&self, number: u16) -> bool {
        self.0.binary_search(&number).is_ok()
    }

    fn for_each(&self, act: impl FnMut(u16)) {
        self.0.iter().copied().for_each(act);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::vec;
    use tracebuf::buffer::{Config, FillPolicy};

    #[test]
    fn numbers_are_given_in_turn_and_none_is_given_while_it_is_taken() {
        let config = Config::new(FillPolicy::RingBuffer).sequences(4);
        let buffer =
            || TraceBuffer::new(vec![0; 1024], config).expect("room").observed_by(RingVms::default());
        let mut slab = BufferSlab::new();
        assert_eq!([(); 3].map(|()| slab.insert(buffer())), [Some(1), Some(2), Some(3)]);
        assert!(slab.remove(2) && !slab.remove(2));
        assert_eq!(slab.insert(buffer()), Some(4), "2 rests");
        slab.last = u16::MAX - 2;
        assert_eq!([(); 3].map(|()| slab.insert(buffer())), [Some(u16::MAX - 1), Some(2), Some(5)]);
        assert!(slab.only(&[2, 5]).buffer(5).is_some() && slab.only(&[2]).buffer(5).is_none());
        assert_eq!(slab.len(), 6);
        assert_eq!(
            slab.insert_copy(Copied { buffer: buffer().into_read_only(), vms: RingVms::default() }),
            Some(6)
        );
        slab.last = 5;
        assert_eq!(slab.insert(buffer()), Some(7), "a clone has 6");
        assert!(slab.buffer(6).is_none() && slab.read(6).is_some() && slab.stats(6).is_some());
        assert!(slab.remove(6) && slab.read(6).is_none() && slab.len() == 7);
    }

    #[test]
    fn a_set_has_what_was_allowed_and_not_forbidden_since() {
        let mut set = BufferSet::default();
        [9, 3, 40_000, 3].into_iter().for_each(|number| assert!(set.allow(number)));
        set.forbid(9);
        set.forbid(8);
        let mut all = vec![];
        set.for_each(|number| all.push(number));
        assert_eq!((all, set.has(3), set.has(9)), (vec![3, 40_000], true, false));
        assert!(set.has_any(&[1, 40_000]) && !set.has_any(&[1, 9]));
    }
}
