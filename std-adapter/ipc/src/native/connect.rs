//! Connections to a service of this crate: [`ConnectionBuilder::open`] and [`ConnectionBuilder::follow`].

use std::io;
use std::path::Path;
use std::time::Instant;

use super::records::{RecordReceiver, RecordSender};
use super::welcome::{MAX_WELCOME, Welcome};
use crate::connection::{Agreement, Connection, ConnectionBuilder};
use crate::follower::Follower;
use crate::link::{Link, SocketKind, refused};
use tracebuf_session::SessionError;
use tracebuf_session::limits::SHARED_MEMORY;
use tracebuf_session::parts::PATIENCE;
use tracebuf_sockets::SharedWords;
use tracebuf_std::display::Escaped;

impl ConnectionBuilder {
    /// Connects to the service that listens at this path.
    ///
    /// # Errors
    /// Nothing listens there, or no service of this version, or that of [another user](Self::service_user) in a folder
    /// for all; it has as many producers as it takes; it does not answer in 5 s; no memory, or no thread.
    pub fn open(self, path: impl AsRef<Path>) -> Result<Connection, SessionError> {
        let path = path.as_ref();
        let failed = |error| SessionError::io(format!("the tracing service at {}", path.display()), error);
        let deadline = Instant::now() + PATIENCE;
        let link = Link::connected(path, SocketKind::Messages, deadline).map_err(failed)?;
        self.trusted.check(path, &link).map_err(failed)?;
        let (welcome, words) = receive(&link, deadline).map_err(failed)?;
        self.start(Agreement {
            link,
            words,
            sender: Box::new(RecordSender::greeting()),
            receiver: Box::new(RecordReceiver::new()),
            state_every: welcome.state_every,
            sources: welcome.sources,
            wants: Box::new(|_| true),
        })
    }

    /// Connects to whichever service listens at this path, now or later, and again when that has ended, until the
    /// returned [`Follower`] is dropped. Each time it calls `connected`, from a thread of its own: most programs
    /// connect a [`Relay`](tracebuf_session::Relay) there. If that fails the connection ends, and another one is tried
    /// a quarter of a second later; if it panics, none is.
    ///
    /// A service that already listens has the program when this returns, if it answers within a second.
    ///
    /// # Errors
    /// No thread. A service that is missing or refuses is no error: see [`Follower::error`].
    pub fn follow(
        self,
        path: impl AsRef<Path>,
        connected: impl FnMut(&Connection) -> Result<(), SessionError> + Send + 'static,
    ) -> Result<Follower, SessionError> {
        let path = path.as_ref().to_owned();
        Follower::start(move |_| self.clone().open(&path).map(Some), connected)
    }
}

fn receive(link: &Link, deadline: Instant) -> io::Result<(Welcome, SharedWords)> {
    let mut message = vec![0; MAX_WELCOME];
    let (len, file) = link.receive_with(&mut message, deadline)?;
    if len == 0 {
        return Err(refused("it has ended the connection"));
    }
    message.truncate(len);
    // Whatever listens there says why not.
    let welcome = Welcome::from_bytes(&message).map_err(|why| refused(Escaped(why).to_string()))?;
    let has_memory = file.filter(|_| SHARED_MEMORY.contains(&welcome.shared_memory));
    let file = has_memory.ok_or_else(|| refused("it has sent no shared memory"))?;
    let words = SharedWords::touched(&file, welcome.shared_memory..=welcome.shared_memory)?;
    Ok((welcome, words))
}
