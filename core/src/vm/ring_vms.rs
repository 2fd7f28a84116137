//! Machines into which programs of data sources fold what a ring overwrites, as Perfetto's service has them.

use super::{Limits, OwnedVm, VmStats, VmStatus};
use crate::buffer::{OverwriteObserver, Packet, PacketRun};
use crate::proto::fields::ipc::{data_source_config, data_source_descriptor};
use crate::proto::fields::{
    protovm_config, protovms, protovms_instance, protovms_stats, trace_provenance, trace_provenance_buffer,
    trace_provenance_sequence,
};
use crate::proto::reader::{Field, Fields, message, number};
use crate::proto::{SequenceId, Sink, is_service_only};
use alloc::borrow::ToOwned;
use alloc::boxed::Box;
use alloc::string::String;
use alloc::vec;
use alloc::vec::Vec;

/// Most machines of a buffer: a program may come in many versions.
const VMS: usize = 64;
/// Most bytes of a program.
const PROGRAM: usize = 64 << 10;
/// Most bytes of a packet that is a patch.
const PATCH: usize = 64 << 10;
/// Most memory of a machine, in kibibytes.
const LIMIT_KB: u32 = 64 << 10;
/// A millisecond at worst, mostly a microsecond: whoever fills buffers has other things to do, and programs may come from
/// anybody.
const LIMITS: Limits = Limits { instructions: 1 << 14, fields: 1 << 15 };

/// A data source's program for a buffer, which keeps what overwritten packets mean: a `VmProgram` of Perfetto's, and
/// how much memory it may have, as the session's configuration says.
///
/// ```
/// use tracebuf::vm::RingProgram;
///
/// // `merge`: of each field of a producer's packets the newest.
/// let program = &[0x12, 2, 0x1A, 0];
/// let program = RingProgram { source: "org.example.state", program, memory_limit_kb: 64 };
/// # let _ = program;
/// ```
#[derive(Clone, Copy, Debug)]
pub struct RingProgram<'a> {
    /// The data source.
    pub source: &'a str,
    /// The encoded `VmProgram`, of up to 64 KiB.
    pub program: &'a [u8],
    /// Memory for the state, in kibibytes; what is above 64 MiB is not used.
    pub memory_limit_kb: u32,
}

impl<'a> RingProgram<'a> {
    /// Of a data source's `DataSourceDescriptor` and its `DataSourceConfig`: `None` unless the one has a program and the
    /// other says in how much memory.
    pub fn of(source: &'a str, descriptor: &'a [u8], config: &[u8]) -> Option<Self> {
        let program = message(descriptor, data_source_descriptor::PROTOVM_PROGRAM)?;
        let limit =
            number(message(config, data_source_config::PROTOVM_CONFIG)?, protovm_config::MEMORY_LIMIT_KB)?;
        let memory_limit_kb = u32::try_from(limit).unwrap_or(u32::MAX);
        (!program.is_empty()).then_some(Self { source, program, memory_limit_kb })
    }
}

/// What a machine did, and what its state takes.
///
/// ```
/// let vms = tracebuf::vm::RingVms::default();
/// for vm in vms.stats() {
///     println!("{}: {} packets, {} bytes", vm.source, vm.vm.patches, vm.vm.used * 32);
/// }
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct RingVmStats {
    /// The data source that its program is of.
    pub source: String,
    /// Its producers.
    pub producers: Vec<u16>,
    /// Packets that it took, did not know or refused, and the memory of its state in cells of 32 bytes.
    pub vm: VmStats,
    /// Packets that were too long for it.
    pub too_long: u64,
}

/// The machines of a buffer, in the order in which they are tried. As a buffer's observer it folds each whole packet that
/// is overwritten unread; that is overwritten all the same, and the next one says so.
///
/// ```
/// use tracebuf::buffer::{Config, FillPolicy, TraceBuffer};
/// use tracebuf::vm::{RingProgram, RingVms};
///
/// let buffer = TraceBuffer::new(vec![0; 4096], Config::new(FillPolicy::RingBuffer).sequences(4))?;
/// let mut buffer = buffer.observed_by(RingVms::default());
/// let program = RingProgram { source: "org.example.state", program: &[0x12, 2, 0x1A, 0], memory_limit_kb: 64 };
/// assert!(buffer.observer_mut().join(program, 7));
/// // For the trace, before the buffer's packets: what readers need to go on, of producers that have some.
/// let (mut provenance, mut vms) = (vec![], vec![]);
/// buffer.observer_mut().write(&[], &mut provenance, &mut vms);
/// assert!(vms.is_empty());
/// # Ok::<(), tracebuf::buffer::RegionError>(())
/// ```
#[derive(Default)]
pub struct RingVms {
    all: Vec<RingVm>,
    refused: u64,
    /// A packet over several fragments.
    whole: Vec<u8>,
}

