//! The inbox between writers and drain, when a lot is in it at once.

use std::convert::Infallible;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use tracebuf::producer::{
    ChunkPatch, ChunkState, ChunkToPatch, CommitRequest, CommitSink, Exhaustion, MessageHandle, Page,
    Producer, Request, TraceWriter,
};
use tracebuf::proto::frame::FrameEncoder;
use tracebuf_analysis::receive::Receiver;
use tracebuf_analysis::trace_stats::TraceReport;
use tracebuf_embedded::export::Blocking;
use tracebuf_embedded::recorder::{Inbox, RingRecorder, Storage, WRITERS, state_every};
use tracebuf_embedded::region::Region;
use tracebuf_embedded::send::Sender;

/// Bytes of a chunk of shared memory, and of one in the ring.
const CHUNK: u64 = 120;
const IN_RING: u64 = 136;

#[test]
fn states_start_anew_each_quarter_of_the_ring_and_each_half_of_a_small_one() {
    for size in (1176..128 * 1024).step_by(8) {
        let (storage, inbox, mut region) = (Storage::new(), Inbox::new(), vec![0; size / 8]);
        let (_, mut recorder) = RingRecorder::new(&mut region, &storage, &inbox).unwrap();
        let ring = recorder.buffer().stats().buffer_size;
        let part = if ring < 28 * IN_RING { ring / 2 } else { ring / 4 };
        let chunks = u64::from(state_every(size)) / CHUNK;
        assert!(chunks == 1 || chunks * IN_RING <= part, "{size} bytes");
        assert!((chunks + 1) * IN_RING > part, "{size} bytes");
    }
    assert_eq!(state_every(0), CHUNK as u32);
}

/// A string in so many messages, each the only thing in the one around it.
fn nested(message: &mut MessageHandle<'_, '_>, levels: usize, text: &str) {
    if levels == 0 {
        message.string(1, text);
    } else {
        nested(&mut message.message(1), levels - 1, text);
    }
}

/// Chunks of shared memory that nobody holds.
fn free(producer: &Producer<'_>) -> usize {
    let pages = producer.memory().all_pages();
    let chunks = 0..producer.layout().chunks();
    let free =
        |page: Page<'_>| chunks.clone().filter(|at| page.bitmap().state(*at) == ChunkState::Free).count();
    pages.map(free).sum()
}

#[test]
fn chunks_are_free_after_the_drain_however_many_patches_there_were() {
    // One level for each patch of a chunk; of ten levels there are more than the inbox has room for.
    for levels in [1, 2, 4, 10] {
        let (storage, inbox, mut region) = (Storage::new(), Inbox::new(), vec![0; 64 * 1024 / 8]);
        let (producer, mut recorder) = RingRecorder::new(&mut region, &storage, &inbox).unwrap();
        let all = free(&producer);
        assert_eq!(all, Inbox::CHUNKS);
        let mut writer = producer.writer(0, Exhaustion::Drop).unwrap();
        let mut whole = 0;
        for round in 0..3 {
            // As long as the drain does not get its turn.
            let dropped = writer.stats().dropped;
            while writer.stats().dropped == dropped {
                nested(&mut writer.packet(), levels, &"x".repeat(300));
                whole += 1;
            }
            whole -= 1;
            writer.flush();
            recorder.drain(&producer);
            assert_eq!(free(&producer), all, "{levels} levels, round {round}");
        }
        if levels <= 2 {
            let mut reader = recorder.buffer().read();
            let mut read = 0;
            while let Some(packet) = reader.next_packet() {
                read += usize::from(packet.len() > 300);
            }
            assert_eq!(read, whole, "{levels} levels");
        }
    }
}

/// Counters of losses at the end of a trace, by name.
fn losses(recorder: &mut RingRecorder<'_>) -> Vec<(&'static str, u64)> {
    let mut sender = Sender::raw(Blocking(Vec::new()));
    sender.finish(recorder).unwrap();
    counted(&sender.exporter().0)
}

fn counted(file: &[u8]) -> Vec<(&'static str, u64)> {
    TraceReport::of(file).statistics.unwrap().iter().map(|counted| (counted.name, counted.value)).collect()
}

