//! Tracks, processes and threads, as a trace describes them.

use std::collections::HashMap;
use std::sync::Arc;

use tracebuf::proto::fields::{
    counter_descriptor, counter_unit, process_descriptor, process_tree, process_tree_process,
    process_tree_thread, thread_descriptor, track_descriptor,
};
use tracebuf::proto::reader::{FieldValue, Fields, messages, number};

use super::fault::FaultKind;

/// A track's description.
#[derive(Clone, Debug, Default)]
pub(super) struct TrackData {
    pub(super) uuid: u64,
    pub(super) parent: u64,
    pub(super) name: Option<Arc<str>>,
    pub(super) pid: Option<i64>,
    pub(super) tid: Option<i64>,
    pub(super) thread_name: Option<Arc<str>>,
    pub(super) counter: Option<CounterData>,
    /// The process that the service has found its packet to be of.
    trusted_pid: Option<i64>,
    is_described: bool,
}

#[derive(Clone, Debug, PartialEq)]
pub(super) struct CounterData {
    pub(super) unit: Arc<str>,
    pub(super) multiplier: i64,
    pub(super) is_incremental: bool,
}

/// A process or thread as the process tree tells it.
#[derive(Debug, Default)]
struct Listed {
    name: Option<Arc<str>>,
    /// Of a thread, its process.
    pid: i64,
    /// Its numbers in the namespaces that it is in.
    inside: Vec<i64>,
}

#[derive(Debug, Default)]
pub(super) struct Tracks {
    pub(super) list: Vec<TrackData>,
    by_uuid: HashMap<u64, usize>,
    process_names: HashMap<i64, Arc<str>>,
    processes: HashMap<i64, Listed>,
    threads: HashMap<i64, Listed>,
}

/// Tracks that trace_processor follows upwards.
const MAX_ANCESTORS: usize = 100;

pub(super) fn text(bytes: &[u8]) -> Arc<str> {
    String::from_utf8_lossy(bytes).into()
}

/// The string in a field; `None` if there is none.
fn string(within: &[u8], field: u32) -> Option<Arc<str>> {
    messages(within, field).last().map(text)
}

impl Tracks {
    /// Takes up a description.
    pub(super) fn describe(&mut self, told: &[u8], trusted_pid: Option<i32>) -> Result<(), FaultKind> {
        let uuid = number(told, track_descriptor::UUID).ok_or(FaultKind::IncompleteTrack)?;
        let part = |field| messages(told, field).last();
        let pid = |of, field| number(of, field).map(|pid| i64::from(pid as i32));
        let mut track = TrackData {
            uuid,
            parent: number(told, track_descriptor::PARENT_UUID).unwrap_or(0),
            name: string(told, track_descriptor::NAME)
                .or_else(|| string(told, track_descriptor::STATIC_NAME)),
            trusted_pid: trusted_pid.map(i64::from),
            is_described: true,
            ..TrackData::default()
        };
        if let Some(thread) = part(track_descriptor::THREAD) {
            // Of more than 32 bits where several threads have the same number.
            track.tid = number(thread, thread_descriptor::TID).map(|tid| tid as i64);
            track.pid = pid(thread, thread_descriptor::PID);
            track.thread_name = string(thread, thread_descriptor::THREAD_NAME).or_else(|| track.name.clone());
            if track.pid.is_none() || track.tid.is_none() {
                return Err(FaultKind::IncompleteTrack);
            }
        } else if let Some(process) = part(track_descriptor::PROCESS) {
            track.pid = Some(pid(process, process_descriptor::PID).ok_or(FaultKind::IncompleteTrack)?);
            let name = string(process, process_descriptor::PROCESS_NAME).or_else(|| track.name.clone());
            if let (Some(pid), Some(name)) = (track.pid, name) {
                self.process_names.insert(pid, name);
            }
        } else if let Some(counter) = part(track_descriptor::COUNTER) {
            let unit = match number(counter, counter_descriptor::UNIT) {
                Some(counter_unit::TIME_NS) => "ns".into(),
                Some(counter_unit::COUNT) => "count".into(),
                Some(counter_unit::SIZE_BYTES) => "bytes".into(),
                _ => string(counter, counter_descriptor::UNIT_NAME).unwrap_or_default(),
            };
            let number = |field| number(counter, field).filter(|number| *number != 0);
            track.counter = Some(CounterData {
                unit,
                multiplier: number(counter_descriptor::UNIT_MULTIPLIER).map_or(1, |by| by as i64),
                is_incremental: number(counter_descriptor::IS_INCREMENTAL).is_some(),
            });
        }
        let known = self.index_of(uuid);
        let known = self.list.get_mut(known).ok_or(FaultKind::IncompleteTrack)?;
        if !known.is_described {
            *known = track;
            return Ok(());
        }
        let same = |track: &TrackData| (track.parent, track.pid, track.tid, track.counter.clone());
        if same(known) != same(&track) {
            return Err(FaultKind::OtherTrack);
        }
        known.name = known.name.take().or(track.name);
        known.thread_name = track.thread_name.or(known.thread_name.take());
        Ok(())
    }

