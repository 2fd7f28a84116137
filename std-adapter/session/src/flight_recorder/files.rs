//! The files of a flight recorder: which numbers they have, and which of them are removed.

use std::ffi::OsStr;
use std::fs;
use std::io;
use std::path::{Component, Path, PathBuf, is_separator};

/// The file of a reason with this number.
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
    if cfg!(windows) && reason.contains(':') {
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
