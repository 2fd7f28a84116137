//! A log of what was done to a ring, operation by operation, so that after a crash the same can be done to another ring
//! and the two compared.
//!
//! A log is a static of the firmware `crash`. Its words are little-endian, like the target's:
//! [`MAGIC`], operations started, operations finished, then the operations, [`ENTRY`] bytes each.
//!
//! ```
//! use tracebuf_firmware::crash_log::{Kind, Operation};
//!
//! let mut entry = [0; tracebuf_firmware::crash_log::ENTRY];
//! let patch = Operation { kind: Kind::Patch, writer: 2, chunk_id: 7, data: &[0, 0, 0x85, 0x80], ..Operation::NONE };
//! patch.write(&mut entry);
//! assert_eq!(Operation::read(&entry), Some(patch));
//! ```

use tracebuf::buffer::{ChunkFlags, ChunkHeader};

/// How a log begins once the firmware runs.
pub const MAGIC: [u8; 8] = *b"CRASHLOG";
/// Bytes before the first operation.
pub const HEAD: usize = 16;
/// Most bytes of data in an operation: the payload of a chunk.
pub const DATA: usize = 128;
/// Most bytes of a packet's text.
pub const TEXT: usize = 330;
/// Bytes of an operation.
pub const ENTRY: usize = 16 + DATA;

/// The text of a writer's packet of this number: mostly short; one in eight spans two to four chunks.
pub fn text(number: u32, memory: &mut [u8; TEXT]) -> &[u8] {
    let len = if number % 8 == 5 { 130 + number % 200 } else { number % 40 };
    let text = memory.get_mut(..len as usize).unwrap_or_default();
    for (letter, at) in text.iter_mut().zip(number..) {
        *letter = b'a' + (at % 26) as u8;
    }
    text
}

/// The kinds of operations.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Kind {
    /// A complete chunk goes into the ring.
    Commit = 1,
    /// A copy of a chunk that is still being written goes into the ring.
    Scrape = 2,
    /// Four bytes of a chunk in the ring are changed.
    Patch = 3,
    /// Packets are read, as many as `fragments` says.
    Read = 4,
}

/// An operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Operation<'a> {
    /// Its kind.
    pub kind: Kind,
    /// The chunk's flags; for a patch, 1 if others are to come.
    pub flags: u8,
    /// The writer of the chunk.
    pub writer: u16,
    /// Its number.
    pub chunk_id: u32,
    /// The chunk's fragments; for a patch, its place.
    pub fragments: u16,
    /// The chunk's payload; for a patch, the four bytes.
    pub data: &'a [u8],
}

impl Operation<'_> {
    /// An empty operation, to be filled in.
    pub const NONE: Self =
        Operation { kind: Kind::Read, flags: 0, writer: 0, chunk_id: 0, fragments: 0, data: &[] };

    /// Writes the operation into its place in a log, with at most [`DATA`] bytes of data.
    pub fn write(&self, entry: &mut [u8; ENTRY]) {
        let [id0, id1, id2, id3] = self.chunk_id.to_le_bytes();
        let [writer0, writer1] = self.writer.to_le_bytes();
        let [fragments0, fragments1] = self.fragments.to_le_bytes();
        let len = self.data.len().min(DATA) as u8;
        let head =
            [self.kind as u8, self.flags, writer0, writer1, id0, id1, id2, id3, fragments0, fragments1, len];
        let (to, data) = entry.split_at_mut(16);
        to.iter_mut().zip(head).for_each(|(to, from)| *to = from);
        data.iter_mut().zip(self.data).for_each(|(to, from)| *to = *from);
    }
}

impl<'a> Operation<'a> {
    /// The chunk that a commit or a scrape is of.
    pub fn header(&self) -> ChunkHeader {
        ChunkHeader {
            producer_id: 1,
            writer_id: self.writer,
            chunk_id: self.chunk_id,
            fragments: self.fragments,
            flags: ChunkFlags::from_bits_truncate(self.flags),
            complete: self.kind == Kind::Commit,
            uid: 0,
            pid: -1,
        }
    }

    /// Reads what [`write`](Self::write) has written; `None` for anything else.
    pub fn read(entry: &'a [u8; ENTRY]) -> Option<Self> {
        let (head, data) = entry.split_at(16);
        let [kind, flags, writer0, writer1, id0, id1, id2, id3, fragments0, fragments1, len, ..] = *head
        else {
            return None;
        };
        let kinds = [Kind::Commit, Kind::Scrape, Kind::Patch, Kind::Read];
        Some(Operation {
            kind: kinds.into_iter().find(|known| *known as u8 == kind)?,
            flags,
            writer: u16::from_le_bytes([writer0, writer1]),
            chunk_id: u32::from_le_bytes([id0, id1, id2, id3]),
            fragments: u16::from_le_bytes([fragments0, fragments1]),
            data: data.get(..usize::from(len))?,
        })
    }
}
