//! Figures as the commands print them.
//!
//! ```
//! use tracebuf_std::figures::Count;
//!
//! let said = [0, 1, 2].map(|count| format!("{} lost", Count(count, "packet")));
//! assert_eq!(said, ["0 packets lost", "1 packet lost", "2 packets lost"]);
//! assert_eq!(Count(2, "process").to_string(), "2 processes");
//! ```

use std::fmt;

/// So many of what one is called this.
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

/// How many packets were left out of a trace file, as the commands tell it.
///
/// ```
/// use tracebuf_std::figures::LeftOut;
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
