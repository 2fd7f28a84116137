//! Buffers' memory on Windows, where none lies in a file.

use std::convert::Infallible;
use std::fmt;
use std::io;
use std::path::Path;

use tracebuf::producer::AtomicU32;

use super::{Parts, Wanted};
use crate::memory::PagedMemory;
use crate::session::waits::Wait;
use crate::undo::Undo;

/// The memory of a buffer of a [`Session`](crate::session::Session).
///
/// ```
/// use tracebuf::buffer::{Config, FillPolicy, TraceBuffer};
/// use tracebuf_std::PagedMemory;
/// use tracebuf_std::session::{BufferMemory, CentralBuffer};
///
/// let memory = BufferMemory::from(PagedMemory::new(1 << 16)?);
/// let buffer: CentralBuffer = TraceBuffer::new(memory, Config::new(FillPolicy::RingBuffer))?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct BufferMemory(PagedMemory);

impl fmt::Debug for BufferMemory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BufferMemory").field("len", &self.as_ref().len()).finish_non_exhaustive()
    }
}

impl From<PagedMemory> for BufferMemory {
    fn from(memory: PagedMemory) -> Self {
        Self(memory)
    }
}

impl AsRef<[u8]> for BufferMemory {
    fn as_ref(&self) -> &[u8] {
        self.0.as_ref()
    }
}

impl AsMut<[u8]> for BufferMemory {
    #[inline]
    fn as_mut(&mut self) -> &mut [u8] {
        self.0.as_mut()
    }
}

/// The transfer from a buffer in a file into a long trace.
pub(crate) struct Outbox {
    never: Infallible,
    pub(crate) limit: usize,
}

/// A place for its bytes.
pub(crate) struct Slot(Infallible);

impl Outbox {
    pub(crate) fn slot(&self, _: Wait) -> Option<Slot> {
        match self.never {}
    }

    pub(crate) fn turn(&self) {
        match self.never {}
    }

    pub(crate) fn publish(&mut self, _: Option<&Slot>) {
        match self.never {}
    }
}

impl Slot {
    pub(crate) fn fill(&mut self, _: &[u8]) -> bool {
        match self.0 {}
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        match self.0 {}
    }

    pub(crate) fn goes_to(&self, _: u64) {
        match self.0 {}
    }

    pub(crate) fn written(self) {
        match self.0 {}
    }

    pub(crate) fn give_back(self) {
        match self.0 {}
    }

    pub(crate) fn give_up(self) {
        match self.0 {}
    }
}

/// Shared memory in a file.
pub(crate) struct OwnMemory(Infallible);

impl OwnMemory {
    pub(crate) fn words(&self) -> &[AtomicU32] {
        match self.0 {}
    }

    pub(crate) fn note_writer(&self, _: u16, _: u16) {
        match self.0 {}
    }
}

/// Marks it as valid.
pub(crate) struct OwnMark(Infallible);

impl OwnMark {
    pub(crate) fn end(&self) {
        match self.0 {}
    }
}

/// Cannot be called: `BufferConfig::in_file` does not exist here.
pub(crate) fn create(_: &Path, _: &Wanted<'_>) -> io::Result<(Parts, Undo)> {
    Err(io::ErrorKind::Unsupported.into())
}
