//! A packet in the buffer: a list of places, not a copy.

use super::data_loss::DataLoss;
use super::frag_iterator::{Frag, FragIterator};
use super::ring::{front, payload};
use super::sequence_state::SequenceState;
use super::words::Le32;
use crate::proto::{WriteError, write_all};
use core::fmt;
use embedded_io::Write;

/// Where the fragments of a packet are.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Located {
    /// The chunk it begins in.
    pub(super) chunk: u32,
    /// Where it begins in that chunk's payload.
    pub(super) start: u16,
    /// How many of its bytes are in that chunk.
    pub(super) first_size: u16,
    /// How many more chunks to walk along the sequence.
    pub(super) chunks: u32,
    /// Its bytes in all.
    pub(super) size: u32,
}

impl Located {
    /// A packet that is one fragment.
    #[inline]
    pub(super) fn whole(chunk: u32, frag: Frag) -> Self {
        Self { chunk, start: frag.start, first_size: frag.size, chunks: 0, size: u32::from(frag.size) }
    }
}

/// One whole packet, as its writer serialised it.
///
/// It borrows the buffer, so nothing can be committed while it is held.
///
/// ```
/// use tracebuf::buffer::{Chunk, ChunkHeader, Config, FillPolicy, TraceBuffer};
///
/// let mut memory = vec![0u8; 4096];
/// let mut buffer = TraceBuffer::new(&mut memory[..], Config::new(FillPolicy::RingBuffer))?;
/// let header = ChunkHeader { producer_id: 1, writer_id: 1, fragments: 1, ..Default::default() };
/// buffer.copy_chunk_untrusted(&Chunk { header, payload: b"\x05hello" });
///
/// let mut reader = buffer.read();
/// let packet = reader.next_packet().unwrap();
/// assert_eq!(packet.slices().next(), Some(&b"hello"[..]));
/// assert!(packet.loss().is_empty());
/// # Ok::<(), tracebuf::buffer::RegionError>(())
/// ```
#[derive(Clone, Copy)]
pub struct Packet<'b> {
    pub(super) ring: &'b [Le32],
    pub(super) sequence: &'b SequenceState,
    pub(super) located: Located,
    pub(super) loss: DataLoss,
}

impl<'b> Packet<'b> {
    /// The producer that wrote it.
    #[inline]
    pub fn producer_id(&self) -> u16 {
        self.sequence.producer_id.get()
    }

    /// The writer that wrote it; unique within the producer.
    #[inline]
    pub fn writer_id(&self) -> u16 {
        self.sequence.writer_id.get()
    }

    /// The user that the first commit of the sequence named; `u32::MAX` for none.
    #[inline]
    pub fn uid(&self) -> u32 {
        self.sequence.uid.get()
    }

    /// The process that the first commit of the sequence named; −1 for none.
    #[inline]
    pub fn pid(&self) -> i32 {
        self.sequence.pid.get() as i32
    }

    /// What was lost on this sequence since the packet before it.
    #[inline]
    pub fn loss(&self) -> DataLoss {
        self.loss
    }

    /// Bytes in all fragments together; at least 1.
    #[inline]
    pub fn len(&self) -> usize {
        self.located.size as usize
    }

    /// Always false: empty packets are swallowed.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.located.size == 0
    }

    /// The fragments that are not empty, in order.
    #[inline]
    pub fn slices(&self) -> Slices<'b> {
        Slices { ring: self.ring, located: self.located }
    }

    /// Copies the packet to the start of `target`; `None`, with nothing copied, if it does not fit.
    pub fn copy_to(&self, target: &mut [u8]) -> Option<usize> {
        let mut rest = target.get_mut(..self.len())?;
        for slice in self.slices() {
            let (head, tail) = rest.split_at_mut_checked(slice.len())?;
            head.copy_from_slice(slice);
            rest = tail;
        }
        Some(self.len())
    }

    /// Writes all of the packet.
    ///
    /// # Errors
    /// The writer's, or [`WriteError::Stuck`] if it takes no more bytes.
    pub fn write_to<W: Write>(&self, writer: &mut W) -> Result<(), WriteError<W::Error>> {
        self.slices().try_for_each(|slice| write_all(writer, slice))
    }
}

impl fmt::Debug for Packet<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Packet")
            .field("producer_id", &self.producer_id())
            .field("writer_id", &self.writer_id())
            .field("len", &self.len())
            .field("loss", &self.loss)
            .finish_non_exhaustive()
    }
}

/// The fragments of a [`Packet`].
#[derive(Clone, Debug)]
pub struct Slices<'b> {
    ring: &'b [Le32],
    located: Located,
}

impl<'b> Iterator for Slices<'b> {
    type Item = &'b [u8];

    #[inline]
    fn next(&mut self) -> Option<&'b [u8]> {
        loop {
            let at = &mut self.located;
            if at.first_size > 0 {
                let end = at.start.checked_add(at.first_size)?;
                let slice = payload(self.ring, at.chunk, end)?.get(usize::from(at.start)..)?;
                at.first_size = 0;
                return Some(slice);
            }
            at.chunks = at.chunks.checked_sub(1)?;
            self.step()?;
        }
    }
}

impl Slices<'_> {
    /// Goes on to the next chunk's first fragment. The chunk may have been erased since, which changes only its first
    /// word.
    #[cfg_attr(not(tracebuf_small), inline(never))]
    #[cfg_attr(tracebuf_small, inline)]
    fn step(&mut self) -> Option<()> {
        let at = &mut self.located;
        at.chunk = front(self.ring, at.chunk)?.links.next.get();
        let valid = front(self.ring, at.chunk)?.header.valid.get();
        if valid > 0 {
            let frag = FragIterator::new(payload(self.ring, at.chunk, valid)?, 0).next_frag()?;
            (at.start, at.first_size) = (frag.start, frag.size);
        }
        Some(())
    }
}
