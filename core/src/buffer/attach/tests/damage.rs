//! Damaged memory.

use super::load::{Buffer, Load, Rng, read};
use crate::buffer::tests::memory::Memory;
use crate::buffer::tests::with_options;
use crate::buffer::*;
use std::vec::Vec;

const RING: u32 = 2000;

fn config(crc: bool, histograms: bool) -> Config {
    with_options(Config::new(FillPolicy::RingBuffer).sequences(8), crc, histograms)
}

/// A region after some work.
fn region(seed: u64, config: Config, steps: usize) -> (Memory, Load) {
    let steps = if cfg!(miri) { steps.min(10) } else { steps };
    let mut load = Load::new(seed, 6);
    let mut buffer = TraceBuffer::new(Memory::filled(0x5A, config.region_size(RING) as usize), config)
        .expect("room for it");
    for _ in 0..steps {
        load.next().run(&mut buffer);
    }
    (buffer.into_memory(), load)
}

fn flip(memory: &mut [u8], bits: u64, rng: &mut Rng) {
    for _ in 0..bits {
        let bit = rng.below(memory.len() as u64 * 8) as usize;
        memory[bit / 8] ^= 1 << (bit % 8);
    }
}

/// Uses a buffer without looking at what comes out.
fn use_up(buffer: &mut Buffer, seed: u64) {
    let mut load = Load::new(seed, 9);
    for _ in 0..if cfg!(miri) { 4 } else { 40 } {
        match load.next() {
            super::load::Op::Read { packets } => {
                let mut reader = buffer.read();
                for _ in 0..packets {
                    reader.next_packet().map(|packet| packet.slices().map(<[u8]>::len).sum::<usize>());
                }
            }
            op => drop(op.run(buffer)),
        }
        buffer.check().expect("a sound buffer");
    }
    while buffer.read().next_packet().is_some() {}
}

fn rounds(count: u64) -> std::ops::Range<u64> {
    0..if cfg!(miri) { 1 } else { count }
}

#[cfg(feature = "crc")]
#[test]
fn with_checksums_no_flipped_bit_ever_makes_a_corrupt_packet() {
    let (mut attached, mut kept, mut packets) = (0, 0, 0);
    for seed in rounds(6000) {
        let mut rng = Rng(seed);
        let (mut memory, _) = region(seed / 20, config(true, seed % 2 == 1), 120);
        let bits = 1 + rng.below(12);
        // Most of them where chunks are: with a damaged header there is no region any more.
        let from = if seed % 3 == 0 { 0 } else { 256 };
        flip(&mut memory[from..], bits, &mut rng);
        let Ok((mut buffer, salvage)) = TraceBuffer::attach(memory) else { continue };
        buffer.check().expect("a sound buffer");
        attached += 1;
        kept += u64::from(salvage.chunks_kept);
        packets += read(&mut buffer.read(), usize::MAX).values().map(Vec::len).sum::<usize>();
    }
    assert!(
        cfg!(miri) || (attached > 4000 && kept > 40_000 && packets > 30_000),
        "{attached} {kept} {packets}"
    );
}

#[test]
fn one_flipped_bit_in_the_ring_costs_no_more_than_the_chunks_around_it() {
    let (mut whole, mut kept) = (0, 0);
    for seed in rounds(2000) {
        let mut rng = Rng(seed);
        let (mut memory, _) = region(seed / 20, config(false, seed % 2 == 1), 120);
        let (_, before) = TraceBuffer::attach(memory.clone()).expect("a region");
        let start = memory.len() - RING as usize;
        flip(&mut memory[start..], 1, &mut rng);
        let (_, after) = TraceBuffer::attach(memory).expect("a region");
        whole += u64::from(before.chunks_kept);
        kept += u64::from(after.chunks_kept);
    }
    assert!(kept * 100 > whole * 85, "{kept} of {whole} chunks kept");
}

#[test]
fn damaged_regions_become_sound_buffers_or_none() {
    let mut attached = 0;
    for seed in rounds(6000) {
        let mut rng = Rng(seed);
        let (mut memory, _) = region(seed / 20, config(seed % 2 == 0, seed & 4 != 0), 100);
        match seed % 4 {
            0 => flip(&mut memory[56..], 1 + seed % 60, &mut rng),
            1 => flip(&mut memory, 1 + seed % 8, &mut rng),
            2 => {
                // A span of noise.
                let from = 56 + rng.below(memory.len() as u64 - 56) as usize;
                let until = (from + rng.below(700) as usize).min(memory.len());
                memory[from..until].fill_with(|| rng.below(256) as u8);
            }
            _ => {
                // A span of zeros or a copy of another span.
                let from = 56 + rng.below(memory.len() as u64 - 456) as usize;
                let other = 56 + rng.below(memory.len() as u64 - 456) as usize;
                memory.copy_within(other..other + 400, from);
            }
        }
        if let Ok((mut buffer, _)) = TraceBuffer::attach(memory) {
            attached += 1;
            buffer.check().expect("a sound buffer");
            use_up(&mut buffer, seed);
        }
    }
    assert!(cfg!(miri) || attached > 5500, "{attached}");
}

