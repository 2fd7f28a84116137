//! Any calls in any order: what comes out is what was recorded, or is counted as lost.

use crate::event_reader::{Seen, read};
use crate::model::*;
use crate::track_events::Ticks;
use proptest::prelude::*;
use tracebuf::producer::track_event::*;
use tracebuf::producer::*;

static PROCESS: Track<'static> = Track::process(7, "the program");
static MAIN: Track<'static> = Track::thread(7, 8, "main").within(&PROCESS);
static GPU: Track<'static> = Track::custom("gpu").within(&MAIN);
static LOAD: Track<'static> = Track::counter("load", Unit::Bytes).within(&GPU);
static OTHER: Track<'static> =
    Track::custom("a track with a name that no small chunk has room for, so that it goes on");
/// The first is the tracer's own.
static TRACKS: [&Track<'static>; 4] = [&MAIN, &GPU, &LOAD, &OTHER];
/// More than the table of names holds.
const NAMES: [&str; 6] =
    ["a", "decode", "", "net", "draw", "a name as long as some that are made of paths: core/tests"];

#[derive(Clone, Debug)]
enum Call {
    Begin {
        track: usize,
        name: usize,
    },
    BeginIn {
        track: usize,
        name: usize,
        category: usize,
    },
    End {
        track: usize,
        args: usize,
    },
    Count {
        track: usize,
        value: i64,
    },
    Details {
        track: usize,
        name: usize,
        args: usize,
    },
    Log {
        name: usize,
        text: usize,
        args: usize,
    },
    Later(u64),
    Flush,
    Commit,
    Drain,
    Scrape,
    Clear,
    /// The writer ends; the next one has the same id, and may have written packets, and left one open, before it
    /// traces.
    Again {
        by_hand: usize,
        is_open: bool,
    },
}

fn calls() -> impl Strategy<Value = Call> {
    let (track, name) = (0..TRACKS.len(), 0..NAMES.len());
    let value = prop_oneof![-5..200i64, any::<i64>(), Just(1 << 21), Just((1 << 21) - 1)];
    let later = prop_oneof![0..300u64, 0..1u64 << 22, 0..1u64 << 34];
    prop_oneof![
        6 => (track.clone(), name.clone()).prop_map(|(track, name)| Call::Begin { track, name }),
        2 => (track.clone(), name.clone(), name.clone())
            .prop_map(|(track, name, category)| Call::BeginIn { track, name, category }),
        6 => (track.clone(), 0..3usize).prop_map(|(track, args)| Call::End { track, args }),
        3 => (track.clone(), value).prop_map(|(track, value)| Call::Count { track, value }),
        2 => (track, name.clone(), 0..4usize)
            .prop_map(|(track, name, args)| Call::Details { track, name, args }),
        2 => (name, 0..200usize, 0..3usize).prop_map(|(name, text, args)| Call::Log { name, text, args }),
        6 => later.prop_map(Call::Later),
        1 => Just(Call::Flush),
        1 => Just(Call::Commit),
        3 => Just(Call::Drain),
        1 => Just(Call::Scrape),
        1 => Just(Call::Clear),
        1 => (0..3usize, any::<bool>()).prop_map(|(by_hand, is_open)| Call::Again { by_hand, is_open }),
    ]
}

fn with_args<'x, 'e, 'w>(
    event: &'x mut Event<'e, 'w, 'static>,
    args: usize,
) -> &'x mut Event<'e, 'w, 'static> {
    (0..args).fold(event, |event, i| event.arg(NAMES[i + 1], "a value of some length"))
}

/// What the reader must see of these.
fn told(args: usize) -> Vec<String> {
    (0..args).map(|i| format!("{}: a value of some length", NAMES[i + 1])).collect()
}

/// Where lines come from, as the reader puts it.
const PLACE: &str = " main.rs:7";

/// What is seen where the table has no room for a place, or none is kept: unlike a name, it is then left out.
fn without_place(details: &[String]) -> Vec<String> {
    details.iter().map(|detail| detail.strip_suffix(PLACE).unwrap_or(detail).to_owned()).collect()
}

type SmallTracer = Tracer<'static, Ticks, 4, 2>;

struct World {
    model: &'static Model,
    producer: &'static Producer<'static>,
    ticks: Ticks,
    tracer: Option<SmallTracer>,
    /// What was recorded, and its details as the reader puts them.
    expected: Vec<(Seen, Vec<String>)>,
    /// The totals of all tracers that have ended.
    packets: u64,
    dropped: u64,
    skipped: u64,
}

impl World {
    fn new(chunks: u32, chunk_size: u32, pace: Pace) -> Self {
        let (model, producer) = chunk_a_page(chunks, chunk_size, pace);
        let mut world = World {
            model,
            producer,
            ticks: Ticks::default(),
            tracer: None,
            expected: vec![],
            packets: 0,
            dropped: 0,
            skipped: 0,
        };
        world.again(0, false);
        world
    }

    fn end(&mut self) {
        if let Some(tracer) = self.tracer.take() {
            let stats = tracer.stats();
            self.packets += stats.writer.packets;
            self.dropped += stats.writer.dropped;
            self.skipped += stats.skipped;
        }
    }

    fn again(&mut self, by_hand: usize, is_open: bool) {
        self.end();
        let mut writer = self.producer.writer(40, Exhaustion::Drop).expect("one of eight");
        assert_eq!(writer.id(), 1, "the id is free again");
        for _ in 0..by_hand {
            writer.packet().message(5).string(1, "by hand");
        }
        if is_open {
            let mut packet = writer.packet();
            packet.message(5).string(1, "left open");
            std::mem::forget(packet);
        }
        let config = TracerConfig::new(1_000_000_000).state_every(4096);
        self.tracer = Some(Tracer::with_tables(writer, self.ticks.clone(), &MAIN, config));
    }

