//! The buffers under test, the writers, and the checks after each operation.

mod reading;

use super::op::{Op, Setup};
use super::writer::Writer;
use crate::cost::{bounded, capacity};
use crate::memory::{Memory, check};
use reading::{Read, read};
use tracebuf::buffer::{
    Chunk, ChunkFlags, ChunkHeader, Commit, Config, FillPolicy, Lease, OverwriteObserver, Packet, Patch,
    Refusal, TraceBuffer,
};

/// First chunk ids, including some that soon wrap or change their sign.
const FIRST_IDS: [u32; 4] = [0, 1, u32::MAX - 2, i32::MAX as u32 - 2];
const WRITERS: usize = 3;
const MOST_CHUNKS: usize = 300;

/// Who watches packets being overwritten.
#[derive(Clone, Copy, PartialEq)]
enum Watch {
    Nobody,
    /// The watched buffer has a twin that is not watched: they must behave the same.
    Twin,
    /// The observer keeps some of what it is shown.
    Keeper,
}

/// Notes what it is shown, and which of it is kept.
struct Observer {
    keeps: bool,
    shown: Vec<(Read, bool)>,
}

impl OverwriteObserver for Observer {
    fn packet(&mut self, packet: &Packet<'_>) -> bool {
        let kept = self.keeps && !packet.len().is_multiple_of(4);
        self.shown.push((read(packet), kept));
        kept
    }
}

pub(super) struct World {
    buffer: TraceBuffer<Memory>,
    twin: Option<TraceBuffer<Memory>>,
    watch: Watch,
    policy: FillPolicy,
    writers: Vec<Writer>,
    /// The last ids of the hostile writers.
    hostile: [u32; 4],
    offered: u64,
    leases: Vec<(Lease, Read)>,
    kept: bool,
}

impl World {
    pub(super) fn new(setup: &Setup) -> Self {
        let discard = setup.layout & 0x80 != 0;
        let policy = if discard { FillPolicy::Discard } else { FillPolicy::RingBuffer };
        let config = Config::new(policy)
            .sequences(4 + u16::from(setup.layout & 7))
            .histograms(setup.layout & 0x40 != 0);
        let offset = usize::from(setup.layout >> 3 & 7);
        let size = config.region_size(64 + u32::from(setup.ring) * 4) as usize + (8 - offset) % 8;
        let make = || TraceBuffer::new(Memory::new(size, offset), config).expect("a region large enough");
        let watch =
            [Watch::Nobody, Watch::Twin, Watch::Keeper, Watch::Twin][usize::from(setup.mode >> 2 & 3)];
        let first = FIRST_IDS[usize::from(setup.mode & 3)];
        Self {
            buffer: make(),
            twin: (watch == Watch::Twin).then(make),
            watch,
            policy,
            writers: (0..WRITERS).map(|id| Writer::new(id as u16, first)).collect(),
            hostile: [first; 4],
            offered: 0,
            leases: Vec::new(),
            kept: false,
        }
    }

    pub(super) fn run(&mut self, op: &Op) {
        match op {
            Op::Produce { writer, how, sizes } => {
                let writer = usize::from(*writer) % WRITERS;
                if self.writers[writer].chunks.len() < MOST_CHUNKS {
                    self.writers[writer].produce(*how, sizes);
                    if how & 8 == 0 {
                        self.commit(writer, self.writers[writer].chunks.len() - 1, false);
                    }
                }
            }
            Op::Commit { writer, back, how } => {
                if let Some((writer, index)) = self.pick(*writer, *back) {
                    // What was patched in the buffer is no longer in shared memory.
                    if !self.writers[writer].chunks[index].patched_later {
                        self.commit(writer, index, how & 1 != 0);
                    }
                }
            }
            Op::Scrape { writer, back, how } => {
                if let Some((writer, index)) = self.pick(*writer, *back) {
                    self.scrape(writer, index, *how);
                }
            }
            Op::Patch { writer, back, how } => {
                if let Some((writer, index)) = self.pick(*writer, *back) {
                    self.patch(writer, index, how & 1 != 0);
                }
            }
            Op::Read { limit, reject } => self.read(*limit, *reject),
            Op::Lease { limit } => self.lease(*limit),
            Op::GiveUp { index } => self.give_up(*index),
            Op::Clone { offset } => drop(self.read_clone(usize::from(offset % 8))),
            Op::Hostile { writer, step, fragments, flags, payload } => {
                let (producer_id, writer_id, chunk_id) = self.name(*writer, *step);
                let header = ChunkHeader {
                    producer_id,
                    writer_id,
                    chunk_id,
                    fragments: u16::from(*fragments),
                    flags: ChunkFlags::from_bits_retain(*flags & 7),
                    complete: flags & 8 != 0,
                    ..ChunkHeader::default()
                };
                self.offer(&header, payload, flags & 0x10 != 0, flags & 0x20 != 0);
            }
            Op::HostilePatch { writer, step, offset, data } => {
                let (producer_id, writer_id, chunk_id) = self.name(*writer, *step);
                let offset = if *offset == 255 { u32::MAX - 3 } else { u32::from(*offset) };
                let patches = [Patch { offset, data: [*data | 0x80, 0x80, 0x80, 0] }];
                let pending = data & 1 != 0;
                self.send_patches(producer_id, writer_id, chunk_id, &patches, pending);
            }
        }
        self.check();
    }

