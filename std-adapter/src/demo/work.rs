//! The work that is traced: a merge sort over all threads, then counting the words of source files.

use super::{Options, THREADS, WallClock};
use std::collections::HashMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::sync::mpsc::{Receiver, Sender, channel};
use tracebuf::producer::track_event::{OnTrack, Tracer, Track, Unit};

/// The tracks that all threads write to.
pub(super) struct Counters<'a> {
    merged: Track<'a>,
    words: Track<'a>,
}

impl<'a> Counters<'a> {
    pub(super) fn new(process: &'a Track<'a>) -> Self {
        Counters {
            merged: Track::counter("merged", Unit::Unspecified).within(process),
            words: Track::counter("words", Unit::Count).within(process),
        }
    }
}

/// What the threads have in common.
pub(super) struct Workload<'a> {
    counters: &'a Counters<'a>,
    numbers: usize,
    files: Vec<PathBuf>,
    next_file: AtomicUsize,
    merged: AtomicU64,
    words: AtomicU64,
}

impl<'a> Workload<'a> {
    pub(super) fn new(options: &Options, counters: &'a Counters<'a>) -> Self {
        let mut files = Vec::new();
        collect(&options.sources, &mut files);
        files.sort();
        let (next_file, merged, words) = (AtomicUsize::new(0), AtomicU64::new(0), AtomicU64::new(0));
        Workload { counters, numbers: options.numbers, files, next_file, merged, words }
    }
}

/// Source files in a folder, up to a limit; links and hidden folders are not followed.
fn collect(folder: &Path, files: &mut Vec<PathBuf>) {
    const MOST: usize = 1000;
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let (name, path) = (entry.file_name(), entry.path());
        let hidden = name.to_string_lossy().starts_with('.') || name == "target";
        let Ok(kind) = entry.file_type() else { continue };
        if kind.is_dir() && !hidden {
            collect(&path, files);
        }
        let source = ["rs", "md", "toml", "py"].map(Some);
        if kind.is_file() && source.contains(&path.extension().and_then(|e| e.to_str())) && files.len() < MOST
        {
            files.push(path);
        }
    }
}

/// A sorted run on its way to another thread, and the flow that follows it.
type Run = (Vec<u32>, u64);

/// A thread's part in the tree of merges.
pub(super) struct Hands {
    index: usize,
    from: Receiver<Run>,
    /// How many runs it receives.
    merges: u32,
    /// Where its own run goes; `None` for the last thread.
    to: Option<Sender<Run>>,
}

/// Thread 2k + 1 hands its run to 2k, then, among those left, 4k + 2 to 4k, and so on.
pub(super) fn relay() -> Vec<Hands> {
    let (senders, receivers): (Vec<_>, Vec<_>) = (0..THREADS).map(|_| channel()).unzip();
    let levels = THREADS.trailing_zeros();
    let hands = receivers.into_iter().enumerate().map(|(index, from)| {
        let merges = index.trailing_zeros().min(levels);
        let to = index.checked_sub(1 << merges).and_then(|to| senders.get(to).cloned());
        Hands { index, from, merges, to: to.filter(|_| index != 0) }
    });
    hands.collect()
}

/// What a thread did.
#[derive(Default)]
pub(super) struct Outcome {
    pub(super) words: u64,
    pub(super) files: u64,
    /// How many numbers it has in order at the end.
    pub(super) sorted: usize,
}

/// One thread's work.
pub(super) fn run<'a>(tracer: &Tracer<'a, WallClock>, workload: &'a Workload<'a>, hands: Hands) -> Outcome {
    let track = tracer.track();
    let sorted = track.slice("sort", || sort_part(tracer, workload, &hands));
    let mut outcome = Outcome { sorted, ..Outcome::default() };
    track.slice("count words", || count_words(tracer, workload, &mut outcome));
    outcome
}

type On<'t, 'a> = OnTrack<'t, 'a, WallClock>;

