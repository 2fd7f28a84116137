//! Cases from their seeds, run in number, and the reduction of a failing one.

use std::panic::{AssertUnwindSafe, catch_unwind};

use super::driver::{Depth, run};
use super::ops::{BufferOp, Setup};

/// How many cases to run: `TRACEBUF_CASES`, else `usual`, or a few under Miri.
pub fn count(usual: u64) -> u64 {
    let wanted = std::env::var("TRACEBUF_CASES").ok().and_then(|n| n.parse().ok());
    wanted.unwrap_or(if cfg!(miri) { 2 } else { usual })
}

/// The first seed: `TRACEBUF_SEED`, else 1.
pub fn first_seed() -> u64 {
    std::env::var("TRACEBUF_SEED").ok().and_then(|n| n.parse().ok()).unwrap_or(1)
}

fn verdict(test: &dyn Fn(&[BufferOp]) -> Result<(), String>, ops: &[BufferOp]) -> Result<(), String> {
    match catch_unwind(AssertUnwindSafe(|| test(ops))) {
        Ok(result) => result,
        Err(panic) => {
            let text = panic.downcast_ref::<String>().cloned();
            let text = text.or_else(|| panic.downcast_ref::<&str>().map(|s| (*s).to_owned()));
            Err(format!("panic: {}", text.unwrap_or_default()))
        }
    }
}

/// What kind of failure it is, so that shrinking does not wander to another one.
fn kind(failure: &str) -> String {
    let what = failure.split_once("): ").map_or(failure, |(_, what)| what);
    what.split([':', '\n']).next().unwrap_or("").chars().filter(|c| !c.is_ascii_digit()).collect()
}

/// Compares one case with the model, or only with itself.
pub fn check(name: &str, seed: u64, setup: &Setup, ops: &[BufferOp], depth: Depth) {
    check_with(name, seed, setup, ops, |ops| run(setup, ops, depth));
}

/// Tests one case; panics with the smallest script found that fails the same way.
pub fn check_with(
    name: &str,
    seed: u64,
    setup: &Setup,
    ops: &[BufferOp],
    test: impl Fn(&[BufferOp]) -> Result<(), String>,
) {
    let Err(failure) = verdict(&test, ops) else { return };
    let whole = std::env::var_os("TRACEBUF_WHOLE").is_some();
    let (ops, failure) = if whole { (ops.to_vec(), failure) } else { shrink(&test, ops.to_vec(), failure) };
    let script: Vec<_> = ops.iter().map(BufferOp::to_string).collect();
    panic!("{name}, seed {seed}: {failure}\n\n{setup}\n{}\n", script.join("\n"));
}

/// Leaves operations out, in ever smaller blocks, as long as it still fails.
fn shrink(
    test: &dyn Fn(&[BufferOp]) -> Result<(), String>,
    mut ops: Vec<BufferOp>,
    mut failure: String,
) -> (Vec<BufferOp>, String) {
    let wanted = kind(&failure);
    let mut block = ops.len() / 2;
    while block > 0 {
        let (mut at, mut shrunk) = (0, false);
        while at < ops.len() {
            let mut fewer = ops.clone();
            fewer.drain(at..(at + block).min(ops.len()));
            match verdict(test, &fewer) {
                Err(again) if kind(&again) == wanted => (ops, failure, shrunk) = (fewer, again, true),
                _ => at += block,
            }
        }
        if !shrunk || block > 1 {
            block /= 2;
        }
    }
    (ops, failure)
}
