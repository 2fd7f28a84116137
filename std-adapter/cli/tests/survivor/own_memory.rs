//! Shared memory of a session's own threads in the file of a buffer.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use tracebuf_analysis::inspect::Inspection;
use tracebuf_analysis::recover::{Damage, Dump, Place, Survivor};
use tracebuf_analysis::trace_stats::TraceReport;
use tracebuf_session::{BufferConfig, LongTrace, Session, SessionBuilder, SessionError};

use super::appended::run;
use super::{COUNTER, every_10_ms, values};
use crate::trace::{Trace, folder};

/// Nothing leaves its shared memory for a second, unless half of that is full.
fn builder(region: &Path) -> SessionBuilder {
    Session::builder().buffer(BufferConfig::ring(1 << 20).in_file(region)).shared_memory_in_file()
}

/// Does this within a second of a session's start, before the drain thread looks for what is not committed. On a
/// machine that is slow at the moment, it begins anew.
fn within_a_second<T>(mut work: impl FnMut() -> T) -> T {
    for _ in 0..50 {
        let begun = Instant::now();
        let done = work();
        if begun.elapsed() < Duration::from_millis(900) {
            return done;
        }
    }
    panic!("a machine that is not too slow for this")
}

/// As it would be if the session were killed now.
fn left(region: &Path) -> PathBuf {
    let left = region.with_extension("left");
    fs::copy(region, &left).expect("room");
    left
}

fn number(file: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(file[at..at + 8].try_into().expect("eight bytes"))
}

/// Where its table of writers begins.
fn own_part(file: &[u8]) -> usize {
    let [half, halves, slots, slot] = [16, 24, 32, 40].map(|at| number(file, at) as usize);
    4096 + half.next_multiple_of(4096) * halves + slot.next_multiple_of(4096) * slots
}

/// Where its shared memory begins, behind four words for each writer.
fn own_memory(file: &[u8]) -> usize {
    own_part(file) + 4 * 8 * number(file, 128) as usize
}

fn recovered(left: &Path) -> (Survivor, Vec<u64>) {
    let out = left.with_extension("pftrace");
    Survivor::open(left).expect("a buffer").write_to(&out).expect("a trace");
    (Survivor::open(left).expect("a buffer"), values(&Trace::read(&out)))
}

#[test]
fn what_a_thread_has_finished_is_there_though_nothing_was_committed() {
    let folder = folder("own memory");
    let [region, out] = ["x.region", "x.pftrace"].map(|name| folder.join(name));
    let (session, left) = within_a_second(|| {
        let session = builder(&region).start().expect("a session");
        super::count(&session, 0..7);
        (session, left(&region))
    });
    let (survivor, values) = recovered(&left);
    assert_eq!(values, Vec::from_iter(0..7));
    let shared = survivor.shared().expect("it lies in the file");
    let file = fs::read(&left).expect("a file");
    assert_eq!((shared.chunks, shared.writers, survivor.brought_in()), (1, 1, 1));
    assert_eq!(shared.address as usize, own_memory(&file));
    let (code, said) = run(&["recover".as_ref(), &left, "-o".as_ref(), &out]);
    assert!(code == Some(0) && said.contains("\nshared memory: 1 chunk of 1 writer brought in\n"), "{said}");
    let (code, said) = run(&["inspect".as_ref(), &left]);
    let shared = "1 chunk of 1 writer; `tracebuf recover` takes of them what the buffer does not have";
    assert!(code == Some(0) && said.contains("trace buffer at 0x1000") && said.contains(shared), "{said}");
    let trace = Trace::read(&out);
    trace.assert_ends_with_stats();
    assert!(trace.all_have(79, std::process::id().into()) && trace.losses() == 0);
    drop(session);
}

#[test]
fn after_a_clean_end_nothing_is_brought_in_though_threads_keep_their_chunks() {
    let folder = folder("own clean");
    let [region, long] = ["x.region", "long.pftrace"].map(|name| folder.join(name));
    for trace in [None, Some(every_10_ms(&long))] {
        let mut builder = builder(&region);
        if let Some(trace) = trace.clone() {
            builder = builder.long_trace(trace);
        }
        let session = builder.start().expect("a session");
        // This thread's chunk stays with it.
        super::count(&session, 0..11);
        drop(session.stop().expect("a stop"));
        let (survivor, left) = recovered(&region);
        assert!(survivor.shared().is_none() && survivor.brought_in() == 0);
        assert_eq!(left, Vec::from_iter(0..if trace.is_some() { 0 } else { 11 }));
    }
}

