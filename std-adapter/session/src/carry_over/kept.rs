//! Descriptions of tracks and last values of counters, kept by a machine as long as there is room for them.

use std::collections::{HashMap, HashSet};
use std::sync::{Mutex, PoisonError};

use tracebuf::proto::fields::{sequence_flags, trace, trace_packet};
use tracebuf::proto::{PacketView, Sink, TracePackets};
use tracebuf::vm::{Keep, Limits, OwnedVm, Program, VmStatus};

use super::by_use::{by_use, bytes_of, has_room, in_use, packets};
use super::clock::Moment;
use super::event::CounterValue;
use super::noted::{self, is_noted, seal, unsealed};
use super::{CarryOver, Id, Sequences, Writer, named, packets_out};
use crate::region_file::{KeptMemory, VmMemory};

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
    /// Those of them that are not kept: longer than a sixteenth of the memory, or of nothing that has a number.
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
    /// With so many bytes of memory, 4 KiB to 256 MiB, also keeps the last description of each track, and of each
    /// process and thread of a process tree, and the last value of each counter, whether their sequences go on or not.
    /// They come first in a trace that [begins](Self::begin_file).
    ///
    /// One takes 64 bytes, and 32 more for each 28 bytes beyond 24. When there is no more room, half of them go: those
    /// first that nobody has used for the longest. One that is longer than a sixteenth of the memory is not kept.
    #[must_use]
    pub fn keep_descriptions(self, memory: usize) -> Self {
        // A ring shows what leaves it; a trace that others follow has what they need.
        let takes_all = !self.is_on;
        Self { kept: Some(Kept::new(memory, takes_all)), ..self }
    }

    /// The same in a ring's file, with what recovery needs to read what is left of the ring.
    pub(crate) fn keep_in_file(self, memory: KeptMemory) -> Self {
        let kept = Kept::new(memory.bytes(), false);
        Self { kept: Some(Kept { file: Some(memory), is_sealed: true, ..kept }), ..self }
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
    /// Where its machines' memory lies, if not on the heap.
    file: Option<KeptMemory>,
    /// Whether packets have checksums, as they have if they are or were in a file.
    is_sealed: bool,
    /// The states of sequences that are noted in the file.
    states: HashMap<Id, u64>,
    last_state: u64,
    /// Whether one had no room there.
    pub(super) lacks_room: bool,
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
    Awake(OwnedVm<VmMemory>),
}

/// A millisecond at worst: the drain thread has other things to do, and packets may come from anybody.
const LIMITS: Limits = Limits { instructions: 1 << 14, fields: 1 << 15 };
/// The least memory, and the most.
const MEMORY: std::ops::RangeInclusive<usize> = 4 << 10..=256 << 20;
/// Of so many bytes asked for, those that can be.
pub(crate) fn memory(bytes: usize) -> usize {
    bytes.clamp(*MEMORY.start(), *MEMORY.end())
}

/// Part of the memory that a packet may have, and that a sequence's state may have.
const SHARE: usize = 16;
const STATE_SHARE: usize = 4;
/// Counters whose values wait.
const VALUES: usize = 16;
/// Enough for the program's bytes.
const PROGRAM: usize = 1024;

