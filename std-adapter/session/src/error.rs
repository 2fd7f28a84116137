//! Errors of a session.

use std::path::Path;
use std::{fmt, io};

use tracebuf::buffer::RegionError;

use tracebuf_std::display::{Count, Escaped};

/// Why a session could not do what it was asked.
#[derive(Debug)]
#[non_exhaustive]
pub enum SessionError {
    /// A central buffer has no room for chunks of this process's threads.
    SmallBuffer {
        /// The buffer's number, from 0.
        buffer: usize,
        /// Bytes that it was meant to have.
        bytes: u64,
        /// Bytes that one chunk takes.
        needed: u64,
    },
    /// The memory cannot be that of a central buffer.
    Buffer(RegionError),
    /// The shared memory has an impossible size: it is 4 KiB to 64 MiB.
    SharedMemory {
        /// Bytes that it was meant to have.
        bytes: usize,
    },
    /// The shared memory is to lie in a buffer's file, but no buffer is in one.
    NoFile,
    /// A central buffer of 4 GiB or more, or of more bytes than there are addresses.
    LargeBuffer {
        /// The buffer's number, from 0.
        buffer: usize,
        /// Bytes that it was meant to have.
        bytes: u64,
    },
    /// There are more than 32 central buffers.
    BufferCount {
        /// How many there were meant to be.
        count: usize,
    },
    /// A data source was mapped to a buffer that does not exist.
    NoSuchBuffer {
        /// The data source's name.
        data_source: String,
        /// The number that it was mapped to.
        buffer: u16,
        /// The number of the last buffer.
        last: usize,
    },
    /// Two data sources have one name.
    DataSourceTwice {
        /// The name.
        data_source: String,
    },
    /// All 65,534 numbers are taken, by producers that are there or whose packets are.
    NoProducerId,
    /// A program for what a buffer overwrites cannot be had: it has more than 64 KiB, or no room for the smallest state;
    /// or there are 64 others, or there is no such buffer.
    Program,
    /// The system refused something.
    Io {
        /// What was to be done, or what cannot be used.
        what: String,
        /// What the system says.
        error: io::Error,
    },
    /// A producer, or the drain thread, did not answer in time.
    Timeout,
    /// The session has ended, or is about to.
    Stopped,
    /// The session belongs to the process that this one was forked from.
    Forked,
}

impl SessionError {
    /// An error of the system: what was to be done, and what the system says.
    pub fn io(what: impl Into<String>, error: io::Error) -> Self {
        Self::Io { what: what.into(), error }
    }

    /// An error of a file that was to be written.
    pub fn writing(file: &Path, error: io::Error) -> Self {
        Self::io(format!("{}: cannot be written", file.display()), error)
    }
}

impl fmt::Display for SessionError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::SmallBuffer { buffer, bytes, needed } => {
                let bytes = Count(*bytes, "byte");
                write!(f, "buffer {buffer} of the session, {bytes}, is too small: ")?;
                write!(f, "one chunk of a thread takes {needed}")
            }
            Self::LargeBuffer { buffer, bytes } => {
                write!(f, "buffer {buffer} of the session, {bytes} bytes, is too large: ")?;
                f.write_str("it has to be less than 4 GiB")
            }
            Self::BufferCount { count } => write!(f, "a session has 1 to 32 buffers, not {count}"),
            Self::NoSuchBuffer { data_source, buffer, last } => {
                let name = Escaped(data_source);
                write!(f, "the data source {name} goes to buffer {buffer}, and the last one is {last}")
            }
            Self::DataSourceTwice { data_source } => {
                write!(f, "the data source {} is there twice; each has a name of its own", Escaped(data_source))
            }
            Self::Buffer(error) => write!(f, "a buffer of the session: {error}"),
            Self::SharedMemory { bytes } => {
                let bytes = Count(*bytes as u64, "byte");
                write!(f, "the session's shared memory, {bytes}: it is 4 KiB to 64 MiB")
            }
            Self::NoFile => f.write_str(
                "the session's shared memory is to lie in the file of a buffer, and none of its buffers is in a file",
            ),
            Self::NoProducerId => f.write_str(
                "all 65,534 numbers for producers of the session are taken, by those that are there or whose packets \
                 are: start another session for more",
            ),
            Self::Program => f.write_str(
                "a buffer's program has more than 64 KiB or too little memory, or the buffer has 64 others or is not there",
            ),
            // Mostly a name: that of a file or a socket.
            Self::Io { what, error } => write!(f, "{}: {error}", Escaped(what)),
            Self::Timeout => f.write_str(
                "a producer or the session did not answer in time: allow it more if the call takes a time, or see in the \
                 service's summary which producer has not answered",
            ),
            Self::Stopped => f.write_str(
                "the session has ended: what is recorded from here on needs another one, started or connected to",
            ),
            Self::Forked => f.write_str("the session belongs to the process that forked this one"),
        }
    }
}

impl std::error::Error for SessionError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Buffer(error) => Some(error),
            Self::Io { error, .. } => Some(error),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_byte_is_told_in_the_singular() {
        for (error, told) in [
            (
                SessionError::SmallBuffer { buffer: 0, bytes: 1, needed: 2064 },
                "the session, 1 byte, is too small",
            ),
            (
                SessionError::SmallBuffer { buffer: 0, bytes: 2, needed: 2064 },
                "the session, 2 bytes, is too small",
            ),
            (SessionError::SharedMemory { bytes: 1 }, "shared memory, 1 byte: it is"),
        ] {
            let said = error.to_string();
            assert!(said.contains(told), "{said}");
        }
    }

    #[test]
    fn what_to_do_is_said_where_something_can_be_done() {
        for (error, told) in [
            (SessionError::NoProducerId, ": start another session"),
            (SessionError::Timeout, ": allow it more"),
            (SessionError::Stopped, ": what is recorded from here on needs another one"),
        ] {
            let said = error.to_string();
            assert!(said.contains(told), "{said}");
        }
    }
}
