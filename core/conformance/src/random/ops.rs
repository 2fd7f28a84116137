//! One operation on a buffer, and its form as a line of a script (`.tbops`).

use std::fmt;

use crate::model::Header;

/// Which whole packets the overwrite observer of a commit keeps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeptPackets {
    /// There is no observer.
    Unobserved,
    None,
    All,
    /// Those whose first byte is odd.
    Odd,
}

impl KeptPackets {
    pub fn keeps(self, first_byte: u8) -> bool {
        match self {
            KeptPackets::Unobserved | KeptPackets::None => false,
            KeptPackets::All => true,
            KeptPackets::Odd => first_byte % 2 == 1,
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BufferOp {
    /// `closure`: the bytes come through a closure, not as a slice.
    Commit {
        header: Header,
        payload: Vec<u8>,
        keep: KeptPackets,
        closure: bool,
    },
    Patch {
        key: (u16, u16),
        chunk_id: u32,
        patches: Vec<(u64, [u8; 4])>,
        more: bool,
    },
    Read(Option<usize>),
    /// Clones, and reads the clone to its end.
    Clone,
}

/// How a buffer is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Setup {
    pub ring: u32,
    pub discard: bool,
    pub table: u16,
}

pub fn hex(bytes: &[u8]) -> String {
    if bytes.is_empty() {
        return "-".into();
    }
    bytes.iter().map(|b| format!("{b:02x}")).collect()
}

impl fmt::Display for Setup {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let policy = if self.discard { "discard" } else { "ring" };
        write!(f, "new {} {policy} # {} sequences", self.ring, self.table)
    }
}

impl fmt::Display for BufferOp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            BufferOp::Commit { header: h, payload, keep, closure } => {
                let (complete, payload) = (u8::from(h.complete), hex(payload));
                write!(f, "copy {} {} {} {} ", h.producer, h.writer, h.chunk_id, h.fragments)?;
                write!(f, "{} {complete} {} {} {payload}", h.flags, h.uid as i32, h.pid)?;
                if *closure {
                    f.write_str(" # closure")?;
                }
                if *keep == KeptPackets::Unobserved { Ok(()) } else { write!(f, " # observer: {keep:?}") }
            }
            BufferOp::Patch { key, chunk_id, patches, more } => {
                write!(f, "patch {} {} {chunk_id} {} ", key.0, key.1, u8::from(*more))?;
                let list: Vec<_> = patches.iter().map(|(at, data)| format!("{at}:{}", hex(data))).collect();
                f.write_str(if list.is_empty() { "-".into() } else { list.join(",") }.as_str())
            }
            BufferOp::Read(None) => f.write_str("read"),
            BufferOp::Read(Some(n)) => write!(f, "readn {n}"),
            BufferOp::Clone => f.write_str("clone"),
        }
    }
}
