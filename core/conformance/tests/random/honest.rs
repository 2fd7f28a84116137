//! Simulated writers that keep to the protocol: what comes out is true to what they wrote.

use tracebuf_conformance::random::cases::{check, check_with, count, first_seed};
use tracebuf_conformance::random::driver::Depth;
use tracebuf_conformance::random::{judge, writers};

#[test]
fn packets_come_out_intact_once_in_order_with_their_losses_and_no_others() {
    for seed in first_seed()..first_seed() + count(500) {
        let (setup, ops, truth) = writers::case(seed);
        check_with("honest", seed, &setup, &ops, |ops| judge::judge_real(&truth, &setup, ops));
    }
}

#[test]
fn the_model_is_true_to_what_writers_wrote() {
    for seed in first_seed()..first_seed() + count(500) {
        let (setup, ops, truth) = writers::case(seed);
        check_with("honest, model", seed, &setup, &ops, |ops| judge::judge_model(&truth, &setup, ops));
    }
}

#[test]
fn the_buffer_does_what_the_model_does_for_honest_writers() {
    for seed in first_seed()..first_seed() + count(250) {
        let (setup, ops, _) = writers::case(seed);
        check("honest, differential", seed, &setup, &ops, Depth::Model);
    }
}
