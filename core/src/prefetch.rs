//! Prefetching: memory asked for before it is needed.
//!
//! Walking packets is a chain of loads, each address hidden in the size before it, so a ring larger than the cache
//! costs a whole memory access per packet, 70 ns and more; with the lines asked for 2 KiB ahead, that time passes while
//! the packets before are read. And a chunk is copied to where nothing has been for a whole lap: with the lines asked
//! for before its fragments are looked at, a commit of 2.7 KB takes 300 ns instead of 440. Where the ring is small and
//! that memory is near, it is the size fields that a commit waits for: with the chunk's own lines asked for, it takes
//! 150 ns instead of 190. Stable Rust has no safe way to ask.
#![allow(unsafe_code)]

const LINE: usize = 64;
const CAN_ASK: bool = cfg!(any(target_arch = "x86_64", target_arch = "aarch64"));

/// Lines of a whole chunk of the default page: beyond it the processor has long begun to write.
const MOST_TO_COPY: usize = 64 * LINE;

/// What comes in while a chunk of 2.7 KB is copied, at 5 ns a line: it takes 5 % off commits into a ring of 64 MiB. If
/// no other chunk comes soon, not much came in vain.
const AHEAD: usize = 16 * LINE;

/// Asks for the line at `memory[at]`, if there is one. Changes nothing but the time that later accesses take.
#[inline(always)]
pub(crate) fn prefetch(memory: &[u8], at: usize) {
    if let Some(byte) = memory.get(at) {
        ask::<false>(byte);
    }
}

/// Like [`prefetch`], for `size` bytes, at least one, that may lie across two lines but not across three.
#[inline(always)]
pub(crate) fn prefetch_value(memory: &[u8], at: usize, size: usize) {
    prefetch(memory, at);
    prefetch(memory, at.wrapping_add(size).wrapping_sub(1));
}

/// Asks for `size` bytes of `memory` from `at` on, as far as they are there.
#[inline(always)]
pub(crate) fn prefetch_range(memory: &[u8], at: usize, size: usize) {
    each_line(range(memory, at, size), ask::<false>);
}

/// Asks for what a copy of `size` bytes to `memory[at]` will write, and for what it reads where that is known.
#[inline(always)]
pub(crate) fn prefetch_copy(source: Option<&[u8]>, memory: &[u8], at: usize, size: usize) {
    let target = range(memory, at, size.min(MOST_TO_COPY));
    match source.and_then(|source| source.get(..target.len())) {
        // In turn; otherwise the source's lines, which are near, would have to wait for all of the others.
        Some(source) => source.chunks_exact(LINE).zip(target.chunks_exact(LINE)).for_each(|(from, to)| {
            from.first().map(ask::<false>);
            to.first().map(ask::<true>);
        }),
        None => each_line(target, ask::<true>),
    }
}

/// Asks for where the copy after one of `size` bytes will go, from `memory[at]` on, if there is one soon.
#[inline(always)]
pub(crate) fn prefetch_ahead(memory: &[u8], at: usize, size: usize) {
    each_line(range(memory, at, size.min(AHEAD)), ask::<true>);
}

/// Those of `size` bytes of `memory` from `at` on that are there; none on processors that cannot be asked.
#[inline(always)]
fn range(memory: &[u8], at: usize, size: usize) -> &[u8] {
    let rest = if CAN_ASK { memory.get(at..).unwrap_or_default() } else { &[] };
    rest.get(..size).unwrap_or(rest)
}

/// Calls `ask` for one byte of each whole line's worth, and for the last.
#[inline(always)]
fn each_line(range: &[u8], ask: impl Fn(&u8)) {
    range.chunks_exact(LINE).filter_map(<[u8]>::first).for_each(&ask);
    range.last().map(ask);
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
