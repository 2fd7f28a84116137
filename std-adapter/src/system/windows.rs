//! The same on Windows.
#![allow(unsafe_code)]

use std::fs::{File, Metadata, OpenOptions};
use std::io::{self, Seek, SeekFrom};
use std::os::windows::fs::OpenOptionsExt;
use std::os::windows::io::AsRawHandle;
use std::path::Path;
use std::sync::OnceLock;
use std::time::SystemTime;

use windows_sys::Win32::Foundation::ERROR_SHARING_VIOLATION;
use windows_sys::Win32::Storage::FileSystem::{
    BY_HANDLE_FILE_INFORMATION, FILE_SHARE_DELETE, FILE_SHARE_READ, FILE_STANDARD_INFO, FileStandardInfo,
    GetFileInformationByHandle, GetFileInformationByHandleEx,
};
use windows_sys::Win32::System::Performance::{QueryPerformanceCounter, QueryPerformanceFrequency};
use windows_sys::Win32::System::Threading::GetCurrentThreadId;

use crate::free_file::in_use;

/// Nobody's: users have no numbers there.
pub(crate) fn user_id() -> u32 {
    0
}

/// Processes have their numbers in one place.
pub(crate) fn pid_namespace() -> u64 {
    0
}

/// The calling thread's.
pub(crate) fn thread_id() -> u32 {
    // SAFETY: the call has no conditions.
    unsafe { GetCurrentThreadId() }
}

/// Nanoseconds since the machine started, sleep included, the same in all processes: the performance counter.
#[inline]
pub(crate) fn boot_time() -> u64 {
    let mut ticks = 0;
    // SAFETY: the pointer is to a number that this has for itself.
    unsafe { QueryPerformanceCounter(&mut ticks) };
    // It does not fail since Windows XP.
    nanoseconds(u64::try_from(ticks).unwrap_or_default(), frequency())
}

/// It is the only steady one.
pub(crate) fn steady_time() -> u64 {
    boot_time()
}

/// Nanoseconds since 1970.
pub(crate) fn time_of_day() -> u64 {
    let since = SystemTime::UNIX_EPOCH.elapsed().unwrap_or_default();
    u64::try_from(since.as_nanos()).unwrap_or(u64::MAX)
}

/// Ticks of the performance counter a second, the same as long as the machine runs.
#[inline]
fn frequency() -> u64 {
    static FREQUENCY: OnceLock<u64> = OnceLock::new();
    *FREQUENCY.get_or_init(|| {
        let mut frequency = 0;
        // SAFETY: the pointer is to a number that this has for itself.
        unsafe { QueryPerformanceFrequency(&mut frequency) };
        // It does not fail since Windows XP, and is not zero.
        u64::try_from(frequency).unwrap_or_default().max(1)
    })
}

/// So many ticks of so many a second: whole seconds and the rest each for themselves, for the product of all would be
/// more than there is room for after half an hour.
#[inline]
fn nanoseconds(ticks: u64, frequency: u64) -> u64 {
    const SECOND: u64 = 1_000_000_000;
    let rest = ticks % frequency;
    (ticks / frequency).wrapping_mul(SECOND).wrapping_add(rest.wrapping_mul(SECOND) / frequency)
}

/// What a file is known by, whatever its name.
pub(crate) type FileId = (u32, u32, u32);

/// That of one that is open.
pub(crate) fn id_of(file: &File) -> io::Result<FileId> {
    let mut about = BY_HANDLE_FILE_INFORMATION::default();
    // SAFETY: the handle is open as long as `file` is borrowed, and the pointer is to what this has for itself.
    match unsafe { GetFileInformationByHandle(file.as_raw_handle(), &mut about) } {
        0 => Err(io::Error::last_os_error()),
        _ => Ok((about.dwVolumeSerialNumber, about.nFileIndexHigh, about.nFileIndexLow)),
    }
}

/// That of one with this name.
pub(crate) fn id_at(path: &Path) -> io::Result<FileId> {
    // To be asked about, and not to be read: so it can be open to anybody.
    id_of(&OpenOptions::new().access_mode(0).open(path)?)
}

