//! Tracks of this system's processes and threads, told apart where several containers record into one trace.

use std::sync::OnceLock;

use tracebuf::producer::track_event::Track;

use crate::system::pid_namespace;

/// This program's own track, in which its threads lie.
///
/// What several programs record into one trace, by a [`Connection`](crate::session::Connection), is told apart by its
/// track: those of one name are one, and slices there end each other, whichever program has begun them. A track within
/// this one is no other program's.
///
/// ```
/// use std::sync::LazyLock;
/// use tracebuf_std::session::{Session, Track, Unit, this_process};
///
/// static PROCESS: LazyLock<Track<'static>> = LazyLock::new(this_process);
/// static DEPTH: LazyLock<Track<'static>> =
///     LazyLock::new(|| Track::counter("queue depth", Unit::Count).within(&PROCESS));
///
/// let session = Session::builder().process_name("server").start()?;
/// let recorder = session.recorder();
/// recorder.count(&DEPTH, 7);
/// let track = Track::custom("requests").within(&PROCESS).numbered(17);
/// recorder.on(&track).instant("accepted");
/// # session.stop()?;
/// # Ok::<(), tracebuf_std::session::SessionError>(())
/// ```
///
/// Its id is made of the process's number, and in a container of the number of that (Linux's namespace of pids), in which
/// others may be numbered alike. A child after a fork is another process. It has the name of the process that was given
/// first, to a session or a connection; before that, the program's.
///
/// Cost: two system calls.
pub fn this_process() -> Track<'static> {
    static PROGRAM: OnceLock<String> = OnceLock::new();
    let name = NAME.get().unwrap_or_else(|| PROGRAM.get_or_init(program_name));
    PidNamespace::here().process(std::process::id(), name)
}

/// As a session or a connection has named it.
static NAME: OnceLock<String> = OnceLock::new();

/// This process is named so from now on, unless it has a name.
pub(crate) fn name_process(name: &str) {
    NAME.get_or_init(|| name.to_owned());
}

/// The program's file name, or `process` if it has none.
pub(crate) fn program_name() -> String {
    let program = std::env::args_os().next();
    let name = program.as_deref().map(std::path::Path::new).and_then(std::path::Path::file_name);
    name.map_or_else(|| "process".to_owned(), |name| name.to_string_lossy().into_owned())
}

/// What numbers of processes and threads belong to: 0 is the system itself, any other a container.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PidNamespace(u64);

impl PidNamespace {
    /// That of this process.
    pub(crate) fn here() -> Self {
        Self(pid_namespace())
    }

    pub(crate) fn process(self, pid: u32, name: &str) -> Track<'_> {
        self.told_apart(Track::process(pid, name))
    }

    pub(crate) fn thread(self, pid: u32, tid: u32, name: &str) -> Track<'_> {
        self.told_apart(Track::thread(pid, tid, name))
    }

    fn told_apart(self, track: Track<'_>) -> Track<'_> {
        if self.0 == 0 { track } else { track.numbered(self.0) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn processes_and_threads_of_containers_are_not_those_of_the_system_with_the_same_numbers() {
        let namespaces = [0, 0xF000_0007, 0xF000_0008].map(PidNamespace);
        let processes = namespaces.map(|namespace| namespace.process(1, "init").uuid());
        let threads = namespaces.map(|namespace| namespace.thread(1, 1, "main").uuid());
        let all: std::collections::BTreeSet<_> = processes.iter().chain(&threads).collect();
        assert_eq!(all.len(), 6);
        // As any program knows them.
        assert_eq!(processes[0], Track::process(1, "").uuid());
        assert_eq!(threads[0], Track::thread(1, 1, "").uuid());
    }
}
