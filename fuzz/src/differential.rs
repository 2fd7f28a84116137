//! `differential`: the buffer against the plain model of the core's tests; everything observable is compared after
//! every operation.
//!
//! The first byte chooses whose operations these are: of hostile producers, of hostile ones with ids from anywhere (for
//! which only the identities hold), or of honest ones, whose packets are also checked against what was written. The
//! other bytes are the decisions of the generators that the randomised tests use.

use tracebuf_conformance::random::driver::{Depth, run as compare};
use tracebuf_conformance::random::ops::{BufferOp, Setup};
use tracebuf_conformance::random::rng::Rng;
use tracebuf_conformance::random::{hostile, judge, writers};

/// Runs one input.
pub fn run(data: &[u8]) {
    let Some((kind, tape)) = data.split_first() else { return };
    let rng = Rng::of_bytes(tape);
    match kind % 8 {
        0..3 => {
            let (setup, ops) = hostile::case_of(rng, false);
            expect(&setup, &ops, compare(&setup, &ops, Depth::Model));
        }
        3 => {
            let (setup, ops) = hostile::case_of(rng, true);
            expect(&setup, &ops, compare(&setup, &ops, Depth::Identities));
        }
        _ => {
            let (setup, ops, truth) = writers::case_of(rng);
            expect(&setup, &ops, compare(&setup, &ops, Depth::Model));
            expect(&setup, &ops, judge::judge_real(&truth, &setup, &ops));
        }
    }
}

fn expect(setup: &Setup, ops: &[BufferOp], result: Result<(), String>) {
    if let Err(why) = result {
        let script: Vec<_> = ops.iter().map(BufferOp::to_string).collect();
        panic!("{why}\n\n{setup}\n{}\n", script.join("\n"));
    }
}
