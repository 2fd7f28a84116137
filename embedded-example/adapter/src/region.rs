//! Memory that a reset leaves as it is.
//!
//! Start-up code copies `.data` and clears `.bss`; it does not touch `.uninit`. The trace of the moments before a reset
//! is found there. After power-on its content is arbitrary.
//!
//! ```
//! use tracebuf_embedded::region::Region;
//!
//! // On a target, under #[unsafe(link_section = ".uninit.TRACE")]:
//! static TRACE: Region<{ 8 * 1024 / 8 }> = Region::zeroed();
//! // SAFETY: nobody else takes it.
//! let words = unsafe { TRACE.take() };
//! assert_eq!(words.len() * 8, 8192);
//! ```

use core::cell::UnsafeCell;
use core::fmt;
use core::hint::black_box;

/// An array of 8-byte words, for a `static` in the section `.uninit`.
pub struct Region<const WORDS: usize>(UnsafeCell<[u64; WORDS]>);

// SAFETY: the caller that takes the memory promises to be the only one.
#[allow(unsafe_code)]
unsafe impl<const WORDS: usize> Sync for Region<WORDS> {}

impl<const WORDS: usize> Region<WORDS> {
    /// The value with which a `static` must be declared. In `.uninit` it never reaches the memory.
    pub const fn zeroed() -> Self {
        Region(UnsafeCell::new([0; WORDS]))
    }

    /// The memory, with whatever is in it.
    ///
    /// # Safety
    /// It is called once: nobody else may hold the memory.
    #[allow(unsafe_code)]
    #[allow(clippy::mut_from_ref, reason = "the caller promises to be the only one")]
    pub unsafe fn take(&'static self) -> &'static mut [u64] {
        // The compiler knows the value that the static was declared with, and must not assume that it is there.
        let words = black_box(self.0.get());
        // SAFETY: the caller promises that nobody else holds it; any bits are a `u64`.
        unsafe { &mut *words }
    }
}

/// Shows its size only: the content belongs to the code that has taken it.
impl<const WORDS: usize> fmt::Debug for Region<WORDS> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Region").field("words", &WORDS).finish_non_exhaustive()
    }
}

/// Words as bytes, for a ring or a snapshot.
pub fn bytes(part: &mut [u64]) -> &mut [u8] {
    // SAFETY: every 8 bytes of initialised memory are eight `u8`, whatever they hold.
    #[allow(unsafe_code)]
    unsafe {
        part.align_to_mut().1
    }
}

/// Words of half the size, for shared memory.
pub(crate) fn words(part: &mut [u64]) -> &mut [u32] {
    // SAFETY: every 8 bytes of initialised memory are two `u32`, whatever they hold.
    #[allow(unsafe_code)]
    unsafe {
        part.align_to_mut().1
    }
}
