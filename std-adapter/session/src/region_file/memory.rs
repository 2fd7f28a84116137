//! The memory of a session's buffers: anonymous pages, or a file's.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use memmap2::MmapMut;
use tracebuf::buffer::RingView;

use super::control::Control;
use tracebuf_std::memory::PagedMemory;

/// The memory of a buffer of a [`Session`](crate::Session).
///
/// ```
/// use tracebuf::buffer::{Config, FillPolicy, TraceBuffer};
/// use tracebuf_std::PagedMemory;
/// use tracebuf_session::{BufferMemory, CentralBuffer};
///
/// let memory = BufferMemory::from(PagedMemory::new(1 << 16)?);
/// let buffer: CentralBuffer = TraceBuffer::new(memory, Config::new(FillPolicy::RingBuffer))?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct BufferMemory {
    memory: Memory,
    /// Keeps the file locked.
    _control: Option<Arc<Control>>,
}

enum Memory {
    Pages(PagedMemory),
    File {
        /// What the buffer works on.
        active: MmapMut,
        /// What it works on after the next turn, in a file with two halves.
        other: Option<MmapMut>,
        turn: Arc<AtomicBool>,
    },
}

impl fmt::Debug for BufferMemory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BufferMemory").field("len", &self.as_ref().len()).finish_non_exhaustive()
    }
}

impl BufferMemory {
    pub(super) fn in_file(active: MmapMut, other: Option<MmapMut>, turn: Arc<AtomicBool>) -> Self {
        Self { memory: Memory::File { active, other, turn }, _control: None }
    }

    pub(super) fn keeping(self, control: Arc<Control>) -> Self {
        Self { _control: Some(control), ..self }
    }
}

impl From<PagedMemory> for BufferMemory {
    fn from(memory: PagedMemory) -> Self {
        Self { memory: Memory::Pages(memory), _control: None }
    }
}

impl AsRef<[u8]> for BufferMemory {
    fn as_ref(&self) -> &[u8] {
        match &self.memory {
            Memory::Pages(memory) => memory.as_ref(),
            Memory::File { active, .. } => active,
        }
    }
}

impl AsMut<[u8]> for BufferMemory {
    #[inline]
    fn as_mut(&mut self) -> &mut [u8] {
        match &mut self.memory {
            Memory::Pages(memory) => memory.as_mut(),
            Memory::File { active, other, turn } => {
                // Requested by the thread that owns the buffer, before an operation: from here on it works on a copy.
                if turn.load(Ordering::Relaxed) {
                    turn.store(false, Ordering::Relaxed);
                    if let Some(other) = other {
                        copy_used(active, other);
                        std::mem::swap(active, other);
                    }
                }
                active
            }
        }
    }
}

/// Copies the header, the table and the used part of the ring.
#[cold]
fn copy_used(from: &[u8], to: &mut [u8]) {
    let used = RingView::find(from).map_or(from.len(), |ring| {
        // The ring's length is a multiple of 4, the memory's need not be.
        let never = (ring.size() - ring.used().min(ring.size())) as usize;
        from.len().saturating_sub(never)
    });
    let used = used.min(to.len());
    to[..used].copy_from_slice(&from[..used]);
}