    /// Notes what to expect of the event that is recorded next.
    fn expect(
        &mut self,
        (kind, track, name): (u64, usize, &str),
        text: Option<String>,
        details: Vec<String>,
    ) -> &SmallTracer {
        let (time, track, name) = (self.ticks.0.get(), TRACKS[track].uuid(), name.to_string());
        self.expected.push((Seen { time, kind, track, name, text, rest: vec![] }, details));
        self.tracer.as_ref().expect("it is made anew at once")
    }

    /// Records on a track.
    fn record(
        &mut self,
        (kind, track, name): (u64, usize, &str),
        details: Vec<String>,
        record: impl FnOnce(OnTrack<'_, 'static, Ticks, 4, 2>),
    ) {
        let tracer = self.expect((kind, track, name), None, details);
        record(if track == 0 { tracer.track() } else { tracer.on(TRACKS[track]) });
    }

    fn call(&mut self, call: &Call) {
        match *call {
            Call::Begin { track, name } => {
                self.record((1, track, NAMES[name]), vec![], |on| on.begin(NAMES[name]));
            }
            Call::BeginIn { track, name, category } => {
                self.record((1, track, NAMES[name]), vec![format!("in {}", NAMES[category])], |on| {
                    on.begin_in(NAMES[name], NAMES[category])
                });
            }
            Call::End { track, args: 0 } => self.record((2, track, ""), vec![], |on| on.end()),
            Call::End { track, args } => {
                self.record((2, track, ""), told(args), |on| on.end_with(|event| with_args(event, args)));
            }
            Call::Count { track, value } => {
                self.record((4, track, ""), vec![format!("counter {}", value as u64)], |on| on.count(value));
            }
            Call::Details { track, name, args } => {
                self.record((3, track, NAMES[name]), told(args), |on| {
                    on.instant_with(NAMES[name], |event| with_args(event, args));
                });
            }
            Call::Log { name, text, args } => {
                let text = "x".repeat(text);
                let details = [vec![format!("line 5{PLACE}")], told(args)].concat();
                let tracer = self.expect((3, 0, NAMES[name]), Some(text.clone()), details);
                let message = LogMessage::new(LogPriority::Warn, text).source_location("main.rs", 7);
                tracer.log_with(NAMES[name], message, |event| with_args(event, args));
            }
            Call::Later(ticks) => self.ticks.0.set(self.ticks.0.get() + ticks),
            Call::Flush => drop(self.tracer.as_ref().map(Tracer::flush)),
            Call::Commit => assert!(self.producer.commit(), "nobody else sends"),
            Call::Drain => self.model.drain(),
            Call::Scrape => self.model.scrape(),
            Call::Clear => self.producer.clear_incremental_state(),
            Call::Again { by_hand, is_open } => self.again(by_hand, is_open),
        }
    }

    /// Ends, compares what came out with what was recorded, and says how many events were lost.
    fn check(mut self) -> u64 {
        self.end();
        self.producer.commit();
        self.model.drain();
        let whole = self.model.packets(1).iter().flatten().count() as u64;
        assert_eq!(whole, self.packets - self.dropped, "packets that came out");
        let reader = read(self.model, 1);
        assert_eq!(reader.undecodable, 0);
        let mut recorded = self.expected.iter();
        for (seen, seen_details) in reader.seen.iter().zip(&reader.details) {
            // The details say all that the rest of the fields do.
            let is_it = |(recorded, details): &(Seen, Vec<String>)| {
                *seen == Seen { rest: seen.rest.clone(), ..recorded.clone() }
                    && (seen_details == details || *seen_details == without_place(details))
            };
            assert!(
                recorded.any(is_it),
                "{seen:?} with {seen_details:?} was not recorded, or before others that came out"
            );
        }
        let lost = (self.expected.len() - reader.seen.len()) as u64;
        assert!(lost <= self.dropped + self.skipped, "{lost} of {} and {}", self.dropped, self.skipped);
        lost
    }
}

fn cases() -> ProptestConfig {
    let cases = if cfg!(miri) { 2 } else { 300 };
    // The same in every run.
    let rng_seed = proptest::test_runner::RngSeed::Fixed(1);
    ProptestConfig { cases, rng_seed, failure_persistence: None, ..ProptestConfig::default() }
}

proptest! {
    #![proptest_config(cases())]

    #[test]
    fn with_a_service_that_is_quick_nothing_is_lost(
        words in 14..200u32,
        chunks in 3..12u32,
        calls in prop::collection::vec(calls(), 1..if cfg!(miri) { 20 } else { 150 }),
    ) {
        let mut world = World::new(chunks, words * 4, Pace::Prompt);
        calls.iter().for_each(|call| world.call(call));
        let lost = world.check();
        // Names and tracks are longer than two of the smallest chunks.
        prop_assert!(lost == 0 || !cfg!(feature = "patches"), "{lost} lost");
    }

    #[test]
    fn with_a_service_that_comes_now_and_then_what_is_lost_is_counted_and_the_rest_can_be_decoded(
        words in 14..100u32,
        chunks in 1..8u32,
        calls in prop::collection::vec(calls(), 1..if cfg!(miri) { 20 } else { 150 }),
    ) {
        let mut world = World::new(chunks, words * 4, Pace::Absent(0));
        calls.iter().for_each(|call| world.call(call));
        world.check();
    }
}