    /// Every writer brings what it still has, and one more packet, which must come out.
    pub(super) fn settle(&mut self) {
        for writer in 0..WRITERS {
            if self.writers[writer].chunks.is_empty() {
                continue;
            }
            for index in 0..self.writers[writer].chunks.len() {
                let chunk = &self.writers[writer].chunks[index];
                if chunk.stored && !chunk.committed {
                    self.commit(writer, index, index % 2 == 0);
                }
                self.patch(writer, index, false);
            }
            if self.writers[writer].open {
                self.writers[writer].produce(0, &[0]);
                self.commit(writer, self.writers[writer].chunks.len() - 1, false);
            }
            self.writers[writer].produce(0, &[9]);
            let outcome = self.commit(writer, self.writers[writer].chunks.len() - 1, false);
            self.read(255, 0);
            let there = outcome == Commit::Written && self.policy == FillPolicy::RingBuffer;
            let done = self.writers[writer].is_done() || self.writers[writer].forgotten;
            assert!(!there || done, "writer {writer} waits for ever");
        }
        self.check();
    }

    fn pick(&self, writer: u8, back: u8) -> Option<(usize, usize)> {
        let writer = usize::from(writer) % WRITERS;
        let index = self.writers[writer].chunks.len().checked_sub(1 + usize::from(back % 32))?;
        Some((writer, index))
    }

    fn name(&mut self, writer: u8, step: u8) -> (u16, u16, u32) {
        let last = &mut self.hostile[usize::from(writer % 4)];
        *last = match step {
            0x80 => last.wrapping_add(1 << 31),
            0x7F => last.wrapping_add(i32::MAX as u32),
            step => last.wrapping_add(step as i8 as u32),
        };
        let (producer, id) = [(0, 0), (2, 0), (0, 9), (2, 9)][usize::from(writer % 4)];
        (producer, id + if id > 0 { u16::from(writer >> 6) } else { 0 }, *last)
    }

    /// Commits a chunk of an honest writer whole.
    fn commit(&mut self, writer: usize, index: usize, shared: bool) -> Commit {
        let header = self.writers[writer].header(index);
        let bytes = self.writers[writer].chunks[index].in_shared_memory(usize::MAX);
        let outcome = self.offer(&header, &bytes, shared, false);
        let chunk = &mut self.writers[writer].chunks[index];
        chunk.committed = true;
        chunk.patched_later |= !chunk.patches.is_empty();
        if matches!(outcome, Commit::Written | Commit::Rewritten | Commit::Relocated | Commit::Unchanged) {
            chunk.accepted = true;
        }
        self.took(writer, index, outcome);
        outcome
    }

    fn scrape(&mut self, writer: usize, index: usize, how: u8) {
        let chunk = &mut self.writers[writer].chunks[index];
        if chunk.committed {
            return;
        }
        let complete = how & 4 != 0 || chunk.seen_complete;
        let fragments = (usize::from(how >> 3)).max(chunk.shown).min(chunk.ends.len());
        let bytes = if complete && chunk.patches.is_empty() {
            chunk.seen_complete = true;
            chunk.in_shared_memory(usize::MAX)
        } else if !complete && fragments >= 2 {
            chunk.shown = fragments;
            chunk.in_shared_memory(fragments)
        } else {
            return;
        };
        let mut header = self.writers[writer].header(index);
        if !complete {
            (header.fragments, header.complete) = (fragments as u16, false);
            if how & 2 == 0 {
                header.flags &= ChunkFlags::CONTINUES_FROM_PREVIOUS;
            }
        }
        let outcome = self.offer(&header, &bytes, how & 1 != 0, false);
        self.took(writer, index, outcome);
    }

    fn took(&mut self, writer: usize, index: usize, outcome: Commit) {
        match outcome {
            Commit::Written | Commit::Relocated => self.writers[writer].stored(index),
            Commit::Rewritten | Commit::Unchanged | Commit::Discarded => {}
            Commit::Refused(Refusal::TooLarge | Refusal::TableFull | Refusal::TooFarOutOfOrder) => {}
            Commit::Refused(why) => panic!("writer {writer}: an honest chunk was refused: {why}"),
        }
    }

