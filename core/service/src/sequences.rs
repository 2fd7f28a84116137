//! Numbers of the sequences of a trace: [`Sequences`].

use alloc::collections::BTreeMap;
use alloc::vec::Vec;

use tracebuf::proto::SequenceId;

/// Sequences beyond those that were needed when they were last looked at.
const MOST_UNTIDY: usize = 8192;

/// The numbers of writers' packets in a trace, none of which is given twice.
#[derive(Clone, Debug, Default)]
pub(crate) struct Sequences {
    known: BTreeMap<(u16, u16), SequenceId>,
    given: u32,
    /// How many were left when those of producers that are gone were forgotten.
    left: usize,
}

impl Sequences {
    pub(crate) fn get(&self, producer: u16, writer: u16) -> Option<SequenceId> {
        self.known.get(&(producer, writer)).copied()
    }

    /// That of a writer.
    pub(crate) fn of(&mut self, producer: u16, writer: u16) -> SequenceId {
        *self.known.entry((producer, writer)).or_insert_with(|| {
            self.given = self.given.saturating_add(1);
            SequenceId::new(self.given.saturating_add(1)).unwrap_or(SequenceId::FIRST_WRITER)
        })
    }

    /// Forgets those of a producer: another has its number from now on.
    pub(crate) fn forget(&mut self, producer: u16) {
        let its = self.known.range((producer, 0)..=(producer, u16::MAX)).map(|(key, _)| *key);
        its.collect::<Vec<_>>().iter().for_each(|key| _ = self.known.remove(key));
    }

    /// Whether it is worth while to look for those that are no longer needed.
    pub(crate) fn are_many(&self) -> bool {
        self.known.len() > 2 * self.left + MOST_UNTIDY
    }

    /// Keeps those of some producers.
    pub(crate) fn keep(&mut self, is_needed: impl Fn(u16) -> bool) {
        self.known.retain(|(producer, _), _| is_needed(*producer));
        self.left = self.known.len();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_number_of_a_sequence_is_given_twice_whoever_is_forgotten() {
        let mut sequences = Sequences::default();
        let first: Vec<SequenceId> = (1..=3).map(|producer| sequences.of(producer, 1)).collect();
        assert_eq!(first.iter().map(|id| id.get()).collect::<Vec<_>>(), [2, 3, 4]);
        assert_eq!((sequences.of(2, 1), sequences.get(2, 2)), (first[1], None));
        sequences.forget(2);
        assert_eq!((sequences.get(2, 1), sequences.get(3, 1)), (None, Some(first[2])));
        assert_eq!(sequences.of(2, 1).get(), 5, "of another program");
        (1..=MOST_UNTIDY).for_each(|writer| _ = sequences.of(9, writer as u16));
        assert!(sequences.are_many());
        sequences.keep(|producer| producer == 3);
        assert!(!sequences.are_many() && sequences.get(9, 1).is_none());
        assert_eq!(sequences.of(9, 1).get() as usize, 6 + MOST_UNTIDY);
    }
}
