//! Names that the linker numbers: their texts are in the program's file alone.

use core::ops::RangeInclusive;

use super::layout::{LINKED, NAMES_MAX, header};
use super::names::Name;
use super::order::{PUBLISH, before_publishing};
use super::region::Memory;
use crate::atomics::Ordering;

/// The numbers of [linked names](crate::linked_name): the first one's symbol has the address 0, the next one's 1.
pub const LINKED_NAMES: RangeInclusive<u32> = NAMES_MAX + 1..=LINKED;

/// A name that [`linked_name!`](crate::linked_name) has made.
#[cfg(tracebuf_linked)]
#[derive(Clone, Copy, Debug)]
pub struct LinkedName(u32);

/// A name that [`linked_name!`](crate::linked_name) has made.
#[cfg(not(tracebuf_linked))]
#[derive(Clone, Copy, Debug)]
pub struct LinkedName(&'static str);

impl LinkedName {
    /// That of the symbol at an address: symbols begin at zero, and are a byte each.
    #[cfg(tracebuf_linked)]
    #[doc(hidden)]
    #[inline(always)]
    pub fn at(symbol: *const u8) -> Self {
        // The linker adds the one. Of too many names, none is one of the table or changes an event's kind.
        Self(NAMES_MAX | (symbol as u32).wrapping_add(1) & (NAMES_MAX - 1))
    }

    /// Where the linker does not number them.
    #[cfg(not(tracebuf_linked))]
    #[doc(hidden)]
    #[inline(always)]
    pub fn of(text: &'static str) -> Self {
        Self(text)
    }

    /// Whether an assembler takes it within quotes, and a linker as a symbol.
    #[doc(hidden)]
    pub const fn is_plain(text: &str) -> bool {
        let (mut bytes, mut is_plain) = (text.as_bytes(), !text.is_empty());
        while let Some((byte, rest)) = bytes.split_first() {
            is_plain &= *byte >= b' ' && !matches!(*byte, b'"' | b'\\' | b'@' | 0x7F);
            bytes = rest;
        }
        is_plain
    }
}

/// Whether the region says that the numbers of this start's names are of this build.
#[inline(always)]
pub(super) fn is_of<M: Memory>(region: &M, build: u32) -> bool {
    region.header(header::BUILD).load(Ordering::Relaxed) == build
}

/// Says so, before the first of them is recorded. Whoever interrupts this stores the same, or has done so.
#[inline(never)]
pub(super) fn of_build<M: Memory, N: Name>(region: &M) {
    let build = N::build();
    let before = region.header(header::BUILD).load(Ordering::Relaxed);
    if before == build {
        return;
    }
    let since = region.header(header::BUILD_SINCE).load(Ordering::Relaxed);
    let start = region.header(header::STARTS).load(Ordering::Relaxed);
    let set = |index, value| region.header(index).store(value, Ordering::Relaxed);
    if since != start {
        set(header::BUILD_BEFORE, before);
        set(header::BEFORE_SINCE, since);
        before_publishing();
        set(header::BUILD_SINCE, start);
    }
    before_publishing();
    region.header(header::BUILD).store(build, PUBLISH);
}

#[cfg(tracebuf_linked)]
impl Name for LinkedName {
    #[inline(always)]
    fn build() -> u32 {
        crate::build_mark::current()
    }

    #[inline(always)]
    fn number(self) -> Option<u32> {
        Some(self.0)
    }

    fn address(self) -> usize {
        self.0 as usize
    }

    fn known_len(self) -> Option<usize> {
        None
    }

    fn text(self) -> &'static str {
        ""
    }
}

#[cfg(not(tracebuf_linked))]
impl Name for LinkedName {
    #[inline(always)]
    fn address(self) -> usize {
        self.0.address()
    }

    #[inline(always)]
    fn known_len(self) -> Option<usize> {
        Some(self.0.len())
    }

    #[inline(always)]
    fn text(self) -> &'static str {
        self.0
    }
}

