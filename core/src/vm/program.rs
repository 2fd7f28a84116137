//! Programs, decoded once into steps of 16 bytes.
//!
//! An instruction's path and its nested instructions lie one after the other, from `first`. Decoding goes breadth
//! first: instructions wait among the steps, as the place of their bytes, until it is their turn.

use super::arena::fnv;
use super::cell::Span;
use super::error::VmError;
use super::wire::{BYTES, Field, MAX_FIELD, Source};

/// The operation of an instruction.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub(super) enum Op {
    /// None that is known.
    #[default]
    None,
    Select,
    RegLoad,
    Delete,
    Merge,
    Set,
}

/// The cursor of an instruction.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub(super) enum Cursor {
    #[default]
    Source,
    State,
    /// Both, none or an unknown one: moves the state's, and has no loops.
    Other,
}

/// What an instruction's Error does to the list that it is in.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub(super) enum Level {
    Skip,
    #[default]
    Leave,
    Abort,
}

/// An instruction.
#[derive(Clone, Copy, Default)]
pub(super) struct Instruction {
    pub(super) op: Op,
    pub(super) level: Level,
    pub(super) cursor: Cursor,
    /// Of `select`: `create_if_not_exist`.
    pub(super) create: bool,
    /// Of `merge`.
    pub(super) skip_submessages: bool,
    /// Of `merge`.
    pub(super) del_if_src_empty: bool,
    /// Of `reg_load`.
    pub(super) register: u8,
    first: u32,
    path: u16,
    nested: u16,
}

impl Instruction {
    /// The components of its path, as indexes of steps: from here to before there.
    pub(super) const fn path(&self) -> (u32, u32) {
        (self.first, self.first.saturating_add(self.path as u32))
    }

    /// Its nested instructions, likewise.
    pub(super) const fn nested(&self) -> (u32, u32) {
        let (_, from) = self.path();
        (from, from.saturating_add(self.nested as u32))
    }
}

/// A component of a path.
#[derive(Clone, Copy, Default)]
pub(super) struct Component {
    /// The field's number; 0 if there is none, or none that a field can have.
    pub(super) field: u32,
    /// An array's index or a map's key field, if there is no field.
    number: u32,
    element: Element,
    pub(super) is_repeated: bool,
    has_register: bool,
    register: u8,
}

/// The element of a repeated field that a component leads to.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
enum Element {
    #[default]
    None,
    Index,
    Key,
}

impl Component {
    pub(super) fn is_element(&self) -> bool {
        self.element != Element::None
    }

    pub(super) fn array_index(&self) -> Option<u32> {
        (self.element == Element::Index).then_some(self.number)
    }

    pub(super) fn map_key_field(&self) -> Option<u32> {
        (self.element == Element::Key).then_some(self.number)
    }

    pub(super) fn register(&self) -> Option<u8> {
        self.has_register.then_some(self.register)
    }
}

/// Room for an instruction or for a component of a path: 16 bytes.
#[derive(Clone, Copy, Default)]
pub struct Step(Kind);

#[derive(Clone, Copy)]
enum Kind {
    /// Not decoded yet: where its bytes are.
    Waiting {
        at: u32,
        len: u32,
    },
    Instruction(Instruction),
    Component(Component),
}

impl Default for Kind {
    fn default() -> Self {
        Self::Waiting { at: 0, len: 0 }
    }
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
    steps: &'p [Step],
    top: u32,
    fingerprint: u32,
}

impl<'p> Program<'p> {
    /// Decodes `bytes` into `steps`, of which half as many as there are bytes are enough.
    ///
    /// Decoding a list ends at a malformed field, without an error. Nothing is checked: a fault counts when it is
    /// reached.
    ///
    /// # Errors
    /// [`VmError::TooManySteps`], also for more than 65,535 components or instructions in one list.
    pub fn new(bytes: &[u8], steps: &'p mut [Step]) -> Result<Self, VmError> {
        let too_many = VmError::TooManySteps { enough: bytes.len() / 2 };
        let mut decoder = Decoder { source: Source::flat(bytes), steps: &mut *steps, len: 0 };
        let top = decoder.program().ok_or(too_many)?;
        let len = decoder.len;
        Ok(Self { steps: steps.get(..len).unwrap_or_default(), top: top.into(), fingerprint: fnv(bytes) })
    }

    pub(super) fn instruction(&self, at: u32) -> Option<&Instruction> {
        match self.steps.get(at as usize) {
            Some(Step(Kind::Instruction(instruction))) => Some(instruction),
            _ => None,
        }
    }

    pub(super) fn component(&self, at: u32) -> Option<&Component> {
        match self.steps.get(at as usize) {
            Some(Step(Kind::Component(component))) => Some(component),
            _ => None,
        }
    }

    /// The number of instructions outside of all others; they are the first steps.
    pub(super) const fn top(&self) -> u32 {
        self.top
    }

