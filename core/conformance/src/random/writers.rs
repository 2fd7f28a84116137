//! Simulated writers that keep to the shared memory protocol, and what they wrote.
//!
//! Each packet carries its writer and its number, so that the judge recognises it.

use std::collections::VecDeque;

use super::ops::{BufferOp, KeptPackets, Setup};
use super::rng::Rng;
use crate::model::{FIRST_CONTINUES, Header, LAST_CONTINUES, NEEDS_PATCHING};

/// The packets of a sequence; none where its writer gave one up.
pub type WrittenPackets = ((u16, u16), Vec<Option<Vec<u8>>>);

/// What the writers of a case wrote, and what may be asked of a buffer that got it.
#[derive(Clone, Debug)]
pub struct Truth {
    pub written: Vec<WrittenPackets>,
    /// Chunks came late, so that a reader may have gone past them.
    pub reordered: bool,
}

#[derive(Clone, Debug)]
struct OpenChunk {
    id: u32,
    flags: u8,
    fragments: u16,
    /// What its header says while it is open: a packet may have been begun.
    begun: u16,
    payload: Vec<u8>,
    /// Once closed: what is to be patched into it, and which packet must end first.
    patch: Option<(u64, [u8; 4], usize)>,
    committed: bool,
}

struct Writer {
    key: (u16, u16),
    room: usize,
    next_id: u32,
    current: OpenChunk,
    /// Closed, not committed yet; oldest first.
    closed: VecDeque<OpenChunk>,
    /// Committed, waiting for their patches.
    unpatched: Vec<OpenChunk>,
    written: Vec<Option<Vec<u8>>>,
    /// Something was committed: the buffer knows where the sequence begins.
    sent: bool,
}

fn open(id: u32, flags: u8) -> OpenChunk {
    OpenChunk { id, flags, fragments: 0, begun: 0, payload: Vec::new(), patch: None, committed: false }
}

/// The 4-byte size field that writers reserve.
fn size_field(size: usize) -> [u8; 4] {
    [
        size as u8 & 0x7F | 0x80,
        (size >> 7) as u8 & 0x7F | 0x80,
        (size >> 14) as u8 & 0x7F | 0x80,
        (size >> 21) as u8,
    ]
}

const ABORT_FIELD: [u8; 4] = [0xFF, 0xFF, 0xFF, 0x7F];

impl Writer {
    fn new(key: (u16, u16), rng: &mut Rng) -> Self {
        let next_id = rng.pick(&[0, 0, 5, u32::MAX - 3, 0x7FFF_FFFD]);
        let room = rng.within(16, 160);
        let current = open(next_id, 0);
        let (closed, unpatched, written) = Default::default();
        Writer {
            key,
            room,
            next_id: next_id.wrapping_add(1),
            current,
            closed,
            unpatched,
            written,
            sent: false,
        }
    }

    fn left(&self) -> usize {
        self.room.saturating_sub(self.current.payload.len())
    }

    fn close(&mut self, flags: u8) {
        self.current.flags |= flags;
        let continues = if flags & LAST_CONTINUES != 0 { FIRST_CONTINUES } else { 0 };
        let next = open(self.next_id, continues);
        self.next_id = self.next_id.wrapping_add(1);
        self.closed.push_back(std::mem::replace(&mut self.current, next));
    }

    fn fragment(&mut self, bytes: &[u8], rng: &mut Rng) {
        if bytes.len() < 128 && rng.percent(50) {
            self.current.payload.push(bytes.len() as u8);
        } else {
            self.current.payload.extend(size_field(bytes.len()));
        }
        self.current.payload.extend(bytes);
        self.current.fragments += 1;
    }

