//! The judge of `truth/` and `recorded/`: a replay's output against what the writers wrote.
//!
//! Invariants over all `read` and `readn` output in order; clones are held to the first three:
//!
//! - *intact*: every packet is byte for byte one that its writer wrote;
//! - *once*: no packet comes out twice;
//! - *fifo*: the packets of one writer come out in the order in which they were written;
//! - *noticed*: a packet that follows missing ones carries a loss mask;
//! - *truthful*: a packet that directly follows its predecessor carries none;
//! - *complete*: in classes that never wrap, every packet written comes out;
//! - *recovered*: in class `readmit`, what a commit brought again after an overwrite comes out.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use serde::Deserialize;

/// Classes whose buffers never overwrite: everything must come out.
const NEVER_WRAP: [&str; 3] = ["scrape", "race", "gaps"];

/// What the writers of a script wrote.
#[derive(Deserialize)]
pub(crate) struct Truth {
    class: String,
    /// For each writer (`PRODUCER/WRITER`) its packets in hex; `None` where it gave one up.
    packets: BTreeMap<String, Vec<Option<String>>>,
    /// For each writer the packets that must come out.
    #[serde(default)]
    must: BTreeMap<String, Vec<usize>>,
}

impl Truth {
    /// That it is of this class (those of `recorded` are all of one), and says what the class needs.
    pub(crate) fn check_class(&self, folder: &str, class: &str) -> Result<(), String> {
        let class = if folder == "recorded" { folder } else { class };
        if self.class != class {
            return Err(format!("the truth is of the class {}, not {class}", self.class));
        }
        if class == "readmit" && self.must.values().all(Vec::is_empty) {
            return Err("no packet has to come out that a commit brought again".to_owned());
        }
        Ok(())
    }
}

/// The judge's verdict.
pub(crate) struct Verdict {
    /// Packets read back, not counting clones.
    pub(crate) seen: usize,
    /// Packets written.
    pub(crate) written: usize,
    violations: BTreeMap<&'static str, Vec<String>>,
}

impl Verdict {
    /// The first violation of each invariant, if there is any.
    pub(crate) fn result(&self) -> Result<(), String> {
        if self.violations.is_empty() {
            return Ok(());
        }
        let lines = self.violations.iter().map(|(invariant, all)| {
            format!("{invariant}: {} violations; first: {}", all.len(), all.first().map_or("", |s| s))
        });
        let lines: Vec<String> = lines.collect();
        Err(format!("{}\n{} of {} packets read back", lines.join("\n"), self.seen, self.written))
    }

    /// The invariants that do not hold.
    pub(crate) fn broken(&self) -> Vec<&'static str> {
        self.violations.keys().copied().collect()
    }

    fn fail(&mut self, invariant: &'static str, message: String) {
        self.violations.entry(invariant).or_default().push(message);
    }
}

/// A packet line of the output.
#[derive(Clone, Copy)]
struct Emitted<'a> {
    line: usize,
    loss: u32,
    hex: &'a str,
}

/// One stream per writer for the reads (without clones), and one per writer and clone.
type Streams<'a> = BTreeMap<(String, Option<usize>), Vec<Emitted<'a>>>;

/// Judges the output of a replay.
pub(crate) fn judge(truth: &Truth, output: &str) -> Verdict {
    let written = truth.packets.values().flatten().filter(|packet| packet.is_some()).count();
    let mut verdict = Verdict { seen: 0, written, violations: BTreeMap::new() };
    let (mut streams, mut clone) = (Streams::new(), 0);
    for (line, text) in (1..).zip(output.lines()) {
        let fields: Vec<&str> = text.split_ascii_whitespace().collect();
        match fields.as_slice() {
            ["cend", ..] => clone += 1,
            [kind @ ("pkt" | "cpkt"), producer, writer, _, _, loss, _, hex, ..] => {
                let of_clone = (*kind == "cpkt").then_some(clone);
                verdict.seen += usize::from(of_clone.is_none());
                let loss = loss.parse().expect("a loss mask");
                let stream = streams.entry((format!("{producer}/{writer}"), of_clone)).or_default();
                stream.push(Emitted { line, loss, hex });
            }
            _ => {}
        }
    }
    let mut came: HashMap<&str, BTreeSet<usize>> = HashMap::new();
    for ((writer, of_clone), stream) in &streams {
        let packets = truth.packets.get(writer).map_or(&[][..], Vec::as_slice);
        let mut judge = StreamJudge::new(writer, packets, of_clone.is_none(), &mut verdict);
        judge.run(stream);
        if of_clone.is_none() {
            came.insert(writer, judge.matched);
        }
    }
    for (writer, must) in &truth.must {
        let here = came.get(writer.as_str());
        let gone: Vec<_> = must.iter().filter(|i| !here.is_some_and(|came| came.contains(i))).collect();
        if let Some((first, rest)) = gone.split_first() {
            let message = format!("{writer}: packet {first} and {} more did not come out", rest.len());
            verdict.fail("recovered", message);
        }
    }
    if NEVER_WRAP.contains(&truth.class.as_str()) && verdict.seen != written {
        verdict.fail("complete", format!("{} of {written} packets came out", verdict.seen));
    }
    verdict
}

