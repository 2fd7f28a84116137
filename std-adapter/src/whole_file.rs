//! Files that appear when they are complete.

use std::ffi::{OsStr, OsString};
use std::fs::{self, File, Metadata, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use crate::figures::Escaped;
use crate::free_file::check_is_free;
use crate::system::{as_readable_as, check_unprotected, is_socket, is_standard_output, standard_output};

/// Bytes of a file's name that its part's name repeats: with all of them it could exceed the longest name allowed.
const NAME: usize = 100;

/// Makes a file in the same folder, under a name that nobody else uses.
fn create_beside(path: &Path) -> io::Result<(PathBuf, File)> {
    static COUNT: AtomicU64 = AtomicU64::new(0);
    // The last part of `out/` is `out`, but the system would look for a folder.
    let ends = |name: &&OsStr| path.as_os_str().as_encoded_bytes().ends_with(name.as_encoded_bytes());
    let name = path.file_name().filter(ends).ok_or_else(|| {
        io::Error::new(io::ErrorKind::InvalidInput, format!("{} names no file", Escaped(path.display())))
    })?;
    let replaced = fs::metadata(path).ok().filter(Metadata::is_file);
    let mut options = OpenOptions::new();
    options.read(true).write(true).create_new(true);
    if let Some(replaced) = &replaced {
        // From the beginning: anyone who may not read the file that was there may not open this one either.
        as_readable_as(&mut options, replaced);
    }
    loop {
        let mut other = OsString::from(".");
        other.push(start_of(name));
        other.push(format!(".{}-{}.part", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed)));
        let part = path.with_file_name(other);
        let file = match options.open(&part) {
            // Left by a killed process with the same number: in a container they all have the same.
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => continue,
            file => file?,
        };
        if let Some(replaced) = &replaced {
            // What the process's mask took away. Where it cannot be given back, fewer users may read the file.
            let _ = file.set_permissions(replaced.permissions());
        }
        return Ok((part, file));
    }
}

/// As much of a name as fits into another, without half a character at its end.
fn start_of(name: &OsStr) -> String {
    let mut start = name.to_string_lossy().into_owned();
    let end = (0..=start.len().min(NAME)).rev().find(|end| start.is_char_boundary(*end));
    start.truncate(end.unwrap_or_default());
    start
}

/// Whether there is something that can only be written into: a device or a pipe. A folder cannot: a file that is to
/// have its name is written beside it, and stays there if the folder does.
fn is_special(path: &Path) -> bool {
    fs::metadata(path).is_ok_and(|metadata| !metadata.is_file() && !metadata.is_dir())
}

/// Where the file that links from `path` lead to lies, or is to lie.
pub(crate) fn followed(path: &Path) -> io::Result<PathBuf> {
    let mut path = path.to_owned();
    // As many as Linux follows.
    for _ in 0..40 {
        let Ok(target) = fs::read_link(&path) else { return Ok(path) };
        path.pop();
        path.push(target);
    }
    Err(io::Error::other("too many links lead to each other"))
}

/// Writes a file that appears at `path` when it is complete; a device or a pipe is written into directly.
pub fn write_atomically<T>(path: &Path, write: impl FnOnce(&mut File) -> io::Result<T>) -> io::Result<T> {
    if let Some(mut output) = standard_output(path)? {
        return write(&mut output);
    }
    if is_special(path) {
        return write(&mut OpenOptions::new().write(true).open(path)?);
    }
    let path = &followed(path)?;
    let (part, mut file) = create_beside(path)?;
    let value = write(&mut file).and_then(|value| file.sync_all().map(|()| value)).inspect_err(|_| {
        // The first error is what matters; if this fails too, that changes nothing.
        let _ = fs::remove_file(&part);
    })?;
    // The file is complete and cannot be made again. Nor can what a session that writes there by now would lose.
    check_is_free(path).and_then(|()| fs::rename(&part, path)).map_err(|error| {
        let text =
            format!("{error}; all of it is in {}, which could not be renamed", Escaped(part.display()));
        io::Error::new(error.kind(), text)
    })?;
    // The name is on the disk when the folder is; a folder that cannot be opened keeps its name in memory.
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let _ = File::open(folder).and_then(|folder| folder.sync_all());
    Ok(value)
}

