//! Calls of the system for which there is no safe form.
#![allow(
    unsafe_code,
    reason = "mapped memory, inherited descriptors, and calls that `rustix` does not have in this form"
)]

use std::io;
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::slice;

use memmap2::{MmapOptions, MmapRaw};
use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, fcntl_get_seals, fstat, ftruncate, memfd_create};
use rustix::io::{FdFlags, fcntl_getfd, fcntl_setfd};
use tracebuf::producer::AtomicU32;
use tracebuf_service::Peer;

const SEALS: SealFlags = SealFlags::SHRINK.union(SealFlags::GROW).union(SealFlags::SEAL);

/// Memory shared with another process. It was sealed before it was mapped: nobody can cut it short, which would end
/// this process by SIGBUS.
#[derive(Debug)]
pub(crate) struct SharedWords(MmapRaw);

impl SharedWords {
    /// This many bytes, zeroed, and the file for the other process. They cost memory once they are touched.
    pub(crate) fn new(bytes: usize) -> io::Result<(Self, OwnedFd)> {
        let file = memfd_create("tracebuf", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING)?;
        ftruncate(&file, bytes as u64)?;
        fcntl_add_seals(&file, SEALS)?;
        Ok((Self::map(&file, bytes)?, file))
    }

    /// The words of a file that came from another process, which is not trusted.
    pub(crate) fn of(file: &OwnedFd) -> io::Result<Self> {
        // A file that cannot be sealed is an error here.
        let is_sealed = fcntl_get_seals(file)?.contains(SEALS);
        let bytes = usize::try_from(fstat(file)?.st_size).ok().filter(|bytes| is_sealed && *bytes > 0);
        let bytes = bytes.ok_or_else(|| io::Error::from(io::ErrorKind::InvalidData))?;
        Self::map(file, bytes)
    }

    fn map(file: &OwnedFd, bytes: usize) -> io::Result<Self> {
        MmapOptions::new().len(bytes).map_raw(file).map(Self)
    }
}

impl AsRef<[AtomicU32]> for SharedWords {
    fn as_ref(&self) -> &[AtomicU32] {
        let (start, bytes) = (self.0.as_ptr().cast(), self.0.len());
        // SAFETY: this many bytes are mapped, starting at a page, for as long as `self` lives, and cannot be cut short.
        // Anything that another process may do to them may be seen through atomics.
        unsafe { slice::from_raw_parts(start, bytes / size_of::<AtomicU32>()) }
    }
}

/// The process at the other end of a socket.
pub(crate) fn peer(socket: &OwnedFd) -> Peer {
    // Not with `rustix`, whose process ids cannot be 0, which is what the system says where it has none.
    let mut peer = libc::ucred { pid: 0, uid: u32::MAX, gid: u32::MAX };
    let mut len = size_of::<libc::ucred>() as libc::socklen_t;
    // SAFETY: an open socket, and this many bytes to be written, of a type that may have any value.
    let error = unsafe {
        let place = (&raw mut peer).cast();
        libc::getsockopt(socket.as_raw_fd(), libc::SOL_SOCKET, libc::SO_PEERCRED, place, &mut len)
    };
    let is_known = error == 0 && peer.pid > 0;
    Peer { uid: if error == 0 { peer.uid } else { u32::MAX }, pid: if is_known { peer.pid } else { -1 } }
}

/// What the processor counts, 0 on those of another kind than x86-64.
pub(crate) fn tsc() -> u64 {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: all of them have it.
    return unsafe { core::arch::x86_64::_rdtsc() };
    #[cfg(not(target_arch = "x86_64"))]
    return 0;
}

/// Minutes by which local time is ahead of UTC now.
pub(crate) fn timezone_minutes() -> Option<i32> {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Realtime).tv_sec as libc::time_t;
    let mut local = std::mem::MaybeUninit::<libc::tm>::zeroed();
    // SAFETY: two valid places; nobody changes the environment of this process.
    let is_known = !unsafe { libc::localtime_r(&raw const now, local.as_mut_ptr()) }.is_null();
    // SAFETY: all zeros are a `tm`, and the call has written one.
    is_known.then(|| unsafe { local.assume_init() }.tm_gmtoff as i32 / 60)
}

/// Takes a descriptor that this process was started with; an error if there is none of this number.
pub(crate) fn inherited(number: RawFd) -> io::Result<OwnedFd> {
    if number < 3 {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    // SAFETY: the environment names it, which says that it is for this process to use: nobody else here does. A number
    // that is not open is an error of the next line, and nothing is closed by forgetting it.
    let file = unsafe { OwnedFd::from_raw_fd(number) };
    match fcntl_getfd(file.as_fd()) {
        Ok(flags) => {
            fcntl_setfd(&file, flags | FdFlags::CLOEXEC)?;
            Ok(file)
        }
        Err(error) => {
            std::mem::forget(file);
            Err(error.into())
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::Ordering;

    use super::*;

    #[test]
    fn both_see_what_one_writes_and_only_sealed_memory_is_taken() {
        let (one, file) = SharedWords::new(8192).expect("memory");
        let other = SharedWords::of(&file).expect("the same");
        one.as_ref()[2047].store(7, Ordering::Relaxed);
        assert_eq!((other.as_ref().len(), other.as_ref()[2047].load(Ordering::Relaxed)), (2048, 7));
        assert!(ftruncate(&file, 4096).is_err());
        let unsealed = memfd_create("test", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING).expect("a file");
        ftruncate(&unsealed, 8192).expect("nobody has it");
        assert!(SharedWords::of(&unsealed).is_err());
        fcntl_add_seals(&unsealed, SealFlags::SHRINK).expect("it may be sealed");
        assert!(SharedWords::of(&unsealed).is_err(), "it can still grow");
        let null = std::fs::File::open("/dev/null").expect("it is there");
        assert!(SharedWords::of(&null.into()).is_err());
    }

    #[test]
    fn the_processors_count_goes_on_and_the_timezone_is_one() {
        let first = tsc();
        assert_eq!(first > 0 && tsc() >= first, cfg!(target_arch = "x86_64"));
        assert!(timezone_minutes().is_some_and(|minutes| minutes.abs() <= 14 * 60));
    }

    #[test]
    fn a_number_that_is_not_open_is_no_descriptor() {
        assert!(inherited(1).is_err() && inherited(-1).is_err() && inherited(i32::MAX).is_err());
    }
}
