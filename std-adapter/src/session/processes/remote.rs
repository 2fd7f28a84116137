//! The drain thread's end of a producer in another process, whichever protocol it speaks.

use std::io;
use std::sync::{Arc, Weak};

use super::endpoint_cell::EndpointCell;
use super::incoming::Incoming;
use super::link::Link;
use super::listening::{Door, Newcomer};
use super::shared_words::SharedWords;

/// What comes from it, and what that is carried out with. The connection ends with this.
pub(super) struct Remote<M> {
    pub(super) link: Arc<Link>,
    pub(super) incoming: Incoming<M>,
    pub(super) endpoint: EndpointCell,
    door: Weak<Door>,
    /// It has one of the service's places as long as it has this.
    _place: Arc<()>,
}

impl<M: Send + 'static> Remote<M> {
    /// With a thread that takes what comes, as [`Incoming::start`].
    pub(super) fn start(
        newcomer: Newcomer,
        words: SharedWords,
        next: impl FnMut(&Link) -> Option<M> + Send + 'static,
    ) -> io::Result<Self> {
        let Newcomer { link, identity, buffers, waker, place, door } = newcomer;
        let endpoint = EndpointCell::over(words, identity, buffers)?;
        let incoming = Incoming::start(&link, waker, next)?;
        Ok(Self { link, incoming, endpoint, door, _place: place })
    }
}

impl<M> Remote<M> {
    /// The session has ended.
    pub(super) fn end(&self) {
        if let Some(door) = self.door.upgrade() {
            door.close();
        }
        self.link.shut();
    }
}

impl<M> Drop for Remote<M> {
    fn drop(&mut self) {
        self.link.shut();
    }
}
