//! Files that a start has made, which go again if the session does not start.

use std::fs;
use std::path::{Path, PathBuf};

/// Takes a new file back when it is dropped, unless the file is to stay.
#[must_use]
pub(crate) struct Undo {
    /// The name of the file, then those that what was there before was moved to, each from the one before it.
    names: Vec<PathBuf>,
    /// What is to be done when the file stays.
    settle: Option<Box<dyn FnOnce()>>,
}

impl Undo {
    /// `moved`: where what was there lies now, then where what had been in that place does.
    pub(crate) fn new(path: &Path, moved: Vec<PathBuf>) -> Self {
        let mut names = vec![path.to_owned()];
        names.extend(moved);
        Self { names, settle: None }
    }

    /// The same with something that is to be done when the file stays.
    pub(crate) fn settling(mut self, settle: impl FnOnce() + 'static) -> Self {
        self.settle = Some(Box::new(settle));
        self
    }

    /// The file stays.
    pub(crate) fn forget(mut self) {
        self.names.clear();
        if let Some(settle) = self.settle.take() {
            settle();
        }
    }
}

impl Drop for Undo {
    fn drop(&mut self) {
        // The start has failed already, and says why; what cannot be put back either lies where it was moved to.
        if let [path] = &self.names[..] {
            let _ = fs::remove_file(path);
        }
        // Where one of them fails, the next would take the place of what lies there still.
        let _ = self.names.windows(2).try_for_each(|names| match names {
            [to, from] => fs::rename(from, to),
            _ => Ok(()),
        });
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
}