/// Checks whether a trace can be written to `path`, before it is made: a file must be able to appear in that folder,
/// under a name that no folder or socket has, without replacing one that is write-protected or in use by a session.
/// On Unix `/dev/stdout` is standard output as it is open, unless that is a regular file.
///
/// ```
/// use tracebuf_std::pftrace::check_writable;
///
/// let folder = std::env::temp_dir();
/// check_writable(&folder.join("doc-writable.pftrace"))?;
/// assert!(check_writable(&folder).is_err());
/// # Ok::<(), std::io::Error>(())
/// ```
///
/// # Errors
/// What prevents it.
pub fn check_writable(path: &Path) -> io::Result<()> {
    if is_standard_output(path)? {
        return Ok(());
    }
    if path.is_dir() {
        return Err(io::Error::new(io::ErrorKind::IsADirectory, "there is a folder of that name"));
    }
    if fs::metadata(path).is_ok_and(|metadata| is_socket(&metadata)) {
        return Err(io::Error::new(io::ErrorKind::AlreadyExists, "there is a socket of that name"));
    }
    if path.exists() {
        // Opening a pipe would wait for its reader. A write-protected file is meant to be kept.
        check_unprotected(path)?;
    }
    if is_special(path) {
        return Ok(());
    }
    check_is_free(path)?;
    let (part, _) = create_beside(&followed(path)?)?;
    fs::remove_file(part)
}

#[cfg(test)]
#[cfg(unix)]
mod tests {
    use std::io::Write;
    use std::os::unix::fs::{MetadataExt, PermissionsExt};

    use super::*;
    use crate::session::Session;

