//! A buffer on the bench: short ways to commit and read, and every invariant checked after every step.
#![allow(dead_code, unreachable_pub, reason = "each test uses some of it")]

use tracebuf::buffer::{
    self, BufferStats, Chunk, ChunkFlags, ChunkHeader, Commit, Config, DataLoss, FillPolicy,
    OverwriteObserver, Patch, SequenceInfo, TraceBuffer,
};

/// Bytes of a packet, and what was lost before it.
pub type Read = (Vec<u8>, DataLoss);

pub const PREV: ChunkFlags = ChunkFlags::CONTINUES_FROM_PREVIOUS;
pub const NEXT: ChunkFlags = ChunkFlags::CONTINUES_ON_NEXT;

/// A ring whose table is as small as it can be.
pub fn small_table() -> Config {
    Config::new(FillPolicy::RingBuffer).sequences(4)
}

/// A fragment with its size field.
pub fn packet(bytes: &[u8]) -> Vec<u8> {
    let mut fragment = Vec::with_capacity(bytes.len() + 3);
    let mut size = bytes.len();
    while size >= 0x80 {
        fragment.push(size as u8 | 0x80);
        size >>= 7;
    }
    fragment.push(size as u8);
    fragment.extend_from_slice(bytes);
    fragment
}

/// What a writer leaves of a packet that it gives up: a size of 0x0FFF_FFFF.
pub fn aborted() -> Vec<u8> {
    vec![0xFF, 0xFF, 0xFF, 0x7F]
}

pub fn patch(offset: u32, data: [u8; 4]) -> Patch {
    Patch { offset, data }
}

/// Packets without losses.
pub fn whole(packets: &[&[u8]]) -> Vec<Read> {
    packets.iter().map(|bytes| (bytes.to_vec(), DataLoss::empty())).collect()
}

/// A chunk to commit: of producer 1 and writer 1, complete, unless said otherwise.
#[derive(Clone)]
pub struct Sent {
    header: ChunkHeader,
    payload: Vec<u8>,
}

impl Sent {
    /// The chunk with these fragments, size fields included.
    pub fn new(chunk_id: u32, fragments: &[Vec<u8>]) -> Self {
        let header = ChunkHeader {
            producer_id: 1,
            writer_id: 1,
            chunk_id,
            fragments: fragments.len() as u16,
            complete: true,
            uid: 1000,
            pid: 42,
            ..ChunkHeader::default()
        };
        Self { header, payload: fragments.concat() }
    }
    pub fn header(&self) -> &ChunkHeader {
        &self.header
    }
    pub fn producer(mut self, producer_id: u16) -> Self {
        self.header.producer_id = producer_id;
        self
    }
    pub fn writer(mut self, writer_id: u16) -> Self {
        self.header.writer_id = writer_id;
        self
    }
    /// Makes it come from this process, and from a user of its own.
    pub fn process(mut self, pid: i32) -> Self {
        (self.header.uid, self.header.pid) = (1000 + pid as u32, pid);
        self
    }
    pub fn flags(mut self, flags: ChunkFlags) -> Self {
        self.header.flags = flags;
        self
    }
    pub fn scraped(mut self) -> Self {
        self.header.complete = false;
        self
    }
    pub fn declare(mut self, fragments: u16) -> Self {
        self.header.fragments = fragments;
        self
    }
    /// Stale bytes up to this size in all.
    pub fn room(mut self, size: usize) -> Self {
        self.payload.resize(size, 0xEE);
        self
    }
}

/// A packet read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Packet {
    pub producer: u16,
    pub writer: u16,
    pub bytes: Vec<u8>,
    pub loss: DataLoss,
    pub slices: usize,
}

/// An observer that notes what it is shown and keeps every `keep`-th; with 0, none.
pub struct Notes {
    pub shown: Vec<Read>,
    keep: usize,
}

impl Notes {
    pub fn new(keep: usize) -> Self {
        Self { shown: Vec::new(), keep }
    }
}

impl OverwriteObserver for Notes {
    fn packet(&mut self, packet: &buffer::Packet<'_>) -> bool {
        self.shown.push((packet.slices().collect::<Vec<_>>().concat(), packet.loss()));
        self.keep != 0 && self.shown.len().is_multiple_of(self.keep)
    }
}

pub struct Bench {
    pub buffer: TraceBuffer<Vec<u8>>,
    offered: u64,
    quick: bool,
}

