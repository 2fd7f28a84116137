//! Programs, decoded once into steps of 16 bytes.
//!
//! An instruction's path and its nested instructions lie one after the other, from `first`. Decoding goes breadth
//! first: instructions wait among the steps, as the place of their bytes, until it is their turn.

use super::arena::fnv;
use super::error::VmError;
use super::wire::{BYTES, Field, MAX_FIELD, Source, Span};

/// The operation of an instruction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
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
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Cursor {
    #[default]
    Source,
    State,
    /// Both, none or an unknown one: moves the state's, and has no loops.
    Other,
}

/// What an instruction's Error does to the list that it is in.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Level {
    Skip,
    #[default]
    Leave,
    Abort,
}

/// An instruction.
#[derive(Clone, Copy, Debug, Default)]
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
#[derive(Clone, Copy, Debug, Default)]
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
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
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
#[derive(Clone, Copy, Debug, Default)]
pub struct Step(Kind);

#[derive(Clone, Copy, Debug)]
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
#[derive(Clone, Copy, Debug)]
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
        let mut decoded = Instruction::default();
        // Of several operations, the first of this order counts.
        let [mut select, mut reg_load, mut delete, mut merge, mut set] = [None; 5];
        self.each(message, |field| match (field.id, field.wire) {
            (1, BYTES) => select = Some(field.bytes),
            (2, BYTES) => reg_load = Some(field.bytes),
            (3, BYTES) => merge = Some(field.bytes),
            (4, BYTES) => set = Some(field.bytes),
            (5, BYTES) => delete = Some(field.bytes),
            (6, _) => {
                decoded.level = match field.value as u32 {
                    2 => Level::Leave,
                    3 => Level::Abort,
                    _ => Level::Skip,
                }
            }
            _ => {}
        });
        decoded.first = u32::try_from(self.len).ok()?;
        if let Some(select) = select {
            decoded.op = Op::Select;
            self.each(select, |field| match field.id {
                1 => decoded.cursor = cursor(field),
                3 => decoded.create = field.value != 0,
                _ => {}
            });
            let mut rest = select;
            while let Some(field) = self.source.field(&mut rest) {
                if (field.id, field.wire) == (2, BYTES) {
                    let component = self.component(field.bytes);
                    self.push(Kind::Component(component))?;
                    decoded.path = decoded.path.checked_add(1)?;
                }
            }
        } else if let Some(reg_load) = reg_load {
            decoded.op = Op::RegLoad;
            self.each(reg_load, |field| match field.id {
                1 => decoded.cursor = cursor(field),
                2 => decoded.register = field.value as u8,
                _ => {}
            });
        } else if delete.is_some() {
            decoded.op = Op::Delete;
        } else if let Some(merge) = merge {
            decoded.op = Op::Merge;
            self.each(merge, |field| match field.id {
                1 => decoded.skip_submessages = field.value != 0,
                2 => decoded.del_if_src_empty = field.value != 0,
                _ => {}
            });
        } else if set.is_some() {
            decoded.op = Op::Set;
        }
        const NESTED: u32 = 7;
        decoded.nested = self.wait_for(message, NESTED)?;
        Some(decoded)
    }

    fn component(&self, message: Span) -> Component {
        let mut decoded = Component::default();
        let (mut index, mut key) = (None, None);
        self.each(message, |field| {
            let number = field.value as u32;
            match field.id {
                1 => decoded.field = if number <= MAX_FIELD { number } else { 0 },
                2 => index = Some(number),
                3 => key = Some(number),
                5 => decoded.is_repeated = field.value != 0,
                6 => (decoded.has_register, decoded.register) = (true, field.value as u8),
                _ => {}
            }
        });
        (decoded.element, decoded.number) = match (index, key) {
            (Some(index), _) => (Element::Index, index),
            (None, Some(key)) => (Element::Key, key),
            (None, None) => (Element::None, 0),
        };
        decoded
    }

    fn each(&self, mut message: Span, mut take: impl FnMut(&Field)) {
        while let Some(field) = self.source.field(&mut message) {
            take(&field);
        }
    }
}

fn cursor(field: &Field) -> Cursor {
    match field.value as u32 {
        1 => Cursor::Source,
        2 => Cursor::State,
        _ => Cursor::Other,
    }
}

const _: () = assert!(size_of::<Step>() <= 20);
