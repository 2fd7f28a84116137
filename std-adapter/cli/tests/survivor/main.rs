//! Files of buffers: what survives a kill, alone and alongside a long trace, and how it fits together with traces.
#![cfg(unix)]

mod appended;
mod damaged;
mod kept;
mod killed;
mod killed_sessions;
mod own_memory;
mod region_file;
mod repeated;
use tracebuf_testing::trace;

use std::collections::HashSet;
use std::ops::Range;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use trace::{Trace, folder, message, number, scratch};
use tracebuf::producer::Exhaustion;
use tracebuf::producer::track_event::{Track, Unit};
use tracebuf::proto::TracePackets;
use tracebuf_analysis::recover::{Dump, Place, Survivor};
use tracebuf_session::{BufferConfig, LongTrace, Session};

static COUNTER: Track<'static> = Track::counter("events", Unit::Count);

/// A session with a buffer in a file. Threads wait when shared memory is full, so that everything gets there.
fn start(ring: u64, region: &Path, trace: LongTrace) -> Session {
    let builder = Session::builder().buffer(BufferConfig::ring(ring).in_file(region));
    builder.exhaustion(Exhaustion::Stall).long_trace(trace).start().expect("a session")
}

fn every_10_ms(path: &Path) -> LongTrace {
    LongTrace::to(path).period(Duration::from_millis(10))
}

fn count(session: &Session, values: std::ops::Range<i64>) {
    for value in values {
        session.recorder().count(&COUNTER, value);
        if value % 1000 == 0 {
            std::thread::sleep(Duration::from_millis(1));
        }
    }
}

fn values(trace: &Trace) -> Vec<u64> {
    trace.counters().into_values().flatten().collect()
}

/// Where the slot that holds most lies.
fn largest_slot(file: &[u8]) -> Range<usize> {
    let number = |at: usize| u64::from_le_bytes(file[at..at + 8].try_into().expect("eight bytes")) as usize;
    let [half, halves, slots, slot, word] = [16, 24, 32, 40, 48].map(number);
    let pages = |len: usize| len.next_multiple_of(4096);
    let valid = (0..slots).filter(|n| word >> (1 + n) & 1 == 1);
    let largest = valid.max_by_key(|n| number(64 + 24 * n)).expect("a slot");
    let start = 4096 + pages(half) * halves + pages(slot) * largest;
    start..start + number(64 + 24 * largest)
}

#[test]
fn what_lies_behind_damage_in_a_slot_is_told_and_hides_nothing_else() {
    let folder = folder("damaged slot");
    let (region, out) = (folder.join("x.region"), folder.join("x.pftrace"));
    // All of it at the end: what comes first, before this thread has recorded much, might be too little.
    let trace = LongTrace::to("/dev/full").period(Duration::from_secs(60));
    let session = start(4 << 20, &region, trace);
    count(&session, 0..100_000);
    drop(session.stop().expect("a stop"));
    let recover = || {
        let survivor = Survivor::open(&region).expect("a buffer");
        let unreadable = survivor.salvage().bytes_unreadable;
        let written = survivor.write_to(&out).expect("a trace");
        let trace = Trace::read(&out);
        assert_eq!(
            (written.packets, written.bytes),
            (trace.packets().count() as u64, trace.bytes.len() as u64)
        );
        trace.assert_ends_with_stats();
        (unreadable, values(&trace))
    };
    let (unreadable, all) = recover();
    assert_eq!((unreadable, all.len()), (0, 100_000));
    // As after a power cut: the first page is on the disk, and some of a slot is not.
    let mut file = std::fs::read(&region).expect("the file");
    let slot = largest_slot(&file);
    let whole = file[slot.clone()].to_vec();
    for least in [8192, 0] {
        // From where a packet begins: damage within a packet is for that packet's reader to see.
        let mut packets = TracePackets::new(&whole);
        while packets.offset() < least && packets.next().is_some_and(|packet| packet.is_ok()) {}
        let at = packets.offset();
        file[slot.start + at..][..4096].fill(0);
        std::fs::write(&region, &file).expect("the file");
        let (unreadable, left) = recover();
        let behind = TracePackets::new(&whole[at..]).map(|packet| packet.expect("a packet"));
        let lost: HashSet<u64> =
            behind.filter_map(|packet| message(packet, 11).and_then(|event| number(event, 30))).collect();
        // All that lies before it, and all that lies elsewhere.
        let expected: Vec<u64> = all.iter().copied().filter(|value| !lost.contains(value)).collect();
        assert!(unreadable > 4096 && !lost.is_empty(), "{unreadable} {}", lost.len());
        assert!(left == expected, "{} of {}, not {}", left.len(), all.len(), expected.len());
    }
    // Those who look into the file are told too.
    let (code, shown) = appended::run(&["inspect".as_ref(), &region]);
    let bytes_before = |what: &str| {
        let line = shown.lines().find(|line| line.contains(what)).unwrap_or_else(|| panic!("{shown}"));
        line.split(' ').next().and_then(|bytes| bytes.parse::<u64>().ok()).expect("a number")
    };
    let (waiting, lost) = (
        bytes_before(" bytes on the way into the long trace: `tracebuf recover` takes them too"),
        bytes_before(" bytes unreadable on the way into the long trace"),
    );
    assert!(code == Some(0) && waiting > 4096 && lost > 4096, "{shown}");
    let said = Command::new(env!("CARGO_BIN_EXE_tracebuf"))
        .args(["recover".as_ref(), region.as_os_str(), "-o".as_ref(), out.as_ref()])
        .output()
        .expect("the command runs");
    assert!(String::from_utf8_lossy(&said.stderr).contains("bytes unreadable"), "{said:?}");
}