#[test]
fn what_was_scraped_comes_once_also_when_it_was_read() {
    let folder = folder("own scraped");
    let [region, long, out] = ["x.region", "long.pftrace", "out.pftrace"].map(|name| folder.join(name));
    let session = builder(&region).long_trace(every_10_ms(&long)).start().expect("a session");
    let begun = Instant::now();
    for end in (10..=200).step_by(10) {
        super::count(&session, end - 10..end);
        // In the ring, or read from there, or neither: this thread goes on in the same chunk.
        if end % 50 == 0 {
            session.flush(Duration::from_secs(5)).expect("a flush");
        }
        std::thread::sleep(Duration::from_millis(end as u64 % 7 * 4));
        let whole = || {
            let survivor = Survivor::open(left(&region)).expect("a buffer");
            survivor.write_with(&long, &out).expect("a trace");
            values(&Trace::read(&out)) == Vec::from_iter(0..end as u64)
        };
        // What is copied while it is read, or before it has come into the long trace, may be torn.
        while !whole() {
            assert!(begun.elapsed() < Duration::from_secs(60), "{end}");
            std::thread::sleep(Duration::from_millis(100));
        }
    }
    // All of it was read, and its thread still has the chunk.
    while values(&Trace::read_cut(&long)).len() < 200 {
        assert!(begun.elapsed() < Duration::from_secs(60));
        std::thread::sleep(Duration::from_millis(20));
    }
    let left_over = || {
        let (survivor, more) = recovered(&left(&region));
        assert!(survivor.shared().is_some_and(|shared| shared.chunks > 0));
        more
    };
    // What is written is in its slot a moment longer.
    while !left_over().is_empty() {
        assert!(begun.elapsed() < Duration::from_secs(60));
        std::thread::sleep(Duration::from_millis(20));
    }
    // And nothing reports a loss.
    let told = TraceReport::of(&Trace::read(&region.with_extension("pftrace")).bytes);
    assert!(!told.has_losses(), "{told}");
    drop(session);
}

#[test]
fn only_what_is_for_the_file_s_buffer_is_brought_into_it() {
    let folder = folder("own buffers");
    let region = folder.join("x.region");
    let session = Session::builder()
        .ring(1 << 20)
        .buffer(BufferConfig::ring(1 << 20).in_file(&region))
        .data_source("in file", 1)
        .shared_memory_in_file()
        .start()
        .expect("a session");
    let in_file = session.recorder_of("in file").expect("a source");
    for value in 0..10 {
        session.recorder().count(&COUNTER, 1000 + value);
        in_file.count(&COUNTER, value);
    }
    assert_eq!(recovered(&left(&region)).1, Vec::from_iter(0..10));
    // A thread that ends leaves its number and its chunk; the one that takes that number records elsewhere.
    let recorder = in_file.clone();
    std::thread::spawn(move || (10..20).for_each(|value| recorder.count(&COUNTER, value)))
        .join()
        .expect("no panic");
    let recorder = session.recorder();
    let others: Vec<_> = std::iter::from_fn(|| recorder.packet_writer()).collect();
    assert!(others.len() > 1000);
    let mut left_values = recovered(&left(&region)).1;
    left_values.sort_unstable();
    assert_eq!(left_values, Vec::from_iter(0..20));
    drop((others, session));
}

#[test]
fn a_packet_that_was_not_finished_is_given_up_and_those_around_it_are_there() {
    let folder = folder("own unfinished");
    let region = folder.join("x.region");
    // In one chunk, over two, and over more, the first of which waits for a size.
    for long in [10, 3000, 9000] {
        let session = builder(&region).start().expect("a session");
        super::count(&session, 0..5);
        let text = "x".repeat(long);
        session.recorder().instant_with("unfinished", |event| {
            let event = event.arg("text", &*text);
            left(&region);
            event
        });
        let (_, values) = recovered(&region.with_extension("left"));
        assert_eq!(values, Vec::from_iter(0..5), "{long}");
        let trace = Trace::read(&region.with_extension("pftrace"));
        assert!(!trace.contains(&text));
        // Also when another thread has something to say after that, which this one cannot.
        super::count(&session, 5..7);
        let (_, values) = recovered(&left(&region));
        assert_eq!(values, Vec::from_iter(0..7), "{long}");
        let trace = Trace::read(&region.with_extension("pftrace"));
        assert!(trace.contains(&text), "{long}: it was finished");
        drop(session);
    }
}

