//! What a flight recorder reports about itself.

use std::time::Duration;

/// What a flight recorder has done.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct FlightStatus {
    /// Snapshots written.
    pub written: u64,
    /// Snapshots that could not be written.
    pub failed: u64,
    /// Triggers that came while one of the same reason, or 16 others, were waiting for their time: they share its
    /// snapshot, or have none.
    pub merged: u64,
    /// Why the last failed snapshot failed.
    pub error: Option<String>,
    /// How long the drain thread stood still for the last snapshot.
    pub stall: Duration,
}
