//! Writers in place, and a reader that copies chunks while they go on: claim, publish, finish, copy.

use crate::{leak, model};
use loom::thread;
use tracebuf::inplace::{ChunkView, Record, Recorder, Region, Writer};

type Trace = Region<4, 8, 4, 32>;

fn ticks() -> u32 {
    5
}

type Handle = Recorder<'static, Trace, fn() -> u32>;

fn recorder() -> Handle {
    Recorder::new(leak(Trace::zeroed()), ticks, 1_000)
}

/// Both halves say the same, so one of another event would show.
const fn twice(value: i64) -> i64 {
    value << 32 | value
}

/// The values in a copy.
fn values(words: &[u32]) -> Vec<i64> {
    let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
    let chunk = ChunkView::of(&bytes).expect("a chunk");
    let records = chunk.records().map(|record| match record.expect("whole") {
        (5, Record::Count { value, .. }) => value,
        other => panic!("{other:?}"),
    });
    records.collect()
}

fn write(writer: &Writer<'static, Trace, fn() -> u32>, values: &[i64]) {
    values.iter().for_each(|value| writer.count_i64("n", twice(*value)));
}

#[test]
fn a_copy_of_an_open_chunk_has_whole_events_in_their_order() {
    model(3, || {
        let recorder = recorder();
        let writer = recorder.writer("w");
        write(&writer, &[1]);
        let other = thread::spawn(move || {
            write(&writer, &[2, 3]);
            core::mem::forget(writer);
        });
        let mut copy = [0; 32];
        if recorder.copy_open(0, &mut copy).is_some() {
            let read = values(&copy);
            let all = [twice(1), twice(2), twice(3)];
            assert!(!read.is_empty() && read[..] == all[..read.len()], "{read:?}");
        }
        other.join().unwrap();
        recorder.copy_open(0, &mut copy).expect("open");
        assert_eq!(values(&copy), [twice(1), twice(2), twice(3)]);
    });
}

#[test]
fn two_that_claim_at_once_have_a_chunk_each() {
    model(2, || {
        let recorder = recorder();
        let threads: Vec<_> = [1, 2]
            .map(|value| {
                thread::spawn(move || {
                    let writer = recorder.writer("w");
                    write(&writer, &[value]);
                })
            })
            .into();
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        let mut copy = [0; 32];
        let mut read = Vec::new();
        while let Some(chunk) = recorder.copy_chunk(&mut copy) {
            read.extend(values(&copy));
            assert!(chunk.taken());
        }
        read.sort_unstable();
        assert_eq!((read, recorder.dropped()), (vec![twice(1), twice(2)], 0));
    });
}

/// The last place but one is taken when the reader comes, and is claimed anew meanwhile.
#[test]
fn a_copy_of_a_chunk_that_is_claimed_meanwhile_is_of_one_of_both_or_none() {
    model(2, || {
        let recorder = recorder();
        let holders: Vec<_> = (0..3).map(|_| recorder.writer("h")).collect();
        holders.iter().for_each(|holder| write(holder, &[7]));
        drop({
            let first = recorder.writer("w");
            write(&first, &[1]);
            first
        });
        let other = thread::spawn(move || {
            let second = recorder.writer("w");
            write(&second, &[2]);
            core::mem::forget(second);
        });
        let mut copy = [0; 32];
        if let Some(chunk) = recorder.copy_chunk(&mut copy) {
            assert_eq!(values(&copy), [twice(1)]);
            chunk.taken();
        }
        other.join().unwrap();
        holders.into_iter().for_each(core::mem::forget);
        // Whoever took it, the second one has its event in some chunk, or it is counted.
        let mut found = 0;
        let mut place = 0;
        while let Some(at) = recorder.copy_open(place, &mut copy) {
            found += values(&copy).iter().filter(|value| **value == twice(2)).count() as u32;
            place = at + 1;
        }
        assert_eq!(found + recorder.dropped(), 1);
    });
}
