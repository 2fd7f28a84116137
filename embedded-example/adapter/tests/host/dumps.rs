//! Dumps: `tracebuf recover` finds in one what the next start on the device finds, and what that overwrites.

use crate::post_mortem::{Started, of_writer, random, record, start, strings};
use tracebuf::producer::{Exhaustion, Request, TraceWriter};
use tracebuf_analysis::recover::{Dump, Found, Place};
use tracebuf_analysis::trace_stats::TraceReport;
use tracebuf_embedded::recorder::WRITERS;
use tracebuf_embedded::region::bytes;

/// Of both ways to divide shared memory, the smallest first.
const SIZES: [usize; 8] = [1176, 1600, 2048, 3904, 3912, 4096, 8192, 20_000];
/// A byte of which packets have as many as their numbers say.
const FILLER: u8 = 0xF7;

fn find(dump: &[u8]) -> Found {
    Dump::parse(dump).unwrap().find(Place::Anywhere).unwrap()
}

/// All that is found in a dump.
fn recovered(dump: &[u8]) -> Vec<String> {
    strings(find(dump).bring_in().0.buffer.read())
}

/// All that the next start finds.
fn on_device(region: &[u64]) -> Vec<String> {
    start(&mut region.to_vec()).1.unwrap()
}

/// Memory with something before the region and behind it.
fn dump(region: &[u64]) -> Vec<u8> {
    [&[0x55; 24], &*bytes(&mut region.to_vec()), &[0x55; 8]].concat()
}

#[test]
fn the_trace_of_a_dump_has_what_was_not_moved_into_the_ring() {
    // Aligned as on a device; on the stack of an i686 it may be to four bytes alone.
    let mut region = vec![0; 1024];
    // The last drain is that after 56.
    record(start(&mut region).0.unwrap(), 60);
    let dump = dump(&region);
    let moved = strings(find(&dump).buffer.read()).len();
    assert!((2..=2 * 56).contains(&moved), "{moved}");
    let out = std::env::temp_dir().join(format!("recovered-{}.pftrace", std::process::id()));
    let written = find(&dump).write_to(&out).unwrap();
    assert_eq!(written.packets, 120);
    assert!(written.brought_in >= 2, "{written:?}");
    let report = TraceReport::of(&std::fs::read(&out).unwrap());
    assert!(report.packets > 120 && !report.has_losses(), "{report}");
    std::fs::remove_file(&out).unwrap();
}

/// Says packet `n` of writer `w`, of one or of several chunks. In all it is as long as the number says.
fn say(writer: &mut TraceWriter<'_>, w: usize, n: usize) {
    let filler = &[FILLER; 700][..filler(n)];
    let mut packet = writer.packet();
    if n.is_multiple_of(5) {
        packet.message(2).bytes(1, filler);
    } else {
        packet.bytes(2, filler);
    }
    packet.bytes(1, format!("{w}:{n}").as_bytes());
}

fn filler(n: usize) -> usize {
    [0, 0, 5, 40, 130, 0, 300, 10, 0, 700][n * n % 10]
}

/// Firmware does this and that until it is reset.
fn work((producer, mut recorder): Started<'_>, steps: usize, random: &mut impl FnMut() -> u64) {
    let mut writers = [(); WRITERS].map(|()| producer.writer(0, Exhaustion::Drop).unwrap());
    let mut counts = [0; WRITERS];
    for _ in 0..steps {
        let w = random() as usize % WRITERS;
        // Some say little.
        let w = if random().is_multiple_of(4) { w } else { w / 2 };
        match random() % 32 {
            0 => recorder.drain(&producer),
            1..4 => {
                producer.commit();
                for _ in 0..random() % 4 {
                    let Some(request) = recorder.next_request() else { break };
                    recorder.carry_out(request, &producer);
                }
            }
            4 => recorder.scrape(&producer),
            5 => drop(writers[w].flush()),
            6 if random().is_multiple_of(8) => {
                let (mut read, mut reader) = (random() % 8, recorder.buffer().read());
                while read > 0 && reader.next_packet().is_some() {
                    read -= 1;
                }
            }
            _ => {
                say(&mut writers[w], w, counts[w]);
                counts[w] += 1;
            }
        }
    }
    if random().is_multiple_of(2) {
        let mut packet = writers[0].packet();
        packet.bytes(2, &[FILLER; 300][..random() as usize % 300]);
        std::mem::forget(packet);
    }
    // A reset: no destructor runs.
    std::mem::forget(writers);
}

