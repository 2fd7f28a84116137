//! Files of `/proc` that stay open between looks: opening one costs more than reading it.

use std::collections::{HashMap, HashSet};
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::{Mutex, PoisonError};

use rustix::process::{Resource, getrlimit};

/// The most files that stay open, where the process may have very many.
const MOST: u64 = 4096;

/// Files by their names, each read from its beginning again and again.
///
/// A file of a process that has ended can be read no more, also if another process has its number since: then the name is
/// opened anew.
#[derive(Debug)]
pub(crate) struct OpenFiles {
    files: Mutex<HashMap<String, File>>,
    room: usize,
}

impl OpenFiles {
    /// None yet, and later up to a quarter of those that this process may have.
    pub(crate) fn new() -> Self {
        let room = getrlimit(Resource::Nofile).current.unwrap_or(MOST).min(4 * MOST) / 4;
        Self { files: Mutex::default(), room: room as usize }
    }

    /// All of a file in this folder.
    pub(crate) fn read(&self, folder: &Path, name: &str) -> io::Result<Vec<u8>> {
        let mut files = self.files.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(file) = files.get(name) {
            match read_all(file) {
                // Nothing is behind it any more.
                Err(_) => drop(files.remove(name)),
                read => return read,
            }
        }
        let file = File::open(folder.join(name))?;
        let bytes = read_all(&file)?;
        if files.len() < self.room {
            files.insert(name.to_owned(), file);
        }
        Ok(bytes)
    }

    /// Closes those of processes that are not among these.
    pub(crate) fn close_all_but(&self, processes: &HashSet<u32>) {
        let is_there = |name: &str| {
            let process = name.split_once('/').and_then(|(number, _)| number.parse().ok());
            process.is_none_or(|number| processes.contains(&number))
        };
        self.files.lock().unwrap_or_else(PoisonError::into_inner).retain(|name, _| is_there(name));
    }
}

fn read_all(file: &File) -> io::Result<Vec<u8>> {
    const CHUNK: usize = 8192;
    let (mut bytes, mut len) = (vec![0; CHUNK], 0);
    loop {
        match file.read_at(bytes.get_mut(len..).unwrap_or_default(), len as u64) {
            Ok(0) => break,
            Ok(read) => len += read,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
        if bytes.len() - len < CHUNK / 2 {
            bytes.resize(bytes.len() + CHUNK, 0);
        }
    }
    bytes.truncate(len);
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::{Child, Command, Stdio};

    fn child() -> Child {
        Command::new("sleep").arg("60").stdout(Stdio::null()).spawn().expect("a process")
    }

    fn end(mut child: Child) {
        child.kill().and_then(|()| child.wait()).expect("an end");
    }

    #[test]
    fn a_file_is_read_as_it_is_now() {
        let (files, proc) = (OpenFiles::new(), Path::new("/proc"));
        let uptime = || files.read(proc, "uptime").expect("a file");
        let first = uptime();
        while uptime() == first {}
        // Longer than a read.
        let symbols = files.read(proc, "kallsyms").expect("a file");
        assert_eq!(symbols.len(), std::fs::read("/proc/kallsyms").expect("a file").len());
        assert_eq!(files.files.lock().expect("a lock").len(), 2);
        assert_eq!(
            files.read(proc, "no such file").map_err(|error| error.kind()),
            Err(io::ErrorKind::NotFound)
        );
    }

    #[test]
    fn of_a_process_that_has_ended_nothing_is_read_and_others_have_its_room() {
        let (files, proc) = (OpenFiles { room: 2, ..OpenFiles::new() }, Path::new("/proc"));
        let (one, other) = (child(), child());
        let [of_one, of_other] = [&one, &other].map(|child| format!("{}/stat", child.id()));
        let is_open = |name: &str| files.files.lock().expect("a lock").contains_key(name);
        for name in ["stat", &of_one, &of_other] {
            assert!(!files.read(proc, name).expect("a file").is_empty());
        }
        assert!(is_open("stat") && is_open(&of_one) && !is_open(&of_other));
        let (ended, there) = (one.id(), HashSet::from([other.id()]));
        end(one);
        assert!(files.read(proc, &format!("{ended}/stat")).is_err() && !is_open(&of_one));
        assert!(!files.read(proc, &of_other).expect("a file").is_empty() && is_open(&of_other));
        files.close_all_but(&there);
        assert!(is_open("stat") && is_open(&of_other));
        end(other);
        files.close_all_but(&HashSet::new());
        assert!(is_open("stat") && !is_open(&of_other));
    }
}
