//! ProtoVM: a state that outlives the ring, kept by a small program.
//!
//! A ring loses its oldest packets. If packets are increments (a track got its name, a counter changed), what is lost
//! can never be rebuilt. So each packet that is about to go is a *patch*: a program, which comes with the data, folds
//! it into a *state*, a message that is written out before the packets that remain.
//!
//! ```
//! use tracebuf::vm::{Keep, Program, StackFrame, Step, Vm, VmStatus};
//!
//! // The last packet of each track and counter. Programs can also come from producers, as bytes.
//! let mut bytes = [0; 256];
//! let bytes = Program::keep_last_by(&Keep::DESCRIPTIONS, &mut bytes)?;
//! let mut steps = [Step::default(); 64];
//! let program = Program::new(bytes, &mut steps)?;
//!
//! // All else lies in memory that the caller gives, too.
//! let (mut memory, mut frames) = ([0; 4096], [StackFrame::default(); 16]);
//! let mut vm = Vm::new(&mut memory, program, &mut frames)?;
//!
//! // A track's descriptor: uuid 7, named "main".
//! let packet = b"\xE2\x03\x08\x08\x07\x12\x04main";
//! assert_eq!(vm.apply(packet), VmStatus::Ok);
//! // A slice's begin is none of it.
//! assert_eq!(vm.apply(b"\x5A\x02\x48\x01"), VmStatus::Error);
//!
//! let mut state = [0; 64];
//! let mut out = tracebuf::proto::Encoder::new(&mut state);
//! vm.write_state(&mut out)?;
//! assert_eq!(out.finish()?, [&b"\xC2\x3E\x0B"[..], packet].concat());
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Where things are
//!
//! | what | here |
//! |---|---|
//! | cells, who has them, and patches that count whole or not at all | `cell`, `arena` |
//! | the children of a node, in order | `tree` |
//! | fields of patches, programs and stored bytes | `wire` |
//! | what nodes hold, and turn into when a program walks into them | `node` |
//! | programs, and those that are ready-made | `program`, `keep` |
//! | a patch's run: instructions, and paths | `run`, `select` |
//! | the state as a message | `write` |
//! | states that are found again | `attach` |
//! | machines that a buffer shows what it overwrites | `observer` |
//! | with a heap: a machine that owns its memory, and those of data sources for a buffer | `owned`, `ring_vms` |
//!
//! # Programs
//!
//! As Perfetto's, with these differences: an abort leaves the state as it was before the patch; registers are empty
//! when a patch begins; keys have 64 bits; a scalar at an empty root is an abort; `array_index` finds scalars in a
//! patch too; bytes from patches that a path leads into must be a whole message, else it is an abort; field numbers go
//! up to 2^29 - 1. Work is bounded by [`Limits`], nesting by the frames that the caller gives.
//!
//! # What a crash leaves
//!
//! The state is in the middle of no patch: [`Vm::attach`] finds it as it was before the patch or after it.
#![forbid(unsafe_code)]

mod arena;
mod attach;
mod cell;
mod error;
mod keep;
mod node;
mod observer;
#[cfg(feature = "alloc")]
mod owned;
mod program;
#[cfg(feature = "alloc")]
mod ring_vms;
mod run;
mod select;
#[cfg(test)]
mod tests;
mod tree;
mod wire;
mod write;

pub use error::{VmError, VmStatus};
pub use keep::Keep;
pub use observer::{ProducerVm, VmObserver};
#[cfg(feature = "alloc")]
pub use owned::OwnedVm;
pub use program::{Program, Step};
#[cfg(feature = "alloc")]
pub use ring_vms::{RingProgram, RingVmStats, RingVms};
pub use run::StackFrame;

use crate::debug::debug_fields;
use crate::proto::Sink;
use arena::{Arena, Live};
use cell::{CELL, Cell, EMPTY, LOADED, ROOT};
use core::fmt;
use run::Run;
use wire::{Field, LENGTH};

/// The most that a patch may cost. What costs more is an abort.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Instructions, components of paths, and rounds of loops.
    pub instructions: u32,
    /// Fields of the patch looked at, and cells of 32 bytes taken.
    pub fields: u32,
}

impl Default for Limits {
    /// Some milliseconds of work on a desktop processor.
    fn default() -> Self {
        Self { instructions: 1 << 16, fields: 1 << 17 }
    }
}

/// Counts of a [`Vm`] since it was made or attached.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[non_exhaustive]
pub struct VmStats {
    /// Patches applied, whatever became of them.
    pub patches: u64,
    /// Those of them that the program did not know: [`VmStatus::Error`].
    pub errors: u64,
    /// Those of them that left no trace: [`VmStatus::Abort`].
    pub aborts: u64,
    /// Cells of 32 bytes that there are.
    pub cells: u32,
    /// Cells in use.
    pub used: u32,
    /// The most cells that were in use at a time, including what a patch needs until it is done.
    pub high_water: u32,
}

impl VmStats {
    #[inline(always)]
    fn of(patches: u64, [errors, aborts]: [u64; 2], cells: usize, live: Live) -> Self {
        let cells = (cells as u32).saturating_sub(ROOT / CELL);
        Self { patches, errors, aborts, cells, used: live.used, high_water: live.high_water }
    }
}

/// A state and the program that keeps it, in memory that the caller gives.
// In this order, no zeros lie side by side for which a small image would need a function.
#[repr(C)]
pub struct Vm<'m> {
    patches: u64,
    cells: &'m mut [Cell],
    live: Live,
    program: Program<'m>,
    frames: &'m mut [StackFrame],
    /// Patches that were an Error, and that were an Abort.
    failures: [u64; 2],
    limits: Limits,
}

