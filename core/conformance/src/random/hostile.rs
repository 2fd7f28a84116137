//! Operations that no honest producer would send, near enough to honest ones to get far.

use super::ops::{BufferOp, KeptPackets, Setup};
use super::rng::Rng;
use crate::model::{FIRST_CONTINUES, Header, LAST_CONTINUES, NEEDS_PATCHING};

/// A chunk that was offered before, as large as it may become.
#[derive(Clone, Debug)]
struct Known {
    header: Header,
    payload: Vec<u8>,
}

#[derive(Clone, Debug)]
struct Writer {
    key: (u16, u16),
    next: u32,
    continues: bool,
    known: Vec<Known>,
}

struct Hostile {
    rng: Rng,
    writers: Vec<Writer>,
    ring: usize,
    largest: usize,
    observed: bool,
    /// Also ids far from each other, for which only the identities hold.
    wild: bool,
}

/// Sizes are small, so that laps are constant; sometimes the table is smaller than needed.
pub fn setup(rng: &mut Rng) -> Setup {
    let ring = match rng.below(10) {
        0..3 => rng.within(16, 128) * 4,
        3..8 => rng.within(128, 640) * 4,
        8 => rng.within(640, 4096) * 4,
        _ => 65_536,
    };
    let table = rng.pick(&[4, 4, 5, 8, 64]);
    Setup { ring: ring as u32, discard: rng.percent(15), table }
}

pub fn case(seed: u64, wild: bool) -> (Setup, Vec<BufferOp>) {
    case_of(Rng::new(seed), wild)
}

/// The same from any numbers.
pub fn case_of(mut rng: Rng, wild: bool) -> (Setup, Vec<BufferOp>) {
    let setup = setup(&mut rng);
    let length = if cfg!(miri) { 20 } else { rng.within(20, 250) };
    let mut hostile = Hostile::new(rng, &setup, wild);
    let mut ops = Vec::new();
    while ops.len() < length && !hostile.rng.is_over() {
        ops.push(hostile.op());
    }
    (setup, ops)
}

impl Hostile {
    fn new(mut rng: Rng, setup: &Setup, wild: bool) -> Self {
        let count = rng.within(1, if rng.clone().percent(30) { 9 } else { 4 });
        let writers = (0..count as u16).map(|i| Writer {
            key: rng.pick(&[(1, i + 1), (i + 1, 0), (0, i + 1)]),
            next: rng.pick(&[0, 0, 1, 7, u32::MAX - 5, 0x7FFF_FFFA, 0xFFFF_0000]),
            continues: false,
            known: Vec::new(),
        });
        let writers = writers.collect();
        let largest = rng.pick(&[20, 60, 200]);
        let observed = rng.percent(50);
        Hostile { writers, ring: setup.ring as usize, largest, observed, wild, rng }
    }

    fn op(&mut self) -> BufferOp {
        match self.rng.below(100) {
            0..50 => self.fresh(),
            50..66 => self.again(),
            66..76 => self.patch(),
            76..84 => BufferOp::Read(None),
            84..93 => BufferOp::Read(Some(self.rng.within(0, 4))),
            93..95 => BufferOp::Clone,
            _ => self.garbage(),
        }
    }

    fn size(&mut self) -> usize {
        match self.rng.below(40) {
            0..5 => 0,
            5..39 => self.rng.within(1, self.largest),
            _ => self.rng.within(1, self.ring),
        }
    }

    /// A size field, at times longer than it need be.
    fn varint(&mut self, value: u64) -> Vec<u8> {
        let mut least = 1;
        while value >> (7 * least) != 0 {
            least += 1;
        }
        let width = if self.rng.percent(80) { least } else { self.rng.within(least, 10) };
        let byte = |i: usize| (value >> (7 * i)) as u8 & 0x7F | if i + 1 < width { 0x80 } else { 0 };
        (0..width).map(byte).collect()
    }

    fn payload(&mut self, fragments: usize) -> Vec<u8> {
        let mut payload = Vec::new();
        for _ in 0..fragments {
            let size = self.size();
            payload.extend(self.varint(size as u64));
            payload.extend(self.rng.bytes(size));
        }
        match self.rng.below(40) {
            0 => payload.extend(self.varint(0x0FFF_FFFF)),
            1 => payload.extend([0xFF; 12]),
            2 => payload.extend(self.varint(1 << 20)),
            3 => drop(payload.pop()),
            _ => {}
        }
        let slack = if self.rng.percent(30) { self.rng.below(40) } else { 0 };
        payload.resize(payload.len() + slack, 0);
        payload
    }

    fn keep(&mut self) -> KeptPackets {
        if !self.observed {
            return KeptPackets::Unobserved;
        }
        self.rng.pick(&[
            KeptPackets::Unobserved,
            KeptPackets::None,
            KeptPackets::None,
            KeptPackets::All,
            KeptPackets::Odd,
        ])
    }

