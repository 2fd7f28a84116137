//! The memory of a session's buffers: anonymous pages, or a part of a file with its first page.
#![allow(unsafe_code)]

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use memmap2::MmapMut;
use tracebuf::buffer::RingView;

use tracebuf_std::file_lock::Lock;
use tracebuf_std::memory::PagedMemory;

use super::{OWN, PAGE};

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

/// The first page of the file, for as long as anybody needs it; it keeps the file locked.
pub(super) struct Control {
    pub(super) page: MmapMut,
    pub(super) _lock: Lock,
}

impl Control {
    pub(super) fn word(&self, at: usize) -> &AtomicU64 {
        debug_assert!(at.is_multiple_of(8) && at + 8 <= PAGE as usize);
        // SAFETY: the pointer is to 8 bytes of the page, which is mapped readable and writable for as long as
        // `self` is borrowed, and at a multiple of 8 from its page-aligned start. They are touched by atomic
        // operations of this width alone: `self.page` is used nowhere else once `Control` is made.
        unsafe { AtomicU64::from_ptr(self.page.as_ptr().wrapping_add(at).cast_mut().cast()) }
    }

    pub(super) fn set(&self, at: usize, value: u64) {
        self.word(at).store(value.to_le(), Ordering::Relaxed);
    }
}

/// Marks shared memory in a file as valid while the session runs; it keeps the file locked.
pub(crate) struct OwnMark(pub(super) Arc<Control>);

impl OwnMark {
    /// Called when the session has ended: the buffers have everything that is in there.
    pub(crate) fn end(&self) {
        // What the buffers have must be stored before it.
        self.0.word(OWN).store(0, Ordering::SeqCst);
    }
}
