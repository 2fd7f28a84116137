//! Asking the cache for memory that will be needed soon.
//!
//! Walking packets is a chain of loads, each address hidden in the size before it, so that a ring larger than
//! the cache costs a whole memory access a packet: 70 ns and more, against 9 ns with the lines asked for 2 KiB
//! ahead. And a chunk is copied to where nothing has been for a whole lap: with the lines asked for before its
//! fragments are looked at, a commit of 2.7 KB takes 300 ns in place of 440. Stable Rust has no safe way to
//! say so.
#![allow(unsafe_code)]

const LINE: usize = 64;

/// Lines of a whole chunk of the default page: beyond it the processor has long begun to write.
const MOST_TO_WRITE: usize = 64 * LINE;

/// Asks for the line at `memory[at]`, if there is one. Changes nothing but the time that later accesses take.
#[inline(always)]
pub(crate) fn prefetch(memory: &[u8], at: usize) {
    if let Some(byte) = memory.get(at) {
        ask::<false>(byte);
    }
}

/// Asks for `size` bytes of `memory` from `at` on, as far as they are there.
#[inline(always)]
pub(crate) fn prefetch_range(memory: &[u8], at: usize, size: usize) {
    each_line(memory, at, size, ask::<false>);
}

/// The same for bytes that will be written.
#[inline(always)]
pub(crate) fn prefetch_to_write(memory: &[u8], at: usize, size: usize) {
    each_line(memory, at, size.min(MOST_TO_WRITE), ask::<true>);
}

#[inline(always)]
fn each_line(memory: &[u8], at: usize, size: usize, ask: impl Fn(&u8)) {
    if cfg!(any(target_arch = "x86_64", target_arch = "aarch64")) {
        let rest = memory.get(at..).unwrap_or_default();
        let range = rest.get(..size).unwrap_or(rest);
        range.chunks(LINE).filter_map(<[u8]>::first).for_each(ask);
    }
}

#[inline(always)]
fn ask<const TO_WRITE: bool>(byte: &u8) {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    {
        use core::arch::x86_64::{_MM_HINT_ET0, _MM_HINT_T0, _mm_prefetch};
        let place = core::ptr::from_ref(byte).cast();
        // SAFETY: the intrinsic asks for SSE, which x86-64 always has; the instruction accesses no memory as
        // far as the language can tell and does not fault on any address, and this one is of a valid byte.
        // Where the processor is not known to have the hint to write, the compiler gives the other one.
        unsafe {
            if TO_WRITE {
                _mm_prefetch::<_MM_HINT_ET0>(place);
            } else {
                _mm_prefetch::<_MM_HINT_T0>(place);
            }
        }
    }
    #[cfg(all(target_arch = "aarch64", not(miri)))]
    {
        use core::arch::asm;
        let place = core::ptr::from_ref(byte);
        // SAFETY: PRFM is a hint of the base instruction set: it reads no register but its address, writes
        // none, does not fault, and does not access memory as far as the language can tell.
        unsafe {
            if TO_WRITE {
                asm!("prfm pstl1keep, [{}]", in(reg) place, options(nostack, preserves_flags, readonly));
            } else {
                asm!("prfm pldl1keep, [{}]", in(reg) place, options(nostack, preserves_flags, readonly));
            }
        }
    }
    let _ = byte;
}
