//! Connections to Perfetto's service: [`ConnectionBuilder::follow_perfetto`], and where that service listens.

use std::path::{Path, PathBuf};
use std::time::Instant;

use super::data_sources::{AROUND, TRACK_EVENT};
use super::frames::MAX_IPC_FRAME;
use super::handshake::IdleConnection;
use super::program as calls;
use crate::connection::{Connection, ConnectionBuilder};
use crate::follower::Follower;
use crate::link::too_long;
use tracebuf_session::SessionError;

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
    /// It calls `connected` for each tracing session, as [`follow`](Self::follow) does; the connection ends with the
    /// session. The data source is `track_event`, unless [named otherwise](Self::data_source).
    ///
    /// - **Several sessions at a time**: the program is in the one that began first, and within a quarter of a second
    ///   of its end in another.
    /// - **Shared memory** is as large as the configuration says for this program, otherwise 1 MiB, enough for 512
    ///   threads. Complete chunks are sent when they fill half of it, at flushes, and at the end. What has no room is
    ///   lost, unless threads [wait](Self::exhaustion), and the thread's next packet says so.
    /// - **Names, clocks and tracks** are repeated with every MiB, and when the service asks for it, as it should with a
    ///   smaller ring (`incremental_state_config`).
    ///
    /// Cost: a thread, which wakes four times a second while nothing is recorded, and that of a [`Connection`].
    ///
    /// Not supported: recording before there is a service, triggers, pages of other than 4 KiB, memory that is sent in
    /// messages, addresses that are not paths. Checked against the service in the crate `perfetto-sdk-sys` 1.4.
    ///
    /// # Categories
    /// Filtering by category would cost every event. Instead a program has a relay for each category that can be chosen,
    /// and connects those that a session [wants](Connection::wants):
    ///
    /// ```no_run
    /// use tracebuf_ipc::{Connection, perfetto_socket};
    /// use tracebuf_session::Relay;
    ///
    /// let relays = ["net", "render"].map(|category| (category, Relay::new()));
    /// let [net, render] = relays.each_ref().map(|(_, relay)| relay.recorder());
    /// let builder = Connection::builder().categories(["net", "render"]);
    /// let _follower = builder.follow_perfetto(perfetto_socket(), move |service| {
    ///     for (category, relay) in &relays {
    ///         if service.wants(category) {
    ///             relay.connect(&service.recorder())?;
    ///         }
    ///     }
    ///     Ok(())
    /// })?;
    ///
    /// // Of these, `track_event_config { disabled_categories: "*" enabled_categories: "net" }` wants the first.
    /// net.instant_with("request", |event| event.category("net"));
    /// render.instant_with("frame", |event| event.category("render"));
    /// # Ok::<(), tracebuf_session::SessionError>(())
    /// ```
    ///
    /// An event through a relay that is not connected costs three loads.
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
            return Err(too_long("names of the data source and its categories"));
        }
        let (path, mut idle) = (path.as_ref().to_owned(), None);
        let look = move |until| {
            let failed = |error| SessionError::io(format!("Perfetto's service at {}", path.display()), error);
            let (mut waiting, until): (IdleConnection, _) = match idle.take() {
                Some(waiting) => (waiting, until),
                None => {
                    let waiting =
                        IdleConnection::begin(&path, self.trusted, &self.name_of_process(), &data_source);
                    // A session that is already there has begun by now; following does not wait for another.
                    (waiting.map_err(failed)?, Instant::now())
                }
            };
            if waiting.goes_on(until).map_err(failed)? {
                idle = Some(waiting);
                return Ok(None);
            }
            self.clone().start(waiting.agreed().map_err(failed)?).map(Some)
        };
        Follower::start(look, connected)
    }
}

/// The path of Perfetto's service, where its SDK looks for it: the environment variable `PERFETTO_PRODUCER_SOCK_NAME`;
/// without it `/run/perfetto/traced-producer.sock` if that folder exists, otherwise `/tmp/perfetto-producer`; on
/// Android `/dev/socket/traced_producer`.
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
