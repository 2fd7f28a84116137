//! Tests of the machine as a whole.

mod crash;
mod patches;
mod rules;
mod trees;

pub(super) use crash::crash_here;

use super::{Limits, Program, StackFrame, Step, Vm};
use crate::proto::Sink;
use std::vec::Vec;

/// A field of bytes.
fn field(number: u32, bytes: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    let Ok(()) = out.bytes(number, bytes);
    out
}

fn number(number: u32, value: u64) -> Vec<u8> {
    let mut out = Vec::new();
    let Ok(()) = out.varint(number, value);
    out
}

fn state(vm: &mut Vm<'_>) -> Vec<u8> {
    let mut state = Vec::new();
    let Ok(()) = vm.write_state(&mut state);
    assert_eq!(vm.state_len(), state.len());
    state
}

/// A machine over vectors that live as long as the program.
fn machine(bytes: &[u8], memory: usize) -> Vm<'static> {
    let program = program(bytes);
    Vm::new(Vec::leak(std::vec![0; memory]), program, Vec::leak(std::vec![StackFrame::default(); 16]))
        .unwrap()
}

fn program(bytes: &[u8]) -> Program<'static> {
    Program::new(bytes, Vec::leak(std::vec![Step::default(); bytes.len() / 2])).unwrap()
}

/// `select`, of a cursor, field numbers and whether to create, with one nested instruction.
fn select(cursor: u64, path: &[u32], create: bool, nested: &[u8]) -> Vec<u8> {
    let path = path.iter().flat_map(|id| field(2, &number(1, (*id).into())));
    let path: Vec<u8> = path.collect();
    let select = [number(1, cursor), path, number(3, create.into())].concat();
    [field(1, &select), field(7, nested)].concat()
}

/// A program of instructions.
fn listed(instructions: &[&[u8]]) -> Vec<u8> {
    instructions.iter().flat_map(|instruction| field(2, instruction)).collect()
}

const REG_LOAD: &[u8] = &[0x12, 0];
const MERGE: &[u8] = &[0x1A, 0];
const SET: &[u8] = &[0x22, 0];
const DEL: &[u8] = &[0x2A, 0];

/// Keeps messages of field 1 in field 1, merged by the number in their field 1. Field 2 has the number of one to
/// forget.
fn map() -> Vec<u8> {
    let element = [number(3, 1), number(6, 0)].concat();
    let in_map = |create: u64, nested: &[u8]| {
        let select = [number(1, 2), field(2, &number(1, 1)), field(2, &element), number(3, create)].concat();
        [field(1, &select), field(7, nested)].concat()
    };
    let repeated = |id: u64, nested: &[&[u8]]| {
        let select = field(2, &[number(1, id), number(5, 1)].concat());
        let nested: Vec<u8> = nested.iter().flat_map(|nested| field(7, nested)).collect();
        [field(1, &select), nested].concat()
    };
    let key = select(1, &[1], false, REG_LOAD);
    listed(&[&repeated(1, &[&key, &in_map(1, MERGE)]), &repeated(2, &[REG_LOAD, &in_map(0, DEL)])])
}
