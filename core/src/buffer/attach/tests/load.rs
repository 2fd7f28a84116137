//! Writers whose every packet can be recognised, as they commit, scrape, patch and are read.

use crate::buffer::tests::memory::Memory;
use crate::buffer::*;
use std::collections::{BTreeMap, BTreeSet};
use std::vec::Vec;

pub(super) type Buffer = TraceBuffer<Memory>;
/// The packets of each writer by number, with what was said to be lost before each.
pub(super) type Packets = BTreeMap<u16, Vec<(u32, DataLoss)>>;

/// A small generator of numbers: splitmix64.
#[derive(Clone)]
pub(super) struct Rng(pub(super) u64);

impl Rng {
    pub(super) fn below(&mut self, end: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        (z ^ (z >> 31)) % end
    }
}

/// One operation on a buffer, which can be run any number of times.
#[derive(Clone, Debug)]
pub(super) enum Op {
    Commit { header: ChunkHeader, payload: Vec<u8>, shared: bool },
    Patch { writer: u16, chunk: u32, patches: Vec<Patch>, more: bool },
    Read { packets: usize },
    End,
    Forget,
}

impl Op {
    pub(super) fn run(&self, buffer: &mut Buffer) -> Packets {
        match self {
            Op::Commit { header, payload, shared: false } => {
                buffer.copy_chunk_untrusted(&Chunk { header: *header, payload });
            }
            Op::Commit { header, payload, shared: true } => {
                buffer.commit_with(header, payload.len(), |at, target| {
                    target.copy_from_slice(&payload[at..at + target.len()])
                });
            }
            Op::Patch { writer, chunk, patches, more } => {
                buffer.try_patch_chunk_contents(1, *writer, *chunk, patches, *more);
            }
            Op::End => buffer.end_producer(1),
            Op::Forget => buffer.forget_producer(1),
            Op::Read { packets } => return read(&mut buffer.read(), *packets),
        }
        Packets::new()
    }
}

/// Reads packets, each of which must be as its writer made it.
pub(super) fn read(reader: &mut Reader<'_>, limit: usize) -> Packets {
    let mut packets = Packets::new();
    for _ in 0..limit {
        let Some(packet) = reader.next_packet() else { break };
        let mut bytes = std::vec![0; packet.len()];
        packet.copy_to(&mut bytes).expect("room for the packet");
        let number = u32::from_le_bytes(bytes[..4].try_into().expect("a number"));
        assert_eq!(bytes, content(packet.writer_id(), number, bytes.len()), "a corrupt packet");
        assert_eq!((packet.producer_id(), packet.uid()), (1, 1000));
        packets.entry(packet.writer_id()).or_default().push((number, packet.loss()));
    }
    packets
}

/// What a packet looks like: its number, then bytes that only it has. Its size is in its number.
fn content(writer: u16, number: u32, size: usize) -> Vec<u8> {
    let mut rng = Rng(u64::from(writer) << 32 | u64::from(number));
    let mut bytes: Vec<u8> = (0..size).map(|_| rng.below(256) as u8 | 1).collect();
    bytes[..4].copy_from_slice(&number.to_le_bytes());
    bytes
}

/// A chunk that was scraped and is not complete yet.
#[derive(Clone)]
struct Open {
    header: ChunkHeader,
    payload: Vec<u8>,
    scraped: u16,
}

/// A writer of chunks.
#[derive(Clone)]
struct Writer {
    id: u16,
    chunk: u32,
    number: u32,
    /// The rest of a packet that began in the chunk before.
    rest: Vec<u8>,
    open: Option<Open>,
    patches: Vec<(u32, Patch)>,
}

/// Operations of several writers and a reader.
#[derive(Clone)]
pub(super) struct Load {
    rng: Rng,
    writers: Vec<Writer>,
}

impl Load {
    pub(super) fn new(seed: u64, writers: u16) -> Self {
        let mut rng = Rng(seed);
        let writers = (1..=writers)
            .map(|id| Writer {
                id,
                // Numbers wrap in the middle of some.
                chunk: (rng.below(3) as u32).wrapping_sub(1).wrapping_mul(5),
                number: 0,
                rest: Vec::new(),
                open: None,
                patches: Vec::new(),
            })
            .collect();
        Self { rng, writers }
    }

