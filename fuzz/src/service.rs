//! `service`: a tracing service without input and output, and clients that do anything in any order: the model of its
//! randomised test, with decisions out of an input.

use crate::input::Input;
use known::left;
use model::{Choices, Clients};
use witness::watched;
use world::World;

macro_rules! modules_of_its_tests {
    ($($name:ident = $path:literal),*) => {
        $(
            #[path = $path]
            #[allow(dead_code, unreachable_pub, reason = "modules of another program")]
            mod $name;
        )*
    };
}

modules_of_its_tests!(
    clients = "../../core/service/tests/service/clients.rs",
    host = "../../core/service/tests/service/host.rs",
    known = "../../core/service/tests/service/known.rs",
    model = "../../core/service/tests/service/model.rs",
    wild = "../../core/service/tests/service/wild.rs",
    witness = "../../core/service/tests/service/witness.rs",
    world = "../../core/service/tests/service/world.rs"
);

impl Choices for Input<'_> {
    fn below(&mut self, most: u64) -> u64 {
        match most {
            0..=256 => u64::from(self.byte()) % most,
            257..=0x1_0000 => u64::from(self.u16()) % most,
            _ => u64::from(self.u32()) % most,
        }
    }

    fn bytes(&mut self, most: usize) -> Vec<u8> {
        let len = usize::from(self.byte());
        Input::bytes(self, len.min(most)).to_vec()
    }
}

/// Runs one input.
pub fn run(data: &[u8]) {
    let (mut input, mut world) = (Input::new(data), World::default());
    let how = input.byte();
    world.can_compress(how & 1 != 0, how & 4 != 0);
    // Root among the clients may end any session: then none is watched.
    let is_watched = how & 2 == 0;
    let mut clients = Clients::of(u32::from(is_watched));
    if is_watched {
        watched(&mut world, |world, witness| {
            while !input.is_over() {
                clients.step(world, &mut input);
                match input.byte() % 8 {
                    0 => witness.write(world),
                    1 => clients.audit(world),
                    _ => {}
                }
            }
        });
    } else {
        while !input.is_over() {
            clients.step(&mut world, &mut input);
            clients.audit(&mut world);
        }
    }
    clients.finish(&mut world);
    assert_eq!((left(&mut world), world.service.wake_at()), ((0, 0), None));
    assert_eq!(world.memory_in_use(), (0, 0));
}
