//! Windows has no signals on which a flight recorder could write.
#![allow(clippy::unused_self)] // as where there are some

/// No signals.
#[derive(Default)]
pub(super) struct Signals {}

impl Signals {
    pub(super) fn forget(&self) {}

    pub(super) fn end(&self) {}
}
