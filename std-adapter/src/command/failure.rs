//! How a command fails.

use std::fmt::Display;
use std::process::ExitCode;

use crate::tell::tell;

/// Why a command failed: what is told on standard error, and the exit status.
pub(crate) struct Failure {
    text: String,
    status: u8,
}

impl Failure {
    pub(crate) fn new(text: impl Display) -> Self {
        Self { text: text.to_string(), status: 1 }
    }

    /// With another exit status than that of most failures.
    pub(crate) fn with_status(self, status: u8) -> Self {
        Self { status, ..self }
    }

    /// Tells why, and gives the exit status.
    pub(crate) fn tell(&self) -> ExitCode {
        tell!("{}", self.text);
        ExitCode::from(self.status)
    }
}
