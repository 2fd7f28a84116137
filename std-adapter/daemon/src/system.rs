//! Calls of the system for which there is no safe form, and descriptors that this process was started with.
#![allow(
    unsafe_code,
    reason = "numbers that the environment names become descriptors; the time zone; the processor's count"
)]

use std::io;
use std::os::fd::{AsFd, FromRawFd, OwnedFd, RawFd};

use rustix::io::{FdFlags, fcntl_getfd, fcntl_setfd};

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
    use super::*;

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
