//! The interpreter: a patch's run through the program, over an explicit stack.

use super::arena::Arena;
use super::cell::{BYTES, EMPTY, FIRST_REGISTER, HIGH, LOW, MESSAGE, NONE, REGISTERS, ROOT, SCALAR};
use super::program::{ABORT, DELETE, LEAVE, MERGE, REG_LOAD, SELECT, SET, SOURCE, Step};
use super::wire::{Field, LENGTH, VARINT};

/// In the cursor in the state, which is a node: `del` empties it instead of unlinking it. It is the root, or an element in
/// a loop.
pub(super) const STAYS: u32 = 1;

/// What waits for something to end. Room for one takes up to 32 bytes.
#[derive(Clone, Copy)]
pub(super) enum Waiting {
    /// A list of instructions, the last of which is before `next`.
    List { next: u32, end: u32 },
    /// A `select`, with the cursors that it gives back.
    Select { src: Field, dst: u32, saved: u32 },
    /// A loop of a `select` over fields of the patch, or over elements of the state: place and length of the fields to
    /// come, or the list and the lowest index to come. The component is before `after`.
    Loop { select: u32, after: u32, of: [u32; 2] },
}

/// Room for a list of instructions, a `select` or a loop that waits for what is nested in it: 32 bytes.
///
/// Each `select` takes two, and one more for each loop in its path; other instructions with nested ones take one, as
/// does the program.
#[derive(Clone, Copy)]
pub struct StackFrame(pub(super) Waiting);

impl Default for StackFrame {
    fn default() -> Self {
        Self(Waiting::List { next: 0, end: 0 })
    }
}

const _: () = assert!(size_of::<StackFrame>() <= 32);

/// A patch's run. Its operations return whether they are Ok or an Error; an Abort is a patch that fails.
#[repr(C)]
pub(super) struct Run<'r, 'm> {
    pub(super) arena: Arena<'r>,
    steps: &'m [Step],
    frames: &'r mut [StackFrame],
    depth: usize,
    pub(super) src: Field,
    /// [`NONE`] after a `del`.
    pub(super) dst: u32,
    /// What the innermost `select` gives back to it.
    saved: u32,
    /// A bit for each register that this patch has loaded.
    loaded: u32,
    /// Instructions and components that may still be run.
    pub(super) instructions: u32,
}

impl<'r, 'm> Run<'r, 'm> {
    pub(super) fn new(
        arena: Arena<'r>,
        steps: &'m [Step],
        frames: &'r mut [StackFrame],
        instructions: u32,
    ) -> Self {
        let (src, dst) = (arena.whole(), ROOT | STAYS);
        Self { arena, steps, frames, depth: 0, src, dst, saved: NONE, loaded: 0, instructions }
    }

    /// Runs a list of instructions to its end.
    #[cfg_attr(tracebuf_size, inline(never))]
    pub(super) fn run(&mut self, next: u32, end: u32) -> bool {
        self.push(Waiting::List { next, end });
        let mut is_ok = true;
        // Each round takes up what waits for that which has just ended.
        while !self.arena.failed {
            let Some(top) = self.depth.checked_sub(1) else { break };
            let Some(StackFrame(waiting)) = self.frames.get(top) else { break };
            self.depth = top;
            is_ok = match *waiting {
                Waiting::List { next, end } => self.list(is_ok, next, end),
                Waiting::Loop { select, after, of } => is_ok && self.round(select, after, of),
                Waiting::Select { src, dst, saved } => {
                    (self.src, self.dst, self.saved) = (src, dst, saved);
                    is_ok
                }
            };
        }
        is_ok
    }

    #[cfg_attr(tracebuf_size, inline(never))]
    pub(super) fn push(&mut self, waiting: Waiting) {
        match self.frames.get_mut(self.depth) {
            Some(top) => *top = StackFrame(waiting),
            None => self.arena.fail(),
        }
        self.depth = self.depth.wrapping_add(1);
    }

