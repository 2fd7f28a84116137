//! Dumps of the firmware that records in place: what its log says was finished is in the ring.
//!
//! Of each writer, all that the ring must still have is there, and nothing else: in order, whole chunks of it, each event
//! with the content that its number implies and the time that the clock said. Then the recorder starts again over what
//! the dump has, as after a reset: all of it must still be there, and new events beside it.

use std::collections::BTreeMap;
use std::process::ExitCode;
use tracebuf::inplace::{ChunkView, Detail, Found, Record, Recorder, RegionView, Text, Value};
use tracebuf_analysis::LinkedNames;
use tracebuf_firmware::stops::{
    self, ACCOUNT, CHUNKS, ENTRIES, MAGIC, NAMES, POSITION, TEXT, Trace, WRITERS,
};

/// A writer's place in [`WRITERS`], the start, and the number of the chunk.
type Key = (usize, u32, u32);
/// The events of each chunk: their times, and what they say.
type Chunks = BTreeMap<Key, Vec<(u64, String)>>;

fn words(bytes: &[u8]) -> Vec<u32> {
    bytes.as_chunks().0.iter().map(|word| u32::from_le_bytes(*word)).collect()
}

/// A writer's log.
struct Account<'l>(&'l [u32]);

impl Account<'_> {
    fn finished(&self) -> u32 {
        self.0[0]
    }

    /// The events that are surely in the log: the oldest one may be being overwritten. Number, time, position.
    fn entries(&self) -> impl Iterator<Item = (u32, u64, u32)> + '_ {
        (self.finished().saturating_sub(ENTRIES as u32 - 1)..self.finished()).map(|number| {
            let at = 2 + 2 * (number as usize % ENTRIES);
            (number, u64::from(self.0[at]), self.0[at + 1])
        })
    }

    /// Whether it was stopped, or interrupted, between the time of an event and the log of it.
    fn is_within(&self) -> bool {
        self.entries().last().map_or(0, |entry| entry.1) != u64::from(self.0[1])
    }

    /// The number of the event of that time: the one that was not finished has the time that was read last.
    fn number_at(&self, time: u64) -> Option<u32> {
        let found = self.entries().find(|entry| entry.1 == time).map(|entry| entry.0);
        found.or_else(|| (time == u64::from(self.0[1])).then_some(self.finished()))
    }
}

/// What the event of a number says.
fn said(number: u32) -> String {
    let name = NAMES[number as usize / 8 % NAMES.len()];
    match number % 8 {
        0 => format!("begin {name}"),
        1 => format!("count level {number}"),
        2 => format!("count total {}", i64::from(number) << 32 | i64::from(!number)),
        3 => format!("number: {number}, flow {number}, instant mark"),
        4 => "end".into(),
        5 => "on device, instant elsewhere".into(),
        6 => format!("measure share {}", number as f32),
        _ => format!("text: {}, instant said", stops::text(number, &mut [0; TEXT])),
    }
}

fn lossy(text: Text<'_>) -> String {
    String::from_utf8_lossy(&text.bytes().collect::<Vec<_>>()).into_owned()
}

/// A name of the region or, if it has none of that number, of the program.
fn name(view: &RegionView<'_>, program: &LinkedNames, number: u32) -> Result<String, String> {
    let kept = view.name(number).and_then(|name| name.text).map(lossy);
    let linked = || program.text(number).map(|text| String::from_utf8_lossy(text).into_owned());
    kept.or_else(linked).ok_or(format!("no name {number}"))
}

