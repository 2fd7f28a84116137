//! Slices out of begins and ends, and arrows between them, by Perfetto's rules.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use super::fault::{Fault, FaultKind};
use super::record::{Kind, Log, Record};
use super::sequence::Source;
use super::tracks::Tracks;
use super::value::Value;

/// A slice or an instant.
#[derive(Clone, Debug)]
pub(super) struct EventData {
    pub(super) is_instant: bool,
    pub(super) time: i64,
    /// `None` while it is open.
    pub(super) duration: Option<i64>,
    pub(super) name: Option<Arc<str>>,
    pub(super) category: Option<Arc<str>>,
    pub(super) track: usize,
    pub(super) parent: Option<usize>,
    pub(super) depth: usize,
    pub(super) arguments: Vec<(Arc<str>, Value)>,
    pub(super) source: Option<Source>,
}

impl EventData {
    fn end(&self) -> Option<i64> {
        Some(self.time.saturating_add(self.duration?))
    }
}

/// An arrow from one event to another.
#[derive(Clone, Copy, Debug)]
pub(super) struct FlowData {
    pub(super) id: u64,
    pub(super) from: usize,
    pub(super) to: usize,
}

#[derive(Clone, Debug)]
pub(super) struct LogData {
    pub(super) event: Option<usize>,
    pub(super) time: i64,
    pub(super) track: usize,
    pub(super) log: Log,
}

/// Slices of a track that are in one another at most.
const MAX_DEPTH: usize = 512;

/// What comes of the events.
#[derive(Debug, Default)]
pub(super) struct Slices {
    pub(super) events: Vec<EventData>,
    pub(super) counters: BTreeMap<usize, Vec<(u64, f64)>>,
    pub(super) flows: Vec<FlowData>,
    pub(super) logs: Vec<LogData>,
    /// For each track, the slices that are open, and those that ended just now.
    stacks: HashMap<usize, Vec<usize>>,
    /// The last event of each flow that goes on.
    active: HashMap<u64, usize>,
}

impl Slices {
    /// Takes up the next event in time.
    pub(super) fn take(&mut self, record: Record, tracks: &mut Tracks, faults: &mut Vec<Fault>) {
        let mut fault = |kind| faults.push(Fault { at: record.at, kind });
        let track = tracks.index_of(record.track);
        if let Some(kind) = tracks.fault_of(track) {
            return fault(kind);
        }
        let event = match record.kind {
            Kind::Counter => {
                self.counters.entry(track).or_default().push((record.time as u64, record.value));
                return;
            }
            Kind::Begin | Kind::Instant => self.begin(track, &record, &mut fault),
            Kind::End => self.end(track, &record, &mut fault),
        };
        if let Some(event) = event {
            self.flow(event, &record);
        }
        if let Some(log) = record.log {
            if tracks.upwards(track).any(|(_, track)| track.tid.is_some()) {
                self.logs.push(LogData { event, time: record.time, track, log });
            } else {
                fault(FaultKind::LogWithoutThread);
            }
        }
    }

    fn begin(&mut self, track: usize, record: &Record, fault: &mut impl FnMut(FaultKind)) -> Option<usize> {
        let is_instant = record.kind == Kind::Instant;
        self.close(track, record.time, is_instant, fault);
        let stack = self.stacks.entry(track).or_default();
        if stack.len() >= MAX_DEPTH {
            fault(FaultKind::TooDeep);
            return None;
        }
        let index = self.events.len();
        self.events.push(EventData {
            is_instant,
            time: record.time,
            duration: is_instant.then_some(0),
            name: record.name.clone(),
            category: record.category.clone(),
            track,
            parent: stack.last().copied(),
            depth: stack.len(),
            arguments: record.arguments.clone(),
            source: record.source.clone(),
        });
        stack.push(index);
        Some(index)
    }

    fn end(&mut self, track: usize, record: &Record, fault: &mut impl FnMut(FaultKind)) -> Option<usize> {
        self.close(track, record.time, false, fault);
        let stack = self.stacks.entry(track).or_default();
        let events = &mut self.events;
        // An end without a name or category fits any.
        let matches = |index: &usize| {
            events.get(*index).is_some_and(|event| {
                let is_category = record.category.is_none() || record.category == event.category;
                let is_name = record.name.is_none() || event.name.is_none() || record.name == event.name;
                event.duration.is_none() && is_category && is_name
            })
        };
        let Some(place) = stack.iter().rposition(matches) else {
            fault(FaultKind::EndWithoutBegin);
            return None;
        };
        let index = *stack.get(place)?;
        let event = events.get_mut(index)?;
        event.duration = Some(record.time - event.time);
        event.arguments.extend(record.arguments.iter().cloned());
        event.source = event.source.take().or_else(|| record.source.clone());
        if place + 1 == stack.len() {
            stack.pop();
        }
        Some(index)
    }

    /// Takes away what has ended before this time. What is open within a slice that has ended, ends with it.
    fn close(&mut self, track: usize, time: i64, is_instant: bool, fault: &mut impl FnMut(FaultKind)) {
        let stack = self.stacks.entry(track).or_default();
        let mut is_open_within = false;
        for place in (0..stack.len()).rev() {
            let Some(event) = stack.get(place).and_then(|index| self.events.get(*index)) else { continue };
            let Some(end) = event.end() else {
                is_open_within = true;
                continue;
            };
            if is_open_within {
                if time <= end {
                    continue;
                }
                fault(FaultKind::Misplaced);
                for index in stack.drain(place..).skip(1) {
                    if let Some(event) = self.events.get_mut(index) {
                        event.duration = Some(end - event.time);
                    }
                }
                is_open_within = false;
            } else if end < time || end == time && !(event.is_instant && is_instant) {
                stack.truncate(place);
            }
        }
    }

    fn flow(&mut self, event: usize, record: &Record) {
        for id in &record.flows {
            let before = self.active.insert(*id, event);
            self.arrow(*id, before, event);
        }
        for id in &record.last_flows {
            let before = self.active.remove(id);
            self.arrow(*id, before, event);
        }
    }

    fn arrow(&mut self, id: u64, before: Option<usize>, now: usize) {
        let Some(before) = before else { return };
        let time = |index: usize| self.events.get(index).map(|event| event.time);
        let (from, to) = if time(before) > time(now) { (now, before) } else { (before, now) };
        self.flows.push(FlowData { id, from, to });
    }
}
