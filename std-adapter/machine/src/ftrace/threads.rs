//! Threads that the kernel's events name, so that somebody can ask what they are called.

/// The kernel's threads have numbers below this.
const MAX: usize = 1 << 22;

/// The threads that were seen, and which of them are new.
#[derive(Debug, Default)]
pub(super) struct SeenThreads {
    /// A bit for each number.
    seen: Vec<u64>,
    new: Vec<u32>,
}

impl SeenThreads {
    /// Notes a thread. The idle ones have no number.
    pub(super) fn see(&mut self, thread: i64) {
        let Some(number) = usize::try_from(thread).ok().filter(|number| (1..MAX).contains(number)) else {
            return;
        };
        let (word, bit) = (number / 64, 1 << (number % 64));
        if self.seen.len() <= word {
            self.seen.resize(word + 1, 0);
        }
        let Some(word) = self.seen.get_mut(word).filter(|word| **word & bit == 0) else { return };
        *word |= bit;
        self.new.push(number as u32);
    }

    /// Notes a thread as new, even if it was seen.
    pub(super) fn see_again(&mut self, thread: i64) {
        if let Some(word) = usize::try_from(thread).ok().and_then(|number| self.seen.get_mut(number / 64)) {
            *word &= !(1 << (thread % 64));
        }
        self.see(thread);
    }

    /// Those that are new since the last call; one that was renamed may be there twice.
    pub(super) fn take_new(&mut self) -> Vec<u32> {
        std::mem::take(&mut self.new)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_is_new_once_and_again_when_it_gets_another_name() {
        let mut seen = SeenThreads::default();
        [7, 9, 7, 0, -1, 64, 4_194_303].iter().for_each(|thread| seen.see(*thread));
        assert_eq!(seen.take_new(), [7, 9, 64, 4_194_303]);
        [9, 64].iter().for_each(|thread| seen.see(*thread));
        [7, -5, i64::MIN, 1 << 40, i64::MAX].iter().for_each(|thread| seen.see_again(*thread));
        seen.see(1 << 40);
        assert_eq!(seen.take_new(), [7]);
        seen.see(7);
        assert_eq!(seen.take_new(), []);
    }
}