#[test]
fn it_takes_a_buffer_in_a_file() {
    let error =
        Session::builder().ring(1 << 20).shared_memory_in_file().start().expect_err("none is in a file");
    assert!(matches!(error, SessionError::NoFile));
    assert!(error.to_string().contains("none of its buffers is in a file"), "{error}");
    // Nor is there a word of it before.
    let region = folder("own size").join("x.region");
    let error = builder(&region).shared_memory(100).start().expect_err("too small");
    assert!(matches!(error, SessionError::SharedMemory { bytes: 100 }) && !region.exists());
    // A part of a page is not used.
    let session = builder(&region).shared_memory(9999).start().expect("two pages");
    super::count(&session, 0..3);
    assert_eq!(recovered(&left(&region)).1, [0, 1, 2]);
    drop(session);
}

#[test]
fn the_file_is_free_when_its_session_has_stopped_though_threads_keep_their_chunks() {
    let folder = folder("own free");
    let [region, previous] = ["x.region", "x.region.previous"].map(|name| folder.join(name));
    let session = builder(&region).start().expect("a session");
    super::count(&session, 0..3);
    let left = left(&region);
    drop(session);
    fs::rename(&left, &region).expect("a file");
    // What was left is kept as usual, and no start that fails loses it.
    let none = folder.join("none/x");
    let other = BufferConfig::ring(1 << 20).in_file(&none);
    for failed in [builder(&region).long_trace(LongTrace::to(&none)), builder(&region).buffer(other)] {
        assert!(failed.start().is_err() && recovered(&region).1 == [0, 1, 2]);
    }
    let next = builder(&region).start().expect("it is free");
    super::count(&next, 7..9);
    assert_eq!(recovered(&previous).1, [0, 1, 2]);
    assert_eq!(recovered(&super::own_memory::left(&region)).1, [7, 8]);
}

#[test]
fn a_file_that_is_cut_or_damaged_there_is_told_and_nothing_panics() {
    let folder = folder("own damaged");
    let region = folder.join("x.region");
    let file = within_a_second(|| {
        let session = builder(&region).start().expect("a session");
        super::count(&session, 0..500);
        fs::read(left(&region)).expect("a file")
    });
    let (part, memory) = (own_part(&file), own_memory(&file));
    assert_eq!(file.len(), memory + (1 << 20));
    for cut in [part + 1, memory + 5000, file.len() - 1] {
        let error = Survivor::parse(&file[..cut]).expect_err("it is cut").to_string();
        assert_eq!(error, Damage::Cut.to_string());
        let dump = Dump::parse(&file[..cut]).expect("a dump");
        assert!(dump.damage() == Some(Damage::Cut) && dump.find(Place::Anywhere).is_ok());
    }
    let with = |at: usize, value: u64| {
        let mut file = file.clone();
        file[at..at + 8].copy_from_slice(&value.to_le_bytes());
        file
    };
    let read = |file: &[u8]| {
        let survivor = Survivor::parse(file)?;
        let chunks = survivor.shared().map(|shared| shared.chunks);
        let out = folder.join("out.pftrace");
        survivor.write_to(&out).map(|_| (chunks, values(&Trace::read(&out)).len()))
    };
    assert_eq!(read(&file).expect("a trace").1, 500);
    // From an earlier version, which had a table of 1,024 writers, or no such part; then impossible sizes and numbers.
    let of_earlier = with(128, 1024);
    let of_earlier = [&of_earlier[..own_memory(&of_earlier)], &file[memory..]].concat();
    assert_eq!(read(&of_earlier).expect("a trace"), read(&file).expect("a trace"));
    assert_eq!(read(&with(112, 0)).expect("a trace"), (None, 0));
    for (at, value) in
        [(112, 1), (112, u64::MAX), (120, 64), (128, 7), (136, 1 << 20), (144, 1 << 16), (152, 1 << 40)]
    {
        let error = read(&with(at, value)).expect_err("damage").to_string();
        assert!(error == Damage::FirstPage.to_string() || error == Damage::Cut.to_string(), "{at}: {error}");
    }
    // Another buffer's, and a table with nobody in it.
    assert_eq!(read(&with(136, 3)).expect("a trace"), (Some(0), 0));
    let mut nobody = file.clone();
    nobody[part..memory].fill(0);
    assert_eq!(read(&nobody).expect("a trace"), (Some(0), 0));
    let mut random = 88172645463325252_u64;
    for _ in 0..60 {
        let mut file = file.clone();
        for _ in 0..20 {
            random ^= random << 13;
            random ^= random >> 7;
            random ^= random << 17;
            // Mostly where there is something.
            let at = [part, memory][random as usize & 1] + (random >> 8) as usize % 20_000;
            file[at] = (random >> 40) as u8;
        }
        // What packets hold is for nobody to check.
        if let Ok(survivor) = Survivor::parse(&file) {
            survivor.write_to(region.with_extension("pftrace")).expect("a trace");
        }
        let _ = Inspection::of_file(&file);
    }
}

