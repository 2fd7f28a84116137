//! The numbers of a flight recorder's next files.

use std::collections::BTreeMap;

/// Most reasons that are kept: more than a program has if it knows them beforehand.
const REASONS: usize = 256;

/// For each reason, the number of the next file where the folder does not show it: while files are being written, and
/// for a folder that cannot be read.
#[derive(Default)]
pub(super) struct Numbers(BTreeMap<String, Next>);

/// What is kept for a reason.
#[derive(Default)]
struct Next {
    number: u64,
    /// Files that are being written.
    writers: u32,
}

impl Numbers {
    /// Notes that a writer begins a file for this reason. It looks into the folder only after this: a file that was
    /// being written before is either there, or its reason is here.
    pub(super) fn begin(&mut self, reason: &str) {
        if self.0.len() >= REASONS {
            // Reasons may be made up, a new one each time.
            self.0.retain(|_, next| next.writers > 0);
        }
        self.0.entry(reason.to_owned()).or_default().writers += 1;
    }

    /// The number of the file that is being written: after those in the folder, which end before `behind`, and after
    /// those that others are writing.
    pub(super) fn next(&mut self, reason: &str, behind: u64) -> u64 {
        let Some(next) = self.0.get_mut(reason) else { return behind };
        let number = behind.max(next.number);
        next.number = number.saturating_add(1);
        number
    }

    /// Notes that the file is there, or will not be.
    pub(super) fn end(&mut self, reason: &str) {
        if let Some(next) = self.0.get_mut(reason) {
            next.writers = next.writers.saturating_sub(1);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn made_up_reasons_do_not_fill_the_memory_and_those_being_written_keep_their_numbers() {
        let mut numbers = Numbers::default();
        let begin = |numbers: &mut Numbers, reason: &str, behind| {
            numbers.begin(reason);
            numbers.next(reason, behind)
        };
        // None of its files is in the folder yet.
        assert_eq!((begin(&mut numbers, "slow", 3), begin(&mut numbers, "slow", 3)), (3, 4));
        numbers.end("slow");
        for reason in 0..4 * REASONS {
            let reason = format!("request {reason}");
            assert_eq!(begin(&mut numbers, &reason, 0), 0);
            numbers.end(&reason);
            assert!(numbers.0.len() <= REASONS, "{}", numbers.0.len());
        }
        assert_eq!(begin(&mut numbers, "slow", 3), 5);
        // Where reasons are few, each is kept, for folders that cannot be read.
        assert_eq!(begin(&mut numbers, "another", 0), 0);
        numbers.end("another");
        assert_eq!(begin(&mut numbers, "another", 0), 1);
    }
}
