//! Producers in a container, that is, in a pid namespace of their own, as `/proc` tells.

use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use tracebuf_session::parts::{Presence, ProcessTree, TreeProcess, TreeThread};

/// Where the system reports processes.
pub(crate) const PROC: &str = "/proc";

/// Most bytes of a command line: the other process makes it, of megabytes if it likes.
const COMMAND_LINE: u64 = 4096;

/// Most threads of a process that are looked at: the first, in the order in which they began.
const THREADS: usize = 4096;

/// How long it may take to look at one process's threads: this much at once, and a tenth of the time. A process with a
/// few threads takes some 0.1 ms, and is looked at again with each new writer.
const AT_ONCE: Duration = Duration::from_millis(50);

/// A process in a container, whose threads are reported as they begin to record.
///
/// Looking at them takes time from hearing its own messages, and from no other process.
pub(crate) struct NamespacedProcess {
    folder: PathBuf,
    tree: ProcessTree,
    presence: Presence,
    since: Instant,
    /// Time that looking took so far.
    taken: Duration,
    /// Whether writers have come since it was looked at.
    is_due: bool,
}

impl NamespacedProcess {
    /// Reports a process that may record from this boot time on; `None` for one in this process's own namespace, and
    /// where `/proc` does not say.
    pub(crate) fn of(proc: &Path, pid: i32, time: u64, tree: &ProcessTree) -> Option<Self> {
        // With a `/proc` of another namespace than this process's, such as the machine's mounted in a container, the
        // numbers would be those of other processes. This process then has more than one number, or none.
        let own = Status::read(&proc.join("self"))?;
        let (pid, folder) = (u32::try_from(pid).ok()?, proc.join(pid.to_string()));
        let status = Status::read(&folder)?;
        let (first, inner) = status.numbers.split_first()?;
        if own.numbers.len() != 1 || *first != pid || inner.is_empty() {
            return None;
        }
        let process = TreeProcess {
            pid,
            ppid: status.ppid,
            uid: status.uid,
            nspid: inner.to_vec(),
            command_line: read(&folder.join("cmdline"), COMMAND_LINE).unwrap_or_default(),
            name: status.name,
        };
        let (tree, presence) = (tree.clone(), tree.come(process, time));
        let (since, taken) = (Instant::now(), Duration::ZERO);
        let mut contained = Self { folder, tree, presence, since, taken, is_due: true };
        contained.look_if_due();
        Some(contained)
    }

    /// A new writer has come, usually with a new thread.
    pub(crate) fn has_new_writer(&mut self) {
        self.is_due = true;
    }

    /// Called with each message, and so with each answer to a flush, after which a trace is written: what had to wait
    /// is then in that.
    pub(crate) fn look_if_due(&mut self) {
        if self.is_due && self.taken <= AT_ONCE + self.since.elapsed() / 10 {
            let begin = Instant::now();
            self.look();
            self.taken += begin.elapsed();
            self.is_due = false;
        }
    }

    fn look(&self) {
        let folder = self.folder.join("task");
        let Ok(entries) = std::fs::read_dir(&folder) else { return };
        let numbers =
            entries.take(THREADS).filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
        let mut threads: Vec<u32> = numbers.collect();
        threads.sort_unstable();
        let new = self.tree.unknown(&self.presence, &threads);
        let thread = |tid: u32| {
            let Status { name, numbers, .. } = Status::read(&folder.join(tid.to_string()))?;
            let (first, inner) = numbers.split_first()?;
            // A thread without numbers of its own is not reported: it has ended meanwhile.
            (*first == tid && !inner.is_empty()).then(|| TreeThread { tid, nstid: inner.to_vec(), name })
        };
        let new: Vec<_> = new.into_iter().filter_map(thread).collect();
        if !new.is_empty() {
            self.tree.add(&self.presence, &threads, new);
        }
    }
}

/// What `status` says about a process or a thread.
#[derive(Debug, Default, PartialEq, Eq)]
struct Status {
    name: String,
    ppid: u32,
    uid: u32,
    /// Its number in the namespace of `/proc`, and in each one within that, the outermost first. Linux has this since
    /// 4.1.
    numbers: Vec<u32>,
}

impl Status {
    /// The status in this folder of a process or thread.
    fn read(folder: &Path) -> Option<Self> {
        // With everything that a kernel may say it has some 1,500 bytes.
        read(&folder.join("status"), 64 << 10).ok().map(|text| Self::parse(&text))
    }

    fn parse(text: &str) -> Self {
        let mut status = Self::default();
        for (key, value) in text.lines().filter_map(|line| line.split_once(':')) {
            let mut numbers = value.split_ascii_whitespace().map_while(|number| number.parse().ok());
            match key {
                "Name" => value.trim().clone_into(&mut status.name),
                "PPid" => status.ppid = numbers.next().unwrap_or(0),
                // The real one is the first of four.
                "Uid" => status.uid = numbers.next().unwrap_or(u32::MAX),
                "NSpid" => status.numbers = numbers.collect(),
                _ => {}
            }
        }
        status
    }
}

/// A file's text, at most this many bytes; what is not UTF-8 is replaced.
fn read(path: &Path, most: u64) -> io::Result<String> {
    let mut bytes = Vec::new();
    File::open(path)?.take(most).read_to_end(&mut bytes)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

#[cfg(test)]
mod tests;
