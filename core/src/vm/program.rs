//! Programs, decoded once into steps of 16 bytes.
//!
//! An instruction's path and its nested instructions lie one after the other. Decoding goes breadth first: instructions
//! wait among the steps, as the place of their bytes, until it is their turn.

use super::arena::{Arena, Live};
use super::attach::mixed;
use super::error::VmError;
use super::wire::{Field, LENGTH, MAX_FIELD, Span};

/// Operations of instructions: the numbers of their fields.
pub(super) const SELECT: u8 = 1;
pub(super) const REG_LOAD: u8 = 2;
pub(super) const MERGE: u8 = 3;
pub(super) const SET: u8 = 4;
pub(super) const DELETE: u8 = 5;

/// What a component of a path leads to in a field, if not to the field.
pub(super) const INDEX: u8 = 2;
pub(super) const MAP_KEY: u8 = 3;

/// Cursors: all others move the state's, and have no loops.
pub(super) const SOURCE: u8 = 1;
pub(super) const STATE: u8 = 2;

/// Abort levels: all others skip the instruction.
pub(super) const LEAVE: u8 = 2;
pub(super) const ABORT: u8 = 3;

/// A step that is not decoded yet.
const WAITING: u8 = 255;

/// One of the others: of instructions that keep a packet, so that a state is loaded by keeping them again.
pub(super) const KEEPS: u8 = 107;

/// Room for an instruction or for a component of a path: 16 bytes.
#[derive(Clone, Copy, Default)]
pub struct Step {
    /// An instruction's operation, or what a component leads to in the field; [`WAITING`] while it is but bytes.
    pub(super) op: u8,
    /// An instruction's abort level, or whether a component is a loop.
    pub(super) level: u8,
    /// An instruction's cursor.
    pub(super) cursor: u8,
    /// `create_if_not_exist`, the flags of a `merge` as bits of [`SET_FLAG`], or the register, of which 255 is none.
    pub(super) detail: u8,
    /// An instruction's first component of the path; a component's field number, 0 if there is none that a field can
    /// have. The place of bytes.
    pub(super) first: u32,
    /// Behind an instruction's last component; a component's index or key field. The length of bytes.
    pub(super) end: u32,
    /// Behind its last nested instruction, of which the first is at `end`.
    pub(super) nested_end: u32,
}

impl Step {
    pub(super) const NONE: Self =
        Self { op: 0, level: 0, cursor: 0, detail: 0, first: 0, end: 0, nested_end: 0 };
}

/// A program: a `VmProgram`, decoded into steps that the caller gives.
///
/// ```
/// use tracebuf::vm::{Program, Step};
///
/// // merge {}
/// let bytes = [0x12, 2, 0x1A, 0];
/// let mut steps = [Step::default(); 4];
/// let program = Program::new(&bytes, &mut steps)?;
/// # Ok::<(), tracebuf::vm::VmError>(())
/// ```
#[derive(Clone, Copy)]
pub struct Program<'p> {
    pub(super) steps: &'p [Step],
    /// The number of instructions outside of all others; they are the first steps.
    pub(super) top: u32,
    /// Tells programs from one another.
    pub(super) fingerprint: u32,
}

impl<'p> Program<'p> {
    /// Decodes `bytes` into `steps`, of which half as many as there are bytes are enough.
    ///
    /// Decoding a list ends at a malformed field, without an error. Nothing is checked: a fault counts when it is
    /// reached.
    ///
    /// # Errors
    /// [`VmError::TooManySteps`].
    pub fn new(bytes: &[u8], steps: &'p mut [Step]) -> Result<Self, VmError> {
        let mut decoder = Decoder {
            // A program may have as many fields as it likes.
            arena: Arena::new(&mut [], Live::default(), bytes, u32::MAX),
            steps: &mut *steps,
            len: 0,
        };
        let Some(top) = decoder.program() else {
            return Err(VmError::TooManySteps { enough: bytes.len() / 2 });
        };
        let fingerprint = bytes.iter().fold(0x811C_9DC5, |hash, byte| mixed(hash, (*byte).into()));
        Ok(Self { steps, top, fingerprint })
    }

    /// The field in which an instruction keeps packets, if it is one that does: that of the second nested in it.
    pub(super) fn list_kept(&self, at: u32) -> Option<u32> {
        let group = self.steps.get(at as usize)?;
        let list = self.steps.get(group.end.wrapping_add(1) as usize).filter(|list| list.level == KEEPS)?;
        Some(self.steps.get(list.first as usize)?.first)
    }
}

/// The steps so far.
struct Decoder<'a> {
    arena: Arena<'a>,
    steps: &'a mut [Step],
    len: u32,
}

/// What a message is, and in it the numbers of fields that are numbers.
const INSTRUCTION: u32 = 0;
const LEVEL: u32 = INSTRUCTION | 6;
/// An operation's fields have the same numbers: a cursor or a flag, a register or a flag, a flag.
const OPERATION: u32 = 8;
const CURSOR: u32 = OPERATION | 1;
const DST_REGISTER: u32 = OPERATION | 2;
const COMPONENT: u32 = 16;
const FIELD_ID: u32 = COMPONENT | 1;
const ARRAY_INDEX: u32 = COMPONENT | 2;
const MAP_KEY_FIELD_ID: u32 = COMPONENT | 3;
const IS_REPEATED: u32 = COMPONENT | 5;
const REGISTER_TO_MATCH: u32 = COMPONENT | 6;

