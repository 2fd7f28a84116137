//! The files of a long trace that is cut into several: when the next begins, their names, the removal of old ones.

use std::ffi::OsString;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::files::{Opened, Undo, open_long_trace};
use tracebuf_std::free_file::{check_is_free, followed};

/// When a file is followed by the next, and which of them stay.
#[derive(Clone, Debug, Default)]
pub(crate) struct Rotation {
    pub(super) size: Option<u64>,
    pub(super) time: Option<Duration>,
    /// Files that stay, the newest among them.
    pub(super) files: Option<u32>,
    /// Bytes of all files that stay.
    pub(super) bytes: Option<u64>,
}

impl Rotation {
    pub(crate) fn is_on(&self) -> bool {
        self.size.is_some() || self.time.is_some() || self.files.is_some() || self.bytes.is_some()
    }

    /// Whether a file of so many bytes, begun so long ago, is to be followed by another before so many more.
    pub(super) fn is_due(&self, bytes: u64, age: Duration, more: u64) -> bool {
        let is_full = self.size().is_some_and(|size| bytes.saturating_add(more) > size);
        is_full || self.time.is_some_and(|time| age >= time)
    }

    /// With a limit for all files, each is a quarter of it at most, so that only so much goes at once.
    pub(super) fn size(&self) -> Option<u64> {
        let share = self.bytes.map(|bytes| bytes / 4);
        self.size.into_iter().chain(share).min()
    }
}

/// The files of one long trace: `NAME-N.EXTENSION`, with numbers that continue after the largest that is there.
#[derive(Debug)]
pub(crate) struct Names {
    folder: PathBuf,
    start: OsString,
    end: OsString,
    next: u64,
}

