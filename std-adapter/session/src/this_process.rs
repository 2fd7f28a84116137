//! Tracks of processes and threads, told apart across containers.

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
        assert_eq!(processes[0], Track::process(1, "").uuid());
        assert_eq!(threads[0], Track::thread(1, 1, "").uuid());
    }
}
