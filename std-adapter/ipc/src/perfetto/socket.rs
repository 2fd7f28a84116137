//! The socket for programs with Perfetto's SDK: [`PerfettoSocket`].

use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use super::categories;
use super::data_sources::{TRACK_EVENT, WantedSource};
use super::frames::MAX_IPC_FRAME;
use super::sdk_producer::SdkProducer;
use crate::acceptor::{self, Admission, ListenThread, NewProducer};
use crate::link::{Link, SocketKind, too_long};
use crate::socket_file::SocketFile;
use tracebuf_session::limits::PAGE;
use tracebuf_session::{Session, SessionError};
use tracebuf_sockets::SharedWords;

/// Sets up a [`PerfettoSocket`]. Made by [`PerfettoSocket::builder`].
#[derive(Clone, Debug)]
pub struct PerfettoSocketBuilder {
    shared_memory: usize,
    producers: usize,
    data_sources: Vec<(String, Vec<u8>)>,
}

/// A socket through which programs with Perfetto's own SDK record into a session, with the system backend, as they do
/// into Perfetto's service.
///
/// ```
/// use std::sync::Arc;
/// use tracebuf_ipc::PerfettoSocket;
/// use tracebuf_session::Session;
///
/// let path = std::env::temp_dir().join(format!("doc-perfetto-{}", std::process::id()));
/// let session = Arc::new(Session::builder().ring(16 << 20).start()?);
/// let builder = PerfettoSocket::builder().categories(["render", "net.*"]).data_source("org.example.power", []);
/// let socket = builder.bind(&session, &path)?;
/// // Programs that are started with PERFETTO_PRODUCER_SOCK_NAME set to this path are in the trace from now on.
/// assert_eq!(socket.producers_seen(), 0);
/// # Ok::<(), tracebuf_session::SessionError>(())
/// ```
///
/// Programs look for their service at [`perfetto_socket`](crate::perfetto_socket), and for the next one when that has
/// ended, some hundred times in their lives. Each [wanted](PerfettoSocketBuilder::data_source) data source runs in each
/// program that has it, from when the program comes until the session stops.
///
/// - **Trust and end** are as with a [`ProducerSocket`](crate::ProducerSocket).
/// - **Unfinished chunks** are taken too, except for their last packet, unless a program forbids it
///   (`SMB_SCRAPING_DISABLED`).
/// - **Shared memory**: 1 MiB is enough for 256 threads at a time. When it is full, the SDK drops whole packets of track
///   events, and the thread's next one says so; other data sources may wait for some seconds.
///
/// Not supported: memory that a program brings (Chrome's startup tracing, which is lost), triggers, memory that is sent
/// in messages (virtual machines), addresses that are not paths, and telling data sources to stop before the end.
///
/// Cost: a thread, and for each program a thread, 25 KB and the shared memory. Checked against Perfetto's SDK in the
/// version of the crate `perfetto-sdk` 1.2.
#[derive(Debug)]
pub struct PerfettoSocket(ListenThread<PerfettoAdmission>);

/// The programs that come have Perfetto's SDK.
struct PerfettoAdmission {
    shared_memory: usize,
    wanted: Arc<[WantedSource]>,
}

impl PerfettoSocket {
    /// A socket for up to 64 programs at a time, each with 1 MiB of shared memory, and with all categories of the data
    /// source `track_event` except those with the tags `slow` and `debug`, unless set otherwise.
    pub fn builder() -> PerfettoSocketBuilder {
        PerfettoSocketBuilder { shared_memory: 1 << 20, producers: 64, data_sources: Vec::new() }
    }

    /// How many programs have come, including those that have gone.
    pub fn producers_seen(&self) -> u64 {
        self.0.seen()
    }
}

impl PerfettoSocketBuilder {
    /// Sets the bytes of shared memory with each program, from 4 KiB to 64 MiB, rounded up to whole pages. What a
    /// program would like to have is not considered.
    #[must_use]
    pub fn shared_memory(mut self, bytes: usize) -> Self {
        self.shared_memory = bytes;
        self
    }

