//! `tracebuf recover`, from every kind of dump.

use std::time::{Duration, Instant};

use ihex::{Record, create_object_file_representation};
use tracebuf::buffer::{Chunk, ChunkHeader, Config, FillPolicy, TraceBuffer};
use tracebuf_analysis::recover::{Dump, Place};

use crate::trace::scratch;
use crate::tracebuf;

#[cfg(unix)]
pub(super) mod cores;
mod full;
mod in_place;
mod killed_start;
#[cfg(target_os = "linux")]
mod large;
mod linked;
mod lost;
mod packed;
mod several;
mod shared;
mod span;
mod symbols;

/// A packet with a timestamp of 5.
const PACKET: &[u8] = &[2, 0x40, 5];

pub(super) fn region() -> Vec<u8> {
    let config = Config::new(FillPolicy::RingBuffer).sequences(4).crc(true);
    let mut buffer = TraceBuffer::new(vec![0u8; 1024], config).expect("room");
    for chunk_id in 0..3 {
        let header =
            ChunkHeader { producer_id: 1, writer_id: 1, chunk_id, fragments: 1, ..ChunkHeader::default() };
        buffer.copy_chunk_untrusted(&Chunk { header, payload: PACKET });
    }
    buffer.into_memory()
}

/// Searches a dump without a buffer, which must not take much longer than reading it.
fn assert_nothing_found_soon(dump: &[u8]) {
    let start = Instant::now();
    assert!(Dump::parse(dump).expect("a dump").find(Place::Anywhere).is_err());
    assert!(start.elapsed() < Duration::from_secs(5), "{:?}", start.elapsed());
}

/// Runs the command over a dump; returns whether nothing is missing, what it said, and the trace.
fn recover(name: &str, dump: &[u8], more: &[&str]) -> (bool, String, Vec<u8>) {
    let [input, output] = ["dump", "pftrace"].map(|kind| scratch(&format!("recover/{name}.{kind}")));
    std::fs::write(&input, dump).expect("a file");
    let run = tracebuf(&["recover"])
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
    assert!(said.contains("3 chunks of 1 sequence kept") && said.contains("3 packets"), "{said}");
    assert_eq!(trace.windows(2).filter(|bytes| bytes == &[0x40, 5]).count(), 3);
}

/// Memory as Intel HEX, at an address whose upper half is `upper`.
pub(super) fn hex(upper: u16, lower: u16, memory: &[u8]) -> String {
    let mut records = vec![Record::ExtendedLinearAddress(upper)];
    for (index, bytes) in memory.chunks(32).enumerate() {
        records.push(Record::Data { offset: lower + 32 * index as u16, value: bytes.to_vec() });
    }
    records.push(Record::EndOfFile);
    create_object_file_representation(&records).expect("text")
}

#[test]
fn intel_hex_has_addresses() {
    let text = hex(0x2000, 0x100, &region());
    let (ok, said, _) = recover("hex", text.as_bytes(), &["--address", "0x20000100"]);
    assert!(ok && said.contains("buffer at 0x20000100"), "{said}");
    let (ok, said, _) = recover("raw-wrong", &region(), &["--address", "0x20000100"]);
    let why =
        "the dump is raw, 1024 bytes without addresses: nothing is at offset 0x20000100 from its start\n";
    assert!(!ok && said.ends_with(why), "{said}");
    let (ok, said, _) = recover("hex-wrong", text.as_bytes(), &["--address", "0x30000000"]);
    assert!(!ok && said.contains("nothing at address 0x30000000"), "{said}");
}

#[test]
fn records_of_intel_hex_may_come_in_any_order_and_again() {
    let data = |index: usize, bytes: &[u8]| Record::Data { offset: 32 * index as u16, value: bytes.to_vec() };
    let region = region();
    let mut records: Vec<_> = region.chunks(32).enumerate().map(|(at, bytes)| data(at, bytes)).collect();
    let text_of = |records: &[Record]| {
        let records = [records, &[Record::EndOfFile]].concat();
        create_object_file_representation(&records).expect("text")
    };
    let found = |records: &[Record]| {
        let text = text_of(records);
        let found = Dump::parse(text.as_bytes()).expect("a dump").find(Place::Anywhere).expect("a buffer");
        assert_eq!((found.address, found.salvage.chunks_kept), (0, 3));
        found.salvage.is_clean()
    };
    assert!(found(&records));
    // Twice, with a part of the first record again.
    let twice = [&records[..], &records, &[data(0, &region[..4])]].concat();
    assert!(found(&twice));
    records.reverse();
    assert!(found(&records));
    // What is written last is in memory.
    records.insert(0, data(0, &[0xAA; 64]));
    assert!(found(&records));
}