#[test]
fn packets_given_up_without_a_chunk_are_in_the_statistics() {
    let (storage, inbox, mut region) = (Storage::new(), Inbox::new(), vec![0; 64 * 1024 / 8]);
    let (producer, mut recorder) = RingRecorder::new(&mut region, &storage, &inbox).unwrap();
    let mut writer = producer.writer(0, Exhaustion::Drop).unwrap();
    // The drain does not get its turn.
    for n in 0..1_000 {
        writer.packet().varint(8, n);
    }
    let dropped = writer.stats().dropped;
    assert!(dropped > 100);
    recorder.drain(&producer);
    assert_eq!(u64::from(recorder.losses().packets), dropped);
    assert_eq!(losses(&mut recorder), [("trace_writer_packet_loss", dropped)]);
}

#[test]
fn a_packet_overwritten_when_it_was_read_and_not_sent_is_in_the_statistics() {
    let (storage, inbox, mut region) = (Storage::new(), Inbox::new(), vec![0; 8 * 1024 / 8]);
    let (producer, mut recorder) = RingRecorder::new(&mut region, &storage, &inbox).unwrap();
    let [mut silent, mut other] = [(); 2].map(|()| producer.writer(0, Exhaustion::Drop).unwrap());
    // Two frames. This writer has no later packet that could tell.
    silent.packet().string(1, &"eleven byte".repeat(8));
    silent.flush();
    recorder.drain(&producer);
    let mut sender = Sender::framed(Blocking(Vec::new()));
    sender.poll(recorder.buffer()).unwrap();
    while recorder.buffer().stats().write_wrap_count == 0 {
        other.packet().varint(8, 1);
        other.flush();
        recorder.drain(&producer);
    }
    let overwritten = recorder.buffer().stats().chunks_overwritten;
    sender.finish(&mut recorder).unwrap();
    assert_eq!(sender.given_up(), 1);
    let mut receiver = Receiver::new();
    let mut file = Vec::new();
    let pass = |_: u64, packet: &[u8]| {
        file.extend(packet);
        Ok::<_, Infallible>(())
    };
    receiver.push(&sender.exporter().0, pass).unwrap();
    let counted = counted(&file).into_iter().find(|(name, _)| *name == "chunks_overwritten");
    assert_eq!(counted.map(|(_, count)| count), Some(overwritten + 1));
}

/// A patch of a chunk, as a producer asks for it.
fn patch(inbox: &Inbox, writer_id: u16, chunk_id: u32, offset: u16, has_more: bool) {
    let patches = &[ChunkPatch { chunk_id, offset, data: [0; 4] }];
    let chunks_to_patch = &[ChunkToPatch { writer_id, target: 0, chunk_id, patches, has_more }];
    inbox.commit(&CommitRequest { chunks_to_patch, ..CommitRequest::default() });
}

/// The patches that are in the inbox: writer, chunk, whether more are to come.
fn patches(inbox: &Inbox) -> Vec<(u16, u32, bool)> {
    let patch = |request| match request {
        Request::Patch { writer_id, patch, has_more, .. } => Some((writer_id, patch.chunk_id, has_more)),
        _ => None,
    };
    std::iter::from_fn(|| inbox.take()).filter_map(patch).collect()
}

#[test]
fn a_chunk_of_which_a_patch_was_lost_is_never_said_to_be_complete() {
    let inbox = Inbox::new();
    let mut room = 0;
    while inbox.losses().patches == 0 {
        patch(&inbox, 1, 0, 8, true);
        room += 1;
    }
    assert_eq!(patches(&inbox).len(), room - 1);
    // Two patches of each of these chunks, the first of which is lost.
    for _ in 1..room {
        patch(&inbox, 2, 0, 8, false);
    }
    for (writer, chunk) in [(1, u32::MAX), (1, 3), (3, 7)] {
        patch(&inbox, writer, chunk, 8, true);
    }
    assert_eq!(inbox.losses().patches, 4);
    assert_eq!(patches(&inbox).len(), room - 1);
    let last = [(1, u32::MAX), (1, 3), (3, 7), (1, 4), (2, 7), (3, 6), (4, 7)];
    last.iter().for_each(|(writer, chunk)| patch(&inbox, *writer, *chunk, 16, false));
    let has_more = [true, true, true, false, false, false, false];
    assert!(patches(&inbox).into_iter().eq(last.iter().zip(has_more).map(|(at, more)| (at.0, at.1, more))));
}

#[test]
fn patches_that_are_lost_are_in_the_statistics() {
    let (storage, inbox, mut region) = (Storage::new(), Inbox::new(), vec![0; 64 * 1024 / 8]);
    let (producer, mut recorder) = RingRecorder::new(&mut region, &storage, &inbox).unwrap();
    let mut writer = producer.writer(0, Exhaustion::Drop).unwrap();
    while inbox.losses().patches == 0 {
        let dropped = writer.stats().dropped;
        nested(&mut writer.packet(), 10, &"x".repeat(300));
        assert_eq!(writer.stats().dropped, dropped);
    }
    writer.flush();
    recorder.drain(&producer);
    let lost = inbox.losses().patches.into();
    assert!(losses(&mut recorder).contains(&("patches_failed", lost)));
}

