//! Lines of source files, where these are interned.
//!
//! On microcontrollers they are not: each program that traces would have 46 bytes of code for it, and few use it. There, a
//! line is nothing and takes no code.

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct Line(#[cfg(not(tracebuf_small))] u32);

#[cfg(not(tracebuf_small))]
impl Line {
    pub(super) const NONE: Line = Line(0);

    pub(super) const fn of(line: u32) -> Option<Line> {
        Some(Line(line))
    }

    pub(super) const fn number(self) -> u32 {
        self.0
    }
}

#[cfg(tracebuf_small)]
impl Line {
    pub(super) const NONE: Line = Line();

    pub(super) const fn of(_: u32) -> Option<Line> {
        None
    }

    pub(super) const fn number(self) -> u32 {
        0
    }
}
