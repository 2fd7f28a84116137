//! `record` on systems other than Linux: an error.

use std::io;
use std::sync::atomic::AtomicBool;

use tracebuf_session::SessionError;

use crate::options::RecordOptions;
use crate::report::{RecordProgress, RecordReport};

/// Recording a machine needs Linux.
///
/// # Errors
/// Always.
pub fn record(
    _: &RecordOptions,
    _: &AtomicBool,
    _: impl FnMut(&RecordProgress),
) -> Result<RecordReport, SessionError> {
    Err(SessionError::io(
        "recording this machine",
        io::Error::new(io::ErrorKind::Unsupported, "it needs Linux"),
    ))
}
