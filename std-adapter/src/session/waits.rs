//! For how long is waited.

use std::time::Duration;

/// How long producers are given to send what they have, and a session's thread to answer.
pub(crate) const PATIENCE: Duration = Duration::from_secs(5);

/// What takes some milliseconds takes no longer than this.
pub(crate) const A_MOMENT: Duration = Duration::from_millis(100);

/// For ever, to a process: clocks can count no further than some such time, so that more is as much.
pub(crate) const FOR_EVER: Duration = Duration::from_secs(100 * 365 * 24 * 60 * 60);
