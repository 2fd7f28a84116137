//! Regions that nothing happened to.

use super::load::Load;
use super::memory::Memory;
use crate::buffer::*;

/// Runs the same operations on a buffer and on one that was attached to a copy of it in between.
fn compare(config: Config, ring: u32, seed: u64) {
    let mut load = Load::new(seed, 7);
    let mut buffer =
        TraceBuffer::new(Memory::filled(0, config.region_size(ring) as usize), config).expect("room for it");
    for _ in 0..if cfg!(miri) { 2 } else { 60 } {
        for _ in 0..17 {
            load.next().run(&mut buffer);
        }
        let memory = buffer.into_memory();
        let (mut twin, salvage) = TraceBuffer::attach(memory.clone()).expect("a region");
        assert!(salvage.is_clean(), "seed {seed}: {salvage}");
        twin.check().expect("a sound buffer");
        let layout = super::super::Layout::find(&memory, false).expect("a region");
        buffer = TraceBuffer::from_parts(memory, layout);
        assert_eq!(twin.stats(), buffer.stats());
        for _ in 0..40 {
            let op = load.next();
            assert_eq!(op.run(&mut twin), op.run(&mut buffer), "seed {seed}: {op:?}");
        }
        assert_eq!(twin.stats(), buffer.stats(), "seed {seed}");
    }
}

#[test]
fn a_region_that_was_attached_again_goes_on_as_if_nothing_had_happened() {
    for seed in 0..if cfg!(miri) { 1 } else { 40 } {
        for policy in [FillPolicy::RingBuffer, FillPolicy::Discard] {
            let config = Config::new(policy).histograms(seed % 2 == 0).crc(seed % 3 == 0);
            compare(config.sequences(4 + (seed % 5) as u16), 500 + 170 * (seed % 9) as u32, seed);
        }
    }
}
