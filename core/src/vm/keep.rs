//! Ready-made programs: the last packet of each kind and key.

use super::program::{KEEPS, Program};
use crate::proto::fields::{trace_packet, track_descriptor, track_event};
use crate::proto::{Encoder, Message, Overflow, Sink};

/// A kind of packets, of which the last is kept for each key.
///
/// ```
/// use tracebuf::vm::{Keep, Program};
///
/// // Of each thread, the last `ThreadDescriptor`.
/// let threads = Keep { list: 1000, with: &[44], by: &[44, 2] };
/// let mut bytes = [0; 128];
/// let program = Program::keep_last_by(&[threads], &mut bytes)?;
/// # Ok::<(), tracebuf::proto::Overflow>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Keep<'a> {
    /// The field of the state that holds the packets, one for each key, whole and in the order of the keys.
    pub list: u32,
    /// The path to a field, from message to message: packets without it are of another kind.
    pub with: &'a [u32],
    /// The path to the number that is the key. Packets without it are of another kind.
    pub by: &'a [u32],
}

impl Keep<'_> {
    /// The last descriptor of each track, by its uuid: the names of tracks, threads and processes.
    pub const TRACKS: Keep<'static> = Keep {
        list: 1000,
        with: &[trace_packet::TRACK_DESCRIPTOR],
        by: &[trace_packet::TRACK_DESCRIPTOR, track_descriptor::UUID],
    };
    /// The last value of each counter that counts in integers, by its track.
    pub const COUNTERS: Keep<'static> = Keep {
        list: 1001,
        with: &[trace_packet::TRACK_EVENT, track_event::COUNTER_VALUE],
        by: &[trace_packet::TRACK_EVENT, track_event::TRACK_UUID],
    };
    /// The last value of each counter that counts in floating point, by its track.
    pub const DOUBLE_COUNTERS: Keep<'static> = Keep {
        list: 1001,
        with: &[trace_packet::TRACK_EVENT, track_event::DOUBLE_COUNTER_VALUE],
        by: &[trace_packet::TRACK_EVENT, track_event::TRACK_UUID],
    };
    /// What makes the rest of a trace readable: the names of tracks, threads and processes, and counters' last values.
    pub const DESCRIPTIONS: [Keep<'static>; 3] = [Keep::TRACKS, Keep::COUNTERS, Keep::DOUBLE_COUNTERS];
}

impl Program<'_> {
    /// Writes a program into `out` that keeps the last packet of each kind and key; returns its bytes. A packet that
    /// is of several kinds is kept for each; one that is of none is an [`VmStatus::Error`](super::VmStatus::Error).
    ///
    /// A kept packet of up to 24 bytes takes 64 bytes of the state's memory, and each 28 bytes more take 32.
    ///
    /// # Errors
    /// [`Overflow`] if it does not fit: a kind takes some 60 bytes.
    pub fn keep_last_by<'o>(kinds: &[Keep<'_>], out: &'o mut [u8]) -> Result<&'o [u8], Overflow> {
        let mut program = Encoder::new(out);
        for kind in kinds {
            program.message(vm_program::INSTRUCTIONS, &Group(kind))?;
        }
        program.message(vm_program::INSTRUCTIONS, &TakenOrError)?;
        program.finish()
    }
}

/// The mark of a packet that was kept: a field of the state that is there from then to the program's end.
const TAKEN: u32 = 999;
const REGISTER: u64 = 0;

const SOURCE: u64 = 1;
const STATE: u64 = 2;

mod vm_program {
    pub(super) const INSTRUCTIONS: u32 = 2;
}

mod instruction {
    pub(super) const SELECT: u32 = 1;
    pub(super) const REG_LOAD: u32 = 2;
    pub(super) const SET: u32 = 4;
    pub(super) const DEL: u32 = 5;
    pub(super) const ABORT_LEVEL: u32 = 6;
    pub(super) const NESTED: u32 = 7;
}

mod select {
    pub(super) const CURSOR: u32 = 1;
    pub(super) const PATH: u32 = 2;
    pub(super) const CREATE: u32 = 3;
}

mod component {
    pub(super) const FIELD: u32 = 1;
    pub(super) const MAP_KEY_FIELD: u32 = 3;
    pub(super) const REGISTER: u32 = 6;
}

/// `select {}, level skip: select with; select by: reg_load; select state list[register]: set; select state taken`.
struct Group<'a>(&'a Keep<'a>);

impl Message for Group<'_> {
    fn encode<S: Sink>(&self, out: &mut S) -> Result<(), S::Error> {
        let Self(kind) = self;
        out.length(instruction::SELECT, 0)?;
        // Any level that Perfetto does not know skips the instruction.
        out.varint(instruction::ABORT_LEVEL, KEEPS.into())?;
        let path = |cursor, path| Select { cursor, path, key: false, create: false };
        out.message(instruction::NESTED, &Within(path(SOURCE, kind.with), None))?;
        out.message(instruction::NESTED, &Within(path(SOURCE, kind.by), Some(instruction::REG_LOAD)))?;
        let list = Select { key: true, create: true, ..path(STATE, core::slice::from_ref(&kind.list)) };
        out.message(instruction::NESTED, &Within(list, Some(instruction::SET)))?;
        let taken = Select { create: true, ..path(STATE, &[TAKEN]) };
        out.message(instruction::NESTED, &Within(taken, None))
    }
}

/// `select state taken: del`.
struct TakenOrError;

impl Message for TakenOrError {
    fn encode<S: Sink>(&self, out: &mut S) -> Result<(), S::Error> {
        let taken = Select { cursor: STATE, path: &[TAKEN], key: false, create: false };
        Within(taken, Some(instruction::DEL)).encode(out)
    }
}

/// A `select` with an operation in it, of which the defaults are right.
struct Within<'a>(Select<'a>, Option<u32>);

impl Message for Within<'_> {
    fn encode<S: Sink>(&self, out: &mut S) -> Result<(), S::Error> {
        out.message(instruction::SELECT, &self.0)?;
        match self.1 {
            Some(operation) => out.message(instruction::NESTED, &Operation(operation)),
            None => Ok(()),
        }
    }
}

struct Operation(u32);

impl Message for Operation {
    fn encode<S: Sink>(&self, out: &mut S) -> Result<(), S::Error> {
        out.length(self.0, 0)
    }
}

struct Select<'a> {
    cursor: u64,
    path: &'a [u32],
    /// Goes on to the element of a map whose key is in the register.
    key: bool,
    create: bool,
}

impl Message for Select<'_> {
    fn encode<S: Sink>(&self, out: &mut S) -> Result<(), S::Error> {
        out.varint(select::CURSOR, self.cursor)?;
        for field in self.path {
            out.message(select::PATH, &Number(component::FIELD, *field))?;
        }
        if self.key {
            out.message(select::PATH, &Key)?;
        }
        if self.create { out.bool(select::CREATE, true) } else { Ok(()) }
    }
}

struct Number(u32, u32);

impl Message for Number {
    fn encode<S: Sink>(&self, out: &mut S) -> Result<(), S::Error> {
        out.varint(self.0, self.1.into())
    }
}

struct Key;

impl Message for Key {
    fn encode<S: Sink>(&self, out: &mut S) -> Result<(), S::Error> {
        // The elements have no field for the key: it is read only where bytes become a map, which these never do.
        out.varint(component::MAP_KEY_FIELD, 1)?;
        out.varint(component::REGISTER, REGISTER)
    }
}
