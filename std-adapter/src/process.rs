//! The current process, tracked across forks: its name, its number, and the namespace that this counts in.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard};

use crate::fork::forks;
use crate::system;

/// This process's name, kept for ever: the one that it was [given](named) first, or else its program's.
pub fn name() -> &'static str {
    let pid = std::process::id();
    let known = names_of(pid).and_then(|names| names.given.or(names.program));
    // Not while they are locked: a traced allocator may come here again.
    known.unwrap_or_else(|| {
        let name = program_name();
        names_of(pid).map_or("process", |mut names| names.program.get_or_insert_with(|| name.leak()))
    })
}

/// The number of the pid namespace, such as a container's, that this process's id belongs to; 0 in the system's own.
/// Asked for once, and again after a fork: `/proc` may be out of reach later, and tracks must keep their ids.
#[inline]
pub fn pid_namespace() -> u32 {
    static KNOWN: UntilFork = UntilFork::new();
    // Linux gives them numbers of 32 bits.
    KNOWN.get(|| system::pid_namespace() as u32)
}

/// The given name, which the process keeps from now on unless it keeps one already; without it, the one that is kept,
/// or else the program's.
pub fn named(given: Option<&str>) -> String {
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
    let mut names = (0..1000).find_map(|_| KNOWN.try_lock().map_err(|_| std::thread::yield_now()).ok())?;
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
#[derive(Debug, Default)]
pub struct UntilFork(AtomicU64);

impl UntilFork {
    /// Not asked for yet.
    pub const fn new() -> Self {
        Self(AtomicU64::new(0))
    }

    /// The number; `ask` tells it the first time.
    #[inline]
    pub fn get(&self, ask: impl FnOnce() -> u32) -> u32 {
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
