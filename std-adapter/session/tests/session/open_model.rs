//! Random slices in small rings, compared with a plain list of what was recorded.

use std::sync::Mutex;
use std::sync::mpsc::channel;

use tracebuf::producer::Exhaustion;
use tracebuf_analysis::Trace;
use tracebuf_analysis::trace::Event;
use tracebuf_session::{Recorder, Session, Track};
use tracebuf_testing::mix::mix;
use tracebuf_testing::trace::scratch;

/// A slice as it was recorded: on which of the thread's tracks, when it began and ended, and what it carries.
#[derive(Clone, Copy, Debug)]
struct Slice {
    track: usize,
    begin: (u64, u64),
    end: Option<(u64, u64)>,
    text_len: usize,
}

/// What one thread has recorded, in the order of the begins.
struct Thread {
    number: u64,
    seed: u64,
    slices: Vec<Slice>,
    /// For each track, those that are open.
    open: [Vec<usize>; 3],
    /// In the order of the ends.
    ended: Vec<usize>,
}

const DEEPEST: usize = 6;

impl Thread {
    fn new(number: u64) -> Self {
        Self { number, seed: mix(number), slices: Vec::new(), open: Default::default(), ended: Vec::new() }
    }

    fn random(&mut self, below: u64) -> u64 {
        self.seed = mix(self.seed);
        self.seed % below
    }

    fn work(&mut self, session: &Session, recorder: &Recorder, events: u64) {
        let own = [1, 2].map(|track| Track::custom("own").numbered(self.number * 10 + track));
        for _ in 0..events {
            let track = self.random(3) as usize;
            let ends =
                !self.open[track].is_empty() && self.random(2) == 0 || self.open[track].len() == DEEPEST;
            if ends {
                let before = session.now();
                match track.checked_sub(1) {
                    None => drop(recorder.with(|tracer| tracer.track().end())),
                    Some(at) => recorder.on(&own[at]).end(),
                }
                let slice = self.open[track].pop().expect("one is open");
                self.slices[slice].end = Some((before, session.now()));
                self.ended.push(slice);
                continue;
            }
            let number = self.number << 32 | self.slices.len() as u64;
            // Some do not fit a chunk, and a few are larger than two.
            let text_len = [0, 10, 300, 3000, 6000][[0, 0, 0, 1, 1, 1, 2, 2, 3, 4][self.random(10) as usize]];
            let text = "x".repeat(text_len);
            let before = session.now();
            match track.checked_sub(1) {
                None => drop(recorder.with(|tracer| {
                    tracer
                        .track()
                        .begin_with("slice", |event| event.arg("number", number).arg("text", &text[..]));
                })),
                Some(at) => recorder
                    .on(&own[at])
                    .begin_with("slice", |event| event.arg("number", number).arg("text", &text[..])),
            }
            self.open[track].push(self.slices.len());
            let begin = (before, session.now());
            self.slices.push(Slice { track, begin, end: None, text_len });
        }
    }

    /// Compares with what a trace has of this thread.
    fn check(&self, trace: &Trace) {
        let number = |event: &Event<'_>| event.argument("number").and_then(|value| value.as_i64());
        let of_thread =
            |event: &Event<'_>| number(event).is_some_and(|number| number as u64 >> 32 == self.number);
        let mut found = vec![None; self.slices.len()];
        for event in trace.slices().filter(of_thread) {
            let at = number(&event).expect("it has one") as u32 as usize;
            assert!(found[at].replace(event).is_none(), "twice: {:?}", self.slices[at]);
        }
        for (slice, event) in self.slices.iter().zip(&found) {
            let Some(event) = event else {
                assert!(slice.end.is_some(), "missing though it is open: {slice:?}");
                continue;
            };
            let within = |time: u64, bounds: (u64, u64)| (bounds.0..=bounds.1).contains(&time);
            assert!(within(event.begin(), slice.begin), "{slice:?} begins at {}", event.begin());
            match (event.end(), slice.end) {
                (None, None) => {}
                (Some(end), Some(bounds)) => assert!(within(end, bounds), "{slice:?} ends at {end}"),
                (end, _) => panic!("{slice:?} ends at {end:?}"),
            }
            let text = event.argument("text").and_then(|value| value.as_str()).expect("a text");
            assert_eq!(text.len(), slice.text_len);
            let is_own = event.track().name() == "own";
            assert_eq!(is_own, slice.track > 0);
        }
        // What has ended leaves in the order of the ends.
        let first = self.ended.iter().position(|slice| found[*slice].is_some()).unwrap_or(self.ended.len());
        let gone = self.ended[first..].iter().find(|slice| found[**slice].is_none());
        assert!(gone.is_none(), "a hole: {:?}", gone.map(|slice| self.slices[*slice]));
    }
}

/// Has threads go on from round to round, while some rest, and compares a snapshot after each, or a window of it.
fn compare(name: &str, ring: u64, count: u64, rounds: u64, most: u64) {
    let session = Session::builder()
        .ring(ring)
        .shared_memory(128 << 10)
        .exhaustion(Exhaustion::Stall)
        .start()
        .expect("a session");
    let recorder = session.recorder();
    let threads: Vec<_> = (1..=count).map(|number| Mutex::new(Thread::new(number))).collect();
    let (session, recorder) = (&session, &recorder);
    std::thread::scope(|scope| {
        let (tell, told) = channel();
        let workers = threads.iter().map(|thread| {
            let (order, orders) = channel::<u64>();
            let tell = tell.clone();
            scope.spawn(move || {
                for events in orders {
                    thread.lock().expect("no panic").work(session, recorder, events);
                    tell.send(()).expect("the test waits");
                }
            });
            order
        });
        let workers: Vec<_> = workers.collect();
        for round in 0..rounds {
            for (number, worker) in workers.iter().enumerate() {
                // The first works in the first round only, and then hangs.
                let events =
                    if number == 0 && round > 0 { 0 } else { mix(round << 8 | number as u64) % most };
                worker.send(events).expect("it works");
            }
            workers.iter().for_each(|_| told.recv().expect("it works"));
            let path = scratch(&format!("model-{name}.pftrace"));
            session.snapshot().expect("a snapshot").write_to(&path).expect("a file");
            let trace = Trace::open(&path).expect("a trace");
            assert_eq!(trace.faults(), [], "{name}, round {round}");
            threads.iter().for_each(|thread| thread.lock().expect("no panic").check(&trace));
        }
        let summary = session.summary().expect("a summary");
        assert!(summary.buffers[0].write_wrap_count >= 2, "{}", summary.buffers[0].write_wrap_count);
    });
}

#[test]
fn snapshots_of_rings_have_all_that_is_open_and_the_newest_of_what_has_ended() {
    // In a round the others write less than a ring: a thread that rests within a packet of three chunks, the first of which
    // is sent, for longer than a ring is full loses the packet, and its times with it.
    compare("large", 1 << 20, 4, 30, 750);
    compare("small", 512 << 10, 2, 60, 400);
}
