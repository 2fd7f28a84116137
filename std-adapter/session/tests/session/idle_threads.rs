//! Many threads that record now and then, in memory for few: whose chunks are taken back where the system can do that.
#![cfg(all(any(target_os = "linux", target_os = "android"), not(tracebuf_small)))]

use std::sync::{Arc, Barrier};
use std::thread;
use std::time::{Duration, Instant};

use tracebuf::producer::Exhaustion;
use tracebuf::producer::track_event::{Track, Unit};
use tracebuf_session::{Recorder, Session, Summary};
use tracebuf_testing::mix::mix;
use tracebuf_testing::trace::{Trace, scratch};

static NUMBERS: Track<'static> = Track::counter("numbers", Unit::Count);

/// Starts so many threads that do this, and gives them little stack.
fn start<T: Send + 'static>(
    threads: u64,
    recorder: &Recorder,
    work: impl Fn(&Recorder, u64) -> T + Clone + Send + 'static,
) -> Vec<thread::JoinHandle<T>> {
    let start = |number: u64| {
        let (recorder, work) = (recorder.clone(), work.clone());
        let thread = thread::Builder::new().stack_size(256 << 10).name(format!("idle {number}"));
        thread.spawn(move || work(&recorder, number)).expect("a thread")
    };
    (0..threads).map(start).collect()
}

fn given_up(summary: &Summary) -> u64 {
    summary.buffers.iter().map(|buffer| buffer.trace_writer_packet_loss).sum()
}

#[test]
fn threads_that_are_idle_take_nothing_from_one_that_is_busy_however_many_they_are() {
    const IDLE: u64 = 2000;
    let session = Session::builder().ring(64 << 20).start().expect("a session");
    let (recorder, begun) = (session.recorder(), Arc::new(Barrier::new(IDLE as usize + 1)));
    let has_begun = begun.clone();
    let idle = start(IDLE, &recorder, move |recorder, _| {
        recorder.count(&NUMBERS, 0);
        has_begun.wait();
        thread::park();
        // Its chunk was taken back long ago.
        recorder.count(&NUMBERS, 1);
    });
    // Otherwise one of them could go on with the busy one's sequence.
    begun.wait();
    let busy = start(1, &recorder, |recorder, _| (0..20_000).for_each(|n| recorder.count(&NUMBERS, n)));
    busy.into_iter().for_each(|busy| busy.join().expect("no panic"));
    // One after the other: all at once could be more than the drain thread can keep up with.
    idle.into_iter().for_each(|idle| {
        idle.thread().unpark();
        idle.join().expect("no panic");
    });
    let mut stopped = session.stop().expect("a stop");
    assert_eq!(stopped.summary().losses().to_string(), "nothing");
    let path = scratch("idle_threads.pftrace");
    stopped.write_to(&path).expect("a file");
    let trace = Trace::read(&path);
    let mut values: Vec<_> = trace.counters().into_values().collect();
    values.sort_by_key(Vec::len);
    let busy = values.pop().expect("the busy one's");
    assert!(busy.iter().copied().eq(0..20_000));
    assert_eq!(values.len() as u64, IDLE, "each thread has its own sequence");
    assert!(values.iter().all(|values| values[..] == [0, 1]));
    assert!((0..IDLE).step_by(97).all(|number| trace.contains(&format!("idle {number}"))));
    assert_eq!(trace.losses(), 0);
}

#[test]
fn threads_that_wake_and_sleep_while_chunks_are_taken_back_lose_nothing_uncounted_and_keep_their_order() {
    const THREADS: u64 = 600;
    const EVENTS: u64 = 30;
    for (exhaustion, bytes) in
        [(Exhaustion::Stall, 16 << 10), (Exhaustion::Stall, 256 << 10), (Exhaustion::Drop, 64 << 10)]
    {
        let session = Session::builder().ring(64 << 20).shared_memory(bytes).exhaustion(exhaustion);
        let session = session.start().expect("a session");
        let end = Arc::new(Barrier::new(THREADS as usize + 1));
        let ends = end.clone();
        let threads = start(THREADS, &session.recorder(), move |recorder, thread| {
            for number in 0..EVENTS {
                recorder.count(&NUMBERS, number as i64);
                // Most sleep for longer than it takes to be asked for a chunk twice.
                thread::sleep(Duration::from_micros(mix(thread << 32 | number) % 3000));
            }
            // Otherwise the next thread would go on with this one's sequence.
            ends.wait();
        });
        end.wait();
        threads.into_iter().for_each(|thread| thread.join().expect("no panic"));
        let mut stopped = session.stop().expect("a stop");
        let lost = given_up(&stopped.summary());
        let path = scratch("waking_threads.pftrace");
        stopped.write_to(&path).expect("a file");
        let numbers = Trace::read(&path).counters();
        let missing = THREADS * EVENTS - numbers.values().map(|numbers| numbers.len() as u64).sum::<u64>();
        let in_order = |numbers: &Vec<u64>| numbers.is_sorted_by(|one, next| one < next);
        assert!(numbers.values().all(in_order), "{exhaustion:?}: {numbers:?}");
        assert!(missing <= lost, "{exhaustion:?}: {missing} are missing, {lost} counted");
        if exhaustion == Exhaustion::Stall {
            assert_eq!((missing, lost), (0, 0), "{bytes} bytes");
        }
    }
}

#[test]
fn more_threads_than_there_is_memory_for_get_chunks_of_others_when_they_wait() {
    // Two chunks.
    let session = Session::builder().ring(8 << 20).shared_memory(4096).exhaustion(Exhaustion::Stall);
    let session = session.start().expect("a session");
    let (begun, end) = (Instant::now(), Arc::new(Barrier::new(101)));
    let ends = end.clone();
    let threads = start(100, &session.recorder(), move |recorder, _| {
        recorder.count(&NUMBERS, 0);
        ends.wait();
    });
    end.wait();
    threads.into_iter().for_each(|thread| thread.join().expect("no panic"));
    assert!(begun.elapsed() < Duration::from_secs(20), "{:?}", begun.elapsed());
    assert_eq!(session.stop().expect("a stop").summary().losses().to_string(), "nothing");
}

#[test]
fn tens_of_thousands_of_threads_one_after_the_other_use_few_writers() {
    let session = Session::builder().ring(1 << 20).exhaustion(Exhaustion::Stall).start().expect("a session");
    for _ in 0..300 {
        for thread in start(40, &session.recorder(), |recorder, _| recorder.count(&NUMBERS, 0)) {
            thread.join().expect("no panic");
        }
    }
    let summary = session.stop().expect("a stop").summary();
    assert_eq!(given_up(&summary), 0);
}
