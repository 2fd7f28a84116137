//! A session that has ended, with what is in its buffers.

use std::io;
use std::path::Path;

use crate::clock::ClockReading;
use crate::export::{Piece, write_trace};
use crate::long_trace::LongTraceStatus;
use crate::service::Service;
use crate::side_packets::SideRevision;
use crate::summary::{Summary, summary_of};
use crate::totals::Written;
use tracebuf_std::whole_file::write_atomically;

/// A session that has ended, with what is in its buffers.
pub struct Stopped {
    service: Service,
    /// What is beside the buffers. By now: in a child after a fork a thread of the parent's may have it locked.
    side: Piece,
    /// Some of it was read for a file that could not be completed, or all of it for one that has not its name.
    is_cut: bool,
    /// Packets and bytes of the long trace, if there was one.
    pub file: Option<Written>,
    /// How the long trace ended.
    pub long_trace: Option<LongTraceStatus>,
}

debug_fields!(Stopped, file, long_trace);

impl Stopped {
    pub(crate) fn new(service: Service, file: Option<Written>, long_trace: Option<LongTraceStatus>) -> Self {
        let mut side = Piece::default();
        let _ = side.side_data(&service.side, SideRevision::default());
        Self { service, side, is_cut: false, file, long_trace }
    }

    /// Writes what was not read yet as a whole trace, like [`Snapshot::write_to`](crate::Snapshot::write_to) without a
    /// copy of the buffers. A second call finds them empty, and what was read from a buffer in a file can no longer be
    /// recovered. To be able to try again elsewhere, take a snapshot before the session stops.
    ///
    /// # Errors
    /// What the file system says, or that `path` is the file of the long trace or of a buffer. If the file was begun,
    /// further calls say that what there was has been read; the first error names the file that has it, if any.
    pub fn write_to(&mut self, path: impl AsRef<Path>) -> io::Result<Written> {
        let path = path.as_ref();
        if self.is_cut {
            return Err(io::Error::other(
                "it was read for a file that could not be completed, or not be named",
            ));
        }
        self.service.files.check_is_none(path)?;
        let (totals, Self { service, side, is_cut, .. }) = (self.service.totals(), &mut *self);
        let written = write_atomically(path, |file| {
            *is_cut = true;
            let written = write_trace(&mut service.buffers, totals, &ClockReading::now(), side, None, file)?;
            service.invalid_packets += written.invalid_packets;
            Ok(written)
        })?;
        self.is_cut = false;
        Ok(written)
    }

    /// Returns what the session did.
    pub fn summary(&self) -> Summary {
        Summary { long_trace: self.long_trace.clone(), ..summary_of(&self.service, self.file) }
    }
}
