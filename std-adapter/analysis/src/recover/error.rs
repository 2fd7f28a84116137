//! Errors of dumps.

use std::fmt;

use tracebuf::buffer::AttachError;

use tracebuf_std::display::{Count, Escaped};

/// The reason why there is no trace.
#[derive(Debug)]
#[non_exhaustive]
pub enum RecoverError {
    /// The dump itself is damaged.
    Malformed(String),
    /// The dump has no such symbol.
    NoSuchSymbol {
        /// The name or place that was looked for.
        name: String,
        /// Variables whose names contain it, in upper or lower case, with their addresses.
        near: Vec<String>,
    },
    /// The dump has several variables whose paths are equal to this, or end with it.
    AmbiguousSymbol {
        /// The name or place that was looked for.
        name: String,
        /// The variables, with their addresses.
        all: Vec<String>,
    },
    /// The dump has no bytes at the address.
    NotInDump(u64),
    /// The dump is raw, and ends before this offset from its start, which was meant as an address.
    BehindRawDump {
        /// The name or place that was looked for.
        offset: u64,
        /// Bytes of the dump.
        len: u64,
    },
    /// There is no region there that can be attached to.
    Attach(AttachError),
}

impl fmt::Display for RecoverError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Malformed(why) => write!(f, "the dump cannot be read: {why}"),
            Self::NoSuchSymbol { name, near } => {
                write!(f, "the dump has no symbol {}", Escaped(name))?;
                if near.is_empty() { Ok(()) } else { write!(f, ", but has {}", first_of(near)) }
            }
            Self::AmbiguousSymbol { name, all } => {
                let (name, all) = (Escaped(name), first_of(all));
                write!(
                    f,
                    "{name} may be each of {all}: more of the path, or the address, says which is meant"
                )
            }
            Self::NotInDump(address) => write!(f, "the dump has nothing at address {address:#x}"),
            Self::BehindRawDump { offset, len } => write!(
                f,
                "the dump is raw, {} without addresses: nothing is at offset {offset:#x} from its start",
                Count(*len, "byte")
            ),
            Self::Attach(AttachError::NoRegion) => f.write_str("no trace buffer found"),
            Self::Attach(error) => write!(f, "no trace buffer can be recovered: {error}"),
        }
    }
}

impl std::error::Error for RecoverError {}

/// Names that an error lists.
const FIRST: usize = 5;

/// The first of them, and a mention of the others.
fn first_of(names: &[String]) -> String {
    let (first, others) = names.split_at(names.len().min(FIRST));
    let more = if others.is_empty() { String::new() } else { format!(" and {} more", others.len()) };
    format!("{}{more}", Escaped(first.join(", ")))
}
