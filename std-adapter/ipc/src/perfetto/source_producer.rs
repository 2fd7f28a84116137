//! Data sources for any number of a service's sessions at a time: [`SourceProducer`].

use std::collections::BTreeMap;
use std::io;
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::sync::mpsc::channel;
use std::thread::JoinHandle;
use std::time::Instant;

use tracebuf::producer::Exhaustion;
use tracebuf::proto::fields::ipc::{data_source_config, method};
use tracebuf::proto::reader::{message, numbers};
use tracebuf_session::parts::{FOR_EVER, PATIENCE, join};
use tracebuf_session::{Recorder, SessionError};

use super::commands::ServiceCommand;
use super::handshake::IdleConnection;
use super::program as calls;
use crate::connection::{Connection, ConnectionBuilder};
use crate::link::{Link, spawn};
use crate::service_link::ServiceMessage;

/// What a session wants of a data source.
#[derive(Clone, Copy, Debug)]
pub struct SourceRequest<'r> {
    /// The data source.
    pub name: &'r str,
    /// The session, by the service's number.
    pub session: u64,
    /// All of the `DataSourceConfig`.
    pub config: &'r [u8],
}

impl<'r> SourceRequest<'r> {
    /// `None` for a malformed one.
    fn of(config: &'r [u8]) -> Option<Self> {
        let name = std::str::from_utf8(message(config, data_source_config::NAME)?).ok()?;
        let [session] = numbers(config, [data_source_config::TRACING_SESSION_ID])?;
        Some(Self { name, session, config })
    }
}

/// Whoever has data sources for a [`SourceProducer`].
pub trait SourceHost: Send + 'static {
    /// Begins to record for a session, into the buffer of this recorder; `None` if that cannot be. The session does not
    /// wait for more: to it, the data source has started.
    fn start(&mut self, request: &SourceRequest<'_>, recorder: &Recorder) -> Option<Box<dyn RunningSource>>;
}

/// A data source that records for one session. Dropping it ends that, after it has written all that it has.
pub trait RunningSource: Send {
    /// Writes all that was recorded until now.
    fn flush(&mut self);

    /// Tells again what readers must know, because what told it may be lost.
    fn clear_state(&mut self) {}
}

/// Offers data sources to a service that speaks Perfetto's protocol, and records with them for each session that wants
/// one, several at a time: each with its own buffer and its own configuration.
///
/// ```no_run
/// use std::os::unix::net::UnixStream;
/// use tracebuf_ipc::{RunningSource, SourceHost, SourceProducer, SourceRequest};
/// use tracebuf_session::{PacketWriter, Recorder};
///
/// struct Hello;
/// struct Greeting(PacketWriter);
///
/// impl SourceHost for Hello {
///     fn start(&mut self, _: &SourceRequest<'_>, recorder: &Recorder) -> Option<Box<dyn RunningSource>> {
///         Some(Box::new(Greeting(recorder.packet_writer()?)))
///     }
/// }
///
/// impl RunningSource for Greeting {
///     fn flush(&mut self) {
///         self.0.packet(|packet| packet.message(900).string(1, "hello")); // for_testing
///     }
/// }
///
/// let service = UnixStream::connect("/run/perfetto/traced-producer.sock")?;
/// let _offered = SourceProducer::start(service, "example", &["example.hello"], Hello)?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// Starts, flushes and stops are carried out one after another, and acknowledged once the service has what belongs to
/// them. A source that finds no room in shared memory waits for the service. Dropping it, or the service's end, ends all
/// sources.
///
/// Cost: a thread that waits. From the first session on two more, 340 KB, and the shared memory: 1 MiB, unless the
/// session's configuration says otherwise for this name.
#[derive(Debug)]
pub struct SourceProducer {
    socket: UnixStream,
    thread: Option<JoinHandle<()>>,
}

impl SourceProducer {
    /// Offers data sources of these names, as a producer of this name, over a connection to a service.
    ///
    /// # Errors
    /// No thread, or no other descriptor of the socket.
    pub fn start(
        socket: UnixStream,
        producer: &str,
        sources: &[&str],
        host: impl SourceHost,
    ) -> Result<Self, SessionError> {
        let other =
            socket.try_clone().map_err(|error| SessionError::io("a connection to a service", error))?;
        let (producer, mut host) = (producer.to_owned(), host);
        let offered: Vec<_> = sources.iter().map(|name| calls::data_source(name, &[])).collect();
        let serve = move || {
            // Without a service nobody wants anything, nor hears of an error.
            let waiting =
                IdleConnection::over(Link::of(other), &producer, &offered, Instant::now() + FOR_EVER);
            let _ = waiting.and_then(|waiting| serve(waiting, producer, &mut host));
        };
        Ok(Self { socket, thread: Some(spawn("tracebuf-offers", serve)?) })
    }
}

impl Drop for SourceProducer {
    fn drop(&mut self) {
        let _ = self.socket.shutdown(Shutdown::Both);
        self.thread.take().into_iter().for_each(join);
    }
}

fn serve(waiting: IdleConnection, producer: String, host: &mut impl SourceHost) -> io::Result<()> {
    let (told, commands) = channel();
    let (agreement, replies) = waiting.agreed_on_all(told)?;
    let builder = ConnectionBuilder::default().exhaustion(Exhaustion::Stall).process_name(producer);
    let connection: Connection = builder.start(agreement).map_err(io::Error::other)?;
    let service = connection.link();
    let acknowledge = |method, instance| {
        let is_said = replies.push(method, instance);
        service.act(ServiceMessage::ToAnswer);
        is_said.ok_or_else(|| io::Error::from(io::ErrorKind::OutOfMemory))
    };
    let mut running = BTreeMap::<u64, Box<dyn RunningSource>>::new();
    for command in commands {
        match command {
            ServiceCommand::Start { instance, buffer, config } => {
                let request = SourceRequest::of(&config).zip(u16::try_from(buffer).ok());
                let started = request
                    .and_then(|(request, buffer)| host.start(&request, &connection.recorder_into(buffer)));
                running.extend(started.map(|source| (instance, source)));
                acknowledge(method::NOTIFY_DATA_SOURCE_STARTED, instance)?;
            }
            ServiceCommand::Stop { instance } => {
                if running.remove(&instance).is_some() {
                    // The session may end with the acknowledgement: before it, the service must have all.
                    let _ = connection.flush(PATIENCE);
                }
                acknowledge(method::NOTIFY_DATA_SOURCE_STOPPED, instance)?;
            }
            ServiceCommand::Flush { request, instances } => {
                let asked = running.iter_mut().filter(|(instance, _)| instances.contains(instance));
                asked.for_each(|(_, source)| source.flush());
                service.act(ServiceMessage::Question(request));
            }
            ServiceCommand::ClearState { instances } => {
                let asked = running.iter_mut().filter(|(instance, _)| instances.contains(instance));
                asked.for_each(|(_, source)| source.clear_state());
            }
            ServiceCommand::UseMemory { .. } | ServiceCommand::Other => {}
        }
    }
    Ok(())
}
