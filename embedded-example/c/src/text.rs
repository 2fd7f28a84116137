//! Texts of the caller's.

use core::ffi::{CStr, c_char};

/// Bytes of a text that are kept. Of packets: a writer gives up one that would need a third chunk, and one with a name
/// of this length never does, as that of a counter may have 88 bytes. In place, 64 are kept.
const LONGEST: usize = 80;

/// A text of the caller's, which stays where it is: of a long one its beginning, of none an empty one. What is not UTF-8
/// is `?`.
///
/// # Safety
/// Null, or text that ends with a zero and does not change while the result is used.
pub(crate) unsafe fn text(text: *const c_char) -> &'static str {
    if text.is_null() {
        return "";
    }
    // SAFETY: the caller's promise.
    let text = unsafe { CStr::from_ptr(text) }.to_str().unwrap_or("?");
    let mut len = LONGEST.min(text.len());
    while !text.is_char_boundary(len) {
        len -= 1;
    }
    text.get(..len).unwrap_or_default()
}
