//! What the service needs of the system that it runs on, and what it says to it and hears from it.

use alloc::boxed::Box;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::fmt;
use core::ops::Range;

use tracebuf::producer::AtomicU32;

/// An open file, or a descriptor, that the host holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct FileToken(pub u64);

/// A connection, by a number that the host never gives again.
pub type ConnectionId = u64;

/// Which of the sockets a connection came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Port {
    /// Programs that record.
    Producers,
    /// Those who want a trace.
    Consumers,
}

/// Who is at the other end of a connection, as the system says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Peer {
    /// Its user.
    pub uid: u32,
    /// Its process, −1 if the system does not say.
    pub pid: i32,
}

/// What clocks show at one moment, in nanoseconds but for the last.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Clocks {
    /// Since the machine started, sleep included.
    pub boottime: u64,
    /// The steady clock, in which timers are.
    pub monotonic: u64,
    /// The same, not corrected.
    pub monotonic_raw: u64,
    /// The same as of the last tick.
    pub monotonic_coarse: u64,
    /// The time of day.
    pub realtime: u64,
    /// The same as of the last tick.
    pub realtime_coarse: u64,
    /// What the processor counts, in its own unit; 0 if it does not.
    pub tsc: u64,
}

/// What the service's machine and process are.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Machine {
    /// The service's user.
    pub uid: u32,
    /// The machine's name for filters.
    pub name: String,
    /// The kernel's name.
    pub sysname: String,
    /// Its version.
    pub release: String,
    /// How it was built.
    pub version: String,
    /// The kind of processor.
    pub machine: String,
    /// Bytes of a page.
    pub page_size: u32,
    /// Minutes by which local time is ahead of UTC, if they are known.
    pub timezone_minutes: Option<i32>,
    /// Processors.
    pub cpus: u32,
    /// Bytes of memory.
    pub ram: u64,
}

/// What a [`Pattern`] is to be found in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Find {
    /// It must be all of a text.
    Whole,
    /// It may be anywhere in a text.
    Anywhere,
}

/// A regular expression, ready to be looked for in strings of a trace.
pub trait Pattern: fmt::Debug + Send + Sync {
    /// Looks for it in a text from a place on. Adds where those of its groups are that are there, and returns where it
    /// ends. Takes a time that is linear in the text's length.
    fn find(&self, text: &[u8], from: usize, groups: &mut Vec<Range<usize>>) -> Option<usize>;

    /// What a steady clock shows, in nanoseconds; one that goes on every 10 ms will do. By it strings of a packet are given
    /// up that take too long, as linear as that time is: some expressions take a thousand times that of others. Without a
    /// clock none are.
    fn now(&self) -> u64 {
        0
    }
}

/// How packets become fewer bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Codec {
    /// A zlib stream.
    Deflate,
    /// A zstd frame.
    Zstd {
        /// How much is tried, −7 to 9.
        level: i32,
    },
}

/// What the service needs of the system that it runs on. None of it waits.
pub trait Host {
    /// A buffer's memory.
    type Memory: AsRef<[u8]> + AsMut<[u8]>;
    /// Memory shared with a producer.
    type Shared: AsRef<[AtomicU32]>;

    /// So many bytes of zeros, if there are any.
    fn memory(&mut self, bytes: usize) -> Option<Self::Memory>;

    /// So many bytes of zeros, a multiple of 4 KiB, to share with a producer, and the file to send it. Nobody can cut it
    /// short.
    fn share(&mut self, bytes: usize) -> Option<(Self::Shared, FileToken)>;

    /// The memory of a file that came from a producer; `None`, and the file is closed all the same, unless nobody can
    /// change its length any more.
    fn adopt(&mut self, file: FileToken) -> Option<Self::Shared>;

    /// Creates a file for a trace that a consumer of this user wants to be there.
    ///
    /// # Errors
    /// Why not: it exists, or the user may not have it.
    fn create(&mut self, path: &str, uid: u32) -> Result<FileToken, String>;

    /// What clocks show now.
    fn clocks(&mut self) -> Clocks;

