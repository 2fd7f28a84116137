//! Forks, signals, the process's name, and memory.

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use tracebuf_std::fork::{self, ClosedInChildren};
use tracebuf_std::process::{name, named};
use tracebuf_std::signals::SignalWatches;
use tracebuf_std::{PagedMemory, line};

/// Returns true if `work` does in a child. One that hangs ends with SIGALRM after 10 s.
fn in_child(work: impl FnOnce() -> bool) -> bool {
    // SAFETY: the child only does what the tests here are about, and ends without unwinding or exit handlers.
    let child = unsafe { libc::fork() };
    if child == 0 {
        // SAFETY: neither call has conditions.
        unsafe {
            libc::alarm(10);
            libc::_exit(i32::from(!work()))
        }
    }
    let mut status = 0;
    // SAFETY: the pointer is to a local number.
    unsafe { libc::waitpid(child, &mut status, 0) == child && status == 0 }
}

#[test]
fn children_close_as_many_as_a_service_with_many_producers_has() {
    let open = || ClosedInChildren::new(File::open("/dev/null").expect("it is there"));
    let files: Vec<_> = (0..600).map(|_| open()).collect();
    let numbers: Vec<_> = files.iter().map(|file| file.get().expect("it is here").as_raw_fd()).collect();
    let are_open = |is_open: bool| {
        // SAFETY: the call only asks.
        numbers.iter().all(|number| (unsafe { libc::fcntl(*number, libc::F_GETFD) } != -1) == is_open)
    };
    assert!(are_open(true));
    assert!(in_child(|| are_open(false) && files.iter().all(|file| file.get().is_err())));
}

#[test]
fn a_child_may_watch_signals_though_other_threads_were_about_to() {
    fork::watch();
    let (begun, forked) = (Barrier::new(3), AtomicBool::new(false));
    let watches = |signal| {
        let watches = SignalWatches::default();
        let is_watched = watches.watch_before_end(&[signal], |_| ()).is_ok();
        watches.end();
        is_watched
    };
    thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                begun.wait();
                while !forked.load(Ordering::Relaxed) {
                    assert!(watches(libc::SIGWINCH));
                }
            });
        }
        begun.wait();
        let done = (0..20).filter(|_| in_child(|| watches(libc::SIGURG))).count();
        forked.store(true, Ordering::Relaxed);
        // One in thousands waits for ever for a lock of the standard library's own, which a thread that was starting had.
        assert!(done >= 18, "{done}");
    });
}

#[test]
fn a_process_has_the_name_that_it_was_given_first() {
    let before = name();
    assert_eq!((named(None), name()), (before.to_owned(), before), "that is none");
    assert_eq!(named(Some("first")), "first");
    assert_eq!(named(Some("second")), "second");
    assert_eq!((named(None), name()), ("first".to_owned(), "first"));
}

#[test]
fn who_may_not_use_a_port_hears_who_may() {
    let root = "/".as_ref();
    let said = |error: io::Error| line::explained(root, line::kind_of(root), error).to_string();
    assert!(said(io::ErrorKind::PermissionDenied.into()).contains("denied: serial ports are for those in"));
    assert!(!said(io::ErrorKind::NotFound.into()).contains("group"));
}

#[test]
fn a_region_of_no_bytes_is_an_empty_slice() {
    assert!(PagedMemory::new(0).expect("no bytes").as_ref().is_empty());
}

#[test]
fn a_size_beyond_the_address_space_is_an_error() {
    assert!(PagedMemory::new(usize::MAX).is_err());
}

#[test]
fn the_address_stays_when_the_value_moves() {
    let memory = PagedMemory::new(4096).expect("one page");
    let before = memory.as_ref().as_ptr();
    let moved = Box::new(memory);
    assert_eq!(before, (*moved).as_ref().as_ptr());
}