    /// Patches committed chunks in the buffer, others in shared memory.
    fn patch(&mut self, writer: usize, index: usize, one: bool) {
        let chunk = &mut self.writers[writer].chunks[index];
        let count = if one { chunk.patches.len().min(1) } else { chunk.patches.len() };
        if count == 0 {
            return;
        }
        let now: Vec<Patch> = chunk.patches.drain(..count).collect();
        let more = !chunk.patches.is_empty();
        if chunk.committed {
            let id = chunk.id;
            self.send_patches(1, writer as u16, id, &now, more);
            return;
        }
        for patch in now {
            chunk.bytes[patch.offset as usize..][..4].copy_from_slice(&patch.data);
        }
        chunk.flags.set(ChunkFlags::NEEDS_PATCHING, more);
    }

    fn send_patches(&mut self, producer: u16, writer: u16, id: u32, patches: &[Patch], more: bool) {
        crate::trace(|| format!("    patch {producer}/{writer} {id} {patches:?} {more}"));
        let done = bounded(capacity(&self.buffer), 0, || {
            self.buffer.try_patch_chunk_contents(producer, writer, id, patches, more)
        });
        if let Some(twin) = &mut self.twin {
            assert_eq!(twin.try_patch_chunk_contents(producer, writer, id, patches, more), done);
        }
    }

    /// Offers a chunk to the buffer, and to its twin. `fickle`: it looks different each time it is read.
    fn offer(&mut self, header: &ChunkHeader, payload: &[u8], shared: bool, fickle: bool) -> Commit {
        let keeps = self.watch == Watch::Keeper;
        let mut observer = Observer { keeps, shown: Vec::new() };
        let commit = |buffer: &mut TraceBuffer<Memory>, observer: Option<&mut Observer>| {
            let mut asked = 0u8;
            let fill = |offset: usize, target: &mut [u8]| {
                asked += 1;
                for (i, byte) in target.iter_mut().enumerate() {
                    *byte = payload.get(offset + i).copied().unwrap_or_default();
                    *byte ^= if fickle && (i + offset).is_multiple_of(3) { asked } else { 0 };
                }
            };
            let chunk = Chunk { header: *header, payload };
            match (shared, observer) {
                (false, None) => buffer.copy_chunk_untrusted(&chunk),
                (false, Some(observer)) => buffer.copy_chunk_untrusted_observed(&chunk, observer),
                (true, None) => buffer.commit_with(header, payload.len(), fill),
                (true, Some(observer)) => buffer.commit_with_observed(header, payload.len(), fill, observer),
            }
        };
        self.offered += 1;
        let before = self.buffer.sequences().count();
        let outcome = bounded(capacity(&self.buffer), payload.len(), || {
            commit(&mut self.buffer, keeps.then_some(&mut observer))
        });
        if let Some(twin) = &mut self.twin {
            let again = bounded(capacity(twin), payload.len(), || commit(twin, Some(&mut observer)));
            assert_eq!(again, outcome, "watching changes the outcome");
        }
        crate::trace(|| format!("    {header:?} of {} bytes: {outcome}", payload.len()));
        let is_unknown = matches!(outcome, Commit::Refused(Refusal::TableFull | Refusal::TooLarge))
            || before == self.buffer.sequences().count() && outcome == Commit::Written;
        for writer in &mut self.writers {
            writer.some_is_unknown |= is_unknown;
        }
        let mut last = [0; WRITERS];
        for ((producer, id, bytes, loss), kept) in observer.shown {
            crate::trace(|| {
                format!("    overwrites {producer}/{id}, {} bytes, {loss}, kept: {kept}", bytes.len())
            });
            let Some(writer) = self.writers.get_mut(usize::from(id)).filter(|_| producer == 1) else {
                continue;
            };
            let last = &mut last[usize::from(id)];
            let Some(k) = writer.find(*last, &bytes) else {
                panic!("writer {id}: overwritten, but never written, or out of order: {bytes:?}");
            };
            *last = k + 1;
            if kept {
                self.kept = true;
                writer.came_out(&bytes, loss, true);
            }
        }
        self.notice_forgotten();
        self.check_leases();
        outcome
    }

    fn notice_forgotten(&mut self) {
        for writer in &mut self.writers {
            let there = self.buffer.sequences().any(|s| s.producer_id == 1 && s.writer_id == writer.id);
            writer.forgotten |= !there && writer.chunks.iter().any(|chunk| chunk.stored);
        }
    }

    fn check(&mut self) {
        check(&mut self.buffer, self.twin.as_mut(), self.offered);
    }
}
