//! What a trace says that a program recorded, in the form of `tracebuf_interop`.

use std::collections::{BTreeMap, HashMap};
use std::fmt::Write as _;

use tracebuf_interop::{round, text};

use crate::trace::{Field, Trace, fields, message, number};

/// The clock for which each packet gives the time since the one before.
const INCREMENTAL: u64 = 64;

/// What a writer of a program recorded.
#[derive(Default)]
pub(crate) struct Sequence {
    pub(crate) events: Vec<Event>,
    /// Packets of the program's own data source: thread, number and bytes of text.
    pub(crate) packets: Vec<Packet>,
    pub(crate) id: u64,
    /// Packets in all.
    pub(crate) count: u64,
    pub(crate) bytes: u64,
    /// Packets before which something is missing.
    pub(crate) losses: u64,
    state: Option<State>,
    after_loss: bool,
}

pub(crate) struct Event {
    /// Its line; `None` if the state that it needs was lost.
    pub(crate) line: Option<String>,
    /// Its boot time, likewise.
    pub(crate) time: Option<u64>,
    /// Whether something is missing between it and the one before.
    pub(crate) after_loss: bool,
}

#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Packet {
    pub(crate) thread: u64,
    pub(crate) number: u64,
    pub(crate) text: String,
    pub(crate) after_loss: bool,
}

/// What later packets refer to.
#[derive(Default)]
struct State {
    /// By the field of `InternedData` and the id.
    interned: HashMap<(u32, u64), String>,
    /// Names of tracks.
    tracks: HashMap<u64, String>,
    process: u64,
    default_clock: Option<u64>,
    time: u64,
    unit: u64,
}

/// Stands for a thread in the program's answers when it is asked to flush or stop; see there.
const NO_THREAD: u64 = 1000;

fn string(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).expect("text")
}

impl State {
    /// The state that a packet begins.
    fn begin(packet: &[u8]) -> Self {
        let mut state = Self { unit: 1, ..Self::default() };
        let defaults = message(packet, 59).unwrap_or_default();
        state.default_clock = number(defaults, 58);
        for field in message(packet, 6).map(fields).unwrap_or_default() {
            let Field::Bytes(1, clock) = field else { continue };
            if number(clock, 1) == Some(INCREMENTAL) {
                state.unit = number(clock, 4).unwrap_or(1);
                state.time = number(clock, 2).expect("a time") * state.unit;
            }
        }
        state
    }

    /// Takes in what a packet defines; returns its time.
    fn learn(&mut self, packet: &[u8]) -> Option<u64> {
        for field in message(packet, 12).map(fields).unwrap_or_default() {
            let Field::Bytes(kind, entry) = field else { continue };
            let name = message(entry, 2).map(string).expect("a name");
            self.interned.insert((kind, number(entry, 1).expect("a number")), name);
        }
        if let Some(track) = message(packet, 60) {
            let id = number(track, 1).expect("a track");
            if message(track, 3).is_some() {
                self.process = id;
            } else if let Some(name) = message(track, 2).or(message(track, 10)) {
                self.tracks.insert(id, string(name));
            }
        }
        let time = number(packet, 8)?;
        if number(packet, 58).or(self.default_clock) != Some(INCREMENTAL) {
            return Some(time);
        }
        self.time += time * self.unit;
        Some(self.time)
    }

    /// An event's line; `None` if it refers to something unknown.
    fn line(&self, event: &[u8]) -> Option<String> {
        let interned = |kind: u32, id: u64| self.interned.get(&(kind, id)).cloned();
        let sign = ["?", "+", "-", "!", "#"][number(event, 9)? as usize];
        let mut line = String::from(sign);
        if let Some(category) = number(event, 3) {
            let name = match message(event, 23) {
                Some(name) => string(name),
                None => interned(2, number(event, 10)?)?,
            };
            write!(line, "{}/{name}", interned(1, category)?).ok()?;
        }
        if let Some(track) = number(event, 11) {
            write!(line, " track={}", self.tracks.get(&track)?).ok()?;
        }
        let (mut linked, mut arguments) = (String::new(), String::new());
        for field in fields(event) {
            match field {
                Field::Number(30, value) => write!(linked, " value={}", value as i64).ok()?,
                Field::Number(44, value) => write!(linked, " value={}", f64::from_bits(value)).ok()?,
                Field::Number(47, flow) => write!(linked, " flow={}", flow ^ self.process).ok()?,
                Field::Number(48, flow) => write!(linked, " end={}", flow ^ self.process).ok()?,
                Field::Bytes(4, argument) => {
                    let name = interned(3, number(argument, 1)?)?;
                    match (number(argument, 3), message(argument, 6)) {
                        (Some(value), _) => write!(arguments, " {name}={value}").ok()?,
                        (None, value) => write!(arguments, " {name}={}", string(value?)).ok()?,
                    }
                }
                _ => {}
            }
        }
        Some(line + &linked + &arguments)
    }
}

