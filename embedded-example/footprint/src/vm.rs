//! States that outlive the ring.

use crate::input::Input;
use crate::observe::{debug, show};
use core::hint::black_box;
use tracebuf::proto::{Encoder, Measure};
use tracebuf::vm::{Keep, Limits, Program, StackFrame, Step, Vm};

pub(crate) fn all(input: &mut Input<'_>, memory: &mut [u8]) {
    let (mut steps, mut frames) = ([Step::default(); 32], [StackFrame::default(); 8]);
    let mut bytes = [0; 256];
    let keeps = [Keep { list: input.u32(), with: &[60], by: &[60, 1] }, Keep::COUNTERS];
    let bytes = if input.bool() { Program::keep_last_by(&keeps, &mut bytes) } else { Ok(input.slice()) };
    let Ok(bytes) = bytes else { return };
    let program = match Program::new(bytes, &mut steps) {
        Ok(program) => program,
        Err(error) => return show(error),
    };
    debug(program);
    let vm = if input.bool() {
        Vm::new(memory, program, &mut frames)
    } else {
        Vm::attach(memory, program, &mut frames)
    };
    let mut vm = match vm {
        Ok(vm) => vm.with_limits(Limits { instructions: input.u32(), fields: input.u32() }),
        Err(error) => return show(error),
    };
    debug(vm.load_state(input.slice()));
    debug(vm.apply(input.slice()));
    debug(vm.stats());
    black_box(vm.state_len());
    let _ = vm.write_state(&mut Measure::default());
    let mut out = [0; 64];
    let _ = black_box(vm.write_state(&mut Encoder::new(&mut out)));
}
