//! Gaps between a trace and what is left of its session.

use std::fmt;

use tracebuf_std::display::Count;

/// The gap between a trace and what is left of its session.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Gap {
    /// The end of the trace's whole packets.
    pub offset: u64,
    /// Bytes of the trace after that which are not in what is left. Readers do not get past the damage.
    pub unreadable: u64,
    /// Bytes that were written after the trace's end and are gone.
    pub missing: u64,
}

impl Gap {
    /// Returns true if nothing is missing.
    pub fn is_none(&self) -> bool {
        self.unreadable == 0 && self.missing == 0
    }

    /// Adds the bytes between two places of a trace that has `len`.
    pub(super) fn add(&mut self, from: u64, to: u64, len: u64) {
        let (end_of_unreadable, start_of_missing) = (to.min(len), from.max(len));
        self.unreadable += end_of_unreadable.saturating_sub(from);
        self.missing = self.missing.saturating_add(to.saturating_sub(start_of_missing));
    }
}

impl fmt::Display for Gap {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { offset, unreadable, missing } = *self;
        if self.is_none() {
            return f.write_str("nothing is missing");
        }
        if unreadable > 0 {
            let is = if unreadable == 1 { "is" } else { "are" };
            write!(f, "{} from offset {offset} on {is} unreadable", Count(unreadable, "byte"))?;
        }
        let and = if unreadable > 0 { ", and it" } else { "it" };
        match missing {
            0 => Ok(()),
            missing => write!(f, "{and} is {} shorter than it was", Count(missing, "byte")),
        }
    }
}
