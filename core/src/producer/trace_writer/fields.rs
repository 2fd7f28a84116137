//! Fields and messages of the open packet, over as many chunks as it takes.

use super::TraceWriter;
use crate::producer::arbiter::NONE;
use crate::producer::chunk_header::SmbChunkHeader;
#[cfg(not(tracebuf_small))]
use crate::producer::cursor::short_varint;
#[cfg(tracebuf_small)]
use crate::producer::cursor::word_of;
use crate::producer::cursor::{fill_size, redundant_varint};
use crate::proto::{WireType, tag};

/// With a detail of this many bytes, an event as good as always needs more.
#[cfg(not(tracebuf_small))]
pub(super) const LONG: usize = 100;

/// An open message, and where its size goes.
#[derive(Clone, Copy)]
pub(super) struct Level {
    pub(super) chunk_id: u32,
    /// Bytes from the start of the chunk.
    pub(super) offset: u16,
    /// The packet's size where the message's content begins.
    pub(super) start: u32,
}

impl Level {
    pub(super) fn in_payload(&self) -> u16 {
        self.offset.wrapping_sub(SmbChunkHeader::SIZE as u16)
    }
}

impl TraceWriter<'_> {
    /// Writes a packet of `len` bytes (at most 127), the first of which is its size, for a writer that has nothing else
    /// to say: the first bytes of `packet`, which has three more. No packet is open. False: it does not fit the chunk.
    #[inline(always)]
    pub(crate) fn put_small<const N: usize>(&mut self, packet: [u32; N], len: usize) -> bool {
        let fits = self.cursor.room() >= len;
        if fits {
            self.cursor.put_words(packet, len);
            self.counts.packets = self.counts.packets.wrapping_add(1);
            self.count_packet();
        }
        fits
    }

    /// Writes the first `len` bytes of `words`, which has three more, into the open packet. False: they do not fit the
    /// chunk.
    #[inline(always)]
    pub(crate) fn put_at_once<const N: usize>(&mut self, words: [u32; N], len: usize) -> bool {
        let fits = self.cursor.room() >= len || self.lengthen_sizes() && self.cursor.room() >= len;
        if fits {
            self.cursor.put_words(words, len);
        }
        fits
    }

    /// Appends the `len` low bytes (at most 4) of `value`; the others are zero.
    #[cfg_attr(not(tracebuf_small), inline)]
    #[cfg_attr(tracebuf_small, inline(never))]
    pub(crate) fn put(&mut self, mut value: u32, mut len: usize) {
        let room = self.cursor.room();
        if room < len {
            // What does not fit the chunk's last word is not stored.
            self.cursor.put(value, room);
            if !self.next_fragment() {
                return;
            }
            value >>= room * 8;
            len -= room;
        }
        self.cursor.put(value, len);
    }

    /// Appends bytes, over as many chunks as it takes.
    #[cfg(not(tracebuf_small))]
    pub(crate) fn put_bytes(&mut self, bytes: &[u8]) {
        if bytes.len() >= LONG {
            // Before there is more to move.
            self.lengthen_sizes();
        }
        let mut rest = self.cursor.put_bytes(bytes);
        while !rest.is_empty() && self.next_fragment() {
            rest = self.cursor.put_bytes(rest);
        }
    }

    #[cfg(tracebuf_small)]
    pub(crate) fn put_bytes(&mut self, bytes: &[u8]) {
        for four in bytes.chunks(4) {
            self.put(word_of(four), four.len());
        }
    }

    /// A varint, three of its bytes at a time.
    #[cfg(not(tracebuf_small))]
    pub(crate) fn varint(&mut self, mut value: u64) {
        while value >= 1 << 21 {
            // Each of the three says that there are more.
            self.put(redundant_varint(value as u32 & 0x1F_FFFF), 3);
            value >>= 21;
        }
        let (value, len) = short_varint(value as u32);
        self.put(value, len);
    }

    /// A varint, byte by byte.
    #[cfg(tracebuf_small)]
    #[inline(never)]
    pub(crate) fn varint(&mut self, mut value: u64) {
        while value >= 0x80 {
            self.put(value as u32 & 0x7F | 0x80, 1);
            value >>= 7;
        }
        self.put(value as u32, 1);
    }

    /// A tag; an invalid field number gives the packet up.
    #[inline(never)]
    pub(crate) fn tag(&mut self, field: u32, wire_type: WireType) {
        if field.wrapping_sub(1) >= (1 << 29) - 1 {
            self.refuse();
        }
        self.varint(u64::from(tag(field, wire_type)));
    }

    /// A field of kind varint.
    #[inline(never)]
    pub(crate) fn number(&mut self, field: u32, value: u64) {
        self.tag_and_varint(field, WireType::Varint, value);
    }

    /// A field of bytes.
    #[inline(never)]
    pub(crate) fn bytes(&mut self, field: u32, value: &[u8]) {
        self.tag_and_varint(field, WireType::Length, value.len() as u64);
        self.put_bytes(value);
    }

    /// A tag and a varint, both at once if they are short, as nearly all are.
    #[cfg(not(tracebuf_small))]
    #[inline(always)]
    fn tag_and_varint(&mut self, field: u32, wire_type: WireType, value: u64) {
        if (1..1 << 11).contains(&field) && value < 1 << 14 {
            let ((tag, tag_len), (value, len)) =
                (short_varint(tag(field, wire_type)), short_varint(value as u32));
            return self.put(tag | value << (tag_len * 8), tag_len + len);
        }
        self.tag(field, wire_type);
        self.varint(value);
    }

    #[cfg(tracebuf_small)]
    #[inline(always)]
    fn tag_and_varint(&mut self, field: u32, wire_type: WireType, value: u64) {
        if wire_type == WireType::Varint && (1..16).contains(&field) && value < 0x80 {
            return self.put(tag(field, wire_type) | (value as u32) << 8, 2);
        }
        self.tag(field, wire_type);
        self.varint(value);
    }

    /// Begins a message, as the innermost.
    #[inline(never)]
    pub(crate) fn open(&mut self, field: u32) {
        self.tag(field, WireType::Length);
        self.open_level();
    }

    pub(super) fn open_level(&mut self) {
        if self.cursor.room() < 4 && !self.next_fragment() {
            return;
        }
        let (chunk_id, offset) = (self.chunk_id(), self.cursor.pos() as u16);
        self.cursor.put(0, 4);
        if self.levels.push(Level { chunk_id, offset, start: self.size_so_far() }).is_err() {
            self.refuse();
        }
    }

    /// Closes messages until only `depth` are open.
    #[inline]
    pub(crate) fn close_levels(&mut self, depth: usize) {
        while self.levels.len() > depth {
            self.close_innermost();
        }
    }

    #[inline(never)]
    pub(crate) fn close_innermost(&mut self) {
        if self.levels.len() == 1 && self.has_short_sizes() {
            self.lengthen_sizes();
        }
        let Some(level) = self.levels.pop() else { return };
        self.promised = self.promised.min(self.levels.len());
        let size = self.size_so_far().wrapping_sub(level.start);
        match self.age(level.chunk_id) {
            0 if size < 128 => self.cursor.compact(level.offset.into(), size),
            0 => self.cursor.fill_size(level.offset.into(), size),
            // The chunk before the current one is held back as long as a size in it is open, unless a sink panicked
            // when that chunk was completed.
            1 if self.held != NONE => fill_size(self.producer.words(self.held), level.offset.into(), size),
            _ => {
                let data = redundant_varint(size).to_le_bytes();
                self.has_ready_patches |= self.slot.patches.set(level.chunk_id, level.in_payload(), data);
            }
        }
    }
}
