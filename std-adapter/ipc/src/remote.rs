//! The drain thread's end of a producer in another process, for either protocol.

use std::io;
use std::path::Path;
use std::sync::{Arc, Weak};

use super::contained::{Contained, PROC};
use super::endpoint_cell::EndpointCell;
use super::incoming::Incoming;
use super::link::Link;
use super::listening::{Door, Newcomer};
use super::shared_words::SharedWords;

/// What comes from the producer, many things to a message, and what carries it out. The connection ends when this is
/// dropped.
pub(super) struct Remote<T> {
    pub(super) link: Arc<Link>,
    pub(super) incoming: Incoming<Vec<T>>,
    pub(super) endpoint: EndpointCell,
    door: Weak<Door>,
    /// Its place at the service, held as long as this exists.
    _place: Arc<()>,
}

impl<T: Send + 'static> Remote<T> {
    /// Starts a thread that takes what comes, as [`Incoming::start`] does, and reports the process if it is in a
    /// container. The first message is empty: it says that the process was looked at.
    pub(super) fn start(
        newcomer: Newcomer,
        words: SharedWords,
        mut next: impl FnMut(&Link) -> Option<Vec<T>> + Send + 'static,
        is_of_new_writer: fn(&T) -> bool,
    ) -> io::Result<Self> {
        let Newcomer { link, identity, buffers, waker, time, process_tree, place, door } = newcomer;
        let endpoint = EndpointCell::over(words, identity, buffers)?;
        let mut looked_at = None;
        let next = move |link: &Link| {
            let Some(contained) = &mut looked_at else {
                looked_at = Some(Contained::of(Path::new(PROC), identity.pid, time, &process_tree));
                return Some(Vec::new());
            };
            let message = next(link)?;
            // Before what the thread has recorded can be in a trace.
            if let Some(contained) = contained {
                if message.iter().any(is_of_new_writer) {
                    contained.has_new_writer();
                }
                contained.look_if_due();
            }
            Some(message)
        };
        let incoming = Incoming::start(&link, waker, next)?;
        Ok(Self { link, incoming, endpoint, door, _place: place })
    }
}

impl<T> Remote<T> {
    /// The session has ended.
    pub(super) fn end(&self) {
        if let Some(door) = self.door.upgrade() {
            door.close();
        }
        self.link.shut();
    }
}

impl<T> Drop for Remote<T> {
    fn drop(&mut self) {
        self.link.shut();
    }
}