impl Names {
    /// After the files that are there, of whatever run or process.
    pub(crate) fn after_all(path: &Path) -> io::Result<Self> {
        // Programs that go into the background leave the folder that they were started in.
        let path = std::path::absolute(followed(path)?)?;
        let (Some(folder), Some(stem)) = (path.parent(), path.file_stem()) else {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "it names no file"));
        };
        let (mut start, mut end) = (stem.to_owned(), OsString::new());
        start.push("-");
        if let Some(extension) = path.extension() {
            end.push(".");
            end.push(extension);
        }
        let mut names = Self { folder: folder.to_owned(), start, end, next: 0 };
        names.next = names.numbers().into_iter().max().map_or(0, |newest| newest.saturating_add(1));
        Ok(names)
    }

    fn path(&self, number: u64) -> PathBuf {
        let mut name = self.start.clone();
        name.push(number.to_string());
        name.push(&self.end);
        self.folder.join(name)
    }

    /// Opens the next file, which nobody else has.
    pub(crate) fn open(&mut self) -> io::Result<(Opened, Option<Undo>)> {
        loop {
            let path = self.path(self.next);
            self.next = self.next.saturating_add(1);
            // Another process may use the same names. A link, even to nothing, is not followed.
            if path.symlink_metadata().is_err() {
                match open_long_trace(&path) {
                    Err(error) if error.kind() == io::ErrorKind::ResourceBusy => {}
                    opened => return opened,
                }
            }
        }
    }

    /// Removes the oldest files, except the newest and those that are being written, so that the newest may have so
    /// many bytes.
    pub(super) fn remove_old(&self, rotation: &Rotation, newest: u64) {
        let newest_number = self.next.saturating_sub(1);
        let mut numbers = self.numbers();
        numbers.retain(|number| *number < newest_number);
        numbers.sort_unstable_by_key(|number| std::cmp::Reverse(*number));
        let (mut files, mut bytes) = (1, newest);
        for path in numbers.into_iter().map(|number| self.path(number)) {
            files += 1;
            bytes = bytes.saturating_add(fs::metadata(&path).map_or(0, |file| file.len()));
            let is_one_too_many = rotation.files.is_some_and(|most| files > most.max(1))
                || rotation.bytes.is_some_and(|most| bytes > most);
            if is_one_too_many && check_is_free(&path).is_ok() {
                // One that cannot be removed is tried again with the next.
                let _ = fs::remove_file(path);
            }
        }
    }

    fn numbers(&self) -> Vec<u64> {
        let entries = fs::read_dir(&self.folder).into_iter().flatten().flatten();
        let (start, end) = (self.start.as_encoded_bytes(), self.end.as_encoded_bytes());
        let number = |entry: fs::DirEntry| {
            let name = entry.file_name();
            let number = name.as_encoded_bytes().strip_prefix(start)?.strip_suffix(end)?;
            let number = std::str::from_utf8(number).ok()?;
            // Not +1 or 01, which are other files.
            number.parse().ok().filter(|parsed: &u64| parsed.to_string() == number)
        };
        entries.filter_map(number).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn folder(name: &str) -> PathBuf {
        let folder = std::env::temp_dir().join(format!("tracebuf-rotation-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&folder);
        fs::create_dir_all(&folder).expect("a folder");
        folder
    }

    fn left(folder: &Path) -> Vec<String> {
        let entries = fs::read_dir(folder).expect("a folder").flatten();
        let mut names: Vec<_> =
            entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
        names.sort();
        names
    }

    #[test]
    fn numbers_continue_and_files_of_other_names_are_nobody_s() {
        let folder = folder("names");
        for other in ["long-07.pftrace", "long-+9.pftrace", "long-8.txt", "longer-9.pftrace", "long.pftrace"]
        {
            fs::write(folder.join(other), "x").expect("a file");
        }
        fs::write(folder.join("long-3.pftrace"), "x").expect("a file");
        let mut names = Names::after_all(&folder.join("long.pftrace")).expect("names");
        let opened = [(); 2].map(|()| names.open().expect("a file"));
        let all = Rotation { files: Some(1), ..Rotation::default() };
        // Number 4 is still being written.
        names.remove_old(&all, 0);
        let before = left(&folder);
        for (_, undo) in opened {
            undo.into_iter().for_each(Undo::forget);
        }
        names.remove_old(&all, 0);
        let after = left(&folder);
        fs::remove_dir_all(&folder).expect("it is there");
        let others = ["long-+9.pftrace", "long-07.pftrace", "long-8.txt", "long.pftrace", "longer-9.pftrace"];
        let with = |numbers: &[&str]| {
            let mut all: Vec<_> = others.iter().chain(numbers).map(|name| (*name).to_owned()).collect();
            all.sort();
            all
        };
        assert_eq!(before, with(&["long-4.pftrace", "long-5.pftrace"]));
        assert_eq!(after, with(&["long-5.pftrace"]));
    }

    #[test]
    fn of_so_many_bytes_the_newest_files_stay() {
        let folder = folder("bytes");
        (0..5).for_each(|number| fs::write(folder.join(format!("x-{number}")), [0; 100]).expect("a file"));
        let names = Names::after_all(&folder.join("x")).expect("names");
        for (bytes, newest, stay) in [(450, 50, &["x-1", "x-2", "x-3", "x-4"][..]), (450, 300, &["x-4"])] {
            // The one that is written has the next number.
            let names = Names { next: names.next + 1, ..Names::after_all(&folder.join("x")).expect("names") };
            names.remove_old(&Rotation { bytes: Some(bytes), ..Rotation::default() }, newest);
            assert_eq!(left(&folder), stay);
        }
        fs::remove_dir_all(&folder).expect("it is there");
    }

    #[test]
    fn a_file_is_followed_by_another_for_its_size_its_age_or_its_share_of_all() {
        let (second, hour) = (Duration::from_secs(1), Duration::from_secs(3600));
        let size = Rotation { size: Some(1000), ..Rotation::default() };
        assert!(!size.is_due(900, hour, 100) && size.is_due(900, hour, 101));
        let time = Rotation { time: Some(second), ..Rotation::default() };
        assert!(!time.is_due(u64::MAX, second / 2, 1) && time.is_due(0, second, 0));
        let share = Rotation { bytes: Some(1000), size: Some(900), ..Rotation::default() };
        assert!(!share.is_due(200, hour, 50) && share.is_due(200, hour, 51));
    }
}