#[test]
fn damage_is_told_and_a_dump_without_a_buffer_is_an_error() {
    let mut dump = region();
    let at = dump.len() - 100;
    let start = 256 + 4 * 48;
    assert!(at > start);
    dump[start + 25] ^= 4;
    let (ok, said, _) = recover("damaged", &dump, &[]);
    assert!(!ok && said.contains("1 chunk dropped for its checksum") && said.contains("2 packets"), "{said}");
    let (ok, said, _) = recover("nothing", &[0; 999], &[]);
    assert!(!ok && said.contains("no trace buffer found"), "{said}");
    // Code that looks for a buffer contains the letters, with something else after them.
    for behind in [*b"\x4C\x89\xE7\xE8", *b"\x04\0\0\0"] {
        let code = [&[0x90; 64][..], b"TBUF", &behind, &[0x90; 4096]].concat();
        let (ok, said, _) = recover("letters", &code, &[]);
        assert!(!ok && said.contains("no trace buffer found"), "{said}");
    }
    let mut newer = region();
    newer[4] += 1;
    let (ok, said, _) = recover("newer", &newer, &[]);
    assert!(!ok && said.contains(&format!("unknown layout version {}", newer[4])), "{said}");
}

#[test]
fn a_dump_that_ends_before_the_ring_does_says_how_much_is_missing_wherever_it_ends() {
    // A table of four, and three chunks of 32 bytes: the payload of three is followed by a checksum.
    let (region, start) = (region(), 256 + 4 * 48);
    for cut in 0..=130 {
        let dump = Dump::parse(&region[..start + cut]).expect("a dump");
        let salvage = dump.find(Place::Anywhere).expect("its header is whole").salvage;
        let kept = (cut / 32).min(3);
        let missing = (3 - kept as u64) * 32;
        assert_eq!((salvage.chunks_kept, salvage.bytes_unreadable), (kept as u32, missing), "{cut}");
    }
    let (ok, said, _) = recover("cut-off", &region[..start + 64], &[]);
    assert!(!ok && said.contains("2 chunks of 1 sequence kept, 32 bytes unreadable"), "{said}");
}

#[test]
fn a_dump_full_of_what_starts_like_a_buffer_is_searched_in_no_time() {
    assert_nothing_found_soon(&b"TBUF".repeat(1 << 19));
    // Sound headers, of buffers whose tables are longer than the dump.
    let config = Config::new(FillPolicy::RingBuffer).sequences(u16::MAX).histograms(true);
    let buffer = TraceBuffer::new(vec![0u8; config.region_size(1024) as usize], config).expect("room");
    let region = buffer.into_memory();
    let dump = region[..256].repeat(30_000);
    assert!(dump.len() < config.region_size(0) as usize);
    assert_nothing_found_soon(&dump);
}

#[cfg(target_os = "linux")]
#[test]
fn a_trace_that_the_rest_is_put_behind_may_be_larger_than_memory() {
    use std::os::unix::fs::FileExt;
    use tracebuf_session::{BufferConfig, Session};

    let names = ["region", "long.pftrace", "both.pftrace"];
    let [region, trace, both] = names.map(|name| scratch(&format!("recover/larger.{name}")));
    let _ = std::fs::remove_file(&region);
    let buffer = BufferConfig::ring(256 << 10).in_file(&region);
    let session = Session::builder().buffer(buffer).start().expect("a session");
    session.recorder().instant("the last thing that happened");
    drop(session);
    // Its first packet, which shows that it is this session's, and some of 32 MiB, most of which take up no room on the
    // disk.
    let bytes = std::fs::read(&region).expect("a file");
    let first = &bytes[264..264 + usize::from(bytes[256])];
    let head = [0x0A, 0x80, 0x80, 0x80, 0x10];
    let (start, size, count) = (first.len() as u64, head.len() as u64 + (32 << 20), 4);
    let file = std::fs::File::create(&trace).expect("a file");
    file.write_all_at(first, 0).expect("room");
    (0..count).for_each(|n| file.write_all_at(&head, start + n * size).expect("room"));
    file.set_len(start + count * size - 1).expect("room");
    let output = std::process::Command::new("sh")
        .args(["-c", "ulimit -v 110000; exec \"$0\" \"$@\"", env!("CARGO_BIN_EXE_tracebuf"), "recover"])
        .args([region.as_os_str(), "-o".as_ref(), both.as_ref(), "--with".as_ref(), trace.as_ref()])
        .output()
        .expect("sh");
    let written = std::fs::metadata(&both).map_or(0, |file| file.len());
    let _ = [&trace, &both].map(std::fs::remove_file);
    // The last packet is cut short.
    let said = crate::text(&output.stderr);
    let cut = format!(
        "larger.long.pftrace: {} bytes from offset {} on are unreadable",
        size - 1,
        start + (count - 1) * size
    );
    assert!(output.status.code() == Some(3) && said.contains(&cut), "{said}");
    let whole = (count - 1) * size;
    assert!(written > whole && written < whole + (1 << 20), "{written}");
}
