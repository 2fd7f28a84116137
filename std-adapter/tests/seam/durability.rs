//! What has reached the disk by when: the calls that see to it are recorded on their way to the system.
#![allow(
    unsafe_code,
    reason = "a function of the C library is replaced by one that records and does the same"
)]

use std::cell::RefCell;
use std::fs;
use std::io::{self, Write};
use std::path::PathBuf;

use tracebuf_std::whole_file::write_atomically;

use crate::files::folder;

thread_local! {
    /// What this thread has brought to the disk: the name that it had at that moment, and its length.
    static SYNCED: RefCell<Vec<(PathBuf, u64)>> = const { RefCell::new(Vec::new()) };
}

/// The C library's `fsync`, for all of this program: [`fs::File::sync_all`] calls it by this name.
#[unsafe(no_mangle)]
extern "C" fn fsync(file: i32) -> i32 {
    let path = PathBuf::from(format!("/proc/self/fd/{file}"));
    let (name, len) = (fs::read_link(&path), fs::metadata(&path).map(|there| there.len()));
    if let (Ok(name), Ok(len)) = (name, len) {
        SYNCED.with_borrow_mut(|synced| synced.push((name, len)));
    }
    // SAFETY: any number is a file or an error.
    unsafe { libc::syscall(libc::SYS_fsync, file) as i32 }
}

fn synced() -> Vec<(PathBuf, u64)> {
    SYNCED.take()
}

#[test]
fn a_whole_file_is_on_the_disk_before_it_has_its_name_and_then_the_name_is() {
    let folder = folder("durable").canonicalize().expect("it is there");
    let path = folder.join("out");
    for round in 1..=2 {
        synced();
        write_atomically(&path, |file| file.write_all(b"a recording")).expect("a file");
        let [(part, len), (last, _)] = &synced()[..] else { panic!("two calls") };
        let name = part.file_name().expect("a name").to_string_lossy().into_owned();
        assert!(name.starts_with(".out.") && name.ends_with(".part"), "{name} in round {round}");
        assert_eq!((part.parent(), *len), (Some(folder.as_path()), 11), "all of it");
        assert_eq!(*last, folder);
    }
    // One that could not be written needs no place on the disk.
    write_atomically(&path, |_| Err::<(), _>(io::Error::other("full"))).expect_err("it is full");
    assert_eq!(synced(), []);
    fs::remove_dir_all(&folder).expect("it is there");
}
