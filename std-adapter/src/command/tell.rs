//! What commands say beside their results.

use std::fmt::Write as _;

use tracebuf_std::figures::Name;

/// Prints a line on standard error. Who reads it may be gone, or its disk full: that keeps no command from its work,
/// and there is nobody to be told.
macro_rules! tell {
    () => { tell!("") };
    ($($text:tt)*) => {{
        use std::io::Write as _;
        let _ = writeln!(std::io::stderr(), "{}", crate::tell::shown(&format!($($text)*)));
    }};
}
pub(crate) use tell;

/// A text as a terminal may have it: what controls one is shown and not done, as in a file's name, which is whatever
/// somebody gave it.
pub(crate) fn shown(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter {
            '\n' | '\t' => shown.push(letter),
            _ => _ = write!(shown, "{}", Name(letter)),
        }
    }
    shown
}
