//! How others wake the drain thread.

use std::sync::{Arc, OnceLock};
use std::thread::{self, Thread};

/// Wakes a session's drain thread. Cheap to clone; from any thread.
///
/// ```
/// # use std::sync::mpsc::{Receiver, Sender, channel};
/// # use tracebuf::service::EndpointStats;
/// # use tracebuf_session::{CentralBuffer, Session, Transport};
/// # struct Line(Receiver<&'static str>, Sender<&'static str>);
/// # impl Transport for Line {
/// #     fn drain(&mut self, _: &mut [CentralBuffer]) {
/// #         self.0.try_iter().for_each(|request| self.1.send(request).unwrap());
/// #     }
/// #     fn ask_flush(&mut self) {}
/// #     fn is_flushed(&self) -> bool { true }
/// #     fn scrape(&mut self, _: &mut [CentralBuffer]) {}
/// #     fn stats(&self) -> EndpointStats { EndpointStats::default() }
/// # }
/// # let session = Session::builder().start()?;
/// # let (sender, requests) = channel();
/// # let (carry_out, carried_out) = channel();
/// session.attach(Line(requests, carry_out))?; // a `Transport` of your own
/// let waker = session.waker();
/// std::thread::spawn(move || {
///     sender.send("chunk 1 is complete").expect("a session");
///     waker.wake(); // so that the session calls `Transport::drain` now, not within a second
/// });
/// assert_eq!(carried_out.recv()?, "chunk 1 is complete");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct Waker {
    thread: Arc<OnceLock<Thread>>,
}

impl Waker {
    /// Wakes the thread, or keeps it from going to sleep the next time. Cost: an atomic swap, plus a system call if the
    /// thread sleeps.
    pub fn wake(&self) {
        if let Some(thread) = self.thread.get() {
            thread.unpark();
        }
    }

    #[doc(hidden)]
    pub fn set(&self, thread: Thread) {
        let _ = self.thread.set(thread);
    }

    #[doc(hidden)]
    pub fn is_current(&self) -> bool {
        self.thread.get().is_some_and(|thread| thread.id() == thread::current().id())
    }
}
