//! Connections to Perfetto's service: [`ConnectionBuilder::follow_perfetto`], and where that service listens.

use std::io;
use std::path::{Path, PathBuf};
use std::time::Instant;

use super::calls;
use super::data_sources::TRACK_EVENT;
use super::frames::MAX_IPC_FRAME;
use super::handshake::{IdleConnection, OfferedSource};
use crate::connection::{Connection, ConnectionBuilder};
use crate::follower::{Follower, ServiceFinder};
use crate::proto_builder::ProtoBuilder;
use tracebuf_session::SessionError;

/// Most bytes of the messages around an offered data source.
const AROUND: usize = 64;

impl ConnectionBuilder {
    /// Connects to Perfetto's service (`traced`) whenever one listens at this path, and records whenever somebody makes
    /// a trace with that service, such as with the command `perfetto`: the trace has this program beside the kernel and
    /// all others.
    ///
    /// ```no_run
    /// use tracebuf_ipc::{Connection, perfetto_socket};
    /// use tracebuf_session::Relay;
    ///
    /// let relay = Relay::new();
    /// let recorder = relay.recorder(); // for any thread, from now on
    /// let _follower = Connection::builder()
    ///     .process_name("camera")
    ///     .follow_perfetto(perfetto_socket(), move |service| relay.connect(&service.recorder()))?;
    ///
    /// // In a trace whose configuration has the data source `track_event`.
    /// let _slice = recorder.enter("frame");
    /// # Ok::<(), tracebuf_session::SessionError>(())
    /// ```
    ///
    /// It calls `connected` for each tracing session, from a thread of its own, as [`follow`](Self::follow) does; the
    /// connection ends with the session. The data source is `track_event`, unless [named
    /// otherwise](Self::data_source); the program has [this process's](Self::process_name) name.
    ///
    /// - **Several sessions at a time**: the program is in the one that began first, and within a quarter of a second
    ///   of its end in another.
    /// - **Shared memory** is as large as the configuration says for this program, otherwise 1 MiB, enough for 512
    ///   threads. Complete chunks are sent when they fill half of it, when the service flushes, and at the end; the
    ///   service then takes unfinished chunks too. What has no room is lost, unless threads [wait](Self::exhaustion),
    ///   and the thread's next packet says so.
    /// - **Names, clocks and tracks** are repeated with every MiB, and when the service asks for it
    ///   (`incremental_state_config`), as it should with a smaller ring.
    ///
    /// Cost: a thread, which wakes four times a second while nothing is recorded, and that of a [`Connection`]
    /// otherwise. Dropping the [`Follower`] may wait for that thread, a quarter of a second.
    ///
    /// Not supported: recording before there is a service, triggers, pages of other than 4 KiB, memory that is sent in
    /// messages (virtual machines), addresses that are not paths. Checked against Perfetto's service in the version of
    /// the crate `perfetto-sdk-sys` 1.4.
    ///
    /// # Categories
    /// Events are not filtered by category, which would cost every event. Instead a program has a relay for each
    /// category that can be chosen, and connects those that a session [wants](Connection::wants):
    ///
    /// ```no_run
    /// use tracebuf_ipc::{Connection, perfetto_socket};
    /// use tracebuf_session::Relay;
    ///
    /// const CATEGORIES: [&str; 2] = ["net", "render"];
    ///
    /// let relays = CATEGORIES.map(|category| (category, Relay::new()));
    /// let [net, render] = relays.each_ref().map(|(_, relay)| relay.recorder());
    /// let builder = Connection::builder().categories(CATEGORIES); // told to anyone who asks the service what there is
    /// let _follower = builder.follow_perfetto(perfetto_socket(), move |service| {
    ///     for (category, relay) in &relays {
    ///         if service.wants(category) {
    ///             relay.connect(&service.recorder())?;
    ///         }
    ///     }
    ///     Ok(())
    /// })?;
    ///
    /// // With `track_event_config { disabled_categories: "*" enabled_categories: "net" }` in the configuration this is
    /// // recorded,
    /// net.instant_with("request", |event| event.category("net"));
    /// // and this is not.
    /// let _frame = render.enter_with("frame", |event| event.category("render"));
    /// # Ok::<(), tracebuf_session::SessionError>(())
    /// ```
    ///
    /// An event through a relay that is not connected costs three loads. A thread's events are on one track, whichever
    /// relays they go through.
    ///
    /// # Errors
    /// No thread; names of the data source and its [categories](Self::categories) of more than some 130,000 bytes. A
    /// missing service is no error: see [`Follower::error`].
    pub fn follow_perfetto(
        self,
        path: impl AsRef<Path>,
        connected: impl FnMut(&Connection) -> Result<(), SessionError> + Send + 'static,
    ) -> Result<Follower, SessionError> {
        let name = self.data_source.as_deref().unwrap_or(TRACK_EVENT);
        let data_source = calls::data_source(name, &self.categories);
        if data_source.as_bytes().len() + AROUND > MAX_IPC_FRAME {
            let error = io::Error::new(io::ErrorKind::InvalidInput, "they are too long");
            return Err(SessionError::io("names of the data source and its categories", error));
        }
        let path = path.as_ref().to_owned();
        Follower::start(PerfettoFinder { builder: self, path, data_source, waiting: None }, connected)
    }
}

/// Perfetto's service, and the connection that waits there.
struct PerfettoFinder {
    builder: ConnectionBuilder,
    path: PathBuf,
    data_source: ProtoBuilder,
    waiting: Option<IdleConnection>,
}

impl ServiceFinder for PerfettoFinder {
    fn look(&mut self, until: Instant) -> Result<Option<Connection>, SessionError> {
        let failed =
            |error| SessionError::io(format!("Perfetto's service at {}", self.path.display()), error);
        let (mut waiting, until) = match self.waiting.take() {
            Some(waiting) => (waiting, until),
            None => {
                let producer = &self.builder.name_of_process();
                let offer = OfferedSource { producer, data_source: &self.data_source };
                // A session that is already there has begun by now; following does not wait for another.
                (IdleConnection::begin(&self.path, &offer).map_err(failed)?, Instant::now())
            }
        };
        if waiting.goes_on(until).map_err(failed)? {
            self.waiting = Some(waiting);
            return Ok(None);
        }
        let agreed = waiting.agreed().map_err(failed)?;
        self.builder.clone().start(agreed).map(Some)
    }
}

/// The path of Perfetto's service, where its SDK looks for it: the environment variable `PERFETTO_PRODUCER_SOCK_NAME`;
/// without it `/run/perfetto/traced-producer.sock` if that folder exists, otherwise `/tmp/perfetto-producer`; on
/// Android `/dev/socket/traced_producer`.
///
/// ```
/// // For `Connection::builder().follow_perfetto(...)`.
/// let path = tracebuf_ipc::perfetto_socket();
/// assert!(path.file_name().is_some());
/// ```
#[must_use]
pub fn perfetto_socket() -> PathBuf {
    if let Some(path) = std::env::var_os("PERFETTO_PRODUCER_SOCK_NAME").filter(|path| !path.is_empty()) {
        return path.into();
    }
    if cfg!(target_os = "android") {
        return "/dev/socket/traced_producer".into();
    }
    let folder = Path::new("/run/perfetto");
    if folder.is_dir() { folder.join("traced-producer.sock") } else { "/tmp/perfetto-producer".into() }
}
