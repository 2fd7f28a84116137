//! The service's endpoint over memory that it shares with a producer.

use std::io;

use self_cell::self_cell;
use tracebuf::producer::MemoryError;
use tracebuf::service::ProducerIdentity;
use tracebuf_sockets::SharedWords;

use tracebuf_session::parts::{Endpoint, endpoint, shared_memory};

self_cell!(
    /// An endpoint with its shared memory.
    pub(crate) struct SharedEndpoint {
        owner: SharedWords,
        #[covariant]
        dependent: Endpoint,
    }
);

impl SharedEndpoint {
    /// An endpoint for a producer that may write to this many buffers.
    pub(crate) fn over(words: SharedWords, identity: ProducerIdentity, buffers: u16) -> io::Result<Self> {
        let both = Self::try_new(words, |words| {
            Ok::<_, MemoryError>(endpoint(shared_memory(words.as_ref())?, identity, buffers))
        });
        both.map_err(|error| io::Error::new(io::ErrorKind::InvalidInput, error))
    }

    pub(crate) fn with<R>(&mut self, act: impl FnOnce(&mut Endpoint<'_>) -> R) -> R {
        self.with_dependent_mut(|_, endpoint| act(endpoint))
    }
}
