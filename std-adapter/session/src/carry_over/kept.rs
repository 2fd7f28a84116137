//! Descriptions of tracks and last values of counters, kept by a machine as long as there is room for them.

use std::collections::{HashMap, HashSet};
use std::sync::{Mutex, PoisonError};

use tracebuf::proto::fields::{sequence_flags, trace, trace_packet, track_descriptor, track_event};
use tracebuf::proto::reader::{FieldValue, Fields, number};
use tracebuf::proto::{PacketView, SequenceId, Sink, TracePackets, TrustedFields};
use tracebuf::vm::{Keep, Program, VmStatus};

use super::clock::Moment;
use super::event::CounterValue;
use super::sequence::Sequence;
use super::{CarryOver, Id, Sequences, Writer, limits, named, packets_out};
use crate::owned_vm::OwnedVm;

/// What is kept of a ring's descriptions and counters, and what that takes.
///
/// ```
/// use tracebuf_session::Session;
///
/// let session = Session::builder().keep_descriptions(64 << 10).start()?;
/// let kept = session.summary()?.kept[0].expect("a ring keeps them");
/// assert_eq!((kept.patches, kept.memory), (0, 64 << 10)); // nothing was overwritten so far
/// # Ok::<(), tracebuf_session::SessionError>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct KeptStats {
    /// Descriptions and counters' values that came.
    pub patches: u64,
    /// Those of them that are longer than a sixteenth of the memory, and are not kept.
    pub aborts: u64,
    /// Those that had to go to make room for newer ones.
    pub forgotten: u64,
    /// Bytes of memory that there are.
    pub memory: u64,
    /// Bytes in use.
    pub used: u64,
    /// The most bytes that were in use at a time.
    pub high_water: u64,
}

impl CarryOver {
    /// With so many bytes of memory, 4 KiB to 256 MiB, also keeps the last description of each track, and of each process
    /// and thread of a process tree, and the last value of each counter, whether their sequences go on or not. They come first in a trace that [begins](Self::begin_file).
    ///
    /// One takes 64 bytes, and 32 more for each 28 bytes beyond 24. When there is no more room, half of them go: those
    /// first that nobody has used for the longest. One that is longer than a sixteenth of the memory is not kept.
    #[must_use]
    pub fn keep_descriptions(self, memory: usize) -> Self {
        // A ring shows what leaves it; a trace that others follow has what they need.
        let takes_all = !self.is_on;
        Self { kept: Some(Kept::new(memory, takes_all)), ..self }
    }

    pub(crate) fn keeping(self, memory: Option<usize>) -> Self {
        match memory {
            Some(memory) => self.keep_descriptions(memory),
            None => self,
        }
    }

    /// What it keeps of descriptions and counters, if it does.
    pub fn kept(&self) -> Option<KeptStats> {
        self.kept.as_ref().map(Kept::stats)
    }

    /// Appends what it keeps of descriptions and counters, before all else of their sequences. Returns the number of
    /// packets.
    pub(crate) fn write_kept(&mut self, out: &mut Vec<u8>) -> u64 {
        let Self { kept: Some(kept), sequences, .. } = self else { return 0 };
        let written = kept.write(sequences, out);
        self.added += written;
        written
    }
}

/// The packets that are kept, each complete: with its time, and with whose it is.
pub(super) struct Kept {
    memory: usize,
    /// Locked only where it is shared: to write a state out changes marks in it.
    state: Mutex<State>,
    /// Whether it takes what stays in a trace, too, because another will follow.
    pub(super) takes_all: bool,
    /// Descriptions that came since the last look, as a trace has them.
    descriptions: Vec<u8>,
    /// Counters' values likewise, of each the last.
    values: Vec<(u64, Writer, Moment, CounterValue)>,
    patch: Vec<u8>,
    counts: KeptStats,
}

enum State {
    /// As a message, which nothing has changed yet.
    Asleep(Vec<u8>),
    Awake(OwnedVm),
}

/// The least memory, and the most.
const MEMORY: std::ops::RangeInclusive<usize> = 4 << 10..=256 << 20;
/// Part of the memory that a packet may have.
const SHARE: usize = 16;
/// Counters whose values wait.
const VALUES: usize = 16;
/// Enough for the program's bytes.
const PROGRAM: usize = 512;

impl Clone for Kept {
    fn clone(&self) -> Self {
        let state = Mutex::new(State::Asleep(self.lock().bytes()));
        let (descriptions, values) = (self.descriptions.clone(), self.values.clone());
        Self { state, descriptions, values, patch: Vec::new(), ..*self }
    }
}

impl State {
    fn bytes(&mut self) -> Vec<u8> {
        match self {
            Self::Asleep(state) => state.clone(),
            Self::Awake(vm) => vm.state(),
        }
    }
}

