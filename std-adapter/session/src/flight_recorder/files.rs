//! The files of a flight recorder: their names, how they appear, and which of them stay.

use std::ffi::OsStr;
use std::fs::{self, File, OpenOptions};
use std::io;
use std::path::{Component, Path, PathBuf, is_separator};
use std::time::{Duration, SystemTime};

use super::reasons::Limits;
use tracebuf_std::process;
use tracebuf_std::system::NOT_IN_NAMES;

const ENDING: &str = ".pftrace";

/// Most bytes of a reason's name: a file's may have 255, and a part's has all the rest too.
const MAX_REASON: usize = 120;
/// Most bytes of the process's name in that of a file.
const MAX_PROCESS: usize = 64;

/// Refuses a reason whose files would lie elsewhere, or could not have such names.
pub(super) fn check(reason: &str) -> io::Result<()> {
    let invalid = |why| Err(io::Error::new(io::ErrorKind::InvalidInput, why));
    // Each part as it is written: the last one of `there/..` would be part of a name that is never meant.
    let begins = Path::new(reason).components().next();
    if matches!(begins, Some(Component::Prefix(_) | Component::RootDir))
        || reason.split(is_separator).any(|part| part == "..")
    {
        return invalid("it leads out of the folder");
    }
    if reason.contains(NOT_IN_NAMES) || reason.contains('\0') {
        return invalid("it has a colon or a zero, which names of files cannot have");
    }
    match reason.rsplit(is_separator).next() {
        Some("") => invalid("it names no file"),
        Some(name) if name.len() > MAX_REASON => invalid("it is too long for the name of a file"),
        _ => Ok(()),
    }
}

/// A time of day in UTC, to the microsecond, in as many letters whenever it is: `20261128T163739.123456Z`.
fn time_of_day(time: SystemTime) -> String {
    let since = time.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    let (days, second) = (since.as_secs() / 86_400, since.as_secs() % 86_400);
    // The calendar repeats itself after 400 years, which begin with a March: leap days are the last of their years.
    let days = days + 719_468;
    let (era, day) = (days / 146_097, days % 146_097);
    let year = (day - day / 1460 + day / 36_524 - day / 146_096) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    let month = (5 * day + 2) / 153;
    let day = day - (153 * month + 2) / 5 + 1;
    let (year, month) =
        (400 * era + year + u64::from(month >= 10), if month < 10 { month + 3 } else { month - 9 });
    let (hour, minute, second) = (second / 3600, second / 60 % 60, second % 60);
    format!("{year:04}{month:02}{day:02}T{hour:02}{minute:02}{second:02}.{:06}Z", since.subsec_micros())
}

/// The time at a name's beginning, and the rest.
fn split_time(name: &str) -> Option<(&str, &str)> {
    const FORM: &[u8] = b"00000000T000000.000000Z";
    let (time, rest) = name.split_at_checked(FORM.len())?;
    let fits =
        |(letter, form): (u8, &u8)| if *form == b'0' { letter.is_ascii_digit() } else { letter == *form };
    time.bytes().zip(FORM).all(fits).then_some((time, rest))
}

/// This process in a file's name: without a full stop, behind which the reason begins.
fn this_process() -> String {
    let as_is = |letter: char| letter.is_alphanumeric() || letter == '-' || letter == '_';
    let mut name: String =
        process::name().chars().map(|letter| if as_is(letter) { letter } else { '_' }).collect();
    name.truncate((0..=MAX_PROCESS.min(name.len())).rfind(|end| name.is_char_boundary(*end)).unwrap_or(0));
    format!("{name}-{}", std::process::id())
}

/// The reason and the number in the name of a file of any flight recorder.
fn parts(name: &str) -> Option<(&str, u64)> {
    let (_, rest) = split_time(name.strip_suffix(ENDING)?)?;
    let (process, rest) = rest.strip_prefix('.')?.split_once('.')?;
    let (_, pid) = process.rsplit_once('-')?;
    let (reason, number) = rest.rsplit_once('-')?;
    // Not +1 or 01, which are other files.
    let is_number = |text: &str| text.parse().ok().filter(|parsed: &u64| parsed.to_string() == text);
    is_number(pid)?;
    Some((reason, is_number(number)?))
}

fn names_in(folder: &Path) -> impl Iterator<Item = String> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().into_string().ok())
}

