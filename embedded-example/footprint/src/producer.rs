//! The producer side and the service's view of shared memory.

use crate::input::Input;
use crate::observe::{debug, show};
use crate::track_event;
use core::hint::black_box;
use tracebuf::producer::{
    Bitmap, CommitRequest, CommitSink, Consumer, Exhaustion, Layout, MemoryError, MessageHandle, Producer,
    ProducerStorage, ReadChunk, ScrapedChunk, SharedMemory, SmbChunkHeader, atomic_words, atomic_words_at,
    atomic_words_in,
};

pub(crate) fn all(input: &mut Input<'static>, memory: &mut [u8]) {
    let words = atomic_words_in(memory);
    match SharedMemory::new(words, input.u32()) {
        Ok(memory) => live(input, memory),
        Err(error) => show(error),
    }
    let mut few = [input.u32(); 64];
    debug(SharedMemory::new(atomic_words(&mut few), input.u32()).map(|memory| memory.size()));
    // SAFETY: the words are this function's own and the reference ends here.
    black_box(unsafe { atomic_words_at(few.as_ptr(), few.len()) }.len());
}

/// Leaves everything to the consumer.
struct Sends;

impl CommitSink for Sends {
    fn commit(&self, request: &CommitRequest<'_>) {
        black_box((request.chunks_to_move, request.chunks_to_patch, request.flush));
        debug(*request);
    }

    fn stall(&self, step: u32, micros: u32) -> bool {
        black_box((step, micros)).0 > 3
    }
}

fn live(input: &mut Input<'static>, memory: SharedMemory<'_>) {
    let layout = Layout::from_bits(input.u32()).unwrap_or(Layout::Fourteen);
    debug(layout);
    black_box((memory.pages(), memory.page_size(), memory.size(), memory.chunks(layout)));
    let storage = ProducerStorage::<64, 4>::new();
    match Producer::new(memory, layout, &storage, &Sends) {
        Ok(producer) => writers(input, &producer),
        Err(error) => drop(black_box::<MemoryError>(error)),
    }
    looks(input, memory);
    consumer(input, memory);
}

fn writers(input: &mut Input<'static>, producer: &Producer<'_>) {
    black_box(producer.memory().pages());
    black_box(producer.layout());
    let exhaustion = match input.u16() & 3 {
        0 => Exhaustion::Drop,
        1 => Exhaustion::Stall,
        _ => Exhaustion::StallThenDrop,
    };
    debug(exhaustion);
    let Some(mut writer) = producer.writer(input.u16(), exhaustion) else { return };
    while input.bool() {
        let mut packet = writer.packet();
        fields(input, &mut packet);
        {
            let mut inner = packet.message(input.u32());
            fields(input, &mut inner);
            let number = input.u32();
            fields(input, &mut inner.message(number));
        }
        fields(input, &mut packet);
        if input.bool() {
            core::mem::forget(packet);
        }
    }
    black_box(writer.id());
    debug(writer.stats());
    let flush = writer.flush();
    producer.commit();
    producer.flushed(flush);
    black_box(producer.is_flushed(flush));
    producer.clear_incremental_state();
    track_event::all(input, writer);
}

fn fields(input: &mut Input<'static>, message: &mut MessageHandle<'_, '_>) {
    message.varint(input.u32(), input.u64());
    message.bool(input.u32(), input.bool());
    message.fixed64(input.u32(), input.u64());
    message.fixed32(input.u32(), input.u32());
    message.double(input.u32(), f64::from_bits(input.u64()));
    message.bytes(input.u32(), input.slice());
    message.string(input.u32(), input.text());
    message.formatted(input.u32(), format_args!("{} {:?}", input.text(), input.u32()));
}

fn looks(input: &mut Input<'static>, memory: SharedMemory<'_>) {
    for page in memory.all_pages() {
        let bitmap = page.bitmap();
        debug(bitmap);
        bits(input, bitmap);
        black_box((page.reserved(), page.size()));
        for chunk in page.chunks() {
            black_box((chunk.index(), chunk.offset(), chunk.payload_len()));
            debug(chunk.state());
            debug(chunk.header());
            let mut bytes = [0; 16];
            chunk.fill(input.u32() as usize, &mut bytes);
            black_box(bytes);
            chunk.fragments().for_each(debug);
        }
    }
    black_box(memory.page(input.u32()).is_some());
}

fn bits(input: &mut Input<'static>, bitmap: Bitmap) {
    black_box((bitmap.layout_bits(), bitmap.layout(), bitmap.state(input.u32())));
    black_box((bitmap.reserved_bit(), bitmap.has_stray_states()));
    let header = SmbChunkHeader::from_words([input.u32(), input.u32()]);
    black_box(header.to_words());
}

fn consumer(input: &mut Input<'static>, memory: SharedMemory<'_>) {
    let mut consumer = Consumer::new(memory);
    black_box(consumer.reclaim());
    black_box(consumer.memory().pages());
    while input.bool() {
        if let Some(chunk) = consumer.take(input.u32(), input.u32()) {
            taken(input, &chunk);
        }
    }
    consumer.visible().for_each(|chunk| scraped(input, &chunk));
    consumer.scrape::<4>(|chunk| scraped(input, chunk));
}

fn taken(input: &mut Input<'static>, chunk: &ReadChunk<'_>) {
    debug(chunk.header());
    let mut bytes = [0; 32];
    chunk.fill(input.u32() as usize, bytes.get_mut(..chunk.len()).unwrap_or_default());
    black_box(bytes);
}

fn scraped(input: &mut Input<'static>, chunk: &ScrapedChunk<'_>) {
    debug(chunk.header());
    black_box((chunk.is_complete(), chunk.position()));
    let mut bytes = [0; 32];
    chunk.fill(input.u32() as usize, bytes.get_mut(..chunk.len()).unwrap_or_default());
    black_box(bytes);
}
