//! `tracebuf recover`, from every kind of dump.

use std::path::PathBuf;
use std::process::Command;

use ihex::{Record, create_object_file_representation};
use tracebuf::buffer::{Chunk, ChunkHeader, Config, FillPolicy, TraceBuffer};

/// A packet with a timestamp of 5.
const PACKET: &[u8] = &[2, 0x40, 5];

fn region() -> Vec<u8> {
    let config = Config::new(FillPolicy::RingBuffer).sequences(4).crc(true);
    let mut buffer = TraceBuffer::new(vec![0u8; 1024], config).expect("room");
    for chunk_id in 0..3 {
        let header = ChunkHeader {
            producer_id: 1,
            writer_id: 1,
            chunk_id,
            fragments: 1,
            complete: true,
            ..ChunkHeader::default()
        };
        buffer.copy_chunk_untrusted(&Chunk { header, payload: PACKET });
    }
    buffer.into_memory()
}

/// Runs the command over a dump: whether it succeeded, what it said, and the trace.
fn recover(name: &str, dump: &[u8], more: &[&str]) -> (bool, String, Vec<u8>) {
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR"));
    let (input, output) = (folder.join(format!("{name}.dump")), folder.join(format!("{name}.pftrace")));
    std::fs::write(&input, dump).expect("a file");
    let run = Command::new(env!("CARGO_BIN_EXE_tracebuf"))
        .arg("recover")
        .arg(&input)
        .arg("-o")
        .arg(&output)
        .args(more)
        .output()
        .expect("the command runs");
    let said = String::from_utf8_lossy(&run.stderr).into_owned();
    (run.status.success(), said, std::fs::read(&output).unwrap_or_default())
}

#[test]
fn a_raw_dump_is_searched_for_the_buffer() {
    let mut dump = b"something else TBUF and more, of 42 bytes.".to_vec();
    dump.extend(region());
    let (ok, said, trace) = recover("raw", &dump, &[]);
    assert!(ok, "{said}");
    assert!(said.contains("3 chunks of 1 sequences kept") && said.contains("3 packets"), "{said}");
    assert_eq!(trace.windows(2).filter(|bytes| bytes == &[0x40, 5]).count(), 3);
}

#[test]
fn intel_hex_has_addresses() {
    let mut records = vec![Record::ExtendedLinearAddress(0x2000)];
    for (index, bytes) in region().chunks(32).enumerate() {
        records.push(Record::Data { offset: 0x100 + 32 * index as u16, value: bytes.to_vec() });
    }
    records.push(Record::EndOfFile);
    let text = create_object_file_representation(&records).expect("text");
    let (ok, said, _) = recover("hex", text.as_bytes(), &["--address", "0x20000100"]);
    assert!(ok && said.contains("buffer at 0x20000100"), "{said}");
    let (ok, said, _) = recover("hex-wrong", text.as_bytes(), &["--address", "0x30000000"]);
    assert!(!ok && said.contains("nothing at address 0x30000000"), "{said}");
}

#[test]
fn damage_is_told_and_a_dump_without_a_buffer_is_an_error() {
    let mut dump = region();
    let at = dump.len() - 100;
    let start = 256 + 4 * 48;
    assert!(at > start);
    dump[start + 25] ^= 4;
    let (ok, said, _) = recover("damaged", &dump, &[]);
    assert!(
        ok && said.contains("1 chunks dropped for their checksum") && said.contains("2 packets"),
        "{said}"
    );
    let (ok, said, _) = recover("nothing", &[0; 999], &[]);
    assert!(!ok && said.contains("no trace buffer found"), "{said}");
}
