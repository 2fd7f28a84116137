//! A specification of a region file, and the parts that are made from it.

use std::sync::Arc;

use tracebuf::service::ProducerIdentity;

use super::control::OwnMark;
use super::memory::BufferMemory;
use super::outbox::Outbox;
use super::own_memory::OwnMemory;

/// What a file is to contain.
pub(crate) struct RegionSpec<'w> {
    /// Bytes for a buffer.
    pub(crate) region: u64,
    /// Whether it has a second half, and slots.
    pub(crate) beside_long_trace: bool,
    /// A packet with the clocks at the session's start.
    pub(crate) clocks: &'w [u8],
    pub(crate) own: Option<SharedMemorySpec>,
}

/// Shared memory that is to lie in the file.
#[derive(Clone, Copy)]
pub(crate) struct SharedMemorySpec {
    /// Its bytes.
    pub(crate) bytes: u64,
    /// The number of the buffer that the file belongs to.
    pub(crate) buffer: u16,
    /// The producer whose writers write into it.
    pub(crate) identity: ProducerIdentity,
}

/// A file's parts.
pub(crate) struct Parts {
    pub(crate) memory: BufferMemory,
    /// For a buffer beside a long trace.
    pub(crate) outbox: Option<Outbox>,
    pub(crate) own: Option<(Arc<OwnMemory>, OwnMark)>,
}
