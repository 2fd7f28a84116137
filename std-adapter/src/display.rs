//! Counts, sizes and foreign names as text.
//!
//! ```
//! use tracebuf_std::display::{Bytes, Count, Escaped};
//!
//! let lost = [0, 1, 3].map(|count| format!("{} lost", Count(count, "batch")));
//! assert_eq!(lost, ["0 batches lost", "1 batch lost", "3 batches lost"]);
//! let sizes = [0, 1023, 16 << 20, 1_000_000].map(|size| Bytes(size).to_string());
//! assert_eq!(sizes, ["0 bytes", "1023 bytes", "16 MiB", "976.6 KiB"]);
//! let thread = "worker\r\x1b[2Jroot# "; // printed as it is, it would clear the screen
//! assert_eq!(format!("thread {}", Escaped(thread)), "thread worker\\r\\u{1b}[2Jroot# ");
//! ```

use std::fmt::{self, Write};

/// A count with its noun, such as 2 packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Count(pub u64, pub &'static str);

impl fmt::Display for Count {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(count, one) = self;
        let ending = match count {
            1 => "",
            _ if one.ends_with('s') || one.ends_with("ch") => "es",
            _ => "s",
        };
        write!(f, "{count} {one}{ending}")
    }
}

/// A size, rounded to tenths of its unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bytes(pub u64);

impl Bytes {
    /// The units, largest first.
    pub const UNITS: [(u64, &str); 3] = [(1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")];
}

impl fmt::Display for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match Self::UNITS.iter().find(|(unit, _)| self.0 >= *unit) {
            Some((unit, name)) => write!(f, "{} {name}", tenths(self.0 as f64 / *unit as f64)),
            None => Count(self.0, "byte").fmt(f),
        }
    }
}

/// A number with its tenths, unless they are zero.
pub fn tenths(number: f64) -> String {
    let text = format!("{number:.1}");
    text.strip_suffix(".0").unwrap_or(&text).to_owned()
}

/// A name chosen by someone else, on one line: control characters are shown, not sent to the terminal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Escaped<T>(pub T);

impl<T: fmt::Display> fmt::Display for Escaped<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.to_string().chars().try_for_each(|letter| match letter.is_control() {
            true => write!(f, "{}", letter.escape_default()),
            false => f.write_char(letter),
        })
    }
}
