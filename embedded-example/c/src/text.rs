//! Texts of the caller's.

use core::ffi::{CStr, c_char};
use tracebuf_embedded::inplace;

/// Bytes of a text that are kept. Of packets: a writer gives up one that would need a third chunk, and one with a name
/// of this length never does, as that of a counter may have 88 bytes. In place, 64 are kept.
const LONGEST: usize = 80;

/// A text of the caller's, which stays where it is: of a long one its beginning, of none an empty one. What is not UTF-8
/// is `?`.
///
/// # Safety
/// Null, or text that ends with a zero and does not change while the result is used.
#[inline(never)]
pub(crate) unsafe fn text(text: *const c_char) -> &'static str {
    if text.is_null() {
        return "";
    }
    let bytes = text.cast::<u8>();
    let (mut len, mut all) = (0, 0);
    while len < LONGEST {
        // SAFETY: the caller's promise; no byte before this is the zero at the end.
        let byte = unsafe { bytes.add(len).read() };
        if byte == 0 {
            break;
        }
        all |= byte;
        len += 1;
    }
    if all < 0x80 {
        // SAFETY: so many bytes were read, and all are ASCII.
        return unsafe { str::from_utf8_unchecked(core::slice::from_raw_parts(bytes, len)) };
    }
    // SAFETY: the caller's promise.
    unsafe { beyond_ascii(text) }
}

/// # Safety
/// As [`text`], and not null.
#[cold]
unsafe fn beyond_ascii(text: *const c_char) -> &'static str {
    // SAFETY: the caller's promise.
    let text = unsafe { CStr::from_ptr(text) }.to_str().unwrap_or("?");
    let mut len = LONGEST.min(text.len());
    while !text.is_char_boundary(len) {
        len -= 1;
    }
    text.get(..len).unwrap_or_default()
}

/// A name of the caller's, which is known by its address: its end is looked for only when it is entered.
#[derive(Clone, Copy)]
pub(crate) struct Name(*const c_char);

impl Name {
    /// # Safety
    /// Null, or text that ends with a zero and never changes.
    #[inline(always)]
    pub(crate) unsafe fn new(name: *const c_char) -> Self {
        Self(name)
    }
}

impl inplace::Name for Name {
    #[inline(always)]
    fn address(self) -> usize {
        self.0.addr()
    }

    #[inline(always)]
    fn known_len(self) -> Option<usize> {
        None
    }

    fn text(self) -> &'static str {
        // SAFETY: what whoever made it has promised.
        unsafe { text(self.0) }
    }
}