struct RingVm {
    source: String,
    program: Box<[u8]>,
    limit_kb: u32,
    producers: Vec<u16>,
    too_long: u64,
    /// Whether the trace has it.
    is_told: bool,
    state: State,
}

enum State {
    Lives(OwnedVm),
    /// A copy, which nothing changes any more.
    Copied(Vec<u8>, VmStats),
}

impl State {
    fn bytes(&mut self) -> Vec<u8> {
        match self {
            Self::Lives(vm) => vm.state(),
            Self::Copied(state, _) => state.clone(),
        }
    }

    fn stats(&self) -> VmStats {
        match self {
            Self::Lives(vm) => vm.stats(),
            Self::Copied(_, stats) => *stats,
        }
    }
}

impl RingVm {
    fn new(program: RingProgram<'_>, producers: Vec<u16>) -> Option<Self> {
        let RingProgram { source, program, memory_limit_kb } = program;
        let limit_kb = memory_limit_kb.min(LIMIT_KB);
        let bytes = usize::try_from(limit_kb).ok()?.checked_mul(1024)?;
        let mut memory = Vec::new();
        memory.try_reserve_exact(bytes).ok()?;
        memory.resize(bytes, 0);
        let vm = OwnedVm::new(program, memory).ok()?.with_limits(LIMITS);
        let (source, program) = (source.to_owned(), program.into());
        Some(Self {
            source,
            program,
            limit_kb,
            producers,
            too_long: 0,
            is_told: false,
            state: State::Lives(vm),
        })
    }

    fn program(&self) -> RingProgram<'_> {
        RingProgram { source: &self.source, program: &self.program, memory_limit_kb: self.limit_kb }
    }
}

impl RingVms {
    /// Has a producer's packets folded by a program: those of the same data source and program share a machine, of
    /// which the first one's memory counts. False, and counted: there are 64 already, the program is too long, or its
    /// memory has no room for a state.
    pub fn join(&mut self, program: RingProgram<'_>, producer: u16) -> bool {
        let is_it = |vm: &&mut RingVm| vm.source == program.source && *vm.program == *program.program;
        if let Some(known) = self.all.iter_mut().find(is_it) {
            if !known.producers.contains(&producer) {
                known.producers.push(producer);
            }
            return true;
        }
        let has_room = self.all.len() < VMS && program.program.len() <= PROGRAM;
        let vm = Some(()).filter(|()| has_room).and_then(|()| RingVm::new(program, vec![producer]));
        self.refused += u64::from(vm.is_none());
        let is_there = vm.is_some();
        self.all.extend(vm);
        is_there
    }

    /// How many programs were refused.
    pub fn refused(&self) -> u64 {
        self.refused
    }

