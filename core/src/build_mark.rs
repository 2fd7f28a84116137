//! The mark of a build, for [linked names](crate::linked_name): a number that the linker makes, and that takes no flash.
//!
//! Each use of a linked name adds some bytes to a section that is neither loaded nor in the file. How many says what is
//! used, where in the source, and what built it; how they are aligned makes their order count, too. The section's size
//! is the mark: in a program it is the address of the section's end, and in its file that symbol's value.

use core::ptr;

// SAFETY: every linker defines it where a section has this name. Nothing reads it: its address is all that counts.
#[allow(unsafe_code)]
unsafe extern "C" {
    #[link_name = "__stop_tracebuf_build"]
    safe static END: u8;
}

/// The mark. Cost: a constant's.
#[inline(always)]
pub(crate) fn current() -> u32 {
    ptr::addr_of!(END) as u32
}

/// Bytes of a use, less than 4,096: of its text, its place in the source, and the profile, compiler and flags that built
/// this crate.
#[doc(hidden)]
pub const fn size(text: &str, module: &str, line: u32, column: u32) -> u32 {
    let hash = add(add(add(0x811C_9DC5, env!("TRACEBUF_BUILD")), text), module);
    let hash = (hash ^ line).wrapping_mul(PRIME);
    (hash ^ column).wrapping_mul(PRIME) >> 20 | 1
}

/// The alignment of so many bytes, as a power of two: 1, 8, 64 or 512.
#[doc(hidden)]
pub const fn align(size: u32) -> u32 {
    (size >> 1 & 3) * 3
}

/// Of FNV-1a.
const PRIME: u32 = 0x0100_0193;

const fn add(mut hash: u32, text: &str) -> u32 {
    let mut bytes = text.as_bytes();
    while let Some((byte, rest)) = bytes.split_first() {
        hash = (hash ^ *byte as u32).wrapping_mul(PRIME);
        bytes = rest;
    }
    hash
}
