//! Room on the disk.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

use rustix::fs::{FallocateFlags, fallocate};
use rustix::io::Errno;

/// Allocates disk blocks for every byte: a page for which there is no room when it is written ends the process.
pub fn allocate(file: &File, len: u64) -> io::Result<()> {
    match in_parts(len, |at, part| fallocate(file, FallocateFlags::empty(), at, part)) {
        Ok(()) => Ok(()),
        Err(Errno::OPNOTSUPP | Errno::NOSYS) => {
            // Where the file system cannot do this, writes zeros after what is there.
            let zeros = vec![0; 1 << 20];
            let mut at = file.metadata()?.len();
            while at < len {
                let part = (len - at).min(1 << 20);
                file.write_all_at(zeros.get(..part as usize).unwrap_or_default(), at)?;
                at += part;
            }
            Ok(())
        }
        Err(error) => Err(error.into()),
    }
}

/// Allocates all at once and, if a signal interrupts that, by halves: file systems in memory take back what they had
/// allocated, so every signal of a timer would come before it is done.
fn in_parts(len: u64, mut allocate: impl FnMut(u64, u64) -> Result<(), Errno>) -> Result<(), Errno> {
    const SMALLEST: u64 = 1 << 20;
    let (mut at, mut most) = (0, len);
    while at < len {
        let part = most.min(len - at);
        match allocate(at, part) {
            Ok(()) => at += part,
            Err(Errno::INTR) => most = (part / 2).max(SMALLEST),
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_signal_interrupts_is_allocated_by_parts() {
        const LEN: u64 = (10 << 20) + 5;
        for most in [LEN, 3 << 20, 1 << 20] {
            let mut end = 0;
            // A signal comes whenever too much is asked for at once, and a few come even when it is little.
            let mut signals = 3;
            let result = in_parts(LEN, |at, part| {
                assert!(at == end && part > 0);
                if part > most || signals > 0 && part <= 1 << 20 {
                    signals -= u32::from(part <= most);
                    return Err(Errno::INTR);
                }
                end += part;
                Ok(())
            });
            assert_eq!((result, end), (Ok(()), LEN));
        }
        assert_eq!(in_parts(LEN, |_, _| Err(Errno::NOSPC)), Err(Errno::NOSPC));
    }
}
