//! Sessions whose packets are compressed.

use tracebuf::producer::TraceWriter;
use tracebuf::proto::TracePackets;
use tracebuf::proto::fields::config::{compression, trace_config, zstd};
use tracebuf::proto::fields::trace_packet;
use tracebuf::proto::reader::{Fields, message};
use tracebuf_service::Codec;
use tracebuf_service::wire::ProtoBuilder;

use crate::clients::{Consumer, Program, config_of, times};
use crate::world::World;

fn old_form() -> ProtoBuilder {
    config_of(&[1024], &[("events", 0)]).number(trace_config::COMPRESSION_TYPE, 1_u32)
}

/// One that names these kinds.
fn config(kinds: &[u32]) -> ProtoBuilder {
    let kinds = ProtoBuilder::new().each(kinds, |all, kind| all.message(*kind, &ProtoBuilder::new()));
    config_of(&[1024], &[("events", 0)]).message(trace_config::COMPRESSION, &kinds)
}

fn write(writer: &mut TraceWriter<'static>, time: u64, bytes: usize) {
    let mut packet = writer.packet();
    packet.varint(trace_packet::TIMESTAMP, time);
    packet.bytes(900, &vec![7; bytes]);
}

/// All packets, and how many were compressed together.
fn unpacked(world: &World, packets: &[Vec<u8>]) -> (Vec<Vec<u8>>, usize) {
    let (mut all, mut count) = (Vec::new(), 0);
    for packet in packets {
        let fields = [trace_packet::COMPRESSED_PACKETS, trace_packet::ZSTD_COMPRESSED_PACKETS];
        let packed = fields.map(|field| message(packet, field).expect("well-formed"));
        match packed {
            [&[], &[]] => all.push(packet.clone()),
            [deflated, frame] => {
                assert_eq!(Fields::of(packet).count(), 1, "it has nothing else");
                let (codec, inner) = world.inflate(&[deflated, frame].concat());
                assert_eq!(codec == Codec::Deflate, frame.is_empty(), "the field says how");
                assert!(inner.len() <= (1 << 20) + (64 << 10), "so much at a time: {}", inner.len());
                all.extend(TracePackets::new(&inner).map(|packet| packet.expect("whole").to_vec()));
                count += 1;
            }
        }
    }
    (all, count)
}

fn recorded(world: &mut World, config: &ProtoBuilder) -> Vec<Vec<u8>> {
    let mut program = Program::offering(world, 1000, &[("events", 0)]);
    let mut consumer = Consumer::of(world, 0);
    consumer.enable(world, config);
    let mut writer = program.starts_to_write(world);
    for time in 1..=40 {
        write(&mut writer, time, 9000);
        writer.flush();
        program.speak(world);
    }
    consumer.simple(world, "DisableTracing");
    consumer.read(world)
}

#[test]
fn a_consumer_that_asks_for_it_reads_the_same_packets_compressed_a_turn_in_one() {
    let all: Vec<u64> = (1..=40).collect();
    let plain = recorded(&mut World::default(), &config(&[]));
    for config in [old_form(), config(&[1]), config(&[2, 1])] {
        let mut world = World::default();
        world.can_compress(true, false);
        let read = recorded(&mut world, &config);
        let (packets, count) = unpacked(&world, &read);
        assert!(read.len() == count && (3..8).contains(&count), "{count} of {}", read.len());
        assert_eq!((times(&packets), packets.len()), (all.clone(), plain.len()));
        assert!(world.log.is_empty(), "{:?}", world.log);
    }
}

#[test]
fn the_best_of_what_there_is_and_is_asked_for_is_used() {
    let zstd = ProtoBuilder::new().number(zstd::LEVEL, 7_u32);
    let with_level = config_of(&[1024], &[("events", 0)])
        .message(trace_config::COMPRESSION, &ProtoBuilder::new().message(compression::ZSTD, &zstd))
        .number(trace_config::COMPRESSION_TYPE, 1_u32);
    let (deflate, zstd) = (Codec::Deflate, |level| Codec::Zstd { level });
    let cases = [
        (config(&[1, 2]), [true, true], zstd(3)),
        (config(&[1, 2, 77]), [true, false], deflate),
        (config(&[1]), [true, true], deflate),
        (old_form(), [true, true], deflate),
        (with_level.clone(), [true, true], zstd(7)),
        (with_level, [true, false], deflate),
    ];
    for (config, [by_deflate, by_zstd], expected) in cases {
        let mut world = World::default();
        world.can_compress(by_deflate, by_zstd);
        let read = recorded(&mut world, &config);
        assert_eq!(times(&unpacked(&world, &read).0), (1..=40).collect::<Vec<_>>());
        let field = if expected == deflate {
            trace_packet::COMPRESSED_PACKETS
        } else {
            trace_packet::ZSTD_COMPRESSED_PACKETS
        };
        let packed = message(&read[0], field).expect("well-formed");
        assert_eq!(world.inflate(packed).0, expected);
        assert!(world.log.is_empty(), "{:?}", world.log);
    }
}

#[test]
fn what_cannot_be_compressed_is_the_same_without_and_the_log_says_so_once() {
    for (config, can) in
        [(old_form(), false), (config(&[1]), false), (config(&[2]), true), (config(&[99]), true)]
    {
        let mut world = World::default();
        if can {
            world.can_compress(true, false);
        }
        let read = recorded(&mut world, &config);
        assert_eq!(times(&read), (1..=40).collect::<Vec<_>>());
        assert!(matches!(&world.log[..], [line] if line.contains("compressed")), "{:?}", world.log);
    }
}

#[test]
fn a_compressed_file_holds_more_in_the_room_it_may_take_and_ends_with_statistics() {
    let held = |can: bool| {
        let mut world = World::default();
        if can {
            world.can_compress(true, false);
        }
        let config = old_form()
            .number(trace_config::WRITE_INTO_FILE, true)
            .number(trace_config::FILE_WRITE_PERIOD_MS, 100_u32)
            .number(trace_config::WRITE_FLUSH_MODE, 2_u32)
            .number(trace_config::MAX_FILE_SIZE_BYTES, 200_000_u32);
        let mut program = Program::offering(&mut world, 1000, &[("events", 0)]);
        let (mut consumer, file) = (Consumer::of(&mut world, 0), world.file());
        let enabled = consumer.enable_with(&mut world, &config, Some(file));
        let mut writer = program.starts_to_write(&world);
        let mut time = 0;
        while consumer.ended(&world, enabled).is_none() {
            for _ in 0..10 {
                time += 1;
                write(&mut writer, time, 3000);
                writer.flush();
            }
            program.speak(&mut world);
            world.pass(100);
            assert!(time < 10_000, "it ends");
        }
        let file = &world.files[&file.0];
        assert!(file.is_complete && file.bytes.len() < 200_000, "{}", file.bytes.len());
        let packets: Vec<_> =
            TracePackets::new(&file.bytes).map(|one| one.expect("whole").to_vec()).collect();
        let (packets, _) = unpacked(&world, &packets);
        let times = times(&packets);
        assert!(times.iter().copied().eq(1..=times.len() as u64), "no gap: {times:?}");
        let last = packets.last().expect("a packet");
        assert!(message(last, trace_packet::TRACE_STATS).is_some_and(|stats| !stats.is_empty()));
        times.len()
    };
    let [plain, compressed] = [false, true].map(held);
    assert!(plain > 40 && compressed > 3 * plain, "{plain} {compressed}");
}
