//! Hostile operations in random order on small rings, the real buffer compared with the model.

use tracebuf_conformance::random::cases::{check, count, first_seed};
use tracebuf_conformance::random::driver::Depth;
use tracebuf_conformance::random::hostile;

#[test]
fn the_buffer_does_what_the_model_does_whatever_comes() {
    for seed in first_seed()..first_seed() + count(400) {
        let (setup, ops) = hostile::case(seed, false);
        check("hostile", seed, &setup, &ops, Depth::Model);
    }
}

#[test]
fn counters_add_up_and_lists_agree_with_the_ring_for_ids_from_anywhere() {
    for seed in first_seed()..first_seed() + count(300) {
        let (setup, ops) = hostile::case(seed, true);
        check("wild", seed, &setup, &ops, Depth::Identities);
    }
}
