//! A session's files: opened, locked, taken back if it does not start, protected from its own traces.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use tracebuf_std::file_lock::Lock;
use tracebuf_std::free_file::followed;
use tracebuf_std::system::{
    FileId, for_one_writer, id_at, id_of, open_at_once, rename_to_free, standard_output,
};

/// Takes a new file back when dropped, unless the file is to stay.
#[must_use]
pub(crate) struct Undo {
    /// The name of the file, then the names under which older files now lie, each moved there from the name before it.
    names: Vec<PathBuf>,
    settle: Option<Box<dyn FnOnce()>>,
}

impl Undo {
    /// `moved`: where the file that was there lies now, then where the one that had been in that place does.
    pub(crate) fn new(path: &Path, moved: Vec<PathBuf>) -> Self {
        Self { names: [vec![path.to_owned()], moved].concat(), settle: None }
    }

    pub(crate) fn settling(mut self, settle: impl FnOnce() + 'static) -> Self {
        self.settle = Some(Box::new(settle));
        self
    }

    /// Puts back what was there, into free places only: another session may have the name by now.
    pub(crate) fn without_replacing(mut self) {
        put_back(&std::mem::take(&mut self.names), rename_to_free);
    }

    pub(crate) fn forget(mut self) {
        self.names.clear();
        if let Some(settle) = self.settle.take() {
            settle();
        }
    }
}

impl Drop for Undo {
    fn drop(&mut self) {
        // The start has failed already, and says why; what cannot be put back lies where it was moved to.
        if let [path] = &self.names[..] {
            let _ = fs::remove_file(path);
        }
        put_back(&self.names, |from, to| fs::rename(from, to));
    }
}

fn put_back(names: &[PathBuf], rename: impl Fn(&Path, &Path) -> io::Result<()>) {
    // If one of them fails, the next would replace what still lies there.
    let _ = names.windows(2).try_for_each(|names| rename(&names[1], &names[0]));
}

/// The files that a session writes into as long as it runs.
#[derive(Clone, Debug, Default)]
pub(crate) struct OwnFiles {
    /// Kept when that is complete, too.
    pub(crate) long_trace: Option<FileId>,
    pub(crate) regions: Vec<FileId>,
}

impl OwnFiles {
    /// Refuses to replace one of them, under whatever name: what goes into it would be gone.
    pub(crate) fn check_is_none(&self, path: &Path) -> io::Result<()> {
        if !path.is_file() {
            return Ok(());
        }
        let Ok(there) = id_at(path) else { return Ok(()) };
        let what = if self.long_trace == Some(there) {
            "it is the file of the session's long trace"
        } else if self.regions.contains(&there) {
            "it is the file of a buffer of the session"
        } else {
            return Ok(());
        };
        Err(io::Error::new(io::ErrorKind::AlreadyExists, what))
    }
}

/// The file of a long trace, kept locked against other sessions.
pub(crate) struct Opened {
    pub(crate) file: File,
    pub(crate) lock: Option<Lock>,
    pub(crate) id: FileId,
}

/// Opens the file of a long trace, or creates it. What is in it stays there until the session has started.
pub(crate) fn open_long_trace(path: &Path) -> io::Result<(Opened, Option<Undo>)> {
    if let Some(file) = standard_output(path)? {
        let id = id_of(&file)?;
        return Ok((Opened { file, lock: None, id }, None));
    }
    // For a link that leads to nothing, the place it leads to: the file is created, and taken back, there.
    let target = followed(path)?;
    let path = if path.exists() { path } else { &target };
    let (file, undo) = match for_one_writer().create_new(true).open(path) {
        Ok(file) => (file, Some(Undo::new(path, Vec::new()))),
        // It exists, or this says why it cannot.
        Err(_) => (open_at_once(path)?, None),
    };
    let id = id_of(&file)?;
    // Two sessions may write into one pipe or device.
    if !file.metadata()?.is_file() {
        return Ok((Opened { file, lock: None, id }, undo));
    }
    match Lock::where_possible(&file, path) {
        Ok(lock) => Ok((Opened { file, lock, id }, undo)),
        Err(error) => {
            if error.kind() == io::ErrorKind::ResourceBusy {
                // Another session has opened the file that was created here, and locked it first: it stays.
                undo.into_iter().for_each(Undo::forget);
            }
            Err(error)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_cannot_be_put_back_is_not_lost_for_what_was_there_before() {
        let folder = std::env::temp_dir().join(format!("tracebuf-undo-{}", std::process::id()));
        let [name, newest, older] = ["x", "x.previous", "x.previous.previous"].map(|name| folder.join(name));
        // Nothing can be put in the place of a folder.
        fs::create_dir_all(&name).expect("a folder");
        fs::write(&newest, "newest").expect("a file");
        fs::write(&older, "older").expect("a file");
        drop(Undo::new(&name, vec![newest.clone(), older.clone()]));
        let left = [newest, older].map(|path| fs::read_to_string(path).ok());
        fs::remove_dir_all(folder).expect("it is there");
        assert_eq!(left, ["newest", "older"].map(|text| Some(text.to_owned())));
    }

    #[test]
    fn without_replacing_nothing_takes_the_place_of_another_s_file() {
        let folder = std::env::temp_dir().join(format!("tracebuf-undo-free-{}", std::process::id()));
        let [name, newest, older] = ["x", "x.previous", "x.previous.previous"].map(|name| folder.join(name));
        fs::create_dir_all(&folder).expect("a folder");
        let all = [(&name, "another's"), (&newest, "newest"), (&older, "older")];
        all.iter().for_each(|(path, text)| fs::write(path, text).expect("a file"));
        let undo = || Undo::new(&name, vec![newest.clone(), older.clone()]).without_replacing();
        let contents = || [&name, &newest, &older].map(|path| fs::read_to_string(path).unwrap_or_default());
        undo();
        let beside_another = contents();
        fs::remove_file(&name).expect("it is there");
        undo();
        let when_it_is_gone = contents();
        Undo::new(&name, Vec::new()).without_replacing();
        let when_nothing_was_there = contents();
        fs::remove_dir_all(folder).expect("it is there");
        assert_eq!(beside_another, ["another's", "newest", "older"]);
        assert_eq!(when_it_is_gone, ["newest", "older", ""]);
        assert_eq!(when_nothing_was_there, when_it_is_gone);
    }
}
