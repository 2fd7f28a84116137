//! The real buffer compared with the model: the same operations, everything observable compared.

use tracebuf::buffer::{
    BufferStats, Chunk, ChunkFlags, ChunkHeader, Commit, Config, FillPolicy, OverwriteObserver, Patch,
    Reader, Refusal, TraceBuffer,
};

use super::identities::check_identities;
use super::ops::{BufferOp, KeptPackets, Setup};
use crate::model::{
    ANY, Header, HeldBytes, Model, ModelPacket, Outcome, READ_GAP, SequenceReport, Stats, Why,
};

/// All that an operation shows, of either buffer.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Shown {
    pub outcome: Option<Outcome>,
    pub patched: Option<bool>,
    pub ended: Option<bool>,
    pub packets: Vec<ModelPacket>,
    pub evicted: Vec<ModelPacket>,
    pub stats: Stats,
    pub held: HeldBytes,
    pub sequences: Vec<SequenceReport>,
}

#[derive(Debug)]
pub struct Real {
    pub buffer: TraceBuffer<Vec<u8>>,
    pub broken: Option<&'static str>,
}

struct Witness {
    keep: KeptPackets,
    seen: Vec<ModelPacket>,
}

impl OverwriteObserver for Witness {
    fn packet(&mut self, packet: &tracebuf::buffer::Packet<'_>) -> bool {
        let packet = convert(packet);
        let first = packet.slices.first().and_then(|s| s.first()).copied().unwrap_or(0);
        self.seen.push(packet);
        self.keep.keeps(first)
    }
}

fn convert(packet: &tracebuf::buffer::Packet<'_>) -> ModelPacket {
    let slices: Vec<_> = packet.slices().map(<[u8]>::to_vec).collect();
    ModelPacket {
        producer: packet.producer_id(),
        writer: packet.writer_id(),
        uid: packet.uid(),
        pid: packet.pid(),
        loss: packet.loss().bits(),
        slices,
    }
}

pub fn take(mut reader: Reader<'_>, limit: Option<usize>) -> (Vec<ModelPacket>, bool) {
    let mut packets = Vec::new();
    while limit != Some(packets.len()) {
        let Some(packet) = reader.next_packet() else { return (packets, true) };
        let joined: usize = packet.slices().map(<[u8]>::len).sum();
        assert_eq!(
            (packet.len(), packet.is_empty()),
            (joined, false),
            "a packet's length is that of its slices"
        );
        packets.push(convert(&packet));
    }
    (packets, false)
}

fn outcome(commit: Commit) -> Outcome {
    match commit {
        Commit::Written => Outcome::Written,
        Commit::Rewritten => Outcome::Rewritten,
        Commit::Relocated => Outcome::Relocated,
        Commit::Unchanged => Outcome::Unchanged,
        Commit::Discarded => Outcome::Discarded,
        Commit::Refused(refusal) => Outcome::Refused(match refusal {
            Refusal::NullSequence => Why::NullSequence,
            Refusal::TooLarge => Why::TooLarge,
            Refusal::Shrinks => Why::Shrinks,
            Refusal::ExceedsReservedRoom => Why::ExceedsReservedRoom,
            Refusal::ClearsFlags => Why::ClearsFlags,
            Refusal::ChangesFragments => Why::ChangesFragments,
            Refusal::TableFull => Why::TableFull,
            other => Why::Other(other.to_string().len()),
        }),
    }
}

pub fn stats(s: &BufferStats) -> Stats {
    Stats {
        buffer_size: s.buffer_size,
        bytes_written: s.bytes_written,
        bytes_overwritten: s.bytes_overwritten,
        bytes_read: s.bytes_read,
        padding_bytes_written: s.padding_bytes_written,
        padding_bytes_cleared: s.padding_bytes_cleared,
        chunks_written: s.chunks_written,
        chunks_rewritten: s.chunks_rewritten,
        chunks_relocated: s.chunks_relocated,
        chunks_unchanged: s.chunks_unchanged,
        chunks_refused: s.chunks_refused,
        chunks_overwritten: s.chunks_overwritten,
        chunks_discarded: s.chunks_discarded,
        chunks_read: s.chunks_read,
        chunks_committed_out_of_order: s.chunks_committed_out_of_order,
        write_wrap_count: s.write_wrap_count,
        patches_succeeded: s.patches_succeeded,
        patches_failed: s.patches_failed,
        readaheads_succeeded: s.readaheads_succeeded,
        readaheads_failed: s.readaheads_failed,
        abi_violations: s.abi_violations,
        trace_writer_packet_loss: s.trace_writer_packet_loss,
    }
}

impl From<&Header> for ChunkHeader {
    fn from(header: &Header) -> Self {
        ChunkHeader {
            producer_id: header.producer,
            writer_id: header.writer,
            chunk_id: header.chunk_id,
            fragments: header.fragments,
            flags: ChunkFlags::from_bits_truncate(header.flags),
            complete: header.complete,
            uid: header.uid,
            pid: header.pid,
        }
    }
}

