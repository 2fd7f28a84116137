//! The files of a flight recorder: their names, the numbers of the next ones, the removal of old ones.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs;
use std::io;
use std::path::{Component, Path, PathBuf, is_separator};

use tracebuf_std::system::NOT_IN_NAMES;

pub(super) fn path(folder: &Path, reason: &str, number: u64) -> PathBuf {
    folder.join(format!("{reason}-{number}.pftrace"))
}

/// Most bytes of a reason's name: a file's may have 255, and a hyphen, up to 20 digits and `.pftrace` come after it.
const MAX_REASON: usize = 226;

/// Refuses a reason whose files would lie elsewhere, or could not have such names.
pub(super) fn check(reason: &str) -> io::Result<()> {
    let invalid = |why| Err(io::Error::new(io::ErrorKind::InvalidInput, why));
    // Each part as it is written: the last one of `there/..` would begin a name, `..-0.pftrace`, that is never meant.
    let begins = Path::new(reason).components().next();
    if matches!(begins, Some(Component::Prefix(_) | Component::RootDir))
        || reason.split(is_separator).any(|part| part == "..")
    {
        return invalid("it leads out of the folder");
    }
    if reason.contains(NOT_IN_NAMES) {
        return invalid("with a colon it names a part of a file");
    }
    match reason.rsplit(is_separator).next() {
        Some("") => invalid("it names no file"),
        Some(name) if name.len() > MAX_REASON => invalid("it is too long for the name of a file"),
        _ => Ok(()),
    }
}

/// The number after all that are there, of whatever run or process; 0 for a folder that cannot be read.
pub(super) fn next(folder: &Path, reason: &str) -> u64 {
    numbers(folder, reason).into_iter().max().map_or(0, |newest| newest.saturating_add(1))
}

/// Removes all but the newest. `written` stays in any case: a caller was told that it is there.
pub(super) fn remove_all_but(keep: u32, folder: &Path, reason: &str, written: u64) {
    let mut numbers = numbers(folder, reason);
    numbers.sort_unstable_by_key(|number| std::cmp::Reverse(*number));
    for number in numbers.into_iter().skip(keep as usize).filter(|number| *number != written) {
        // One that cannot be removed is tried again with the next.
        let _ = fs::remove_file(path(folder, reason, number));
    }
}

fn numbers(folder: &Path, reason: &str) -> Vec<u64> {
    // A reason may name a folder within this one.
    let first = path(folder, reason, 0);
    let Some((folder, name)) = first.parent().zip(first.file_name().and_then(OsStr::to_str)) else {
        return Vec::new();
    };
    let Some(start) = name.strip_suffix("0.pftrace") else { return Vec::new() };
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let number = |entry: fs::DirEntry| {
        let name = entry.file_name();
        let number = name.to_str()?.strip_prefix(start)?.strip_suffix(".pftrace")?;
        // Not +1 or 01, which are other files.
        number.parse().ok().filter(|parsed: &u64| parsed.to_string() == number)
    };
    entries.filter_map(number).collect()
}

/// Most reasons that are kept: more than a program has if it knows them beforehand.
const REASONS: usize = 256;

/// For each reason, the number of the next file where the folder does not show it.
#[derive(Default)]
pub(super) struct Numbers(BTreeMap<String, Next>);

#[derive(Default)]
struct Next {
    number: u64,
    /// Files that are being written.
    writers: u32,
}

impl Numbers {
    /// Notes that a writer begins a file for this reason, before it looks into the folder.
    pub(super) fn begin(&mut self, reason: &str) {
        if self.0.len() >= REASONS {
            // Reasons may be made up, a new one each time.
            self.0.retain(|_, next| next.writers > 0);
        }
        self.0.entry(reason.to_owned()).or_default().writers += 1;
    }

    /// The number of the file that is being written: after those in the folder, and those that others are writing.
    pub(super) fn next(&mut self, reason: &str, behind: u64) -> u64 {
        let Some(next) = self.0.get_mut(reason) else { return behind };
        let number = behind.max(next.number);
        next.number = number.saturating_add(1);
        number
    }

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
