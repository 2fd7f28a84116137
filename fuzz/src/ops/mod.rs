//! `ops`: all operations on a small buffer, by writers that keep the rules and by one that does not.
//!
//! What the honest writers wrote is known (see [`writer`]), so beside the buffer's own consistency it is checked
//! that every packet comes out as it was written, in order and once; that what is missing is reported, and
//! nothing is reported that is not missing; that clones read like the original; that leases give their packet or
//! nothing; that an observer of overwriting changes nothing; and that nothing waits for ever.

mod op;
mod world;
pub mod writer;

use crate::input::Input;
pub use op::{Op, Setup};
use world::World;

/// More make an input slow and no better.
const MOST_OPS: usize = 200;

/// Runs one input.
pub fn run(data: &[u8]) {
    let mut input = Input::new(data);
    let Some(setup) = input.value::<Setup>() else { return };
    let mut world = World::new(&setup);
    for _ in 0..MOST_OPS {
        if input.is_over() {
            break;
        }
        let Some(op) = input.value::<Op>() else { break };
        crate::trace(|| format!("{op:?}"));
        world.run(&op);
    }
    world.settle();
}
