//! Where from and where to: [`ReceiveOptions`].

use std::path::{Path, PathBuf};

/// What to receive from, and where to.
///
/// ```
/// use tracebuf_analysis::receive::ReceiveOptions;
///
/// let options = ReceiveOptions::new("/dev/ttyACM0", "board.pftrace").baud(1_000_000);
/// # let _ = options;
/// ```
#[derive(Clone, Debug)]
pub struct ReceiveOptions {
    pub(super) port: PathBuf,
    pub(super) output: PathBuf,
    pub(super) baud: u32,
}

impl ReceiveOptions {
    /// Bits a second of a serial port, unless set otherwise.
    pub const DEFAULT_BAUD: u32 = 115_200;

    /// Receives from a serial port, a named pipe (on a Unix) or a regular file into a trace file.
    pub fn new(port: impl AsRef<Path>, output: impl AsRef<Path>) -> Self {
        let (port, output) = (port.as_ref().to_owned(), output.as_ref().to_owned());
        Self { port, output, baud: Self::DEFAULT_BAUD }
    }

    /// Sets the bits a second of a serial port.
    #[must_use]
    pub fn baud(mut self, baud: u32) -> Self {
        self.baud = baud;
        self
    }
}
