//! The oven's trace in regions of several sizes: the tables in docs/firmware-budgets.md, measured.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use tracebuf::inplace;
use tracebuf::producer::Exhaustion;
use tracebuf::producer::track_event::{Clock, Tracer, TracerConfig, Track, Unit};
use tracebuf_embedded::recorder::{Inbox, RingRecorder, Storage, state_every};
use tracebuf_firmware::oven::{CONTROL, MAIN, POWER, SENSOR, TEMPERATURE};
use tracebuf_firmware::oven::{Controller, Oven, Program, Sensor};

/// Microseconds, for a test that is one thread.
struct Micros<'a>(&'a AtomicU64);

impl Clock for Micros<'_> {
    fn now(&self) -> u64 {
        self.0.fetch_add(10, Relaxed) + 10
    }
}

/// What a packet says that matters here.
#[derive(Default)]
struct Said {
    cleared: bool,
    event: bool,
    time: u64,
    start: Option<u64>,
}

/// A packet's fields, by number: varints as they are, of the others what is in them.
fn fields(mut bytes: &[u8]) -> Vec<(u64, u64, &[u8])> {
    let varint = |bytes: &mut &[u8]| {
        let mut value = 0;
        for shift in (0..).step_by(7) {
            let (byte, rest) = bytes.split_first().expect("a whole varint");
            *bytes = rest;
            value |= u64::from(byte & 0x7F) << shift;
            if byte & 0x80 == 0 {
                break;
            }
        }
        value
    };
    let mut found = Vec::new();
    while !bytes.is_empty() {
        let tag = varint(&mut bytes);
        let value = varint(&mut bytes);
        let (inside, rest) = if tag & 7 == 2 { bytes.split_at(value as usize) } else { (&[][..], bytes) };
        assert!(matches!(tag & 7, 0 | 2), "wire type {}", tag & 7);
        bytes = rest;
        found.push((tag >> 3, value, inside));
    }
    found
}

fn said(packet: &[u8]) -> Said {
    let mut said = Said::default();
    for (number, value, inside) in fields(packet) {
        match number {
            8 => said.time = value,
            11 => said.event = true,
            13 => said.cleared = value & 1 != 0,
            // clock_snapshot, its first clock, its timestamp
            6 => said.start = fields(fields(inside)[0].2).iter().find(|field| field.0 == 2).map(|f| f.1),
            _ => {}
        }
    }
    said
}

/// What the oven's three writers record: the main loop's, the control loop's and the sensor's.
#[derive(Clone, Copy)]
enum Event {
    Begin(usize, &'static str),
    End(usize),
    Temperature(i32),
    Power(i32),
    /// The main loop goes on to what is rare.
    NewState,
    /// A turn of it is over.
    Turn,
}

/// Runs the oven until `until`, in microseconds.
fn run(micros: &AtomicU64, until: u64, mut record: impl FnMut(Event)) {
    let (mut oven, mut probe, mut controller, mut program) =
        (Oven::NEW, Sensor::NEW, Controller::default(), Program::NEW);
    let (mut temperature, mut measured) = (2_000, 2_000);
    record(Event::Begin(0, program.state().name()));
    let (mut next_control, mut next_sensor) = (4_000, 9_200);
    while next_control < until {
        if next_sensor <= next_control {
            micros.store(next_sensor, Relaxed);
            next_sensor += 9_200;
            record(Event::Begin(2, "sample"));
            record(Event::Begin(2, "filter"));
            measured = probe.sample(temperature);
            record(Event::End(2));
            record(Event::End(2));
            record(Event::Temperature(measured));
        } else {
            micros.store(next_control, Relaxed);
            next_control += 4_000;
            record(Event::Begin(1, "control"));
            let power = controller.step(measured, program.state().wanted());
            temperature = oven.step(power);
            record(Event::End(1));
            record(Event::Power(power));
            if let Some(state) = program.step(measured) {
                record(Event::End(0));
                record(Event::Begin(0, state.name()));
                record(Event::NewState);
            }
        }
        record(Event::Turn);
    }
}

/// Runs the oven until `until` over a region, then says how large the ring is, how many events in it can be decoded,
/// and how many milliseconds they span.
fn hold(bytes: usize, until: u64) -> (u64, u32, u64) {
    let (storage, inbox, micros) = (Storage::new(), Inbox::new(), AtomicU64::new(0));
    let mut region = vec![0; bytes / 8];
    let (producer, mut recorder) = RingRecorder::new(&mut region, &storage, &inbox).unwrap();
    let config = TracerConfig::new(1_000_000).unit_ns(1_000).state_every(state_every(bytes));
    let writers = [&MAIN, &CONTROL, &SENSOR].map(|track| -> Tracer<'_, _, 16, 4> {
        Tracer::with_tables(producer.writer(0, Exhaustion::Drop).unwrap(), Micros(&micros), track, config)
    });
    run(&micros, until, |event| match event {
        Event::Begin(writer, name) => writers[writer].track().begin(name),
        Event::End(writer) => writers[writer].track().end(),
        Event::Temperature(value) => writers[2].on(&TEMPERATURE).count(value.into()),
        Event::Power(value) => writers[1].on(&POWER).count(value.into()),
        Event::NewState => {
            writers[0].flush();
        }
        Event::Turn => {
            recorder.drain(&producer);
        }
    });
    recorder.scrape(&producer);
    decoded(&mut recorder)
}

