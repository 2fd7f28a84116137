//! The interpreter: a patch's run through the program, over an explicit stack.

use super::arena::Arena;
use super::cell::{Kind, NONE, Span};
use super::error::{OrAbort, Step, Stop};
use super::program::{Cursor, Instruction, Level, Op, Program};
use super::walk::ROOT;
use super::wire::{BYTES, Field, Source};

/// What programs load numbers into.
pub(super) type Registers = [u64; 32];

/// The cursor in the patch: a field's value.
#[derive(Clone, Copy)]
pub(super) struct Src {
    wire: u8,
    /// A scalar, or a span's start and length.
    bits: u64,
}

impl Src {
    pub(super) fn of(field: &Field) -> Self {
        let Span { at, len, .. } = field.bytes;
        let bits = if field.wire == BYTES { u64::from(at) | u64::from(len) << 32 } else { field.value };
        Self { wire: field.wire, bits }
    }

    fn field(self) -> Field {
        let bytes = Span::flat(self.bits as u32, (self.bits >> 32) as u32);
        Field { id: 0, wire: self.wire, value: self.bits, bytes }
    }

    /// Its bytes; an abort if it is a scalar.
    pub(super) fn bytes(self) -> Step<Span> {
        if self.wire == BYTES { Ok(self.field().bytes) } else { Err(Stop::Abort) }
    }

    fn scalar(self) -> Step<u64> {
        if self.wire == BYTES { Err(Stop::Abort) } else { Ok(self.bits) }
    }
}

/// The cursor in the state.
#[derive(Clone, Copy)]
pub(super) struct Dst {
    node: u32,
    /// Among whose children the node is; [`NOWHERE`](Self::NOWHERE) if it stays there after a `del`.
    owner: u32,
}

impl Dst {
    /// No index.
    const NOWHERE: u32 = u32::MAX;

    /// A node that `del` empties instead of unlinking it: the root, or an element in a loop.
    pub(super) const fn fixed(node: u32) -> Self {
        Self { node, owner: Self::NOWHERE }
    }

    pub(super) const fn child(node: u32, owner: u32) -> Self {
        Self { node, owner }
    }

    /// Where it is; an abort after a `del`.
    pub(super) fn node(self) -> Step<u32> {
        if self.node == Self::NOWHERE { Err(Stop::Abort) } else { Ok(self.node) }
    }
}

/// What waits for something to end. Room for one takes up to 32 bytes.
#[derive(Clone, Copy)]
pub(super) enum Waiting {
    /// A list of instructions, the last of which is before `next`.
    List { next: u32, end: u32 },
    /// A `select`, with the cursors that it gives back.
    Select { src: Src, dst: Dst },
    /// A loop over fields of the patch, of which the rest is to come.
    SrcLoop { instruction: u32, after: u32, at: u32, len: u32 },
    /// A loop over elements of the state, of which those from a key on are to come.
    DstLoop { instruction: u32, after: u32, list: u32, from: u64 },
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

/// A patch's run.
pub(super) struct Run<'r, 'm> {
    pub(super) arena: &'r mut Arena<'m>,
    pub(super) program: &'r Program<'m>,
    pub(super) patch: &'r [u8],
    frames: &'r mut [StackFrame],
    depth: usize,
    pub(super) src: Src,
    pub(super) dst: Dst,
    registers: &'r mut Registers,
    /// A bit for each register that this patch has loaded.
    loaded: u32,
    /// Instructions and components that may still be run.
    instructions: u32,
}

impl<'r, 'm> Run<'r, 'm> {
    pub(super) fn new(
        arena: &'r mut Arena<'m>,
        program: &'r Program<'m>,
        frames: &'r mut [StackFrame],
        registers: &'r mut Registers,
        patch: &'r [u8],
        instructions: u32,
    ) -> Self {
        let bytes = Source::flat(patch).whole();
        let src = Src::of(&Field { id: 0, wire: BYTES, value: 0, bytes });
        let dst = Dst::fixed(ROOT);
        Self { arena, program, patch, frames, depth: 0, src, dst, registers, loaded: 0, instructions }
    }

