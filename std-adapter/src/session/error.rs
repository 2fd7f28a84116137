//! What can go wrong with a session.

use std::{fmt, io};

use tracebuf::buffer::RegionError;
use tracebuf::producer::MemoryError;

/// Why a session could not do what it was asked for.
///
/// ```
/// use tracebuf_std::session::{LongTrace, Session};
///
/// let nowhere = LongTrace::to("/no such folder/trace.pftrace");
/// let error = Session::builder().long_trace(nowhere).start().err().unwrap();
/// assert!(error.to_string().contains("/no such folder/trace.pftrace"));
/// ```
#[derive(Debug)]
#[non_exhaustive]
pub enum SessionError {
    /// A central buffer has no room for chunks of this process's threads.
    SmallBuffer {
        /// Bytes that one takes.
        needed: u64,
    },
    /// The memory of a central buffer cannot be one.
    Buffer(RegionError),
    /// The shared memory has a size that cannot be.
    SharedMemory(MemoryError),
    /// There are no buffers, more than 32, one of 4 GiB or more, a data source for one that is not there, or two of one
    /// name.
    Buffers,
    /// The system refused something.
    Io {
        /// What was to be done.
        what: String,
        /// What the system says.
        error: io::Error,
    },
    /// A producer, or the drain thread, did not answer in time.
    Timeout,
    /// The session has ended.
    Stopped,
    /// The session is that of the process that this one was forked from.
    Forked,
}

impl SessionError {
    pub(crate) fn io(what: impl Into<String>, error: io::Error) -> Self {
        Self::Io { what: what.into(), error }
    }
}

impl fmt::Display for SessionError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::SmallBuffer { needed } => {
                write!(f, "a buffer of the session is too small: one chunk of a thread takes {needed} bytes")
            }
            Self::Buffer(error) => write!(f, "a buffer of the session: {error}"),
            Self::SharedMemory(error) => write!(f, "the session's shared memory: {error}"),
            Self::Buffers => f.write_str(
                "a session has 1 to 32 buffers of less than 4 GiB, and data sources for these only, each with a name of \
                 its own",
            ),
            Self::Io { what, error } => write!(f, "{what}: {error}"),
            Self::Timeout => f.write_str("a producer or the session did not answer in time"),
            Self::Stopped => f.write_str("the session has ended"),
            Self::Forked => f.write_str("the session belongs to the process that forked this one"),
        }
    }
}

impl std::error::Error for SessionError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Buffer(error) => Some(error),
            Self::SharedMemory(error) => Some(error),
            Self::Io { error, .. } => Some(error),
            _ => None,
        }
    }
}