    /// Limits how many programs may be there at a time; more wait until one goes. All share the places for sequences in
    /// each buffer: see [`BufferConfig::sequences`](tracebuf_session::BufferConfig::sequences).
    #[must_use]
    pub fn producers(mut self, count: usize) -> Self {
        self.producers = count;
        self
    }

    /// Runs the data source of this name in programs that have it, and twice if it is named twice; others do not run.
    /// It goes to the buffer that the session has for this name
    /// ([`SessionBuilder::data_source`](tracebuf_session::SessionBuilder::data_source)), otherwise to the first.
    ///
    /// `config` holds further fields of its `DataSourceConfig`, encoded, such as 113 with a `TrackEventConfig`; it may
    /// be empty. With 12, a `ProtoVmConfig`, what the buffer overwrites of a program is folded by the `protovm_program` of
    /// its descriptor ([`CarryOver::join_vm`](tracebuf_session::CarryOver::join_vm)), in as much memory as that says.
    #[must_use]
    pub fn data_source(mut self, name: impl Into<String>, config: impl Into<Vec<u8>>) -> Self {
        self.data_sources.push((name.into(), config.into()));
        self
    }

    /// Runs the data source `track_event` with these categories and no others; a `*` at the end of one stands for
    /// whatever follows, except for categories with the tags `slow` and `debug`, which must be named in full.
    #[must_use]
    pub fn categories<'c>(self, enabled: impl IntoIterator<Item = &'c str>) -> Self {
        self.data_source(TRACK_EVENT, categories::only(enabled).as_bytes())
    }

    /// Creates the socket at this path and accepts programs from now on, as
    /// [`ProducerSocketBuilder::bind`](crate::ProducerSocketBuilder::bind) does.
    ///
    /// # Errors
    /// The same, but for configurations of data sources of more than some 130,000 bytes instead of names.
    pub fn bind(
        self,
        session: &Arc<Session>,
        path: impl AsRef<Path>,
    ) -> Result<PerfettoSocket, SessionError> {
        let socket = acceptor::bind(session, path.as_ref(), SocketKind::Stream, self.shared_memory)?;
        self.serve(session, socket)
    }

    /// Accepts programs at a socket from now on.
    ///
    /// # Errors
    /// No thread, or configurations of data sources that are too long.
    pub fn serve(
        mut self,
        session: &Arc<Session>,
        socket: SocketFile,
    ) -> Result<PerfettoSocket, SessionError> {
        if self.data_sources.is_empty() {
            self = self.categories(["*"]);
        }
        let wanted = self.data_sources.into_iter().map(|(name, config)| {
            let buffer = session.buffer_of(&name).unwrap_or(0);
            WantedSource { name, buffer, config }
        });
        let wanted: Arc<[WantedSource]> = wanted.collect();
        if wanted.iter().map(WantedSource::told).sum::<usize>() > MAX_IPC_FRAME {
            return Err(too_long("configurations of data sources"));
        }
        let admission = PerfettoAdmission { shared_memory: self.shared_memory, wanted };
        ListenThread::start(admission, session, socket, self.producers).map(PerfettoSocket)
    }
}

impl Admission for PerfettoAdmission {
    type Producer = SdkProducer;
    // A program that is sent away comes again at once, and after a hundred times in its life never again.
    const WAITS: bool = true;
    const HELD: Duration = Duration::from_secs(1);

    /// The protocol has no words for it.
    fn refuse(&self, _: &Link, _: &str) {}

    /// The SDK ends a program whose memory is not of whole pages.
    fn admit(&self, newcomer: NewProducer) -> io::Result<SdkProducer> {
        let (words, file) = SharedWords::new(self.shared_memory.next_multiple_of(PAGE as usize))?;
        SdkProducer::start(newcomer, words, file, self.wanted.clone())
    }
}