    /// What the steady clock among them shows now.
    fn now(&mut self) -> u64 {
        self.clocks().monotonic
    }

    /// A number that nobody can guess.
    fn random(&mut self) -> u64;

    /// Whether a regular expression matches all of a text.
    ///
    /// # Errors
    /// Why it is none.
    fn matches(&mut self, pattern: &str, text: &str) -> Result<bool, String>;

    /// A regular expression to be looked for in strings of traces. Sessions with rules for strings are refused where there
    /// are none, as here by default.
    ///
    /// # Errors
    /// Why it is none.
    fn pattern(&mut self, _pattern: &str, _find: Find) -> Result<Box<dyn Pattern>, String> {
        Err("there are no regular expressions here".to_string())
    }

    /// Packets in fewer bytes, for sessions that ask for it; `None` if that cannot be. A session that begins asks with no
    /// bytes whether it can. At most some 1 MiB at a time, during which nobody else is served.
    fn compress(&mut self, _codec: Codec, _packets: &[u8]) -> Option<Vec<u8>> {
        None
    }

    /// Most connections of a user, the service's own and root excepted: there are to be some left for others.
    fn most_connections(&self) -> usize {
        4096
    }

    /// What the machine is.
    fn machine(&self) -> &Machine;
}

/// What happens to the service.
#[derive(Debug)]
pub enum Event<'e> {
    /// Somebody has connected.
    Connected {
        /// The connection.
        connection: ConnectionId,
        /// The socket.
        port: Port,
        /// Who it is.
        peer: Peer,
    },
    /// More of a connection's stream has come.
    Received {
        /// The connection.
        connection: ConnectionId,
        /// As it came.
        bytes: &'e [u8],
        /// A descriptor that came with these bytes: it belongs to the last message that begins in them.
        file: Option<FileToken>,
    },
    /// The other end has taken so many bytes of what was sent.
    Sent {
        /// The connection.
        connection: ConnectionId,
        /// How many.
        bytes: usize,
    },
    /// The other end is gone, or the connection has failed.
    Closed {
        /// The connection.
        connection: ConnectionId,
    },
    /// So many bytes were written into a file.
    Written {
        /// The file.
        file: FileToken,
        /// How many.
        bytes: usize,
    },
    /// A file takes no more. Nothing more is to be written into it.
    Failed {
        /// The file.
        file: FileToken,
        /// Why.
        error: String,
    },
    /// A file is complete, as [`Action::Finish`] wanted; or it is closed after it had failed.
    Finished {
        /// The file.
        file: FileToken,
    },
    /// Nothing but time has passed.
    Woken,
    /// The service is to end: its files are to be completed.
    End,
}

/// What the service wants done, in this order.
#[derive(Debug, PartialEq, Eq)]
pub enum Action {
    /// Send this, and a descriptor with its first byte. Say how much was [taken](Event::Sent).
    Send {
        /// The connection.
        connection: ConnectionId,
        /// What to send.
        bytes: Vec<u8>,
        /// To be closed once it is sent.
        file: Option<FileToken>,
    },
    /// Send what there is to send, as far as the other end takes it now, and end the connection.
    Close {
        /// The connection.
        connection: ConnectionId,
    },
    /// Close a descriptor that came.
    Discard(FileToken),
    /// Write whole packets into a file, behind what was written. Say when it is [written](Event::Written), or that it
    /// cannot be: then with the file cut back to whole packets.
    Write {
        /// The file.
        file: FileToken,
        /// What to write.
        bytes: Vec<u8>,
    },
    /// Write all that has been written into a file, once all before this is done, into another, in front of all that comes
    /// then. That may take as long as it takes, and keeps the first file from nothing. If it cannot be, the other file has
    /// [failed](Event::Failed), with nothing in it.
    Copy {
        /// The file that has it.
        from: FileToken,
        /// The file into which it goes.
        to: FileToken,
    },
    /// Let a file be on the disk, as far as there is one.
    Sync(FileToken),
    /// Close a file once all is written and on the disk, and [say so](Event::Finished).
    Finish(FileToken),
    /// Something that whoever runs the service should know.
    Log(String),
}