#[test]
fn what_is_left_goes_together_with_its_own_session_s_trace_alone() {
    let folder = folder("another session");
    let names = ["x.region", "x.region.previous", "x.pftrace", "out.pftrace"];
    let [region, previous, long, out] = names.map(|name| folder.join(name));
    let crashed = start(4 << 20, &region, every_10_ms("/dev/full".as_ref()));
    count(&crashed, 0..50_000);
    drop(crashed.stop().expect("a stop"));
    // The service starts anew with its usual files, and its trace is soon longer than the last one's was.
    let next = start(4 << 20, &region, every_10_ms(&long));
    count(&next, 1_000_000..1_050_000);
    drop(next.stop().expect("a stop"));

    let survivor = || Survivor::open(&previous).expect("a buffer");
    for refused in [survivor().after(&long).map(drop), survivor().write_with(&long, &out).map(drop)] {
        assert_eq!(refused.expect_err("it is another's").kind(), std::io::ErrorKind::InvalidInput);
    }
    assert!(!out.exists());
    survivor().write_to(&out).expect("a trace");
    assert_eq!(values(&Trace::read(&out)), Vec::from_iter(0..50_000));
    // One with nothing in it yet may be anybody's.
    std::fs::write(folder.join("empty.pftrace"), "").expect("a file");
    survivor().after(folder.join("empty.pftrace")).expect("a trace").write_to(&out).expect("a trace");
    assert_eq!(values(&Trace::read(&out)).len(), 50_000);

    let own = Survivor::open(&region).expect("a buffer").after(&long).expect("its own");
    own.write_with(&long, &out).expect("a trace");
    assert_eq!(values(&Trace::read(&out)), Vec::from_iter(1_000_000..1_050_000));
}

#[test]
fn in_one_trace_of_both_the_clocks_do_not_go_back_where_they_meet() {
    let folder = folder("clocks");
    let [region, long, out] = ["x.region", "x.pftrace", "out.pftrace"].map(|name| folder.join(name));
    let session = start(4 << 20, &region, every_10_ms(&long));
    count(&session, 0..50_000);
    drop(session.stop().expect("a stop"));
    let clocks = || Trace::read(&out).clock(6).collect::<Vec<_>>();
    let survivor = || Survivor::open(&region).expect("a buffer");
    survivor().write_with(&long, &out).expect("a trace");
    assert!(clocks().len() > 2 && clocks().is_sorted(), "{:?}", clocks());
    // With a trace that has nothing in it yet, the clocks are there all the same.
    std::fs::write(&long, "").expect("a file");
    survivor().write_with(&long, &out).expect("a trace");
    assert_eq!(clocks().len(), 1);
}

#[test]
fn what_has_no_room_in_the_largest_file_is_left_without_a_hole() {
    let folder = folder("largest file");
    let [region, long, out] = ["x.region", "x.pftrace", "out.pftrace"].map(|name| folder.join(name));
    let trace = LongTrace::to(&long).period(Duration::from_millis(100)).max_file_size(200_000);
    // With room for all that is recorded.
    let session = start(32 << 20, &region, trace);
    let mut end = 0;
    while session.recorder().is_on() && end < 500_000 {
        count(&session, end..end + 1000);
        end += 1000;
    }
    let stopped = session.stop().expect("a stop");
    assert!(stopped.long_trace.is_some_and(|status| status.full));
    let in_file = values(&Trace::read(&long)).len();
    let survivor = Survivor::open(&region).expect("a buffer").after(&long).expect("its own");
    let (_, gap) = survivor.write_with(&long, &out).expect("a trace");
    assert!(gap.is_none(), "{gap}");
    let trace = Trace::read(&out);
    let all = values(&trace);
    let hole = all.windows(2).find(|values| values[1] != values[0] + 1);
    assert_eq!((all.first(), hole), (Some(&0), None));
    // While the last thousand are counted, recording may already be off.
    assert!(
        in_file > 0 && all.len() > in_file + 1000 && all.len() as i64 > end - 1000,
        "{in_file} {} {end}",
        all.len()
    );
    assert_eq!(trace.losses(), 0);
    trace.assert_ends_with_stats();
}