#[test]
fn noise_behind_a_sound_header_becomes_a_sound_buffer() {
    for seed in rounds(3000) {
        let mut rng = Rng(seed);
        let (mut memory, _) = region(seed / 100, config(false, seed % 2 == 1), 60);
        // Everything but the sizes and their checksum; small numbers are more likely to mean something.
        let mask = [0xFF, 0x0F, 0x83][(seed % 3) as usize];
        let mut noise = || (rng.below(256) & mask) as u8;
        memory[28..52].fill_with(&mut noise);
        memory[56..].fill_with(noise);
        let (mut buffer, _) = TraceBuffer::attach(memory).expect("its sizes are sound");
        buffer.check().expect("a sound buffer");
        use_up(&mut buffer, seed);
    }
}

#[test]
fn what_is_no_region_is_refused_and_left_alone() {
    for seed in rounds(500) {
        let mut rng = Rng(seed);
        let size = rng.below(3000) as usize;
        let memory: Vec<u8> = (0..size).map(|_| rng.below(256) as u8).collect();
        let mut copy = memory.clone();
        assert_eq!(TraceBuffer::attach(&mut copy[..]).err(), Some(AttachError::NoRegion));
        assert_eq!(copy, memory);
    }
    let (memory, _) = region(1, config(false, false), 100);
    let refused = |change: &dyn Fn(&mut Memory)| {
        let mut memory = memory.clone();
        change(&mut memory);
        TraceBuffer::attach(memory).err()
    };
    assert_eq!(refused(&|memory| memory[4] = 9), Some(AttachError::UnknownVersion { found: 9 }));
    for at in [6, 8, 12, 16, 18, 20, 22, 24] {
        assert_eq!(refused(&|memory| memory[at] ^= 1), Some(AttachError::HeaderDamaged), "byte {at}");
    }
    let needed = memory.len();
    assert_eq!(refused(&|memory| memory.truncate(needed - 1)), Some(AttachError::TooShort { needed }));
    assert_eq!(refused(&|memory| memory.extend(&[0; 99])), None);
}

#[test]
fn a_region_that_is_cut_off_can_still_be_read() {
    let mut packets = 0;
    for seed in rounds(300) {
        let config = config(seed % 2 == 0, seed & 2 != 0);
        let (mut memory, _) = region(seed, config, 100);
        let (whole, _) = TraceBuffer::attach(memory.clone()).expect("a region");
        let there = 7 * seed;
        let missing = u64::from(whole.inspect().used()).saturating_sub(there);
        memory.truncate(config.region_size(0) as usize + there as usize);
        for attach in [ReadOnlyTraceBuffer::attach, ReadOnlyTraceBuffer::attach_ended] {
            let (mut buffer, salvage) = attach(memory.clone()).expect("a region");
            // With checksums or without: nothing that is there was changed, so all of it is as it was written.
            let count = read(&mut buffer.read(), usize::MAX).values().map(Vec::len).sum::<usize>();
            assert!(count == 0 || salvage.chunks_kept > 0);
            assert!(salvage.bytes_unreadable >= missing, "{salvage}");
            packets += count;
        }
    }
    assert!(cfg!(miri) || packets > 2000, "{packets}");
}

#[test]
fn a_clone_is_a_region_that_can_be_read() {
    let (memory, _) = region(3, config(false, false), 15);
    let (mut buffer, _) = TraceBuffer::attach(memory).expect("a region");
    let mut clone =
        buffer.clone_read_only(Memory::filled(0, buffer.clone_size())).expect("room").into_memory();
    let (mut again, salvage) = ReadOnlyTraceBuffer::attach(&mut clone[..]).expect("a region");
    assert!(salvage.is_clean(), "{salvage}");
    assert_eq!(read(&mut again.read(), usize::MAX), read(&mut buffer.read(), usize::MAX));
}

#[test]
fn firmware_attaches_or_starts_anew() {
    let small = config(false, false).sequences(4);
    let (buffer, salvage) = TraceBuffer::attach_or_new(std::vec![7; 3000], small).expect("room");
    assert!(salvage.is_none());
    let (buffer, salvage) = TraceBuffer::attach_or_new(buffer.into_memory(), small).expect("room");
    assert!(salvage.is_some_and(|salvage| salvage.is_clean()));
    if cfg!(feature = "crc") {
        let other = config(true, false).sequences(4);
        let (buffer, salvage) = TraceBuffer::attach_or_new(buffer.into_memory(), other).expect("room");
        assert!(salvage.is_none(), "another layout");
        assert_eq!(buffer.stats().chunks_written, 0);
    }
}
