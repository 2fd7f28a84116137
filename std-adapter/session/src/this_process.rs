//! Tracks of processes and threads, told apart across containers.

use std::fs;
use std::path::Path;

use tracebuf::producer::track_event::Track;
use tracebuf_std::process;

use crate::thread_identity::ThreadIdentity;

/// Returns this program's own track, which contains its threads.
///
/// Tracks of the same name are one, and slices on them end each other, whichever program began them; a track within
/// this one belongs to no other program.
///
/// ```
/// use tracebuf_session::{Session, Track, Unit, this_process};
///
/// let session = Session::builder().process_name("server").start()?;
/// let process = this_process();
/// session.recorder().count(&Track::counter("queue depth", Unit::Count).within(&process), 7);
/// # Ok::<(), tracebuf_session::SessionError>(())
/// ```
///
/// Its id is made from the process's number and, on Linux in a container, that of its pid namespace: a child after a
/// fork must make its tracks anew. Its name is what a session or a connection was given first, or else the program's.
/// Cost: a system call.
pub fn this_process() -> Track<'static> {
    process_track(std::process::id(), process::name())
}

/// The track of a process of this one's pid namespace.
pub fn process_track(pid: u32, name: &str) -> Track<'_> {
    in_namespace(process::pid_namespace(), Track::process(pid, name))
}

/// The number from which a process makes its own track: for one in a container, the number that it has there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProcessNumber {
    namespace: u32,
    pid: u32,
}

impl ProcessNumber {
    /// The number of a process, by what it is in this one's pid namespace. If `/proc` does not tell more, as of another
    /// user's, that is it. Cost: two system calls; five for one in a container.
    pub fn of(pid: u32) -> Self {
        let proc = Path::new("/proc");
        numbers_in(proc, pid).unwrap_or(Self { namespace: process::pid_namespace(), pid })
    }

    /// The process's track.
    pub fn track(self, name: &str) -> Track<'_> {
        in_namespace(self.namespace, Track::process(self.pid, name))
    }
}

/// What a process in a pid namespace within this one's has there.
fn numbers_in(proc: &Path, pid: u32) -> Option<ProcessNumber> {
    let folder = proc.join(pid.to_string());
    // A link to a name such as pid:[4026531836].
    let namespace = |process: &Path| {
        let link = fs::read_link(process.join("ns/pid")).ok()?;
        let number = link.to_str()?.strip_prefix("pid:[")?.strip_suffix(']')?.parse::<u64>().ok()?;
        Some(number as u32)
    };
    let (its, own) = (namespace(&folder)?, namespace(&proc.join("self"))?);
    if its == own {
        return None;
    }
    let status = fs::read_to_string(folder.join("status")).ok()?;
    let numbers = status.lines().find_map(|line| line.strip_prefix("NSpid:"))?;
    let mut numbers = numbers.split_ascii_whitespace().map_while(|number| number.parse::<u32>().ok());
    // With a `/proc` of another namespace they would be those of other processes.
    let (first, inner) = (numbers.next()?, numbers.last()?);
    (first == pid).then_some(ProcessNumber { namespace: its, pid: inner })
}

/// The track of a thread of this process.
pub(crate) fn thread_track(thread: ThreadIdentity, name: &str) -> Track<'_> {
    let track = Track::thread(std::process::id(), thread.number(), name);
    let track = in_namespace(process::pid_namespace(), track);
    if thread.reuse == 0 { track } else { track.numbered(thread.reuse) }
}

/// Tells processes and threads of containers from those of the system, 0, that have the same numbers.
fn in_namespace(namespace: u32, track: Track<'_>) -> Track<'_> {
    if namespace == 0 { track } else { track.numbered(namespace.into()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn processes_and_threads_of_containers_are_not_those_of_the_system_with_the_same_numbers() {
        let namespaces = [0, 0xF000_0007, 0xF000_0008];
        let processes = namespaces.map(|namespace| in_namespace(namespace, Track::process(1, "init")).uuid());
        let threads = namespaces.map(|namespace| in_namespace(namespace, Track::thread(1, 1, "main")).uuid());
        let all: std::collections::BTreeSet<_> = processes.iter().chain(&threads).collect();
        assert_eq!(all.len(), 6);
        // As any program knows them.
        assert_eq!(ProcessNumber { namespace: namespaces[1], pid: 1 }.track("").uuid(), processes[1]);
        assert_eq!(processes[0], Track::process(1, "").uuid());
        assert_eq!(threads[0], Track::thread(1, 1, "").uuid());
    }

    #[test]
    fn of_a_process_in_a_container_the_number_there_is_found() {
        let proc = std::env::temp_dir().join(format!("tracebuf-numbers-{}", std::process::id()));
        let says = |process: &str, namespace: &str, numbers: &str| {
            fs::create_dir_all(proc.join(process).join("ns")).expect("a folder");
            fs::write(
                proc.join(process).join("status"),
                format!("Name:\tx\nNSpid:\t{numbers}\nThreads:\t1\n"),
            )
            .expect("a file");
            #[cfg(unix)]
            std::os::unix::fs::symlink(namespace, proc.join(process).join("ns/pid")).expect("a link");
            #[cfg(not(unix))]
            let _ = namespace;
        };
        says("self", "pid:[4026531836]", "9");
        says("10", "pid:[4026531836]", "10");
        says("11", "pid:[4026532000]", "11\t5\t1");
        says("12", "pid:[4026532000]", "12");
        says("13", "pid:[4026532000]", "14\t2");
        says("15", "nonsense", "15\t1");
        let found = [10, 11, 12, 13, 15, 99].map(|pid| numbers_in(&proc, pid));
        let there = ProcessNumber { namespace: 4_026_532_000, pid: 1 };
        let there = cfg!(unix).then_some(there);
        fs::remove_dir_all(&proc).expect("it is there");
        assert_eq!(found, [None, there, None, None, None, None]);
        let own = std::process::id();
        assert_eq!(ProcessNumber::of(own).track("").uuid(), process_track(own, "").uuid());
    }
}
