//! Clocks of a trace, and times of one as times of another, by Perfetto's rules.

use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};

use tracebuf::proto::PacketView;
use tracebuf::proto::fields::{builtin_clock, clock, clock_snapshot};
use tracebuf::proto::reader::number;

/// A clock: everybody's, of sequence 0, or a sequence's own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct ClockId {
    sequence: u64,
    id: u64,
}

impl ClockId {
    /// The clock of this number, as a packet of the sequence says it; `None` if it is the own clock of no sequence.
    pub(super) fn of(sequence: u64, id: u64) -> Option<Self> {
        let is_own = (builtin_clock::MAX_ID + 1..128).contains(&id);
        if is_own && sequence == 0 {
            None
        } else {
            Some(Self { sequence: if is_own { sequence } else { 0 }, id })
        }
    }

    pub(super) const fn builtin(id: u64) -> Self {
        Self { sequence: 0, id }
    }
}

/// How a clock counts, and the last time of one that counts from the time before.
#[derive(Clone, Copy, Debug)]
struct Domain {
    unit: i64,
    is_incremental: bool,
    last: i64,
}

/// Snapshots of the same clocks: a row for each, in order, with a time of each clock.
#[derive(Debug)]
struct Snapshots {
    clocks: Vec<ClockId>,
    rows: Vec<Vec<i64>>,
}

/// A step from one clock to another: which snapshots, and the columns of both.
#[derive(Clone, Copy, Debug)]
struct Step {
    snapshots: usize,
    from: usize,
    to: usize,
}

/// As many steps at most lead from one clock to another.
const MAX_STEPS: usize = 4;

#[derive(Debug)]
pub(super) struct Clocks {
    domains: HashMap<ClockId, Domain>,
    kinds: Vec<Snapshots>,
    kind_of: HashMap<Vec<ClockId>, usize>,
    /// Snapshots that have a clock.
    having: HashMap<ClockId, Vec<usize>>,
    /// Clocks that have gone back: their times may be of two moments.
    gone_back: HashSet<ClockId>,
    /// The clock of the trace's times. It is settled when the first time is converted.
    trace: ClockId,
    is_settled: bool,
    /// The clock of packets that name none.
    pub(super) default: Option<ClockId>,
    /// Ways to the trace's clock.
    ways: HashMap<ClockId, Vec<Step>>,
}

impl Default for Clocks {
    fn default() -> Self {
        Self {
            domains: HashMap::new(),
            kinds: Vec::new(),
            kind_of: HashMap::new(),
            having: HashMap::new(),
            gone_back: HashSet::new(),
            trace: ClockId::builtin(builtin_clock::BOOTTIME),
            is_settled: false,
            default: None,
            ways: HashMap::new(),
        }
    }
}

impl Clocks {
    /// Takes up a packet's snapshot. `None`: it contradicts those before it, or itself.
    pub(super) fn add(&mut self, packet: &PacketView<'_>) -> Option<()> {
        let mut read = Vec::new();
        for told in packet.clocks() {
            let id = ClockId::of(packet.sequence_id, number(told, clock::CLOCK_ID).unwrap_or(0))?;
            let unit = number(told, clock::UNIT_MULTIPLIER_NS).filter(|unit| *unit != 0).unwrap_or(1) as i64;
            let is_incremental = number(told, clock::IS_INCREMENTAL).is_some_and(|is_so| is_so != 0);
            let time = (number(told, clock::TIMESTAMP).unwrap_or(0) as i64).wrapping_mul(unit);
            read.push((id, Domain { unit, is_incremental, last: time }));
        }
        let primary = number(packet.snapshot, clock_snapshot::PRIMARY_TRACE_CLOCK).filter(|id| *id != 0);
        let boottime = ClockId::builtin(builtin_clock::BOOTTIME);
        let has_boottime = read.iter().any(|(id, _)| *id == boottime);
        if let Some(clock) = primary.map(ClockId::builtin).or(has_boottime.then_some(boottime)) {
            self.default = Some(clock);
            if !self.is_settled {
                self.trace = clock;
                self.ways.clear();
            }
        }
        self.take(&read)
    }

