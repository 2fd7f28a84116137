//! Tracks of this system's processes and threads, told apart when several containers record into one trace.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard};

use tracebuf::producer::track_event::Track;

use crate::fork::forks;
use crate::system::pid_namespace;

/// Returns this program's own track, which contains its threads.
///
/// Programs that record into one trace, through a [`Connection`](crate::session::Connection), are told apart by this
/// track. Tracks with the same name are one, and slices on them end each other, whichever program began them; a track
/// within this one belongs to no other program.
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
/// Its id is made from the process's number and, in a container, the number of its pid namespace (on Linux), because
/// other containers may use the same process numbers. A child after a fork is another process, which must make tracks
/// within this one anew. The track has the name that a session or a connection was given first or, before that, the
/// program's.
///
/// Cost: a system call, and on Linux another one the first time.
pub fn this_process() -> Track<'static> {
    let pid = std::process::id();
    let known = names_of(pid).and_then(|names| names.given.or(names.program));
    // Not while they are locked: a traced allocator may come here again.
    let name = known.unwrap_or_else(|| {
        let name = program_name();
        names_of(pid).map_or("process", |mut names| names.program.get_or_insert_with(|| name.leak()))
    });
    PidNamespace::here().process(pid, name)
}

/// The name that a session or a connection uses for this process: the one it was given, which the process keeps from
/// now on unless it was given one before, or else the one that is kept, or else the program's.
pub(crate) fn named(given: Option<&str>) -> String {
    let Some(name) = given else {
        let kept = names_of(std::process::id()).and_then(|names| names.given);
        return kept.map_or_else(program_name, str::to_owned);
    };
    let kept = name.to_owned();
    if let Some(mut names) = names_of(std::process::id()) {
        names.given.get_or_insert_with(|| kept.leak());
    }
    name.to_owned()
}

/// A process's names, kept for ever: one that it was given, and its program's.
struct Names {
    pid: u32,
    given: Option<&'static str>,
    program: Option<&'static str>,
}

/// Those of this process. Does not wait long: in a child, one of the parent's threads may have held the lock.
fn names_of(pid: u32) -> Option<MutexGuard<'static, Names>> {
    static KNOWN: Mutex<Names> = Mutex::new(Names { pid: 0, given: None, program: None });
    let mut names = (0..1000).find_map(|_| {
        let names = KNOWN.try_lock().ok();
        if names.is_none() {
            std::thread::yield_now();
        }
        names
    })?;
    if names.pid != pid {
        *names = Names { pid, given: None, program: None };
    }
    Some(names)
}

/// The program's file name, or `process` if it has none.
fn program_name() -> String {
    let program = std::env::args_os().next();
    let name = program.as_deref().map(std::path::Path::new).and_then(std::path::Path::file_name);
    name.map_or_else(|| "process".to_owned(), |name| name.to_string_lossy().into_owned())
}

/// A number of this process that is asked for once, and again after a fork.
pub(crate) struct UntilFork(AtomicU64);

impl UntilFork {
    pub(crate) const fn new() -> Self {
        Self(AtomicU64::new(0))
    }

    #[inline]
    pub(crate) fn get(&self, ask: impl FnOnce() -> u32) -> u32 {
        // The upper half says in which process it was asked for; 0 is none.
        let (known, forks) = (self.0.load(Ordering::Relaxed), u64::from(forks()) + 1);
        if known >> 32 == forks {
            return known as u32;
        }
        let number = ask();
        self.0.store(forks << 32 | u64::from(number), Ordering::Relaxed);
        number
    }
}

/// The namespace of process and thread numbers: 0 is the system itself, any other a container.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PidNamespace(u32);

impl PidNamespace {
    /// That of this process. Asked for once, and again after a fork: `/proc` may be out of reach later, and tracks must
    /// keep their ids.
    pub(crate) fn here() -> Self {
        static KNOWN: UntilFork = UntilFork::new();
        // Linux gives them numbers of 32 bits.
        Self(KNOWN.get(|| pid_namespace() as u32))
    }

    pub(crate) fn process(self, pid: u32, name: &str) -> Track<'_> {
        self.told_apart(Track::process(pid, name))
    }

    pub(crate) fn thread(self, pid: u32, tid: u32, name: &str) -> Track<'_> {
        self.told_apart(Track::thread(pid, tid, name))
    }

    fn told_apart(self, track: Track<'_>) -> Track<'_> {
        if self.0 == 0 { track } else { track.numbered(self.0.into()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_has_the_name_that_it_was_given_first() {
        let told = |process: Track<'_>| format!("{process:?}");
        // Other tests in this process may have given it one.
        let before = told(this_process());
        assert!(before.contains(&named(None)), "{before}");
        assert_eq!(told(this_process()), before, "that is none");
        assert_eq!(named(Some("first")), "first");
        let first = told(this_process());
        assert_eq!(named(Some("second")), "second");
        assert_eq!(told(this_process()), first);
        assert!(first.contains(&named(None)), "{first}");
        assert_eq!(this_process().uuid(), PidNamespace::here().process(std::process::id(), "").uuid());
    }

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
