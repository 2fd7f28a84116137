//! A connection to Perfetto's service until a tracing session begins that wants what this program offers.

use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::time::Instant;

use rustix::fs::fstat;

use super::answers::{Answer, Command, answer};
use super::calls::{self, ALL_SAID, BIND, COMMANDS, HELLO, Method, Port};
use super::connected::{Instance, sender_and_receiver};
use crate::connection::Agreed;
use crate::link::{Kind, Link};
use crate::perfetto::categories::Categories;
use crate::perfetto::commands::PAGES;
use crate::perfetto::frames::{Frames, push_frame};
use crate::perfetto::proto::{Proto, numbers};
use crate::shared_words::SharedWords;
use tracebuf_session::limits::{PAGE, SHARED_MEMORY};
use tracebuf_session::parts::PATIENCE;
use tracebuf_std::display::Count;

/// Bytes of shared memory that a program would like to have.
const MEMORY: u32 = 1 << 20;
/// Bytes after which a writer repeats its state. Nothing says how large the service's buffer is.
const STATE_EVERY: u32 = 1 << 20;

/// What a program offers.
pub(super) struct Offer<'o> {
    pub(super) producer: &'o str,
    /// As it is [registered](calls::data_source).
    pub(super) data_source: &'o Proto,
}

/// A connection on which nothing is recorded yet.
pub(super) struct Waiting {
    stream: Stream,
    port: Port,
    words: Option<SharedWords>,
    /// What is to be recorded, and which categories of it.
    starts: Option<(Instance, Categories)>,
}

/// The stream to the service and back.
struct Stream {
    link: Link,
    frames: Frames,
    /// A file that has come, and was not used yet.
    file: Option<OwnedFd>,
}

/// What is awaited here, as read from a reply.
enum Reply {
    Welcome { versions: u64, in_messages: bool },
    Command(Command),
    Other,
}

impl Reply {
    fn of(request: u64, message: &[u8]) -> Option<Self> {
        match request {
            HELLO => {
                let [in_messages, versions] = numbers(message, [3, 4])?;
                Some(Self::Welcome { versions, in_messages: in_messages != 0 })
            }
            COMMANDS => Command::of(message).map(Self::Command),
            _ => Some(Self::Other),
        }
    }
}

fn refused(why: &str) -> io::Error {
    io::Error::new(io::ErrorKind::ConnectionRefused, why)
}

impl Waiting {
    /// Connects, and offers what there is.
    pub(super) fn begin(path: &Path, offer: &Offer<'_>) -> io::Result<Self> {
        let deadline = Instant::now() + PATIENCE;
        let link = Link::connected(path, Kind::Stream, deadline)?;
        let mut stream = Stream { link, frames: Frames::new(), file: None };
        stream.send(&[calls::bind(BIND)])?;
        let Answer::Bound(Some(port)) = stream.next(deadline)? else {
            return Err(refused("it has no port for producers, or one that lacks a method"));
        };
        let (hello, nothing) = (calls::hello(offer.producer, MEMORY, PAGE), Proto::new());
        stream.send(&[
            port.call(Method::InitializeConnection, &hello, Some(HELLO)),
            port.call(Method::GetAsyncCommand, &nothing, Some(COMMANDS)),
            port.call(Method::RegisterDataSource, offer.data_source, None),
            port.call(Method::Sync, &nothing, Some(ALL_SAID)),
        ])?;
        let mut waiting = Self { stream, port, words: None, starts: None };
        while waiting.starts.is_none() && waiting.hear(deadline)? != ALL_SAID {}
        Ok(waiting)
    }

    /// Waits until then for a session to begin; false once one has.
    pub(super) fn goes_on(&mut self, until: Instant) -> io::Result<bool> {
        while self.starts.is_none() {
            match self.hear(until) {
                Err(error) if error.kind() == io::ErrorKind::TimedOut => return Ok(true),
                other => other?,
            };
        }
        Ok(false)
    }

    /// What was agreed, once a session has begun.
    pub(super) fn agreed(self) -> io::Result<Agreed> {
        let (Some(words), Some((instance, categories))) = (self.words, self.starts) else {
            return Err(refused("it wants something recorded without shared memory"));
        };
        let (sender, receiver) = sender_and_receiver(self.port, instance, self.stream.frames);
        Ok(Agreed {
            link: self.stream.link,
            words,
            sender: Box::new(sender),
            receiver: Box::new(receiver),
            state_every: vec![STATE_EVERY],
            sources: Vec::new(),
            categories,
        })
    }

    /// Waits until then for a reply, does what it says, and returns the number of its call.
    fn hear(&mut self, until: Instant) -> io::Result<u64> {
        let Answer::Reply(request, said) = self.stream.next(until)? else { return Ok(0) };
        match said.ok_or_else(|| refused("it does not take this program"))? {
            Reply::Welcome { in_messages: true, .. } => {
                return Err(refused("it wants memory sent in messages"));
            }
            Reply::Welcome { versions, .. } if versions != 0 && versions & u64::from(PAGES) == 0 => {
                return Err(refused("it wants shared memory without pages"));
            }
            Reply::Command(command) => self.command(command)?,
            Reply::Welcome { .. } | Reply::Other => {}
        }
        Ok(request)
    }

    fn command(&mut self, command: Command) -> io::Result<()> {
        match command {
            Command::UseMemory { page_kib } => self.words = Some(self.stream.memory(page_kib)?),
            Command::Start { instance, buffer, categories } => {
                self.starts = Some((Instance { id: instance, buffer: buffer as u32 }, categories));
            }
            // What has not started has nothing to flush.
            Command::Flush { request } => {
                let nothing = calls::push_flush(Proto::new(), request);
                self.stream.send(&[self.port.call(Method::CommitData, &nothing, None)])?;
            }
            Command::Stop { instance } => {
                let instance = calls::instance(instance);
                self.stream.send(&[self.port.call(Method::NotifyDataSourceStopped, &instance, None)])?;
            }
            Command::ClearState | Command::Other => {}
        }
        Ok(())
    }
}

impl Stream {
    /// Does not wait: what is said here is mostly little, and less than two of the longest frames, for which Linux has
    /// room, 208 KiB by default; there is none if the service asks and takes nothing.
    fn send(&self, frames: &[Proto]) -> io::Result<()> {
        let mut bytes = Vec::new();
        frames.iter().for_each(|frame| push_frame(&mut bytes, frame));
        if self.link.try_send_some(&bytes, None)? == bytes.len() {
            Ok(())
        } else {
            Err(refused("it does not take what is said to it"))
        }
    }

    fn next(&mut self, until: Instant) -> io::Result<Answer<Reply>> {
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
        frames.next(receive, |frame| answer(frame, Reply::of))
    }

    /// The memory that has come, with pages of this many KiB.
    fn memory(&mut self, page_kib: u64) -> io::Result<SharedWords> {
        let file = self.file.take().ok_or_else(|| refused("it has sent no shared memory"))?;
        if page_kib != u64::from(PAGE >> 10) {
            return Err(refused(&format!("its shared memory has pages of {page_kib} KiB, not of 4")));
        }
        let bytes = usize::try_from(fstat(&file)?.st_size).unwrap_or(0);
        if !SHARED_MEMORY.contains(&bytes) {
            return Err(refused(&format!("it has sent {} of shared memory", Count(bytes as u64, "byte"))));
        }
        SharedWords::of(&file, bytes)
    }
}
