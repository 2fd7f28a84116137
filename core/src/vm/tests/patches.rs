//! Patches: what they cost, and what is free after them.

use super::*;
use crate::vm::{Keep, VmError, VmStatus};
use std::format;

/// A message for `map`.
fn element(key: u64, text: &[u8]) -> Vec<u8> {
    field(1, &[number(1, key), field(2, text)].concat())
}

#[test]
fn what_is_deleted_is_free() {
    let mut vm = machine(&map(), 64 * 1024);
    let before = vm.stats().used;
    for round in 0..20 {
        for key in 0..200 {
            assert_eq!(vm.apply(&element(key * 7 % 200, &[b'x'; 40])), VmStatus::Ok);
        }
        assert_eq!(state(&mut vm).len(), 200 * (2 + 2 + 42) + 72, "{round}");
        for key in (0..200).rev() {
            assert_eq!(vm.apply(&number(2, key)), VmStatus::Ok);
        }
        assert_eq!(state(&mut vm), []);
        // The map stays.
        assert_eq!(vm.stats().used, before + 1, "{round}");
    }
    assert!(vm.stats().high_water > 200 * 4);
}

#[test]
fn after_an_abort_everything_is_as_before() {
    let mut vm = machine(&map(), 4096);
    assert_eq!(vm.apply(&element(1, b"one")), VmStatus::Ok);
    let (before, used) = (state(&mut vm), vm.stats().used);
    for len in 1..200 {
        // The second has no number: the program aborts there. Or there is no room.
        let bad =
            [element(1, &[7; 100]), element(2, &std::vec![8; len * 16]), field(1, b"\x12\x00")].concat();
        let outcome = vm.apply(&bad);
        assert!(outcome != VmStatus::Ok);
        if outcome == VmStatus::Abort {
            assert_eq!((state(&mut vm), vm.stats().used), (before.clone(), used), "{len}");
        } else {
            assert_eq!(vm.apply(&number(2, 2)), VmStatus::Ok);
            assert_eq!(vm.apply(&element(1, b"one")), VmStatus::Ok);
        }
    }
    assert!(vm.stats().aborts > 0);
    assert_eq!((state(&mut vm), vm.stats().used), (before, used));
}

#[test]
fn work_and_nesting_are_bounded() {
    let loops = (0..3).fold(REG_LOAD.to_vec(), |nested, _| {
        let path = field(2, &[number(1, 1), number(5, 1)].concat());
        let up = [field(1, &path), field(7, &nested)].concat();
        [field(1, b""), field(7, &up), field(7, MERGE)].concat()
    });
    let mut vm = machine(&listed(&[&loops]), 4096).with_limits(Limits { instructions: 50, fields: 1000 });
    let few = number(1, 1);
    assert_ne!(vm.apply(&few), VmStatus::Ok);
    assert_eq!(vm.apply(&few.repeat(100)), VmStatus::Abort);

    for (depth, outcome) in [(6, VmStatus::Ok), (40, VmStatus::Abort), (2000, VmStatus::Abort)] {
        let nested = (0..depth).fold(MERGE.to_vec(), |nested, _| [field(1, b""), field(7, &nested)].concat());
        assert_eq!(machine(&listed(&[&nested]), 4096).apply(&few), outcome, "{depth}");
    }
}

#[test]
fn registers_are_empty_when_a_patch_begins() {
    let load = [field(1, &field(2, &number(1, 1))), field(7, REG_LOAD), number(6, 1)].concat();
    let element = [number(3, 1), number(6, 0)].concat();
    let use_it =
        field(1, &[number(1, 2), field(2, &number(1, 3)), field(2, &element), number(3, 1)].concat());
    let mut vm = machine(&listed(&[&load, &use_it]), 4096);
    assert_eq!(vm.apply(&number(1, 5)), VmStatus::Ok);
    assert_eq!(vm.apply(&number(2, 5)), VmStatus::Abort);
}

#[test]
fn bytes_of_a_patch_that_are_no_message_are_not_walked_into() {
    let set = select(1, &[1], false, &select(2, &[1], true, SET));
    let walk = select(1, &[2], false, &select(2, &[1, 2], true, SET));
    let up = |instruction: &[u8]| [instruction, &number(6, 1)].concat();
    let mut vm = machine(&listed(&[&up(&set), &up(&walk)]), 4096);
    let text = field(1, b"kept as it is");
    assert_eq!(vm.apply(&text), VmStatus::Ok);
    assert_eq!(vm.apply(&number(2, 5)), VmStatus::Abort);
    assert_eq!(state(&mut vm), text);
    // Those of a loaded state count as far as they are well-formed.
    let loaded = field(1, b"\x08\x01\x00\x05");
    assert_eq!(vm.load_state(&loaded), VmStatus::Ok);
    assert_eq!(state(&mut vm), loaded);
    assert_eq!(vm.apply(&number(2, 5)), VmStatus::Ok);
    assert_eq!(state(&mut vm), field(1, b"\x08\x01\x10\x05"));
}

