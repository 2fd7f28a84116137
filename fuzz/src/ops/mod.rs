//! `ops`: all operations on a small buffer, by writers that obey the rules and by one that does not.
//!
//! What the honest writers wrote is known (see [`writer`]): what comes out must agree with it, and in the end nothing
//! may wait. `README.md` lists all that is checked.

mod op;
mod world;
pub mod writer;

use crate::input::Input;
use op::{Op, Setup};
use world::World;

/// More would make an input slow and no better.
const MOST_OPS: usize = 200;

/// Runs one input.
pub fn run(data: &[u8]) {
    let mut input = Input::new(data);
    let mut world = World::new(&Setup::read(&mut input));
    for _ in 0..MOST_OPS {
        if input.is_over() {
            break;
        }
        let op = Op::read(&mut input);
        crate::trace(|| format!("{op:?}"));
        world.run(&op);
    }
    world.settle();
}
