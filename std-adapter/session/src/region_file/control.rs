//! A region file's first page.
#![allow(unsafe_code)]

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use memmap2::MmapMut;
use tracebuf_std::file_lock::Lock;

use super::{OWN, PAGE};

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
