//! The memory of a session's buffers: anonymous pages, or a part of a file.

use std::sync::Arc;

use memmap2::MmapMut;
use tracebuf::buffer::RingView;

use super::control::Control;
use tracebuf_std::memory::PagedMemory;

/// The memory of a buffer: the same bytes for as long as the buffer lives.
pub struct BufferMemory(Memory);

enum Memory {
    Pages(PagedMemory),
    File {
        map: MmapMut,
        /// Keeps the file locked.
        _control: Arc<Control>,
    },
}

debug_fields!(BufferMemory);

impl BufferMemory {
    pub(super) fn in_file(map: MmapMut, control: Arc<Control>) -> Self {
        Self(Memory::File { map, _control: control })
    }
}

impl From<PagedMemory> for BufferMemory {
    fn from(memory: PagedMemory) -> Self {
        Self(Memory::Pages(memory))
    }
}

impl AsRef<[u8]> for BufferMemory {
    fn as_ref(&self) -> &[u8] {
        match &self.0 {
            Memory::Pages(memory) => memory.as_ref(),
            Memory::File { map, .. } => map,
        }
    }
}

impl AsMut<[u8]> for BufferMemory {
    #[inline]
    fn as_mut(&mut self) -> &mut [u8] {
        match &mut self.0 {
            Memory::Pages(memory) => memory.as_mut(),
            Memory::File { map, .. } => map,
        }
    }
}

/// Copies the header, the table and the used part of the ring.
pub(super) fn copy_used(from: &[u8], to: &mut [u8]) {
    let used = RingView::find(from).map_or(from.len(), |ring| {
        // The ring's length is a multiple of 4, the memory's need not be.
        let never = (ring.size() - ring.used().min(ring.size())) as usize;
        from.len().saturating_sub(never)
    });
    let used = used.min(to.len());
    to[..used].copy_from_slice(&from[..used]);
}