    /// Goes on with a list, of which an instruction ended, or none yet.
    fn list(&mut self, is_ok: bool, next: u32, end: u32) -> bool {
        if !is_ok {
            match self.step(next.wrapping_sub(1)).level {
                LEAVE => return false,
                ABORT => return self.abort(),
                _ => {}
            }
        }
        if next == end {
            return true;
        }
        self.charge();
        let (step, next_one) = (self.step(next), next.wrapping_add(1));
        // What becomes of the last is what becomes of the list, mostly.
        if cfg!(tracebuf_size) || next_one != end || step.level != LEAVE {
            self.push(Waiting::List { next: next_one, end });
        }
        match step.op {
            SELECT => {
                self.push(Waiting::Select { src: self.src, dst: self.dst, saved: self.saved });
                self.saved = self.dst;
                return self.path(next, step.first);
            }
            REG_LOAD => self.reg_load(step),
            // All others need the state's cursor.
            _ if self.dst == NONE => return self.abort(),
            DELETE => self.delete(),
            MERGE => self.merge(step.detail),
            SET => self.set(),
            _ => return self.abort(),
        }
        self.nested(step)
    }

    /// Begins with the instructions that are nested in one.
    pub(super) fn nested(&mut self, instruction: &Step) -> bool {
        let Step { end: next, nested_end: end, .. } = *instruction;
        if next < end {
            self.push(Waiting::List { next, end });
        }
        true
    }

    #[cfg_attr(tracebuf_size, inline(never))]
    /// A step; of none that there is, one that aborts.
    pub(super) fn step(&self, at: u32) -> &'m Step {
        self.steps.get(at as usize).unwrap_or(&Step::NONE)
    }

    /// Ends the patch, whatever it would return.
    pub(super) fn abort(&mut self) -> bool {
        self.arena.fail();
        false
    }

    /// Counts an instruction or a component.
    #[cfg_attr(tracebuf_size, inline(never))]
    pub(super) fn charge(&mut self) {
        match self.instructions.checked_sub(1) {
            Some(left) => self.instructions = left,
            None => self.arena.fail(),
        }
    }

    /// The node at the cursor in the state.
    pub(super) fn node(&self) -> u32 {
        self.dst & !STAYS
    }

    fn reg_load(&mut self, step: &Step) {
        let Field { mut wire, mut value, .. } = self.src;
        if step.cursor != SOURCE {
            let node = self.node();
            value = [self.arena.word(node, LOW), self.arena.word(node, HIGH)];
            wire = if self.arena.kind(node) == SCALAR { VARINT } else { LENGTH };
        }
        if wire == LENGTH || step.detail >= REGISTERS {
            return self.arena.fail();
        }
        self.loaded |= 1 << step.detail;
        let [low, high] = value;
        self.arena.set(register_at(step.detail), low);
        self.arena.set(register_at(step.detail) | 1, high);
    }

    /// A register that was loaded during this patch.
    pub(super) fn register(&mut self, register: u8) -> u64 {
        if register >= REGISTERS || self.loaded >> register & 1 == 0 {
            self.arena.fail();
        }
        self.arena.pair(register_at(register))
    }

    fn delete(&mut self) {
        let node = self.node();
        if self.dst != node {
            self.arena.clear(node, EMPTY);
        } else if self.saved == node {
            self.arena.fail();
        } else {
            self.arena.remove(node);
            self.dst = NONE;
        }
    }

    fn set(&mut self) {
        let node = self.node();
        let kind = self.arena.kind(node);
        let fits = if self.src.wire == LENGTH {
            matches!(kind, EMPTY | BYTES | MESSAGE)
        } else {
            kind <= SCALAR && node != ROOT
        };
        if fits { self.arena.store(node, &self.src, 0) } else { self.arena.fail() }
    }

    fn merge(&mut self, how: u8) {
        let node = self.node();
        if self.src.wire != LENGTH || !matches!(self.arena.kind(node), EMPTY | BYTES | MESSAGE) {
            return self.arena.fail();
        }
        let fields = self.src.bytes();
        if fields.len > 0 {
            self.arena.make_message(node);
            self.arena.merge(node, fields, how.into());
        }
    }
}

/// The word of a register.
fn register_at(register: u8) -> u32 {
    FIRST_REGISTER + 2 * u32::from(register)
}
