//! Files made by a start, which are removed again if the session does not start.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use tracebuf_std::system::rename_to_free;

/// Takes a new file back when dropped, unless the file is to stay.
#[must_use]
pub(crate) struct Undo {
    /// The name of the file, then the names under which older files now lie, each moved there from the name before it.
    names: Vec<PathBuf>,
    /// What to do when the file stays.
    settle: Option<Box<dyn FnOnce()>>,
}

impl Undo {
    /// `moved`: where the file that was there lies now, then where the one that had been in that place does.
    pub(crate) fn new(path: &Path, moved: Vec<PathBuf>) -> Self {
        let mut names = vec![path.to_owned()];
        names.extend(moved);
        Self { names, settle: None }
    }

    /// Adds something to do when the file stays.
    pub(crate) fn settling(mut self, settle: impl FnOnce() + 'static) -> Self {
        self.settle = Some(Box::new(settle));
        self
    }

    /// Puts back what was there, into free places only: a file that was not even made may by now belong to another
    /// session, which holds its lock. What cannot be put back stays where it was moved to.
    pub(crate) fn without_replacing(mut self) {
        put_back(&std::mem::take(&mut self.names), rename_to_free);
    }

    /// Keeps the file.
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
    let _ = names.windows(2).try_for_each(|names| match names {
        [to, from] => rename(from, to),
        _ => Ok(()),
    });
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
