//! `commit`: chunks and patches that are as hostile as possible, some from memory that changes while it is read.
//!
//! The input is a list of records: header, size, payload. Two buffers take the same ones, one of them watched by an
//! observer.

use crate::cost::{bounded, capacity};
use crate::input::Input;
use crate::memory::{Memory, check};
use std::collections::BTreeMap;
use tracebuf::buffer::{
    Chunk, ChunkFlags, ChunkHeader, Config, FillPolicy, OverwriteObserver, Packet, Patch, TraceBuffer,
};

const MOST_RECORDS: usize = 100;
/// What a record's first byte requests.
const PATCH: u8 = 13;
const READ: u8 = 14;
const CLONE: u8 = 15;

type Sequence = (u16, u16);

/// What was offered for each sequence.
#[derive(Default)]
struct Offered {
    payloads: BTreeMap<Sequence, Vec<Vec<u8>>>,
    chunks: u64,
    /// Patches may change any byte, so the content is unknown from then on.
    patched: bool,
}

impl Offered {
    fn check(&self, packet: &Packet<'_>) {
        assert!(!packet.is_empty());
        assert_eq!(packet.slices().map(<[u8]>::len).sum::<usize>(), packet.len());
        let sequence = (packet.producer_id(), packet.writer_id());
        let payloads = self.payloads.get(&sequence).expect("a sequence that nobody offered");
        for slice in packet.slices() {
            let there = |payload: &Vec<u8>| payload.windows(slice.len()).any(|window| window == slice);
            assert!(self.patched || payloads.iter().any(there), "bytes that nobody wrote: {slice:?}");
        }
    }
}

struct Watcher<'o>(&'o Offered);

impl OverwriteObserver for Watcher<'_> {
    fn packet(&mut self, packet: &Packet<'_>) -> bool {
        self.0.check(packet);
        false
    }
}

/// Runs one input.
pub fn run(data: &[u8]) {
    let mut input = Input::new(data);
    let (size, layout) = (input.u16(), input.byte());
    let policy = if layout & 1 != 0 { FillPolicy::Discard } else { FillPolicy::RingBuffer };
    let config = Config::new(policy).sequences(4 + u16::from(layout >> 4)).histograms(layout & 2 != 0);
    let region = config.region_size(64 + u32::from(size % 8192)) as usize;
    let make = || TraceBuffer::new(Memory::new(region, 0), config).expect("a region large enough");
    let mut both = Both { plain: make(), watched: make(), offered: Offered::default() };
    for _ in 0..MOST_RECORDS {
        if input.is_over() {
            break;
        }
        match input.byte() & 0xF {
            READ => both.read(input.byte()),
            CLONE => both.clone(),
            PATCH => both.patch(&mut input),
            kind => both.offer(kind, &mut input),
        }
        both.check();
    }
    both.read(255);
    both.check();
    // All producers end.
    for producer_id in 0..4 {
        both.plain.end_producer(producer_id);
        both.watched.end_producer(producer_id);
        both.check();
    }
    both.read(255);
    both.check();
    assert_eq!(both.plain.check().expect("a consistent region").chunks, 0, "nothing waits");
}

/// A buffer, its twin of which overwriting is watched, and what both were offered.
struct Both {
    plain: TraceBuffer<Memory>,
    watched: TraceBuffer<Memory>,
    offered: Offered,
}