    /// Writes one packet, over as many chunks as it takes; or gives it up on the way.
    fn packet(&mut self, rng: &mut Rng) {
        let number = self.written.len();
        let mut packet = vec![self.key.1 as u8, number as u8, (number >> 8) as u8, self.key.0 as u8];
        let more = match rng.below(20) {
            0 => rng.within(0, 600),
            _ => rng.within(0, 60),
        };
        packet.extend(rng.bytes(more));
        let give_up = if rng.percent(3) { rng.below(packet.len()) } else { usize::MAX };
        let mut at = 0;
        loop {
            if self.left() < 8 {
                self.close(if at > 0 { LAST_CONTINUES } else { 0 });
            }
            let part = (packet.len() - at).min(self.left() - 4);
            if at + part > give_up {
                self.current.payload.extend(ABORT_FIELD);
                self.current.fragments += 1;
                self.close(0);
                self.written.push(None);
                return;
            }
            let last = at + part == packet.len();
            // Sometimes a packet ends just at the end of a chunk, and the end is empty.
            let last = last && !(self.left() == part + 4 && rng.percent(50));
            let start = self.current.payload.len();
            self.fragment(&packet[at..at + part], rng);
            at += part;
            if last {
                break;
            }
            let mut flags = LAST_CONTINUES;
            if part >= 4 && rng.percent(40) {
                flags |= NEEDS_PATCHING;
                let to = self.current.payload.len() - 4;
                let mut data = [0; 4];
                data.copy_from_slice(&self.current.payload[to..]);
                self.current.payload[to..].fill(0);
                self.current.patch = Some((to as u64, data, number));
                assert!(to > start, "only the last fragment is patched");
            }
            self.close(flags);
        }
        self.written.push(Some(packet));
        // Empty packets are written too, but count for nothing.
        if self.left() >= 8 && rng.percent(5) {
            self.fragment(&[], rng);
        }
    }
}

struct Simulation {
    rng: Rng,
    writers: Vec<Writer>,
    ops: Vec<BufferOp>,
    scrapes: bool,
    reorders: bool,
    reads: usize,
}

/// A case: a buffer, the operations on it, and the truth about them.
pub fn case(seed: u64) -> (Setup, Vec<BufferOp>, Truth) {
    case_of(Rng::new(seed ^ 0x1234_5678_9ABC))
}

/// The same from any numbers.
pub fn case_of(mut rng: Rng) -> (Setup, Vec<BufferOp>, Truth) {
    let ring = match rng.below(10) {
        0..6 => rng.within(64, 400) * 4,
        6..8 => rng.within(400, 4000) * 4,
        _ => 1 << 20,
    };
    let count = rng.within(1, 6);
    let table = if rng.percent(15) { 4 } else { 64 };
    let setup = Setup { ring: ring as u32, discard: rng.percent(10), table };
    let keys =
        (0..count as u16).map(|i| rng.pick(&[(1, i + 1), (i + 1, 0), (i + 1, i + 1)])).collect::<Vec<_>>();
    let writers = keys.into_iter().map(|key| Writer::new(key, &mut rng)).collect();
    // A scrape commits all that is there, so nothing of it comes later than what follows.
    let scrapes = rng.percent(60);
    let mut simulation = Simulation {
        writers,
        ops: Vec::new(),
        scrapes,
        reorders: !scrapes && rng.percent(40),
        reads: rng.pick(&[0, 3, 15]),
        rng,
    };
    let length = if cfg!(miri) { 16 } else { simulation.rng.within(20, 300) };
    for _ in 0..length {
        if simulation.rng.is_over() {
            break;
        }
        simulation.step();
    }
    simulation.finish();
    let written = simulation.writers.iter().map(|w| (w.key, w.written.clone())).collect();
    (setup, simulation.ops, Truth { written, reordered: simulation.reorders })
}