impl Bench {
    pub fn new(config: Config, ring: u32) -> Self {
        let mut memory = vec![0xA5; config.region_size(ring) as usize + 8];
        // The ring is as large as asked for wherever the allocation starts.
        let excess = 8 - memory.as_ptr().align_offset(8);
        memory.truncate(memory.len() - excess);
        let buffer = TraceBuffer::new(memory, config).expect("a region large enough");
        Self { buffer, offered: 0, quick: false }
    }
    pub fn ring(size: u32) -> Self {
        Self::new(Config::new(FillPolicy::RingBuffer), size)
    }
    pub fn discard(size: u32) -> Self {
        Self::new(Config::new(FillPolicy::Discard), size)
    }
    /// Checks only when told to.
    pub fn quick(&mut self) {
        self.quick = true;
    }

    pub fn commit(&mut self, sent: Sent) -> Commit {
        let commit = self.buffer.copy_chunk_untrusted(&Chunk { header: sent.header, payload: &sent.payload });
        self.offered(1);
        commit
    }
    pub fn commit_observed(&mut self, sent: Sent, observer: &mut impl OverwriteObserver) -> Commit {
        let chunk = Chunk { header: sent.header, payload: &sent.payload };
        let commit = self.buffer.copy_chunk_untrusted_observed(&chunk, observer);
        self.offered(1);
        commit
    }
    pub fn commit_with(&mut self, sent: Sent, size: usize, fill: impl FnMut(usize, &mut [u8])) -> Commit {
        let commit = self.buffer.commit_with(&sent.header, size, fill);
        self.offered(1);
        commit
    }
    /// Commits as from shared memory that nobody changes.
    pub fn commit_shared(&mut self, sent: Sent) -> Commit {
        let payload = sent.payload.clone();
        self.commit_with(sent, payload.len(), |at, target| {
            target.copy_from_slice(&payload[at..at + target.len()])
        })
    }
    pub fn patch(&mut self, chunk_id: u32, patches: &[Patch], more_pending: bool) -> bool {
        self.patch_of(1, chunk_id, patches, more_pending)
    }
    pub fn patch_of(&mut self, writer: u16, chunk_id: u32, patches: &[Patch], more_pending: bool) -> bool {
        let done = self.buffer.try_patch_chunk_contents(1, writer, chunk_id, patches, more_pending);
        self.offered(0);
        done
    }

    /// Reads at most this many packets in one session.
    pub fn read_packets(&mut self, limit: usize) -> Vec<Packet> {
        let mut packets = Vec::new();
        let mut reader = self.buffer.read();
        while packets.len() < limit {
            let Some(packet) = reader.next_packet() else { break };
            let bytes = packet.slices().collect::<Vec<_>>().concat();
            assert_eq!(bytes.len(), packet.len());
            let (producer, writer) = (packet.producer_id(), packet.writer_id());
            packets.push(Packet {
                producer,
                writer,
                bytes,
                loss: packet.loss(),
                slices: packet.slices().count(),
            });
        }
        self.offered(0);
        packets
    }
    pub fn read_all(&mut self) -> Vec<Packet> {
        self.read_packets(usize::MAX)
    }
    pub fn read_some(&mut self, limit: usize) -> Vec<Read> {
        self.read_packets(limit).into_iter().map(|packet| (packet.bytes, packet.loss)).collect()
    }
    pub fn read(&mut self) -> Vec<Read> {
        self.read_some(usize::MAX)
    }
    /// Reads to the end; returns what one writer of producer 1 wrote.
    pub fn read_of(&mut self, writer: u16) -> Vec<Read> {
        let packets = self.read_all().into_iter().filter(|packet| packet.writer == writer);
        packets.map(|packet| (packet.bytes, packet.loss)).collect()
    }

    pub fn stats(&self) -> BufferStats {
        self.buffer.stats()
    }
    pub fn sequence(&self, writer: u16) -> SequenceInfo {
        self.buffer.sequences().find(|s| s.writer_id == writer && s.producer_id == 1).expect("the sequence")
    }

    fn offered(&mut self, chunks: u64) {
        self.offered += chunks;
        if !self.quick {
            self.check();
        }
    }

    /// Ring, lists, table and counters agree, and every chunk offered was counted once.
    pub fn check(&mut self) {
        self.buffer.check().expect("a consistent region");
        let stats = self.stats();
        assert_eq!(stats.chunks_offered(), self.offered, "{stats:?}");
    }
}
