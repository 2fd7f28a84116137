//! A connection to Perfetto's service before a tracing session: the program offers what it has, and waits.

use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::Sender;
use std::time::Instant;

use tracebuf::proto::fields::ipc::{
    PRODUCER_PORT, initialize_connection_response, method, protocol_abi_version,
};
use tracebuf::proto::reader::numbers;

use super::ProtoBuilder;
use super::categories::WantedCategories;
use super::commands::ServiceCommand;
use super::frame_reader::FrameReader;
use super::frames::{ServiceFrame, bind, push_frame};
use super::program::{self as calls, Port};
use super::tracing_session::{COMMANDS, PendingReplies, Recorded, RecordedSource, sender_and_receiver};
use crate::connection::Agreement;
use crate::link::{Link, SocketKind, refused};
use crate::trust::TrustedUsers;
use tracebuf_session::limits::{PAGE, SHARED_MEMORY};
use tracebuf_session::parts::{FOR_EVER, PATIENCE};
use tracebuf_sockets::SharedWords;

// The numbers of other calls than [`COMMANDS`].
const BIND: u64 = 1 << 2;
const HELLO: u64 = 2 << 2;
/// The call that is answered once a session that is already there has said everything it has to say.
const ALL_SAID: u64 = 4 << 2;

/// Bytes of shared memory that a program would like to have.
const MEMORY: u32 = 1 << 20;
/// Bytes after which a writer repeats its state. Nothing says how large the service's buffer is.
const STATE_EVERY: u32 = 1 << 20;

/// A connection on which nothing is recorded yet.
pub(crate) struct IdleConnection {
    stream: Stream,
    port: Port,
    words: Option<SharedWords>,
    /// What is to be recorded, and which categories of it.
    starts: Option<(RecordedSource, WantedCategories)>,
}

struct Stream {
    link: Link,
    frames: FrameReader,
    /// A file that has come, and was not used yet.
    file: Option<OwnedFd>,
}

/// A frame of the service, as far as it means something here.
enum Heard {
    Bound(Option<Port>),
    Welcome {
        versions: u64,
        in_messages: bool,
    },
    /// The reply to a call, with a command if it is that of [`COMMANDS`].
    Reply(u64, ServiceCommand),
    Failure,
    Other,
}

impl Heard {
    /// `None` for a malformed frame.
    fn of(frame: &[u8]) -> Option<Self> {
        use initialize_connection_response::{PROTOCOL_ABI_VERSIONS, USE_SHMEM_EMULATION};
        Some(match ServiceFrame::of(frame)? {
            ServiceFrame::Bound(bound) => Self::Bound(Port::of(bound)),
            ServiceFrame::Reply(_, None) => Self::Failure,
            ServiceFrame::Reply(HELLO, Some(welcome)) => {
                let [in_messages, versions] = numbers(welcome, [USE_SHMEM_EMULATION, PROTOCOL_ABI_VERSIONS])?;
                Self::Welcome { versions, in_messages: in_messages != 0 }
            }
            ServiceFrame::Reply(COMMANDS, Some(command)) => {
                Self::Reply(COMMANDS, ServiceCommand::of(command)?)
            }
            ServiceFrame::Reply(request, Some(_)) => Self::Reply(request, ServiceCommand::Other),
            ServiceFrame::Other => Self::Other,
        })
    }
}

impl IdleConnection {
    /// Connects, and offers a data source as it is [registered](calls::data_source).
    pub(crate) fn begin(
        path: &Path,
        trusted: TrustedUsers,
        producer: &str,
        data_source: &ProtoBuilder,
    ) -> io::Result<Self> {
        let deadline = Instant::now() + PATIENCE;
        let link = Link::connected(path, SocketKind::Stream, deadline)?;
        trusted.check(path, &link)?;
        let mut waiting = Self::over(link, producer, std::slice::from_ref(data_source), deadline)?;
        while waiting.starts.is_none() && waiting.hear(deadline)? != ALL_SAID {}
        Ok(waiting)
    }

    /// The same over a connection, with all of these data sources; what is wanted of them is yet to be heard.
    pub(crate) fn over(
        link: Link,
        producer: &str,
        data_sources: &[ProtoBuilder],
        deadline: Instant,
    ) -> io::Result<Self> {
        let mut stream = Stream { link, frames: FrameReader::new(), file: None };
        stream.send(&[bind(BIND, PRODUCER_PORT)])?;
        let Heard::Bound(Some(port)) = stream.next(deadline)? else {
            return Err(refused("it has no port for producers, or one that lacks a method"));
        };
        let (hello, nothing) = (calls::hello(producer, MEMORY, PAGE), ProtoBuilder::new());
        let mut frames = vec![
            port.call(method::INITIALIZE_CONNECTION, &hello, Some(HELLO)),
            port.call(method::GET_ASYNC_COMMAND, &nothing, Some(COMMANDS)),
        ];
        frames
            .extend(data_sources.iter().map(|source| port.call(method::REGISTER_DATA_SOURCE, source, None)));
        frames.push(port.call(method::SYNC, &nothing, Some(ALL_SAID)));
        stream.send(&frames)?;
        Ok(Self { stream, port, words: None, starts: None })
    }

