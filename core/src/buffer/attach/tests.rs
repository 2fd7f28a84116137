//! Regions as crashes leave them.

mod again;
mod crash;
mod damage;
mod dropped;
mod ended;
mod erased_last;
mod goes_on;
mod load;
mod mended;
mod round_trip;
mod version_1;

pub(in crate::buffer) use crash::crash_here;
