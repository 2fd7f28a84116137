//! A reader of track events in a trace.

use crate::model::{Model, Value, fields};
use std::collections::BTreeMap;

#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Seen {
    pub(crate) time: u64,
    pub(crate) kind: u64,
    pub(crate) track: u64,
    pub(crate) name: String,
    /// A log line's text.
    pub(crate) text: Option<String>,
    pub(crate) rest: Vec<(u32, Value)>,
}

#[derive(Default)]
pub(crate) struct Reader {
    pub(crate) names: BTreeMap<(u32, u64), String>,
    /// Lines of source locations.
    pub(crate) lines: BTreeMap<u64, u64>,
    pub(crate) time: u64,
    pub(crate) unit: u64,
    pub(crate) track: u64,
    pub(crate) tracks: BTreeMap<u64, Vec<(u32, Value)>>,
    /// The clock of a state's times.
    pub(crate) clock: u64,
    pub(crate) states: usize,
    pub(crate) valid: bool,
    pub(crate) seen: Vec<Seen>,
    /// For each of these its categories, annotations, log line and counter's value, with the names that they have.
    pub(crate) details: Vec<Vec<String>>,
    pub(crate) undecodable: usize,
}

pub(crate) fn int(fields: &[(u32, Value)], field: u32) -> Option<u64> {
    fields.iter().find_map(|f| if let (n, Value::Int(v)) = f { (*n == field).then_some(*v) } else { None })
}

pub(crate) fn inside(fields: &[(u32, Value)], field: u32) -> Option<Vec<(u32, Value)>> {
    fields.iter().find(|(n, _)| *n == field).map(|(_, v)| v.inside())
}

pub(crate) fn text(fields: &[(u32, Value)], field: u32) -> Option<String> {
    let bytes = fields.iter().find(|(n, _)| *n == field)?;
    let Value::Bytes(bytes) = &bytes.1 else { panic!() };
    Some(String::from_utf8(bytes.clone()).unwrap())
}

impl Reader {
    fn packet(&mut self, packet: &[u8]) {
        let all = fields(packet);
        if int(&all, 42).is_some() {
            self.valid = false;
        }
        let flags = int(&all, 13).unwrap_or(0);
        if flags & 1 != 0 {
            let snapshot = inside(&all, 6).expect("a state begins with the clock");
            let clocks: Vec<_> = snapshot.iter().filter(|(n, _)| *n == 1).map(|(_, v)| v.inside()).collect();
            assert_eq!(int(&clocks[1], 1), Some(64));
            assert_eq!(int(&clocks[1], 3), Some(1));
            self.unit = int(&clocks[1], 4).unwrap();
            self.time = int(&clocks[1], 2).unwrap() * self.unit;
            assert!(self.time.abs_diff(int(&clocks[0], 2).unwrap()) < self.unit);
            self.clock = int(&clocks[0], 1).unwrap();
            assert_eq!(int(&snapshot, 2), Some(6), "a trace is shown in boot time");
            let defaults = inside(&all, 59).unwrap();
            assert_eq!(int(&defaults, 58), Some(64));
            self.track = int(&inside(&defaults, 11).unwrap(), 11).unwrap();
            self.names.clear();
            self.lines.clear();
            self.tracks.clear();
            self.valid = true;
            self.states += 1;
        }
        if flags & 2 != 0 && !self.valid {
            self.undecodable += 1;
            return;
        }
        if let Some(track) = inside(&all, 60) {
            self.tracks.insert(int(&track, 1).unwrap(), track);
        }
        let interned = inside(&all, 12);
        assert!(interned.as_ref().is_none_or(|data| !data.is_empty()), "names, or nothing of names");
        assert!(interned.is_none() || flags & 2 != 0, "names, too, are those of a state");
        for (kind, entry) in interned.unwrap_or_default() {
            let entry = entry.inside();
            let iid = int(&entry, 1).unwrap();
            let old = self.names.insert((kind, iid), text(&entry, 2).unwrap());
            assert_eq!(old, None, "a name is written once in a state");
            if kind == 4 {
                self.lines.insert(iid, int(&entry, 4).unwrap_or(0));
            }
        }
        let Some(event) = inside(&all, 11) else { return };
        assert!(flags & 2 != 0, "an event says that it needs the state");
        self.time += int(&all, 8).unwrap() * self.unit;
        let name = match int(&event, 10) {
            Some(iid) => self.names.get(&(2, iid)).expect("a known name").clone(),
            None => text(&event, 23).unwrap_or_default(),
        };
        let track = int(&event, 11).unwrap_or(self.track);
        assert!(self.tracks.contains_key(&track), "a described track");
        let body = inside(&event, 21).and_then(|line| int(&line, 2));
        let text = body.map(|iid| self.names.get(&(20, iid)).expect("a known text").clone());
        self.details.push(event.iter().filter_map(|(field, value)| self.detail(*field, value)).collect());
        let rest = event.iter().filter(|(n, _)| ![9, 10, 11, 23].contains(n)).cloned().collect();
        self.seen.push(Seen { time: self.time, kind: int(&event, 9).unwrap(), track, name, text, rest });
    }

    /// What a field of an event says, unless it is one of those that every event may have.
    fn detail(&self, field: u32, value: &Value) -> Option<String> {
        let name = |kind, iid| self.names.get(&(kind, iid)).expect("a known name").clone();
        Some(match (field, value) {
            (9 | 10 | 11 | 23, _) => return None,
            (3, Value::Int(iid)) => format!("in {}", name(1, *iid)),
            (22, Value::Bytes(bytes)) => format!("in {}", String::from_utf8_lossy(bytes)),
            (4, annotation) => {
                let annotation = annotation.inside();
                let key = int(&annotation, 1).map(|iid| name(3, iid)).or_else(|| text(&annotation, 10));
                let value = int(&annotation, 17).map(|iid| name(29, iid)).or_else(|| text(&annotation, 6));
                format!("{}: {}", key.unwrap_or_default(), value.unwrap_or_else(|| format!("{annotation:?}")))
            }
            (21, line) => {
                let line = line.inside();
                let place = int(&line, 1).map(|iid| format!(" {}:{}", name(4, iid), self.lines[&iid]));
                let priority = int(&line, 3).expect("a priority");
                format!("line {priority}{}", place.unwrap_or_default())
            }
            (30, Value::Int(value)) => format!("counter {value}"),
            other => format!("{other:?}"),
        })
    }
}

pub(crate) fn read(model: &Model, writer: u16) -> Reader {
    let mut reader = Reader::default();
    for packet in model.packets(writer).iter().flatten() {
        reader.packet(packet);
    }
    reader
}