/// Whether what is written into an open file will be gone when it is closed.
pub(crate) fn is_removed(file: &File) -> bool {
    let mut about = FILE_STANDARD_INFO::default();
    let (handle, size) = (file.as_raw_handle(), size_of_val(&about) as u32);
    // SAFETY: the handle is open as long as `file` is borrowed, and what this class of information is written into is
    // one of its own type, of so many bytes, that this has for itself.
    let told =
        unsafe { GetFileInformationByHandleEx(handle, FileStandardInfo, (&raw mut about).cast(), size) };
    told != 0 && (about.DeletePending || about.NumberOfLinks == 0)
}

/// How the file of a long trace is opened: until it is closed nobody else writes into it, and that is its lock. Others
/// may read, remove and rename it. Not appending, for what does that may not cut a file; so the position has to be the
/// end, as it is where all is written in order.
pub(crate) fn for_a_trace() -> OpenOptions {
    let mut options = OpenOptions::new();
    options.write(true).share_mode(FILE_SHARE_READ | FILE_SHARE_DELETE);
    options
}

/// Cuts such a file, and goes on from there.
pub(crate) fn cut(mut file: &File, len: u64) -> io::Result<()> {
    file.set_len(len)?;
    file.seek(SeekFrom::Start(len)).map(drop)
}

/// Opens the file of a long trace that is there, or makes it.
pub(crate) fn open_at_once(path: &Path) -> io::Result<File> {
    let file = for_a_trace().create(true).open(path);
    file.map_err(|error| if is_violation(&error) { in_use() } else { error })
}

/// Whether somebody else has the file open in a way that is not to be.
fn is_violation(error: &io::Error) -> bool {
    error.raw_os_error() == Some(ERROR_SHARING_VIOLATION as i32)
}

/// Whether a session has the file, or another program lets nobody write into it.
pub(crate) fn is_locked(path: &Path) -> bool {
    OpenOptions::new().append(true).open(path).is_err_and(|error| is_violation(&error))
}

/// Who may read a file is said by its folder.
pub(crate) fn as_readable_as(_: &mut OpenOptions, _: &Metadata) {}

/// An error if what has this name is protected against writing.
pub(crate) fn check_unprotected(path: &Path) -> io::Result<()> {
    if std::fs::metadata(path)?.permissions().readonly() {
        return Err(io::ErrorKind::PermissionDenied.into());
    }
    Ok(())
}

/// None has a file's name.
pub(crate) fn is_socket(_: &Metadata) -> bool {
    false
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    #[test]
    fn what_is_written_behind_a_cut_leaves_no_hole() {
        let path = std::env::temp_dir().join(format!("tracebuf-cut-{}", std::process::id()));
        let mut file = for_a_trace().create_new(true).open(&path).expect("a file");
        file.write_all(b"a piece, half a").expect("room");
        cut(&file, 8).expect("it is longer");
        file.write_all(b" another").expect("room");
        assert!(is_locked(&path) && id_at(&path).ok() == id_of(&file).ok());
        drop(file);
        assert!(!is_locked(&path));
        let content = std::fs::read(&path);
        std::fs::remove_file(path).expect("it is there");
        assert_eq!(content.expect("it is there"), b"a piece, another");
    }

    #[test]
    fn the_clock_goes_on_at_the_pace_of_others() {
        let (start, before) = (std::time::Instant::now(), boot_time());
        std::thread::sleep(std::time::Duration::from_millis(50));
        let (passed, after) = (start.elapsed(), boot_time());
        let difference = passed.abs_diff(std::time::Duration::from_nanos(after - before));
        assert!(difference < std::time::Duration::from_millis(20), "{difference:?} of {passed:?}");
    }

    #[test]
    fn ticks_of_any_frequency_are_nanoseconds_however_many_there_are() {
        for frequency in [1, 3, 3_579_545, 10_000_000, 1_000_000_000, 4_000_000_000] {
            // Up to a hundred years.
            for seconds in [0, 1, 1_844, 3_155_760_000] {
                for rest in [0, 1, frequency / 2, frequency - 1].map(|rest| rest.min(frequency - 1)) {
                    let ticks = seconds * frequency + rest;
                    let exact = u128::from(ticks) * 1_000_000_000 / u128::from(frequency);
                    assert_eq!(u128::from(nanoseconds(ticks, frequency)), exact, "{ticks} at {frequency}");
                }
            }
        }
    }
}
