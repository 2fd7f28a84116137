//! Filters against a plain model of what they do, with packets and bytecodes made at random, and what hostile ones take.

use super::bytecode::tests::encoded;
use super::*;
use alloc::collections::BTreeMap;
use core::ops::Range;
use core::sync::atomic::{AtomicU64, Ordering};
use std::vec;
use tracebuf::proto::fields::config::{string_filter_chain, string_filter_rule as rule};

/// A pattern of these tests: a text, found as it is, of which all is a group. `*` is all there is.
#[derive(Debug)]
struct Literal(Vec<u8>, Find, AtomicU64);

impl Pattern for Literal {
    fn find(&self, text: &[u8], from: usize, groups: &mut Vec<Range<usize>>) -> Option<usize> {
        // Slow ones take a nanosecond for each byte and state.
        let states = if self.0.starts_with(b"slow") { 5000 } else { 0 };
        self.2.fetch_add((text.len() - from) as u64 * states, Ordering::Relaxed);
        let len = if self.0 == b"*" { text.len() } else { self.0.len() };
        let mut all = from..=text.len().checked_sub(len)?;
        let at = all.find(|at| self.0 == b"*" || text[*at..].starts_with(&self.0))?;
        if self.1 == Find::Whole && len != text.len() {
            return None;
        }
        groups.push(at..at + len);
        Some(at + len)
    }

    fn now(&self) -> u64 {
        self.2.load(Ordering::Relaxed)
    }
}

#[test]
fn strings_that_take_too_long_are_given_up_and_after_some_packets_not_looked_at_any_more() {
    let fast = of(&[1 << 3 | 3, 1, 0, 1 << 3 | 4, 2 << 3 | 1, 0], &[rule(1, "x")]).expect("well-formed");
    let slow =
        || of(&[1 << 3 | 3, 1, 0, 1 << 3 | 4, 2 << 3 | 1, 0], &[rule(1, "slow")]).expect("well-formed");
    let packet = |len: usize| ProtoBuilder::new().bytes(1, &vec![b'y'; len]).into_bytes();
    let is_left = |filter: &mut Filtering, len| !filter.apply(&packet(len), None).is_empty();
    let mut fast = Filtering::new(fast);
    assert!(is_left(&mut fast, 128 << 10) && !is_left(&mut fast, (128 << 10) + 1));
    let mut slow = Filtering::new(slow());
    // Each packet has a quarter of a second of its own.
    assert!((0..20).all(|_| is_left(&mut slow, 40_000)));
    assert!((0..4).all(|_| !is_left(&mut slow, 60_000)));
    assert!(!is_left(&mut slow, 1), "there were too many");
    assert!((0..1000).all(|_| slow.apply(b"\x10\x01", None) == b"\x10\x01"), "they have no strings");
    assert!(is_left(&mut slow, 1) && !is_left(&mut slow, 60_000) && !is_left(&mut slow, 1));
    assert_eq!((slow.packets, slow.errors), (1028, 7));
}

fn compile(pattern: &str, find: Find) -> Result<Box<dyn Pattern>, String> {
    if pattern == "(" {
        Err("unclosed".into())
    } else {
        Ok(Box::new(Literal(pattern.into(), find, AtomicU64::new(0))))
    }
}

/// A rule with a policy, for a pattern.
fn rule(policy: u32, pattern: &str) -> ProtoBuilder {
    ProtoBuilder::new().number(rule::POLICY, policy).bytes(rule::REGEX_PATTERN, pattern.as_bytes())
}

fn of(words: &[u32], rules: &[ProtoBuilder]) -> Result<TraceFilter, String> {
    let chain =
        ProtoBuilder::new().each(rules, |chain, rule| chain.message(string_filter_chain::RULES, rule));
    let filter = ProtoBuilder::new()
        .bytes(field::BYTECODE_V2, &encoded(words))
        .message(field::STRING_FILTER_CHAIN, &chain);
    TraceFilter::of(filter.as_bytes(), &mut compile)
}

/// What becomes of strings in field 1 of packets.
fn texts(rules: &[ProtoBuilder], texts: &[&str]) -> Vec<String> {
    let filter = of(&[1 << 3 | 3, 1, 0, 1 << 3 | 4, 0], rules).expect("well-formed");
    let left = texts.iter().map(|text| {
        let packet = ProtoBuilder::new().bytes(1, text.as_bytes());
        let left = filter.left_of(packet.as_bytes(), &mut Work::new(false)).expect("well-formed");
        String::from_utf8_lossy(message(&left, 1).expect("well-formed")).into_owned()
    });
    left.collect()
}

