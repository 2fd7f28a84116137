//! The file of an earlier session, which a start moves out of its way.

use std::fs::{self, File};
use std::io::{self, BufRead, BufReader};
use std::path::{Path, PathBuf};

use super::{BEGUN, MAGIC, PAGE};
use tracebuf_std::display::Escaped;
use tracebuf_std::file_lock::{Held, lock};
use tracebuf_std::free_file::followed;
use tracebuf_std::system::{FileExt as _, id_at, id_of};
use tracebuf_std::whole_file::about;

/// Where a file that an earlier process left is kept.
pub(super) fn previous(path: &Path) -> PathBuf {
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(".previous");
    path.with_file_name(name)
}

/// Returns what to add to the reason why a file has no buffer, if a killed start is why, and what was there before
/// still lies in `FILE.previous`. The file then does not exist, or begins as such a start leaves it.
pub fn moved_by_a_start(path: &Path, begins_with: &[u8]) -> Option<String> {
    let page = begins_with.get(..PAGE as usize).unwrap_or(begins_with);
    if !page.starts_with(BEGUN) && page.iter().any(|byte| *byte != 0) {
        return None;
    }
    let kept = previous(&followed(path).ok()?);
    let name = Escaped(kept.display());
    kept.is_file().then(|| {
        format!("it seems that a session's start in it was killed: what was there before is in {name}")
    })
}

/// Makes room for a new file, and returns where the file that was there lies, and where the one before it does.
pub(super) fn keep_previous(path: &Path) -> io::Result<Vec<PathBuf>> {
    // Looked at first: opening a pipe waits for its other end.
    let opened = fs::metadata(path).and_then(|there| match there.is_file() {
        true => File::open(path),
        false => Err(io::Error::new(io::ErrorKind::InvalidInput, "it is there and no file")),
    });
    let file = match opened {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(error),
    };
    let _held = lock(&file)?;
    check_is_at(&file, path)?;
    let mut start = [0; MAGIC.len()];
    // If it is shorter, the rest stays zero.
    file.read_at(&mut start, 0)?;
    if start == *BEGUN || (start != *MAGIC && is_blank(&file)?) {
        fs::remove_file(path)?;
        return Ok(Vec::new());
    }
    if start != *MAGIC {
        let message = "there is a file of that name which no session made";
        return Err(io::Error::new(io::ErrorKind::AlreadyExists, message));
    }
    let before = previous(path);
    let before_that = previous(&before);
    // Another session may have a buffer in a file of such a name. Closed again, to keep few files open.
    check_is_unused(&before_that).map(drop)?;
    let before_file = check_is_unused(&before)?;
    let _before_held = before_file.as_ref().map(|file| locked_at(file, &before)).transpose()?;
    match fs::rename(&before, &before_that) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    if let Err(error) = fs::rename(path, &before) {
        let _ = fs::rename(&before_that, &before);
        return Err(error);
    }
    Ok(vec![before, before_that])
}

/// The file that lies there, unused by any session; `None` if there is no file.
fn check_is_unused(path: &Path) -> io::Result<Option<File>> {
    // Looked at first, as above.
    if !fs::metadata(path).is_ok_and(|there| there.is_file()) {
        return Ok(None);
    }
    let file = match File::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(about(path, &error)),
    };
    drop(locked_at(&file, path)?);
    Ok(Some(file))
}

/// Locks a file that was opened at this path, for a moment.
fn locked_at<'f>(file: &'f File, path: &Path) -> io::Result<Held<'f>> {
    let held = lock(file).and_then(|held| check_is_at(file, path).map(|()| held));
    held.map_err(|error| about(path, &error))
}

/// Removes what an earlier session left, unless another has the name by now.
pub(super) fn remove_unused(path: &Path) -> io::Result<()> {
    let Some(file) = check_is_unused(path)? else { return Ok(()) };
    let _held = locked_at(&file, path)?;
    fs::remove_file(path)
}

/// Whether it is all zeros: its start was killed, or the power failed, before the first page was written.
fn is_blank(file: &File) -> io::Result<bool> {
    let mut bytes = BufReader::with_capacity(1 << 16, file);
    loop {
        let part = bytes.fill_buf()?;
        if part.is_empty() || part.iter().any(|byte| *byte != 0) {
            return Ok(part.is_empty());
        }
        let len = part.len();
        bytes.consume(len);
    }
}

/// Refuses a file that another start moved or removed before it was locked.
pub(super) fn check_is_at(file: &File, path: &Path) -> io::Result<()> {
    let locked = id_of(file)?;
    if id_at(path).is_ok_and(|there| there == locked) {
        return Ok(());
    }
    Err(io::Error::new(io::ErrorKind::ResourceBusy, "another session has just taken it"))
}