    /// Runs the program to its end.
    pub(super) fn program(&mut self) -> Step<()> {
        self.push(Waiting::List { next: 0, end: self.program.top() })?;
        let mut ended = Ok(());
        // Each round takes up what waits for that which has just ended.
        while let Some(StackFrame(waiting)) = self.top() {
            if ended == Err(Stop::Abort) {
                break;
            }
            ended = match waiting {
                Waiting::List { next, end } => self.list(ended, next, end),
                Waiting::Select { src, dst } => {
                    (self.src, self.dst) = (src, dst);
                    self.pop(ended)
                }
                Waiting::SrcLoop { instruction, after, at, len } if ended.is_ok() => {
                    self.src_round(instruction, after, Span::flat(at, len))
                }
                Waiting::DstLoop { instruction, after, list, from } if ended.is_ok() => {
                    self.dst_round(instruction, after, list, from)
                }
                _ => self.pop(ended),
            };
        }
        ended
    }

    fn top(&self) -> Option<StackFrame> {
        self.frames.get(self.depth.checked_sub(1)?).copied()
    }

    pub(super) fn push(&mut self, waiting: Waiting) -> Step<()> {
        *self.frames.get_mut(self.depth).or_abort()? = StackFrame(waiting);
        self.depth = self.depth.checked_add(1).or_abort()?;
        Ok(())
    }

    /// Changes what waits on top.
    pub(super) fn replace(&mut self, waiting: Waiting) -> Step<()> {
        let top = self.depth.checked_sub(1).or_abort()?;
        *self.frames.get_mut(top).or_abort()? = StackFrame(waiting);
        Ok(())
    }

    pub(super) fn pop(&mut self, ended: Step<()>) -> Step<()> {
        self.depth = self.depth.checked_sub(1).or_abort()?;
        ended
    }

    /// Goes on with a list, of which an instruction ended, or none yet.
    fn list(&mut self, ended: Step<()>, next: u32, end: u32) -> Step<()> {
        if ended.is_err() {
            let instruction = next.checked_sub(1).and_then(|at| self.program.instruction(at)).or_abort()?;
            match instruction.level {
                Level::Skip => {}
                Level::Leave => return self.pop(ended),
                Level::Abort => return Err(Stop::Abort),
            }
        }
        if next >= end {
            return self.pop(Ok(()));
        }
        self.replace(Waiting::List { next: next.checked_add(1).or_abort()?, end })?;
        self.charge()?;
        let instruction = *self.program.instruction(next).or_abort()?;
        match instruction.op {
            Op::Select => {
                self.push(Waiting::Select { src: self.src, dst: self.dst })?;
                return self.path(next, instruction.path().0);
            }
            Op::RegLoad => self.reg_load(&instruction)?,
            Op::Delete => self.delete()?,
            Op::Merge => self.merge(&instruction)?,
            Op::Set => self.set()?,
            Op::None => return Err(Stop::Abort),
        }
        self.nested(&instruction)
    }

    /// Begins with the instructions that are nested in one.
    pub(super) fn nested(&mut self, instruction: &Instruction) -> Step<()> {
        let (next, end) = instruction.nested();
        if next < end { self.push(Waiting::List { next, end }) } else { Ok(()) }
    }

    /// Counts an instruction or a component.
    pub(super) fn charge(&mut self) -> Step<()> {
        self.instructions = self.instructions.checked_sub(1).or_abort()?;
        Ok(())
    }

    fn reg_load(&mut self, instruction: &Instruction) -> Step<()> {
        let value = match instruction.cursor {
            Cursor::Source => self.src.scalar()?,
            Cursor::State | Cursor::Other => {
                let cell = self.arena.cell(self.dst.node()?);
                if cell.kind() != Kind::Scalar {
                    return Err(Stop::Abort);
                }
                cell.scalar()
            }
        };
        *self.registers.get_mut(usize::from(instruction.register)).or_abort()? = value;
        self.loaded |= 1_u32.checked_shl(instruction.register.into()).or_abort()?;
        Ok(())
    }