#[test]
fn the_first_rule_that_applies_decides_and_what_is_overwritten_keeps_its_length() {
    assert_eq!(texts(&[rule(1, "secret")], &["secret", "no secret"]), ["P60RED", "no secret"]);
    let long = "0123456789abcd";
    assert_eq!(texts(&[rule(1, long)], &[long]), ["P60REDACTED---"]);
    assert_eq!(texts(&[rule(3, "a"), rule(1, "*")], &["a", "b", ""]), ["a", "P", ""]);
    // Of atrace's alone, and what is behind the process's number.
    let begin = |policy, pattern: &str| rule(policy, pattern).bytes(rule::ATRACE_PAYLOAD_STARTS_WITH, b"app");
    let all = ["B|12|app x", "B|12|ap", "app", "E|12|app", "B|", ""];
    assert_eq!(texts(&[begin(2, "*")], &all), ["P60REDACTE", "B|12|ap", "app", "E|12|app", "B|", ""]);
    assert_eq!(texts(&[begin(4, "*"), rule(1, "*")], &all[..2]), ["B|12|app x", "P60REDA"]);
    assert_eq!(
        texts(&[begin(5, "x"), rule(1, "*")], &["B|1|app x,x", "B|1|app"]),
        ["B|1|app P,P", "P60REDA"]
    );
}

#[test]
fn rules_are_for_kinds_of_strings_and_take_the_place_of_those_of_their_name() {
    let filter = of(
        &[1 << 3 | 3, 1, 0, 1 << 3 | 4, 2 << 3 | 5, 7, 3 << 3 | 5, 200, 0],
        &[rule(1, "*").number(rule::SEMANTIC_TYPE, 7_u32)],
    );
    let packet = ProtoBuilder::new().bytes(1, b"a").bytes(2, b"b").bytes(3, b"c");
    let left =
        filter.expect("well-formed").left_of(packet.as_bytes(), &mut Work::new(false)).expect("well-formed");
    assert_eq!([1, 2, 3].map(|field| message(&left, field)), [Some(&b"a"[..]), Some(b"P"), Some(b"c")]);
    let named = |policy, pattern| rule(policy, pattern).bytes(rule::NAME, b"n");
    assert_eq!(texts(&[named(1, "a"), rule(3, "b"), named(1, "b")], &["a", "b"]), ["a", "P"]);
    // Both kinds, packed.
    let both = rule(1, "*").bytes(rule::SEMANTIC_TYPE, &[0, 7]);
    assert_eq!(texts(&[both], &["a"]), ["P"]);
}

#[test]
fn a_filter_that_is_wrong_is_refused_with_its_reason() {
    let one = [1 << 3 | 3, 1, 0, 1 << 3 | 1, 0];
    let refused = |words: &[u32], rules: &[ProtoBuilder]| of(words, rules).expect_err("it is refused");
    assert_eq!(refused(&[0], &[]), "Failed to set filter root");
    assert_eq!(refused(&[1 << 3 | 1, 0], &[]), "Failed to set filter root", "packets are messages");
    assert_eq!(refused(&[1], &[]), "Trace filter bytecode invalid");
    for policy in [0, 6] {
        assert!(refused(&one, &[rule(policy, "a")]).contains("invalid string filtering rules"));
    }
    assert!(refused(&one, &[rule(1, "(")]).contains("Invalid pattern ("));
    for kind in [128_u64, u64::MAX] {
        assert!(refused(&one, &[rule(1, "a").number(rule::SEMANTIC_TYPE, kind)]).contains("semantic types"));
    }
    assert!(refused(&one, &vec![rule(1, "a"); 257]).contains("256"));
    for filter in [&b"\x0A\x05a"[..], b"\x1A\x01\x0A", b""] {
        assert!(TraceFilter::of(filter, &mut compile).is_err());
    }
}

#[test]
fn of_packets_that_are_malformed_or_nested_without_end_nothing_is_left() {
    // 1 is a message with itself in 2.
    let filter = of(&[1 << 3 | 3, 1, 0, 1 << 3 | 1, 2 << 3 | 3, 1, 3 << 3 | 4, 0], &[rule(1, "*")])
        .expect("well-formed");
    let nested =
        |depth| (0..depth).fold(vec![8, 1], |inner, _| ProtoBuilder::new().bytes(2, &inner).into_bytes());
    assert_eq!(filter.left_of(&nested(DEEPEST - 1), &mut Work::new(false)), Some(nested(DEEPEST - 1)));
    for depth in [DEEPEST, 100_000] {
        assert_eq!(filter.left_of(&nested(depth), &mut Work::new(false)), None);
    }
    for malformed in [&b"\x12\x02\x0A"[..], b"\x12\x01\x08", b"\x12\x02\x0A\x01", b"\x0B", b"\x08"] {
        assert_eq!(filter.left_of(malformed, &mut Work::new(false)), None, "{malformed:x?}");
    }
    // What is left out is not looked at.
    assert_eq!(filter.left_of(b"\x22\x01\x08\x08\x07", &mut Work::new(false)), Some(vec![8, 7]));
    let many = vec![rule(3, "x"); 200];
    let filter = of(&[1 << 3 | 3, 1, 0, 3 << 3 | 4, 0], &many).expect("well-formed");
    let packet = ProtoBuilder::new().bytes(3, &vec![b'a'; 1 << 20]);
    assert_eq!(filter.left_of(packet.as_bytes(), &mut Work::new(false)), None, "it would take too long");
}

struct Random(u64);