/// The packets of a state, with the lists that they are in.
fn packets(state: &[u8]) -> impl Iterator<Item = (u32, &[u8])> + Clone {
    Fields::of(state).filter_map(|field| match field.value {
        FieldValue::Bytes(packet) => Some((field.number, packet)),
        _ => None,
    })
}

impl Kept {
    pub(super) fn new(memory: usize, takes_all: bool) -> Self {
        let memory = memory.clamp(*MEMORY.start(), *MEMORY.end());
        Self {
            memory,
            state: Mutex::new(State::Asleep(Vec::new())),
            takes_all,
            descriptions: Vec::new(),
            values: Vec::new(),
            patch: Vec::new(),
            counts: KeptStats { memory: memory as u64, ..KeptStats::default() },
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn stats(&self) -> KeptStats {
        match &*self.lock() {
            State::Asleep(_) => self.counts,
            State::Awake(vm) => with(self.counts, vm),
        }
    }

    /// Takes what describes a track, a process or a thread, of the moment of its sequence's last packet if that can be
    /// told: the field of a packet.
    pub(super) fn describe(&mut self, writer: Writer, moment: Option<Moment>, field: u32, content: &[u8]) {
        let patch = &mut self.patch;
        patch.clear();
        moment.into_iter().for_each(|moment| packets_out::moment(moment, patch));
        let Ok(()) = patch.bytes(field, content);
        trust(writer, patch);
        let Ok(()) = self.descriptions.bytes(trace::PACKET, patch);
    }

    /// Takes a counter's value.
    pub(super) fn count(&mut self, writer: Writer, uuid: u64, moment: Moment, value: CounterValue) {
        match self.values.iter_mut().rev().find(|(known, ..)| *known == uuid) {
            Some(known) => *known = (uuid, writer, moment, value),
            None => self.values.push((uuid, writer, moment, value)),
        }
    }

    /// Whether it is to be settled: more values would make it slow to find one.
    pub(super) fn is_due(&self) -> bool {
        self.values.len() >= VALUES
    }

    /// Hands the machine what came since the last time.
    pub(super) fn settle(&mut self, sequences: &Sequences) {
        if self.descriptions.is_empty() && self.values.is_empty() {
            return;
        }
        let mut descriptions = std::mem::take(&mut self.descriptions);
        for patch in TracePackets::new(&descriptions).map_while(Result::ok) {
            self.apply(patch, sequences);
        }
        descriptions.clear();
        self.descriptions = descriptions;
        let mut values = std::mem::take(&mut self.values);
        let mut patch = std::mem::take(&mut self.patch);
        for (uuid, writer, moment, value) in values.drain(..) {
            patch.clear();
            packets_out::moment(moment, &mut patch);
            packets_out::counter(uuid, value, &mut patch);
            trust(writer, &mut patch);
            self.apply(&patch, sequences);
        }
        (self.values, self.patch) = (values, patch);
    }

    fn apply(&mut self, patch: &[u8], sequences: &Sequences) {
        self.counts.patches += 1;
        let is_long = patch.len() > self.memory / SHARE;
        let is_kept =
            !is_long && (self.try_apply(patch) || self.make_room(sequences) && self.try_apply(patch));
        self.counts.aborts += u64::from(!is_kept);
    }

    fn try_apply(&mut self, patch: &[u8]) -> bool {
        let memory = self.memory;
        let state = self.state.get_mut().unwrap_or_else(PoisonError::into_inner);
        if let State::Asleep(asleep) = state {
            let Some(mut vm) = machine(memory) else { return false };
            for (_, packet) in packets(asleep) {
                let _ = vm.apply(packet);
            }
            *state = State::Awake(vm);
        }
        match state {
            State::Awake(vm) => vm.apply(patch) == VmStatus::Ok,
            State::Asleep(_) => false,
        }
    }

    /// Forgets the older half, which readers miss least: what no sequence that still goes on has described.
    fn make_room(&mut self, sequences: &Sequences) -> bool {
        let state = self.state.get_mut().unwrap_or_else(PoisonError::into_inner);
        let (State::Awake(vm), Some(mut half)) = (&mut *state, machine(self.memory)) else { return false };
        let bytes = vm.state();
        let all = by_use(&bytes, sequences);
        let (mut room, mut stay) = (self.memory / 2, 0);
        for packet in &all {
            let Some(left) = room.checked_sub(cells(packet) * CELL) else { break };
            (room, stay) = (left, stay + 1);
            let _ = half.apply(packet);
        }
        self.counts = with(self.counts, vm);
        self.counts.forgotten += (all.len() - stay) as u64;
        *state = State::Awake(half);
        true
    }

    /// Appends all that is kept, before anything else of their sequences. Returns the number of packets.
    pub(super) fn write(&mut self, sequences: &mut Sequences, out: &mut Vec<u8>) -> u64 {
        self.settle(sequences);
        let state = self.state.get_mut().unwrap_or_else(PoisonError::into_inner).bytes();
        let (mut begun, mut written) = (HashSet::new(), 0);
        let early = named::processes_before_their_threads(packets(&state));
        let early = early.iter().map(|packet| (0, &packet[..]));
        for (_, packet) in early.chain(packets(&state)) {
            self.patch.clear();
            self.patch.extend_from_slice(packet);
            let id = PacketView::of(packet).sequence_id as Id;
            if begun.insert(id)
                && let Some(sequence) = sequences.get_mut(&id)
            {
                if sequence.is_readable {
                    // What else has to be known comes with its next packet. One of which that is not known must not be
                    // read, though this says nothing of what it needs.
                    let cleared = sequence_flags::INCREMENTAL_STATE_CLEARED;
                    let Ok(()) = self.patch.varint(trace_packet::SEQUENCE_FLAGS, cleared);
                }
                let loss = sequence.untold();
                if loss != 0 {
                    let Ok(()) = self.patch.varint(trace_packet::PREVIOUS_PACKET_DROPPED, loss);
                }
            }
            let Ok(()) = out.bytes(trace::PACKET, &self.patch);
            written += 1;
        }
        written
    }
}

fn machine(memory: usize) -> Option<OwnedVm> {
    let mut program = [0; PROGRAM];
    let [processes, threads] = Keep::PROCESS_TREE;
    let [tracks, counters, doubles] = Keep::DESCRIPTIONS;
    let kinds = [tracks, counters, doubles, processes, threads];
    let program = Program::keep_last_by(&kinds, &mut program).ok()?;
    OwnedVm::new(program, memory).ok()
}

/// What the machine has in use, and had.
fn with(counts: KeptStats, vm: &OwnedVm) -> KeptStats {
    let stats = vm.stats();
    let (used, high_water) = (u64::from(stats.used), u64::from(stats.high_water));
    let bytes = CELL as u64;
    KeptStats { used: used * bytes, high_water: counts.high_water.max(high_water * bytes), ..counts }
}

const CELL: usize = 32;

/// Cells that a packet takes.
fn cells(packet: &[u8]) -> usize {
    2 + packet.len().saturating_sub(24).div_ceil(28)
}

/// The packets of a state, those first that are of most use.
fn by_use<'s>(state: &'s [u8], sequences: &Sequences) -> Vec<&'s [u8]> {
    // A track, a process or a thread, by its number; counters' values are of their tracks.
    type Of = (u32, u64);
    let (mut all, mut used, mut parents) = (Vec::new(), HashMap::<Of, u64>::new(), Vec::new());
    for (list, packet) in packets(state) {
        let view = PacketView::of(packet);
        let (of, last) = match named::numbered(list, packet) {
            Some((of, parent)) => {
                parents.push(((list, of), (Keep::PROCESSES.list, parent)));
                ((list, of), 0)
            }
            None => {
                let uuid = match view.event {
                    Some(event) => number(event, track_event::TRACK_UUID),
                    None => number(view.track, track_descriptor::UUID),
                };
                let uuid = uuid.unwrap_or(0);
                let parent = number(view.track, track_descriptor::PARENT_UUID);
                parents.extend(parent.map(|parent| ((0, uuid), (0, parent))));
                // If its sequence still goes on with the track, it is of use now.
                let knows = |sequence: &Sequence| sequence.descriptions.all().any(|known| known.uuid == uuid);
                let sequence = sequences.get(&(view.sequence_id as Id)).filter(|sequence| knows(sequence));
                ((0, uuid), sequence.and_then(|sequence| sequence.last).map_or(0, |last| last.time))
            }
        };
        let used = used.entry(of).or_default();
        *used = view.time.unwrap_or(0).max(last).max(*used);
        all.push((of, packet));
    }
    // A counter's value needs the counter, and a track those above it.
    for _ in 0..limits::PARENTS {
        for (of, parent) in &parents {
            let last = used.get(of).copied().unwrap_or(0);
            used.entry(*parent).and_modify(|used| *used = last.max(*used));
        }
    }
    all.sort_by_key(|(of, _)| std::cmp::Reverse(used.get(of).copied()));
    all.into_iter().map(|(_, packet)| packet).collect()
}

/// Says whose packet it is.
fn trust(writer: Writer, packet: &mut Vec<u8>) {
    let id = SequenceId::new(writer.id).unwrap_or(SequenceId::FIRST_WRITER);
    let trusted = TrustedFields { pid: writer.pid, ..TrustedFields::new(writer.uid, id) };
    packet.extend_from_slice(trusted.suffix().as_bytes());
}
