//! Slices, instants and counters.

use crate::input::Input;
use crate::observe::debug;
use core::hint::black_box;
use tracebuf::producer::TraceWriter;
use tracebuf::producer::track_event::{
    Clock, Event, Extended32, LogMessage, LogPriority, OnTrack, Tracer, TracerConfig, Track, Unit, Value,
};

static TIMER: Extended32 = Extended32::new();

static PROCESS: Track<'static> = Track::process(1, "process");
static THREAD: Track<'static> = Track::thread(1, 2, "thread").within(&PROCESS);
static CUSTOM: Track<'static> = Track::custom("custom").within(&THREAD);
static COUNTER: Track<'static> = Track::counter("counter", Unit::Count).within(&CUSTOM);

/// As a timer's register: a different value each time.
fn now() -> u64 {
    TIMER.extend(|| black_box(1))
}

pub(crate) fn all(input: &mut Input<'static>, writer: TraceWriter<'_>) {
    let config =
        TracerConfig::new(input.u64()).unit_ns(input.u32()).clock_id(input.u32()).state_every(input.u32());
    let process = Track::process(input.u32(), input.text()).within(&PROCESS).uuid();
    let thread = Track::thread(input.u32(), input.u32(), input.text()).uuid();
    debug((config, process, thread, Track::custom(input.text()).uuid()));
    let unit = match input.u16() & 3 {
        0 => Unit::Bytes,
        1 => Unit::Count,
        2 => Unit::Nanoseconds,
        _ => Unit::Named(input.text()),
    };
    black_box(Track::counter(input.text(), unit).uuid());
    let tracer = Tracer::new(writer, now, &THREAD, config);
    while input.bool() {
        slices(input, tracer.track());
        slices(input, tracer.on(&CUSTOM));
        tracer.on(&Track::custom(input.text()).numbered(input.u64())).instant(input.text());
        tracer.on(&COUNTER).count(input.u64() as i64);
        tracer.on(&COUNTER).measure(f64::from_bits(input.u64()));
        let (at, counter) = (tracer.on(&CUSTOM).at(input.u64()), tracer.on(&COUNTER).at(input.u64()));
        at.begin(input.text());
        at.begin_with(input.text(), |event| details(input, event));
        at.end();
        at.end_with(|event| details(input, event));
        at.instant(input.text());
        at.instant_with(input.text(), |event| details(input, event));
        counter.count(input.u64() as i64);
        counter.measure(f64::from_bits(input.u64()));
    }
    log_lines(input, &tracer);
    debug((tracer.flush(), tracer.stats(), tracer.reentered()));
    black_box((tracer.replace_owed_ends(tracer.owed_ends()), tracer.make_up_for_ends()));
}

fn slices<'a>(input: &mut Input<'static>, on: OnTrack<'_, 'a, impl Clock>) {
    black_box(on.slice(input.text(), || black_box(1)));
    black_box(on.slice_in(input.text(), input.text(), || black_box(1)));
    let (name, number) = (input.text(), input.u32());
    black_box(on.slice_with(name, |event| details(input, event), || black_box(number)));
    drop(on.enter(input.text()));
    drop(on.enter_in(input.text(), input.text()));
    drop(on.enter_with(input.text(), |event| details(input, event)));
    if on.enter(input.text()).detach() {
        on.attach().end();
    }
    on.enter(input.text()).end_with(|event| details(input, event));
    on.begin(input.text());
    on.begin_in(input.text(), input.text());
    on.begin_with(input.text(), |event| details(input, event));
    on.end();
    on.end_with(|event| details(input, event));
    on.instant(input.text());
    on.instant_in(input.text(), input.text());
    on.instant_with(input.text(), |event| details(input, event));
}

fn log_lines(input: &mut Input<'static>, tracer: &Tracer<'_, impl Clock>) {
    let line = LogMessage::new(LogPriority::Warn, input.u32());
    tracer.log(input.text(), line.source_location(input.text(), input.u32()));
    tracer.log_with(input.text(), line, |event| details(input, event));
}

fn details<'x, 'e, 'w, 'a>(
    input: &mut Input<'static>,
    event: &'x mut Event<'e, 'w, 'a>,
) -> &'x mut Event<'e, 'w, 'a> {
    let value = match input.u16() & 3 {
        0 => Value::from(input.u64()),
        1 => Value::from(input.u64() as i64),
        2 => Value::from(input.bool()),
        _ => Value::from(input.text()),
    };
    let event = event
        .arg_fmt(input.text(), format_args!("{}", input.u32()))
        .arg(input.text(), value)
        .arg(input.text(), Value::Pointer(input.u64()));
    event.source_location(input.text(), input.u32());
    event.source_text(input.text(), input.u32()).category_text(input.text());
    event.category(input.text()).flow(input.u64()).end_flow(input.u64()).name(input.text())
}