#[test]
fn whenever_firmware_is_reset_all_that_its_next_start_finds_is_found_in_a_dump_and_in_the_same_order() {
    let mut random = random();
    let (mut same, mut more) = (0, 0);
    for round in 0..400 {
        let mut region = vec![0; SIZES[round % SIZES.len()] / 8];
        for _ in 0..3 {
            let steps = random() as usize % 400;
            work(start(&mut region).0.unwrap(), steps, &mut random);
            let (ours, theirs) = (recovered(&dump(&region)), on_device(&region));
            for number in 1..=3 {
                for w in 0..WRITERS {
                    let [all, kept] = [&ours, &theirs].map(|found| of_writer(found, number, w));
                    assert!(all.ends_with(&kept), "{round}, {number} {w}: {all:?} {kept:?}");
                    assert!(all.is_sorted_by(|before, after| before < after), "{round}: {all:?}");
                }
            }
            if ours.len() == theirs.len() { same += 1 } else { more += 1 }
        }
    }
    assert!(same > 100 && more > 100, "{same} {more}");
}

#[test]
fn packets_come_out_of_a_dump_as_they_were_said() {
    let mut random = random();
    for round in 0..100 {
        let mut region = vec![0; SIZES[round % SIZES.len()] / 8];
        work(start(&mut region).0.unwrap(), 200, &mut random);
        let mut found = find(&dump(&region)).bring_in().0;
        let mut reader = found.buffer.read();
        while let Some(packet) = reader.next_packet() {
            let bytes: Vec<u8> = packet.slices().flatten().copied().collect();
            let text = String::from_utf8_lossy(bytes.rsplit(|byte| *byte == b':').next().unwrap());
            let fillers = bytes.iter().filter(|byte| **byte == FILLER).count();
            // A size may have this byte in it.
            let said = filler(text.parse().unwrap());
            assert!((said..=said + 4).contains(&fillers), "{round}: {text} {bytes:?}");
        }
    }
}

/// A few packets of two writers, and so many things that the drain did; the last of them, and the size of a page.
fn drained(region: &mut [u64], requests: usize) -> (Option<Request>, usize) {
    let (producer, mut recorder) = start(region).0.unwrap();
    let mut writers = [(); 2].map(|()| producer.writer(0, Exhaustion::Drop).unwrap());
    for n in 0..20 {
        writers.iter_mut().enumerate().for_each(|(w, writer)| say(writer, w, n % 9));
    }
    producer.commit();
    let mut last = None;
    for _ in 0..requests {
        last = recorder.next_request();
        let Some(request) = last else { break };
        recorder.carry_out(request, &producer);
    }
    std::mem::forget(writers);
    (last, producer.memory().page_size() as usize)
}

#[test]
fn a_chunk_that_was_just_being_moved_comes_once() {
    let mut moved = 0;
    for size in [4096, 8192] {
        for requests in 0..20 {
            let [mut before, mut after] = [0; 2].map(|_| vec![0; size / 8]);
            drained(&mut before, requests);
            let (last, page) = drained(&mut after, requests + 1);
            let Some(Request::Move(chunk)) = last else { continue };
            moved += 1;
            // It is in the ring, and still taken where it was.
            let ring = bytes(&mut after).windows(4).position(|bytes| bytes == b"TBUF").unwrap();
            let shared = &mut bytes(&mut before)[..ring];
            shared[8 + page * chunk.page as usize + chunk.chunk as usize / 4] &=
                !(1 << (chunk.chunk * 2 % 8));
            let both: Vec<u64> = before[..ring / 8].iter().chain(&after[ring / 8..]).copied().collect();
            let (ours, theirs) = (recovered(&dump(&both)), on_device(&both));
            for w in 0..2 {
                let [ours, theirs] = [&ours, &theirs].map(|found| of_writer(found, 1, w));
                assert_eq!(ours, theirs, "{size} {requests}");
            }
        }
    }
    assert!(moved >= 8, "{moved}");
}

#[test]
fn flipped_bits_of_a_dump_cost_packets_but_never_a_panic() {
    let mut random = random();
    let mut region = vec![0; 512];
    work(start(&mut region).0.unwrap(), 300, &mut random);
    let good = dump(&region);
    for _ in 0..1000 {
        let mut dump = good.clone();
        for _ in 0..1 + random() % 16 {
            let at = random() as usize % dump.len();
            dump[at] ^= 1 << (random() % 8);
        }
        if let Ok(found) = Dump::parse(&dump).unwrap().find(Place::Anywhere) {
            let mut found = found.bring_in().0;
            let mut reader = found.buffer.read();
            while reader.next_packet().is_some() {}
        }
    }
}