/// The patches of an operation; offsets beyond all that can be asked for stay beyond.
pub fn patches_of(patches: &[(u64, [u8; 4])]) -> Vec<Patch> {
    let fit =
        |(at, data): &(u64, [u8; 4])| Patch { offset: u32::try_from(*at).unwrap_or(u32::MAX), data: *data };
    patches.iter().map(fit).collect()
}

impl Real {
    pub fn new(setup: &Setup) -> Self {
        let policy = if setup.discard { FillPolicy::Discard } else { FillPolicy::RingBuffer };
        Self::with_config(Config::new(policy).sequences(setup.table), setup.ring)
    }

    pub fn with_config(config: Config, ring: u32) -> Self {
        let memory = vec![0u8; config.region_size(ring) as usize];
        Real { buffer: TraceBuffer::new(memory, config).expect("large enough"), broken: None }
    }

    pub fn apply(&mut self, op: &BufferOp) -> Shown {
        let mut shown = Shown::default();
        match op {
            BufferOp::Commit { header, payload, keep, closure } => {
                let header = header.into();
                shown.outcome =
                    Some(outcome(self.commit(&header, payload, *closure, *keep, &mut shown.evicted)));
            }
            BufferOp::Patch { key, chunk_id, patches, more } => {
                let patches = patches_of(patches);
                let done = self.buffer.try_patch_chunk_contents(key.0, key.1, *chunk_id, &patches, *more);
                shown.patched = Some(done);
            }
            BufferOp::Read(limit) => {
                let (packets, ended) = take(self.buffer.read(), *limit);
                (shown.packets, shown.ended) = (packets, Some(ended));
            }
            BufferOp::Clone => {
                let memory = vec![0xA5u8; self.buffer.clone_size()];
                let mut clone = self.buffer.clone_read_only(memory).expect("as large as it asked for");
                shown.packets = take(clone.read(), None).0;
                shown.stats = stats(&clone.stats());
                self.check_without_waiting(&shown);
                return shown;
            }
        }
        self.observe(shown)
    }

    /// A clone that waits for nothing gives what it otherwise would, then perhaps more in each sequence, and counts the
    /// same.
    fn check_without_waiting(&self, otherwise: &Shown) {
        let mut clone = self.buffer.clone_read_only(vec![0; self.buffer.clone_size()]).expect("large enough");
        clone.stop_waiting();
        let packets = take(clone.read(), None).0;
        for sequence in clone.sequences() {
            let of_it = |packet: &&ModelPacket| {
                (packet.producer, packet.writer) == (sequence.producer_id, sequence.writer_id)
            };
            let mut more = packets.iter().filter(of_it);
            for packet in otherwise.packets.iter().filter(of_it) {
                assert_eq!(more.next(), Some(packet));
            }
        }
        let (counted, counts) = (stats(&clone.stats()), &otherwise.stats);
        assert_eq!(
            (counted.trace_writer_packet_loss, counted.abi_violations, counted.chunks_written),
            (counts.trace_writer_packet_loss, counts.abi_violations, counts.chunks_written)
        );
        assert_eq!(take(clone.read(), None).0, []);
    }

    fn commit(
        &mut self,
        header: &ChunkHeader,
        payload: &[u8],
        closure: bool,
        keep: KeptPackets,
        evicted: &mut Vec<ModelPacket>,
    ) -> Commit {
        let chunk = Chunk { header: *header, payload };
        let fill = |at: usize, to: &mut [u8]| to.copy_from_slice(&payload[at..at + to.len()]);
        if keep == KeptPackets::Unobserved {
            return match closure {
                true => self.buffer.commit_with(header, payload.len(), fill),
                false => self.buffer.copy_chunk_untrusted(&chunk),
            };
        }
        let mut witness = Witness { keep, seen: Vec::new() };
        let commit = match closure {
            true => self.buffer.commit_with_observed(header, payload.len(), fill, &mut witness),
            false => self.buffer.copy_chunk_untrusted_observed(&chunk, &mut witness),
        };
        *evicted = witness.seen;
        commit
    }

    fn observe(&mut self, mut shown: Shown) -> Shown {
        match self.buffer.check() {
            Ok(ring) => shown.held = HeldBytes { chunks: ring.chunk_bytes, padding: ring.padding_bytes },
            Err(why) => self.broken = Some(why),
        }
        shown.stats = stats(&self.buffer.stats());
        let report = |s: tracebuf::buffer::SequenceInfo| SequenceReport {
            producer: s.producer_id,
            writer: s.writer_id,
            uid: s.uid,
            pid: s.pid,
            evicted: s.packets_evicted,
            broken: s.packets_broken,
            malformed: s.chunks_malformed,
            pending: s.pending.bits() & !1,
        };
        shown.sequences = self.buffer.sequences().map(report).collect();
        shown.sequences.sort_by_key(|s| (s.producer, s.writer));
        shown
    }
}

