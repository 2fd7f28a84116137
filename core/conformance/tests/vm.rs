//! Programs that keep a state: the vectors, and random ones against a plain machine.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::Read;
use std::path::Path;

use tracebuf_conformance::random::cases::{count, first_seed};
use tracebuf_conformance::random::rng::Rng;
use tracebuf_conformance::vm::compare::compare;
use tracebuf_conformance::vm::generate::case;
use tracebuf_conformance::vm::vector::{Vector, hex};

/// The vectors: what Perfetto's machine made of them, but for its faults.
fn vectors() -> Vec<Vector> {
    let packed = Path::new(env!("CARGO_MANIFEST_DIR")).join("data/protovm/vectors.tar.zst");
    let packed = File::open(packed).expect("the archive");
    let decoder = ruzstd::decoding::StreamingDecoder::new(packed).expect("a zstd frame");
    let mut archive = tar::Archive::new(decoder);
    let entries = archive.entries().expect("a tar archive");
    let vector = |entry: std::io::Result<tar::Entry<'_, _>>| {
        let mut text = String::new();
        entry.expect("a file").read_to_string(&mut text).expect("text");
        Vector::parse(&text).unwrap_or_else(|why| panic!("{why}\n{text}"))
    };
    entries.map(vector).collect()
}

/// A value on the wire; bytes as a message if they are one.
#[derive(Debug, PartialEq)]
enum Value {
    Scalar(u8, u64),
    Bytes(Vec<u8>),
    Message(Fields),
}

/// For each number the values in order: their order between numbers does not count.
type Fields = BTreeMap<u64, Vec<Value>>;

fn canonical(bytes: &[u8]) -> Option<Fields> {
    let mut found = Fields::new();
    let mut rest = bytes;
    while !rest.is_empty() {
        let tag = varint(&mut rest)?;
        let value = match tag & 7 {
            0 => Value::Scalar(0, varint(&mut rest)?),
            1 => Value::Scalar(1, u64::from_le_bytes(*rest.split_off(..8)?.first_chunk()?)),
            5 => Value::Scalar(5, u32::from_le_bytes(*rest.split_off(..4)?.first_chunk()?).into()),
            2 => {
                let len = varint(&mut rest)? as usize;
                let bytes = rest.split_off(..len)?;
                canonical(bytes).map_or_else(|| Value::Bytes(bytes.to_vec()), Value::Message)
            }
            _ => return None,
        };
        found.entry(tag >> 3).or_default().push(value);
    }
    (!found.contains_key(&0)).then_some(found)
}

fn varint(rest: &mut &[u8]) -> Option<u64> {
    let (value, len) = tracebuf::proto::varint::decode(rest)?;
    *rest = &rest[len..];
    Some(value)
}

#[test]
fn every_vector_comes_out_as_it_must() {
    let vectors = vectors();
    assert_eq!(vectors.len(), 60);
    for vector in vectors {
        for (index, (case, (status, state))) in vector.cases.iter().zip(vector.run()).enumerate() {
            let name = &vector.name;
            assert_eq!(status, case.status, "{name}, patch {index}");
            let is_same = canonical(&state) == canonical(&case.state) && canonical(&state).is_some();
            let texts = (hex(&state), hex(&case.state));
            assert!(is_same || state == case.state, "{name}, patch {index}: {texts:?}");
        }
    }
}

#[test]
fn random_programs_do_what_the_model_does() {
    let mut taken = 0;
    for seed in first_seed()..first_seed() + count(4000) {
        let case = case(&mut Rng::new(seed));
        let run = std::panic::catch_unwind(|| compare(&case));
        taken += run.unwrap_or_else(|_| panic!("seed {seed}"));
    }
    println!("{taken} patches were taken");
    assert!(taken as u64 >= count(4000) || cfg!(miri));
}