/// The reasons of the files that are there.
pub(super) fn reasons_in(folder: &Path) -> impl Iterator<Item = String> {
    names_in(folder).filter_map(|name| parts(&name).map(|(reason, _)| reason.to_owned()))
}

/// A file's part, which has the file's name reserved, and is removed if it is not completed.
struct Part {
    path: PathBuf,
    whole: PathBuf,
    file: File,
}

impl Part {
    /// Of the first free name from this time on, for a reason that was [checked](check).
    fn new(
        folder: &Path,
        reason: &str,
        number: u64,
        mut time: SystemTime,
    ) -> Result<Self, (PathBuf, io::Error)> {
        // A reason may name a folder within this one.
        let (within, reason) = reason.rsplit_once(is_separator).unwrap_or(("", reason));
        let folder = folder.join(within);
        let process = this_process();
        loop {
            let name = format!("{}.{process}.{reason}-{number}{ENDING}", time_of_day(time));
            let (path, whole) = (folder.join(format!(".{name}.part")), folder.join(name));
            match OpenOptions::new().write(true).create_new(true).open(&path) {
                // Whoever has the part owns the name, unless it was completed before the part was made.
                Ok(_) if whole.symlink_metadata().is_ok() => drop(fs::remove_file(path)),
                Ok(file) => return Ok(Self { path, whole, file }),
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                Err(error) => return Err((whole, error)),
            }
            time += Duration::from_micros(1);
        }
    }

    fn complete<T>(
        mut self,
        write: impl FnOnce(&mut File) -> io::Result<T>,
    ) -> Result<(PathBuf, T), (PathBuf, io::Error)> {
        let written = write(&mut self.file).and_then(|value| self.file.sync_all().map(|()| value));
        let written = written.and_then(|value| fs::rename(&self.path, &self.whole).map(|()| value));
        match written {
            Ok(value) => {
                // The name is on the disk when the folder is; one that cannot be opened keeps its name in memory.
                let folder = self.whole.parent().map(File::open);
                let _ = folder.map(|folder| folder.and_then(|folder| folder.sync_all()));
                Ok((self.whole, value))
            }
            Err(error) => {
                let _ = fs::remove_file(&self.path);
                Err((self.whole, error))
            }
        }
    }
}

/// Writes a file that appears when it is complete, under a name that no other file has or ever had: two recorders, in
/// whatever processes, never write the same. Returns its path, with an error too.
pub(super) fn publish<T>(
    folder: &Path,
    reason: &str,
    number: u64,
    time: SystemTime,
    write: impl FnOnce(&mut File) -> io::Result<T>,
) -> Result<(PathBuf, T), (PathBuf, io::Error)> {
    Part::new(folder, reason, number, time)?.complete(write)
}

