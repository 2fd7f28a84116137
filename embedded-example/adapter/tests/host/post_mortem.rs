//! Restarts: the next start finds what one left in its region, here memory that outlives both.

use std::sync::LazyLock;
use tracebuf::buffer::{Reader, RingContent};
use tracebuf::producer::{Exhaustion, Producer};
use tracebuf_embedded::recorder::{Inbox, RingRecorder, RingRecorderError, Storage};
use tracebuf_embedded::send::{Progress, Sender};

pub(crate) type Started<'a> = (Producer<'a>, RingRecorder<'a>);

/// A start: RAM that start-up code clears is new, the region is not. What was found is returned.
pub(crate) fn start(region: &mut [u64]) -> (Result<Started<'_>, RingRecorderError>, Option<Vec<String>>) {
    let (storage, inbox) = (Box::leak(Box::new(Storage::new())), Box::leak(Box::new(Inbox::new())));
    let mut found = None;
    let started = RingRecorder::attach_or_new(region, storage, inbox, |ring, salvage| {
        assert!(!salvage.to_string().is_empty());
        found = Some(strings(ring.read()));
    });
    (started, found)
}

/// The strings of all packets, with their producer.
pub(crate) fn strings(mut reader: Reader<'_>) -> Vec<String> {
    let mut found = Vec::new();
    while let Some(packet) = reader.next_packet() {
        let bytes: Vec<u8> = packet.slices().flatten().copied().collect();
        // The string is what comes last: tag, length, bytes.
        let string = bytes.rsplit(|byte| *byte == 0x0A).next().unwrap_or_default();
        let text = String::from_utf8_lossy(string.get(1..).unwrap_or_default());
        found.push(format!("{} {text}", packet.producer_id()));
    }
    found
}

/// Two writers say so many things, which lie in the ring, or in shared memory, or in both.
pub(crate) fn record((producer, mut recorder): Started<'_>, count: usize) {
    let mut writers = [(); 2].map(|()| producer.writer(0, Exhaustion::Drop).unwrap());
    for n in 0..count {
        for (w, writer) in writers.iter_mut().enumerate() {
            writer.packet().bytes(1, format!("{w}:{n}").as_bytes());
        }
        if n % 16 == 7 {
            recorder.drain(&producer);
        }
    }
    // A reset: no destructor runs.
    std::mem::forget(writers);
}

pub(crate) fn of_writer(found: &[String], start: usize, writer: usize) -> Vec<usize> {
    let prefix = format!("{start} {writer}:");
    found.iter().filter_map(|text| text.strip_prefix(&prefix)?.parse().ok()).collect()
}

