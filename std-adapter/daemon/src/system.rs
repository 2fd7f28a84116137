//! Descriptors that this process was started with.
#![allow(unsafe_code, reason = "numbers that the environment names become descriptors")]

use std::io;
use std::os::fd::{AsFd, FromRawFd, OwnedFd, RawFd};

use rustix::io::{FdFlags, fcntl_getfd, fcntl_setfd};

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
    fn a_number_that_is_not_open_is_no_descriptor() {
        assert!(inherited(1).is_err() && inherited(-1).is_err() && inherited(i32::MAX).is_err());
    }
}
