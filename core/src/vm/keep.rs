//! Ready-made programs: the last packet of each kind and key.

use super::program::{KEEPS, LEAVE, Program};
use crate::proto::fields::{
    process_tree, process_tree_process, process_tree_thread, trace_packet, track_descriptor, track_event,
};
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
    /// The last `ProcessTree` of each process, by its number. Of a packet that has several, take each into a packet of its
    /// own before: only the first counts.
    pub const PROCESSES: Keep<'static> = Keep {
        list: 1002,
        with: &[trace_packet::PROCESS_TREE, process_tree::PROCESSES],
        by: &[trace_packet::PROCESS_TREE, process_tree::PROCESSES, process_tree_process::PID],
    };
    /// The last `ProcessTree` of each thread, by its number; see [`PROCESSES`](Self::PROCESSES).
    pub const THREADS: Keep<'static> = Keep {
        list: 1003,
        with: &[trace_packet::PROCESS_TREE, process_tree::THREADS],
        by: &[trace_packet::PROCESS_TREE, process_tree::THREADS, process_tree_thread::TID],
    };
    /// The processes and threads of a machine.
    pub const PROCESS_TREE: [Keep<'static>; 2] = [Keep::PROCESSES, Keep::THREADS];
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
    /// [`Overflow`] if it does not fit: a kind takes some 80 bytes.
    pub fn keep_last_by<'o>(kinds: &[Keep<'_>], out: &'o mut [u8]) -> Result<&'o [u8], Overflow> {
        let mut program = Encoder::new(out);
        let [reg_load, set, del] = [instruction::REG_LOAD, instruction::SET, instruction::DEL]
            .map(|op| [Instruction { op, ..Instruction::SELECT }]);
        // The outcome of the only kind is the program's.
        let is_marked = kinds.len() != 1;
        for kind in kinds {
            // What the paths share is looked for once.
            let shared = kind.with.iter().zip(kind.by).take_while(|(with, by)| with == by).count();
            let by = kind.by.get(shared..).unwrap_or_default();
            let (shared, with) = kind.with.split_at_checked(shared).unwrap_or_default();
            let key = [
                Instruction { path: with, ..Instruction::SELECT },
                Instruction { path: by, nested: &reg_load, ..Instruction::SELECT },
            ];
            let group = [
                match with {
                    [] => Instruction { path: kind.by, nested: &reg_load, ..Instruction::SELECT },
                    _ => Instruction { path: shared, nested: &key, ..Instruction::SELECT },
                },
                // It is no Error, so its level has no other use.
                Instruction { level: KEEPS, key: true, nested: &set, ..Instruction::made(&kind.list) },
                Instruction::made(&TAKEN),
            ];
            let [key, keep, _] = &group;
            let (nested, level): (&[_], _) = if is_marked { (&group, SKIP) } else { (&[*key, *keep], LEAVE) };
            let group = Instruction { level, nested, ..Instruction::SELECT };
            program.message(vm_program::INSTRUCTIONS, &group)?;
        }
        if is_marked {
            let forget = Instruction { create: false, nested: &del, ..Instruction::made(&TAKEN) };
            program.message(vm_program::INSTRUCTIONS, &forget)?;
        }
        program.finish()
    }
}

/// The mark of a packet that was kept: a field of the state that is there from then to the program's end.
const TAKEN: u32 = 999;
const REGISTER: u64 = 0;

const SOURCE: u64 = 1;
const STATE: u64 = 2;

/// The abort level of what may be an Error.
const SKIP: u8 = 1;

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

/// An instruction: for each kind `select {}: select key; select state list[register]: set; select state taken`, and in
/// the end `select state taken: del`.
#[derive(Clone, Copy)]
struct Instruction<'a> {
    op: u32,
    level: u8,
    cursor: u64,
    path: &'a [u32],
    /// Goes on to the element of a map whose key is in the register.
    key: bool,
    create: bool,
    nested: &'a [Self],
}

impl<'a> Instruction<'a> {
    const SELECT: Self = Self {
        op: instruction::SELECT,
        level: LEAVE,
        cursor: SOURCE,
        path: &[],
        key: false,
        create: false,
        nested: &[],
    };

    /// Selects a field of the state, which is made if there is none.
    const fn made(field: &'a u32) -> Self {
        Self { cursor: STATE, path: core::slice::from_ref(field), create: true, ..Self::SELECT }
    }
}

impl Message for Instruction<'_> {
    fn encode<S: Sink>(&self, out: &mut S) -> Result<(), S::Error> {
        if self.op == instruction::SELECT {
            out.message(self.op, &Select(self))?;
        } else {
            out.length(self.op, 0)?;
        }
        if self.level != LEAVE {
            out.varint(instruction::ABORT_LEVEL, self.level.into())?;
        }
        for nested in self.nested {
            out.message(instruction::NESTED, nested)?;
        }
        Ok(())
    }
}

struct Select<'a>(&'a Instruction<'a>);

impl Message for Select<'_> {
    fn encode<S: Sink>(&self, out: &mut S) -> Result<(), S::Error> {
        let Self(of) = self;
        out.varint(select::CURSOR, of.cursor)?;
        for field in of.path {
            out.message(select::PATH, &Component { id: component::FIELD, value: *field })?;
        }
        if of.key {
            out.message(select::PATH, &Component { id: component::MAP_KEY_FIELD, value: 1 })?;
        }
        if of.create { out.bool(select::CREATE, true) } else { Ok(()) }
    }
}

/// A component of a path, with the register if it is a map's key. The elements have no field for the key: it is read only
/// where bytes become a map, which these never do.
struct Component {
    id: u32,
    value: u32,
}

impl Message for Component {
    fn encode<S: Sink>(&self, out: &mut S) -> Result<(), S::Error> {
        out.varint(self.id, self.value.into())?;
        if self.id == component::FIELD { Ok(()) } else { out.varint(component::REGISTER, REGISTER) }
    }
}