impl Sequence {
    fn read(&mut self, packet: &[u8]) {
        self.id = number(packet, 10).expect("a sequence");
        self.count += 1;
        self.bytes += packet.len() as u64;
        // Perfetto's service always says so for a sequence's first packet.
        if number(packet, 42).is_some_and(|loss| loss != 0) && number(packet, 87).is_none() {
            (self.state, self.after_loss) = (None, true);
            self.losses += 1;
        }
        if number(packet, 13).is_some_and(|flags| flags & 1 != 0) {
            self.state = Some(State::begin(packet));
        }
        let time = self.state.as_mut().and_then(|state| state.learn(packet));
        if let Some(event) = message(packet, 11) {
            let line = self.state.as_ref().and_then(|state| state.line(event));
            let after_loss = std::mem::take(&mut self.after_loss);
            self.events.push(Event { line, time, after_loss });
        }
        if let Some(event) = message(packet, 900) {
            let (thread, number) = (number(event, 3).expect("a thread"), number(event, 2).expect("a number"));
            let text = string(message(event, 1).expect("a text"));
            let after_loss = std::mem::take(&mut self.after_loss);
            self.packets.push(Packet { thread, number, text, after_loss });
        }
    }

    pub(crate) fn lines(&self) -> impl Iterator<Item = &str> {
        self.events.iter().filter_map(|event| event.line.as_deref())
    }

    /// Whose thread it is; `None` if it has no readable events.
    pub(crate) fn thread(&self) -> Option<u64> {
        // Counters do not say.
        let thread = self.lines().find_map(|line| line.split("thread=").nth(1))?.split(' ').next()?;
        Some(thread.parse().expect("a number"))
    }

    /// Checks for all events of these rounds, in order and nothing else.
    pub(crate) fn assert_is(&self, rounds: std::ops::Range<u64>, categories: &[&str]) {
        let thread = self.thread().expect("events");
        let expected = rounds.flat_map(|number| round(thread, number, categories));
        assert_same(self.lines(), expected);
        assert!(self.events.iter().all(|event| event.line.is_some() && !event.after_loss));
    }

    /// Checks for rounds from the first on, in order and nothing else, the last of them perhaps in part. After a loss
    /// nothing can be read. Returns how many events there are before one.
    pub(crate) fn assert_begins_with_rounds(&self, categories: &[&str]) -> usize {
        let thread = self.thread().expect("events");
        let count = self.events.iter().take_while(|event| !event.after_loss).count();
        assert_eq!(count, self.lines().count(), "those that can be read");
        let expected = (0..).flat_map(|number| round(thread, number, categories)).take(count);
        assert_same(self.lines(), expected);
        count
    }

    /// Checks that the threads' packets have the expected texts.
    pub(crate) fn assert_packets_are_whole(&self) {
        for packet in self.packets.iter().filter(|packet| packet.thread < NO_THREAD) {
            assert!(packet.text == text(packet.number, packet.text.len()), "packet {}", packet.number);
        }
    }

    /// Checks that events are in order, and between the times.
    pub(crate) fn assert_times(&self, since: u64, until: u64) {
        let times: Vec<_> = self.events.iter().filter_map(|event| event.time).collect();
        assert!(times.is_sorted());
        let (first, last) = (times[0], times[times.len() - 1]);
        assert!(since <= first && last <= until, "{since} <= {first}, {last} <= {until}");
    }
}

/// Reports the first difference only, not all lines.
pub(crate) fn assert_same<'a>(lines: impl Iterator<Item = &'a str>, expected: impl Iterator<Item = String>) {
    let (mut lines, mut expected, mut at) = (lines, expected, 0);
    loop {
        let (line, wanted) = (lines.next(), expected.next());
        let shown = |line: Option<&str>| line.map(|line| line.chars().take(200).collect::<String>());
        assert!(
            line == wanted.as_deref(),
            "line {at}: {:?}, not {:?}",
            shown(line),
            shown(wanted.as_deref())
        );
        if wanted.is_none() {
            return;
        }
        at += 1;
    }
}

/// The sequences of a process, by their numbers; each packet says whose it is. Perfetto's own service, if it is in the
/// process, says 0.
pub(crate) fn sequences_of(trace: &Trace, pid: u64) -> BTreeMap<u64, Sequence> {
    // SAFETY: no condition.
    let uid = u64::from(unsafe { libc::getuid() });
    let mut sequences = BTreeMap::<u64, Sequence>::new();
    for packet in trace.packets().filter(|packet| number(packet, 79) == Some(pid)) {
        assert_eq!(number(packet, 3), Some(uid));
        sequences.entry(number(packet, 10).expect("a sequence")).or_default().read(packet);
    }
    sequences
}

/// The sequences with events, by the threads that recorded them.
pub(crate) fn threads_of(trace: &Trace, pid: u64) -> BTreeMap<u64, Sequence> {
    let mut threads = BTreeMap::new();
    for (_, sequence) in sequences_of(trace, pid) {
        if let Some(thread) = sequence.thread() {
            assert!(threads.insert(thread, sequence).is_none(), "two sequences of thread {thread}");
        }
    }
    threads
}