    fn folder(name: &str) -> PathBuf {
        let folder = std::env::temp_dir().join(format!("tracebuf-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&folder);
        fs::create_dir_all(&folder).expect("a folder");
        folder
    }

    #[test]
    fn parts_that_a_killed_process_of_the_same_number_left_are_in_nobody_s_way() {
        let folder = folder("parts");
        for count in 0..64 {
            let part = format!(".x.pftrace.{}-{count}.part", std::process::id());
            fs::write(folder.join(part), "half a trace").expect("a file");
        }
        let path = folder.join("x.pftrace");
        check_writable(&path).expect("a place for a file");
        let session = Session::builder().start().expect("a session");
        session.snapshot().expect("a snapshot").write_to(&path).expect("a file");
        assert_eq!(fs::read_dir(&folder).expect("the folder").count(), 65);
        fs::remove_dir_all(&folder).expect("it is there");
    }

    /// Does something as an unprivileged user, if this one is privileged.
    #[cfg(target_os = "linux")]
    fn as_anybody<T: Send>(act: impl FnOnce() -> T + Send) -> T {
        let other = rustix::process::Uid::from_raw(65_534);
        std::thread::scope(|scope| {
            let thread = scope.spawn(|| {
                if rustix::process::geteuid().is_root() {
                    // Only this thread.
                    rustix::thread::set_thread_res_uid(other, other, other).expect("root may");
                }
                act()
            });
            thread.join().expect("no panic")
        })
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn a_file_that_is_protected_against_writing_is_not_to_be_replaced() {
        let folder = folder("protected");
        let path = folder.join("out");
        fs::write(&path, "to be kept").expect("a file");
        for (path, mode) in [(&folder, 0o777), (&path, 0o444)] {
            fs::set_permissions(path, fs::Permissions::from_mode(mode)).expect("it is the test's own");
        }
        let error = as_anybody(|| check_writable(&path)).expect_err("it may only be read");
        assert_eq!(error.kind(), io::ErrorKind::PermissionDenied);
        fs::set_permissions(&path, fs::Permissions::from_mode(0o666)).expect("it is the test's own");
        as_anybody(|| check_writable(&path)).expect("it may be written");
        fs::remove_dir_all(&folder).expect("it is there");
    }

    #[test]
    fn a_whole_file_that_cannot_have_its_name_stays_under_another_which_the_error_tells() {
        let folder = folder("renamed");
        let path = folder.join("out");
        let error = write_atomically(&path, |file| {
            // Whatever prevents the renaming: a mount there, or somebody else's file in a folder like /tmp.
            fs::create_dir(&path)?;
            file.write_all(b"a recording")
        });
        let error = error.expect_err("a folder has the name");
        assert_eq!(error.kind(), io::ErrorKind::IsADirectory);
        let entries = fs::read_dir(&folder).expect("the folder").map(|entry| entry.expect("an entry").path());
        let part = entries.filter(|entry| *entry != path).collect::<Vec<_>>();
        assert_eq!(part.len(), 1, "{part:?}");
        assert!(error.to_string().contains(&format!("all of it is in {},", part[0].display())), "{error}");
        assert_eq!(fs::read(&part[0]).expect("a file"), b"a recording");
        fs::remove_dir_all(&folder).expect("it is there");
    }

    #[test]
    fn a_folder_that_has_taken_the_name_meanwhile_costs_nothing_of_what_was_recorded() {
        let folder = folder("taken");
        let path = folder.join("out");
        check_writable(&path).expect("a place for a file");
        fs::create_dir(&path).expect("a folder");
        let error =
            write_atomically(&path, |file| file.write_all(b"a recording")).expect_err("it is a folder");
        assert!(error.to_string().contains("all of it is in"), "{error}");
        let entries = fs::read_dir(&folder).expect("the folder").map(|entry| entry.expect("an entry").path());
        let part = entries.filter(|entry| *entry != path).collect::<Vec<_>>();
        assert_eq!(fs::read(&part[0]).expect("a file"), b"a recording");
        assert_eq!(fs::metadata(&part[0]).expect("it is there").mode() & 0o111, 0, "no mode of a folder's");
        fs::remove_dir_all(&folder).expect("it is there");
    }

    #[test]
    fn of_a_file_that_could_not_be_written_nothing_stays() {
        let folder = folder("unwritten");
        let result = write_atomically(&folder.join("out"), |file| {
            file.write_all(b"half a recording")?;
            Err::<(), _>(io::Error::other("the disk is full"))
        });
        assert_eq!(result.expect_err("an error").to_string(), "the disk is full");
        assert_eq!(fs::read_dir(&folder).expect("the folder").count(), 0);
        fs::remove_dir_all(&folder).expect("it is there");
    }

    #[test]
    fn a_file_that_takes_another_s_place_has_its_mode() {
        let folder = folder("mode");
        let path = folder.join("out");
        for mode in [0o600, 0o666] {
            fs::write(&path, "private").expect("a file");
            fs::set_permissions(&path, fs::Permissions::from_mode(mode)).expect("it is there");
            let mode_of = |file: fs::Metadata| file.mode() & 0o7777;
            write_atomically(&path, |file| {
                assert_eq!(mode_of(file.metadata()?), mode, "from the beginning");
                file.write_all(b"a recording")
            })
            .expect("a file");
            assert_eq!(mode_of(fs::metadata(&path).expect("it is there")), mode);
            assert_eq!(fs::read(&path).expect("it is there"), b"a recording");
        }
        fs::remove_dir_all(&folder).expect("it is there");
    }

    #[test]
    fn a_name_may_be_as_long_as_a_name_can_be() {
        let folder = folder("long");
        for name in ["n".repeat(255), "ä".repeat(127), format!("n{}", "ä".repeat(127))] {
            let path = folder.join(&name);
            check_writable(&path).expect("a place for a file");
            write_atomically(&path, |file| file.write_all(b"a recording")).expect("a file");
            assert_eq!(fs::read(&path).expect("it is there"), b"a recording");
            let part = create_beside(&path).expect("a file").0;
            let part = part.file_name().and_then(OsStr::to_str).expect("whole characters");
            assert!((100..150).contains(&part.len()), "{part}");
        }
        fs::remove_dir_all(&folder).expect("it is there");
    }

    #[test]
    fn a_path_that_can_only_be_a_folder_is_refused_before_anything_is_written() {
        let folder = folder("slash");
        fs::write(folder.join("file"), "there before").expect("a file");
        std::os::unix::fs::symlink("nothing/", folder.join("link")).expect("a link");
        for name in ["nothing/", "nothing//", "nothing/.", "file/", "link"] {
            let path = folder.join(name);
            let errors =
                [check_writable(&path), write_atomically(&path, |_| panic!("nothing is to be written"))];
            for error in errors.map(|result| result.expect_err(name)) {
                assert_eq!(error.kind(), io::ErrorKind::InvalidInput, "{name}");
                assert!(error.to_string().ends_with("names no file"), "{name}: {error}");
            }
        }
        assert_eq!(fs::read_dir(&folder).expect("the folder").count(), 2);
        fs::remove_dir_all(&folder).expect("it is there");
    }
}
