//! Files that appear when they are complete.

use std::ffi::{OsStr, OsString};
use std::fs::{self, File, Metadata, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use crate::display::Escaped;
use crate::free_file::{check_is_free, folder_of, followed};
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

/// Returns true for a device or a pipe, which can only be written into. Not for a folder: a file that is to have its
/// name is written beside it.
fn is_special(path: &Path) -> bool {
    fs::metadata(path).is_ok_and(|metadata| !metadata.is_file() && !metadata.is_dir())
}

/// Writes a file that appears at `path` when it is complete; a device or a pipe is written into directly.
///
/// # Errors
/// Those of `write`, of the file system and of [`followed`]; what was written is then removed. If only its name could
/// not be given, the file stays, and the error says where.
pub fn write_atomically<T>(path: &Path, write: impl FnOnce(&mut File) -> io::Result<T>) -> io::Result<T> {
    if let Some(mut output) = standard_output(path)? {
        return write(&mut output);
    }
    let target = &followed(path)?;
    if is_special(path) {
        return write(&mut OpenOptions::new().write(true).open(path)?);
    }
    let (part, mut file) = create_beside(target)?;
    let value = write(&mut file).and_then(|value| file.sync_all().map(|()| value)).inspect_err(|_| {
        let _ = fs::remove_file(&part);
    })?;
    // The file is complete and cannot be made again. Nor can what somebody who writes there by now would lose.
    check_is_free(target).and_then(|()| fs::rename(&part, target)).map_err(|error| {
        let text =
            format!("{error}; all of it is in {}, which could not be renamed", Escaped(part.display()));
        io::Error::new(error.kind(), text)
    })?;
    // The name is on the disk when the folder is; a folder that cannot be opened keeps its name in memory.
    let _ = File::open(folder_of(target)).and_then(|folder| folder.sync_all());
    Ok(value)
}

/// Checks that a file can be written to `path`, before its content is made: it must be able to appear in that folder,
/// under a name that no folder or socket has, without replacing one that is write-protected or in use. On Unix
/// `/dev/stdout` is standard output as it is open, unless that is a regular file.
pub fn check_writable(path: &Path) -> io::Result<()> {
    if is_standard_output(path)? {
        return Ok(());
    }
    let target = &followed(path)?;
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
    let (part, _) = create_beside(target)?;
    fs::remove_file(part)
}

/// Prefixes an error with the file's name.
pub fn about(path: &Path, error: &io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("{}: {error}", Escaped(path.display())))
}
