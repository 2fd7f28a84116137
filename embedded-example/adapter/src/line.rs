//! A packet on the line: cut into pieces, with what the service says of it, and framed where bytes may be lost.

use crate::export::Export;
use core::iter::once;
use tracebuf::buffer::{DataLoss, Packet};
use tracebuf::proto::frame::{FIRST, FRAME, FrameEncoder, LAST, PAYLOAD};
use tracebuf::proto::{TrustedFields, TrustedSuffix, WireType, fields, tag, varint};
use tracebuf::service::{sequence_id, trusted_fields};

/// The bytes before and after a packet in the file.
pub(crate) struct Envelope {
    head: [u8; 6],
    head_len: usize,
    trusted: TrustedSuffix,
}

impl Envelope {
    pub(crate) fn new(len: usize, trusted: &TrustedFields) -> Self {
        let trusted = trusted.suffix();
        let mut head = [tag(fields::trace::PACKET, WireType::Length) as u8; 6];
        let whole = len.saturating_add(trusted.as_bytes().len()) as u64;
        let length = head.get_mut(1..).and_then(|room| varint::encode(whole, room)).unwrap_or(0);
        Self { head, head_len: 1 + length, trusted }
    }

    /// That of a packet from the ring; `None` if no reader could read the packet.
    pub(crate) fn of(packet: Packet<'_>) -> Option<Self> {
        let id = sequence_id(packet.producer_id(), packet.writer_id());
        let (len, trusted) = trusted_fields(&packet, id, DataLoss::empty()).ok()?;
        Some(Self::new(len, &trusted))
    }

    /// The bytes of the packet in the file.
    pub(crate) fn around<'p>(
        &'p self,
        packet: impl Iterator<Item = &'p [u8]>,
    ) -> impl Iterator<Item = &'p [u8]> {
        let head = self.head.get(..self.head_len).unwrap_or_default();
        once(head).chain(packet).chain(once(self.trusted.as_bytes()))
    }

    /// How many bytes a packet of `len` bytes has in the file.
    pub(crate) fn total(&self, len: usize) -> usize {
        self.head_len + len + self.trusted.as_bytes().len()
    }
}

/// A line, and the piece on its way to it.
pub(crate) struct Line<E> {
    pub(crate) exporter: E,
    pub(crate) framed: bool,
    frames: FrameEncoder,
    /// A zero, followed by a frame or by what goes out without one.
    bytes: [u8; FRAME + 1],
    filled: usize,
    offered: usize,
}

impl<E: Export> Line<E> {
    pub(crate) const fn new(exporter: E, framed: bool) -> Self {
        Line { exporter, framed, frames: FrameEncoder::new(), bytes: [0; FRAME + 1], filled: 0, offered: 0 }
    }

    /// Puts the bytes of `parts` from `at` on into the next piece, as many as it takes, and returns where the next ones
    /// are.
    pub(crate) fn stage<'p>(
        &mut self,
        parts: impl Iterator<Item = &'p [u8]>,
        at: usize,
        total: usize,
    ) -> usize {
        let mut piece = [0; PAYLOAD];
        let (mut skip, mut len) = (at, 0);
        for part in parts {
            let bytes = part.get(skip..).unwrap_or_default();
            skip = skip.saturating_sub(part.len());
            let room = piece.get_mut(len..).unwrap_or_default();
            let count = bytes.len().min(room.len());
            if let (Some(to), Some(from)) = (room.get_mut(..count), bytes.get(..count)) {
                to.copy_from_slice(from);
            }
            len += count;
        }
        let piece = piece.get(..len).unwrap_or_default();
        let next = at + len;
        let [_, line @ ..] = &mut self.bytes;
        self.offered = 1;
        self.filled = 1 + if self.framed {
            // The zero precedes the first frame: half a frame, from a device that was reset, may be on the line.
            self.offered = usize::from(!self.frames.is_beginning());
            let flags = if at == 0 { FIRST } else { 0 } | if next >= total { LAST } else { 0 };
            self.frames.encode(flags, piece, line)
        } else {
            line.iter_mut().zip(piece).for_each(|(to, from)| *to = *from);
            len
        };
        next
    }

    /// Offers the piece, and returns whether the line took some of it.
    pub(crate) fn offer(&mut self) -> Result<bool, E::Error> {
        let taken = self.exporter.offer(self.bytes.get(self.offered..self.filled).unwrap_or_default())?;
        self.offered = self.offered.saturating_add(taken);
        Ok(taken > 0)
    }

    /// Drops the piece.
    pub(crate) fn clear(&mut self) {
        (self.filled, self.offered) = (0, 0);
    }
}

impl<E> Line<E> {
    /// Bytes of the piece that the line has not taken.
    pub(crate) const fn left(&self) -> usize {
        self.filled.saturating_sub(self.offered)
    }
}
