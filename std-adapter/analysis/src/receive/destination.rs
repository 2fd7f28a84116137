//! Where packets of devices go.

use std::io;
use std::path::{Path, PathBuf};

use tracebuf_session::Recorder;

use super::files::Files;
use super::session::SessionOutput;

/// Where the packets of devices go.
///
/// ```
/// use tracebuf_analysis::receive::Destination;
/// use tracebuf_session::Session;
///
/// let file = Destination::File("trace.pftrace".into());
/// // Beside what the program itself records; of another program's session, its connection has the recorder.
/// let session = Session::builder().start()?;
/// let joined = Destination::Session(session.recorder());
/// # let _ = (file, joined);
/// # Ok::<(), tracebuf_session::SessionError>(())
/// ```
#[derive(Clone, Debug)]
pub enum Destination {
    /// A trace file. With one device, each of its starts has one: see [`receive`](super::receive()).
    File(PathBuf),
    /// A session's trace, in whose time the devices' events are. Its recorder should
    /// [stall](tracebuf_session::Exhaustion::Stall): what it drops is counted in the session.
    Session(Recorder),
}

/// A destination that is written to.
pub(super) enum Output {
    Files(Files),
    Session(SessionOutput),
}

impl Output {
    /// Of so many devices.
    pub(super) fn to(destination: &Destination, devices: usize) -> io::Result<Self> {
        Ok(match destination {
            Destination::File(path) => Self::Files(Files::to(path, devices == 1)?),
            Destination::Session(recorder) => Self::Session(SessionOutput::to(recorder.clone())),
        })
    }

    pub(super) fn packet(&mut self, start: u64, packet: &[u8]) -> io::Result<()> {
        match self {
            Self::Files(files) => files.packet(start, packet),
            Self::Session(session) => session.packet(packet),
        }
    }

    pub(super) fn flush(&mut self) -> io::Result<()> {
        match self {
            Self::Files(files) => files.flush(),
            // Whoever reads it asks for what is there.
            Self::Session(_) => Ok(()),
        }
    }

    /// Packets that are written, and those that are not, as far as is known.
    pub(super) fn packets(&self) -> (u64, u64) {
        match self {
            Self::Files(files) => files.packets(),
            Self::Session(session) => session.packets(),
        }
    }

    pub(super) fn paths(&self) -> Vec<PathBuf> {
        match self {
            Self::Files(files) => files.paths(),
            Self::Session(_) => Vec::new(),
        }
    }
}

/// The name of a device that nobody has named: that of its line.
pub(super) fn name_of(line: &Path) -> String {
    match line.file_name() {
        Some(name) => name.to_string_lossy().into_owned(),
        None => line.display().to_string(),
    }
}