    /// A chunk with an id not seen before, mostly the next one.
    fn fresh(&mut self) -> BufferOp {
        let w = self.rng.below(self.writers.len());
        let step = self.rng.pick(&[0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 2, 5]);
        let wild = self.wild && self.rng.percent(5);
        let jump = if wild { self.rng.number() as u32 } else { 0 };
        let writer = &mut self.writers[w];
        let chunk_id = writer.next.wrapping_add(step).wrapping_add(jump);
        writer.next = chunk_id.wrapping_add(1);
        let (key, continues) = (writer.key, writer.continues);

        let fragments: usize = self.rng.pick(&[0, 1, 1, 1, 2, 2, 3, 4, 8]);
        let mut flags = 0;
        if continues != self.rng.percent(8) {
            flags |= FIRST_CONTINUES;
        }
        if self.rng.percent(45) {
            flags |= LAST_CONTINUES;
            if self.rng.percent(25) {
                flags |= NEEDS_PATCHING;
            }
        }
        if self.rng.percent(3) {
            flags ^= self.rng.number() as u8;
        }
        let declared = match self.rng.below(40) {
            0 => fragments + 1,
            1 => fragments.saturating_sub(1),
            2 => self.rng.pick(&[0, 200, 65_535]),
            _ => fragments,
        };
        let header = Header {
            producer: key.0,
            writer: key.1,
            chunk_id,
            fragments: declared as u16,
            flags,
            complete: true,
            uid: chunk_id.wrapping_mul(3),
            pid: -(chunk_id as i32 % 1000),
        };
        let known = Known { header, payload: self.payload(fragments) };
        self.writers[w].continues = flags & LAST_CONTINUES != 0;
        self.writers[w].known.push(known.clone());
        // Some come late: the next commit of this id is then its first.
        if self.rng.percent(8) { self.again() } else { self.offer(&known) }
    }

    /// A chunk offered or kept back before, of a writer that has one.
    fn again(&mut self) -> BufferOp {
        let w = self.rng.below(self.writers.len());
        let known = &self.writers[w].known;
        let Some(last) = known.len().checked_sub(1) else { return BufferOp::Read(Some(1)) };
        let back = if self.rng.percent(90) { self.rng.below(4) } else { self.rng.below(40) };
        let known = known[last.saturating_sub(back)].clone();
        self.offer(&known)
    }

    /// Offers a chunk as complete or as a scrape of what there may have been of it.
    fn offer(&mut self, known: &Known) -> BufferOp {
        let Known { mut header, mut payload } = known.clone();
        if self.rng.percent(35) {
            header.complete = false;
            header.fragments = match self.rng.below(4) {
                0 => header.fragments.saturating_add(1),
                1 => header.fragments,
                _ => self.rng.within(0, usize::from(header.fragments.min(9))) as u16,
            };
            if self.rng.percent(50) {
                header.flags &= FIRST_CONTINUES;
            }
        }
        if self.rng.percent(4) {
            header.flags ^= 1 << self.rng.below(3);
        }
        if self.rng.percent(3) {
            let at = self.rng.below(payload.len());
            if let Some(byte) = payload.get_mut(at) {
                *byte ^= 1 << self.rng.below(8);
            }
        }
        if self.rng.percent(3) {
            payload.truncate(self.rng.below(payload.len() + 1));
        }
        BufferOp::Commit { header, payload, keep: self.keep(), closure: self.rng.percent(30) }
    }

    fn patch(&mut self) -> BufferOp {
        let w = self.rng.below(self.writers.len());
        let known = &self.writers[w].known;
        let key = self.writers[w].key;
        let Some(last) = known.len().checked_sub(1) else { return BufferOp::Clone };
        let Known { header, payload } = known[last.saturating_sub(self.rng.below(5))].clone();
        let mut patches = Vec::new();
        for _ in 0..self.rng.pick(&[0, 1, 1, 1, 2, 3]) {
            let end = payload.len() as u64;
            let at = match self.rng.below(20) {
                0 => end.saturating_sub(3),
                1 => self.rng.pick(&[end, 65_535, u64::from(u32::MAX), 1 << 31]),
                2..12 => end.saturating_sub(4),
                _ => self.rng.below(payload.len()) as u64,
            };
            let data =
                if self.rng.percent(80) { [7, 7, 7, 7] } else { (self.rng.number() as u32).to_le_bytes() };
            patches.push((at, data));
        }
        let chunk_id = header.chunk_id.wrapping_add(u32::from(self.rng.percent(5)));
        BufferOp::Patch { key, chunk_id, patches, more: self.rng.percent(25) }
    }

    /// Meaningless bytes.
    fn garbage(&mut self) -> BufferOp {
        let w = self.rng.below(self.writers.len());
        let writer = &self.writers[w];
        let next = writer.next;
        let (producer, writer) = if self.rng.percent(10) { (0, 0) } else { writer.key };
        let len = match self.rng.below(12) {
            0 => self.ring,
            1 => self.rng.pick(&[65_535, 65_536, 70_000]),
            2 => self.ring - 24,
            _ => self.rng.within(0, 60),
        };
        let mut payload = self.rng.bytes(len);
        // Small numbers make fragments.
        if self.rng.percent(70) {
            payload.iter_mut().for_each(|b| *b &= 0x07);
        }
        let header = Header {
            producer,
            writer,
            // It is left open whether a chunk that is too large is refused or too late: only new ones are too large.
            chunk_id: if len > self.ring - 24 {
                next
            } else {
                next.wrapping_sub(6).wrapping_add(self.rng.below(8) as u32)
            },
            fragments: self.rng.pick(&[0, 1, 2, 3, 20, 65_535]),
            flags: self.rng.number() as u8,
            complete: self.rng.percent(60),
            uid: 5,
            pid: 6,
        };
        BufferOp::Commit { header, payload, keep: self.keep(), closure: self.rng.percent(30) }
    }
}