#[test]
fn a_flush_is_acknowledged_when_the_drain_has_done_what_came_before_it() {
    let (storage, inbox, mut region) = (Storage::new(), Inbox::new(), vec![0; 8 * 1024 / 8]);
    let (producer, mut recorder) = RingRecorder::new(&mut region, &storage, &inbox).unwrap();
    let mut writer = producer.writer(0, Exhaustion::Drop).unwrap();
    for round in 0..3 {
        writer.packet().varint(8, round);
        let flush = writer.flush();
        assert!(!producer.is_flushed(flush));
        recorder.drain(&producer);
        assert!(producer.is_flushed(flush));
    }
}

/// How often the drain was called for, and what was in the inbox then.
static WOKEN: AtomicU32 = AtomicU32::new(0);
static MOVES: AtomicU32 = AtomicU32::new(0);
static WAKING: Inbox = Inbox::with_wake(|| {
    WOKEN.fetch_add(1, Relaxed);
    MOVES.fetch_add(u32::from(matches!(WAKING.take(), Some(Request::Move(_)))), Relaxed);
});

#[test]
fn the_drain_is_called_for_when_the_request_is_there() {
    let (storage, mut region) = (Storage::new(), vec![0; 8 * 1024 / 8]);
    let (producer, _recorder) = RingRecorder::new(&mut region, &storage, &WAKING).unwrap();
    let mut writer = producer.writer(0, Exhaustion::Drop).unwrap();
    writer.packet().varint(8, 1);
    assert_eq!(WOKEN.load(Relaxed), 0);
    writer.flush();
    // For the chunk and for the flush.
    assert_eq!((WOKEN.load(Relaxed), MOVES.load(Relaxed)), (2, 1));
}

#[test]
fn a_drain_that_only_comes_when_it_is_called_for_comes_in_time() {
    static CALLED: AtomicU32 = AtomicU32::new(0);
    let inbox = Inbox::with_wake(|| CALLED.store(1, Relaxed));
    let (storage, mut region) = (Storage::new(), vec![0; 8 * 1024 / 8]);
    let (producer, mut recorder) = RingRecorder::new(&mut region, &storage, &inbox).unwrap();
    let mut writer = producer.writer(0, Exhaustion::Drop).unwrap();
    let mut drains = 0;
    for n in 0..10_000 {
        writer.packet().varint(8, n);
        if CALLED.swap(0, Relaxed) > 0 {
            recorder.drain(&producer);
            drains += 1;
        }
    }
    assert_eq!(writer.stats().dropped, 0);
    assert!((10..1_000).contains(&drains), "{drains} drains of some 400 chunks");
}

#[test]
fn four_writers_need_four_kib_for_a_drain_that_only_comes_when_it_is_called_for() {
    static CALLED: AtomicU32 = AtomicU32::new(0);
    // The first never goes on in a second chunk; the others do, and their writer holds two chunks then.
    let dropped = |bytes: usize, size: usize| -> u64 {
        let inbox = Inbox::with_wake(|| CALLED.store(1, Relaxed));
        let (storage, mut region) = (Storage::new(), vec![0; size / 8]);
        let (producer, mut recorder) = RingRecorder::new(&mut region, &storage, &inbox).unwrap();
        let mut writers = [(); WRITERS].map(|()| producer.writer(0, Exhaustion::Drop).unwrap());
        let mut chance = 1u32;
        for n in 0..2_000 {
            chance = (u64::from(chance) * 48_271 % 0x7FFF_FFFF) as u32;
            let mut packet = writers[chance as usize % WRITERS].packet();
            packet.varint(8, n);
            packet.bytes(1, &vec![7; bytes]);
            drop(packet);
            if CALLED.swap(0, Relaxed) > 0 {
                recorder.drain(&producer);
            }
        }
        writers.iter().map(|writer| writer.stats().dropped).sum()
    };
    for bytes in [0, 10, 40] {
        // As the documentation of the inbox says.
        let counts: Vec<u64> = (4096..=8192).step_by(256).map(|size| dropped(bytes, size)).collect();
        assert!(counts.iter().all(|count| *count == 0), "packets of some {bytes} bytes: {counts:?}");
        assert!(dropped(bytes, 3064) > 0, "packets of some {bytes} bytes");
    }
}

