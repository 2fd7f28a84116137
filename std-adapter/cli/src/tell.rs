//! What commands say besides their results.

use std::fmt::Write as _;

use tracebuf_std::display::Escaped;

/// Prints a line on standard error. Its reader may be gone, or the disk full: that keeps no command from its work, and
/// there is nobody to tell.
macro_rules! tell {
    () => { tell!("") };
    ($($text:tt)*) => {{
        use std::io::Write as _;
        let _ = writeln!(std::io::stderr(), "{}", crate::tell::shown(&format!($($text)*)));
    }};
}
pub(crate) use tell;

/// A text that is safe for a terminal: control characters, which a file's name may have, are shown rather than obeyed.
pub(crate) fn shown(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter {
            '\n' | '\t' => shown.push(letter),
            _ => _ = write!(shown, "{}", Escaped(letter)),
        }
    }
    shown
}