/// The same operation on the model.
pub fn apply_to_model(model: &mut Model, op: &BufferOp) -> Shown {
    let mut shown = Shown::default();
    match op {
        BufferOp::Commit { header, payload, keep, closure } => {
            let mut observer = |packet: &ModelPacket| {
                if *keep != KeptPackets::Unobserved {
                    shown.evicted.push(packet.clone());
                }
                keep.keeps(packet.slices[0][0])
            };
            shown.outcome = Some(model.commit(*header, payload, *closure, &mut observer));
        }
        BufferOp::Patch { key, chunk_id, patches, more } => {
            shown.patched = Some(model.patch(*key, *chunk_id, patches, *more));
        }
        BufferOp::Read(limit) => {
            let (packets, ended) = model.read(*limit);
            (shown.packets, shown.ended) = (packets, Some(ended));
        }
        BufferOp::Clone => {
            let mut clone = model.clone_read_only();
            shown.packets = clone.read(None).0;
            shown.stats = clone.stats();
            return shown;
        }
    }
    shown.stats = model.stats();
    shown.held = model.held();
    shown.sequences = model.sequences();
    shown
}

fn differ<T: std::fmt::Debug + PartialEq>(what: &str, model: &T, real: &T) -> Result<(), String> {
    if model == real { Ok(()) } else { Err(format!("{what}:\n  model {model:?}\n  real  {real:?}")) }
}

/// A bounded table cannot tell for sure which sequences it forgot: once it was too small, a gap before a new sequence
/// may be reported to be safe. Removes such gaps.
fn without_doubt(model: &Shown, real: &Shown) -> Shown {
    let settle = |model: u16, real: u16| match real & !READ_GAP & !ANY {
        0 if model & READ_GAP == 0 => 0,
        _ if model & READ_GAP == 0 => real & !READ_GAP,
        _ => real,
    };
    let mut shown = real.clone();
    for (m, r) in model.packets.iter().zip(&mut shown.packets) {
        r.loss = settle(m.loss, r.loss);
    }
    for (m, r) in model.evicted.iter().zip(&mut shown.evicted) {
        r.loss = settle(m.loss, r.loss);
    }
    for (m, r) in model.sequences.iter().zip(&mut shown.sequences) {
        r.pending = settle(m.pending, r.pending);
    }
    shown
}

/// A chunk may break several rules at once: which one is reported is left open.
fn refused(outcome: Option<Outcome>) -> bool {
    matches!(outcome, Some(Outcome::Refused(_)))
}

fn compare(model: &Shown, real: &Shown) -> Result<(), String> {
    let mut model = model.clone();
    if model.stats.trace_writer_packet_loss > 0 {
        // Whether a packet that its writer gave up counts as broken depends on which parts of it came.
        for (m, r) in model.sequences.iter_mut().zip(&real.sequences) {
            m.broken = r.broken;
        }
    }
    if !(refused(model.outcome) && refused(real.outcome)) {
        differ("outcome", &model.outcome, &real.outcome)?;
    }
    differ("patched", &model.patched, &real.patched)?;
    differ("packets", &model.packets, &real.packets)?;
    differ("ended", &model.ended, &real.ended)?;
    differ("evicted packets", &model.evicted, &real.evicted)?;
    differ("stats", &model.stats, &real.stats)?;
    differ("held", &model.held, &real.held)?;
    differ("sequences", &model.sequences, &real.sequences)
}

/// What a case compares with the model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Depth {
    /// Everything observable.
    Model,
    /// Only that the real buffer agrees with itself.
    Identities,
}

/// Runs a case; the error names the operation and what was wrong after it.
pub fn run(setup: &Setup, ops: &[BufferOp], depth: Depth) -> Result<(), String> {
    let mut real = Real::new(setup);
    let mut model = Model::new(real.buffer.stats().buffer_size, setup.discard, usize::from(setup.table));
    let mut offered = 0;
    for (i, op) in ops.iter().enumerate() {
        let at = |what: String| format!("after operation {} ({}): {what}", i + 1, short(op));
        if let (BufferOp::Commit { header: h, .. }, Depth::Model) = (op, depth) {
            // Nobody can say how many fragments a chunk has that patches broke.
            if model.is_broken((h.producer, h.writer), h.chunk_id) {
                continue;
            }
        }
        let shown = real.apply(op);
        offered += u64::from(matches!(op, BufferOp::Commit { .. }));
        if depth == Depth::Model {
            let expected = apply_to_model(&mut model, op);
            let shown = if model.has_forgotten() { without_doubt(&expected, &shown) } else { shown.clone() };
            compare(&expected, &shown).map_err(at)?;
        }
        if let Some(why) = real.broken {
            return Err(at(format!("check: {why}")));
        }
        if !matches!(op, BufferOp::Clone) {
            check_identities(&shown.stats, shown.held, offered).map_err(at)?;
        }
    }
    Ok(())
}

pub fn short(op: &BufferOp) -> String {
    let mut text = op.to_string();
    text.truncate(100);
    text
}