impl Random {
    fn below(&mut self, end: u64) -> u64 {
        self.0 = self.0.wrapping_mul(0x5851_F42D_4C95_7F2D).wrapping_add(0x1405_7B7E_F767_814F);
        (self.0 >> 33) % end
    }
}

const MESSAGES: u64 = 4;
const FIELDS: [u32; 8] = [1, 2, 3, 100, 127, 128, 500, 1 << 20];

/// Fields of messages, as a map; and the words that say the same.
fn program(random: &mut Random) -> (BTreeMap<(u32, u32), Kept>, Vec<u32>) {
    let (mut all, mut words) = (BTreeMap::new(), vec![1 << 3 | 3, 1, 0]);
    all.insert((0, 1), Kept::Message(1));
    for message in 1..=MESSAGES as u32 {
        for field in FIELDS {
            let (kept, said) = match random.below(6) {
                0 => (Kept::Field, vec![field << 3 | 1]),
                1 => (Kept::Text(0), vec![field << 3 | 4]),
                2 => (Kept::Text(9), vec![field << 3 | 5, 9]),
                3 => (Kept::Field, vec![field << 3 | 2, 1]),
                4 => {
                    let inner = random.below(MESSAGES + 1) as u32;
                    (Kept::Message(inner), vec![field << 3 | 3, inner])
                }
                _ => continue,
            };
            all.insert((message, field), kept);
            words.extend(said);
        }
        words.push(0);
    }
    (all, words)
}

fn packet(random: &mut Random, depth: u32) -> Vec<u8> {
    let mut bytes = vec![];
    for _ in 0..random.below(6) {
        let field = FIELDS[random.below(8) as usize];
        match random.below(6) {
            0 => put(bytes.varint(field, random.below(1 << 40))),
            1 => put(bytes.fixed64(field, random.below(1 << 40))),
            2 => bytes.extend([tag(field, WireType::Fixed32) as u8 & 7 | 8, 1, 2, 3, 4]),
            3 => put(bytes.bytes(field, &b"a text"[..random.below(7) as usize])),
            _ if depth == 0 => {}
            4 => put(bytes.bytes(field, &packet(random, depth - 1))),
            // With a length in more bytes than it needs, as writers reserve it.
            _ => {
                let inner = packet(random, depth - 1);
                let mut head = [0; varint::MAX_LEN];
                let len = varint::encode(tag(field, WireType::Length).into(), &mut head).expect("room");
                bytes.extend(&head[..len]);
                bytes.extend(varint::encode_redundant(inner.len() as u32).expect("short"));
                bytes.extend(inner);
            }
        }
    }
    bytes
}

/// What is left, one message within the other.
fn model(fields: &BTreeMap<(u32, u32), Kept>, message: u32, packet: &[u8]) -> Option<Vec<u8>> {
    let (mut left, mut all) = (vec![], Fields::of(packet));
    for read in &mut all {
        match (fields.get(&(message, read.number)), read.value) {
            (Some(Kept::Field), FieldValue::Number(value)) => put(left.varint(read.number, value)),
            (Some(Kept::Field), FieldValue::Fixed(_)) => left.extend(read.whole),
            (Some(Kept::Field), FieldValue::Bytes(value)) => put(left.bytes(read.number, value)),
            (Some(Kept::Text(kind)), FieldValue::Bytes(value)) => {
                let text = if *kind == 0 && value == b"a text" { b"P60RED" } else { value };
                put(left.bytes(read.number, text));
            }
            (Some(Kept::Message(inner)), FieldValue::Bytes(value)) => {
                let inner = model(fields, *inner, value)?;
                put(left.length(read.number, 0));
                left.pop();
                let (bytes, mut rest) = (varint::len(value.len() as u64), inner.len());
                for at in 1..=bytes {
                    left.push((rest & 0x7F) as u8 | if at < bytes { 0x80 } else { 0 });
                    rest >>= 7;
                }
                left.extend(inner);
            }
            _ => {}
        }
    }
    all.is_at_end().then_some(left)
}

#[test]
fn whatever_comes_is_filtered_as_a_plain_model_does_it() {
    let (mut random, mut malformed, mut whole) = (Random(7), 0, 0);
    for _ in 0..2000 {
        let (fields, words) = program(&mut random);
        let filter = of(&words, &[rule(1, "a text")]).expect("well-formed");
        let mut bytes = packet(&mut random, 4);
        for _ in 0..10 {
            let expected = model(&fields, 1, &bytes);
            assert_eq!(filter.left_of(&bytes, &mut Work::new(false)), expected, "{bytes:x?} by {fields:?}");
            match expected {
                Some(left) if !left.is_empty() => whole += 1,
                Some(_) => {}
                None => malformed += 1,
            }
            // A bit is another, or the end is missing.
            let len = bytes.len() as u64;
            match random.below(3) {
                0 => bytes.truncate(random.below(len + 1) as usize),
                _ if len > 0 => bytes[random.below(len) as usize] ^= 1 << random.below(8),
                _ => bytes = packet(&mut random, 4),
            }
        }
    }
    assert!(malformed > 1000 && whole > 1000, "{malformed} {whole}");
}
