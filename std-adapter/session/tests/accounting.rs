//! Every packet that threads write is in the trace, or counted by the part that lost it; and what is left of a trace
//! makes sense to a reader that knows only what its packets say.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Barrier;
use std::sync::mpsc::channel;
use std::thread;

use tracebuf::producer::Exhaustion;
use tracebuf::producer::track_event::{TracerStats, Track, Unit};
use tracebuf::service::sequence_id;
use tracebuf_session::{Recorder, Session, SessionBuilder, Stopped, Summary, this_process};
use tracebuf_testing::trace::{Field, Trace, fields, message, number, scratch};

const THREADS: u16 = 8;
const ROUNDS: u64 = 2000;

/// What a thread does: slices in slices, a counter that all share, and a flow to the next thread.
fn work(recorder: &Recorder, counter: &Track<'_>, thread: u64) {
    let flow = |thread: u64, round: u64| 1 + round * u64::from(THREADS) + thread % u64::from(THREADS);
    for round in 0..ROUNDS {
        let _round = recorder.enter_with("round", |event| event.category("work").arg("number", round));
        recorder.slice("sort", || recorder.slice("merge", || recorder.count(counter, round as i64)));
        recorder.instant_with("hand over", |event| event.flow(flow(thread, round)));
        recorder.instant_with("take over", |event| event.end_flow(flow(thread + 1, round)));
    }
}

/// Has all threads work at the same time, and stops the session before one ends, which may write more. Returns what each
/// counted: writers' numbers begin with 1, in the threads' order.
fn record(session: &Session) -> (Vec<TracerStats>, Stopped) {
    let (recorder, process) = (session.recorder(), this_process());
    let counter = Track::counter("rounds", Unit::Count).within(&process);
    let (recorder, counter) = (&recorder, &counter);
    let [start, end] = &[THREADS, THREADS + 1].map(|threads| Barrier::new(threads.into()));
    thread::scope(|scope| {
        let begin = |index: u16| {
            let (tell, told) = channel();
            let run = move || {
                let stats = || recorder.with(|tracer| tracer.stats()).expect("a tracer");
                tell.send(stats()).expect("somebody waits");
                start.wait();
                work(recorder, counter, index.into());
                tell.send(stats()).expect("somebody waits");
                end.wait();
            };
            let worker = thread::Builder::new().name(format!("worker {index}"));
            worker.spawn_scoped(scope, run).expect("a thread");
            told.recv().expect("it begins");
            told
        };
        let threads: Vec<_> = (0..THREADS).map(begin).collect();
        let threads = threads.iter().map(|told| told.recv().expect("it works")).collect();
        let stopped = session.stop().expect("a stop");
        end.wait();
        (threads, stopped)
    })
}

/// Runs the threads over a session, and checks its accounts and its trace.
fn accounts(name: &str, builder: SessionBuilder) -> (Vec<TracerStats>, Summary, Reading) {
    let session = builder.process_name("accounting").start().expect("a session");
    let (threads, mut stopped) = record(&session);
    let path = scratch(&format!("{name}.pftrace"));
    let written = stopped.write_to(&path).expect("a file");
    let (summary, trace) = (stopped.summary(), Trace::read(&path));
    assert_eq!(trace.packets().count() as u64, written.packets);
    trace.assert_ends_with_stats();
    let reading = Reading::of(&trace);
    let mut carried = 0;
    for (stats, writer) in threads.iter().zip(1..) {
        let read = reading.sequences.get(&id_of(writer)).map_or(0, |sequence| sequence.packets);
        let lost = summary.sequences.iter().find(|sequence| sequence.writer_id == writer);
        let lost = lost.map_or(0, |s| s.packets_evicted + s.packets_broken + s.chunks_malformed);
        let of_trace = read + lost + stats.writer.dropped;
        let added = of_trace.checked_sub(stats.writer.packets);
        carried += added
            .unwrap_or_else(|| panic!("{name}, writer {writer}: {of_trace} of {}", stats.writer.packets));
    }
    assert_eq!(carried, written.carried, "{name}");
    let dropped: u64 = threads.iter().map(|stats| stats.writer.dropped).sum();
    assert_eq!(summary.losses().packets_given_up, dropped);
    let losses = summary.losses();
    assert_eq!(
        (losses.chunks_malformed, losses.chunks_not_taken, losses.invalid_packets),
        (0, 0, 0),
        "{losses}"
    );
    (threads, summary, reading)
}