/// A chunk's events. Details whose event was never finished must not be there: all of it is published at once.
fn events(
    view: &RegionView<'_>,
    program: &LinkedNames,
    chunk: &ChunkView<'_>,
) -> Result<Vec<(u64, String)>, String> {
    let (mut all, mut details) = (Vec::new(), String::new());
    for record in chunk.records() {
        let (time, record) = record.map_err(|error| error.to_string())?;
        let name = |number| name(view, program, number);
        let text = match record {
            Record::Detail(detail) => {
                details += &match detail {
                    Detail::Track(track) => format!("on {}, ", name(track)?),
                    Detail::Flow(flow) => format!("flow {flow}, "),
                    Detail::Arg(arg, Value::I32(value)) => format!("{}: {value}, ", name(arg)?),
                    Detail::Arg(arg, Value::Text(value)) => format!("{}: {}, ", name(arg)?, lossy(value)),
                    other => return Err(format!("a detail that was not recorded: {other:?}")),
                };
                continue;
            }
            Record::Begin { name: number } => format!("begin {}", name(number)?),
            Record::End => "end".into(),
            Record::Instant { name: number } => format!("instant {}", name(number)?),
            Record::Count { counter, value } => format!("count {} {value}", name(counter)?),
            Record::Measure { counter, value } => format!("measure {} {value}", name(counter)?),
            other => return Err(format!("an event that was not recorded: {other:?}")),
        };
        all.push((time, std::mem::take(&mut details) + &text));
    }
    if details.is_empty() { Ok(all) } else { Err(format!("details without their event: {details}")) }
}

/// All that is in the ring.
fn chunks(view: &RegionView<'_>, program: &LinkedNames) -> Result<Chunks, String> {
    if (view.dropped(), view.unnamed(), view.is_repaired()) != (0, 0, false) {
        return Err(format!("{} events were dropped, {} names", view.dropped(), view.unnamed()));
    }
    let mut all = Chunks::new();
    for chunk in view.chunks() {
        let track = name(view, program, chunk.track())?;
        let writer = WRITERS.iter().position(|known| *known == track).ok_or("a writer that there is not")?;
        let key = (writer, chunk.start(), chunk.number());
        if all.insert(key, events(view, program, &chunk)?).is_some() {
            return Err(format!("two chunks of {track} have the number {}", chunk.number()));
        }
    }
    Ok(all)
}

/// Compares one writer's chunks with its log; returns how many events had to be there.
fn compare(account: &Account<'_>, writer: usize, all: &Chunks, position: u32) -> Result<usize, String> {
    let mut there = Vec::new();
    let mut before: Option<(Key, u32)> = None;
    for (key, events) in all.iter().filter(|(key, _)| key.0 == writer) {
        for (time, event) in events {
            let number =
                account.number_at(*time).ok_or(format!("nothing was recorded at {time}: {event}"))?;
            if said(number) != *event {
                return Err(format!("event {number} is {event:?}, not {:?}", said(number)));
            }
            let follows = before.is_none_or(|(before_key, last)| {
                // Without a chunk that is missing between them, nothing may be.
                number == last + 1 || number > last && key.2 > before_key.2 + 1
            });
            if !follows {
                return Err(format!("event {number} behind {before:?}, in {key:?}"));
            }
            before = Some((*key, number));
            there.push(number);
        }
    }
    // A chunk stays until half a ring of places has been tried since it was completed: after all of its events.
    let must = account
        .entries()
        .filter(|(_, _, then)| position <= CHUNKS as u32 || position - then <= CHUNKS as u32 / 2);
    must.map(|(number, ..)| there.contains(&number).then_some(1).ok_or(format!("event {number} is missing")))
        .sum()
}

