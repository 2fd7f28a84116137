//! Writers, a drain and a scrape over one page of shared memory.

use crate::{leak, model};
use loom::sync::{Arc, Mutex};
use loom::thread;
use tracebuf::producer::*;

/// Remembers what it was sent.
struct Sent(Mutex<Vec<ChunkToMove>>);

impl CommitSink for Sent {
    fn commit(&self, request: &CommitRequest<'_>) {
        self.0.lock().unwrap().extend(request.chunks_to_move);
    }
}

struct World {
    producer: &'static Producer<'static>,
    sent: &'static Sent,
    service: Mutex<Service>,
}

/// The consumer, and what it has drained: a writer's id and a chunk's.
struct Service {
    consumer: Consumer<'static>,
    drained: Vec<(u16, u32)>,
}

/// One page of two chunks of 32 bytes, or one chunk.
fn world(layout: Layout, pages: usize) -> Arc<World> {
    let words: &'static [AtomicU32] = Vec::leak((0..18 * pages).map(|_| AtomicU32::new(0)).collect());
    let memory = SharedMemory::new(words, 72).unwrap();
    let sent: &'static Sent = leak(Sent(Mutex::new(Vec::new())));
    let storage: &'static ProducerStorage<4, 2> = leak(ProducerStorage::new());
    let producer = leak(Producer::new(memory, layout, storage, sent).unwrap());
    let service = Service { consumer: Consumer::new(memory), drained: Vec::new() };
    Arc::new(World { producer, sent, service: Mutex::new(service) })
}

/// All fragments that may be looked at are those that the writer wrote: 0x2A by writer 1, 0x2B by writer 2.
///
/// Reads nothing else: every load of a word that is still being written would multiply the cases.
fn check(header: SmbChunkHeader, complete: bool, fill: impl Fn(usize, &mut [u8])) -> usize {
    let byte = |offset| {
        let mut byte = [0];
        fill(offset, &mut byte);
        usize::from(byte[0])
    };
    let (mut offset, mut packets) = (0, 0);
    for _ in 0..header.fragments - u16::from(!complete) {
        let size = byte(offset);
        offset += 1 + size;
        if size != 0 {
            assert_eq!(byte(offset - 1), [0x2A, 0x2B][header.writer_id as usize - 1]);
            packets += 1;
        }
    }
    packets
}

impl World {
    fn drain(&self) -> usize {
        let Service { consumer, drained } = &mut *self.service.lock().unwrap();
        let sent = std::mem::take(&mut *self.sent.0.lock().unwrap());
        let mut packets = 0;
        for ChunkToMove { page, chunk, .. } in sent {
            let chunk = consumer.take(page, chunk).expect("what is sent is complete");
            drained.push((chunk.header().writer_id, chunk.header().chunk_id));
            packets += check(chunk.header(), true, |offset, to| chunk.fill(offset, to));
        }
        packets
    }

    /// Nothing that was drained is shown again, even when its place is another chunk's by now.
    fn scrape(&self) {
        let Service { consumer, drained } = &mut *self.service.lock().unwrap();
        consumer.scrape::<2>(|chunk| {
            let SmbChunkHeader { writer_id, chunk_id, .. } = chunk.header();
            assert!(!drained.contains(&(writer_id, chunk_id)), "chunk {chunk_id} of {writer_id} again");
            check(chunk.header(), chunk.is_complete(), |offset, to| chunk.fill(offset, to));
        });
    }
}

fn write(writer: &mut TraceWriter<'_>, field: u32) {
    let value = [0x2A, 0x2B][writer.id() as usize - 1];
    writer.packet().varint(field, value);
}

#[test]
fn two_writers_one_drain_and_one_scrape_see_only_what_was_written() {
    model(2, || {
        let world = world(Layout::Two, 1);
        let writers: Vec<_> = (0..2).map(|_| world.producer.writer(0, Exhaustion::Drop).unwrap()).collect();
        let threads: Vec<_> = writers
            .into_iter()
            .map(|mut writer| {
                thread::spawn(move || {
                    // Fills the chunk except for a few bytes: it is completed without a flush.
                    let fill = [0x29 + writer.id() as u8; 15];
                    writer.packet().bytes(1, &fill);
                    let dropped = writer.stats().dropped;
                    std::mem::forget(writer);
                    1 - dropped as usize
                })
            })
            .collect();
        world.scrape();
        let mut read = world.drain();
        let written: usize = threads.into_iter().map(|t| t.join().unwrap()).sum();
        world.producer.commit();
        read += world.drain();
        assert_eq!(read, written);
        assert_eq!(world.producer.memory().page(0).unwrap().bitmap(), Bitmap(0));
    });
}

