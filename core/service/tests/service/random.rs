//! Clients that do anything in any order: whatever they do, nobody waits for ever, and in the end nothing is left.

use crate::known::left;
use crate::model::{Choices, Clients};
use crate::witness::watched;
use crate::world::World;

struct Random(u64);

impl Choices for Random {
    fn below(&mut self, most: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % most
    }

    fn bytes(&mut self, most: usize) -> Vec<u8> {
        (0..self.below(most as u64 + 1)).map(|_| self.below(256) as u8).collect()
    }
}

#[test]
fn whatever_clients_do_everybody_is_answered_and_in_the_end_nothing_is_left() {
    let mut cloned = 0;
    for seed in 0..100 {
        println!("seed {seed}");
        let (mut world, mut random) = (World::default(), Random(seed));
        if seed % 2 == 0 {
            world.can_compress(true, seed % 4 == 0);
        }
        // Root among them may end any session: then none is watched.
        let mut clients = Clients::of(if seed % 3 == 0 { 0 } else { 1 });
        if seed % 3 == 0 {
            (0..300).for_each(|_| clients.step(&mut world, &mut random));
        } else {
            watched(&mut world, |world, witness| {
                for _ in 0..300 {
                    clients.step(world, &mut random);
                    match random.below(10) {
                        0 => witness.write(world),
                        1 => clients.audit(world),
                        _ => {}
                    }
                }
            });
        }
        cloned += clients.finish(&mut world);
        assert_eq!((left(&mut world), world.service.wake_at()), ((0, 0), None));
        assert_eq!(world.memory_in_use(), (0, 0));
    }
    assert!(cloned > 20, "{cloned} sessions were cloned");
}