fn sort_part<'a>(tracer: &Tracer<'a, WallClock>, workload: &'a Workload<'a>, hands: &Hands) -> usize {
    let track = tracer.track();
    // The shares add up to all numbers, even if they are no multiple of the threads.
    let share = (workload.numbers + hands.index) / THREADS;
    let mut run = track.slice("random numbers", || random(share, hands.index));
    let mut scratch = run.clone();
    merge_sort(track, &mut run, &mut scratch);
    for _ in 0..hands.merges {
        let waiting = track.enter("wait");
        let Ok((other, flow)) = hands.from.recv() else { break };
        drop(waiting);
        let total = run.len() + other.len();
        let _merging = track.enter_with("merge runs", |event| event.end_flow(flow).arg("numbers", total));
        run = merged(&run, &other);
        let share = workload.merged.fetch_add(total as u64, Relaxed) as f64 / workload.numbers.max(1) as f64;
        tracer.on(&workload.counters.merged).measure(share);
    }
    assert!(run.is_sorted());
    let Some(to) = &hands.to else { return run.len() };
    let flow = 1 + hands.index as u64;
    track.instant_with("hand over", |event| event.category("sort").flow(flow).arg("to", flow - 1));
    // A receiver that is gone does not need it.
    let _ = to.send((run, flow));
    0
}

/// Checks whether the system has memory for so many numbers, before any work is done: later each thread takes a part of
/// it, and could only abort.
pub(super) fn check_memory(numbers: usize) -> io::Result<()> {
    // The numbers that are sorted, as much room again for sorting, and once more for merging two runs.
    let reserved = Vec::<[u32; 3]>::new().try_reserve_exact(numbers);
    reserved
        .map_err(|_| io::Error::new(io::ErrorKind::OutOfMemory, format!("no memory for {numbers} numbers")))
}

fn random(count: usize, seed: usize) -> Vec<u32> {
    let mut state = (seed as u32 + 1).wrapping_mul(0x9E37_79B9) | 1;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 17;
        state ^= state << 5;
        state
    };
    (0..count).map(|_| next()).collect()
}

/// Up to so many are sorted by insertion.
const FEW: usize = 64;

/// Sorts `numbers`, using `scratch`, which is as long.
fn merge_sort(track: On<'_, '_>, numbers: &mut [u32], scratch: &mut [u32]) {
    if numbers.len() <= FEW {
        let _few = track.enter("insertion sort");
        for end in 1..numbers.len() {
            let mut at = end;
            while at > 0 && numbers[at - 1] > numbers[at] {
                numbers.swap(at - 1, at);
                at -= 1;
            }
        }
        return;
    }
    let _sort = track.enter("merge sort");
    let middle = numbers.len() / 2;
    let ((left, right), (left_scratch, right_scratch)) =
        (numbers.split_at_mut(middle), scratch.split_at_mut(middle));
    merge_sort(track, left, left_scratch);
    merge_sort(track, right, right_scratch);
    let _merge = track.enter("merge");
    scratch.copy_from_slice(numbers);
    let (left, right) = scratch.split_at(middle);
    merge(left, right, numbers);
}

fn merged(left: &[u32], right: &[u32]) -> Vec<u32> {
    let mut to = vec![0; left.len() + right.len()];
    merge(left, right, &mut to);
    to
}

fn merge<'n>(mut left: &'n [u32], mut right: &'n [u32], to: &mut [u32]) {
    for to in to {
        let from = match (left.first(), right.first()) {
            (Some(a), Some(b)) if b < a => &mut right,
            (None, _) => &mut right,
            _ => &mut left,
        };
        if let Some((first, rest)) = from.split_first() {
            (*to, *from) = (*first, rest);
        }
    }
}

fn count_words<'a>(tracer: &Tracer<'a, WallClock>, workload: &'a Workload<'a>, outcome: &mut Outcome) {
    let track = tracer.track();
    let mut counts: HashMap<String, u64> = HashMap::new();
    while let Some(path) = workload.files.get(workload.next_file.fetch_add(1, Relaxed)) {
        let name = path.to_string_lossy();
        let _file = track.enter_with("file", |event| event.category("words").arg("path", name.as_ref()));
        let text = track.slice("read", || fs::read(path).unwrap_or_default());
        let text = String::from_utf8_lossy(&text);
        let mut words = 0;
        for paragraph in text.split("\n\n") {
            let _count = track.enter("paragraph");
            for word in paragraph.split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty()) {
                *counts.entry(word.to_lowercase()).or_default() += 1;
                words += 1;
            }
        }
        outcome.words += words;
        outcome.files += 1;
        let total = workload.words.fetch_add(words, Relaxed) + words;
        tracer.on(&workload.counters.words).count(total as i64);
    }
    if let Some((word, count)) = counts.iter().max_by_key(|(word, count)| (**count, word.len())) {
        let (word, count) = (word.as_str(), *count);
        track.instant_with("most frequent word", |event| event.arg("word", word).arg("count", count));
    }
}
