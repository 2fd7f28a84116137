//! The Unix side of the seam: clocks, ids, and files as Unix has them.

pub mod console;
pub mod file_lock;
pub mod fork;
pub mod line;
pub mod signals;

mod allocate;

pub use allocate::allocate;
pub use std::os::unix::fs::FileExt;

use std::fs::{self, File, Metadata, OpenOptions};
use std::io;
use std::os::fd::AsFd;
use std::os::unix::fs::{FileTypeExt, MetadataExt, OpenOptionsExt};
use std::path::Path;

use rustix::fs::{Access, FlockOperation, OFlags, access, fcntl_getfl, fcntl_setfl, flock};
use rustix::io::Errno;
use rustix::time::{ClockId, clock_gettime};

/// A device that takes everything and keeps nothing.
pub const NULL_DEVICE: &str = "/dev/null";
/// Characters, besides separators, that would make a file's name mean something else.
pub const NOT_IN_NAMES: &[char] = &[];

/// The user that this process works for.
pub fn user_id() -> u32 {
    rustix::process::geteuid().as_raw()
}

/// The number of the pid namespace, such as a container's, in which this process has its id; 0 in the system's own.
pub fn pid_namespace() -> u64 {
    /// The number of the system's own on Linux: PROC_PID_INIT_INO in its `proc_ns.h`.
    const OF_SYSTEM: u64 = 0xEFFF_FFFC;
    // Other systems have no file of this name.
    let number = fs::metadata("/proc/self/ns/pid").map_or(OF_SYSTEM, |namespace| namespace.ino());
    if number == OF_SYSTEM { 0 } else { number }
}

/// Nanoseconds since the machine started, sleep included.
#[inline]
pub fn boot_time() -> u64 {
    #[cfg(any(target_os = "linux", target_os = "android"))]
    let clock = ClockId::Boottime;
    // Other systems have no clock of that name; there, the steady clock is what readers call boot time.
    #[cfg(not(any(target_os = "linux", target_os = "android")))]
    let clock = ClockId::Monotonic;
    nanoseconds(clock)
}

/// Nanoseconds of the steady clock.
pub fn steady_time() -> u64 {
    nanoseconds(ClockId::Monotonic)
}

fn nanoseconds(clock: ClockId) -> u64 {
    let time = clock_gettime(clock);
    // Both are positive from 1970 to 2554.
    (time.tv_sec as u64).wrapping_mul(1_000_000_000).wrapping_add(time.tv_nsec as u64)
}

/// The identity of a file, whatever its name.
pub type FileId = (u64, u64);

/// The id of a file with this metadata.
pub fn id_in(file: &Metadata) -> FileId {
    (file.dev(), file.ino())
}

/// The id of an open file.
pub fn id_of(file: &File) -> io::Result<FileId> {
    file.metadata().map(|file| id_in(&file))
}

/// The id of the file with this name.
pub fn id_at(path: &Path) -> io::Result<FileId> {
    fs::metadata(path).map(|file| id_in(&file))
}

/// Returns true if what is written into an open file will be gone when it is closed.
pub fn is_removed(file: &File) -> bool {
    file.metadata().is_ok_and(|metadata| metadata.is_file() && metadata.nlink() == 0)
}

/// Options for a file of one writer. It appends, because somebody else may cut the file: what is written at its former
/// end would then come after a hole.
pub fn for_one_writer() -> OpenOptions {
    let mut options = OpenOptions::new();
    options.append(true);
    options
}

/// Opens a file to append to it, or creates it. A pipe's other end is not waited for: it may never come.
pub fn open_at_once(path: &Path) -> io::Result<File> {
    let flags = OFlags::NONBLOCK.bits() as i32;
    let file = for_one_writer().create(true).custom_flags(flags).open(path).map_err(|error| {
        let is_pipe = || fs::metadata(path).is_ok_and(|there| there.file_type().is_fifo());
        if error.raw_os_error() == Some(Errno::NXIO.raw_os_error()) && is_pipe() {
            return io::Error::new(error.kind(), "nobody has opened the pipe to read it");
        }
        error
    })?;
    // Writing does wait for a slow reader.
    fcntl_setfl(&file, fcntl_getfl(&file)? - OFlags::NONBLOCK)?;
    Ok(file)
}