    /// Another producer has the number from now on.
    pub fn leave(&mut self, producer: u16) {
        self.all.iter_mut().for_each(|vm| vm.producers.retain(|known| *known != producer));
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    /// Whether there are some that were not [written](Self::write_new).
    pub fn has_new(&self) -> bool {
        self.all.iter().any(|vm| !vm.is_told)
    }

    /// Whether a producer's packets are patches.
    pub fn has(&self, producer: u16) -> bool {
        self.all.iter().any(|vm| vm.producers.contains(&producer))
    }

    /// Folds a packet, as its producer wrote it, by the first machine that knows it. Returns whether one does.
    pub fn apply(&mut self, producer: u16, packet: &[u8]) -> bool {
        for vm in self.all.iter_mut().filter(|vm| vm.producers.contains(&producer)) {
            let State::Lives(machine) = &mut vm.state else { continue };
            if packet.len() > PATCH {
                vm.too_long += 1;
            } else if machine.apply(packet) == VmStatus::Ok {
                return true;
            }
        }
        false
    }

    /// What each of them did.
    pub fn stats(&self) -> impl Iterator<Item = RingVmStats> {
        self.all.iter().map(|vm| RingVmStats {
            source: vm.source.clone(),
            producers: vm.producers.clone(),
            vm: vm.state.stats(),
            too_long: vm.too_long,
        })
    }

    /// A copy that can be read, and takes no patches.
    #[must_use]
    pub fn copy(&mut self) -> Self {
        let copy = |vm: &mut RingVm| {
            let state = State::Copied(vm.state.bytes(), vm.state.stats());
            let (source, program, producers) = (vm.source.clone(), vm.program.clone(), vm.producers.clone());
            RingVm { source, program, producers, state, ..*vm }
        };
        Self { all: self.all.iter_mut().map(copy).collect(), refused: self.refused, whole: Vec::new() }
    }

    /// The same programs for the same producers, with empty states. Those for which there is no memory are refused.
    #[must_use]
    pub fn anew(&self) -> Self {
        let anew = |vm: &RingVm| {
            let is_told = vm.is_told;
            Some(RingVm { is_told, ..RingVm::new(vm.program(), vm.producers.clone())? })
        };
        let all: Vec<_> = self.all.iter().filter_map(anew).collect();
        let refused = self.refused + (self.all.len() - all.len()) as u64;
        Self { all, refused, whole: Vec::new() }
    }

    /// Adds what readers need to go on with the patches that follow: to a `TraceProvenance` the buffer's sequences, with
    /// their producers, and to a `ProtoVms` the machines of which a producer has a sequence. Of one without, readers
    /// say that it is an error.
    pub fn write(&mut self, sequences: &[(SequenceId, u16)], provenance: &mut Vec<u8>, vms: &mut Vec<u8>) {
        self.begin_trace();
        self.write_new(sequences, provenance, vms);
    }

    /// Another trace begins, which has none of them.
    pub fn begin_trace(&mut self) {
        self.all.iter_mut().for_each(|vm| vm.is_told = false);
    }

    /// The same, of machines that were not written before: a trace that goes on has those already, and readers would not
    /// take a second state.
    pub fn write_new(
        &mut self,
        sequences: &[(SequenceId, u16)],
        provenance: &mut Vec<u8>,
        vms: &mut Vec<u8>,
    ) {
        let before = vms.len();
        for vm in self.all.iter_mut().filter(|vm| !vm.is_told) {
            let has_packets = |producer: &&u16| sequences.iter().any(|(_, of)| of == *producer);
            let mut producers = vm.producers.iter().filter(has_packets).peekable();
            if producers.peek().is_none() {
                continue;
            }
            vm.is_told = true;
            let mut told = Vec::new();
            let Ok(()) = told.bytes(protovms_instance::PROGRAM, &vm.program);
            // There even if it is empty; and what a program has put there that only the service may say is not.
            let state = vm.state.bytes();
            let may_be_told = |field: &Field<'_>| !is_service_only(field.number);
            let state: Vec<_> =
                Fields::of(&state).filter(may_be_told).flat_map(|field| field.whole).copied().collect();
            let Ok(()) = told.bytes(protovms_instance::STATE, &state);
            let Ok(()) = told.varint(protovms_instance::MEMORY_LIMIT_KB, vm.limit_kb.into());
            producers.for_each(|producer| {
                let Ok(()) = told.varint(protovms_instance::PRODUCER_ID, (*producer).into());
            });
            let Ok(()) = told.bytes(protovms_instance::STATS, &told_stats(&vm.state.stats()));
            let Ok(()) = vms.bytes(protovms::INSTANCE, &told);
        }
        if vms.len() == before {
            return;
        }
        let mut buffer = Vec::new();
        for (id, producer) in sequences {
            let mut told = Vec::new();
            let Ok(()) = told.varint(trace_provenance_sequence::ID, id.get().into());
            let Ok(()) = told.varint(trace_provenance_sequence::PRODUCER_ID, (*producer).into());
            let Ok(()) = buffer.bytes(trace_provenance_buffer::SEQUENCES, &told);
        }
        let Ok(()) = provenance.bytes(trace_provenance::BUFFERS, &buffer);
    }
}

/// What a machine did and takes, for `tracebuf inspect`; other readers pass over it.
fn told_stats(stats: &VmStats) -> Vec<u8> {
    let mut told = Vec::new();
    for (field, count) in [
        (protovms_stats::PATCHES, stats.patches),
        (protovms_stats::ERRORS, stats.errors),
        (protovms_stats::ABORTS, stats.aborts),
        (protovms_stats::CELLS, stats.cells.into()),
        (protovms_stats::USED, stats.used.into()),
        (protovms_stats::HIGH_WATER, stats.high_water.into()),
    ] {
        let Ok(()) = told.varint(field, count);
    }
    told
}

impl OverwriteObserver for RingVms {
    const FOLDS: bool = true;

    fn looks(&self) -> bool {
        !self.is_empty()
    }

    fn packet(&mut self, packet: &Packet<'_>) -> bool {
        if self.has(packet.producer_id()) {
            let mut whole = core::mem::take(&mut self.whole);
            whole.clear();
            packet.slices().for_each(|slice| whole.extend_from_slice(slice));
            self.apply(packet.producer_id(), &whole);
            // One long packet's memory is not kept for all to come.
            whole.shrink_to(PATCH);
            self.whole = whole;
        }
        true
    }

    fn packets(&mut self, run: &mut PacketRun<'_>) {
        let producer = run.producer_id();
        if self.has(producer) {
            run.by_ref().for_each(|packet| _ = self.apply(producer, packet));
        }
    }
}
