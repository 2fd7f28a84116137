//! What a service knows of a producer besides its shared memory: [`EndpointState`].

use super::super::writers::Writers;
use super::discarded::Discarded;
use super::{EndpointStats, ProducerIdentity};

/// What an [endpoint](super::ProducerEndpoint) knows of its producer, without the shared memory: for a service that
/// holds the memory itself, and has an endpoint only while it works on it.
///
/// ```
/// use tracebuf::producer::*;
/// use tracebuf::service::{EndpointState, ProducerEndpoint, ProducerIdentity};
///
/// let identity = ProducerIdentity { producer_id: 1, uid: 1000, pid: 42 };
/// let mut known = EndpointState::<8>::new(identity, 0);
/// let mut words = vec![0u32; 1024]; // which the service keeps beside it
/// let memory = SharedMemory::new(atomic_words(&mut words), 4096)?;
/// let mut endpoint = ProducerEndpoint::of(known, Consumer::new(memory));
/// endpoint.allow(0);
/// known = endpoint.into_state();
/// assert_eq!(known.identity(), identity);
/// # Ok::<(), MemoryError>(())
/// ```
pub struct EndpointState<const WRITERS: usize, A = u32> {
    pub(super) identity: ProducerIdentity,
    pub(super) allowed: A,
    pub(super) writers: Writers<WRITERS>,
    pub(super) discarded: Discarded,
    pub(super) stats: EndpointStats,
}

crate::debug::opaque_debug! {
    "EndpointState": [const WRITERS: usize, A] EndpointState<WRITERS, A>,
}

impl<const WRITERS: usize, A> EndpointState<WRITERS, A> {
    /// Of a producer that may write to these buffers, none at first.
    pub const fn new(identity: ProducerIdentity, allowed: A) -> Self {
        Self {
            identity,
            allowed,
            writers: Writers::new(),
            discarded: Discarded::NONE,
            stats: EndpointStats::ZERO,
        }
    }

    /// Of one that may patch sizes in complete chunks until it commits them, as Perfetto's may: a scrape takes of a chunk
    /// that waits for patches the packets before the last one, and nothing behind it. On microcontrollers, whose
    /// producers are this crate's, that changes nothing.
    #[must_use]
    pub const fn patching_in_place(mut self) -> Self {
        self.writers.patch_in_place();
        self
    }

    /// Who the producer is.
    pub const fn identity(&self) -> ProducerIdentity {
        self.identity
    }

    /// The buffers that it may write to.
    pub const fn allowed(&self) -> &A {
        &self.allowed
    }

    /// The same, to be changed.
    pub const fn allowed_mut(&mut self) -> &mut A {
        &mut self.allowed
    }

    /// What became of chunks and patches before they reached a buffer.
    pub const fn stats(&self) -> EndpointStats {
        self.stats
    }
}
