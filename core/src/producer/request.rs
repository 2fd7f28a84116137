//! `Request`: one item of a commit request, as queues hold it and lines carry it.

use super::commit::{ChunkToMove, CommitRequest};
use super::patch_list::ChunkPatch;

/// One thing that a producer asks of its service, with nothing borrowed: what queues between them hold. The service's
/// end of the producer [carries it out](crate::service::ProducerEndpoint::carry_out_one). To another process or
/// processor it goes as [bytes](Self::to_bytes).
///
/// ```
/// use tracebuf::producer::{ChunkToMove, CommitRequest, Request};
///
/// let chunk = ChunkToMove { page: 0, chunk: 1, target: 0 };
/// let commit = CommitRequest { chunks_to_move: &[chunk], flush: 7, ..CommitRequest::default() };
/// assert!(commit.each().eq([Request::Move(chunk), Request::Flush(7)]));
/// ```
// With a shorter tag, a copy would begin within a word. On a Cortex-M0, taking one out of a queue, with interrupts
// masked, would then take 171 instructions, more than four times as many.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[repr(u32)]
pub enum Request {
    /// A writer [starts](super::CommitSink::register_writer).
    Register {
        /// The writer.
        writer_id: u16,
        /// The central buffer that it writes to.
        target: u16,
    },
    /// A writer has [ended](super::CommitSink::unregister_writer).
    Unregister {
        /// The writer.
        writer_id: u16,
    },
    /// To move a chunk into its buffer.
    Move(ChunkToMove),
    /// To patch a chunk there.
    Patch {
        /// The writer of the chunk.
        writer_id: u16,
        /// The central buffer that the writer writes to.
        target: u16,
        /// Chunk, place and bytes.
        patch: ChunkPatch,
        /// Whether more patches of this chunk will follow: it stays incomplete until then.
        has_more: bool,
    },
    /// To call [`Producer::flushed`](super::Producer::flushed) with this number, now that all before it is done.
    Flush(u32),
}

impl<'r> CommitRequest<'r> {
    /// What it asks for, one thing after the other, in the order in which it is to be done. All of a chunk's patches
    /// except the last say that there are more.
    pub fn each(self) -> impl Iterator<Item = Request> + Clone + 'r {
        let moves = self.chunks_to_move.iter().map(|chunk| Request::Move(*chunk));
        let patches = self.chunks_to_patch.iter().flat_map(|chunk| {
            let last = chunk.patches.len().saturating_sub(1);
            chunk.patches.iter().enumerate().map(move |(at, patch)| Request::Patch {
                writer_id: chunk.writer_id,
                target: chunk.target,
                patch: ChunkPatch { chunk_id: chunk.chunk_id, ..*patch },
                has_more: chunk.has_more || at < last,
            })
        });
        let flush = (self.flush != 0).then_some(Request::Flush(self.flush));
        moves.chain(patches).chain(flush)
    }
}

impl Request {
    /// Bytes of one on its way to another process or processor.
    pub const BYTES: usize = 16;

    /// The request as bytes, the first of which is 1 to 5.
    pub const fn to_bytes(self) -> [u8; Self::BYTES] {
        let (tag, has_more, shorts, words) = match self {
            Self::Register { writer_id, target } => (REGISTER, false, [writer_id, target, 0], [0, 0]),
            Self::Unregister { writer_id } => (UNREGISTER, false, [writer_id, 0, 0], [0, 0]),
            Self::Move(ChunkToMove { page, chunk, target }) => (MOVE, false, [0, target, 0], [page, chunk]),
            Self::Patch { writer_id, target, patch: ChunkPatch { chunk_id, offset, data }, has_more } => {
                (PATCH, has_more, [writer_id, target, offset], [chunk_id, u32::from_le_bytes(data)])
            }
            Self::Flush(number) => (FLUSH, false, [0; 3], [number, 0]),
        };
        let [[a, b], [c, d], [e, f]] =
            [shorts[0].to_le_bytes(), shorts[1].to_le_bytes(), shorts[2].to_le_bytes()];
        let [[g, h, i, j], [k, l, m, n]] = [words[0].to_le_bytes(), words[1].to_le_bytes()];
        [tag, has_more as u8, a, b, c, d, e, f, g, h, i, j, k, l, m, n]
    }

