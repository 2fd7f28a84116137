//! An honest writer: what it wrote, in which chunks, and which of its packets have come out.

use tracebuf::buffer::{ChunkFlags, ChunkHeader, DataLoss, Patch};

/// A chunk as its writer knows it.
#[derive(Default)]
pub struct Chunk {
    pub id: u32,
    pub bytes: Vec<u8>,
    /// Bytes after them in shared memory.
    pub slack: usize,
    pub ends: Vec<usize>,
    /// Its flags once it is complete.
    pub flags: ChunkFlags,
    pub patches: Vec<Patch>,
    /// Whether it was committed, not only scraped.
    pub committed: bool,
    pub seen_complete: bool,
    /// The most fragments that a scrape has shown.
    pub shown: usize,
    pub stored: bool,
    /// Whether the buffer took all of it.
    pub accepted: bool,
    /// Whether it came after a later one: what began before it may have been given up by then.
    pub late: bool,
    /// Whether it had patches when it was committed.
    pub patched_later: bool,
}

/// A packet as it was written.
#[derive(Default)]
pub struct Packet {
    bytes: Vec<u8>,
    first: usize,
    last: usize,
    aborted: bool,
    closed: bool,
}

/// A writer that obeys the rules.
#[derive(Default)]
pub struct Writer {
    /// Its id; its producer's id is 1.
    pub id: u16,
    first_id: u32,
    pub chunks: Vec<Chunk>,
    packets: Vec<Packet>,
    pub open: bool,
    /// The packet after the last one that came out.
    next: usize,
    /// The chunk that the last one ended in.
    last_end: Option<usize>,
    /// The first chunk that the buffer ever had.
    baseline: Option<usize>,
    /// Whether the next packet must report a loss.
    must_report: bool,
    /// Whether the table forgot the sequence: from then on only contents are checked.
    pub forgotten: bool,
    /// Whether, before this writer's first packet came out, a sequence was forgotten, or something was refused that no
    /// entry of the table can report. It may have been this sequence, and then its first packet says so.
    pub some_is_unknown: bool,
}

impl Writer {
    pub fn new(id: u16, first_id: u32) -> Self {
        Self { id, first_id, ..Self::default() }
    }

    /// Writes a chunk; see [`Op::Produce`](super::Op::Produce).
    pub fn produce(&mut self, how: u8, sizes: &[u8]) {
        let index = self.chunks.len();
        let (on, patches, abort) = (how & 1 != 0, how & 2 != 0, how & 4 != 0);
        let mut chunk = Chunk {
            id: self.first_id.wrapping_add(index as u32),
            slack: usize::from(how >> 5) * 5,
            ..Chunk::default()
        };
        chunk.flags.set(ChunkFlags::CONTINUES_FROM_PREVIOUS, self.open && !sizes.is_empty());
        for (i, size) in sizes.iter().enumerate() {
            let last = i + 1 == sizes.len();
            if !self.open {
                self.packets.push(Packet { first: index, ..Packet::default() });
            }
            let number = self.packets.len() - 1;
            let packet = self.packets.last_mut().expect("just pushed");
            packet.last = index;
            if last && abort {
                (packet.aborted, packet.closed, self.open) = (true, true, false);
                chunk.bytes.extend([0xFF, 0xFF, 0xFF, 0x7F]);
                chunk.ends.push(chunk.bytes.len());
                break;
            }
            let mut size = match usize::from(*size) {
                0 => 0,
                size @ ..240 => 2 + size % 61,
                size => size * 4,
            };
            self.open = last && on;
            let before = packet.bytes.len();
            if !self.open && before + size > 0 {
                // Every packet can be told from all others.
                size = size.max(5usize.saturating_sub(before));
            }
            packet.closed = !self.open;
            packet.bytes.extend((before..before + size).map(|at| content(self.id, number, at)));
            if how & 0x10 != 0 || size >= 128 {
                chunk.bytes.extend([size as u8 | 0x80, (size >> 7) as u8 | 0x80, 0x80, 0]);
            } else {
                chunk.bytes.push(size as u8);
            }
            let start = chunk.bytes.len();
            chunk.bytes.extend(&packet.bytes[before..]);
            if self.open {
                chunk.flags |= ChunkFlags::CONTINUES_ON_NEXT;
                if patches {
                    chunk.defer(start);
                }
            }
            chunk.ends.push(chunk.bytes.len());
        }
        self.chunks.push(chunk);
    }

