//! What is completed before the process ends by itself: by a return from `main`, or by `std::process::exit`.
//!
//! One handler of `atexit`, for all. Its thread may have lost its locals, which channels and recorders need, so the
//! work is done on another one. A child after a fork runs the handler too, and finds nothing of its own to do. On
//! Windows, `std::process::exit` ends a process without such handlers.
#![allow(unsafe_code)]

use std::ffi::c_int;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use tracebuf_std::fork;

/// The longest that the process's end waits for all of it. Whoever takes longer is cut short, as by a kill.
const LIMIT: Duration = Duration::from_secs(10);

/// Work that is done at the process's exit, unless this is dropped before.
#[must_use]
pub(crate) struct AtExit {
    number: u64,
    forks: u32,
}

struct Work {
    number: u64,
    /// The fork count of the process whose work it is.
    forks: u32,
    act: Box<dyn FnOnce() + Send>,
}

#[derive(Default)]
struct Works {
    has_handler: bool,
    next: u64,
    list: Vec<Work>,
}

static WORKS: Mutex<Works> = Mutex::new(Works { has_handler: false, next: 0, list: Vec::new() });

/// A child after a fork may have work of its own, so none is forked while this is locked.
fn with_works<T>(f: impl FnOnce(&mut Works) -> T) -> T {
    fork::while_nobody_forks(|| f(&mut WORKS.lock().unwrap_or_else(PoisonError::into_inner)))
}

impl AtExit {
    /// Does this at the exit of this process, what came last first, on a thread that nothing else uses. Exits wait for
    /// it up to 10 s in all. It may run while this is dropped elsewhere.
    ///
    /// # Errors
    /// The system has no memory for the handler.
    pub(crate) fn new(act: impl FnOnce() + Send + 'static) -> io::Result<Self> {
        fork::watch();
        let (forks, act) = (fork::forks(), Box::new(act));
        with_works(|works| {
            // SAFETY: a function of the program, that takes nothing and does not unwind.
            if !works.has_handler && unsafe { atexit(before_exit) } != 0 {
                return Err(io::Error::other("there was no memory to be told of the process's end"));
            }
            works.has_handler = true;
            works.next += 1;
            works.list.push(Work { number: works.next, forks, act });
            Ok(Self { number: works.next, forks })
        })
    }
}

impl Drop for AtExit {
    fn drop(&mut self) {
        if self.forks != fork::forks() {
            return;
        }
        let gone = with_works(|works| {
            let at = works.list.iter().position(|work| work.number == self.number);
            at.map(|at| works.list.remove(at))
        });
        // What it owns is dropped with nothing locked.
        drop(gone);
    }
}

unsafe extern "C" {
    /// Part of every C library, with which the standard library links.
    fn atexit(handler: extern "C" fn()) -> c_int;
}

extern "C" fn before_exit() {
    // A panic must not leave this function; its message is on standard error.
    let _ = catch_unwind(do_all);
}

/// The newest work of this process that nobody has begun.
fn take_newest() -> Option<Work> {
    with_works(|works| {
        let at = works.list.iter().rposition(|work| work.forks == fork::forks());
        at.map(|at| works.list.remove(at))
    })
}

fn do_all() {
    let Some(first) = take_newest() else { return };
    let start = Instant::now();
    let all = || {
        for work in std::iter::successors(Some(first), |_| take_newest()) {
            // One that panics does not cost the others theirs.
            let _ = catch_unwind(AssertUnwindSafe(work.act));
        }
    };
    // Without a thread it stays undone: what this one can still do is not known.
    let Ok(thread) = thread::Builder::new().name("tracebuf-exit".into()).spawn(all) else { return };
    while !thread.is_finished() && start.elapsed() < LIMIT {
        thread::sleep(Duration::from_millis(1));
    }
}

#[cfg(all(test, unix))]
mod tests {
    use std::path::{Path, PathBuf};
    use std::process::{Command, ExitStatus, Stdio};

    use super::*;
    use tracebuf_testing::fork::in_child;

