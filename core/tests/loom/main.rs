//! Every interleaving, up to a bound, of the threads that share a producer's memory.
//!
//! `RUSTFLAGS="--cfg loom" cargo test --release -p tracebuf --test loom --features inplace`
#![cfg(loom)]

mod inplace;
mod requests;
mod smb;
#[cfg(not(tracebuf_small))]
mod taking_back;

fn leak<T>(value: T) -> &'static T {
    Box::leak(Box::new(value))
}

/// Explores what `f` does, with so many preemptions at most.
fn model(bound: usize, f: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(bound);
    // A packet over three chunks takes more than the thousand that it is without this.
    builder.max_branches = 10_000;
    builder.check(f);
}