#[test]
fn a_chunk_drained_and_used_again_is_never_taken_for_the_old_one() {
    model(3, || {
        let world = world(Layout::One, 1);
        let mut writer = world.producer.writer(0, Exhaustion::Drop).unwrap();
        let service = {
            let world = world.clone();
            thread::spawn(move || {
                let first = world.drain();
                world.scrape();
                first + world.drain()
            })
        };
        write(&mut writer, 1);
        writer.flush();
        write(&mut writer, 2);
        write(&mut writer, 1);
        writer.flush();
        let stats = writer.stats();
        std::mem::forget(writer);
        let read = service.join().unwrap() + world.drain();
        assert_eq!(read as u64 + stats.dropped, stats.packets);
    });
}

/// The service looks while the writer has taken the place but not yet said what it writes there.
#[test]
fn a_place_that_is_used_again_does_not_show_what_was_drained_from_it() {
    model(3, || {
        let world = world(Layout::One, 1);
        let mut writer = world.producer.writer(0, Exhaustion::Drop).unwrap();
        write(&mut writer, 1);
        writer.flush();
        assert_eq!(world.drain(), 1);
        let service = {
            let world = world.clone();
            thread::spawn(move || world.scrape())
        };
        write(&mut writer, 2);
        write(&mut writer, 1);
        std::mem::forget(writer);
        service.join().unwrap();
    });
}

#[test]
fn chunks_completed_at_once_are_all_sent_by_somebody() {
    model(3, || {
        let world = world(Layout::Two, 1);
        let mut a = world.producer.writer(0, Exhaustion::Drop).unwrap();
        let mut b = world.producer.writer(0, Exhaustion::Drop).unwrap();
        let other = thread::spawn(move || {
            write(&mut b, 1);
            b.flush();
            std::mem::forget(b);
        });
        write(&mut a, 1);
        a.flush();
        std::mem::forget(a);
        other.join().unwrap();
        assert_eq!(world.sent.0.lock().unwrap().len(), 2);
        assert_eq!(world.drain(), 2);
    });
}

/// A service that is a call away: whoever sends finds free chunks afterwards.
struct AtOnce(Mutex<(Option<Consumer<'static>>, Vec<(u16, u32)>, Vec<u32>)>);

impl CommitSink for AtOnce {
    fn commit(&self, request: &CommitRequest<'_>) {
        let (consumer, moved, flushes) = &mut *self.0.lock().unwrap();
        for chunk in request.chunks_to_move {
            let taken = consumer.as_mut().and_then(|consumer| consumer.take(chunk.page, chunk.chunk));
            let header = taken.expect("what is sent is complete").header();
            moved.push((header.writer_id, header.chunk_id));
        }
        flushes.extend((request.flush != 0).then_some(request.flush));
    }
}

/// One writer only needs room, and may be left without it by another that has done its share. What that other one has
/// flushed is sent by somebody all the same, and everything else by whoever comes next. With one more preemption it
/// takes two minutes.
#[test]
fn a_flush_is_sent_by_somebody_also_when_they_have_done_their_share() {
    model(2, || {
        let words: &'static [AtomicU32] = Vec::leak((0..18).map(|_| AtomicU32::new(0)).collect());
        let memory = SharedMemory::new(words, 72).unwrap();
        let sink = leak(AtOnce(Mutex::new((Some(Consumer::new(memory)), Vec::new(), Vec::new()))));
        let storage: &'static ProducerStorage<2, 2> = leak(ProducerStorage::new());
        let producer: &'static Producer<'static> =
            leak(Producer::new(memory, Layout::Two, storage, sink).unwrap());
        let mut a = producer.writer(0, Exhaustion::Drop).unwrap();
        let mut b = producer.writer(0, Exhaustion::Drop).unwrap();
        let other = thread::spawn(move || {
            // Each fills a chunk, which is half of the memory.
            for _ in 0..2 {
                a.packet().bytes(1, &[0x2A; 15]);
            }
            let chunks = a.stats().chunks;
            std::mem::forget(a);
            chunks
        });
        write(&mut b, 1);
        let flush = b.flush();
        let chunks = b.stats().chunks;
        std::mem::forget(b);
        let of_a = other.join().unwrap();
        let sent = |writer| sink.0.lock().unwrap().1.iter().filter(|(id, _)| *id == writer).count() as u64;
        assert_eq!(sink.0.lock().unwrap().2, [flush]);
        assert_eq!(sent(2), chunks);
        producer.commit();
        assert_eq!(sent(1), of_a);
    });
}
