//! A producer that ends at any moment: its whole packets come out, and nothing stays.

use super::crash::all;
use super::load::{Buffer, Load, Op, Packets, numbers};
use crate::buffer::tests::memory::Memory;
use crate::buffer::tests::with_options;
use crate::buffer::*;

fn new(config: Config, ring: u32) -> Buffer {
    TraceBuffer::new(Memory::filled(0, config.region_size(ring) as usize), config).expect("room")
}

/// What can be read without the end.
fn before(buffer: &Buffer) -> Packets {
    let memory = Memory::filled(0, buffer.clone_size());
    let mut clone = buffer.clone_read_only(memory).expect("room");
    super::load::read(&mut clone.read(), usize::MAX)
}

#[test]
fn whole_packets_come_out_and_the_rest_is_told_and_nothing_stays() {
    let (seeds, steps) = if cfg!(miri) { (0..1, 20) } else { (0..3000, 60) };
    let (mut more, mut given_up) = (0, 0);
    for seed in seeds {
        let policy = if seed % 3 == 0 { FillPolicy::Discard } else { FillPolicy::RingBuffer };
        let config = with_options(Config::new(policy).sequences(6), seed % 2 == 0, seed % 5 == 0);
        let (mut load, mut buffer) = (Load::new(seed, 5), new(config, 900));
        for _ in 0..seed % steps {
            load.next().run(&mut buffer);
        }
        let (before, dropped) = (before(&buffer), buffer.stats().trace_writer_packet_loss);
        Op::End.run(&mut buffer);
        buffer.check().expect("a sound buffer");
        let found = all(&mut buffer);
        assert!(numbers(&before).is_subset(&numbers(&found)), "seed {seed}");
        let summary = buffer.check().expect("a sound buffer");
        assert_eq!(summary.chunks, 0, "seed {seed}: nothing stays");
        for packets in found.values() {
            for two in packets.windows(2) {
                let ([(last, _), (next, loss)], ..) = (two,) else { unreachable!("two") };
                assert!(*next == last + 1 || !loss.is_empty(), "seed {seed}: silent before {next}");
            }
        }
        // A second end changes nothing.
        let stats = buffer.stats();
        Op::End.run(&mut buffer);
        assert_eq!(buffer.stats(), stats);
        more += numbers(&found).len() - numbers(&before).len();
        given_up += stats.trace_writer_packet_loss - dropped;
    }
    assert!(cfg!(miri) || more > 100 && given_up > 100, "{more} more, {given_up} given up");
}

#[test]
fn of_other_producers_nothing_changes() {
    let config = Config::new(FillPolicy::RingBuffer).sequences(6);
    let (mut load, mut buffer) = (Load::new(7, 5), new(config, 900));
    for _ in 0..if cfg!(miri) { 20 } else { 100 } {
        load.next().run(&mut buffer);
        let memory = buffer.memory().to_vec();
        buffer.end_producer(2);
        assert_eq!(*buffer.memory(), memory);
    }
}