#[test]
fn what_the_ring_has_and_shared_memory_has_still_comes_once_also_when_it_was_read() {
    let folder = folder("own twice");
    let [region, long, out] = ["x.region", "long.pftrace", "out.pftrace"].map(|name| folder.join(name));
    for with_trace in [false, true] {
        let mut builder = builder(&region);
        if with_trace {
            builder = builder.long_trace(every_10_ms(&long));
        }
        let session = builder.start().expect("a session");
        // Some chunks, complete except for the last.
        super::count(&session, 0..900);
        let before = fs::read(left(&region)).expect("a file");
        session.flush(Duration::from_secs(5)).expect("a flush");
        let begun = Instant::now();
        while with_trace && values(&Trace::read_cut(&long)).len() < 900 {
            assert!(begun.elapsed() < Duration::from_secs(30));
            std::thread::sleep(Duration::from_millis(10));
        }
        // As if the kill had come when all was in the ring, or read from there, and nothing was freed.
        let after = fs::read(left(&region)).expect("a file");
        drop(session);
        let part = own_part(&after);
        let memory = own_memory(&after);
        let mut spliced = [&after[..part], &before[part..]].concat();
        for being_read in [false, true] {
            if being_read {
                for bitmap in (memory..spliced.len()).step_by(4096) {
                    // Two chunks a page: what is complete, 3, is 2 while the drain thread copies it.
                    for shift in [0, 2] {
                        let is_complete = spliced[bitmap] >> shift & 3 == 3;
                        spliced[bitmap] ^= u8::from(is_complete) << shift;
                    }
                }
            }
            let survivor = Survivor::parse(&spliced).expect("a buffer");
            let chunks = survivor.shared().map_or(0, |shared| shared.chunks);
            assert!(chunks > 0 && survivor.brought_in() == 0);
            if with_trace {
                survivor.write_with(&long, &out).expect("a trace");
            } else {
                survivor.write_to(&out).expect("a trace");
            }
            assert_eq!(values(&Trace::read(&out)), Vec::from_iter(0..900));
            assert_eq!(Trace::read(&out).losses(), 0);
        }
    }
}

#[test]
fn what_was_overwritten_in_it_is_told_and_counted_in_the_trace() {
    let folder = folder("own overwritten");
    let [region, out] = ["x.region", "x.pftrace"].map(|name| folder.join(name));
    let (session, left) = within_a_second(|| {
        let session = builder(&region).start().expect("a session");
        super::count(&session, 0..235);
        (session, left(&region))
    });
    drop(session);
    let mut file = fs::read(&left).expect("a file");
    let start = own_memory(&file);
    file[start..start + 8192].fill(0x5A);
    fs::write(&left, &file).expect("a file");
    let (code, said) = run(&["recover".as_ref(), &left, "-o".as_ref(), &out]);
    let told = "shared memory: 2 pages overwritten by something else, and what was in them is lost\n";
    assert!(code == Some(3) && said.contains(told), "{said}");
    assert_eq!(Survivor::open(&left).expect("a buffer").chunks_lost(), 2);
    let report = TraceReport::of(&fs::read(&out).expect("a trace")).to_string();
    assert!(report.contains("statistics: abi_violations of buffer 0 is 2\n"), "{report}");
}