/// Removes the files of the reason of this one, except as many as the limits say: the newest, and of the others the
/// newest of those that were the first of their runs. `written` stays in any case: a caller was told that it is there.
pub(super) fn remove_others(limits: Limits, written: &Path) {
    let Some((folder, written)) = written.parent().zip(written.file_name().and_then(OsStr::to_str)) else {
        return;
    };
    let Some((reason, _)) = parts(written) else { return };
    let of_reason = |name: &String| parts(name).is_some_and(|(of, _)| of == reason);
    let mut names: Vec<_> = names_in(folder).filter(of_reason).collect();
    // Names begin with their times.
    names.sort_unstable_by(|one, other| other.cmp(one));
    let mut older = names.split_off(names.len().min(limits.newest() as usize));
    let mut first = limits.first();
    older.retain(|name| {
        let is_first = parts(name).is_some_and(|(_, number)| number <= limits.first().into());
        let stays = is_first && first > 0;
        first -= u32::from(stays);
        !stays
    });
    for name in older.iter().filter(|name| *name != written) {
        // One that cannot be removed is tried again with the next.
        let _ = fs::remove_file(folder.join(name));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_those_of_the_calendar() {
        for (seconds, expected) in [
            (0, "19700101T000000"),
            (951_782_399, "20000228T235959"),
            (951_782_400, "20000229T000000"),
            (1_709_164_800, "20240229T000000"),
            (1_735_689_599, "20241231T235959"),
            (1_735_689_600, "20250101T000000"),
            (4_107_542_399, "21000228T235959"),
            (4_107_542_400, "21000301T000000"),
            (253_402_300_799, "99991231T235959"),
        ] {
            let time = SystemTime::UNIX_EPOCH + Duration::new(seconds, 7_000_999);
            assert_eq!(time_of_day(time), format!("{expected}.007000Z"));
        }
        assert_eq!(time_of_day(SystemTime::UNIX_EPOCH - Duration::from_secs(1)), "19700101T000000.000000Z");
    }

    #[test]
    fn a_name_is_told_from_others_and_its_parts_from_each_other() {
        let time = "20261128T163739.123456Z";
        for (name, expected) in [
            (format!("{time}.server-12.panic-1.pftrace"), Some(("panic", 1))),
            (format!("{time}.my_server-x-12.a.b-c-7-18.pftrace"), Some(("a.b-c-7", 18))),
            (format!("{time}.server-12.panic-01.pftrace"), None),
            (format!("{time}.server-12.panic-+1.pftrace"), None),
            (format!("{time}.server-x.panic-1.pftrace"), None),
            (format!("{time}.server.panic-1.pftrace"), None),
            (format!("{time}.server-12.panic-1.txt"), None),
            (format!(".{time}.server-12.panic-1.pftrace.part"), None),
            (format!("{}.server-12.panic-1.pftrace", time.replace('Z', "z")), None),
            ("panic-0.pftrace".into(), None),
            ("éééééééééééééééé.pftrace".into(), None),
        ] {
            assert_eq!(parts(&name), expected, "{name}");
        }
    }

    fn folder(name: &str) -> PathBuf {
        let folder = std::env::temp_dir().join(format!("tracebuf-flight-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&folder);
        fs::create_dir_all(&folder).expect("a folder");
        folder
    }

    #[test]
    fn no_name_is_taken_twice_whoever_writes_and_whenever() {
        let folder = folder("names");
        // Those of two processes with one number, as in containers, at the same moment.
        let time = SystemTime::now();
        let write = || publish(&folder, "panic", 1, time, |_| Ok(())).expect("a file").0;
        let threads = (0..4).map(|_| {
            let write = &write;
            move || (0..50).map(|_| write()).collect::<Vec<_>>()
        });
        let mut paths: Vec<_> = std::thread::scope(|scope| {
            let threads: Vec<_> = threads.map(|thread| scope.spawn(thread)).collect();
            threads.into_iter().flat_map(|thread| thread.join().expect("files")).collect()
        });
        paths.sort();
        paths.dedup();
        let there = names_in(&folder).count();
        fs::remove_dir_all(&folder).expect("it is there");
        assert_eq!((paths.len(), there), (200, 200));
    }

    #[test]
    fn a_file_that_is_not_completed_leaves_nothing() {
        let folder = folder("error");
        let error =
            publish(&folder, "panic", 1, SystemTime::now(), |_| Err::<(), _>(io::Error::other("no room")))
                .map(|_| ());
        let (path, error) = error.expect_err("no room");
        let left = names_in(&folder).count();
        fs::remove_dir_all(&folder).expect("it is there");
        assert!(path.to_string_lossy().ends_with(".panic-1.pftrace"), "{path:?}");
        assert_eq!((error.to_string(), left), ("no room".to_owned(), 0));
    }

    #[test]
    fn the_first_of_this_run_stay_beside_the_newest_of_all_runs() {
        let folder = folder("stay");
        let limits = Limits { files: 8, first: None, interval: Duration::ZERO };
        let numbers = || {
            let mut names: Vec<_> = names_in(&folder).collect();
            names.sort();
            names.iter().filter_map(|name| parts(name)).map(|(_, number)| number).collect::<Vec<_>>()
        };
        let run = |files| {
            for number in 1..=files {
                let (path, ()) =
                    publish(&folder, "panic", number, SystemTime::now(), |_| Ok(())).expect("a file");
                remove_others(limits, &path);
                assert!(path.exists());
            }
            numbers()
        };
        assert_eq!(run(30), [1, 2, 25, 26, 27, 28, 29, 30]);
        // The next run's second one is among the newest yet; then it is one of the first.
        assert_eq!(run(2), [1, 2, 27, 28, 29, 30, 1, 2]);
        assert_eq!(run(20), [1, 2, 15, 16, 17, 18, 19, 20]);
        // A program that is restarted after each.
        for _ in 0..20 {
            run(1);
        }
        let left = numbers();
        fs::remove_dir_all(&folder).expect("it is there");
        assert_eq!(left, [1; 8]);
    }
}
