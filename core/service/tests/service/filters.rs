//! Sessions with a filter, as consumers and files get what it leaves.

use tracebuf::producer::TraceWriter;
use tracebuf::proto::TracePackets;
use tracebuf::proto::fields::config::{string_filter_chain, string_filter_rule, trace_config, trace_filter};
use tracebuf::proto::fields::{filter_stats, trace_packet, trace_stats};
use tracebuf::proto::reader::{Fields, message, number, numbers};
use tracebuf::proto::varint;
use tracebuf_service::wire::ProtoBuilder;

use crate::clients::{Consumer, Program, config_of, times};
use crate::world::World;

const SEQUENCE: u32 = trace_packet::TRUSTED_PACKET_SEQUENCE_ID;

/// A bytecode, with its checksum.
fn bytecode(words: &[u32]) -> Vec<u8> {
    let bytes = words.iter().flat_map(|word| word.to_le_bytes());
    let sum = bytes
        .fold(0xCBF2_9CE4_8422_2325_u64, |sum, byte| (sum ^ u64::from(byte)).wrapping_mul(0x100_0000_01B3));
    let mut encoded = Vec::new();
    for word in words.iter().copied().chain([sum as u32]) {
        let mut one = [0; varint::MAX_LEN];
        let len = varint::encode(word.into(), &mut one).expect("room");
        encoded.extend_from_slice(&one[..len]);
    }
    encoded
}

/// Packets with their times and sequences, and strings in field 900, 1 of it.
fn fields() -> Vec<u8> {
    bytecode(&[1 << 3 | 3, 1, 0, 8 << 3 | 1, SEQUENCE << 3 | 1, 900 << 3 | 3, 2, 0, 1 << 3 | 4, 0])
}

fn rule(policy: u32, pattern: &str) -> ProtoBuilder {
    ProtoBuilder::new()
        .number(string_filter_rule::POLICY, policy)
        .bytes(string_filter_rule::REGEX_PATTERN, pattern.as_bytes())
}

fn filtered(config: ProtoBuilder, bytecode: &[u8], rules: &[ProtoBuilder]) -> ProtoBuilder {
    let chain = ProtoBuilder::new().each(rules, |all, one| all.message(string_filter_chain::RULES, one));
    let filter = ProtoBuilder::new()
        .bytes(trace_filter::BYTECODE_V2, bytecode)
        .message(trace_filter::STRING_FILTER_CHAIN, &chain);
    config.message(trace_config::TRACE_FILTER, &filter)
}

fn write(writer: &mut TraceWriter<'static>, time: u64, text: &str) {
    let mut packet = writer.packet();
    packet.varint(trace_packet::TIMESTAMP, time);
    packet.varint(trace_packet::SEQUENCE_FLAGS, 1);
    packet.bytes(900, ProtoBuilder::new().bytes(1, text.as_bytes()).bytes(2, b"hidden").as_bytes());
}

/// The strings that programs' packets have, which have nothing else that a filter leaves out.
fn texts(packets: &[Vec<u8>]) -> Vec<String> {
    let data = packets.iter().filter(|packet| number(packet, SEQUENCE).is_some_and(|number| number > 1));
    let texts = data.map(|packet| {
        let all: Vec<u32> = Fields::of(packet).map(|field| field.number).collect();
        assert_eq!(all, [8, 900, SEQUENCE]);
        let inner = message(packet, 900).expect("well-formed");
        assert_eq!(Fields::of(inner).count(), 1);
        String::from_utf8_lossy(message(inner, 1).expect("well-formed")).into_owned()
    });
    texts.collect()
}

fn stats(packets: &[Vec<u8>]) -> Vec<u8> {
    let mut all =
        packets.iter().map(|packet| message(packet, trace_packet::TRACE_STATS).expect("well-formed"));
    let stats = all.rfind(|stats| !stats.is_empty()).expect("statistics");
    message(stats, trace_stats::FILTER_STATS).expect("well-formed").to_vec()
}

const TEXTS: [&str; 4] = ["user=anna", "user=bert;", "public", "B|12|key=1,key=22"];
const LEFT: [&str; 4] = ["user=P60R", "user=bert;", "public", "B|12|key=P,key=P6"];