/// A flag, to be shifted by its number in an operation. A byte has room for both of a `merge`, and not for the third of
/// others: what a `merge` has there means nothing.
pub(super) const SET_FLAG: u32 = 1 << 5;

impl Decoder<'_> {
    /// Returns the number of instructions at the top; `None` if the steps do not suffice.
    fn program(&mut self) -> Option<u32> {
        const INSTRUCTIONS: u32 = 2;
        let whole = self.arena.whole().bytes();
        self.steps_of(whole, INSTRUCTIONS, false)?;
        let top = self.len;
        let mut at = 0;
        while at < self.len {
            let step = *self.steps.get(at as usize)?;
            if step.op == WAITING {
                let instruction = self.instruction(Span { at: step.first, len: step.end })?;
                *self.steps.get_mut(at as usize)? = instruction;
            }
            at += 1;
        }
        Some(top)
    }

    /// Appends what is in the fields of that number: components, or instructions that are still to be decoded.
    #[cfg_attr(tracebuf_size, inline(never))]
    fn steps_of(&mut self, mut message: Span, id: u32, components: bool) -> Option<()> {
        let first = self.len;
        let mut field = Field::default();
        while self.arena.field(&mut message, &mut field) {
            if field.id != id || field.wire != LENGTH {
                continue;
            }
            let Span { at, len } = field.bytes();
            let mut step = Step { op: WAITING, first: at, end: len, ..Step::NONE };
            if components {
                step = Step { detail: u8::MAX, ..Step::NONE };
                self.scan(field.bytes(), COMPONENT, &mut step);
                // An element's index or key goes to the field before it.
                if step.first != 0 {
                    step.op = 0;
                } else if let Some(before) = self.steps.get_mut((self.len as usize).wrapping_sub(1))
                    && self.len > first
                    && before.op | before.level == 0
                    && step.op != 0
                {
                    (before.op, before.detail, before.end) = (step.op, step.detail, step.end);
                    continue;
                }
            }
            *self.steps.get_mut(self.len as usize)? = step;
            self.len += 1;
        }
        Some(())
    }

    fn instruction(&mut self, message: Span) -> Option<Step> {
        const NESTED: u32 = 7;
        const PATH: u32 = 2;
        let mut step = Step { level: LEAVE, cursor: SOURCE, ..Step::NONE };
        self.scan(message, INSTRUCTION, &mut step);
        let operation = Span { at: step.first, len: step.end };
        self.scan(operation, OPERATION, &mut step);
        step.first = self.len;
        if step.op == SELECT {
            step.detail = (step.nested_end >> 8) as u8;
            self.steps_of(operation, PATH, true)?;
        } else if step.op == MERGE {
            step.detail = step.nested_end as u8;
        }
        step.end = self.len;
        self.steps_of(message, NESTED, false)?;
        step.nested_end = self.len;
        Some(step)
    }

    /// Puts fields of a message into a step: of those with the same number the last one counts, and of several
    /// operations the first in order.
    #[cfg_attr(tracebuf_size, inline(never))]
    fn scan(&mut self, mut message: Span, of: u32, step: &mut Step) {
        /// For each number of an operation, four bits: its place in the order, from behind.
        const ORDER: u32 = 0x31_2450;
        let order = |op: u32| ORDER >> (4 * op) & 15;
        let mut field = Field::default();
        while self.arena.field(&mut message, &mut field) {
            let Field { id, wire, value: [mut low, high] } = field;
            let is_bytes = wire == LENGTH;
            if of == INSTRUCTION && is_bytes && id <= 5 && order(id) >= order(step.op.into()) {
                (step.op, step.first, step.end) = (id as u8, low, high);
            }
            // As a number, bytes count as 0.
            let is_set = SET_FLAG * u32::from(!is_bytes && low | high != 0);
            if is_bytes {
                low = 0;
            }
            match of | id.min(7) {
                LEVEL => step.level = u8::try_from(low).unwrap_or(0),
                CURSOR => step.cursor = low.min(STATE as u32 + 1) as u8,
                DST_REGISTER | REGISTER_TO_MATCH => step.detail = low as u8,
                FIELD_ID if low <= MAX_FIELD => step.first = low,
                FIELD_ID => step.first = 0,
                ARRAY_INDEX => (step.op, step.end) = (INDEX, low),
                MAP_KEY_FIELD_ID if step.op != INDEX => (step.op, step.end) = (MAP_KEY, low),
                IS_REPEATED => step.level = is_set as u8,
                _ => {}
            }
            if of == OPERATION && id <= 3 {
                step.nested_end = step.nested_end & !(SET_FLAG << id) | is_set << id;
            }
        }
    }
}

const _: () = assert!(size_of::<Step>() == 16);
