//! Threads that trace themselves: they sort numbers together, and the trace shows who waited for whom.
//!
//! `cargo run --release -q -p tracebuf-session --example threads OUT.pftrace` writes a long trace, which
//! <https://ui.perfetto.dev> opens, and prints what was lost.

use std::error::Error;
use std::sync::LazyLock;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;

use tracebuf::producer::Exhaustion;
use tracebuf_session::{LongTrace, Recorder, Session, Track, Unit, this_process};

const THREADS: usize = 8;
const NUMBERS: usize = 200_000;
const FEW: usize = 1000; // too few for a slice of their own

static PROCESS: LazyLock<Track<'static>> = LazyLock::new(this_process);
static MERGED: LazyLock<Track<'static>> =
    LazyLock::new(|| Track::counter("merged", Unit::Count).within(&PROCESS));

/// Sorted numbers on their way to another thread, and the flow that follows them.
type Run = (Vec<u32>, u64);

fn main() -> Result<(), Box<dyn Error>> {
    let out = std::env::args_os().nth(1).ok_or("usage: threads OUT.pftrace")?;
    let session = Session::builder()
        .ring(64 << 20)
        .exhaustion(Exhaustion::Stall) // rather a slower program than a hole in its trace
        .long_trace(LongTrace::to(&out))
        .start()?;
    let recorder = session.recorder();
    println!("{} numbers sorted by {THREADS} threads", sort_together(&recorder).len());
    println!("{}: lost: {}", out.display(), session.stop()?.summary().losses());
    Ok(())
}

/// Thread 2k + 1 hands its numbers to 2k; then, of those left, 4k + 2 to 4k, and so on.
fn sort_together(recorder: &Recorder) -> Vec<u32> {
    let (senders, receivers): (Vec<Sender<Run>>, Vec<_>) = (0..THREADS).map(|_| channel()).unzip();
    thread::scope(|scope| {
        let threads: Vec<_> = (receivers.into_iter().enumerate())
            .map(|(index, from)| {
                let to = (index > 0).then(|| senders[index & (index - 1)].clone());
                let thread = thread::Builder::new().name(format!("sorter {index}"));
                thread.spawn_scoped(scope, move || work(recorder, index, &from, to)).expect("a thread")
            })
            .collect();
        // The first has all numbers in the end; the others end before it.
        threads.into_iter().next().and_then(|first| first.join().ok()).unwrap_or_default()
    })
}

/// One thread's part; returns what it has in order at the end, which is nothing if it handed it on.
fn work(recorder: &Recorder, index: usize, from: &Receiver<Run>, to: Option<Sender<Run>>) -> Vec<u32> {
    let mut state = index as u32 + 1;
    let random = || {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        state
    };
    let mut run: Vec<u32> = std::iter::repeat_with(random).take(NUMBERS).collect();
    recorder.slice("sort", || merge_sort(recorder, &mut run));
    for _ in 0..index.trailing_zeros().min(THREADS.trailing_zeros()) {
        let Ok((other, flow)) = recorder.slice("wait", || from.recv()) else { break };
        let numbers = run.len() + other.len();
        let _merge = recorder.enter_with("merge runs", |event| event.end_flow(flow).arg("numbers", numbers));
        run = merge(&run, &other);
        recorder.count(&MERGED, numbers as i64);
    }
    let Some(to) = to else { return run };
    let flow = 1 + index as u64;
    recorder.instant_with("hand over", |event| event.category("sort").flow(flow));
    // A receiver that is gone does not need it.
    let _ = to.send((run, flow));
    Vec::new()
}

fn merge_sort(recorder: &Recorder, numbers: &mut [u32]) {
    if numbers.len() <= FEW {
        return numbers.sort_unstable();
    }
    let _sort = recorder.enter_with("merge sort", |event| event.arg("numbers", numbers.len()));
    let (left, right) = numbers.split_at_mut(numbers.len() / 2);
    merge_sort(recorder, left);
    merge_sort(recorder, right);
    let merged = recorder.slice("merge", || merge(left, right));
    numbers.copy_from_slice(&merged);
}

fn merge<'n>(mut left: &'n [u32], mut right: &'n [u32]) -> Vec<u32> {
    let mut merged = Vec::with_capacity(left.len() + right.len());
    while let ([a, ..], [b, ..]) = (left, right) {
        let from = if a <= b { &mut left } else { &mut right };
        merged.extend(from.split_off_first());
    }
    [&merged, left, right].concat()
}