impl<'m> Vm<'m> {
    /// Lays out an empty state. `memory` limits what the state can hold, and `frames` how deep a program may nest.
    ///
    /// Of the memory, from the first 4-byte boundary on, 288 bytes are for a header and registers; the rest is cells of
    /// 32 bytes, at most 512 MiB. A patch needs free ones until it is done: two or three for each node that it changes.
    ///
    /// # Errors
    /// [`VmError::TooSmall`].
    pub fn new(
        memory: &'m mut [u8],
        program: Program<'m>,
        frames: &'m mut [StackFrame],
    ) -> Result<Self, VmError> {
        Self::open(memory, program, frames, true)
    }

    /// Takes over the state in `memory`, however the program that kept it ended: as it was before the patch that it
    /// was in, or after it. `memory` may lie elsewhere now and may be longer.
    ///
    /// Nothing in the memory is trusted: each cell is looked at. Only bits of scalars and bytes may have flipped
    /// unnoticed.
    ///
    /// # Errors
    /// [`VmError::NoState`], [`VmError::OtherProgram`] or [`VmError::Damaged`]; make a new one then.
    pub fn attach(
        memory: &'m mut [u8],
        program: Program<'m>,
        frames: &'m mut [StackFrame],
    ) -> Result<Self, VmError> {
        Self::open(memory, program, frames, false)
    }

    fn open(
        memory: &'m mut [u8],
        program: Program<'m>,
        frames: &'m mut [StackFrame],
        is_new: bool,
    ) -> Result<Self, VmError> {
        let (cells, live) = attach::open(memory, program.fingerprint, is_new)?;
        Ok(Self { patches: 0, cells, live, program, frames, failures: [0; 2], limits: Limits::default() })
    }

    /// With other limits than the default.
    #[must_use]
    pub fn with_limits(self, limits: Limits) -> Self {
        Self { limits, ..self }
    }

    /// Runs the program over a packet.
    pub fn apply(&mut self, patch: &[u8]) -> VmStatus {
        let top = self.program.top;
        let outcome = self.change(patch, |run| run.run(0, top));
        self.patches = self.patches.wrapping_add(1);
        if let Some(count) = self.failures.get_mut((outcome as usize).wrapping_sub(VmStatus::Error as usize))
        {
            *count = count.wrapping_add(1);
        }
        outcome
    }

    /// Replaces the state by a message, which is decoded as far as the program walks into it. The elements of a program
    /// of [`Program::keep_last_by`] are found again by their keys.
    ///
    /// [`VmStatus::Abort`] if there is no room, or if the state is not one that this program keeps: the state is then as
    /// before.
    pub fn load_state(&mut self, message: &[u8]) -> VmStatus {
        let program = self.program;
        self.change(message, |run| {
            let state = run.src;
            run.arena.clear(ROOT, EMPTY);
            if program.list_kept(0).is_none() {
                run.arena.store(ROOT, &state, LOADED);
                return true;
            }
            let (mut rest, limits) = (state.bytes(), (run.instructions, run.arena.budget));
            let mut packet = Field::default();
            while run.arena.field(&mut rest, &mut packet) {
                // As in a patch of its own, but kept only where it was.
                (run.instructions, run.arena.budget, run.src) = (limits.0, limits.1, packet);
                let is_kept = (0..program.top).fold(false, |is_kept, at| {
                    let list = program.list_kept(at).unwrap_or(packet.id);
                    if list == packet.id { run.run(at, at.wrapping_add(1)) } else { is_kept }
                });
                if packet.wire != LENGTH || !is_kept {
                    run.arena.fail();
                }
            }
            rest.len == 0 || run.abort()
        })
    }

    /// Bytes of the state as a message.
    pub fn state_len(&mut self) -> usize {
        self.arena().measure() as usize
    }

    /// Writes the state as a message: fields in the order of their numbers, elements in the order of their indexes or
    /// keys.
    ///
    /// # Errors
    /// The sink's.
    pub fn write_state<S: Sink>(&mut self, out: &mut S) -> Result<(), S::Error> {
        let mut arena = self.arena();
        arena.measure();
        arena.write(out)
    }

    /// What happened so far, and what the state takes.
    pub fn stats(&self) -> VmStats {
        VmStats::of(self.patches, self.failures, self.cells.len(), self.live)
    }

    fn arena(&mut self) -> Arena<'_> {
        Arena::new(self.cells, self.live, &[], u32::MAX)
    }

    /// A change of the state that counts unless it fails.
    fn change(&mut self, flat: &[u8], change: impl FnOnce(&mut Run<'_, '_>) -> bool) -> VmStatus {
        let Self { cells, live, program, frames, limits, .. } = self;
        let arena = Arena::new(cells, *live, flat, limits.fields);
        let mut run = Run::new(arena, program.steps, frames, limits.instructions);
        let is_ok = change(&mut run);
        let counts = run.arena.end();
        *live = run.arena.live;
        match counts {
            true if is_ok => VmStatus::Ok,
            true => VmStatus::Error,
            false => VmStatus::Abort,
        }
    }
}

impl fmt::Debug for VmStats {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        debug_fields!(self, f, "VmStats", patches, errors, aborts, cells, used, high_water)
    }
}

crate::debug::opaque_debug! {
    "StackFrame": [] StackFrame,
    "Program": [] Program<'_>,
    "Step": [] Step,
    "Vm": [] Vm<'_>,
    "ProducerVm": [] ProducerVm<'_>,
    "VmObserver": [] VmObserver<'_, '_>,
}
#[cfg(feature = "alloc")]
crate::debug::opaque_debug! {
    "OwnedVm": [M] OwnedVm<M>,
    "RingVms": [] RingVms,
}