    /// The request that [`to_bytes`](Self::to_bytes) makes these bytes of; `None` for all others.
    pub fn from_bytes(bytes: [u8; Self::BYTES]) -> Option<Self> {
        let [tag, has_more, a, b, c, d, e, f, g, h, i, j, k, l, m, n] = bytes;
        let [first, target, offset] = [[a, b], [c, d], [e, f]].map(u16::from_le_bytes);
        let number = u32::from_le_bytes([g, h, i, j]);
        let data = [k, l, m, n];
        let request = match tag {
            REGISTER => Self::Register { writer_id: first, target },
            UNREGISTER => Self::Unregister { writer_id: first },
            MOVE => Self::Move(ChunkToMove { page: number, chunk: u32::from_le_bytes(data), target }),
            PATCH => {
                let patch = ChunkPatch { chunk_id: number, offset, data };
                Self::Patch { writer_id: first, target, patch, has_more: has_more != 0 }
            }
            FLUSH => Self::Flush(number),
            _ => return None,
        };
        (request.to_bytes() == bytes).then_some(request)
    }
}

const REGISTER: u8 = 1;
const UNREGISTER: u8 = 2;
const MOVE: u8 = 3;
const PATCH: u8 = 4;
const FLUSH: u8 = 5;

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::producer::ChunkToPatch;

    fn each() -> [Request; 6] {
        let patch = ChunkPatch { chunk_id: 0x0403_0201, offset: 0x0605, data: [9, 8, 7, 6] };
        let patch = |has_more| Request::Patch { writer_id: 0x0B0A, target: 0x0D0C, patch, has_more };
        [
            Request::Register { writer_id: 0x0201, target: 0x0403 },
            Request::Unregister { writer_id: 0x0201 },
            Request::Move(ChunkToMove { page: 0x0403_0201, chunk: 0x0807_0605, target: 0x0A09 }),
            patch(false),
            patch(true),
            Request::Flush(0x0403_0201),
        ]
    }

    #[test]
    fn bytes_are_the_same_on_all_machines() {
        let expected: [[u8; 16]; 6] = [
            [1, 0, 1, 2, 3, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0],
            [2, 0, 1, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0],
            [3, 0, 0, 0, 9, 10, 0, 0, 1, 2, 3, 4, 5, 6, 7, 8],
            [4, 0, 10, 11, 12, 13, 5, 6, 1, 2, 3, 4, 9, 8, 7, 6],
            [4, 1, 10, 11, 12, 13, 5, 6, 1, 2, 3, 4, 9, 8, 7, 6],
            [5, 0, 0, 0, 0, 0, 0, 0, 1, 2, 3, 4, 0, 0, 0, 0],
        ];
        assert_eq!(each().map(Request::to_bytes), expected);
        assert_eq!(expected.map(Request::from_bytes), each().map(Some));
    }

    #[test]
    fn what_is_no_request_is_none() {
        for tag in (0..=u8::MAX).filter(|tag| !(REGISTER..=FLUSH).contains(tag)) {
            let mut bytes = [0; 16];
            bytes[0] = tag;
            assert_eq!(Request::from_bytes(bytes), None, "{tag}");
        }
        // Any other bit either says something, or makes it no request.
        for request in each() {
            let bytes = request.to_bytes();
            for bit in 0..128 {
                let mut other = bytes;
                other[bit / 8] ^= 1 << (bit % 8);
                let decoded = Request::from_bytes(other);
                assert_ne!(decoded, Some(request));
                assert!(decoded.is_none_or(|decoded| decoded.to_bytes() == other), "{request:?}, bit {bit}");
            }
        }
        let mut of_patch = each()[3].to_bytes();
        of_patch[1] = 2;
        assert_eq!(Request::from_bytes(of_patch), None);
    }

    #[test]
    fn a_request_is_taken_apart_in_the_order_in_which_it_is_done() {
        let chunk = |chunk| ChunkToMove { page: 1, chunk, target: 2 };
        let patch = |chunk_id, offset| ChunkPatch { chunk_id, offset, data: [offset as u8; 4] };
        let patches = [patch(7, 10), patch(7, 20)];
        let of_chunk =
            |patches, has_more| ChunkToPatch { writer_id: 3, target: 2, chunk_id: 7, patches, has_more };
        let request = CommitRequest {
            chunks_to_move: &[chunk(0), chunk(3)],
            chunks_to_patch: &[of_chunk(&patches, true), of_chunk(&[], false), of_chunk(&patches, false)],
            flush: 9,
        };
        let apart = |patch, has_more| Request::Patch { writer_id: 3, target: 2, patch, has_more };
        let all = [
            Request::Move(chunk(0)),
            Request::Move(chunk(3)),
            apart(patches[0], true),
            apart(patches[1], true),
            apart(patches[0], true),
            apart(patches[1], false),
            Request::Flush(9),
        ];
        assert!(request.each().eq(all), "{:?}", request.each().collect::<std::vec::Vec<_>>());
        assert_eq!(CommitRequest::default().each().count(), 0);
    }
}