    /// Takes up a process tree.
    pub(super) fn list(&mut self, tree: &[u8]) {
        for process in messages(tree, process_tree::PROCESSES) {
            let Some(pid) = number(process, process_tree_process::PID) else { continue };
            let name = string_of_first(process, process_tree_process::CMDLINE);
            let inside = numbers(process, process_tree_process::NSPID);
            self.processes.insert(pid as i64, Listed { name, pid: pid as i64, inside });
        }
        for thread in messages(tree, process_tree::THREADS) {
            let Some(tid) = number(thread, process_tree_thread::TID) else { continue };
            let pid = number(thread, process_tree_thread::TGID).unwrap_or(tid) as i64;
            let inside = numbers(thread, process_tree_thread::NSTID);
            let name = string(thread, process_tree_thread::NAME);
            self.threads.insert(tid as i64, Listed { name, pid, inside });
        }
    }

    /// The track of this id, which need not be described.
    pub(super) fn index_of(&mut self, uuid: u64) -> usize {
        *self.by_uuid.entry(uuid).or_insert_with(|| {
            self.list.push(TrackData { uuid, ..TrackData::default() });
            self.list.len() - 1
        })
    }

    pub(super) fn find(&self, uuid: u64) -> Option<usize> {
        self.by_uuid.get(&uuid).copied()
    }

    /// The counter that a track was described as.
    pub(super) fn counter(&self, uuid: u64) -> Option<&CounterData> {
        self.list.get(self.find(uuid)?)?.counter.as_ref()
    }

    /// The track and those above it, the nearest first. There may be a ring of them.
    pub(super) fn upwards(&self, track: usize) -> impl Iterator<Item = (usize, &TrackData)> {
        let with_index = |index: usize| self.list.get(index).map(|track| (index, track));
        // 0 is no parent, though there may be a track of that number.
        let parent = |track: &TrackData| self.find(track.parent).filter(|_| track.parent != 0);
        let above = move |(_, track): &(usize, &TrackData)| with_index(parent(track)?);
        std::iter::successors(with_index(track), above).take(MAX_ANCESTORS)
    }

    /// Why events on a track are left out.
    pub(super) fn fault_of(&self, track: usize) -> Option<FaultKind> {
        let mut depth = 0;
        for (_, track) in self.upwards(track) {
            depth += 1;
            if track.parent == 0 {
                return None;
            }
            if self
                .find(track.parent)
                .is_none_or(|parent| self.list.get(parent).is_none_or(|t| !t.is_described))
            {
                return Some(FaultKind::NoParentTrack);
            }
        }
        (depth == MAX_ANCESTORS).then_some(FaultKind::TrackLoop)
    }

    /// The numbers of a track's process and thread outside of their namespace, if the trace tells them.
    pub(super) fn pid_and_tid(&self, track: &TrackData) -> (Option<i64>, Option<i64>) {
        let outside = |inside: Option<i64>| self.outside(track.trusted_pid?, inside?);
        (outside(track.pid).or(track.pid), outside(track.tid).or(track.tid))
    }

    /// The number outside of its namespace of a process, or of one of its threads.
    fn outside(&self, trusted_pid: i64, inside: i64) -> Option<i64> {
        let process = self.processes.get(&trusted_pid)?;
        let level = process.inside.len().checked_sub(1)?;
        if process.inside.get(level) == Some(&inside) {
            return Some(trusted_pid);
        }
        let is = |(_, thread): &(&i64, &Listed)| {
            thread.pid == trusted_pid && thread.inside.get(level) == Some(&inside)
        };
        self.threads.iter().find(is).map(|(tid, _)| *tid)
    }

    pub(super) fn process_name(&self, track: &TrackData, pid: i64) -> Option<&Arc<str>> {
        let told = track.pid.and_then(|inside| self.process_names.get(&inside));
        told.or_else(|| self.process_names.get(&pid)).or_else(|| self.processes.get(&pid)?.name.as_ref())
    }

    pub(super) fn thread_name<'t>(&'t self, track: &'t TrackData, tid: i64) -> Option<&'t Arc<str>> {
        track.thread_name.as_ref().or_else(|| self.threads.get(&tid)?.name.as_ref())
    }
}

fn string_of_first(within: &[u8], field: u32) -> Option<Arc<str>> {
    messages(within, field).next().map(text)
}

fn numbers(within: &[u8], field: u32) -> Vec<i64> {
    let number = |value| if let FieldValue::Number(number) = value { Some(number as i64) } else { None };
    Fields::of(within).filter(|told| told.number == field).filter_map(|told| number(told.value)).collect()
}
