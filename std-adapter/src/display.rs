//! Figures and names as the commands print them.
//!
//! ```
//! use tracebuf_std::display::{Bytes, Count, Escaped, Seconds};
//!
//! let said = [0, 1, 2].map(|count| format!("{} lost", Count(count, "packet")));
//! assert_eq!(said, ["0 packets lost", "1 packet lost", "2 packets lost"]);
//! assert_eq!(Count(2, "process").to_string(), "2 processes");
//!
//! let sizes = [0, 1023, 16 << 20, 60_314].map(|size| Bytes(size).to_string());
//! assert_eq!(sizes, ["0 bytes", "1023 bytes", "16 MiB", "58.9 KiB"]);
//!
//! let times = [8.04, 0.010, 0.0247, 0.0004, f64::INFINITY].map(|time| Seconds(time).to_string());
//! assert_eq!(times, ["8 s", "10 ms", "24.7 ms", "400 µs", "for ever"]);
//!
//! assert_eq!(Escaped("two\nlines, \x1b[31mred").to_string(), "two\\nlines, \\u{1b}[31mred");
//! ```

use std::fmt::{self, Write};

/// A count with its noun, such as 2 packets.
///
/// ```
/// use tracebuf_std::display::Count;
///
/// let lost = [0, 1, 3].map(|count| format!("{} lost", Count(count, "batch")));
/// assert_eq!(lost, ["0 batches lost", "1 batch lost", "3 batches lost"]);
/// ```
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

/// How many packets were left out of a trace file, as the commands print it.
///
/// ```
/// use tracebuf_std::display::LeftOut;
///
/// let said = LeftOut(2).to_string();
/// assert_eq!(said, "not in the trace file, malformed, forged or too long for a trace: 2 packets");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LeftOut(pub u64);

impl fmt::Display for LeftOut {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "not in the trace file, malformed, forged or too long for a trace: {}",
            Count(self.0, "packet")
        )
    }
}

/// A size.
///
/// ```
/// use tracebuf_std::display::Bytes;
///
/// assert_eq!(format!("a ring of {}", Bytes(48 << 20)), "a ring of 48 MiB");
/// assert_eq!(Bytes(1_000_000).to_string(), "976.6 KiB"); // rounded to tenths
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bytes(pub u64);

impl Bytes {
    const UNITS: [(u64, &str); 3] = [(1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")];

    /// Whole units, rounded down, without a blank, as options of the commands take it. For `record`.
    #[cfg(unix)]
    pub fn as_option(self) -> String {
        match Self::UNITS.iter().find(|(unit, _)| self.0 >= *unit) {
            Some((unit, name)) => format!("{}{name}", self.0 / unit),
            None => self.0.to_string(),
        }
    }
}

impl fmt::Display for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match Self::UNITS.iter().find(|(unit, _)| self.0 >= *unit) {
            Some((unit, name)) => write!(f, "{} {name}", tenths(self.0 as f64 / *unit as f64)),
            None => Count(self.0, "byte").fmt(f),
        }
    }
}

/// A time in seconds: milliseconds for a microcontroller's ring, infinity for a ring that nothing is written into.
///
/// ```
/// use tracebuf_std::display::Seconds;
/// use tracebuf_analysis::size::Sizing;
///
/// let lasts = Sizing::of_rate(2e6).ring_lasts(1 << 20);
/// assert_eq!(format!("a ring of 1 MiB lasts {}", Seconds(lasts)), "a ring of 1 MiB lasts 485 ms");
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Seconds(pub f64);

impl fmt::Display for Seconds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(seconds) = *self;
        match seconds {
            0.0 => f.write_str("0 s"),
            f64::INFINITY => f.write_str("for ever"),
            ..0.001 => write!(f, "{:.0} µs", seconds * 1e6),
            ..1.0 => write!(f, "{} ms", tenths(seconds * 1e3)),
            _ => write!(f, "{} s", tenths(seconds)),
        }
    }
}

/// A name chosen by someone else, on one line: control characters are shown, not sent to the terminal.
///
/// ```
/// use tracebuf_std::display::Escaped;
///
/// let thread = "worker\r\x1b[2Jroot# "; // from a trace: as it is, it would clear the screen
/// assert_eq!(format!("thread {}", Escaped(thread)), "thread worker\\r\\u{1b}[2Jroot# ");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Escaped<T>(pub T);

impl<T: fmt::Display> fmt::Display for Escaped<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(Escaper(f), "{}", self.0)
    }
}

/// Escapes what is written into it, character by character.
struct Escaper<'a, 'f>(&'a mut fmt::Formatter<'f>);

impl Write for Escaper<'_, '_> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        text.chars().try_for_each(|letter| match letter.is_control() {
            true => write!(self.0, "{}", letter.escape_default()),
            false => self.0.write_char(letter),
        })
    }
}

/// A number with its tenths, unless they are zero.
fn tenths(number: f64) -> String {
    let text = format!("{number:.1}");
    text.strip_suffix(".0").unwrap_or(&text).to_owned()
}
