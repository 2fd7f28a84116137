//! Senders: which writer sends, how often, and that sending ends.

use crate::model::*;
#[cfg(feature = "patches")]
use crate::writer::fill;
use std::sync::Mutex;
#[cfg(feature = "patches")]
use std::sync::atomic::{AtomicU32, Ordering};
use tracebuf::producer::*;

/// The requests: chunks to move, patches and the flush of each.
#[derive(Default)]
struct Requests(Mutex<Vec<(usize, usize, u32)>>);

impl CommitSink for Requests {
    fn commit(&self, request: &CommitRequest<'_>) {
        let mut requests = self.0.lock().unwrap();
        assert!(requests.len() < 1000, "there is no end of them");
        requests.push((request.chunks_to_move.len(), request.chunks_to_patch.len(), request.flush));
    }
}

impl Requests {
    fn take(&self) -> Vec<(usize, usize, u32)> {
        std::mem::take(&mut self.0.lock().unwrap())
    }
}

fn requests(chunks: usize) -> (&'static Requests, &'static Producer<'static>) {
    let sink: &'static Requests = Box::leak(Box::default());
    (sink, producer(memory(72 * chunks, 72), Layout::One, sink))
}

#[test]
fn what_was_asked_for_is_asked_for_once() {
    let (sink, producer) = requests(8);
    let mut writer = producer.writer(0, Exhaustion::Drop).unwrap();
    writer.packet().varint(8, 1);
    assert_eq!(sink.take(), []);
    let flush = writer.flush();
    assert_eq!(sink.take(), [(1, 0, 0), (0, 0, flush)]);
    // There is nothing to send, and no second flush.
    producer.commit();
    assert_eq!(sink.take(), []);
    writer.packet().varint(8, 2);
    let next = writer.flush();
    assert!(next > flush);
    assert_eq!(sink.take(), [(1, 0, 0), (0, 0, next)]);
}

#[cfg(feature = "patches")]
#[test]
fn patches_are_sent_at_the_end_of_their_packet_and_not_with_later_ones() {
    let (sink, producer) = requests(16);
    let mut writer = producer.writer(0, Exhaustion::Drop).unwrap();
    writer.packet().message(5).bytes(1, &[7; 150]);
    let sent = sink.take();
    assert_eq!(sent.iter().map(|(_, patches, _)| patches).sum::<usize>(), 1);
    // Another writer's chunk waits; it would go with the first that has something to send.
    let mut other = producer.writer(0, Exhaustion::Drop).unwrap();
    fill(&mut other);
    writer.packet().varint(8, 1);
    assert_eq!(sink.take(), []);
}