#[test]
fn a_kept_counter_takes_two_cells() {
    let mut bytes = [0; 512];
    let mut vm = machine(Program::keep_last_by(&Keep::DESCRIPTIONS, &mut bytes).unwrap(), 1 << 20);
    let counter = |track: u64, value: u64| {
        let event = [number(9, 4), number(11, track), number(30, value)].concat();
        [number(8, 1 << 40), field(11, &event)].concat()
    };
    assert_eq!(vm.apply(&counter(1 << 30, 0)), VmStatus::Ok);
    let first = vm.stats().used;
    let mut expected = Vec::new();
    for track in 0..1000 {
        let packet = counter((1 << 30) + track, 1);
        assert!(packet.len() <= 24);
        assert_eq!(vm.apply(&counter((1 << 30) + track, 0)), VmStatus::Ok);
        assert_eq!(vm.apply(&packet), VmStatus::Ok);
        expected.extend(field(1001, &packet));
    }
    assert_eq!(vm.stats().used, first + 999 * 2);
    assert_eq!(state(&mut vm), expected);
    // Neither a descriptor nor a counter.
    assert_eq!(vm.apply(&field(11, &number(9, 1))), VmStatus::Error);
    assert_eq!(state(&mut vm), expected);
    assert_eq!(vm.stats().errors, 1);
}

#[test]
fn a_program_of_one_kind_needs_no_mark() {
    let kind = Keep { list: 5, with: &[11, 30], by: &[11, 12] };
    let mut bytes = [0; 128];
    let bytes = Program::keep_last_by(&[kind], &mut bytes).unwrap();
    let packet =
        |key: &[u8]| [number(8, 1 << 60), field(11, &[number(30, 7), key.to_vec()].concat())].concat();
    let mut vm = machine(bytes, 4096);
    for other in [packet(&[]), field(11, &number(12, 1)), number(30, 1), number(11, 1)] {
        assert_ne!(vm.apply(&other), VmStatus::Ok);
    }
    assert!(state(&mut vm).is_empty());
    let kept = [1, 1 << 28, (1 << 28) + 1, 1 << 40, u64::MAX].map(|key| packet(&number(12, key)));
    for packet in kept.iter().rev() {
        assert_eq!(vm.apply(packet), VmStatus::Ok);
    }
    let saved = state(&mut vm);
    assert_eq!(saved, kept.map(|packet| field(5, &packet)).concat());
    let mut other = machine(bytes, 4096);
    assert_eq!(other.load_state(&saved), VmStatus::Ok);
    assert_eq!(state(&mut other), saved);
}

#[test]
fn a_kept_state_is_loaded_and_goes_on() {
    let both = [Keep { list: 5, with: &[60], by: &[60, 1] }, Keep { list: 6, with: &[61], by: &[61] }];
    let mut bytes = [0; 256];
    let bytes = Program::keep_last_by(&both, &mut bytes).unwrap();
    let packet = |uuid: u64, number_61: u64, text: &[u8]| {
        [field(60, &number(1, uuid)), number(61, number_61), field(9, text)].concat()
    };
    let mut vm = machine(bytes, 16 << 10);
    // Of the first packet, one list goes on with it, the other does not.
    for (uuid, number_61) in [(1, 1), (1, 2), (2, 1 << 40), (3, 2)] {
        assert_eq!(vm.apply(&packet(uuid, number_61, &[b'x'; 40])), VmStatus::Ok);
    }
    let saved = state(&mut vm);
    let mut other = machine(bytes, 16 << 10);
    assert_eq!(other.apply(&packet(9, 9, b"is replaced")), VmStatus::Ok);
    assert_eq!(other.load_state(&saved), VmStatus::Ok);
    assert_eq!(state(&mut other), saved);
    assert_eq!(other.stats().used, vm.stats().used);
    for vm in [&mut vm, &mut other] {
        assert_eq!(vm.apply(&packet(1, 2, b"the last")), VmStatus::Ok);
    }
    assert_eq!(state(&mut other), state(&mut vm));
    // What this program would not keep is none of its states.
    let before = state(&mut other);
    for wrong in [field(5, b""), number(5, 1), field(7, &packet(1, 1, b"")), b"\x2A\x7F".to_vec()] {
        assert_eq!(other.load_state(&[saved.clone(), wrong].concat()), VmStatus::Abort);
        assert_eq!(state(&mut other), before);
    }
}

#[test]
fn memory_that_is_too_small_says_how_much_is_needed() {
    let none = program(&[]);
    let Err(VmError::TooSmall { needed }) = Vm::new(&mut [0; 40], none, &mut []).map(|_| ()) else {
        panic!("it has room")
    };
    let (mut memory, mut frames) = (std::vec![0; needed + 7], [StackFrame::default(); 1]);
    let mut vm = Vm::new(&mut memory, none, &mut frames).unwrap();
    assert_eq!(vm.apply(b"anything"), VmStatus::Ok);
    assert_eq!(Program::new(MERGE, &mut []).map(|_| ()), Ok(()));
    let Err(VmError::TooManySteps { enough }) = Program::new(&map(), &mut []).map(|_| ()) else {
        panic!("it fits")
    };
    assert!(Program::new(&map(), &mut std::vec![Step::default(); enough]).is_ok());
    assert!(format!("{}", VmError::TooManySteps { enough }).contains("steps"));
}
