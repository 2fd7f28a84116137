//! The machine against the model: the same outcome, the same state, and no cell lost.

use tracebuf::vm::{Limits, Program, StackFrame, Step, Vm, VmStatus};

use super::generate::GeneratedCase;
use super::model::{Model, Stop};
use super::tree::Node;
use super::vector::hex;

/// Runs a case; returns how many patches were Ok.
///
/// # Panics
/// If there is a difference.
pub fn compare(case: &GeneratedCase) -> usize {
    let mut model = Model::new(&case.program);
    let mut steps = vec![Step::default(); case.program.len() / 2];
    let program = Program::new(&case.program, &mut steps).expect("steps enough");
    let (mut memory, mut frames) = (vec![0; case.memory], [StackFrame::default(); 100]);
    let mut vm = Vm::new(&mut memory, program, &mut frames).expect("memory enough");
    if let Some(state) = &case.state {
        if vm.load_state(state) == VmStatus::Ok {
            model.root = Node::Bytes(state.clone(), true);
        } else {
            assert_eq!(vm.stats().high_water, vm.stats().cells, "there was room");
        }
    }
    let mut taken = 0;
    for patch in &case.patches {
        // Each patch on what is found in the memory: the cells in use are those that the last one left.
        let mut vm = Vm::attach(&mut memory, program, &mut frames).expect("the state that was left");
        vm = vm.with_limits(Limits { instructions: 1 << 16, fields: 1 << 20 });
        let used = vm.stats().used;
        let (outcome, before) = (vm.apply(patch), model.root.clone());
        let Some(expected) = model.apply(patch) else { return taken };
        let expected = match expected {
            Ok(()) => VmStatus::Ok,
            Err(Stop::Error) => VmStatus::Error,
            Err(Stop::Abort) => VmStatus::Abort,
        };
        let had_room = vm.stats().high_water < vm.stats().cells;
        if outcome == VmStatus::Abort && expected != outcome && !had_room {
            model.root = before;
        } else {
            assert_eq!(outcome, expected, "program {}, patch {}", hex(&case.program), hex(patch));
        }
        if outcome == VmStatus::Abort {
            assert_eq!(vm.stats().used, used, "cells after an abort");
        }
        taken += usize::from(outcome == VmStatus::Ok);
        let mut state = Vec::new();
        let Ok(()) = vm.write_state(&mut state);
        assert_eq!(
            hex(&state),
            hex(&model.root.state()),
            "program {}, patch {}",
            hex(&case.program),
            hex(patch)
        );
        let used = vm.stats().used;
        let found = Vm::attach(&mut memory, program, &mut frames).expect("the state that was left");
        assert_eq!(found.stats().used, used, "cells that are lost");
    }
    taken
}