    /// Tells programs from one another.
    pub(super) const fn fingerprint(&self) -> u32 {
        self.fingerprint
    }
}

/// The steps so far.
struct Decoder<'a> {
    source: Source<'a>,
    steps: &'a mut [Step],
    len: usize,
}

impl Decoder<'_> {
    /// Returns the number of instructions at the top; `None` if the steps do not suffice.
    fn program(&mut self) -> Option<u16> {
        const INSTRUCTIONS: u32 = 2;
        let top = self.wait_for(self.source.whole(), INSTRUCTIONS)?;
        let mut at = 0;
        while at < self.len {
            if let Step(Kind::Waiting { at: start, len }) = *self.steps.get(at)? {
                let instruction = self.instruction(Span::flat(start, len))?;
                *self.steps.get_mut(at)? = Step(Kind::Instruction(instruction));
            }
            at = at.checked_add(1)?;
        }
        Some(top)
    }

    fn push(&mut self, kind: Kind) -> Option<()> {
        *self.steps.get_mut(self.len)? = Step(kind);
        self.len = self.len.checked_add(1)?;
        Some(())
    }

    /// Appends the instructions in a field of a message, still to be decoded; returns how many there are.
    fn wait_for(&mut self, mut message: Span, id: u32) -> Option<u16> {
        let mut count = 0_u16;
        while let Some(field) = self.source.field(&mut message) {
            if field.id == id && field.wire == BYTES {
                self.push(Kind::Waiting { at: field.bytes.at, len: field.bytes.len })?;
                count = count.checked_add(1)?;
            }
        }
        Some(count)
    }

    fn instruction(&mut self, message: Span) -> Option<Instruction> {
        // Of several operations, the first of this order counts.
        const OPERATIONS: [(Op, u32); 5] =
            [(Op::Select, 1), (Op::RegLoad, 2), (Op::Delete, 5), (Op::Merge, 3), (Op::Set, 4)];
        const LEVEL: u32 = 6;
        const NESTED: u32 = 7;
        let mut decoded = Instruction { first: u32::try_from(self.len).ok()?, ..Instruction::default() };
        if let Some(level) = self.number(message, LEVEL) {
            decoded.level = match level as u32 {
                2 => Level::Leave,
                3 => Level::Abort,
                _ => Level::Skip,
            };
        }
        let found = OPERATIONS.iter().find_map(|(op, id)| Some((*op, self.last(message, *id, true)?.bytes)));
        if let Some((op, operation)) = found {
            decoded.op = op;
            // Their fields have the same numbers: a cursor or a flag, a register or a flag, a flag.
            let numbers @ [cursor, ..] = [1, 2, 3].map(|id| self.number(operation, id));
            let [first, second, third] = numbers.map(|number| number.unwrap_or(0));
            decoded.cursor = match cursor.map(|cursor| cursor as u32) {
                None | Some(1) => Cursor::Source,
                Some(2) => Cursor::State,
                _ => Cursor::Other,
            };
            decoded.create = third != 0;
            (decoded.skip_submessages, decoded.del_if_src_empty) = (first != 0, second != 0);
            decoded.register = second as u8;
            if op == Op::Select {
                decoded.path = self.components(operation)?;
            }
        }
        decoded.nested = self.wait_for(message, NESTED)?;
        Some(decoded)
    }

    /// Appends the components of a path; returns how many there are.
    fn components(&mut self, mut select: Span) -> Option<u16> {
        const PATH: u32 = 2;
        let mut count = 0_u16;
        while let Some(field) = self.source.field(&mut select) {
            if field.id == PATH && field.wire == BYTES {
                let [id, index, key, is_repeated, register] =
                    [1, 2, 3, 5, 6].map(|id| self.number(field.bytes, id));
                let (element, number) = match (index, key) {
                    (Some(index), _) => (Element::Index, index as u32),
                    (None, Some(key)) => (Element::Key, key as u32),
                    (None, None) => (Element::None, 0),
                };
                self.push(Kind::Component(Component {
                    field: id.map(|id| id as u32).filter(|id| *id <= MAX_FIELD).unwrap_or(0),
                    number,
                    element,
                    is_repeated: is_repeated.unwrap_or(0) != 0,
                    has_register: register.is_some(),
                    register: register.unwrap_or(0) as u8,
                }))?;
                count = count.checked_add(1)?;
            }
        }
        Some(count)
    }

    /// The last field of that number; of bytes only, if so wished.
    fn last(&self, mut message: Span, id: u32, bytes: bool) -> Option<Field> {
        let mut last = None;
        while let Some(field) = self.source.field(&mut message) {
            if field.id == id && (field.wire == BYTES || !bytes) {
                last = Some(field);
            }
        }
        last
    }

    /// The last number in a field; bytes count as 0.
    fn number(&self, message: Span, id: u32) -> Option<u64> {
        self.last(message, id, false).map(|field| field.value)
    }
}

const _: () = assert!(size_of::<Step>() == 16);
