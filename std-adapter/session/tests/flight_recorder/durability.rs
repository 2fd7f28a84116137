//! What of a snapshot has reached the disk by when: the calls that see to it are recorded on their way to the system.

use std::cell::RefCell;
use std::fs;

use super::*;

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
        let _ = SYNCED.try_with(|synced| synced.borrow_mut().push((name, len)));
    }
    // SAFETY: any number is a file or an error.
    unsafe { libc::syscall(libc::SYS_fsync, file) as i32 }
}

#[test]
fn a_snapshot_is_on_the_disk_before_it_has_its_name_and_then_the_name_is() {
    let (session, folder) = (session(), folder("durable").canonicalize().expect("it is there"));
    let recorder = FlightRecorder::new(&session, &folder).expect("a recorder");
    let path = recorder.snapshot("panic").expect("a snapshot");
    let [(part, len), (last, _)] = &SYNCED.take()[..] else { panic!("two calls") };
    let name = path.file_name().expect("a name").to_string_lossy().into_owned();
    assert_eq!(part, &folder.join(format!(".{name}.part")));
    assert_eq!(*len, fs::metadata(&path).expect("a file").len(), "all of it");
    assert_eq!(*last, folder);
    assert!(recorder.snapshot("no folder/panic").is_err());
    assert_eq!(SYNCED.take(), []);
}