/// Standard output as it is open, if this is its name: a socket cannot be opened by its name, nor can another user's
/// pipe. `None` for a regular file, whose name another file is to take, and where it is open for reading only.
pub fn standard_output(path: &Path) -> io::Result<Option<File>> {
    let Some((file, flags)) = named_stdout(path)? else { return Ok(None) };
    // Writing waits for a slow reader.
    if flags.contains(OFlags::NONBLOCK) {
        fcntl_setfl(&file, flags - OFlags::NONBLOCK)?;
    }
    Ok(Some(file))
}

/// Returns true if there is such an output. Leaves it unchanged, because others may share it.
pub fn is_standard_output(path: &Path) -> io::Result<bool> {
    Ok(named_stdout(path)?.is_some())
}

fn named_stdout(path: &Path) -> io::Result<Option<(File, OFlags)>> {
    if path != Path::new("/dev/stdout") {
        return Ok(None);
    }
    let file = File::from(io::stdout().as_fd().try_clone_to_owned()?);
    let flags = fcntl_getfl(&file)?;
    let is_open = !file.metadata()?.is_file() && flags & OFlags::RWMODE != OFlags::RDONLY;
    Ok(is_open.then_some((file, flags)))
}

/// Returns true if somebody has locked the file; false if that cannot be known.
pub fn is_locked(path: &Path) -> bool {
    let Ok(file) = File::open(path) else { return false };
    // Shared: for more, file systems that lock over a network want a file that is open for writing.
    match flock(&file, FlockOperation::NonBlockingLockShared) {
        Ok(()) => {
            // If this were left to closing the file, a child forked meanwhile would keep the lock.
            let _ = flock(&file, FlockOperation::Unlock);
            false
        }
        Err(error) => error == Errno::WOULDBLOCK,
    }
}

/// Lets new files be read by no more users than may read this one.
pub fn as_readable_as(options: &mut OpenOptions, file: &Metadata) {
    options.mode(file.mode() & 0o777);
}

/// An error if the system does not follow this link, or if another user may have planted it in this folder.
pub fn check_link(link: &Path, folder: &Path) -> io::Result<()> {
    if let Some(error) = fs::metadata(link).err().filter(|error| error.kind() != io::ErrorKind::NotFound) {
        return Err(error);
    }
    let (owner, folder) = (fs::symlink_metadata(link)?.uid(), fs::metadata(folder)?);
    if folder.mode() & 0o1002 == 0o1002 && ![user_id(), folder.uid()].contains(&owner) {
        let why = "it is another user's link, in a folder for all";
        return Err(io::Error::new(io::ErrorKind::PermissionDenied, why));
    }
    Ok(())
}

/// An error if the file of this name is protected against writing.
pub fn check_unprotected(path: &Path) -> io::Result<()> {
    Ok(access(path, Access::WRITE_OK)?)
}

/// Returns true for a socket's metadata.
pub fn is_socket(file: &Metadata) -> bool {
    file.file_type().is_socket()
}

/// The calling thread's id in the system.
#[cfg(any(target_os = "linux", target_os = "android"))]
pub fn thread_id() -> u32 {
    rustix::thread::gettid().as_raw_nonzero().get() as u32
}

/// A number of the calling thread's own: threads can be told apart, but not recognised.
#[cfg(not(any(target_os = "linux", target_os = "android")))]
pub fn thread_id() -> u32 {
    use std::sync::atomic::{AtomicU32, Ordering};
    static NEXT: AtomicU32 = AtomicU32::new(1);
    thread_local!(static ID: u32 = NEXT.fetch_add(1, Ordering::Relaxed));
    ID.with(|id| *id)
}

/// Renames a file if nothing lies at `to`; where the file system cannot tell, nothing is renamed.
pub fn rename_to_free(from: &Path, to: &Path) -> io::Result<()> {
    #[cfg(any(target_os = "linux", target_os = "android"))]
    {
        use rustix::fs::{CWD, RenameFlags, renameat_with};
        Ok(renameat_with(CWD, from, CWD, to, RenameFlags::NOREPLACE)?)
    }
    #[cfg(not(any(target_os = "linux", target_os = "android")))]
    {
        fs::hard_link(from, to)?;
        fs::remove_file(from)
    }
}
