//! A machine that owns its memory, its program and its frames.

use super::arena::Live;
use super::attach;
use super::program::{Program, Step};
use super::{Limits, StackFrame, Vm, VmError, VmStats, VmStatus};
use alloc::boxed::Box;
use alloc::vec;
use alloc::vec::Vec;

/// How deep programs may nest: some 3 KiB.
const FRAMES: usize = 64;

/// A [`Vm`] that owns what it needs: programs may nest 64 deep. Its memory's bytes must lie where they are for as long as
/// it is there, as those of a `Vec` or of a mapped file do; else what it keeps is lost.
///
/// ```
/// use tracebuf::vm::{OwnedVm, VmStatus};
///
/// // merge {}
/// let mut vm = OwnedVm::new(&[0x12, 2, 0x1A, 0], vec![0; 1024])?;
/// assert_eq!(vm.apply(&[0x08, 7]), VmStatus::Ok);
/// assert_eq!(vm.state(), [0x08, 7]);
/// # Ok::<(), tracebuf::vm::VmError>(())
/// ```
pub struct OwnedVm<M = Vec<u8>> {
    memory: M,
    steps: Box<[Step]>,
    frames: Box<[StackFrame]>,
    top: u32,
    fingerprint: u32,
    /// Cells of the memory that the state has.
    cells: usize,
    live: Live,
    patches: u64,
    failures: [u64; 2],
    limits: Limits,
}

impl<M: AsMut<[u8]>> OwnedVm<M> {
    /// Lays out an empty state: see [`Vm::new`].
    ///
    /// # Errors
    /// [`VmError::TooSmall`].
    pub fn new(program: &[u8], memory: M) -> Result<Self, VmError> {
        Self::open(program, memory, true)
    }

    /// Takes over the state in the memory: see [`Vm::attach`].
    ///
    /// # Errors
    /// [`VmError::NoState`], [`VmError::OtherProgram`] or [`VmError::Damaged`].
    pub fn attach(program: &[u8], memory: M) -> Result<Self, VmError> {
        Self::open(program, memory, false)
    }

    fn open(program: &[u8], mut memory: M, is_new: bool) -> Result<Self, VmError> {
        let mut steps: Box<[Step]> = vec![Step::default(); program.len() / 2].into();
        let Program { top, fingerprint, .. } = Program::new(program, &mut steps)?;
        let (cells, live) = attach::open(memory.as_mut(), fingerprint, is_new)?;
        let cells = cells.len();
        let frames = vec![StackFrame::default(); FRAMES].into();
        let limits = Limits::default();
        Ok(Self {
            memory,
            steps,
            frames,
            top,
            fingerprint,
            cells,
            live,
            patches: 0,
            failures: [0; 2],
            limits,
        })
    }

    /// With other limits than the default.
    #[must_use]
    pub fn with_limits(self, limits: Limits) -> Self {
        Self { limits, ..self }
    }

    /// Does something with the machine.
    pub fn with<T>(&mut self, act: impl FnOnce(&mut Vm<'_>) -> T) -> T {
        let cells = attach::cells_of(self.memory.as_mut()).unwrap_or_default();
        let program = Program { steps: &self.steps, top: self.top, fingerprint: self.fingerprint };
        let mut vm = Vm {
            patches: self.patches,
            cells: cells.get_mut(..self.cells).unwrap_or_default(),
            live: self.live,
            program,
            frames: &mut self.frames,
            failures: self.failures,
            limits: self.limits,
        };
        let result = act(&mut vm);
        (self.patches, self.live, self.failures) = (vm.patches, vm.live, vm.failures);
        result
    }

    /// Runs the program over a packet.
    pub fn apply(&mut self, patch: &[u8]) -> VmStatus {
        self.with(|vm| vm.apply(patch))
    }

    /// The state as a message.
    pub fn state(&mut self) -> Vec<u8> {
        self.with(|vm| {
            let mut state = Vec::with_capacity(vm.state_len());
            let Ok(()) = vm.write_state(&mut state);
            state
        })
    }

    /// What happened so far, and what the state takes.
    pub fn stats(&self) -> VmStats {
        VmStats::of(self.patches, self.failures, self.cells, self.live)
    }

    /// Gives the memory back, with the state in it.
    pub fn into_memory(self) -> M {
        self.memory
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Of each field the newest.
    const MERGE: &[u8] = &[0x12, 2, 0x1A, 0];

    #[test]
    fn it_goes_on_with_what_it_has_and_so_does_another_with_its_memory() {
        let mut vm = OwnedVm::new(MERGE, vec![0; 4097]).unwrap();
        assert_eq!([&[0x08, 1][..], &[0x10, 2], &[0x08, 3]].map(|patch| vm.apply(patch)), [VmStatus::Ok; 3]);
        assert_eq!(vm.apply(&[0x0A, 200, 0]), VmStatus::Ok);
        assert_eq!((vm.state(), vm.stats().patches), (vec![0x08, 3, 0x10, 2], 4));
        let (used, stats) = (vm.stats().used, vm.with(|vm| vm.stats()));
        assert_eq!(vm.stats(), stats);
        let memory = vm.into_memory();
        assert_eq!(OwnedVm::attach(&[0x12, 2, 0x22, 0], memory.clone()).err(), Some(VmError::OtherProgram));
        let mut vm = OwnedVm::attach(MERGE, memory).unwrap();
        assert_eq!((vm.stats().used, vm.state()), (used, vec![0x08, 3, 0x10, 2]));
        assert!(OwnedVm::new(MERGE, vec![0; 100]).is_err() && OwnedVm::attach(MERGE, vec![0; 4096]).is_err());
    }

    #[test]
    fn what_is_beyond_the_limits_is_an_abort() {
        let limits = Limits { fields: 3, ..Limits::default() };
        let mut vm = OwnedVm::new(MERGE, vec![0; 1024]).unwrap().with_limits(limits);
        assert_eq!(vm.apply(&[0x08, 1, 0x10, 2, 0x18, 3, 0x20, 4]), VmStatus::Abort);
        assert_eq!((vm.state(), vm.stats().aborts), (vec![], 1));
    }
}
