//! The service's end of a producer in another process, with the memory that it borrows.

use std::io;

use self_cell::self_cell;
use tracebuf::producer::MemoryError;
use tracebuf::service::{EndpointStats, ProducerIdentity};

use super::shared_words::SharedWords;
use tracebuf_session::parts::{Endpoint, endpoint, shared_memory};

self_cell!(
    struct Both {
        owner: SharedWords,
        #[covariant]
        dependent: Endpoint,
    }
);

/// An endpoint with its shared memory.
pub(super) struct EndpointCell(Both);

impl EndpointCell {
    /// An endpoint for a producer that may write to this many buffers.
    pub(super) fn over(words: SharedWords, identity: ProducerIdentity, buffers: u16) -> io::Result<Self> {
        let both = Both::try_new(words, |words| {
            Ok::<_, MemoryError>(endpoint(shared_memory(words.as_ref())?, identity, buffers))
        });
        both.map(Self).map_err(|error| io::Error::new(io::ErrorKind::InvalidInput, error))
    }

    pub(super) fn with<R>(&mut self, act: impl FnOnce(&mut Endpoint<'_>) -> R) -> R {
        self.0.with_dependent_mut(|_, endpoint| act(endpoint))
    }

    pub(super) fn stats(&self) -> EndpointStats {
        self.0.borrow_dependent().stats()
    }

    pub(super) fn identity(&self) -> ProducerIdentity {
        self.0.borrow_dependent().identity()
    }
}
