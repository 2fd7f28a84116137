//! Random programs and patches, of few field numbers, so that they meet.

use super::tree::{Value, put};
use crate::random::rng::Rng;

/// A program, a state to begin with, and patches.
#[derive(Clone, Debug)]
pub struct GeneratedCase {
    /// The program.
    pub program: Vec<u8>,
    /// The state at the beginning, if one is loaded.
    pub state: Option<Vec<u8>>,
    /// The patches, in order.
    pub patches: Vec<Vec<u8>>,
    /// Bytes of the machine's memory.
    pub memory: usize,
}

/// Memory in which there is room for nearly all that is generated.
pub const ENOUGH: usize = 64 << 10;

/// A case from a seed or from a fuzzer's decisions.
pub fn case(rng: &mut Rng) -> GeneratedCase {
    let memory = rng.pick(&[ENOUGH, ENOUGH, 4096, 1024]);
    let mut program = Vec::new();
    for _ in 0..rng.within(1, 4) {
        put(&mut program, 2, &Value::Bytes(instruction(rng, 4)));
    }
    let program = damaged(rng, program, 5);
    let state = if rng.percent(20) { Some(message(rng, 3)) } else { None };
    let state = state.map(|state| damaged(rng, state, 10));
    let patches = (0..rng.within(1, 12)).map(|_| {
        let patch = message(rng, 3);
        damaged(rng, patch, 10)
    });
    GeneratedCase { patches: patches.collect(), program, state, memory }
}

fn damaged(rng: &mut Rng, mut bytes: Vec<u8>, chance: usize) -> Vec<u8> {
    if rng.percent(chance) && !bytes.is_empty() {
        let at = rng.below(bytes.len());
        match rng.below(3) {
            0 => bytes.truncate(at),
            1 => drop(bytes.remove(at)),
            _ => bytes[at] = rng.pick(&[0, 1, 2, 8, 10, 0x7F, 0x80, 0xFF]),
        }
    }
    bytes
}

fn scalar(out: &mut Vec<u8>, id: u64, value: u64) {
    put(out, id, &Value::Scalar(0, value));
}

/// The numbers of most fields; others are rare.
fn id(rng: &mut Rng) -> u64 {
    if rng.percent(3) { rng.pick(&[100, (1 << 29) - 1, 1 << 29, 1 << 24]) } else { rng.within(1, 4) as u64 }
}

fn message(rng: &mut Rng, depth: usize) -> Vec<u8> {
    let mut out = Vec::new();
    for _ in 0..rng.below(6) {
        let value = match rng.below(8) {
            0 | 1 if depth > 0 => Value::Bytes(message(rng, depth - 1)),
            0..=3 if depth > 0 => {
                // With a key.
                let mut element = Vec::new();
                scalar(&mut element, 1, rng.below(5) as u64);
                element.extend(message(rng, depth - 1));
                Value::Bytes(element)
            }
            0..=4 => {
                let len = rng.pick(&[0, 1, 7, 8, 9, 27, 28, 29, 60, 150]);
                Value::Bytes(rng.bytes(len))
            }
            5 => Value::Scalar(1, rng.number()),
            6 => Value::Scalar(5, u64::from(rng.number() as u32)),
            _ => Value::Scalar(0, rng.pick(&[0, 1, 2, 3, 127, 128, u64::MAX, 1 << 32])),
        };
        put(&mut out, id(rng), &value);
    }
    out
}

fn instruction(rng: &mut Rng, depth: usize) -> Vec<u8> {
    let mut out = Vec::new();
    let mut body = Vec::new();
    // Which operation is likely depends on how deep it is: selects outside.
    let operation =
        if depth > 1 { rng.pick(&[1, 1, 1, 1, 1, 2, 3, 4, 5]) } else { rng.pick(&[1, 2, 3, 3, 4, 4, 5]) };
    match operation {
        1 => body = select(rng),
        2 => {
            if rng.percent(40) {
                scalar(&mut body, 1, rng.pick(&[1, 2, 2, 3, 0]));
            }
            if rng.percent(40) {
                scalar(&mut body, 2, rng.pick(&[0, 1, 31, 32, 256]));
            }
        }
        3 => {
            for flag in [1, 2] {
                if rng.percent(40) {
                    scalar(&mut body, flag, 1);
                }
            }
        }
        _ => {}
    }
    if !rng.percent(2) {
        put(&mut out, operation, &Value::Bytes(body));
    }
    if rng.percent(50) {
        scalar(&mut out, 6, rng.pick(&[1, 1, 1, 2, 3, 0]));
    }
    let nested = if operation == 1 { rng.within(1, 3) } else { rng.below(10).saturating_sub(7) };
    for _ in 0..nested {
        if depth > 0 {
            put(&mut out, 7, &Value::Bytes(instruction(rng, depth - 1)));
        }
    }
    out
}

fn select(rng: &mut Rng) -> Vec<u8> {
    let mut out = Vec::new();
    let cursor = rng.pick(&[1, 1, 2, 2, 2, 2, 3, 0]);
    if cursor != 1 || rng.percent(20) {
        scalar(&mut out, 1, cursor);
    }
    for _ in 0..rng.pick(&[0, 1, 1, 1, 2]) {
        let mut component = Vec::new();
        scalar(&mut component, 1, id(rng));
        if rng.percent(20) {
            scalar(&mut component, 5, 1);
        }
        put(&mut out, 2, &Value::Bytes(component));
        let mut element = Vec::new();
        match rng.below(10) {
            0 | 1 => scalar(&mut element, 2, rng.below(4) as u64),
            2..=4 if cursor != 1 => {
                scalar(&mut element, 3, 1);
                if !rng.percent(5) {
                    scalar(&mut element, 6, rng.pick(&[0, 0, 0, 0, 1]));
                }
            }
            _ => continue,
        }
        put(&mut out, 2, &Value::Bytes(element));
    }
    if rng.percent(if cursor == 1 { 2 } else { 70 }) {
        scalar(&mut out, 3, 1);
    }
    out
}