    /// Waits for shared memory, however long: it comes before the first command to record. Then the commands go to
    /// whoever is told of all, and starts and stops are acknowledged by what is returned.
    pub(crate) fn agreed_on_all(
        mut self,
        told: Sender<ServiceCommand>,
    ) -> io::Result<(Agreement, Arc<PendingReplies>)> {
        let words = loop {
            match self.words.take() {
                Some(words) => break words,
                None => self.hear(Instant::now() + FOR_EVER)?,
            };
        };
        let (sender, receiver) = sender_and_receiver(self.port, Recorded::All(told), self.stream.frames);
        let replies = sender.replies();
        let agreement = Agreement {
            link: self.stream.link,
            words,
            sender: Box::new(sender),
            receiver: Box::new(receiver),
            state_every: Vec::new(),
            sources: Vec::new(),
            wants: Box::new(|_| true),
        };
        Ok((agreement, replies))
    }

    /// Waits until then for a session to begin; false once one has.
    pub(crate) fn goes_on(&mut self, until: Instant) -> io::Result<bool> {
        while self.starts.is_none() {
            match self.hear(until) {
                Err(error) if error.kind() == io::ErrorKind::TimedOut => return Ok(true),
                other => other?,
            };
        }
        Ok(false)
    }

    pub(crate) fn agreed(self) -> io::Result<Agreement> {
        let (Some(words), Some((instance, categories))) = (self.words, self.starts) else {
            return Err(refused("it wants something recorded without shared memory"));
        };
        let (sender, receiver) = sender_and_receiver(self.port, Recorded::One(instance), self.stream.frames);
        Ok(Agreement {
            link: self.stream.link,
            words,
            sender: Box::new(sender),
            receiver: Box::new(receiver),
            state_every: vec![STATE_EVERY],
            sources: Vec::new(),
            wants: Box::new(move |category| categories.wants(category)),
        })
    }

    /// Waits until then for a reply, does what it says, and returns the number of its call.
    fn hear(&mut self, until: Instant) -> io::Result<u64> {
        match self.stream.next(until)? {
            Heard::Failure => Err(refused("it does not take this program")),
            Heard::Welcome { in_messages: true, .. } => Err(refused("it wants memory sent in messages")),
            Heard::Welcome { versions, .. } if versions != 0 && versions & protocol_abi_version::V1 == 0 => {
                Err(refused("it wants shared memory without pages"))
            }
            Heard::Reply(request, command) => self.command(command).map(|()| request),
            Heard::Welcome { .. } | Heard::Bound(_) | Heard::Other => Ok(0),
        }
    }

    fn command(&mut self, command: ServiceCommand) -> io::Result<()> {
        match command {
            ServiceCommand::UseMemory { page_kib } => self.words = Some(self.stream.memory(page_kib)?),
            ServiceCommand::Start { instance, buffer, config } => {
                let categories = WantedCategories::of(&config);
                self.starts = Some((RecordedSource { id: instance, buffer: buffer as u32 }, categories));
            }
            // What has not started has nothing to flush.
            ServiceCommand::Flush { request, .. } => {
                let nothing = calls::push_flush(ProtoBuilder::new(), request);
                self.stream.send(&[self.port.call(method::COMMIT_DATA, &nothing, None)])?;
            }
            ServiceCommand::Stop { instance } => {
                let instance = calls::instance(instance);
                self.stream.send(&[self.port.call(method::NOTIFY_DATA_SOURCE_STOPPED, &instance, None)])?;
            }
            ServiceCommand::ClearState { .. } | ServiceCommand::Other => {}
        }
        Ok(())
    }
}

impl Stream {
    /// Does not wait: what is said here is mostly little, and less than two of the longest frames, for which Linux has
    /// room, 208 KiB by default; there is none if the service asks and takes nothing.
    fn send(&self, frames: &[ProtoBuilder]) -> io::Result<()> {
        let mut bytes = Vec::new();
        frames.iter().for_each(|frame| push_frame(&mut bytes, frame));
        if self.link.try_send_some(&bytes, None)? == bytes.len() {
            Ok(())
        } else {
            Err(refused("it does not take what is said to it"))
        }
    }

    fn next(&mut self, until: Instant) -> io::Result<Heard> {
        let Self { link, frames, file } = self;
        let receive = |bytes: &mut [u8]| {
            // From a service that says something all the time there is always more.
            if Instant::now() >= until {
                return Err(io::ErrorKind::TimedOut.into());
            }
            let (len, came) = link.receive_with(bytes, until)?;
            *file = came.or(file.take());
            Ok(len)
        };
        frames.next(receive, Heard::of)
    }

    /// The memory that has come, with pages of this many KiB.
    fn memory(&mut self, page_kib: u64) -> io::Result<SharedWords> {
        let file = self.file.take().ok_or_else(|| refused("it has sent no shared memory"))?;
        if page_kib != u64::from(PAGE >> 10) {
            return Err(refused(format!("its shared memory has pages of {page_kib} KiB, not of 4")));
        }
        SharedWords::touched(&file, SHARED_MEMORY)
    }
}