    pub fn header(&self, index: usize) -> ChunkHeader {
        let chunk = &self.chunks[index];
        ChunkHeader {
            producer_id: 1,
            writer_id: self.id,
            chunk_id: chunk.id,
            fragments: chunk.ends.len() as u16,
            flags: chunk.flags,
            complete: true,
            uid: 1000,
            pid: 7,
        }
    }

    /// A copy of the chunk went into the buffer as a new one.
    pub fn stored(&mut self, index: usize) {
        self.chunks[index].late |= self.chunks[index + 1..].iter().any(|chunk| chunk.stored);
        self.chunks[index].stored = true;
        if self.baseline.is_none_or(|first| index < first) {
            self.baseline = Some(index);
        }
    }

    /// The packet that came out was not used, so the next one has to report a loss.
    pub fn unused(&mut self) {
        self.must_report = true;
    }

    /// A packet came out, with or without a report of losses. `evicted`: something was overwritten in this buffer.
    pub fn came_out(&mut self, bytes: &[u8], loss: DataLoss, evicted: bool) {
        let from = if self.forgotten { 0 } else { self.next };
        let Some(k) = self.find(from, bytes) else {
            panic!("writer {}: a packet never written, out of order, or twice: {bytes:?}", self.id);
        };
        if self.forgotten {
            return;
        }
        let missing = &self.packets[from..k];
        let reported = !loss.is_empty();
        let known = |packet: &&Packet| self.baseline.is_some_and(|first| packet.first >= first);
        let must = missing.iter().filter(|p| p.is_visible()).any(|p| known(&p)) || self.must_report;
        assert!(reported || !must, "writer {}: packets are missing before {k}, and nobody says so", self.id);
        let here = &self.packets[k];
        let between = self.last_end.unwrap_or(0)..=here.first;
        let uncertain = self.chunks[between].iter().any(|chunk| !chunk.accepted);
        let starts = self.last_end.is_none() && self.some_is_unknown;
        // A receiver of only part of a packet cannot know that it is empty.
        let gone = missing.iter().any(|packet| packet.is_visible() || packet.first != packet.last);
        let may = must || uncertain || starts || gone;
        assert!(may || !reported, "writer {}: nothing is missing before {k}, but {loss} is said", self.id);
        for (i, lost) in missing.iter().enumerate().filter(|(_, p)| p.is_visible() && !p.aborted) {
            let all = self.chunks[lost.first..=lost.last].iter().all(|chunk| chunk.accepted && !chunk.late);
            assert!(evicted || !all, "writer {}: packet {} is lost for no reason", self.id, from + i);
        }
        self.last_end = Some(here.last);
        (self.next, self.must_report) = (k + 1, false);
    }

    /// Whether a packet with these bytes was ever written, searching from this one on.
    pub fn find(&self, from: usize, bytes: &[u8]) -> Option<usize> {
        let same = |packet: &Packet| packet.closed && !packet.aborted && packet.bytes == bytes;
        (from..self.packets.len()).find(|&k| same(&self.packets[k]))
    }

    pub fn is_done(&self) -> bool {
        self.next == self.packets.len()
    }
}

impl Packet {
    /// Whether it is not empty, so that it would be missed.
    fn is_visible(&self) -> bool {
        self.aborted || !self.bytes.is_empty()
    }
}

impl Chunk {
    /// What shared memory holds of it when so many fragments have begun: stale bytes after them.
    pub fn in_shared_memory(&self, fragments: usize) -> Vec<u8> {
        let mut bytes = self.bytes.clone();
        if fragments <= self.ends.len() {
            let end = fragments.checked_sub(2).map_or(0, |last| self.ends[last]);
            bytes[end..].iter_mut().enumerate().for_each(|(i, byte)| *byte = 0xB7u8.wrapping_mul(i as u8));
        }
        bytes.resize(bytes.len() + self.slack, 0xEE);
        bytes
    }

    /// Leaves up to two places at the end of the chunk to be patched.
    fn defer(&mut self, start: usize) {
        let places = (self.bytes.len() - start) / 4;
        for i in 0..places.min(2) {
            let at = start + i * 4;
            let data = self.bytes[at..at + 4].try_into().expect("four bytes");
            self.patches.push(Patch { offset: at as u32, data });
            self.bytes[at..at + 4].fill(0);
            self.flags |= ChunkFlags::NEEDS_PATCHING;
        }
    }
}

/// A packet's byte: the first three identify the packet.
fn content(writer: u16, number: usize, at: usize) -> u8 {
    match at {
        0 => 0x40 | writer as u8,
        1 => number as u8,
        2 => (number >> 8) as u8,
        _ => (number.wrapping_mul(31) + at * 7 + usize::from(writer)) as u8,
    }
}
