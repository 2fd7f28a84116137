//! The producer side and the service's view of shared memory.

use crate::input::Input;
use crate::observe::{debug, ok};
use crate::track_event;
use core::hint::black_box;
use tracebuf::producer::{
    CommitRequest, CommitSink, Consumer, Exhaustion, Layout, MessageHandle, Producer, ProducerStorage,
    ScrapedChunk, SharedMemory, SmbChunkHeader, atomic_words, atomic_words_at, atomic_words_in,
};

pub(crate) fn all(input: &mut Input<'static>, memory: &mut [u8]) {
    if let Some(memory) = ok(SharedMemory::new(atomic_words_in(memory), input.u32())) {
        live(input, memory);
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
        debug(*request);
    }

    fn stall(&self, step: u32, micros: u32) -> bool {
        black_box((step, micros)).0 > 3
    }
}

fn live(input: &mut Input<'static>, memory: SharedMemory<'_>) {
    let layout = Layout::from_bits(input.u32()).unwrap_or(Layout::Fourteen);
    debug((layout, memory.pages(), memory.page_size(), memory.size(), memory.chunks(layout)));
    let storage = ProducerStorage::<64, 4>::new();
    if let Some(producer) = ok(Producer::new(memory, layout, &storage, &Sends)) {
        writers(input, &producer);
    }
    looks(input, memory);
    consumer(input, memory);
}

fn writers(input: &mut Input<'static>, producer: &Producer<'_>) {
    black_box((producer.memory().pages(), producer.layout()));
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
    debug((writer.id(), writer.stats()));
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
        debug((bitmap, bitmap.layout_bits(), bitmap.layout(), bitmap.state(input.u32())));
        black_box((bitmap.reserved_bit(), bitmap.has_stray_states(), page.reserved(), page.size()));
        for chunk in page.chunks() {
            debug((chunk.index(), chunk.offset(), chunk.payload_len(), chunk.state(), chunk.header()));
            let mut bytes = [0; 16];
            chunk.fill(input.u32() as usize, &mut bytes);
            debug(bytes);
            chunk.fragments().for_each(debug);
        }
    }
    black_box(memory.page(input.u32()).is_some());
    black_box(SmbChunkHeader::from_words([input.u32(), input.u32()]).to_words());
}

fn consumer(input: &mut Input<'static>, memory: SharedMemory<'_>) {
    let mut consumer = Consumer::new(memory);
    black_box((consumer.reclaim(), consumer.memory().pages()));
    while input.bool() {
        if let Some(chunk) = consumer.take(input.u32(), input.u32()) {
            debug(chunk.header());
            filled(chunk.len(), |bytes| chunk.fill(input.u32() as usize, bytes));
        }
    }
    consumer.visible().for_each(|chunk| scraped(input, &chunk));
    consumer.scrape::<4>(|chunk| scraped(input, chunk));
}

fn scraped(input: &mut Input<'static>, chunk: &ScrapedChunk<'_>) {
    debug((chunk.header(), chunk.is_complete(), chunk.position()));
    filled(chunk.len(), |bytes| chunk.fill(input.u32() as usize, bytes));
}

fn filled(len: usize, fill: impl FnOnce(&mut [u8])) {
    let mut bytes = [0; 32];
    fill(bytes.get_mut(..len).unwrap_or_default());
    debug(bytes);
}