#[test]
fn what_a_thread_wrote_is_in_the_file_after_a_second_however_little_it_is() {
    let folder = folder("little");
    let [region, long, out] = ["x.region", "x.pftrace", "out.pftrace"].map(|name| folder.join(name));
    for long_trace in [None, Some(LongTrace::to(&long).period(Duration::MAX))] {
        let mut builder = Session::builder().buffer(BufferConfig::ring(1 << 20).in_file(&region));
        if let Some(trace) = long_trace {
            builder = builder.long_trace(trace);
        }
        let session = builder.start().expect("a session");
        // The last one is looked at only when another has begun.
        count(&session, 0..11);
        let begun = Instant::now();
        loop {
            std::thread::sleep(Duration::from_millis(100));
            Survivor::open(&region).expect("a buffer").write_to(&out).expect("a trace");
            if values(&Trace::read(&out)).starts_with(&Vec::from_iter(0..10)) {
                break;
            }
            assert!(begun.elapsed() < Duration::from_secs(30), "nothing is in the file");
        }
        assert_eq!(session.summary().expect("a summary").flushes.requested, 0);
    }
}

#[cfg(target_os = "linux")]
#[test]
fn recovering_takes_the_memory_of_what_is_used_and_not_of_the_file() {
    let folder = folder("large file");
    let [region, left, long, out] =
        ["x.region", "left.region", "x.pftrace", "out.pftrace"].map(|name| folder.join(name));
    let session = start(64 << 20, &region, LongTrace::to(&long).period(Duration::MAX));
    count(&session, 0..1000);
    session.flush(Duration::from_secs(5)).expect("a flush");
    // As it would be if the session were killed now.
    std::fs::copy(&region, &left).expect("room");
    // Room for the program itself and for one of the two halves that the file has besides its slots.
    let recovered = Command::new("sh")
        .args(["-c", "ulimit -v 150000; exec \"$0\" \"$@\"", env!("CARGO_BIN_EXE_tracebuf"), "recover"])
        .args([left.as_os_str(), "-o".as_ref(), out.as_ref()])
        .output()
        .expect("sh");
    drop(session);
    [&region, &left].into_iter().for_each(|file| std::fs::remove_file(file).expect("it is there"));
    assert!(recovered.status.success(), "{}", String::from_utf8_lossy(&recovered.stderr));
    assert_eq!(values(&Trace::read(&out)), Vec::from_iter(0..1000));
}

#[test]
fn a_buffer_s_file_with_any_size_in_its_header_is_an_error() {
    // Bytes of a half, halves, slots, bytes of a slot, which of them count.
    for sizes in [[u64::MAX, 1, 0, 0, 0], [0, 1, 1, u64::MAX, 2]] {
        let header = [&[1][..], &sizes].concat().into_iter().flat_map(u64::to_le_bytes);
        let file: Vec<u8> = b"TRACEMAP".iter().copied().chain(header).chain([0; 8192]).collect();
        assert!(Survivor::parse(&file).is_err());
        assert!(Dump::parse(&file).is_ok_and(|dump| dump.find(Place::Anywhere).is_err()));
    }
}

#[test]
fn a_file_as_long_as_the_sizes_in_its_header_that_no_memory_is_large_enough_for_is_an_error() {
    let path = scratch("long.region");
    for sizes in [&[1 << 41, 1, 0, 0, 0][..], &[4096, 1, 1, 1 << 41, 2, 0, 1 << 41]] {
        let header = [&[1][..], sizes].concat().into_iter().flat_map(u64::to_le_bytes);
        let start: Vec<u8> = b"TRACEMAP".iter().copied().chain(header).collect();
        std::fs::write(&path, start).expect("a file");
        // Without room for a single byte more on the disk.
        std::fs::File::options()
            .write(true)
            .open(&path)
            .and_then(|file| file.set_len(1 << 42))
            .expect("a file");
        let error = Survivor::open(&path).map(|_| ()).expect_err("no buffer is as large");
        std::fs::remove_file(&path).expect("it is there");
        assert_eq!(error.kind(), std::io::ErrorKind::InvalidData);
    }
}
