//! Crashes at every store, and memory that holds anything.

use super::*;
use crate::vm::{VmError, VmStatus};
use std::cell::RefCell;
use std::vec;

std::thread_local! {
    /// The memory before each store since it was begun to be watched.
    static WATCHED: RefCell<Option<Vec<Vec<u8>>>> = const { RefCell::new(None) };
}

/// Called before each store to the arena.
pub(in crate::vm) fn crash_here(memory: impl FnOnce() -> Vec<u8>) {
    WATCHED.with_borrow_mut(|watched| {
        if let Some(watched) = watched {
            watched.push(memory());
        }
    });
}

/// The state that is found in a memory.
fn found(memory: &[u8], program: Program<'_>) -> Result<Vec<u8>, VmError> {
    // Elsewhere, and at another offset.
    let mut words = vec![0_u64; memory.len() / 8 + 1];
    let copy = zerocopy::IntoBytes::as_mut_bytes(&mut words[1..]);
    copy.copy_from_slice(memory);
    let mut frames = [StackFrame::default(); 16];
    let mut vm = Vm::attach(copy, program, &mut frames)?;
    let state = state(&mut vm);
    // It goes on, and knows which cells are free.
    vm.apply(&[field(1, &number(1, 99)), number(2, 99)].concat());
    let used = vm.stats().used;
    let again = Vm::attach(copy, program, &mut frames)?;
    assert_eq!(again.stats().used, used);
    Ok(state)
}

/// The words in which two memories differ, stored up to one of them: in order, and against it.
fn torn(before: &[u8], after: &[u8]) -> Vec<Vec<u8>> {
    let changed: Vec<usize> =
        (0..before.len() / 4).filter(|word| before[word * 4..][..4] != after[word * 4..][..4]).collect();
    let stored = |words: &[usize]| {
        let mut memory = before.to_vec();
        words.iter().for_each(|word| memory[word * 4..][..4].copy_from_slice(&after[word * 4..][..4]));
        memory
    };
    (0..=changed.len()).flat_map(|cut| [stored(&changed[..cut]), stored(&changed[cut..])]).collect()
}

#[test]
fn a_crash_at_any_store_leaves_the_state_before_or_after_the_patch() {
    let bytes = map();
    let program = program(&bytes);
    let element =
        |key: u64, len: usize| field(1, &[number(1, key), field(2, &vec![key as u8; len])].concat());
    let mut patches: Vec<_> = (0..12).map(|key| element(key * 5 % 12, key as usize * 6)).collect();
    patches.push([element(3, 60), element(4, 0), number(2, 7)].concat());
    patches.push([number(2, 5), number(2, 0), number(2, 11)].concat());
    // An abort: the last has no number.
    patches.push([element(20, 40), element(1, 30), number(2, 2), number(1, 3)].concat());
    let mut vm = machine(&bytes, 8192);
    let mut outcomes = vec![];
    let mut crashes = 0;
    for patch in patches {
        let before = state(&mut vm);
        WATCHED.set(Some(Vec::new()));
        outcomes.push(vm.apply(&patch));
        crash_here(|| vm.arena().image());
        let memories = WATCHED.take().unwrap();
        let after = state(&mut vm);
        for (index, pair) in memories.windows(2).enumerate() {
            for memory in torn(&pair[0], &pair[1]) {
                let state = found(&memory, program).unwrap();
                assert!(state == before || state == after, "store {index}");
                crashes += 1;
            }
        }
        assert_eq!(found(memories.last().unwrap(), program).unwrap(), after);
    }
    assert!(outcomes.contains(&VmStatus::Abort));
    assert!(crashes > 1000);
}

#[test]
fn what_does_not_check_is_not_believed() {
    let bytes = map();
    let program = program(&bytes);
    let mut vm = machine(&bytes, 4096);
    for key in 0..20 {
        let text = vec![b'a'; key as usize * 4];
        assert_eq!(vm.apply(&field(1, &[number(1, key), field(2, &text)].concat())), VmStatus::Ok);
    }
    let (sound, sound_state) = (vm.arena().image(), state(&mut vm));
    assert_eq!(found(&sound, program), Ok(sound_state.clone()));
    let (mut dropped, mut random) = (0, 1_u64);
    for _ in 0..4000 {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        let mut memory = sound.clone();
        let at = (random >> 33) as usize % memory.len();
        memory[at] ^= 1 << ((random >> 20) & 7);
        // Whatever it is, it is a state or none.
        match found(&memory, program) {
            Ok(_) => {}
            Err(_) => dropped += 1,
        }
    }
    assert!(dropped > 500, "{dropped}");
    assert_eq!(found(&vec![0; 4096], program), Err(VmError::NoState));
    assert_eq!(found(&sound[..2048], program), Err(VmError::Damaged));
    assert_eq!(found(&sound, self::program(MERGE)), Err(VmError::OtherProgram));
}

#[test]
fn every_reason_why_there_is_no_machine_has_its_words() {
    let all = [
        (VmError::TooSmall { needed: 544 }, "544"),
        (VmError::TooManySteps { enough: 7 }, "7 steps"),
        (VmError::NoState, "no state"),
        (VmError::OtherProgram, "another program"),
        (VmError::Damaged, "damaged"),
    ];
    assert!(all.iter().all(|(error, words)| std::string::ToString::to_string(error).contains(words)));
}