#[test]
fn a_writer_that_would_wait_drops_packets_as_nobody_drains_meanwhile() {
    let (storage, inbox, mut region) = (Storage::new(), Inbox::new(), vec![0; 8 * 1024 / 8]);
    let (producer, _recorder) = RingRecorder::new(&mut region, &storage, &inbox).unwrap();
    let mut writer = producer.writer(0, Exhaustion::Stall).unwrap();
    for n in 0..1_000 {
        writer.packet().varint(8, n);
    }
    assert!(writer.stats().dropped > 0);
}

#[test]
fn recording_goes_on_while_the_ring_is_sent_and_writers_faster_than_the_line_do_not_keep_it() {
    for (every, packets) in [(2, 1), (1, 10)] {
        let (storage, inbox, mut region) = (Storage::new(), Inbox::new(), vec![0; 64 * 1024 / 8]);
        let (producer, mut recorder) = RingRecorder::new(&mut region, &storage, &inbox).unwrap();
        let mut writer = producer.writer(0, Exhaustion::Drop).unwrap();
        for n in 0..5_000 {
            writer.packet().varint(8, n);
            recorder.drain(&producer);
        }
        let mut offers = 0;
        let line = |bytes: &[u8]| {
            offers += 1;
            for n in 0..if offers % every == 0 { packets } else { 0 } {
                writer.packet().varint(8, n);
            }
            Ok::<_, Infallible>(bytes.len())
        };
        let mut sender = Sender::raw(line);
        sender.catch_up(&mut recorder, &producer).unwrap();
        assert!(packets > 1 || sender.packets() > 9_000, "shared memory has no room for so many");
        assert_eq!(writer.stats().dropped, 0);
    }
}

#[test]
fn what_is_printed_for_debugging_says_how_far_things_are_and_not_what_is_in_memory() {
    static REGION: Region<512> = Region::zeroed();
    assert_eq!(format!("{REGION:?}"), "Region { words: 512, .. }");
    let (storage, inbox, mut region) = (Storage::new(), Inbox::new(), vec![0; 8 * 1024 / 8]);
    let (producer, mut recorder) = RingRecorder::new(&mut region, &storage, &inbox).unwrap();
    let mut writer = producer.writer(0, Exhaustion::Drop).unwrap();
    writer.packet().bytes(1, &[b'x'; 100]);
    let flush = writer.flush();
    let waiting = format!(
        "Inbox {{ moves: 1, patches: 0, flush: Some({flush}), losses: InboxLosses {{ packets: 0, patches: 0 }}, wakes: false }}"
    );
    assert_eq!(format!("{inbox:?}"), waiting);
    assert!(format!("{recorder:?}").starts_with(&format!("RingRecorder {{ start: 1, inbox: {waiting}")));
    recorder.drain(&producer);
    let drained = format!("{recorder:?}");
    for said in ["moves: 0", "flush: None", "chunks_moved: 1", "chunks_written: 1"] {
        assert!(drained.contains(said), "{said}: {drained}");
    }
    let mut sender = Sender::framed(Blocking(Vec::new()));
    sender.poll(recorder.buffer()).unwrap();
    let begun = "Sender { framed: true, bytes_on_line: 0, is_in_packet: true, packets: 0, given_up: 0, invalid: 0, .. }";
    assert_eq!(format!("{sender:?}"), begun);
    assert_eq!(format!("{:?}", FrameEncoder::new()), "FrameEncoder { number: 0, others: 0 }");
}

#[test]
fn what_a_recorder_before_has_left_in_the_inbox_keeps_no_chunk_of_the_next_one() {
    let (storage, inbox) = (Storage::new(), Inbox::new());
    for round in 0..3 {
        let mut region = vec![0; 64 * 1024 / 8];
        let (producer, mut recorder) = RingRecorder::new(&mut region, &storage, &inbox).unwrap();
        let losses = recorder.losses();
        let all = free(&producer);
        let mut writer = producer.writer(0, Exhaustion::Drop).unwrap();
        let fill = |writer: &mut TraceWriter<'_>, packets: usize| {
            for n in 0..packets as u64 {
                writer.packet().varint(8, n);
                writer.flush();
            }
        };
        fill(&mut writer, Inbox::CHUNKS + 1);
        recorder.drain(&producer);
        assert_eq!((free(&producer), losses), (all, Default::default()), "round {round}");
        // These are not drained.
        fill(&mut writer, 20);
    }
}
