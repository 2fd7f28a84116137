//! Files that appear when they are complete, and locks.

use std::fs::{self, File};
use std::io::{self, Write};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::mpsc::channel;
use std::time::Duration;

use rustix::fs::{FlockOperation, flock};
use tracebuf_std::file_lock::{Lock, lock, lock_within};
use tracebuf_std::whole_file::{check_writable, write_atomically};

pub(crate) fn folder(name: &str) -> PathBuf {
    let folder = std::env::temp_dir().join(format!("tracebuf-{name}-{}", std::process::id()));
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(&folder).expect("a folder");
    folder
}

#[test]
fn parts_that_a_killed_process_of_the_same_number_left_are_in_nobody_s_way() {
    let folder = folder("parts");
    for count in 0..64 {
        let part = format!(".x.pftrace.{}-{count}.part", std::process::id());
        fs::write(folder.join(part), "half a trace").expect("a file");
    }
    let path = folder.join("x.pftrace");
    check_writable(&path).expect("a place for a file");
    write_atomically(&path, |file| file.write_all(b"a trace")).expect("a file");
    assert_eq!(fs::read_dir(&folder).expect("the folder").count(), 65);
    fs::remove_dir_all(&folder).expect("it is there");
}

/// Does something as an unprivileged user, if this one is privileged.
#[cfg(target_os = "linux")]
fn as_anybody<T: Send>(act: impl FnOnce() -> T + Send) -> T {
    let other = rustix::process::Uid::from_raw(65_534);
    std::thread::scope(|scope| {
        let thread = scope.spawn(|| {
            if rustix::process::geteuid().is_root() {
                // Only this thread.
                rustix::thread::set_thread_res_uid(other, other, other).expect("root may");
            }
            act()
        });
        thread.join().expect("no panic")
    })
}

#[cfg(target_os = "linux")]
#[test]
fn a_file_that_is_protected_against_writing_is_not_to_be_replaced() {
    let folder = folder("protected");
    let path = folder.join("out");
    fs::write(&path, "to be kept").expect("a file");
    for (path, mode) in [(&folder, 0o777), (&path, 0o444)] {
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).expect("it is the test's own");
    }
    let error = as_anybody(|| check_writable(&path)).expect_err("it may only be read");
    assert_eq!(error.kind(), io::ErrorKind::PermissionDenied);
    fs::set_permissions(&path, fs::Permissions::from_mode(0o666)).expect("it is the test's own");
    as_anybody(|| check_writable(&path)).expect("it may be written");
    fs::remove_dir_all(&folder).expect("it is there");
}

#[test]
fn a_whole_file_that_cannot_have_its_name_stays_under_another_which_the_error_tells() {
    let folder = folder("renamed");
    let path = folder.join("out");
    let error = write_atomically(&path, |file| {
        // Whatever prevents the renaming: a mount there, or somebody else's file in a folder like /tmp.
        fs::create_dir(&path)?;
        file.write_all(b"a recording")
    });
    let error = error.expect_err("a folder has the name");
    assert_eq!(error.kind(), io::ErrorKind::IsADirectory);
    let entries = fs::read_dir(&folder).expect("the folder").map(|entry| entry.expect("an entry").path());
    let part = entries.filter(|entry| *entry != path).collect::<Vec<_>>();
    assert_eq!(part.len(), 1, "{part:?}");
    assert!(error.to_string().contains(&format!("all of it is in {},", part[0].display())), "{error}");
    assert_eq!(fs::read(&part[0]).expect("a file"), b"a recording");
    fs::remove_dir_all(&folder).expect("it is there");
}

#[test]
fn a_folder_that_has_taken_the_name_meanwhile_costs_nothing_of_what_was_recorded() {
    let folder = folder("taken");
    let path = folder.join("out");
    check_writable(&path).expect("a place for a file");
    fs::create_dir(&path).expect("a folder");
    let error = write_atomically(&path, |file| file.write_all(b"a recording")).expect_err("it is a folder");
    assert!(error.to_string().contains("all of it is in"), "{error}");
    let entries = fs::read_dir(&folder).expect("the folder").map(|entry| entry.expect("an entry").path());
    let part = entries.filter(|entry| *entry != path).collect::<Vec<_>>();
    assert_eq!(fs::read(&part[0]).expect("a file"), b"a recording");
    assert_eq!(fs::metadata(&part[0]).expect("it is there").mode() & 0o111, 0, "no mode of a folder's");
    fs::remove_dir_all(&folder).expect("it is there");
}

#[test]
fn of_a_file_that_could_not_be_written_nothing_stays() {
    let folder = folder("unwritten");
    let result = write_atomically(&folder.join("out"), |file| {
        file.write_all(b"half a recording")?;
        Err::<(), _>(io::Error::other("the disk is full"))
    });
    assert_eq!(result.expect_err("an error").to_string(), "the disk is full");
    assert_eq!(fs::read_dir(&folder).expect("the folder").count(), 0);
    fs::remove_dir_all(&folder).expect("it is there");
}