impl Clone for Kept {
    fn clone(&self) -> Self {
        let state = Mutex::new(State::Asleep(self.lock().bytes()));
        let (descriptions, values) = (self.descriptions.clone(), self.values.clone());
        let (file, states, patch) = (None, HashMap::new(), Vec::new());
        Self { state, descriptions, values, file, states, patch, ..*self }
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

impl Kept {
    pub(super) fn new(memory: usize, takes_all: bool) -> Self {
        let memory = self::memory(memory);
        Self {
            memory,
            state: Mutex::new(State::Asleep(Vec::new())),
            file: None,
            is_sealed: false,
            states: HashMap::new(),
            last_state: 0,
            lacks_room: false,
            takes_all,
            descriptions: Vec::new(),
            values: Vec::new(),
            patch: Vec::new(),
            counts: KeptStats { memory: memory as u64, ..KeptStats::default() },
        }
    }

    /// From memory of a file, and the whole state; `None` if that is none.
    pub(super) fn found(memory: Vec<u8>) -> Option<(Self, Vec<u8>)> {
        let kept = Self { is_sealed: true, ..Self::new(memory.len(), false) };
        let mut program = [0; PROGRAM];
        let mut vm = OwnedVm::attach(kept.program(&mut program)?, VmMemory::Heap(memory)).ok()?;
        let (state, counts) = (vm.state(), with(kept.counts, in_use(&vm.stats())));
        Some((Self { state: Mutex::new(State::Asleep(state.clone())), counts, ..kept }, state))
    }

    /// Whether it lies in a file.
    pub(super) fn is_in_file(&self) -> bool {
        self.file.is_some()
    }

    fn program<'p>(&self, bytes: &'p mut [u8]) -> Option<&'p [u8]> {
        let noted = if self.is_sealed { &noted::KINDS[..] } else { &[] };
        let kinds = [&Keep::DESCRIPTIONS[..], &Keep::PROCESS_TREE, noted].concat();
        Program::keep_last_by(&kinds, bytes).ok()
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn stats(&self) -> KeptStats {
        match &*self.lock() {
            State::Asleep(_) => self.counts,
            State::Awake(vm) => with(self.counts, in_use(&vm.stats())),
        }
    }

    /// Takes what describes a track, a process or a thread, of the moment of its sequence's last packet if that can be
    /// told: the field of a packet.
    pub(super) fn describe(&mut self, writer: Writer, moment: Option<Moment>, field: u32, content: &[u8]) {
        let patch = &mut self.patch;
        patch.clear();
        moment.into_iter().for_each(|moment| packets_out::moment(moment, patch));
        let Ok(()) = patch.bytes(field, content);
        packets_out::trust(writer, patch);
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
        let mut patch = std::mem::take(&mut self.patch);
        for description in TracePackets::new(&descriptions).map_while(Result::ok) {
            patch.clear();
            patch.extend_from_slice(description);
            self.apply(&mut patch, sequences);
        }
        descriptions.clear();
        self.descriptions = descriptions;
        let mut values = std::mem::take(&mut self.values);
        for (uuid, writer, moment, value) in values.drain(..) {
            patch.clear();
            packets_out::moment(moment, &mut patch);
            packets_out::counter(uuid, value, &mut patch);
            packets_out::trust(writer, &mut patch);
            self.apply(&mut patch, sequences);
        }
        (self.values, self.patch) = (values, patch);
    }

    fn apply(&mut self, patch: &mut Vec<u8>, sequences: &Sequences) {
        if self.is_sealed {
            seal(patch);
        }
        self.counts.patches += 1;
        let is_kept = patch.len() <= self.memory / SHARE && self.put(patch, sequences);
        self.counts.aborts += u64::from(!is_kept);
    }

    /// Keeps a packet, for which others may have to go.
    pub(super) fn put(&mut self, packet: &[u8], sequences: &Sequences) -> bool {
        self.try_put(packet) || self.make_room(packet, sequences) && self.try_put(packet)
    }

    fn try_put(&mut self, packet: &[u8]) -> bool {
        #[cfg(test)]
        super::tests::crash_here();
        let is_kept = self.vm().is_some_and(|vm| vm.apply(packet) == VmStatus::Ok);
        #[cfg(test)]
        super::tests::crash_here();
        is_kept
    }

    /// The number of a state that there was not before.
    pub(super) fn new_state(&mut self) -> u64 {
        self.last_state += 1;
        self.last_state
    }

    /// Whether a sequence's state is noted.
    pub(super) fn has_state(&self, id: Id, state: u64) -> bool {
        self.states.get(&id) == Some(&state)
    }

    /// Notes a sequence's state.
    pub(super) fn put_state(&mut self, id: Id, state: u64, packet: &[u8], sequences: &Sequences) {
        if packet.len() <= self.memory / STATE_SHARE && self.put(packet, sequences) {
            self.states.insert(id, state);
        } else {
            self.states.remove(&id);
            self.lacks_room = true;
        }
    }

    fn state_mut(&mut self) -> &mut State {
        self.state.get_mut().unwrap_or_else(PoisonError::into_inner)
    }

    /// The machine, which is made when it is first needed.
    fn vm(&mut self) -> Option<&mut OwnedVm<VmMemory>> {
        if let State::Asleep(asleep) = self.state_mut() {
            let asleep = std::mem::take(asleep);
            let mut vm = self.new_vm()?;
            packets(&asleep).for_each(|(_, packet)| _ = vm.apply(packet));
            self.begin_with(vm);
        }
        match self.state_mut() {
            State::Awake(vm) => Some(vm),
            State::Asleep(_) => None,
        }
    }

    /// An empty machine: in a file, where it does not count yet.
    fn new_vm(&mut self) -> Option<OwnedVm<VmMemory>> {
        let mut program = [0; PROGRAM];
        let program = self.program(&mut program)?;
        let memory = match &mut self.file {
            Some(file) => file.take()?,
            None => VmMemory::Heap(vec![0; self.memory]),
        };
        OwnedVm::new(program, memory).ok().map(|vm| vm.with_limits(LIMITS))
    }

    /// From here on this machine counts.
    fn begin_with(&mut self, vm: OwnedVm<VmMemory>) {
        let before = std::mem::replace(self.state_mut(), State::Awake(vm));
        if let Some(file) = &mut self.file {
            file.swap();
            if let State::Awake(vm) = before {
                file.give_back(vm.into_memory());
            }
        }
    }

    /// Forgets the older half, which readers miss least: what no sequence that still goes on has described. Nothing goes
    /// for a packet that is not kept for another reason: producers may write any number of those.
    fn make_room(&mut self, packet: &[u8], sequences: &Sequences) -> bool {
        let counts = self.stats();
        let State::Awake(vm) = self.state_mut() else { return false };
        if has_room(&vm.stats(), packet) {
            return false;
        }
        let bytes = vm.state();
        let Some(mut half) = self.new_vm() else { return false };
        let all = by_use(&bytes, sequences);
        let (mut room, mut stay) = (self.memory / 2, 0);
        for packet in &all {
            let Some(left) = room.checked_sub(bytes_of(packet)) else { break };
            (room, stay) = (left, stay + 1);
            let _ = half.apply(packet);
        }
        let gone = all.get(stay..).unwrap_or_default();
        // Of a sequence of which something is gone, all is noted anew.
        gone.iter().for_each(|packet| _ = self.states.remove(&(PacketView::of(packet).sequence_id as Id)));
        self.counts = counts;
        self.counts.forgotten += gone.len() as u64;
        self.begin_with(half);
        true
    }

    /// Appends all that is kept, before anything else of their sequences. Returns the number of packets.
    pub(super) fn write(&mut self, sequences: &mut Sequences, out: &mut Vec<u8>) -> u64 {
        self.settle(sequences);
        let state = self.state.get_mut().unwrap_or_else(PoisonError::into_inner).bytes();
        let (mut begun, mut written) = (HashSet::new(), 0);
        let is_sealed = self.is_sealed;
        let of_trace = packets(&state).filter(|(list, _)| !is_noted(*list)).filter_map(|(list, packet)| {
            let packet = if is_sealed { unsealed(packet) } else { Some(packet) };
            Some((list, packet?))
        });
        let early = named::processes_before_their_threads(of_trace.clone());
        let early = early.iter().map(|packet| (0, &packet[..]));
        for (_, packet) in early.chain(of_trace) {
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

fn with(counts: KeptStats, (used, high_water): (u64, u64)) -> KeptStats {
    KeptStats { used, high_water: counts.high_water.max(high_water), ..counts }
}