/// The same in place, over a ring of 8 KiB: how many events are in it, and how many milliseconds they span.
fn hold_in_place(until: u64) -> (u32, u64) {
    let micros = AtomicU64::new(0);
    let ticks = || Micros(&micros).now() as u32;
    let region = inplace::Region::<32, 64, 32>::zeroed();
    let recorder = inplace::Recorder::new(&region, &ticks, 1_000_000);
    let writers = ["main loop", "control interrupt", "sensor interrupt"].map(|name| recorder.writer(name));
    run(&micros, until, |event| match event {
        Event::Begin(writer, name) => writers[writer].begin(name),
        Event::End(writer) => writers[writer].end(),
        Event::Temperature(value) => writers[2].count("temperature", value),
        Event::Power(value) => writers[1].count("power", value),
        Event::NewState | Event::Turn => {}
    });
    let dump: Vec<u8> = region.words().flat_map(u32::to_le_bytes).collect();
    let view = inplace::RegionView::find(&dump).expect("a region");
    assert_eq!((view.dropped(), view.unnamed()), (0, 0));
    // As the main loop rarely records, its chunk is old, and in no lap.
    let chunks = view.chunks().filter(|chunk| chunk.writer() != 0);
    let times: Vec<_> = chunks.flat_map(|chunk| chunk.records()).map(|record| record.unwrap().0).collect();
    let (first, last) = span(times.iter().copied());
    (times.len() as u32, (last - first) / 1_000)
}

/// How large the ring is, how many events in it can be decoded, and how many milliseconds they span.
fn decoded(recorder: &mut RingRecorder<'_>) -> (u64, u32, u64) {
    let ring = recorder.buffer().stats().buffer_size;
    let mut reader = recorder.buffer().read();
    let mut clocks = [None; 4];
    let (mut events, mut first, mut last) = (0, u64::MAX, 0);
    while let Some(packet) = reader.next_packet() {
        let said = said(&packet.slices().flatten().copied().collect::<Vec<_>>());
        let clock = &mut clocks[usize::from(packet.writer_id())];
        if said.cleared {
            *clock = said.start.map(|start| start / 1_000);
        }
        let Some(clock) = clock.as_mut().filter(|_| said.event) else { continue };
        *clock += said.time;
        events += 1;
        (first, last) = (first.min(*clock), last.max(*clock));
    }
    (ring, events, last.saturating_sub(first) / 1_000)
}