    fn take(&mut self, read: &[(ClockId, Domain)]) -> Option<()> {
        let clocks: Vec<ClockId> = read.iter().map(|(id, _)| *id).collect();
        let kind = self.kind_of.get(&clocks).copied();
        let before = kind.and_then(|kind| self.kinds.get(kind)?.rows.last());
        let mut gone_back = Vec::new();
        for (column, (id, now)) in read.iter().enumerate() {
            let is_same =
                |known: &Domain| (known.unit, known.is_incremental) == (now.unit, now.is_incremental);
            let is_valid = match self.domains.get(id) {
                Some(known) => is_same(known),
                None => !now.is_incremental || id.sequence != 0,
            };
            let is_back = before.is_some_and(|row| row.get(column).is_some_and(|last| now.last < *last));
            let is_twice = clocks.iter().filter(|other| *other == id).count() > 1;
            if !is_valid || is_twice || *id == self.trace && (is_back || now.unit != 1) {
                return None;
            }
            if is_back {
                gone_back.push(*id);
            }
        }
        self.domains.extend(read.iter().copied());
        if !gone_back.is_empty() {
            self.gone_back.extend(gone_back);
            self.ways.clear();
        }
        let kind = kind.unwrap_or_else(|| {
            let kind = self.kinds.len();
            for id in &clocks {
                self.having.entry(*id).or_default().push(kind);
            }
            self.kind_of.insert(clocks.clone(), kind);
            self.kinds.push(Snapshots { clocks, rows: Vec::new() });
            kind
        });
        self.kinds.get_mut(kind)?.rows.push(read.iter().map(|(_, now)| now.last).collect());
        Some(())
    }

    /// The time of the trace's clock when another showed `ticks`; `None` if that is not known yet.
    pub(super) fn convert(&mut self, clock: ClockId, ticks: i64) -> Option<i64> {
        self.is_settled = true;
        if clock == self.trace {
            return Some(ticks);
        }
        if !self.ways.contains_key(&clock) {
            let way = self.way(clock, self.trace)?;
            self.ways.insert(clock, way);
        }
        let domain = self.domains.get_mut(&clock)?;
        let distance = ticks.wrapping_mul(domain.unit);
        let time = if domain.is_incremental { domain.last.wrapping_add(distance) } else { distance };
        if domain.is_incremental {
            domain.last = time;
        }
        self.walk(self.ways.get(&clock)?, time)
    }

    /// What a clock of everybody's showed in each snapshot, by the time of the trace.
    pub(super) fn timeline(&self, clock: u64) -> Timeline {
        let clock = ClockId::builtin(clock);
        let mut timeline = BTreeMap::new();
        for kind in self.having.get(&clock).into_iter().flatten().filter_map(|kind| self.kinds.get(*kind)) {
            let column = |of: ClockId| kind.clocks.iter().position(|id| *id == of);
            let (own, trace) = (column(clock), column(self.trace));
            for row in &kind.rows {
                let Some(shown) = own.and_then(|own| row.get(own)) else { continue };
                let time = match trace {
                    Some(trace) => row.get(trace).copied(),
                    None => self.way(clock, self.trace).and_then(|way| self.walk(&way, *shown)),
                };
                if let Some(time) = time {
                    timeline.entry(time).or_insert(*shown);
                }
            }
        }
        Timeline(timeline)
    }

    fn walk(&self, way: &[Step], mut time: i64) -> Option<i64> {
        for step in way {
            let rows = &self.kinds.get(step.snapshots)?.rows;
            // The last snapshot before it, or else the first.
            let after = rows.partition_point(|row| row.get(step.from).is_some_and(|from| *from <= time));
            let row = rows.get(after.saturating_sub(1))?;
            time = time.wrapping_add(row.get(step.to)?.wrapping_sub(*row.get(step.from)?));
        }
        Some(time)
    }

    /// The shortest way from a clock to another.
    fn way(&self, from: ClockId, to: ClockId) -> Option<Vec<Step>> {
        let (mut seen, mut next) = (HashSet::from([from]), VecDeque::from([(from, Vec::new())]));
        while let Some((clock, way)) = next.pop_front() {
            if way.len() == MAX_STEPS || self.gone_back.contains(&clock) {
                continue;
            }
            for kind in self.having.get(&clock).into_iter().flatten() {
                let clocks = &self.kinds.get(*kind)?.clocks;
                let column = clocks.iter().position(|id| *id == clock)?;
                for (other, id) in clocks.iter().enumerate() {
                    let step = Step { snapshots: *kind, from: column, to: other };
                    if *id == to {
                        return Some(way.iter().copied().chain([step]).collect());
                    }
                    if seen.insert(*id) {
                        next.push_back((*id, way.iter().copied().chain([step]).collect()));
                    }
                }
            }
        }
        None
    }
}

/// Readings of a clock.
#[derive(Debug)]
pub(super) struct Timeline(BTreeMap<i64, i64>);

impl Timeline {
    /// What it showed at a time of the trace, as trace_processor tells it: counted on from the reading before, but not
    /// beyond the next one; and before the first reading, what that was.
    pub(super) fn at(&self, time: i64) -> Option<i64> {
        let next = self.0.range(time..).next();
        let counted = |(since, shown): (&i64, &i64)| shown.wrapping_add(time.wrapping_sub(*since));
        match (self.0.range(..time).next_back(), next) {
            (Some(before), None) => Some(counted(before)),
            (Some(before), Some((at, shown))) if *at != time => Some(counted(before).min(*shown)),
            (_, Some((_, shown))) => Some(*shown),
            (None, None) => None,
        }
    }
}