/// Takes what it is sent, and notes how many chunks behind the newest one a patch was for.
#[cfg(all(feature = "patches", not(miri)))]
struct Distances(Mutex<(Consumer<'static>, u32, Vec<u32>)>);

#[cfg(all(feature = "patches", not(miri)))]
impl CommitSink for Distances {
    fn commit(&self, request: &CommitRequest<'_>) {
        let (consumer, newest, distances) = &mut *self.0.lock().unwrap();
        for wanted in request.chunks_to_move {
            *newest = consumer.take(wanted.page, wanted.chunk).expect("a complete chunk").header().chunk_id;
        }
        distances.extend(request.chunks_to_patch.iter().map(|patched| *newest - patched.chunk_id));
    }
}

#[cfg(all(feature = "patches", not(miri)))]
#[test]
fn a_patch_is_sent_before_its_packet_has_gone_on_so_far_that_its_chunk_is_not_found() {
    // The room that a chunk of 64 bytes has after its header and a fragment's size.
    const ROOM: usize = 64 - 8 - 4;
    // Half of the chunks, and as many as are sent at once, are more than the limit allows.
    let memory = memory(3000 * 72, 72);
    let noted = Mutex::new((Consumer::new(memory), 0, Vec::new()));
    let sink: &'static Distances = Box::leak(Box::new(Distances(noted)));
    let storage = ProducerStorage::<3000, 1>::new();
    let producer = Producer::new(memory, Layout::One, &storage, sink).unwrap();
    let mut writer = producer.writer(0, Exhaustion::Drop).unwrap();
    let mut packet = writer.packet();
    packet.message(5).bytes(1, &[7; 3000 * ROOM]);
    packet.bytes(1, &[7; 1400 * ROOM]);
    drop(packet);
    writer.flush();
    assert_eq!((writer.stats().packets, writer.stats().dropped), (1, 0));
    let distances = sink.0.lock().unwrap().2.clone();
    assert!(matches!(distances[..], [one] if one < tracebuf::buffer::WALK_LIMIT), "{distances:?}");
}

#[cfg(feature = "patches")]
#[test]
fn nothing_waits_for_the_patches_of_a_packet_given_up() {
    let (model, mut writer) = only_writer(8, 56, Pace::Absent(0), Exhaustion::Drop);
    {
        let mut packet = writer.packet();
        // Needs more chunks than there are.
        packet.message(5).bytes(1, &[7; 1000]);
    }
    assert_eq!(writer.stats().dropped, 1);
    // Without another word from the writer.
    model.drain();
    for ((_, id), chunk) in &model.state().chunks {
        assert!(!chunk.header.flags.contains(HeaderFlags::NEEDS_PATCHING), "chunk {id}");
    }
    assert_eq!(model.packets(1), [None]);
}

/// Fails as often as it is told to.
#[cfg(feature = "patches")]
#[derive(Default)]
struct Failing {
    fails: AtomicU32,
    patches: AtomicU32,
}

#[cfg(feature = "patches")]
impl CommitSink for Failing {
    fn commit(&self, request: &CommitRequest<'_>) {
        self.patches.fetch_add(request.chunks_to_patch.len() as u32, Ordering::Relaxed);
        let left = self.fails.load(Ordering::Relaxed);
        if left > 0 {
            self.fails.store(left - 1, Ordering::Relaxed);
            panic!("on purpose");
        }
    }
}

#[cfg(feature = "patches")]
#[test]
fn a_sink_that_panics_leaves_no_patch_waiting_for_ever() {
    let sink: &'static Failing = Box::leak(Box::default());
    let memory = memory(72 * 16, 72);
    let producer = producer(memory, Layout::One, sink);
    let mut writer = producer.writer(0, Exhaustion::Drop).unwrap();
    // Only a service that looks for them learns of the chunks whose request failed.
    let reclaim = || {
        let mut consumer = Consumer::new(memory);
        for page in 0..16 {
            drop(consumer.take(page, 0));
        }
    };
    // More often than the list of patches is long.
    for n in 0..20 {
        // Eight chunks are half of them: the first one that this packet hands over has to be sent.
        let mut other = producer.writer(0, Exhaustion::Drop).unwrap();
        (0..7).for_each(|_| fill(&mut other));
        sink.fails.store(1, Ordering::Relaxed);
        let packet = || writer.packet().message(5).bytes(1, &[7; 150]);
        let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(packet));
        assert!(result.is_err(), "packet {n}");
        assert_eq!(sink.fails.load(Ordering::Relaxed), 0);
        drop(other);
        writer.flush();
        reclaim();
    }
    let (dropped, patches) = (writer.stats().dropped, sink.patches.load(Ordering::Relaxed));
    writer.packet().message(5).bytes(1, &[7; 150]);
    writer.flush();
    assert_eq!(writer.stats().dropped, dropped);
    assert_eq!(sink.patches.load(Ordering::Relaxed), patches + 1);
}

/// Takes what it is sent at once, and gives up on a writer that waits for more: nobody else can send any.
struct Alone(Mutex<Consumer<'static>>);

impl CommitSink for Alone {
    fn commit(&self, request: &CommitRequest<'_>) {
        let mut consumer = self.0.lock().unwrap();
        request.chunks_to_move.iter().for_each(|wanted| drop(consumer.take(wanted.page, wanted.chunk)));
    }

    fn stall(&self, step: u32, _: u32) -> bool {
        step < 3
    }
}

#[test]
fn beside_packets_that_stay_open_a_writer_that_stalls_needs_two_chunks_for_each_writer() {
    for (chunks, is_open, dropped) in [(3, false, 0), (3, true, 1), (4, true, 0)] {
        let memory = memory(72 * chunks, 72);
        let sink: &'static Alone = Box::leak(Box::new(Alone(Mutex::new(Consumer::new(memory)))));
        let producer = producer(memory, Layout::One, sink);
        let [mut other, mut writer] = [(); 2].map(|()| producer.writer(0, Exhaustion::Stall).unwrap());
        let mut packet = other.packet();
        packet.message(5).bytes(1, &[7; 20]);
        let mut message = packet.message(5);
        if is_open {
            // The message's size is in one chunk, and its end in the next.
            message.bytes(1, &[7; 40]);
        }
        writer.packet().bytes(1, &[7; 200]);
        assert_eq!(writer.stats().dropped, dropped, "{chunks} chunks");
    }
}
