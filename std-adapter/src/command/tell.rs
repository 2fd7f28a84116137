//! What commands say beside their results.

/// Prints a line on standard error. Who reads it may be gone, or its disk full: that keeps no command from its work,
/// and there is nobody to be told.
macro_rules! tell {
    ($($text:tt)*) => {{
        use std::io::Write as _;
        let _ = writeln!(std::io::stderr(), $($text)*);
    }};
}
pub(crate) use tell;