fn id_of(writer: u16) -> u64 {
    u64::from(sequence_id(Session::OWN_PRODUCER_ID, writer).get())
}

#[test]
fn nothing_is_lost_when_threads_wait_and_the_ring_is_large() {
    let (threads, summary, reading) =
        accounts("complete", Session::builder().ring(16 << 20).exhaustion(Exhaustion::Stall));
    assert!(summary.losses().is_nothing(), "{}", summary.losses());
    assert_eq!(reading.sequences.len(), threads.len());
    assert_eq!(reading.threads.len(), threads.len(), "each with its name");
    let rounds = u64::from(THREADS) * ROUNDS;
    assert_eq!([1, 2, 3, 4].map(|kind| reading.events[kind]), [3 * rounds, 3 * rounds, 2 * rounds, rounds]);
    assert_eq!((reading.flows.len() as u64, &reading.flows), (rounds, &reading.ended_flows));
    for sequence in reading.sequences.values() {
        assert_eq!((sequence.losses, sequence.unreadable), (0, 0));
        assert!(sequence.open.values().all(|open| *open == 0), "each slice has an end");
    }
}

#[test]
fn what_a_small_ring_overwrites_is_accounted_for_and_most_of_the_rest_can_be_read() {
    let (threads, summary, reading) =
        accounts("lapped", Session::builder().ring(64 << 10).exhaustion(Exhaustion::Stall));
    let evicted: u64 = summary.sequences.iter().map(|sequence| sequence.packets_evicted).sum();
    let sum = |count: fn(&Sequence) -> u64| reading.sequences.values().map(count).sum::<u64>();
    assert!(evicted > sum(|sequence| sequence.packets));
    assert!(reading.sequences.values().all(|sequence| sequence.losses > 0));
    for (id, sequence) in &reading.sequences {
        let info = summary.sequences.iter().find(|info| id_of(info.writer_id) == *id).expect("it is known");
        assert!(sequence.unreadable == 0 || info.packets_broken > 0, "{info:?}");
    }
    // One for each quarter of the ring at least, and it has lapped a few times.
    assert!(threads.iter().map(|stats| stats.states).sum::<u32>() > 16);
}

#[test]
fn what_threads_drop_is_accounted_for() {
    // Half of the threads have a chunk.
    let (threads, summary, _) = accounts("dropped", Session::builder().ring(16 << 20).shared_memory(8 << 10));
    assert!(threads.iter().any(|stats| stats.writer.dropped > 0));
    assert!(summary.sequences.iter().all(|s| (s.packets_evicted, s.packets_broken) == (0, 0)));
}

/// What a reader makes of a trace.
#[derive(Default)]
struct Reading {
    sequences: BTreeMap<u64, Sequence>,
    /// Descriptors of tracks.
    tracks: HashMap<u64, Vec<u8>>,
    /// Names of threads, by their numbers.
    threads: BTreeMap<u64, Vec<u8>>,
    /// How many of each type.
    events: [u64; 5],
    flows: BTreeSet<u64>,
    ended_flows: BTreeSet<u64>,
}

/// What a reader knows of one writer.
#[derive(Default)]
struct Sequence {
    packets: u64,
    losses: u64,
    /// Packets that need a state which is lost.
    unreadable: u64,
    has_state: bool,
    names: HashMap<(u32, u64), Vec<u8>>,
    time: u64,
    unit: u64,
    track: u64,
    /// Slices that are open on each track.
    open: HashMap<u64, u64>,
}

impl Reading {
    fn of(trace: &Trace) -> Self {
        let mut reading = Self::default();
        let of_service = |packet: &&[u8]| number(packet, 10) == Some(1);
        trace.packets().filter(|packet| !of_service(packet)).for_each(|packet| reading.packet(packet));
        for mut track in reading.sequences.values().flat_map(|sequence| sequence.open.keys().copied()) {
            while track != 0 {
                let descriptor = reading.tracks.get(&track).expect("a track is described");
                track = number(descriptor, 5).unwrap_or(0);
            }
        }
        for descriptor in reading.tracks.values() {
            let Some(thread) = message(descriptor, 4) else { continue };
            let name = message(thread, 5).filter(|name| !name.is_empty()).expect("a thread has a name");
            let before = reading.threads.insert(number(thread, 2).expect("a number"), name.to_vec());
            assert_eq!(before, None, "two threads have a number");
        }
        let names: BTreeSet<_> = reading.threads.values().collect();
        assert_eq!(names.len(), reading.threads.len(), "two threads have a name");
        reading
    }

