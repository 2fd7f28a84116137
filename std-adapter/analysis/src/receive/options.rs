//! What to receive, and how.

use std::path::{Path, PathBuf};

use crate::LinkedNames;

/// The line to receive from, and the file to write.
///
/// ```
/// use tracebuf_analysis::receive::ReceiveOptions;
///
/// let board = ReceiveOptions::new("/dev/ttyACM0", "trace.pftrace").baud(1_000_000).waits(true);
/// let probe = ReceiveOptions::new("tcp:localhost:9090", "trace.pftrace").device("oven");
/// # let _ = (board, probe);
/// ```
#[derive(Clone, Debug)]
pub struct ReceiveOptions {
    pub(super) port: PathBuf,
    pub(super) output: PathBuf,
    pub(super) baud: u32,
    pub(super) waits: bool,
    pub(super) device: Option<String>,
    pub(super) channel: Option<u32>,
    pub(super) is_live: bool,
    pub(super) linked: LinkedNames,
}

impl ReceiveOptions {
    /// Bits a second of a serial port, unless set otherwise.
    pub const DEFAULT_BAUD: u32 = 115_200;

    /// Receives from a serial port, a named pipe (on a Unix), a regular file, the server `tcp:HOST:PORT`, or whoever
    /// connects to `tcp-listen:HOST:PORT`, into a trace file.
    pub fn new(port: impl AsRef<Path>, output: impl AsRef<Path>) -> Self {
        let (port, output) = (port.as_ref().to_owned(), output.as_ref().to_owned());
        let (baud, linked) = (Self::DEFAULT_BAUD, LinkedNames::default());
        Self { port, output, baud, waits: false, device: None, channel: None, is_live: true, linked }
    }

    /// The same options for what is named so in errors.
    #[must_use]
    pub fn named(mut self, port: impl AsRef<Path>) -> Self {
        port.as_ref().clone_into(&mut self.port);
        self
    }

    /// Sets the bits a second of a serial port.
    #[must_use]
    pub fn baud(mut self, baud: u32) -> Self {
        self.baud = baud;
        self
    }

    /// Waits for a serial port or a server that is not there, and again whenever it is gone, as when its device is
    /// unplugged or reset. Otherwise both are errors.
    #[must_use]
    pub fn waits(mut self, waits: bool) -> Self {
        self.waits = waits;
        self
    }

    /// Names the device, as its process in the trace. Then no number of it is one of the host's, or of a device with
    /// another name: their traces can be one. For devices that record in place.
    #[must_use]
    pub fn device(mut self, name: impl Into<String>) -> Self {
        self.device = Some(name.into());
        self
    }

    /// Asks J-Link's server for this channel of RTT, in place of the first. Other servers have a port for each channel,
    /// and would pass this on to the device.
    #[must_use]
    pub fn channel(mut self, channel: u32) -> Self {
        self.channel = Some(channel);
        self
    }

    /// Gives names that are only in the device's program. It must be the one that the device runs.
    #[must_use]
    pub fn linked_names(mut self, names: LinkedNames) -> Self {
        self.linked = names;
        self
    }

    /// Says whether what comes is sent at that moment; otherwise, as of a regular file, the host's time says nothing, and
    /// events keep the device's.
    #[must_use]
    pub fn live(mut self, is_live: bool) -> Self {
        self.is_live = is_live;
        self
    }
}
