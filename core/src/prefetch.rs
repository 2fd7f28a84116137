//! Asking the cache for memory that will be needed soon.
//!
//! Walking packets is a chain of loads, each address hidden in the size before it, so that a ring larger than
//! the cache costs a whole memory access a packet: 70 ns and more, against 9 ns with the lines asked for 2 KiB
//! ahead. Stable Rust has no safe way to say so.
#![allow(unsafe_code)]

const LINE: usize = 64;

/// Asks for the line at `memory[at]`, if there is one. Changes nothing but the time that later accesses take.
#[inline(always)]
pub(crate) fn prefetch(memory: &[u8], at: usize) {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    if let Some(byte) = memory.get(at) {
        use core::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        // SAFETY: the intrinsic asks for SSE, which x86-64 always has; the instruction accesses no memory as
        // far as the language can tell and does not fault on any address, and this one is of a valid byte.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(core::ptr::from_ref(byte).cast()) };
    }
    #[cfg(all(target_arch = "aarch64", not(miri)))]
    if let Some(byte) = memory.get(at) {
        // SAFETY: PRFM is a hint of the base instruction set: it reads no register but its address, writes
        // none, does not fault, and does not access memory as far as the language can tell.
        unsafe {
            core::arch::asm!("prfm pldl1keep, [{}]", in(reg) core::ptr::from_ref(byte), options(nostack, preserves_flags, readonly));
        }
    }
    let _ = (memory, at);
}

/// Asks for `size` bytes of `memory` from `at` on, as far as they are there.
#[inline(always)]
pub(crate) fn prefetch_range(memory: &[u8], at: usize, size: usize) {
    if cfg!(any(target_arch = "x86_64", target_arch = "aarch64")) {
        let rest = memory.get(at..).unwrap_or_default();
        let range = rest.get(..size).unwrap_or(rest);
        for line in range.chunks(LINE) {
            prefetch(line, 0);
        }
    }
}
