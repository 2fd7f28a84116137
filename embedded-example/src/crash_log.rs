//! What was done to a ring, operation by operation: so that whoever finds the ring after a crash can do the same
//! to another one, and compare.
//!
//! A log is one static of the firmware `crash`. Its words are little-endian, as the target's:
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

/// How a log begins, once the firmware runs.
pub const MAGIC: [u8; 8] = *b"CRASHLOG";
/// Bytes before the first operation.
pub const HEAD: usize = 16;
/// Bytes of data of an operation, at most: the payload of a chunk.
pub const DATA: usize = 128;
/// Bytes of an operation.
pub const ENTRY: usize = 16 + DATA;

/// What is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Kind {
    /// A chunk that is complete goes into the ring.
    Commit = 1,
    /// A copy of a chunk that is still being written goes there.
    Scrape = 2,
    /// Four bytes of a chunk there are changed.
    Patch = 3,
    /// So many packets are read, as `fragments` says.
    Read = 4,
}

/// An operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Operation<'a> {
    /// What is done.
    pub kind: Kind,
    /// Flags of the chunk; of a patch, 1 if others are to come.
    pub flags: u8,
    /// Whose chunk it is.
    pub writer: u16,
    /// Its number.
    pub chunk_id: u32,
    /// Its fragments; of a patch, where it goes.
    pub fragments: u16,
    /// Its payload; of a patch, the four bytes.
    pub data: &'a [u8],
}

impl Operation<'_> {
    /// Nothing, to fill in.
    pub const NONE: Self =
        Operation { kind: Kind::Read, flags: 0, writer: 0, chunk_id: 0, fragments: 0, data: &[] };

    /// Puts the operation into its place in a log; of the data no more than [`DATA`] bytes.
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
    /// What [`write`](Self::write) has written; `None` of anything else.
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