impl Simulation {
    fn step(&mut self) {
        let w = self.rng.below(self.writers.len());
        match self.rng.below(100) {
            0..50 => self.writers[w].packet(&mut self.rng),
            50..78 => self.send(w),
            78..84 if self.scrapes => self.scrape(w),
            84..85 => self.ops.push(BufferOp::Clone),
            85..100 if self.rng.percent(self.reads * 4) => {
                let limit = if self.rng.percent(50) { None } else { Some(self.rng.within(0, 6)) };
                self.ops.push(BufferOp::Read(limit));
            }
            _ => {}
        }
    }

    fn commit(&mut self, w: usize, chunk: &OpenChunk, complete: bool, fragments: u16) {
        self.writers[w].sent = true;
        let key = self.writers[w].key;
        let header = Header {
            producer: key.0,
            writer: key.1,
            chunk_id: chunk.id,
            fragments,
            flags: chunk.flags,
            complete,
            uid: u32::from(key.0) + 1000,
            pid: i32::from(key.0) + 100,
        };
        let mut payload = chunk.payload.clone();
        if !complete || self.rng.percent(30) {
            payload.resize(payload.len().max(self.writers[w].room + 8), 0);
        }
        let keep = if self.rng.percent(20) { KeptPackets::None } else { KeptPackets::Unobserved };
        let closure = self.rng.percent(40);
        self.ops.push(BufferOp::Commit { header, payload, keep, closure });
    }

    /// Commits closed chunks, in order unless this case reorders, then sends patches.
    fn send(&mut self, w: usize) {
        let mut count = self.rng.within(1, 4).min(self.writers[w].closed.len());
        while count > 0 {
            count -= 1;
            // The first chunk ever tells where a sequence begins: it never comes late.
            let late = self.reorders
                && self.writers[w].sent
                && self.rng.percent(20)
                && self.writers[w].closed.len() > 1;
            let mut chunk = self.writers[w].closed.remove(usize::from(late)).expect("counted");
            self.commit(w, &chunk, true, chunk.fragments);
            chunk.committed = true;
            if chunk.patch.is_some() {
                self.writers[w].unpatched.push(chunk);
            }
        }
        self.patch(w, 60);
    }

    fn patch(&mut self, w: usize, chance: usize) {
        let writer = &mut self.writers[w];
        let (mut rest, done) = (Vec::new(), writer.written.len());
        for chunk in std::mem::take(&mut writer.unpatched) {
            let Some((at, data, packet)) = chunk.patch else { continue };
            if packet < done && self.rng.percent(chance) {
                let (key, chunk_id) = (writer.key, chunk.id);
                self.ops.push(BufferOp::Patch { key, chunk_id, patches: vec![(at, data)], more: false });
            } else {
                rest.push(chunk);
            }
        }
        writer.unpatched = rest;
    }

    /// Commits all of a writer's chunks in shared memory, in the order of its pages, which can be any; nobody reads
    /// meanwhile. What was complete will be committed once more.
    fn scrape(&mut self, w: usize) {
        let mut chunks: Vec<_> = self.writers[w].closed.iter().cloned().map(|c| (c, true)).collect();
        let fragments = self.writers[w].current.fragments;
        if fragments > 0 || self.rng.percent(30) {
            chunks.push((self.writers[w].current.clone(), false));
        }
        let ordered = !self.writers[w].sent;
        for i in (1..chunks.len()).rev().filter(|_| !ordered) {
            chunks.swap(i, self.rng.below(i + 1));
        }
        for (chunk, complete) in chunks {
            if complete {
                self.commit(w, &chunk, true, chunk.fragments);
                continue;
            }
            // Perhaps the next packet was begun in it.
            let begun = (chunk.fragments + u16::from(self.rng.percent(50))).max(chunk.begun);
            self.writers[w].current.begun = begun;
            self.commit(w, &chunk, false, begun);
        }
    }

    fn finish(&mut self) {
        for w in 0..self.writers.len() {
            self.writers[w].close(0);
            while !self.writers[w].closed.is_empty() {
                self.send(w);
            }
            self.patch(w, 100);
        }
        self.ops.push(BufferOp::Read(None));
    }
}
