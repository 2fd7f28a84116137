//! The workloads: those of the reference's published benchmarks, so that figures compare.
#![allow(dead_code, unreachable_pub, reason = "each benchmark uses some of it")]

use tracebuf::buffer::{Chunk, ChunkHeader, Commit, Config, FillPolicy, TraceBuffer};

/// The reference counts every chunk as 4 KiB, whatever is in it.
pub const REFERENCE_CHUNK: u64 = 4096;
pub const MIB: u32 = 1 << 20;

/// The minimal standard generator.
struct MinStd(u64);

impl MinStd {
    fn next(&mut self) -> u64 {
        self.0 = self.0 * 48_271 % 0x7FFF_FFFF;
        self.0
    }
}

/// What a chunk holds.
pub struct Template {
    pub payload: Vec<u8>,
    pub packets: u16,
}

/// 100 chunks of 5 to 15 packets of 50 to 500 bytes with their size fields, no fragmentation, cut at 4,080
/// bytes; only the bytes used.
pub fn templates() -> Vec<Template> {
    let mut random = MinStd(42);
    (0..100)
        .map(|_| {
            let mut template = Template { payload: Vec::with_capacity(4080), packets: 0 };
            for _ in 0..5 + random.next() % 11 {
                let left = 4080 - template.payload.len() as u64;
                if left < 50 {
                    break;
                }
                let outer = (50 + random.next() % 451).min(left);
                // A packet of `outer` bytes, including its size field of one or two bytes.
                let inner = if outer <= 128 { outer - 1 } else { outer - 2 };
                if inner < 0x80 {
                    template.payload.push(inner as u8);
                } else {
                    template.payload.extend([inner as u8 | 0x80, (inner >> 7) as u8]);
                }
                template.payload.extend((0..inner).map(|i| i as u8));
                template.packets += 1;
            }
            template
        })
        .collect()
}

/// A ring of `bytes` bytes over memory whose pages have been touched.
pub fn ring(bytes: u32, sequences: u16) -> TraceBuffer<Vec<u8>> {
    let config = Config::new(FillPolicy::RingBuffer).sequences(sequences);
    let mut memory = vec![1u8; config.region_size(bytes) as usize + 8];
    memory.fill(0);
    TraceBuffer::new(memory, config).expect("a region large enough")
}

/// Commits chunks of the templates in turn, from each of the writers in turn; returns the payload bytes.
pub struct Writers<'t> {
    templates: &'t [Template],
    count: u16,
    next: u32,
}

impl<'t> Writers<'t> {
    pub fn new(templates: &'t [Template], count: u16) -> Self {
        Self { templates, count, next: 0 }
    }

    pub fn commit(&mut self, buffer: &mut TraceBuffer<Vec<u8>>, chunks: u32) -> u64 {
        let mut bytes = 0;
        for _ in 0..chunks {
            let template = &self.templates[self.next as usize % self.templates.len()];
            let header = ChunkHeader {
                producer_id: 1,
                writer_id: 1 + (self.next % u32::from(self.count)) as u16,
                chunk_id: self.next / u32::from(self.count),
                fragments: template.packets,
                ..Default::default()
            };
            let commit = buffer.copy_chunk_untrusted(&Chunk { header, payload: &template.payload });
            assert_eq!(commit, Commit::Written);
            bytes += template.payload.len() as u64;
            self.next += 1;
        }
        bytes
    }
}

/// Copies the same chunks one after the other into the same amount of memory, and does nothing else.
pub struct Copier<'t> {
    templates: &'t [Template],
    memory: Vec<u8>,
    at: usize,
    next: usize,
}

impl<'t> Copier<'t> {
    pub fn new(templates: &'t [Template], bytes: u32) -> Self {
        Self { templates, memory: vec![1u8; bytes as usize], at: 0, next: 0 }
    }

    pub fn copy(&mut self, chunks: u32) -> u64 {
        let mut bytes = 0;
        for _ in 0..chunks {
            let payload = &self.templates[self.next % self.templates.len()].payload;
            if self.at + payload.len() > self.memory.len() {
                self.at = 0;
            }
            self.memory[self.at..self.at + payload.len()].copy_from_slice(payload);
            self.at += payload.len();
            self.next += 1;
            bytes += payload.len() as u64;
        }
        std::hint::black_box(&mut self.memory);
        bytes
    }
}

/// The chunks that the reference's read benchmark puts into 128 MiB.
pub const READ_CHUNKS: u32 = 32_767;

/// Reads to the end; returns packets and bytes.
pub fn read_all(buffer: &mut TraceBuffer<Vec<u8>>) -> (u64, u64) {
    let (mut packets, mut bytes) = (0, 0);
    let mut reader = buffer.read();
    while let Some(packet) = reader.next_packet() {
        bytes += packet.slices().map(|slice| slice.len() as u64).sum::<u64>();
        packets += 1;
    }
    (packets, bytes)
}

/// Commits `chunks` chunks of 4,064 bytes, all of one writer: what patches are measured on.
pub fn fill_for_patches(buffer: &mut TraceBuffer<Vec<u8>>, chunks: u32) {
    let payload = vec![0u8; 4064];
    for chunk_id in 0..chunks {
        let header = ChunkHeader {
            producer_id: 1,
            writer_id: 1,
            chunk_id,
            complete: true,
            fragments: 4064,
            ..Default::default()
        };
        buffer.copy_chunk_untrusted(&Chunk { header, payload: &payload });
    }
}
