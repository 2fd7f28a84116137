//! The central buffer.

use crate::input::Input;
use crate::observe::{Nowhere, debug, ok, show};
use core::hint::black_box;
use tracebuf::buffer::{
    BufferStats, Chunk, ChunkFlags, ChunkHeader, Commit, Config, DataLoss, FillPolicy, OverwriteObserver,
    Packet, Patch, ReadOnlyTraceBuffer, Reader, RingView, SequenceInfo, TraceBuffer,
};

pub(crate) fn config(input: &mut Input<'_>) -> Config {
    let policy = if input.bool() { FillPolicy::Discard } else { FillPolicy::RingBuffer };
    Config::new(policy).sequences(input.u16()).histograms(input.bool()).crc(input.bool())
}

pub(crate) fn all(input: &mut Input<'_>, memory: &mut [u8]) {
    let config = config(input);
    black_box(config.region_size(input.u32()));
    debug(config);
    if let Some(buffer) = ok(TraceBuffer::new(&mut *memory, config)) {
        live(input, buffer);
    }
    found(input, memory, config);
}

fn ring(view: RingView<'_>) {
    black_box((view.size(), view.used(), view.write_cursor(), view.is_sealed()));
    view.items().for_each(debug);
}

/// A region that is there already.
fn found(input: &mut Input<'_>, memory: &mut [u8], config: Config) {
    if let Some(view) = ok(RingView::find(memory)) {
        ring(view);
    }
    if let Some((buffer, salvage)) = ok(TraceBuffer::attach(&mut *memory)) {
        black_box((salvage.is_clean(), salvage.chunks_dropped()));
        show(salvage);
        live(input, buffer);
    }
    debug(ReadOnlyTraceBuffer::attach_ended(&mut *memory).map(|(_, salvage)| salvage));
    if let Some((clone, salvage)) = ok(ReadOnlyTraceBuffer::attach(&mut *memory)) {
        debug(salvage);
        of_clone(input, clone);
    }
    debug(TraceBuffer::attach_or_new(memory, config).map(|(_, salvage)| salvage));
}

fn leases(input: &mut Input<'_>, buffer: &mut TraceBuffer<&mut [u8]>) {
    let Some(lease) = buffer.read().lease_packet() else { return };
    let mut later = buffer.read().lease_packet();
    debug((&lease, lease.len(), lease.loss()));
    commits(input, buffer);
    if let Some(packet) = ok(buffer.leased(&lease)) {
        look(&packet);
    }
    buffer.give_up(lease, DataLoss::OVERWRITE, later.as_mut());
}

fn live(input: &mut Input<'_>, mut buffer: TraceBuffer<&mut [u8]>) {
    while input.bool() {
        commits(input, &mut buffer);
        patches(input, &mut buffer);
        leases(input, &mut buffer);
        session(input, &mut buffer.read());
        stats(buffer.stats().of_trace(buffer.policy()));
        buffer.sequences().for_each(sequence);
        buffer.end_producer(input.u16());
        buffer.forget_producer(input.u16());
        ring(buffer.inspect());
        black_box((buffer.stats().chunks_offered(), buffer.clone_size()));
        if let Some(clone) = lent(input).and_then(|memory| ok(buffer.clone_read_only(memory))) {
            of_clone(input, clone);
        }
    }
    black_box(buffer.into_memory());
}

/// Memory for a clone, of a size that is not known.
fn lent(input: &mut Input<'_>) -> Option<&'static mut [u8]> {
    unsafe extern "C" {
        fn every_path_memory(size: usize) -> *mut u8;
    }
    let size = input.u32() as usize;
    // SAFETY: the function is to return so many bytes that nobody else uses, or null; nobody calls this.
    unsafe { every_path_memory(size).as_mut().map(|first| core::slice::from_raw_parts_mut(first, size)) }
}

fn header(input: &mut Input<'_>) -> ChunkHeader {
    ChunkHeader {
        producer_id: input.u16(),
        writer_id: input.u16(),
        chunk_id: input.u32(),
        fragments: input.u16(),
        flags: ChunkFlags::from_bits_truncate(input.u16() as u8),
        complete: input.bool(),
        uid: input.u32(),
        pid: input.u32() as i32,
    }
}

fn commits(input: &mut Input<'_>, buffer: &mut TraceBuffer<&mut [u8]>) {
    let chunk = Chunk { header: header(input), payload: input.slice() };
    debug(chunk);
    committed(buffer.copy_chunk_untrusted(&chunk));
    committed(buffer.copy_chunk_untrusted_observed(&chunk, &mut Observer));
    let size = input.u32() as usize;
    let payload = input.slice();
    let fill = |offset: usize, target: &mut [u8]| {
        let from = payload.get(offset..).unwrap_or_default();
        target.iter_mut().zip(from).for_each(|(to, from)| *to = *from);
    };
    committed(buffer.commit_with(&chunk.header, size, fill));
    committed(buffer.commit_with_observed(&chunk.header, size, fill, &mut Observer));
}

fn committed(commit: Commit) {
    show(commit);
    if let Commit::Refused(why) = commit {
        show(why);
    }
}

struct Observer;

impl OverwriteObserver for Observer {
    fn packet(&mut self, packet: &Packet<'_>) -> bool {
        look(packet);
        black_box(packet.len()) > 7
    }
}

fn patches(input: &mut Input<'_>, buffer: &mut TraceBuffer<&mut [u8]>) {
    let mut patches = [Patch { offset: 0, data: [0; 4] }; 3];
    for patch in &mut patches {
        *patch = Patch { offset: input.u32(), data: input.u32().to_le_bytes() };
    }
    debug(patches);
    let patches = patches.get(..input.u32() as usize).unwrap_or(&patches);
    let (producer_id, writer_id, chunk_id) = (input.u16(), input.u16(), input.u32());
    black_box(buffer.try_patch_chunk_contents(producer_id, writer_id, chunk_id, patches, input.bool()));
}

fn session(input: &mut Input<'_>, reader: &mut Reader<'_>) {
    let mut bytes = [0; 100];
    while let Some(packet) = reader.next_packet() {
        look(&packet);
        let room = bytes.get_mut(..input.u32() as usize).unwrap_or_default();
        black_box(packet.copy_to(room));
        black_box(room);
        ok(packet.write_to(&mut Nowhere));
        if input.bool() {
            reader.reject_packet(DataLoss::from_bits_truncate(input.u16()));
        }
    }
}

fn look(packet: &Packet<'_>) {
    black_box((packet.producer_id(), packet.writer_id(), packet.uid(), packet.pid()));
    packet.slices().for_each(debug);
    show(packet.loss());
    debug((packet, packet.slices(), packet.len(), packet.is_empty()));
}

fn stats(stats: BufferStats) {
    for (name, value) in stats.named() {
        black_box((name, value));
    }
    debug(stats);
}

fn sequence(sequence: SequenceInfo) {
    show(sequence.pending);
    debug(sequence);
}

fn of_clone(input: &mut Input<'_>, mut clone: ReadOnlyTraceBuffer<&mut [u8]>) {
    session(input, &mut clone.read());
    clone.stop_waiting();
    session(input, &mut clone.read());
    stats(clone.stats().of_trace(clone.policy()));
    clone.sequences().for_each(sequence);
    black_box(clone.grown_size(input.u32() as usize));
    if let Some(grown) = lent(input).and_then(|memory| ok(clone.grow(memory))) {
        black_box(grown.into_read_only());
    }
    black_box(clone.into_memory());
}