    /// Runs one of the tests below as a program of its own; returns what it has written, and how it has ended.
    fn child(test: &str) -> (String, ExitStatus) {
        let file = std::env::temp_dir().join(format!("tracebuf-at-exit-{}-{test}", std::process::id()));
        std::fs::write(&file, "").expect("a file");
        let status = Command::new(std::env::current_exe().expect("this program"))
            .args([&format!("at_exit::tests::{test}"), "--exact", "--ignored", "--nocapture"])
            .env("TRACEBUF_AT_EXIT", &file)
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .status()
            .expect("a child");
        let said = std::fs::read_to_string(&file).expect("a file");
        std::fs::remove_file(&file).expect("it is there");
        (said, status)
    }

    fn file() -> Option<PathBuf> {
        std::env::var_os("TRACEBUF_AT_EXIT").map(PathBuf::from)
    }

    /// Work that appends a word. It uses a channel, which needs the locals of its thread.
    fn writes(file: &Path, word: &'static str) -> AtExit {
        let file = file.to_owned();
        let act = move || {
            let (sender, receiver) = std::sync::mpsc::channel();
            thread::spawn(move || sender.send(word));
            let word = receiver.recv_timeout(Duration::from_secs(5)).expect("a word");
            let before = std::fs::read_to_string(&file).expect("a file");
            std::fs::write(&file, format!("{before}{word} ")).expect("a file");
        };
        AtExit::new(act).expect("a handler")
    }

    #[test]
    fn work_is_done_newest_first_at_a_return_from_main_and_at_an_exit_and_only_if_it_is_still_wanted() {
        for test in ["returns", "exits", "exits_elsewhere"] {
            let (said, status) = child(test);
            assert_eq!(said, "third first ", "{test}");
            assert_eq!(status.code(), Some(if test == "returns" { 0 } else { 7 }), "{test}");
        }
    }

    #[test]
    #[ignore = "run by the test above"]
    fn returns() {
        is_begun();
    }

    /// False in a run of all tests, in which nobody has asked for it.
    fn is_begun() -> bool {
        let Some(file) = file() else { return false };
        let [first, second, third] = ["first", "second", "third"].map(|word| writes(&file, word));
        drop(second);
        std::mem::forget([first, third]);
        // One that panics is no loss for those after it.
        std::mem::forget(AtExit::new(|| panic!("at the exit")));
        true
    }

    #[test]
    #[ignore = "run by a test above"]
    fn exits() {
        if is_begun() {
            std::process::exit(7);
        }
    }

    #[test]
    #[ignore = "run by a test above"]
    fn exits_elsewhere() {
        if is_begun() {
            let _ = thread::spawn(|| std::process::exit(7)).join();
        }
    }

    #[test]
    fn a_child_after_a_fork_does_its_own_work_and_not_its_parent_s() {
        let (said, status) = child("forks");
        assert_eq!((&said[..], status.code()), ("child parent ", Some(0)));
    }

    #[test]
    #[ignore = "run by the test before it"]
    fn forks() {
        let Some(file) = file() else { return };
        std::mem::forget(writes(&file, "parent"));
        let own = in_child(|| {
            std::mem::forget(writes(&file, "child"));
            // A return from `main` would be seen by the parent's test harness.
            std::process::exit(0)
        });
        // That of a child that has nothing of its own.
        assert!(own && in_child(|| std::process::exit(0)));
    }

    #[test]
    fn what_never_ends_does_not_keep_the_process() {
        let start = Instant::now();
        let (said, status) = child("never_ends");
        assert_eq!((&said[..], status.code()), ("", Some(7)));
        assert!((LIMIT..3 * LIMIT).contains(&start.elapsed()), "{:?}", start.elapsed());
    }

    #[test]
    #[ignore = "run by the test before it"]
    fn never_ends() {
        let Some(file) = file() else { return };
        std::mem::forget(writes(&file, "too late"));
        std::mem::forget(AtExit::new(|| thread::sleep(Duration::MAX)));
        std::process::exit(7);
    }
}
