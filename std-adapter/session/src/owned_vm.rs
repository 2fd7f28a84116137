//! A machine of `tracebuf::vm` that owns its memory.

use self_cell::{MutBorrow, self_cell};
use tracebuf::vm::{Limits, Program, StackFrame, Step, Vm, VmError, VmStats, VmStatus};

/// How deep programs may nest: some 3 KiB.
const FRAMES: usize = 64;

/// A tenth of a millisecond or so: the drain thread has other things to do, and programs may come from anybody.
const LIMITS: Limits = Limits { instructions: 1 << 14, fields: 1 << 15 };

/// Memory of a machine, on the heap or in a file.
pub(crate) type VmMemory = Box<dyn AsMut<[u8]> + Send>;

struct Home {
    memory: VmMemory,
    steps: Box<[Step]>,
    frames: [StackFrame; FRAMES],
}

self_cell!(
    struct Cell {
        owner: Box<MutBorrow<Home>>,
        #[not_covariant]
        dependent: Vm,
    }
);

pub(crate) struct OwnedVm(Cell);

impl OwnedVm {
    /// A machine with an empty state that may take so many bytes.
    pub(crate) fn new(program: &[u8], bytes: usize) -> Result<Self, VmError> {
        Self::open(program, Box::new(vec![0; bytes]), true)
    }

    /// The same in this memory; or, if it is not new, with the state that is found there.
    pub(crate) fn open(program: &[u8], memory: VmMemory, is_new: bool) -> Result<Self, VmError> {
        let home = Home {
            memory,
            steps: vec![Step::default(); program.len() / 2].into(),
            frames: [StackFrame::default(); FRAMES],
        };
        let cell = Cell::try_new(Box::new(MutBorrow::new(home)), |home| {
            let Home { memory, steps, frames } = home.borrow_mut();
            let (memory, program) = ((**memory).as_mut(), Program::new(program, steps)?);
            let vm =
                if is_new { Vm::new(memory, program, frames) } else { Vm::attach(memory, program, frames) };
            Ok(vm?.with_limits(LIMITS))
        });
        cell.map(Self)
    }

    pub(crate) fn into_memory(self) -> VmMemory {
        self.0.into_owner().into_inner().memory
    }

    pub(crate) fn apply(&mut self, patch: &[u8]) -> VmStatus {
        self.0.with_dependent_mut(|_, vm| vm.apply(patch))
    }

    /// The state as a message.
    pub(crate) fn state(&mut self) -> Vec<u8> {
        self.0.with_dependent_mut(|_, vm| {
            let mut state = Vec::with_capacity(vm.state_len());
            let Ok(()) = vm.write_state(&mut state);
            state
        })
    }

    pub(crate) fn stats(&self) -> VmStats {
        self.0.with_dependent(|_, vm| vm.stats())
    }
}