fn rules() -> [ProtoBuilder; 3] {
    let of_atrace = string_filter_rule::ATRACE_PAYLOAD_STARTS_WITH;
    [rule(3, "public"), rule(1, "user=(\\w+)"), rule(5, "key=(\\d+)").bytes(of_atrace, b"key")]
}

#[test]
fn a_consumer_reads_what_the_filter_leaves_and_statistics_say_what_it_did() {
    let mut world = World::default();
    let mut program = Program::offering(&mut world, 1000, &[("events", 0)]);
    let mut consumer = Consumer::of(&mut world, 0);
    consumer.enable(&mut world, &filtered(config_of(&[64], &[("events", 0)]), &fields(), &rules()));
    let mut writer = program.starts_to_write(&world);
    for (text, time) in TEXTS.iter().zip(1..) {
        write(&mut writer, time, text);
    }
    writer.flush();
    program.speak(&mut world);
    consumer.simple(&mut world, "DisableTracing");
    let packets = consumer.read(&mut world);
    assert_eq!((texts(&packets), times(&packets)), (LEFT.map(String::from).to_vec(), vec![1, 2, 3, 4]));
    // The service's own are as many as without, and have their times and sequence alone.
    let own: Vec<_> = packets.iter().filter(|packet| number(packet, SEQUENCE) == Some(1)).collect();
    let is_stats =
        |packet: &[u8]| message(packet, trace_packet::TRACE_STATS).is_some_and(|of| !of.is_empty());
    assert!(own.len() > 6 && own.iter().filter(|packet| is_stats(packet)).count() == 1);
    let only = |packet: &[u8]| Fields::of(packet).all(|field| [8, SEQUENCE].contains(&field.number));
    assert!(own.iter().all(|packet| is_stats(packet) || only(packet)));
    let stats = stats(&packets);
    use filter_stats::{BYTES_DISCARDED_PER_BUFFER, ERRORS, INPUT_BYTES, INPUT_PACKETS, OUTPUT_BYTES};
    let of = [INPUT_PACKETS, INPUT_BYTES, OUTPUT_BYTES, ERRORS, BYTES_DISCARDED_PER_BUFFER];
    let [all, bytes, left, errors, discarded] = numbers(&stats, of).expect("well-formed");
    assert_eq!((all, errors), (packets.len() as u64 - 1, 0));
    // Of each, its flags, and what is hidden with what is around it; and what is trusted.
    assert!(bytes > left + discarded && discarded >= 4 * (3 + 8), "{bytes} {left} {discarded}");
}

#[test]
fn a_file_has_what_the_filter_leaves_compressed_or_not() {
    for compresses in [false, true] {
        let mut world = World::default();
        world.can_compress(true, false);
        let config = filtered(config_of(&[64], &[("events", 0)]), &fields(), &rules())
            .number(trace_config::WRITE_INTO_FILE, true)
            .number(trace_config::COMPRESSION_TYPE, u32::from(compresses));
        let mut program = Program::offering(&mut world, 1000, &[("events", 0)]);
        let (mut consumer, file) = (Consumer::of(&mut world, 0), world.file());
        consumer.enable_with(&mut world, &config, Some(file));
        let mut writer = program.starts_to_write(&world);
        for (text, time) in TEXTS.iter().zip(1..) {
            write(&mut writer, time, text);
        }
        writer.flush();
        program.speak(&mut world);
        consumer.simple(&mut world, "DisableTracing");
        let mut packets = Vec::new();
        for packet in TracePackets::new(&world.files[&file.0].bytes).flatten() {
            match message(packet, trace_packet::COMPRESSED_PACKETS).expect("well-formed") {
                [] => packets.push(packet.to_vec()),
                packed => {
                    let (_, inner) = world.inflate(packed);
                    packets.extend(TracePackets::new(&inner).flatten().map(<[u8]>::to_vec));
                }
            }
        }
        assert_eq!(texts(&packets), LEFT);
        let is_compressed = !world.files[&file.0].bytes.windows(4).any(|part| part == b"bert");
        assert_eq!(is_compressed, compresses);
        assert!(number(&stats(&packets), filter_stats::INPUT_PACKETS).is_some_and(|all| all > 4));
    }
}

