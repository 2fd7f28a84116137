//! The Windows side of the seam. Memory in files and signals are not supported.
#![allow(unsafe_code)]

mod absent;
pub mod console;
pub mod line;

pub use absent::{file_lock, fork, signals};

use std::fs::{File, Metadata, OpenOptions};
use std::io;
use std::os::windows::fs::OpenOptionsExt;
use std::os::windows::io::AsRawHandle;
use std::path::Path;

use windows_sys::Win32::Foundation::ERROR_SHARING_VIOLATION;
use windows_sys::Win32::Storage::FileSystem::{
    BY_HANDLE_FILE_INFORMATION, FILE_SHARE_DELETE, FILE_SHARE_READ, FILE_STANDARD_INFO, FileStandardInfo,
    GetFileInformationByHandle, GetFileInformationByHandleEx,
};
use windows_sys::Win32::System::Performance::{QueryPerformanceCounter, QueryPerformanceFrequency};
use windows_sys::Win32::System::Threading::GetCurrentThreadId;

use crate::waits::{ASKED, in_use, within};

/// A device that takes everything and keeps nothing.
pub const NULL_DEVICE: &str = "NUL";
/// Characters, besides separators, that would make a file's name mean something else.
pub const NOT_IN_NAMES: &[char] = &[':'];

/// Nobody: users have no numbers here.
pub fn user_id() -> u32 {
    0
}

/// All processes have their ids in one namespace.
pub fn pid_namespace() -> u64 {
    0
}

/// The calling thread's id.
pub fn thread_id() -> u32 {
    // SAFETY: the call has no conditions.
    unsafe { GetCurrentThreadId() }
}

/// Nanoseconds since the machine started, sleep included, the same in all processes: the performance counter.
#[inline]
pub fn boot_time() -> u64 {
    const SECOND: u64 = 1_000_000_000;
    let (mut ticks, mut frequency) = (0, 0);
    // SAFETY: the pointers are to local numbers that nothing else uses. Neither call has failed since Windows XP.
    unsafe {
        QueryPerformanceCounter(&mut ticks);
        QueryPerformanceFrequency(&mut frequency);
    }
    let (ticks, frequency) = (ticks as u64, (frequency as u64).max(1));
    // Whole seconds and the rest, because the product of all ticks would overflow after half an hour.
    let rest = ticks % frequency;
    (ticks / frequency).wrapping_mul(SECOND).wrapping_add(rest.wrapping_mul(SECOND) / frequency)
}

/// The same clock, which is the only steady one.
pub use self::boot_time as steady_time;

/// The identity of a file, whatever its name.
pub type FileId = (u32, u32, u32);

/// The id of an open file.
pub fn id_of(file: &File) -> io::Result<FileId> {
    let mut about = BY_HANDLE_FILE_INFORMATION::default();
    // SAFETY: the handle is open as long as `file` is borrowed, and the pointer is to a local value that nothing else
    // uses.
    match unsafe { GetFileInformationByHandle(file.as_raw_handle(), &mut about) } {
        0 => Err(io::Error::last_os_error()),
        _ => Ok((about.dwVolumeSerialNumber, about.nFileIndexHigh, about.nFileIndexLow)),
    }
}

/// The id of the file with this name.
pub fn id_at(path: &Path) -> io::Result<FileId> {
    // Opened to be queried, not read: so others may have it open in any way.
    id_of(&OpenOptions::new().access_mode(0).open(path)?)
}

/// Returns true if what is written into an open file will be gone when it is closed.
pub fn is_removed(file: &File) -> bool {
    let mut about = FILE_STANDARD_INFO::default();
    let (handle, size) = (file.as_raw_handle(), size_of_val(&about) as u32);
    // SAFETY: the handle is open as long as `file` is borrowed, and this class of information is written into a local
    // value of its own type, of this many bytes, that nothing else uses.
    let told =
        unsafe { GetFileInformationByHandleEx(handle, FileStandardInfo, (&raw mut about).cast(), size) };
    told != 0 && (about.DeletePending || about.NumberOfLinks == 0)
}

/// Options for a file of one writer: until it is closed nothing else can write into it, and that is its lock. Others
/// may read, remove and rename it. Not appending, because such a handle may not cut a file.
pub fn for_one_writer() -> OpenOptions {
    let mut options = OpenOptions::new();
    options.write(true).share_mode(FILE_SHARE_READ | FILE_SHARE_DELETE);
    options
}

/// Opens such a file, or creates it.
pub fn open_at_once(path: &Path) -> io::Result<File> {
    within(ASKED, || {
        let file = for_one_writer().create(true).open(path);
        file.map_err(|error| if is_violation(&error) { in_use() } else { error })
    })
}

/// Returns true if somebody else has the file open in a way that conflicts.
fn is_violation(error: &io::Error) -> bool {
    error.raw_os_error() == Some(ERROR_SHARING_VIOLATION as i32)
}

/// Standard output has no name here.
pub fn standard_output(_: &Path) -> io::Result<Option<File>> {
    Ok(None)
}

/// Standard output has no name here.
pub fn is_standard_output(_: &Path) -> io::Result<bool> {
    Ok(false)
}

/// Returns true if another program lets nobody write into the file.
pub fn is_locked(path: &Path) -> bool {
    OpenOptions::new().append(true).open(path).is_err_and(|error| is_violation(&error))
}

/// The folder of a file says who may read it.
pub fn as_readable_as(_: &mut OpenOptions, _: &Metadata) {}

/// Making links takes a privilege here.
pub fn check_link(_: &Path, _: &Path) -> io::Result<()> {
    Ok(())
}

/// Checks that the file of this name is not protected against writing.
pub fn check_unprotected(path: &Path) -> io::Result<()> {
    if std::fs::metadata(path)?.permissions().readonly() {
        return Err(io::ErrorKind::PermissionDenied.into());
    }
    Ok(())
}

/// Sockets have no file names here.
pub fn is_socket(_: &Metadata) -> bool {
    false
}

/// Renames a file if nothing lies at `to`.
pub fn rename_to_free(from: &Path, to: &Path) -> io::Result<()> {
    std::fs::hard_link(from, to)?;
    std::fs::remove_file(from)
}

/// Blocks on the disk, for files that are memory: there are none.
pub fn allocate(_: &File, _: u64) -> io::Result<()> {
    Err(io::ErrorKind::Unsupported.into())
}

/// Reading and writing at a place.
pub trait FileExt {
    /// Reads at a place.
    fn read_at(&self, bytes: &mut [u8], at: u64) -> io::Result<usize>;

    /// Always fails: only files that are memory need it.
    fn write_all_at(&self, _: &[u8], _: u64) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }
}

impl FileExt for File {
    fn read_at(&self, bytes: &mut [u8], at: u64) -> io::Result<usize> {
        std::os::windows::fs::FileExt::seek_read(self, bytes, at)
    }
}