#[test]
fn a_file_that_takes_another_s_place_has_its_mode() {
    let folder = folder("mode");
    let path = folder.join("out");
    for mode in [0o600, 0o666] {
        fs::write(&path, "private").expect("a file");
        fs::set_permissions(&path, fs::Permissions::from_mode(mode)).expect("it is there");
        let mode_of = |file: fs::Metadata| file.mode() & 0o7777;
        write_atomically(&path, |file| {
            assert_eq!(mode_of(file.metadata()?), mode, "from the beginning");
            file.write_all(b"a recording")
        })
        .expect("a file");
        assert_eq!(mode_of(fs::metadata(&path).expect("it is there")), mode);
        assert_eq!(fs::read(&path).expect("it is there"), b"a recording");
    }
    fs::remove_dir_all(&folder).expect("it is there");
}

#[test]
fn a_name_may_be_as_long_as_a_name_can_be() {
    let folder = folder("long");
    for name in ["n".repeat(255), "ä".repeat(127), format!("n{}", "ä".repeat(127))] {
        let path = folder.join(&name);
        check_writable(&path).expect("a place for a file");
        write_atomically(&path, |file| {
            let parts = fs::read_dir(&folder)?.map(|entry| entry.expect("an entry").file_name());
            let part = parts.map(|part| part.into_string().expect("whole characters"));
            let part = part.filter(|part| part.ends_with(".part")).collect::<String>();
            assert!((100..150).contains(&part.len()), "{part}");
            file.write_all(b"a recording")
        })
        .expect("a file");
        assert_eq!(fs::read(&path).expect("it is there"), b"a recording");
    }
    fs::remove_dir_all(&folder).expect("it is there");
}

#[test]
fn a_path_that_can_only_be_a_folder_is_refused_before_anything_is_written() {
    let folder = folder("slash");
    fs::write(folder.join("file"), "there before").expect("a file");
    std::os::unix::fs::symlink("nothing/", folder.join("link")).expect("a link");
    for name in ["nothing/", "nothing//", "nothing/.", "file/", "link"] {
        let path = folder.join(name);
        let errors = [check_writable(&path), write_atomically(&path, |_| panic!("nothing is to be written"))];
        for error in errors.map(|result| result.expect_err(name)) {
            assert_eq!(error.kind(), io::ErrorKind::InvalidInput, "{name}");
            assert!(error.to_string().ends_with("names no file"), "{name}: {error}");
        }
    }
    assert_eq!(fs::read_dir(&folder).expect("the folder").count(), 2);
    fs::remove_dir_all(&folder).expect("it is there");
}

#[test]
fn a_file_that_was_removed_by_the_one_who_had_the_lock_is_not_taken() {
    let path = std::env::temp_dir().join(format!("tracebuf-removed-{}", std::process::id()));
    let file = File::create(&path).expect("a file");
    let other = Lock::new(&file, &path).expect("it is free");
    std::thread::scope(|scope| {
        let late = scope.spawn(|| Lock::new(&file, &path).is_err());
        std::thread::sleep(Duration::from_millis(3));
        std::fs::remove_file(&path).expect("it is there");
        drop(other);
        assert!(late.join().expect("no panic"));
    });
}

#[test]
fn a_file_that_was_locked_for_a_moment_is_free_though_a_child_of_that_moment_lives_on() {
    let path = std::env::temp_dir().join(format!("tracebuf-lock-{}", std::process::id()));
    let file = File::create(&path).expect("a file");
    let other = File::open(&path).expect("a file");
    std::fs::remove_file(path).expect("it is there");
    let held = lock(&file).expect("it is free");
    // What a child has is the same open file.
    let child_s = file.try_clone().expect("a file");
    assert!(lock(&other).is_err());
    drop(held);
    drop(file);
    assert!(lock(&other).is_ok());
    drop(child_s);
}

#[test]
fn a_file_is_taken_though_somebody_asks_just_then_whether_it_is_free() {
    let path = std::env::temp_dir().join(format!("tracebuf-asked-{}", std::process::id()));
    let file = File::create(&path).expect("a file");
    // Far longer than who asks has it, even on a machine that is busy with other things.
    const PATIENCE: Duration = Duration::from_secs(30);
    let takes: [fn(&File, &Path) -> bool; 2] = [
        |file, path| Lock::within(PATIENCE, file, path).is_ok(),
        |file, _| lock_within(PATIENCE, file).is_ok(),
    ];
    for take in takes {
        let (asks, asked) = channel();
        let asking = File::open(&path).expect("a file");
        std::thread::scope(|scope| {
            scope.spawn(move || {
                flock(&asking, FlockOperation::NonBlockingLockShared).expect("nobody has it");
                asks.send(()).expect("the test waits");
                std::thread::sleep(Duration::from_millis(3));
                flock(&asking, FlockOperation::Unlock).expect("it is locked");
            });
            asked.recv().expect("it is locked");
            assert!(take(&file, &path));
        });
    }
    std::fs::remove_file(path).expect("it is there");
}