/// Starts again over a region, as it lies in memory, and records beside what was there.
fn restart(bytes: &[u8], program: &LinkedNames, before: &Chunks) -> Result<(), String> {
    let region = Trace::zeroed();
    if bytes.len() != size_of_val(&region) {
        return Err(format!("a region of {} bytes", bytes.len()));
    }
    let copy: Vec<u32> = words(bytes);
    // SAFETY: a region is words, and all of them may have any value; nobody else has this one, nor the copy.
    unsafe {
        std::ptr::copy_nonoverlapping(copy.as_ptr(), (&raw const region).cast_mut().cast(), copy.len())
    };
    let now = std::cell::Cell::new(0);
    let ticks = || {
        now.set(now.get() + 1);
        now.get()
    };
    let (recorder, found) = Recorder::attach_or_new(&region, &ticks, copy[3]);
    if found != Found::Start(2) {
        return Err(format!("{found:?} at a restart"));
    }
    let look = || {
        let dump: Vec<u8> = region.words().flat_map(u32::to_le_bytes).collect();
        chunks(&RegionView::find(&dump).ok_or("no region after a restart")?, program)
    };
    if look()? != *before {
        return Err("a restart has changed what was there".into());
    }
    let (writer, device) = (recorder.writer(WRITERS[0]), recorder.track("device", 1));
    (0..8).for_each(|number| stops::record(&writer, device, number));
    let all = look()?;
    let new: Vec<_> = all.iter().filter(|(key, _)| key.1 == 2).flat_map(|(_, events)| events).collect();
    if new.len() != 8 || !new.iter().zip(0..).all(|(event, number)| event.1 == said(number)) {
        return Err(format!("after a restart there are other events: {new:?}"));
    }
    // The new ones have taken a chunk or two.
    let lost = before.iter().filter(|(key, events)| all.get(key) != Some(events)).count();
    if lost > 2 { Err(format!("a restart has overwritten {lost} chunks")) } else { Ok(()) }
}

/// Events that had to be there, chunks, and which writers were within an event.
fn check(path: &str, program: &LinkedNames) -> Result<(usize, usize, [bool; WRITERS.len()]), String> {
    let dump = std::fs::read(path).map_err(|error| error.to_string())?;
    let view = RegionView::find(&dump);
    let log = dump.windows(MAGIC.len()).position(|window| window == MAGIC);
    let Some(log) = log else {
        return if view.is_none() {
            Ok((0, 0, [false; WRITERS.len()]))
        } else {
            Err("a region from nowhere".into())
        };
    };
    let log = words(&dump[log + MAGIC.len()..]);
    let accounts = || log.chunks_exact(ACCOUNT).take(WRITERS.len()).map(Account);
    let Some(view) = view else {
        let finished: u32 = accounts().map(|account| account.finished()).sum();
        return if finished == 0 { Ok((0, 0, [false; WRITERS.len()])) } else { Err("no region".into()) };
    };
    let region = dump.get(view.offset()..view.offset() + view.size()).ok_or("half a region")?;
    let all = chunks(&view, program)?;
    let position = words(region)[POSITION];
    let counted = accounts().zip(0..).map(|(account, writer)| {
        compare(&account, writer, &all, position).map_err(|why| format!("{}: {why}", WRITERS[writer]))
    });
    let must = counted.sum::<Result<usize, String>>()?;
    restart(region, program, &all)?;
    let mut within = [false; WRITERS.len()];
    within.iter_mut().zip(accounts()).for_each(|(within, account)| *within = account.is_within());
    Ok((must, all.len(), within))
}

/// Checks dumps of the program that comes first. The last line says how many, and what was in them.
pub(crate) fn check_all(mut paths: impl Iterator<Item = String>) -> ExitCode {
    let program = paths.next().unwrap_or_default();
    let program = match std::fs::read(&program).and_then(|elf| LinkedNames::of_program(&elf)) {
        Ok(names) => names,
        Err(error) => {
            eprintln!("{program}: {error}");
            return ExitCode::FAILURE;
        }
    };
    let (mut good, mut bad, mut events, mut most) = (0, 0, 0, 0);
    let (mut cut_short, mut deepest) = ([0; WRITERS.len()], 0);
    for path in paths {
        match check(&path, &program) {
            Ok((must, chunks, within)) => {
                good += 1;
                events += must;
                most = most.max(chunks);
                cut_short.iter_mut().zip(within).for_each(|(count, within)| *count += usize::from(within));
                deepest = deepest.max(within.into_iter().filter(|within| *within).count());
            }
            Err(why) => {
                eprintln!("{path}: {why}");
                bad += 1;
            }
        }
    }
    println!(
        "{good} dumps as they should be, {bad} not; {events} events had to be there, in up to {most} chunks; \
         cut short: {cut_short:?} events, up to {deepest} in a dump"
    );
    if bad > 0 || events == 0 || most != CHUNKS || deepest < 2 {
        ExitCode::FAILURE
    } else {
        ExitCode::SUCCESS
    }
}