    /// A register that was loaded during this patch.
    pub(super) fn register(&self, register: u8) -> Step<u64> {
        let bit = 1_u32.checked_shl(register.into()).or_abort()?;
        if self.loaded & bit == 0 {
            return Err(Stop::Abort);
        }
        self.registers.get(usize::from(register)).copied().or_abort()
    }

    fn delete(&mut self) -> Step<()> {
        let node = self.dst.node()?;
        if self.dst.owner == Dst::NOWHERE {
            self.arena.displace(node).or_abort()?;
            return Ok(());
        }
        // Not what the innermost select gives back.
        let waiting = self.frames.get(..self.depth).unwrap_or_default().iter().rev();
        let saved = waiting.clone().find_map(|frame| match frame.0 {
            Waiting::Select { dst, .. } => Some(dst.node),
            _ => None,
        });
        if saved == Some(node) {
            return Err(Stop::Abort);
        }
        self.arena.remove(self.dst.owner, node).or_abort()?;
        self.dst.node = Dst::NOWHERE;
        Ok(())
    }

    fn set(&mut self) -> Step<()> {
        let node = self.dst.node()?;
        let field = self.src.field();
        let kind = self.arena.cell(node).kind();
        let fits = match kind {
            Kind::Empty => field.wire == BYTES || node != ROOT,
            Kind::Scalar => field.wire != BYTES,
            Kind::Bytes | Kind::Message => field.wire == BYTES,
            Kind::Indexed | Kind::Mapped => false,
        };
        if !fits {
            return Err(Stop::Abort);
        }
        if matches!(kind, Kind::Bytes | Kind::Message) {
            self.arena.displace(node).or_abort()?;
        }
        self.arena.store(node, &field, self.patch).or_abort()
    }

    fn merge(&mut self, instruction: &Instruction) -> Step<()> {
        let mut rest = self.src.bytes()?;
        let node = self.dst.node()?;
        if !matches!(self.arena.cell(node).kind(), Kind::Empty | Kind::Message | Kind::Bytes) {
            return Err(Stop::Abort);
        }
        if rest.len == 0 {
            return Ok(());
        }
        self.arena.make_message(node).or_abort()?;
        let stamp = self.arena.next_stamp().or_abort()?;
        while let Some(field) = self.next_field(&mut rest)? {
            self.merge_field(instruction, node, &field, stamp).or_abort()?;
        }
        Ok(())
    }

    /// Merges a field. Children that this merge has touched have its stamp.
    fn merge_field(&mut self, how: &Instruction, node: u32, field: &Field, stamp: u32) -> Option<()> {
        let key = u64::from(field.id);
        let found = self.arena.find(node, key);
        let child = if found == NONE { self.arena.child(node, key)? } else { found };
        let cell = self.arena.cell(child);
        let (kind, touched) = (cell.kind(), cell.link.get() == stamp);
        let mut place = child;
        if found != NONE {
            if how.del_if_src_empty && field.wire == BYTES && field.bytes.len == 0 {
                return self.arena.remove(node, child);
            }
            if how.skip_submessages && kind == Kind::Message {
                return Some(());
            }
            if kind == Kind::Mapped {
                return None;
            }
            if !touched {
                self.arena.displace(child)?;
            }
            if touched || kind == Kind::Indexed {
                self.arena.make_indexed(child)?;
                place = self.arena.next_element(child)?;
            }
        }
        self.arena.store(place, field, self.patch)?;
        self.arena.edit(child)?.link.set(stamp);
        Some(())
    }

    /// The next field of a part of the patch.
    pub(super) fn next_field(&mut self, rest: &mut Span) -> Step<Option<Field>> {
        self.arena.charge().or_abort()?;
        Ok(Source::flat(self.patch).field(rest))
    }
}