/// How many events of the tutorial's main loop, with no other writer, can be decoded in a region of 2 KiB after so many
/// slices with a counter's value in each.
fn hold_of_one_writer(slices: i64) -> u64 {
    static MAIN: Track<'static> = Track::thread(1, 1, "main loop");
    static LEVEL: Track<'static> = Track::counter("level", Unit::Count);
    let (storage, inbox, micros) = (Storage::new(), Inbox::new(), AtomicU64::new(0));
    let mut region = [0; 2 * 1024 / 8];
    let (producer, mut recorder) = RingRecorder::new(&mut region, &storage, &inbox).unwrap();
    let config = TracerConfig::new(1_000_000).unit_ns(1_000).state_every(state_every(2 * 1024));
    let writer = producer.writer(0, Exhaustion::Drop).unwrap();
    let main: Tracer<'_, _, 16, 4> = Tracer::with_tables(writer, Micros(&micros), &MAIN, config);
    for slice in 0..slices {
        main.track().slice("work", || main.on(&LEVEL).count(slice));
        recorder.drain(&producer);
    }
    recorder.scrape(&producer);
    decoded(&mut recorder).1.into()
}

/// The least and the most.
fn span(values: impl Iterator<Item = u64>) -> (u64, u64) {
    values.fold((u64::MAX, 0), |(least, most), value| (least.min(value), most.max(value)))
}

#[test]
fn the_page_says_what_regions_of_five_sizes_hold() {
    let page = include_str!("../../docs/firmware-budgets.md");
    let mut missing = Vec::new();
    for kib in [2, 4, 8, 16, 64] {
        // What is held depends on when states were written last: some moments.
        let moments: Vec<_> = (0..10).map(|i| hold(kib * 1024, 10_000_000 + i * 77_000)).collect();
        let ring = moments[0].0;
        let events = span(moments.iter().map(|moment| moment.1.into()));
        let millis = span(moments.iter().map(|moment| moment.2));
        let seconds = |millis: u64| millis as f64 / 1_000.0;
        let row = format!(
            "| {kib} KiB | {ring} | {}–{} | {:.2}–{:.2} |",
            events.0,
            events.1,
            seconds(millis.0),
            seconds(millis.1)
        );
        if !page.contains(&row) {
            missing.push(row);
        }
    }
    assert!(missing.is_empty(), "the page should say\n{}", missing.join("\n"));
}

#[test]
fn the_page_says_what_two_kib_hold_of_one_writer() {
    let (least, most) = span((1_000..1_060).map(hold_of_one_writer));
    let said = format!("main loop {least}–{most} events can be decoded");
    assert!(include_str!("../../docs/firmware-budgets.md").contains(&said), "the page should say {said}");
}

#[test]
fn what_eight_kib_hold_after_a_thousand_laps_is_what_they_held_after_some() {
    let (ring, events, millis) = hold(8 * 1024, 180_000_000);
    let (_, before, _) = hold(8 * 1024, 20_000_000);
    assert_eq!(ring, 5592);
    assert!(events * 10 > before * 8 && millis > 50, "{events} events in {millis} ms, before {before}");
}

#[test]
fn of_the_least_region_nothing_can_be_decoded_after_a_lap() {
    assert!((0..10).all(|i| hold(1176, 1_000_000 + i * 77_000).1 == 0));
}

/// Tonbandgerät says that an event takes it 7 bytes.
#[test]
fn a_ring_in_place_holds_more_than_one_of_seven_bytes_an_event_and_three_times_that_of_packets() {
    let moments: Vec<_> = (0..10).map(|i| hold_in_place(10_000_000 + i * 77_000)).collect();
    let events = span(moments.iter().map(|moment| moment.0.into()));
    let millis = span(moments.iter().map(|moment| moment.1));
    let packets = (0..10).map(|i| hold(8 * 1024, 10_000_000 + i * 77_000).1).max();
    assert!(events.0 >= 8 * 1024 / 7, "{events:?}");
    assert!(packets.is_some_and(|packets| events.0 >= 3 * u64::from(packets)), "{events:?} {packets:?}");
    let said = format!(
        "Recorded in place, a ring of 8 KiB holds {}–{} of these events, {:.2}–{:.2} seconds",
        events.0,
        events.1,
        millis.0 as f64 / 1_000.0,
        millis.1 as f64 / 1_000.0
    );
    let page = include_str!("../../docs/firmware-budgets.md").replace('\n', " ");
    assert!(page.contains(&said), "the page should say: {said}");
}
