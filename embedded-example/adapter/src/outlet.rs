//! A sender of what is recorded in place, and the line that it sends over.

use crate::export::{Export, Progress};
use core::fmt;
use tracebuf::inplace::{Memory, Recorder, Sender, Timer};

/// Bytes on their way to the line: a packet of USB, at full speed.
const STAGED: usize = 64;

/// Sends what is recorded over a line, as much as it takes, while recording goes on.
///
/// ```
/// use tracebuf_embedded::export::Progress;
/// use tracebuf_embedded::inplace::{Recorder, Region};
/// use tracebuf_embedded::outlet::Outlet;
/// use tracebuf_embedded::rtt::Rtt;
///
/// static TRACE: Region<64, 128, 32> = Region::zeroed(); // on a target, in the section .uninit
/// static RTT: Rtt<1024> = Rtt::new();
///
/// let recorder = Recorder::new(&TRACE, || 5, 1_000_000);
/// let mut outlet = Outlet::new(recorder, RTT.channel());
/// recorder.writer("main loop").instant("hello");
/// // In the main loop, or at the lowest priority, some times a second or more:
/// assert_eq!(outlet.poll(), Ok(Progress::Sent));
/// ```
///
/// A line that is told how many bytes it gets, such as a DMA channel, asks a [`Sender`] itself.
pub struct Outlet<'a, M: Memory, T: Timer, E> {
    sender: Sender<'a, M, T>,
    line: E,
    staged: [u8; STAGED],
    from: usize,
    to: usize,
}

impl<'a, M: Memory, T: Timer, E: Export> Outlet<'a, M, T, E> {
    /// A recorder's sender, which is its only one, and a line.
    pub fn new(recorder: Recorder<'a, M, T>, line: E) -> Self {
        Self { sender: Sender::new(recorder), line, staged: [0; STAGED], from: 0, to: 0 }
    }

    /// Sends as much as the line takes now, and not more than 16 times 64 bytes, so that a fast line keeps nobody waiting.
    ///
    /// # Errors
    /// The line's. The next call offers the same bytes again.
    pub fn poll(&mut self) -> Result<Progress, E::Error> {
        let mut progress = Progress::Idle;
        for _ in 0..16 {
            if self.from == self.to {
                (self.from, self.to) = (0, self.sender.fill(&mut self.staged));
            }
            let bytes = self.staged.get(self.from..self.to).unwrap_or_default();
            if bytes.is_empty() {
                break;
            }
            let taken = self.line.offer(bytes)?;
            self.from = self.from.saturating_add(taken).min(self.to);
            progress = if taken > 0 { Progress::Sent } else { progress.or_busy() };
            if self.from < self.to {
                break;
            }
        }
        Ok(progress)
    }

    /// Sends everything, what has not filled a chunk included, waiting for the line: in a fault handler, or before sleep.
    ///
    /// # Errors
    /// The line's.
    pub fn finish(&mut self) -> Result<(), E::Error> {
        self.sender.flush();
        while self.poll()? != Progress::Idle {}
        Ok(())
    }

    /// The line.
    pub const fn line(&mut self) -> &mut E {
        &mut self.line
    }
}

impl<M: Memory, T: Timer, E> fmt::Debug for Outlet<'_, M, T, E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Outlet").field("staged", &self.to.saturating_sub(self.from)).finish_non_exhaustive()
    }
}
