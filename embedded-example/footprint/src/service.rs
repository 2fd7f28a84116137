//! The service's side, which joins the parts.

use crate::buffer::config;
use crate::input::Input;
use crate::observe::{Nowhere, debug, show};
use crate::proto::id;
use core::hint::black_box;
use tracebuf::buffer::{DataLoss, TraceBuffer};
use tracebuf::producer::{
    ChunkPatch, ChunkToMove, ChunkToPatch, CommitRequest, Consumer, Request, SharedMemory, atomic_words_in,
};
use tracebuf::service::{
    Exported, FlushTracker, ProducerEndpoint, ProducerIdentity, StartMark, TraceExporter, sequence_id,
    trusted_fields, writer_stats,
};

pub(crate) fn all(input: &mut Input<'_>, memory: &mut [u8]) {
    export(input, memory);
    let (shared, central) = memory.split_at_mut_checked(input.u32() as usize).unwrap_or_default();
    endpoint(input, shared, central);
    flushes(input);
}

fn endpoint(input: &mut Input<'_>, shared: &mut [u8], central: &mut [u8]) {
    let Ok(memory) = SharedMemory::new(atomic_words_in(shared), input.u32()) else { return };
    mark(input.u64(), StartMark::new(input.u16(), &memory));
    black_box(StartMark::from_word(input.u64()).is_some_and(|mark| mark.is_of(&memory)));
    let Ok(buffer) = TraceBuffer::new(central, config(input)) else { return };
    let mut buffers = [buffer];
    let identity = ProducerIdentity { producer_id: input.u16(), uid: input.u32(), pid: input.u32() as i32 };
    debug(identity);
    let mut endpoint = ProducerEndpoint::<8>::new(Consumer::new(memory), identity);
    black_box(endpoint.identity());
    while input.bool() {
        black_box(endpoint.allow(input.u16()));
        black_box(endpoint.register_writer(input.u16(), input.u16()));
        black_box(endpoint.register_counting_writer(input.u16(), input.u16()));
        let patches = [ChunkPatch { chunk_id: input.u32(), offset: input.u16(), data: [1; 4] }; 3];
        let (moves, patched) = (
            [ChunkToMove { page: input.u32(), chunk: input.u32(), target: input.u16() }; 3],
            [ChunkToPatch {
                writer_id: input.u16(),
                target: input.u16(),
                chunk_id: input.u32(),
                patches: patches.get(..input.u32() as usize).unwrap_or_default(),
                has_more: input.bool(),
            }; 3],
        );
        let request = CommitRequest {
            chunks_to_move: moves.get(..input.u32() as usize).unwrap_or_default(),
            chunks_to_patch: patched.get(..input.u32() as usize).unwrap_or_default(),
            flush: input.u32(),
        };
        endpoint.carry_out(&request, &mut buffers);
        for one in request.each() {
            debug(one);
            let one = Request::from_bytes(black_box(one.to_bytes()));
            black_box(one.and_then(|one| endpoint.carry_out_one(&one, &mut buffers)));
        }
        black_box(endpoint.scrape(&mut buffers));
        endpoint.unregister_writer(input.u16());
    }
    black_box(endpoint.disconnect(&mut buffers));
    debug(endpoint.stats());
}

fn mark(word: u64, ours: StartMark) {
    let Some(mark) = StartMark::from_word(word) else { return };
    black_box((mark.start(), mark.page_size(), mark.pages(), mark.ring_offset()));
    debug(mark);
    black_box((mark == ours, ours.to_word()));
}

fn export(input: &mut Input<'_>, memory: &mut [u8]) {
    let Ok(mut buffer) = TraceBuffer::new(memory, config(input)) else { return };
    let mut exporter = TraceExporter::new(Nowhere);
    let mut reader = buffer.read();
    while let Some(packet) = reader.next_packet() {
        let loss = DataLoss::from_bits_truncate(input.u16());
        match exporter.packet(&packet, sequence_id(input.u16(), input.u16()), loss) {
            Ok(Exported::Invalid(fault)) => show(fault),
            Ok(exported) => drop(black_box(exported.loss())),
            Err(error) => show(error),
        }
        let _ = black_box(exporter.drain(&mut reader, sequence_id));
        if let Some(packet) = reader.next_packet() {
            let _ = black_box(trusted_fields(&packet, id(input), loss));
        }
        if let Ok(drained) = black_box(exporter.drain_up_to(&mut reader, sequence_id, input.u64())) {
            debug(drained);
        }
    }
    let writers: [_; 4] = core::array::from_fn(|_| {
        buffer.sequences().next().map(|sequence| writer_stats(&sequence, id(input), input.u32()))
    });
    let _ = black_box(exporter.stats(&buffer.stats(), writers.into_iter().flatten()));
    black_box(exporter.invalid_packets());
    let _ = black_box(exporter.file().flush());
    debug(&exporter);
    black_box(exporter.into_output());
}

fn flushes(input: &mut Input<'_>) {
    let mut flushes = FlushTracker::after(input.u64());
    black_box(flushes.ask(input.u64()));
    for _ in 0..input.u32() {
        flushes.answer(input.u64(), input.bool().then(|| input.u32()));
        flushes.carried_out(input.u32());
    }
    flushes.answer_all();
    black_box((flushes.asked(), flushes.answered(), flushes.is_idle()));
    black_box((flushes.has_answered(input.u64()), flushes.is_carried_out(input.u32())));
    debug(flushes);
}