/// A [name](crate::inplace::Name) that takes no flash, no RAM and no look-up: the linker numbers it, and its text is
/// nowhere but in the program's file.
///
/// ```
/// use tracebuf::inplace::{Recorder, Region, linked_name};
///
/// static TRACE: Region<64, 128, 32> = Region::zeroed();
/// let writer = Recorder::new(&TRACE, || 5, 1_000_000).writer("main loop");
/// {
///     let _slice = writer.named(linked_name!("measure")).enter();
///     writer.named(linked_name!("temperature")).count(23);
///     writer.instant_with(linked_name!("door"), |details| {
///         details.arg(linked_name!("open"), 1);
///     });
/// }
/// ```
///
/// `tracebuf recover` and `tracebuf receive` get the texts from the program with `--program`. It must be the very one
/// that recorded: in another build the numbers are other names'. Each build has a mark, which the region keeps, so that
/// another build's file is noticed, and numbers are shown; it may be missed once in some thousand times. What an earlier
/// build recorded in a region that an update kept is read with that build's file. Keep the program's symbols: `strip` in
/// a profile removes the names.
///
/// It takes a literal, and is an expression. A program has up to 1,023 such names, of which those with one text are
/// one; of more, the command says that they cannot be told apart. They go with names of the table in one region; tracks
/// are always in the table. No linker script is needed: each name is a symbol of one byte in the section `.tracebuf`,
/// which is not loaded. With code that forbids `unsafe` it compiles.
///
/// On targets other than bare Arm of 32 bits and RV32, such as hosts that run tests, it is a name like others.
///
/// A text that a symbol cannot have, such as one with a quotation mark, a backslash, an `@` or a line's end, does not
/// compile:
///
/// ```compile_fail
/// tracebuf::inplace::linked_name!("a@b");
/// ```
#[macro_export]
macro_rules! linked_name {
    ($text:literal) => {{
        const _: () = ::core::assert!(
            $crate::inplace::LinkedName::is_plain($text),
            "a linked name has no quotation mark, backslash, @ or control character, and is not empty"
        );
        $crate::__linked_name!($text)
    }};
}

/// The symbol, once for each text: assemblers and linkers leave out what is there. Not allocated, so it lies at zero.
#[cfg(tracebuf_linked)]
#[doc(hidden)]
#[macro_export]
macro_rules! __linked_name {
    ($text:literal) => {{
        mod linked {
            ::core::arch::global_asm!(
                ::core::concat!(".ifndef \"tracebuf:", $text, "\""),
                ::core::concat!(".pushsection .tracebuf,\"G\",%progbits,\"tracebuf:", $text, "\",comdat"),
                ::core::concat!(".weak \"tracebuf:", $text, "\""),
                ::core::concat!(".type \"tracebuf:", $text, "\",%object"),
                ::core::concat!(".size \"tracebuf:", $text, "\",1"),
                ::core::concat!("\"tracebuf:", $text, "\": .byte 0"),
                ".popsection",
                ".endif",
                options(raw)
            );
            const SIZE: u32 = $crate::build_mark::size(
                $text,
                ::core::module_path!(),
                ::core::line!(),
                ::core::column!(),
            );
            ::core::arch::global_asm!(
                ".pushsection tracebuf_build,\"\",%nobits",
                ".p2align {align}",
                ".space {size}",
                ".popsection",
                align = const $crate::build_mark::align(SIZE),
                size = const SIZE,
            );
            // SAFETY: nothing reads it; its address is all that counts.
            unsafe extern "C" {
                #[link_name = ::core::concat!("tracebuf:", $text)]
                pub(super) safe static NAME: u8;
            }
        }
        $crate::inplace::LinkedName::at(&raw const linked::NAME)
    }};
}

/// A name like others.
#[cfg(not(tracebuf_linked))]
#[doc(hidden)]
#[macro_export]
macro_rules! __linked_name {
    ($text:literal) => {
        $crate::inplace::LinkedName::of($text)
    };
}