/// Judges one writer's packets.
struct StreamJudge<'a> {
    writer: &'a str,
    written: &'a [Option<String>],
    /// Where in `written` each packet occurs.
    places: HashMap<&'a str, Vec<usize>>,
    /// Whether loss masks are judged too.
    masks: bool,
    /// How many packets of `written` have been passed: the last one that came out and all before it.
    next: usize,
    matched: BTreeSet<usize>,
    verdict: &'a mut Verdict,
}

impl<'a> StreamJudge<'a> {
    fn new(writer: &'a str, written: &'a [Option<String>], masks: bool, verdict: &'a mut Verdict) -> Self {
        let mut places: HashMap<&str, Vec<usize>> = HashMap::new();
        for (place, packet) in written.iter().enumerate() {
            if let Some(hex) = packet {
                places.entry(hex).or_default().push(place);
            }
        }
        Self { writer, written, places, masks, next: 0, matched: BTreeSet::new(), verdict }
    }

    /// Splits the stream into runs, each a packet and all that follow it without a loss mask: nothing may be missing
    /// inside a run.
    fn run(&mut self, mut stream: &[Emitted<'_>]) {
        while let Some((_, rest)) = stream.split_first() {
            let length = 1 + rest.iter().take_while(|packet| packet.loss == 0).count();
            let (run, behind) = stream.split_at(length);
            self.judge_run(run);
            stream = behind;
        }
    }

    fn judge_run(&mut self, run: &[Emitted<'_>]) {
        let first = run[0];
        let places = self.places.get(first.hex).map_or(&[][..], Vec::as_slice);
        let ahead: Vec<usize> = places.iter().copied().filter(|&place| place >= self.next).collect();
        let fits = |place: &usize| {
            let there = self.written.get(*place..*place + run.len());
            there.is_some_and(|there| there.iter().zip(run).all(|(w, e)| w.as_deref() == Some(e.hex)))
        };
        // Equal packets may fit in several places: a flagged one prefers a place after a hole.
        let behind_a_hole = |place: &&usize| **place > self.next || first.loss == 0;
        let mut fitting = ahead.iter().filter(|place| fits(place));
        let start = fitting.clone().find(behind_a_hole).or_else(|| fitting.next()).copied();
        let Some(start) = start else { return self.judge_one_by_one(run) };
        self.check_mask(first, start);
        self.next = start + run.len();
        self.matched.extend(start..self.next);
    }

    /// For a run that is not one contiguous stretch of what was written: says what is wrong with each packet.
    fn judge_one_by_one(&mut self, run: &[Emitted<'_>]) {
        let writer = self.writer;
        for &packet in run {
            let line = packet.line;
            let Some(places) = self.places.get(packet.hex) else {
                let start: String = packet.hex.chars().take(40).collect();
                let message = format!("line {line}: {writer} emitted a packet never written: {start}…");
                self.verdict.fail("intact", message);
                continue;
            };
            if let Some(&place) = places.iter().find(|&&place| place >= self.next) {
                self.check_mask(packet, place);
                self.next = place + 1;
                self.matched.insert(place);
            } else {
                let last = places.last().copied().unwrap_or_default();
                let invariant = if last + 1 == self.next { "once" } else { "fifo" };
                let before = self.next as i64 - 1;
                let message = format!("line {line}: {writer}: packet {last} after {before}");
                self.verdict.fail(invariant, message);
            }
        }
    }

    fn check_mask(&mut self, packet: Emitted<'_>, place: usize) {
        let Emitted { line, loss, .. } = packet;
        let (writer, next) = (self.writer, self.next);
        if !self.masks {
            return;
        }
        if loss != 0 && place == next {
            let message = format!("line {line}: {writer}: packet {place} flagged {loss}, nothing is missing");
            self.verdict.fail("truthful", message);
        }
        if loss == 0 && place > next {
            let last = place - 1;
            let message = format!("line {line}: {writer}: packets {next}..{last} missing, not flagged");
            self.verdict.fail("noticed", message);
        }
    }
}
