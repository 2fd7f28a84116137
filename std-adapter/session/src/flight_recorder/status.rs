//! What a flight recorder reports about itself.

use std::time::Duration;

/// What a flight recorder has done.
///
/// ```
/// use std::sync::Arc;
/// use tracebuf_session::{FlightRecorder, Session};
///
/// # let folder = std::env::temp_dir().join(format!("doc-flight-status-{}", std::process::id()));
/// # std::fs::create_dir_all(&folder)?;
/// let session = Arc::new(Session::builder().start()?);
/// let recorder = FlightRecorder::new(&session, &folder)?;
/// recorder.snapshot("by hand")?;
/// let status = recorder.status();
/// println!("{} snapshots; the last one held the session up for {:?}", status.written, status.stall);
/// assert_eq!((status.written, status.failed, status.error), (1, 0, None));
/// # std::fs::remove_dir_all(folder)?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
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
