//! Atomics, and plain memory seen as 32-bit atomic words: the only `unsafe` lines of the producer.
//!
//! Both sides of a shared memory buffer touch it at once, so every access must be atomic and of one size; the functions
//! give up the plain view for good.
#![allow(unsafe_code)]
// What is recorded in place needs the words alone.
#![cfg_attr(not(feature = "producer"), allow(unused, unreachable_pub))]

#[cfg(all(not(loom), not(test), target_has_atomic = "32"))]
pub use core::sync::atomic::AtomicU32;
#[cfg(loom)]
pub use loom::sync::atomic::AtomicU32;
#[cfg(all(not(loom), not(test), not(target_has_atomic = "32")))]
pub use portable_atomic::AtomicU32;
#[cfg(all(test, not(loom)))]
pub use watched::AtomicU32;

#[cfg(all(test, not(loom)))]
pub(crate) mod watched;

/// A `const fn`; under loom, whose atomics cannot be constants, a plain one.
macro_rules! const_fn {
    ($(#[$attribute:meta])* $visible:vis const fn $($rest:tt)*) => {
        #[cfg(not(loom))]
        $(#[$attribute])* $visible const fn $($rest)*
        #[cfg(loom)]
        $(#[$attribute])* $visible fn $($rest)*
    };
}
pub(crate) use const_fn;

#[cfg(not(loom))]
pub(crate) use core::sync::atomic::Ordering;
#[cfg(loom)]
pub(crate) use loom::sync::atomic::Ordering;

/// Keeps the compiler from moving accesses across it. The processor does not either, if another thread has all threads
/// pass a fence meanwhile. Loom and Miri, which know nothing of that, get a real one.
#[cfg(not(tracebuf_small))]
#[inline(always)]
pub(crate) fn light_fence() {
    #[cfg(loom)]
    loom::sync::atomic::fence(Ordering::SeqCst);
    #[cfg(all(not(loom), miri))]
    core::sync::atomic::fence(Ordering::SeqCst);
    #[cfg(not(any(loom, miri)))]
    core::sync::atomic::compiler_fence(Ordering::SeqCst);
}

#[cfg(not(loom))]
static_assertions::const_assert_eq!(size_of::<AtomicU32>(), size_of::<u32>());
#[cfg(not(loom))]
static_assertions::const_assert_eq!(align_of::<AtomicU32>(), align_of::<u32>());

/// Words lent for good as atomic words. No cost.
#[cfg(all(not(loom), feature = "producer"))]
pub fn atomic_words(words: &mut [u32]) -> &[AtomicU32] {
    let (data, len) = (words.as_mut_ptr().cast::<AtomicU32>(), words.len());
    // SAFETY: `AtomicU32` documents "the same size, alignment, and bit validity as the underlying integer type", so the
    // same memory is a valid `[AtomicU32]` of the same length. The exclusive borrow lasts as long as the result, so no
    // plain access can happen alongside the atomic ones.
    unsafe { core::slice::from_raw_parts(data, len) }
}

/// Bytes lent for good as atomic words: the longest run of whole, aligned words in them. No cost.
#[cfg(all(not(loom), feature = "producer"))]
pub fn atomic_words_in(bytes: &mut [u8]) -> &[AtomicU32] {
    // SAFETY: four initialised bytes are a valid `u32` whatever they hold.
    let (_, words, _) = unsafe { bytes.align_to_mut::<u32>() };
    atomic_words(words)
}

/// Memory that another process or core also maps, as atomic words.
///
/// If the memory is a file that others hold too, such as a memfd, **anyone who truncates it ends this process**, by
/// SIGBUS. If you do not trust them, seal it against that (`F_SEAL_SHRINK`) before they get it, and accept none of
/// theirs that is not sealed like that.
///
/// # Safety
/// `data` must be aligned to 4 and point to `len` words, initialised, mapped for reading and writing, that stay valid
/// for `'a`; nobody in this program may touch them except through 32-bit atomics during `'a`.
#[cfg(all(not(loom), feature = "producer"))]
pub unsafe fn atomic_words_at<'a>(data: *const u32, len: usize) -> &'a [AtomicU32] {
    // SAFETY: the caller promises what `from_raw_parts` asks for; `AtomicU32` has the layout of `u32` and
    // allows shared mutation, also by others as long as they use atomic accesses of the same size.
    unsafe { core::slice::from_raw_parts(data.cast::<AtomicU32>(), len) }
}

#[cfg(all(test, not(loom), feature = "producer"))]
mod tests {
    use super::Ordering::Relaxed;
    use super::*;

    #[test]
    fn words_keep_their_values_and_see_atomic_stores() {
        let mut plain = [1u32, 2, 3];
        let words = atomic_words(&mut plain);
        words[1].store(7, Relaxed);
        assert_eq!(words.len(), 3);
        assert_eq!(plain, [1, 7, 3]);
    }

    #[test]
    fn unaligned_ends_of_bytes_are_left_out() {
        let mut plain = [0u32; 4];
        let bytes: &mut [u8] = zerocopy::IntoBytes::as_mut_bytes(&mut plain[..]);
        assert_eq!(atomic_words_in(bytes).len(), 4);
        assert_eq!(atomic_words_in(&mut bytes[1..15]).len(), 2);
        assert!(atomic_words_in(&mut bytes[1..4]).is_empty());
    }

    #[test]
    fn memory_by_address_is_the_same_memory() {
        let mut plain = [5u32; 2];
        // SAFETY: two aligned words of this function's stack, not touched otherwise while `words` lives.
        let words = unsafe { atomic_words_at(plain.as_mut_ptr(), 2) };
        words[0].store(9, Relaxed);
        assert_eq!(plain, [9, 5]);
    }
}