pub(crate) fn random() -> impl FnMut() -> u64 {
    static SEED: LazyLock<u64> =
        LazyLock::new(|| std::env::var("SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or(42));
    let mut state = *SEED;
    move || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state
    }
}

#[test]
fn after_power_on_nothing_is_found() {
    let mut random = random();
    for _ in 0..200 {
        let mut region: Vec<u64> = (0..512).map(|_| random()).collect();
        let (started, found) = start(&mut region);
        assert!(started.is_ok() && found.is_none());
    }
}

#[test]
fn the_second_start_finds_all_that_was_said_also_what_had_not_left_shared_memory() {
    let mut region = [0; 1024];
    record(start(&mut region).0.unwrap(), 60);
    let (second, found) = start(&mut region);
    let found = found.unwrap();
    for writer in 0..2 {
        // Whether the last packet is finished can only be seen when another one begins.
        let said = of_writer(&found, 1, writer);
        assert!(said.len() >= 59, "{said:?}");
        assert!(said.iter().copied().eq(0..said.len()), "{found:?}");
    }
    record(second.unwrap(), 30);
    let found = start(&mut region).1.unwrap();
    assert!(of_writer(&found, 1, 0).is_empty(), "what was read is not found again");
    assert!(of_writer(&found, 2, 1).len() >= 29, "{found:?}");
}

#[test]
fn what_was_said_before_a_packet_that_was_cut_short_is_found() {
    for (drained, patched) in [(false, false), (false, true), (true, false), (true, true)] {
        let mut region = [0; 1024];
        let (producer, mut recorder) = start(&mut region).0.unwrap();
        let mut writer = producer.writer(0, Exhaustion::Drop).unwrap();
        for n in 0..10 {
            writer.packet().bytes(1, format!("0:{n}").as_bytes());
        }
        // It ends in the chunk that the next begins in, and that one goes on over so many that the size of a message
        // must be patched in.
        writer.packet().bytes(1, format!("0:{:0>110}", 10).as_bytes());
        let mut packet = writer.packet();
        if patched {
            let mut message = packet.message(2);
            message.bytes(1, &[7; 600]);
            std::mem::forget(message);
        } else {
            packet.bytes(2, &[7; 600]);
        }
        std::mem::forget(packet);
        if drained {
            recorder.drain(&producer);
        }
        std::mem::forget(writer);
        let (second, found) = start(&mut region);
        assert!(of_writer(&found.unwrap(), 1, 0).into_iter().eq(0..11), "{drained} {patched}");
        let mut second = second.unwrap().1;
        let left =
            second.buffer().inspect().items().filter(|item| matches!(item.content, RingContent::Chunk(_)));
        assert_eq!(left.count(), 0, "{drained} {patched}: nothing waits for the rest of the packet");
    }
}

#[test]
fn recording_goes_on_however_often_one_start_follows_another() {
    let mut region = [0; 1024];
    record(start(&mut region).0.unwrap(), 40);
    for number in 1..200 {
        let (started, found) = start(&mut region);
        let found = found.unwrap();
        assert!(of_writer(&found, number, 0).len() >= 39, "{number}: {found:?}");
        record(started.unwrap(), 40);
    }
}

/// As in C, where only an export after the start reads.
#[test]
fn what_the_start_before_has_left_can_still_be_read_when_the_recorder_is_made_however_many_starts_there_were()
{
    for writers in 1..=4 {
        for reads in [true, false] {
            let mut region = vec![0; 2048];
            for number in 1..50 {
                let leaked = (Box::leak(Box::new(Storage::new())), Box::leak(Box::new(Inbox::new())));
                let started = RingRecorder::attach_or_new(&mut region, leaked.0, leaked.1, |_, _| ());
                let (producer, mut recorder) = started.unwrap();
                // Without reading, to see that in every start what the one before has left is found.
                let found = match reads {
                    true => strings(recorder.buffer().read()),
                    false => {
                        let buffer = recorder.buffer();
                        let mut clone = buffer.clone_read_only(vec![0; buffer.clone_size()]).unwrap();
                        strings(clone.read())
                    }
                };
                for writer in 0..writers * usize::from(number > 1) {
                    let said = of_writer(&found, number - 1, writer);
                    assert!(said.iter().copied().eq(0..8), "{writers} {reads} {number}: {found:?}");
                }
                let mut all = [(); 4].map(|()| producer.writer(0, Exhaustion::Drop).unwrap());
                for (w, writer) in all.iter_mut().take(writers).enumerate() {
                    (0..8).for_each(|n| writer.packet().bytes(1, format!("{w}:{n}").as_bytes()));
                    writer.flush();
                    recorder.drain(&producer);
                }
                assert_eq!(recorder.losses(), Default::default());
                // A reset: no destructor runs.
                std::mem::forget(all);
            }
        }
    }
}

#[test]
fn a_reset_while_the_trace_is_sent_costs_the_packet_on_the_line_only() {
    for room in 0..600 {
        let mut region = [0; 1024];
        let (producer, mut recorder) = start(&mut region).0.unwrap();
        let mut writer = producer.writer(0, Exhaustion::Drop).unwrap();
        (0..30).for_each(|n| writer.packet().bytes(1, format!("0:{n}").as_bytes()));
        writer.flush();
        recorder.drain(&producer);
        // A line that takes so many bytes and then no more.
        let mut left = room;
        let mut sender = Sender::framed(|bytes: &[u8]| {
            let count = bytes.len().min(left);
            left -= count;
            Ok::<_, ()>(count)
        });
        while sender.poll(recorder.buffer()) == Ok(Progress::Sent) {}
        let sent = sender.packets() as usize;
        // A reset: no destructor runs.
        std::mem::forget(writer);
        let found = of_writer(&start(&mut region).1.unwrap(), 1, 0);
        assert!(found.iter().copied().eq((sent + 1).min(30)..30), "{sent} sent of {room} bytes: {found:?}");
    }
}

#[test]
fn what_was_scraped_and_read_of_a_writers_first_chunk_is_not_found_again() {
    for read in 0..3 {
        let mut region = [0; 1024];
        let (producer, mut recorder) = start(&mut region).0.unwrap();
        let mut writer = producer.writer(0, Exhaustion::Drop).unwrap();
        (0..3).for_each(|n| writer.packet().bytes(1, format!("0:{n}").as_bytes()));
        // The last one's end shows when another begins.
        recorder.scrape(&producer);
        let mut reader = recorder.buffer().read();
        (0..read).for_each(|n| assert!(reader.next_packet().is_some(), "{n} of {read}"));
        (3..20).for_each(|n| writer.packet().bytes(1, format!("0:{n}").as_bytes()));
        writer.flush();
        std::mem::forget(writer);
        let found = of_writer(&start(&mut region).1.unwrap(), 1, 0);
        assert!(found.iter().copied().eq(read..20), "{read} read: {found:?}");
    }
}

#[test]
fn flipped_bits_cost_packets_but_never_a_panic_nor_the_recording() {
    let mut random = random();
    let mut good = vec![0; 512];
    record(start(&mut good).0.unwrap(), 100);
    for _ in 0..500 {
        let mut region = good.clone();
        for _ in 0..1 + random() % 8 {
            let word = random() as usize % region.len();
            region[word] ^= 1 << (random() % 64);
        }
        let (started, _) = start(&mut region);
        record(started.unwrap(), 40);
        let found = start(&mut region).1.unwrap();
        let newest: Vec<usize> =
            found.iter().filter_map(|text| text.rsplit_once("0:")?.1.parse().ok()).collect();
        assert!(newest.contains(&35), "{found:?}");
    }
}

#[test]
fn a_region_is_refused_or_holds_a_full_chunk() {
    for size in (0..4096).step_by(8) {
        let mut region = vec![0; size / 8];
        let started = start(&mut region).0;
        assert_eq!(started.is_ok(), size >= 1176, "{size} bytes");
        let Ok((producer, mut recorder)) = started else { continue };
        let mut writer = producer.writer(0, Exhaustion::Drop).unwrap();
        for n in 10..20 {
            writer.packet().bytes(1, format!("0:{n:0>100}").as_bytes());
            writer.flush();
            recorder.drain(&producer);
        }
        assert_eq!(of_writer(&strings(recorder.buffer().read()), 1, 0).last(), Some(&19), "{size} bytes");
    }
}