#[test]
fn a_session_whose_filter_is_wrong_does_not_begin_and_leaves_nothing() {
    let mut world = World::default();
    let mut refused = |config: &ProtoBuilder| {
        let (mut consumer, file) = (Consumer::of(&mut world, 0), world.file());
        let config = config.clone().number(trace_config::WRITE_INTO_FILE, true);
        let enabled = consumer.enable_with(&mut world, &config, Some(file));
        let error = consumer.ended(&world, enabled).expect("it is refused");
        assert!(
            world.discarded.contains(&file) && world.log.last().is_some_and(|line| line.contains(&error))
        );
        error
    };
    let config = || config_of(&[64], &[("events", 0)]);
    let mut wrong = fields();
    wrong[3] ^= 1;
    assert_eq!(refused(&filtered(config(), &wrong, &[])), "Trace filter bytecode invalid");
    assert_eq!(refused(&filtered(config(), &[], &[])), "Trace filter bytecode invalid");
    let none = ProtoBuilder::new();
    assert!(refused(&config().message(trace_config::TRACE_FILTER, &none)).contains("bytecode invalid"));
    assert!(refused(&filtered(config(), &fields(), &[rule(1, "(")])).contains("Invalid pattern ("));
    assert!(refused(&filtered(config(), &fields(), &[rule(9, "a")])).contains("string filtering rules"));
    assert!(world.files.is_empty());
    // The old bytecode does, and the newer one comes before it.
    for (old, new, is_good) in
        [(fields(), vec![], true), (wrong.clone(), fields(), true), (fields(), wrong, false)]
    {
        let filter =
            ProtoBuilder::new().bytes(trace_filter::BYTECODE, &old).bytes(trace_filter::BYTECODE_V2, &new);
        let mut consumer = Consumer::of(&mut world, 0);
        let enabled = consumer.enable(&mut world, &config().message(trace_config::TRACE_FILTER, &filter));
        assert_eq!(consumer.ended(&world, enabled).is_none(), is_good);
    }
}

#[test]
fn what_a_hostile_program_writes_is_counted_and_does_not_get_through() {
    let mut world = World::default();
    let mut program = Program::offering(&mut world, 1000, &[("events", 0)]);
    let mut consumer = Consumer::of(&mut world, 0);
    consumer.enable(&mut world, &filtered(config_of(&[1024], &[("events", 0)]), &fields(), &rules()));
    let mut writer = program.starts_to_write(&world);
    // A message that ends within a field, and one that is no message: packets need not be whole further down.
    for inner in [&b"\x0A\x7Fuser"[..], b"\xFF\xFF\xFF", b"\x0A"] {
        writer.packet().bytes(900, inner);
    }
    write(&mut writer, 5, "user=x");
    writer.flush();
    program.speak(&mut world);
    consumer.simple(&mut world, "DisableTracing");
    let packets = consumer.read(&mut world);
    assert_eq!((texts(&packets), times(&packets)), (vec!["user=P".to_string()], vec![5]));
    assert_eq!(packets.iter().filter(|packet| packet.is_empty()).count(), 3);
    assert_eq!(number(&stats(&packets), filter_stats::ERRORS), Some(3));
}

#[test]
fn a_filter_that_leaves_nothing_keeps_nobody_waiting() {
    let mut world = World::default();
    let mut program = Program::offering(&mut world, 1000, &[("events", 0)]);
    let mut consumer = Consumer::of(&mut world, 0);
    let none = bytecode(&[1 << 3 | 3, 1, 0, 0]);
    consumer.enable(&mut world, &filtered(config_of(&[4096], &[("events", 0)]), &none, &[]));
    let mut writer = program.starts_to_write(&world);
    for _ in 0..10 {
        writer.packet().bytes(900, &[1; 200_000]);
        writer.flush();
        program.speak(&mut world);
    }
    consumer.simple(&mut world, "DisableTracing");
    // Each turn takes so much of what comes, and not all, because nothing of it goes out.
    let begin = world.turns;
    let packets = consumer.read(&mut world);
    assert!(world.turns - begin >= 10, "{}", world.turns - begin);
    assert!(packets.iter().filter(|packet| packet.is_empty()).count() > 10);
    let stats = stats(&packets);
    let of = [filter_stats::OUTPUT_BYTES, filter_stats::BYTES_DISCARDED_PER_BUFFER];
    let [left, discarded] = numbers(&stats, of).expect("well-formed");
    assert!(left == 0 && discarded > 2_000_000, "{left} {discarded}");
}
