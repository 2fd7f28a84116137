//! `vm`: programs and patches against a plain recursive machine: outcomes, states, and no cell lost.
//!
//! The bytes are the decisions of the generator that the randomised tests use. With the first one above 191, they are
//! two lengths, a program, a state and patches as they are.

use crate::input::Input;
use tracebuf_conformance::random::rng::Rng;
use tracebuf_conformance::vm::compare::compare;
use tracebuf_conformance::vm::generate::{ENOUGH, GeneratedCase, case};

/// Runs one input.
pub fn run(data: &[u8]) {
    patches_of(data);
}

/// Runs one input; how many patches the program took.
pub fn patches_of(data: &[u8]) -> usize {
    let Some((&kind, tape)) = data.split_first() else { return 0 };
    if kind < 192 {
        return compare(&case(&mut Rng::of_bytes(tape)));
    }
    let mut input = Input::new(tape);
    let mut piece = || {
        let len = input.byte().into();
        (!input.is_over()).then(|| input.bytes(len).to_vec())
    };
    let program = piece().unwrap_or_default();
    let state = piece().filter(|_| kind & 1 == 1);
    let patches = std::iter::from_fn(piece).collect();
    let memory = if kind & 2 == 0 { ENOUGH } else { 2048 };
    compare(&GeneratedCase { program, state, patches, memory })
}
