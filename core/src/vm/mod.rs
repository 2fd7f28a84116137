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
//! | cells, and who has them | `cell`, `arena` |
//! | patches that count whole or not at all | `journal` |
//! | the children of a node, in order | `tree` |
//! | fields of patches, programs and stored bytes | `wire` |
//! | what nodes turn into when a program walks into them | `convert` |
//! | programs, and those that are ready-made | `program`, `keep` |
//! | a patch's run: instructions, and paths | `run`, `select` |
//! | the state as a message | `walk`, `write` |
//! | states that are found again | `attach` |
//! | machines that a buffer shows what it overwrites | `observer` |
//!
//! # Programs
//!
//! As Perfetto's, with these differences: an abort leaves the state as it was before the patch; registers are empty
//! when a patch begins; keys have 64 bits; a scalar at an empty root is an abort; `array_index` finds scalars in a
//! patch too; bytes from patches that a path leads into must be a whole message, else it is an abort; field numbers go up to
//! 2^29 - 1. Work is bounded by [`Limits`], nesting by the frames that the caller gives.
//!
//! # What a crash leaves
//!
//! The state is in the middle of no patch: [`Vm::attach`] finds it as it was before the patch or after it.
#![forbid(unsafe_code)]

mod arena;
mod attach;
mod cell;
mod convert;
mod error;
mod journal;
mod keep;
mod observer;
mod program;
mod run;
mod select;
#[cfg(test)]
mod tests;
mod tree;
mod walk;
mod wire;
mod write;

pub use error::{VmError, VmStatus};
pub use keep::Keep;
pub use observer::{ProducerVm, VmObserver};
pub use program::{Program, Step};
pub use run::StackFrame;

use crate::debug::debug_fields;
use crate::proto::Sink;
use arena::Arena;
use core::fmt;
use error::{OrAbort, Stop};
use run::{Registers, Run};
use walk::{ROOT, Visit, Walk};
use wire::{BYTES, Field, Source};

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

/// A state and the program that keeps it, in memory that the caller gives.
pub struct Vm<'m> {
    arena: Arena<'m>,
    program: Program<'m>,
    frames: &'m mut [StackFrame],
    /// Here, and not in a run, for the stack's sake.
    registers: Registers,
    limits: Limits,
    patches: u64,
    errors: u64,
    aborts: u64,
}

impl<'m> Vm<'m> {
    /// Lays out an empty state. `memory` limits what the state can hold, and `frames` how deep a program may nest.
    ///
    /// Of the memory, from the first 8-byte boundary on, 32 bytes are for a header; the rest is cells of 32 bytes. A
    /// patch needs free ones until it is done: two or three for each node that it changes.
    ///
    /// # Errors
    /// [`VmError::TooSmall`].
    pub fn new(
        memory: &'m mut [u8],
        program: Program<'m>,
        frames: &'m mut [StackFrame],
    ) -> Result<Self, VmError> {
        let arena = Arena::new(memory, program.fingerprint())?;
        Ok(Self::over(arena, program, frames))
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
        let mut arena = Arena::found(memory, program.fingerprint())?;
        attach::check(&mut arena).ok_or(VmError::Damaged)?;
        Ok(Self::over(arena, program, frames))
    }

    fn over(arena: Arena<'m>, program: Program<'m>, frames: &'m mut [StackFrame]) -> Self {
        let (registers, limits) = (Registers::default(), Limits::default());
        Self { arena, program, frames, registers, limits, patches: 0, errors: 0, aborts: 0 }
    }

    /// With other limits than the default.
    #[must_use]
    pub fn with_limits(self, limits: Limits) -> Self {
        Self { limits, ..self }
    }

    /// Runs the program over a packet.
    pub fn apply(&mut self, patch: &[u8]) -> VmStatus {
        let outcome = self.change(|vm| {
            let Self { arena, program, frames, registers, limits, .. } = vm;
            Run::new(arena, program, frames, registers, patch, limits.instructions).program()
        });
        self.patches = self.patches.wrapping_add(1);
        match outcome {
            VmStatus::Ok => {}
            VmStatus::Error => self.errors = self.errors.wrapping_add(1),
            VmStatus::Abort => self.aborts = self.aborts.wrapping_add(1),
        }
        outcome
    }

    /// Replaces the state by a message, which is decoded as far as the program walks into it.
    ///
    /// [`VmStatus::Abort`] if there is no room: the state is then as before.
    pub fn load_state(&mut self, message: &[u8]) -> VmStatus {
        self.change(|vm| {
            vm.arena.displace(ROOT).or_abort()?;
            let field = Field { id: 0, wire: BYTES, value: 0, bytes: Source::flat(message).whole() };
            vm.arena.store(ROOT, &field, message).or_abort()?;
            vm.arena.set_loaded(ROOT).or_abort()
        })
    }

    /// Bytes of the state as a message.
    pub fn state_len(&mut self) -> usize {
        write::measure(&mut self.arena).unwrap_or(0) as usize
    }

    /// Writes the state as a message: fields in the order of their numbers, elements in the order of their indexes or
    /// keys.
    ///
    /// # Errors
    /// The sink's.
    pub fn write_state<S: Sink>(&mut self, out: &mut S) -> Result<(), S::Error> {
        if write::measure(&mut self.arena).is_none() {
            return Ok(());
        }
        write::write(&mut self.arena, out).unwrap_or(Ok(()))
    }

    /// What happened so far, and what the state takes.
    pub fn stats(&self) -> VmStats {
        VmStats {
            patches: self.patches,
            errors: self.errors,
            aborts: self.aborts,
            cells: self.arena.len(),
            used: self.arena.used(),
            high_water: self.arena.high_water(),
        }
    }

    /// A change of the state that counts unless it is an abort.
    fn change(&mut self, change: impl FnOnce(&mut Self) -> error::Step<()>) -> VmStatus {
        if !self.arena.begin(self.limits.fields) && self.forget_stamps().is_none() {
            return VmStatus::Abort;
        }
        let outcome = match change(self) {
            Ok(()) => VmStatus::Ok,
            Err(Stop::Error) => VmStatus::Error,
            Err(Stop::Abort) => {
                self.arena.abort();
                return VmStatus::Abort;
            }
        };
        self.arena.commit();
        outcome
    }

    /// Once in two billion patches and merges.
    fn forget_stamps(&mut self) -> Option<()> {
        let mut walk = Walk::new(&mut self.arena, 0);
        while walk.next(&mut self.arena)? != Visit::End {}
        self.arena.forget_stamps();
        Some(())
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
