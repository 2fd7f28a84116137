//! Machines into which programs from data sources fold what a ring overwrites, as Perfetto's service has them.

use std::sync::{Mutex, PoisonError};

use tracebuf::proto::fields::{protovms, protovms_instance, protovms_stats};
use tracebuf::proto::reader::{Field, Fields};
use tracebuf::proto::{Sink, is_service_only};
use tracebuf::vm::{VmStats, VmStatus};

use crate::owned_vm::OwnedVm;

/// Most machines of a buffer: a program may come in many versions.
const VMS: usize = 64;
/// Most bytes of a program.
const PROGRAM: usize = 64 << 10;
/// Most bytes of a packet that is a patch.
const PATCH: usize = 64 << 10;
/// Most memory of a machine, in kibibytes.
const LIMIT_KB: u32 = 64 << 10;

/// A data source's program for a buffer, which keeps what overwritten packets mean: a `VmProgram` of Perfetto's, and
/// how much memory it may have, as the session's configuration says.
///
/// ```
/// use tracebuf_session::{RingProgram, Session};
///
/// let session = Session::builder().start()?;
/// // `merge`: of each field of this process's own packets the newest.
/// let program = &[0x12, 2, 0x1A, 0];
/// let program = RingProgram { source: "org.example.state", program, memory_limit_kb: 64 };
/// session.add_program(0, program, Session::OWN_PRODUCER_ID)?;
/// # Ok::<(), tracebuf_session::SessionError>(())
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

/// What a machine did, and what its state takes.
///
/// ```
/// # use tracebuf_session::Session;
/// let session = Session::builder().start()?;
/// for vm in session.summary()?.vms.iter().flatten() {
///     println!("{}: {} packets, {} bytes", vm.source, vm.vm.patches, vm.vm.used * 32);
/// }
/// # Ok::<(), tracebuf_session::SessionError>(())
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

/// The machines of a buffer, in the order in which they are tried.
#[derive(Clone, Default)]
pub(crate) struct RingVms {
    all: Vec<RingVm>,
    refused: u64,
}

struct RingVm {
    source: String,
    program: Box<[u8]>,
    limit_kb: u32,
    producers: Vec<u16>,
    too_long: u64,
    state: State,
}

enum State {
    /// Locked only where it is shared: to write a state out changes marks in it.
    Lives(Mutex<OwnedVm>),
    /// A copy, which nothing changes any more.
    Copied(Vec<u8>, VmStats),
}

impl State {
    fn with_vm<T>(&self, ask: impl FnOnce(&mut OwnedVm) -> T, or: impl FnOnce(&Vec<u8>, &VmStats) -> T) -> T {
        match self {
            Self::Lives(vm) => ask(&mut vm.lock().unwrap_or_else(PoisonError::into_inner)),
            Self::Copied(state, stats) => or(state, stats),
        }
    }

    fn bytes(&self) -> Vec<u8> {
        self.with_vm(OwnedVm::state, |state, _| state.clone())
    }

    fn stats(&self) -> VmStats {
        self.with_vm(|vm| vm.stats(), |_, stats| *stats)
    }
}

/// A copy can be read, and takes no patches.
impl Clone for RingVm {
    fn clone(&self) -> Self {
        let state = State::Copied(self.state.bytes(), self.state.stats());
        let (source, program, producers) =
            (self.source.clone(), self.program.clone(), self.producers.clone());
        Self { source, program, producers, state, ..*self }
    }
}

impl RingVms {
    /// Has a producer's packets folded by a program: those of the same data source and program share a machine, of
    /// which the first one's memory counts. False, and counted: there are too many already, the program is too long, or
    /// its memory has no room for a state.
    pub(crate) fn join(&mut self, program: RingProgram<'_>, producer: u16) -> bool {
        let RingProgram { source, program, memory_limit_kb } = program;
        let is_it = |vm: &&mut RingVm| vm.source == source && *vm.program == *program;
        if let Some(known) = self.all.iter_mut().find(is_it) {
            if !known.producers.contains(&producer) {
                known.producers.push(producer);
            }
            return true;
        }
        let limit_kb = memory_limit_kb.min(LIMIT_KB);
        let has_room = self.all.len() < VMS && program.len() <= PROGRAM;
        let vm = Some(()).filter(|()| has_room).map(|()| OwnedVm::new(program, limit_kb as usize * 1024));
        let Some(Ok(vm)) = vm else {
            self.refused += 1;
            return false;
        };
        self.all.push(RingVm {
            source: source.to_owned(),
            program: program.into(),
            limit_kb,
            producers: vec![producer],
            too_long: 0,
            state: State::Lives(Mutex::new(vm)),
        });
        true
    }

    /// How many programs were refused.
    pub(crate) fn refused(&self) -> u64 {
        self.refused
    }

    /// Another producer has the number from now on.
    pub(crate) fn leave(&mut self, producer: u16) {
        self.all.iter_mut().for_each(|vm| vm.producers.retain(|known| *known != producer));
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    /// Whether a producer's packets are patches.
    pub(crate) fn has(&self, producer: u16) -> bool {
        self.all.iter().any(|vm| vm.producers.contains(&producer))
    }

    /// Folds a packet, as its producer wrote it, by the first machine that knows it. Returns whether one does.
    pub(crate) fn apply(&mut self, producer: u16, packet: &[u8]) -> bool {
        for vm in self.all.iter_mut().filter(|vm| vm.producers.contains(&producer)) {
            let State::Lives(machine) = &mut vm.state else { continue };
            if packet.len() > PATCH {
                vm.too_long += 1;
                continue;
            }
            let machine = machine.get_mut().unwrap_or_else(PoisonError::into_inner);
            if machine.apply(packet) == VmStatus::Ok {
                return true;
            }
        }
        false
    }

    pub(crate) fn stats(&self) -> impl Iterator<Item = RingVmStats> {
        self.all.iter().map(|vm| RingVmStats {
            source: vm.source.clone(),
            producers: vm.producers.clone(),
            vm: vm.state.stats(),
            too_long: vm.too_long,
        })
    }

    /// Adds those of which a producer has packets to a `ProtoVms`: readers take one without sequences for an error.
    pub(crate) fn write(&self, has_packets: impl Fn(u16) -> bool, out: &mut Vec<u8>) {
        for vm in &self.all {
            let mut producers = vm.producers.iter().filter(|producer| has_packets(**producer)).peekable();
            if producers.peek().is_none() {
                continue;
            }
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
            let Ok(()) = out.bytes(protovms::INSTANCE, &told);
        }
    }
}

/// What a machine did and takes, for `tracebuf inspect`; other readers pass over it.
fn told_stats(stats: &VmStats) -> Vec<u8> {
    let VmStats { patches, errors, aborts, cells, used, high_water, .. } = *stats;
    let mut told = Vec::new();
    for (field, count) in [
        (protovms_stats::PATCHES, patches),
        (protovms_stats::ERRORS, errors),
        (protovms_stats::ABORTS, aborts),
        (protovms_stats::CELLS, cells.into()),
        (protovms_stats::USED, used.into()),
        (protovms_stats::HIGH_WATER, high_water.into()),
    ] {
        let Ok(()) = told.varint(field, count);
    }
    told
}