    fn packet(&mut self, packet: &[u8]) {
        let sequence = self.sequences.entry(number(packet, 10).expect("a sequence")).or_default();
        sequence.packets += 1;
        let begins_late = sequence.packets == 1 && number(packet, 87).is_none();
        if begins_late || number(packet, 42).is_some_and(|loss| loss != 0) {
            sequence.losses += 1;
            sequence.has_state = false;
            sequence.open.clear();
        }
        let flags = number(packet, 13).unwrap_or(0);
        if flags & 1 != 0 {
            sequence.begin_state(packet);
        }
        if let Some(track) = message(packet, 60) {
            let before = self.tracks.insert(number(track, 1).expect("a number"), track.to_vec());
            assert!(before.is_none_or(|before| before == track), "a track is described in two ways");
        }
        if flags & 2 != 0 && !sequence.has_state {
            sequence.unreadable += 1;
            return;
        }
        for field in message(packet, 12).map(fields).unwrap_or_default() {
            let Field::Bytes(kind, entry) = field else { panic!("an interned name is a message") };
            let name = message(entry, 2).filter(|name| !name.is_empty()).expect("a name has a text");
            let before = sequence.names.insert((kind, number(entry, 1).expect("a number")), name.to_vec());
            assert_eq!(before, None, "a name is written once in a state");
        }
        if let Some(event) = message(packet, 11) {
            sequence.time += number(packet, 8).expect("an event has a time") * sequence.unit;
            self.event(number(packet, 10).expect("a sequence"), event);
        }
    }

    fn event(&mut self, sequence: u64, event: &[u8]) {
        let sequence = self.sequences.get_mut(&sequence).expect("it is known");
        let kind = number(event, 9).expect("a type");
        self.events[kind as usize] += 1;
        let track = number(event, 11).unwrap_or(sequence.track);
        let open = sequence.open.entry(track).or_default();
        match kind {
            1 => *open += 1,
            2 if sequence.losses == 0 => *open = open.checked_sub(1).expect("a slice that ends has begun"),
            2 => *open = open.saturating_sub(1),
            4 => {
                assert!(number(event, 30).is_some(), "a counter has a value");
                assert!(message(&self.tracks[&track], 8).is_some(), "a counter's track is one");
            }
            _ => {}
        }
        if kind == 1 || kind == 3 {
            let is_named = number(event, 10).map(|iid| sequence.names.contains_key(&(2, iid)));
            assert!(is_named.unwrap_or_else(|| message(event, 23).is_some()), "its name is known");
        }
        for field in fields(event) {
            match field {
                Field::Number(3, iid) => {
                    assert!(sequence.names.contains_key(&(1, iid)), "a category is known")
                }
                Field::Bytes(4, argument) => {
                    let is_known = number(argument, 1).map(|iid| sequence.names.contains_key(&(3, iid)));
                    assert!(is_known.unwrap_or_else(|| message(argument, 10).is_some()), "a key is known");
                }
                Field::Number(47, flow) => _ = self.flows.insert(flow),
                Field::Number(48, flow) => _ = self.ended_flows.insert(flow),
                _ => {}
            }
        }
    }
}

impl Sequence {
    /// A state begins: its clock, its track, and no names.
    fn begin_state(&mut self, packet: &[u8]) {
        let snapshot = message(packet, 6).expect("a state begins with its clock");
        assert!(number(snapshot, 2).is_some(), "it says which clock is the trace's");
        let clock = fields(snapshot).into_iter().find_map(|field| match field {
            Field::Bytes(1, clock) if number(clock, 1) >= Some(64) => Some(clock),
            _ => None,
        });
        let clock = clock.expect("a clock of its own");
        self.unit = number(clock, 4).unwrap_or(1);
        let time = number(clock, 2).expect("a time") * self.unit;
        // The start is rounded to the clock's unit.
        assert!(time + self.unit >= self.time, "time goes back by {} ns", self.time - time);
        self.time = time;
        let defaults = message(packet, 59).and_then(|defaults| message(defaults, 11)).expect("defaults");
        self.track = number(defaults, 11).expect("a track");
        self.names.clear();
        self.has_state = true;
    }
}
