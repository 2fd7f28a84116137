//! Several cores, and a reader beside them.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::thread;
use std::vec::Vec;

use super::super::{ChunkView, Record, Recorder, Region};
use super::timer;

const EVENTS: i64 = if cfg!(miri) { 200 } else { 40_000 };

#[test]
fn threads_record_beside_a_reader_and_no_event_is_garbled() {
    static TRACE: Region<64, 64, 32, 32> = Region::zeroed();
    timer!(TIME, ticks);
    let recorder = Recorder::new(&TRACE, ticks, 1_000);
    let is_over = AtomicBool::new(false);
    let (read, copies) = thread::scope(|scope| {
        let writers: Vec<_> = (0..4i64)
            .map(|number| {
                scope.spawn(move || {
                    let writer = recorder.writer("w");
                    for value in 0..EVENTS {
                        TIME.fetch_add(1, Ordering::Relaxed);
                        // The number of the thread in the values, which would show words of others.
                        writer.count_i64(["a", "b", "c", "d"][number as usize], value << 8 | number);
                    }
                })
            })
            .collect();
        let reader = scope.spawn(|| {
            let (mut read, mut copies, mut copy) = ([-1i64; 4], 0, [0; 32]);
            loop {
                let last = is_over.load(Ordering::Acquire);
                while let Some(chunk) = recorder.copy_chunk(&mut copy) {
                    let bytes: Vec<u8> = copy.iter().flat_map(|word| word.to_le_bytes()).collect();
                    for record in ChunkView::of(&bytes).expect("a chunk").records() {
                        let Ok((_, Record::Count { value, .. })) = record else { panic!("{record:?}") };
                        let (number, value) = ((value & 0xFF) as usize, value >> 8);
                        assert!(value > read[number], "{number}: {value} after {}", read[number]);
                        read[number] = value;
                    }
                    copies += 1;
                    chunk.taken();
                }
                if last {
                    return (read, copies);
                }
                thread::yield_now();
            }
        });
        writers.into_iter().for_each(|writer| writer.join().expect("a writer"));
        is_over.store(true, Ordering::Release);
        reader.join().expect("the reader")
    });
    // What the reader was too slow for is overwritten, but not the last of all.
    assert_eq!(recorder.dropped(), 0);
    assert!(copies > 4 && read.contains(&(EVENTS - 1)), "{copies} {read:?}");
}