impl Both {
    /// Bits of `kind`: 0 from memory that may change, 1 not complete.
    fn offer(&mut self, kind: u8, input: &mut Input<'_>) {
        let Self { plain, watched, offered } = self;
        let who = input.byte();
        let header = ChunkHeader {
            producer_id: u16::from(who & 3),
            writer_id: u16::from(who >> 2 & 3),
            chunk_id: match input.byte() {
                jump @ 0xC0.. => input.u32() ^ u32::from(jump),
                id => u32::from(id),
            },
            fragments: match input.byte() {
                255 => input.u16(),
                few => u16::from(few),
            },
            flags: ChunkFlags::from_bits_retain(who >> 4),
            complete: kind & 2 == 0,
            uid: 1,
            pid: 2,
        };
        let size = usize::from(input.byte());
        let size = if size == 255 { usize::from(input.u16()) + 300 } else { size };
        let mut payload = input.bytes(size).to_vec();
        // A claim of up to 66 kB need not be spelled out in the input.
        payload.resize(size, size as u8);
        let change = if kind & 1 != 0 { input.byte() } else { 0 };
        offered.chunks += 1;
        let sequence = (header.producer_id, header.writer_id);
        offered.payloads.entry(sequence).or_default().push(payload.clone());
        if kind & 1 == 0 {
            let chunk = Chunk { header, payload: &payload };
            let outcome = bounded(capacity(plain), size, || plain.copy_chunk_untrusted(&chunk));
            let again = bounded(capacity(watched), size, || {
                watched.copy_chunk_untrusted_observed(&chunk, &mut Watcher(offered))
            });
            assert_eq!(again, outcome);
            return;
        }
        let mut seen = Vec::new();
        let outcome = bounded(capacity(plain), size, || {
            plain.commit_with(&header, size, |offset, target| {
                fill(&payload, change, seen.len(), offset, target);
                seen.push(target.to_vec());
            })
        });
        // Later content joins what was there before: any part of it can be a packet.
        let all = offered.payloads.entry(sequence).or_default();
        offered.patched |= change != 0 && seen.len() > 1;
        all.extend(seen.clone());
        let joined = all.iter().rev().take(seen.len() + 1).map(Vec::as_slice).collect::<Vec<_>>().concat();
        all.push(joined);
        // A re-commit keeps its existing beginning.
        offered.patched |= change != 0;
        let mut calls = 0;
        let fill_again = |offset: usize, target: &mut [u8]| {
            fill(&payload, change, calls, offset, target);
            calls += 1;
        };
        let again = bounded(capacity(watched), size, || {
            watched.commit_with_observed(&header, size, fill_again, &mut Watcher(offered))
        });
        assert_eq!(again, outcome);
    }

    fn patch(&mut self, input: &mut Input<'_>) {
        let Self { plain, watched, offered } = self;
        let (who, id, count) = (input.byte(), input.byte(), input.byte());
        let patches: Vec<Patch> = (0..count % 4)
            .map(|_| {
                let offset = input.u16();
                let offset = if offset == u16::MAX { u32::MAX - 2 } else { u32::from(offset) };
                Patch { offset, data: input.u32().to_le_bytes() }
            })
            .collect();
        let more = count & 0x80 != 0;
        let (producer, writer) = (u16::from(who & 3), u16::from(who >> 2 & 3));
        let done = bounded(capacity(plain), 0, || {
            plain.try_patch_chunk_contents(producer, writer, id.into(), &patches, more)
        });
        assert_eq!(watched.try_patch_chunk_contents(producer, writer, id.into(), &patches, more), done);
        offered.patched |= done && !patches.is_empty();
    }

    fn read(&mut self, limit: u8) {
        let Self { plain, watched, offered } = self;
        // Two buffers, whose packets are looked at twice.
        bounded(4 * capacity(plain), 0, || {
            let (mut one, mut other) = (plain.read(), watched.read());
            for _ in 0..if limit == 255 { usize::MAX } else { limit.into() } {
                let Some(packet) = one.next_packet() else {
                    assert!(other.next_packet().is_none(), "watching changes what is read");
                    break;
                };
                offered.check(&packet);
                let same = other.next_packet().expect("watching changes what is read");
                assert_eq!((packet.loss(), packet.producer_id()), (same.loss(), same.producer_id()));
                assert!(packet.slices().eq(same.slices()));
            }
        });
    }

    fn clone(&self) {
        let plain = &self.plain;
        let mut clone =
            plain.clone_read_only(Memory::new(plain.clone_size(), 0)).expect("room for the clone");
        for is_waiting in [true, false] {
            if !is_waiting {
                clone.stop_waiting();
            }
            let mut reader = clone.read();
            while let Some(packet) = reader.next_packet() {
                self.offered.check(&packet);
            }
        }
    }

    fn check(&mut self) {
        check(&mut self.plain, Some(&mut self.watched), self.offered.chunks);
    }
}

/// Memory that changes with every look at it.
fn fill(payload: &[u8], change: u8, call: usize, offset: usize, target: &mut [u8]) {
    for (i, byte) in target.iter_mut().enumerate() {
        let at = offset + i;
        *byte = payload.get(at).copied().unwrap_or_default();
        if change != 0 && at % 5 == usize::from(change) % 5 {
            *byte ^= change.wrapping_mul(call as u8 + 1);
        }
    }
}