    pub(super) fn next(&mut self) -> Op {
        let count = self.writers.len() as u64;
        let index = self.rng.below(count) as usize;
        let Self { rng, writers } = self;
        let writer = &mut writers[index];
        match rng.below(10) {
            0 => return Op::Read { packets: rng.below(6) as usize },
            1 | 2 if !writer.patches.is_empty() => {
                let at = rng.below(writer.patches.len() as u64) as usize;
                let (chunk, patch) = writer.patches.remove(at);
                let more = writer.patches.iter().any(|(other, _)| *other == chunk);
                return Op::Patch { writer: writer.id, chunk, patches: std::vec![patch], more };
            }
            _ => {}
        }
        writer.commit(rng)
    }
}

impl Writer {
    fn commit(&mut self, rng: &mut Rng) -> Op {
        let shared = rng.below(2) == 0;
        let mut open = match self.open.take() {
            Some(open) => open,
            None => self.chunk(rng),
        };
        if open.header.fragments > open.scraped && rng.below(4) == 0 {
            let scraped =
                open.scraped + 1 + rng.below(u64::from(open.header.fragments - open.scraped)) as u16;
            open.scraped = scraped.min(open.header.fragments);
            let flags = open.header.flags & ChunkFlags::CONTINUES_FROM_PREVIOUS;
            let header = ChunkHeader { complete: false, fragments: open.scraped, flags, ..open.header };
            let payload = open.payload.clone();
            self.open = Some(open);
            return Op::Commit { header, payload, shared };
        }
        Op::Commit { header: open.header, payload: open.payload, shared }
    }

    fn chunk(&mut self, rng: &mut Rng) -> Open {
        let mut header = ChunkHeader {
            producer_id: 1,
            writer_id: self.id,
            chunk_id: self.chunk,
            complete: true,
            uid: 1000,
            pid: 77,
            ..ChunkHeader::default()
        };
        self.chunk = self.chunk.wrapping_add(1);
        let mut payload = Vec::new();
        let mut put = |header: &mut ChunkHeader, bytes: &[u8]| {
            payload.push(bytes.len() as u8 | 0x80);
            payload.push((bytes.len() >> 7) as u8);
            payload.extend_from_slice(bytes);
            header.fragments += 1;
            payload.len() - bytes.len()
        };
        if !self.rest.is_empty() {
            header.flags |= ChunkFlags::CONTINUES_FROM_PREVIOUS;
            let part = (1 + rng.below(60) as usize).min(self.rest.len());
            let rest = self.rest.split_off(part);
            put(&mut header, &self.rest);
            self.rest = rest;
        }
        if !self.rest.is_empty() {
            header.flags |= ChunkFlags::CONTINUES_ON_NEXT;
            return Open { header, payload, scraped: 0 };
        }
        for _ in 0..rng.below(4) {
            let bytes = self.packet(4 + rng.below(40) as usize);
            put(&mut header, &bytes);
        }
        if rng.below(3) == 0 {
            let bytes = self.packet(20 + rng.below(100) as usize);
            let (first, rest) = bytes.split_at(14);
            let mut first = first.to_vec();
            let patched = rng.below(2) == 0;
            let right: [u8; 4] = first[4..8].try_into().expect("4 bytes");
            if patched {
                first[4..8].fill(0);
                header.flags |= ChunkFlags::NEEDS_PATCHING;
            }
            let at = put(&mut header, &first);
            if patched {
                self.patches.push((header.chunk_id, Patch { offset: at as u32 + 4, data: right }));
            }
            self.rest = rest.to_vec();
            header.flags |= ChunkFlags::CONTINUES_ON_NEXT;
        }
        Open { header, payload, scraped: 0 }
    }

    fn packet(&mut self, size: usize) -> Vec<u8> {
        self.number += 1;
        content(self.id, self.number, size)
    }
}

/// The numbers of packets, without their losses.
pub(super) fn numbers(packets: &Packets) -> BTreeSet<(u16, u32)> {
    packets
        .iter()
        .flat_map(|(writer, packets)| packets.iter().map(|(number, _)| (*writer, *number)))
        .collect()
}
