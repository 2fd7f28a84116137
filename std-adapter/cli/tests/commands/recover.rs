//! `tracebuf recover`, from every kind of dump.

use std::time::{Duration, Instant};

use ihex::{Record, create_object_file_representation};
use object::Endianness;
use object::elf::{EM_NONE, ET_CORE, PF_R, PT_LOAD, STB_GLOBAL, STT_OBJECT};
use object::write::elf::{FileHeader, ProgramHeader, Sym, Writer};
use tracebuf::buffer::{Chunk, ChunkHeader, Config, FillPolicy, TraceBuffer};
use tracebuf_analysis::recover::{Dump, Place};

use crate::trace::scratch;
use crate::tracebuf;

#[cfg(unix)]
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

const CORE: FileHeader =
    FileHeader { os_abi: 0, abi_version: 0, e_type: ET_CORE, e_machine: EM_NONE, e_entry: 0, e_flags: 0 };

fn segment(address: u64, offset: u64, size: u64) -> ProgramHeader {
    ProgramHeader {
        p_type: PT_LOAD,
        p_flags: PF_R,
        p_offset: offset,
        p_vaddr: address,
        p_paddr: address,
        p_filesz: size,
        p_memsz: size,
        p_align: 8,
    }
}

/// An ELF core of segments of 64 bits, and `memory` after their headers.
fn segments(segments: &[ProgramHeader], memory: &[u8]) -> Vec<u8> {
    let mut file = Vec::new();
    let mut writer = Writer::new(Endianness::Little, true, &mut file);
    writer.reserve_file_header();
    writer.reserve_program_headers(segments.len() as u32);
    writer.reserve(memory.len(), 8);
    writer.write_file_header(&CORE).expect("room in memory");
    writer.write_align_program_headers();
    segments.iter().for_each(|segment| writer.write_program_header(segment));
    writer.write_align(8);
    writer.write(memory);
    file
}

/// An ELF core of one piece of memory at `address`, with `symbol` for a variable there.
pub(super) fn elf(endian: Endianness, is_64: bool, address: u64, memory: &[u8], symbol: &str) -> Vec<u8> {
    elf_with(&[symbol], endian, is_64, address, memory)
}

/// The same with several variables, 8 bytes from one to the next.
fn elf_with(symbols: &[&str], endian: Endianness, is_64: bool, address: u64, memory: &[u8]) -> Vec<u8> {
    let mut file = Vec::new();
    let mut writer = Writer::new(endian, is_64, &mut file);
    writer.reserve_file_header();
    writer.reserve_program_headers(1);
    let offset = writer.reserve(memory.len(), 8);
    writer.reserve_null_section_index();
    let names: Vec<_> = symbols.iter().map(|symbol| writer.add_string(symbol.as_bytes())).collect();
    writer.reserve_null_symbol_index();
    for _ in symbols {
        writer.reserve_symbol_index(None);
    }
    writer.reserve_symtab_section_index();
    writer.reserve_symtab();
    writer.reserve_strtab_section_index();
    writer.reserve_strtab();
    writer.reserve_shstrtab_section_index();
    writer.reserve_shstrtab();
    writer.reserve_section_headers();

    writer.write_file_header(&CORE).expect("room in memory");
    writer.write_align_program_headers();
    let size = memory.len() as u64;
    writer.write_program_header(&segment(address, offset as u64, size));
    writer.write_align(8);
    writer.write(memory);
    writer.write_null_symbol();
    let variable = |(name, at)| Sym {
        name: Some(name),
        section: None,
        st_info: STB_GLOBAL << 4 | STT_OBJECT,
        st_other: 0,
        st_shndx: object::elf::SHN_ABS,
        st_value: address + at,
        st_size: size - 16,
    };
    names.into_iter().zip((16..).step_by(8)).for_each(|symbol| writer.write_symbol(&variable(symbol)));
    writer.write_strtab();
    writer.write_shstrtab();
    writer.write_null_section_header();
    writer.write_symtab_section_header(1);
    writer.write_strtab_section_header();
    writer.write_shstrtab_section_header();
    file
}

#[test]
fn elf_cores_of_either_endianness_and_pointer_size_have_addresses_and_symbols() {
    let mut memory = vec![0xEE; 16];
    memory.extend(region());
    for (name, endian, is_64, address) in [
        ("elf-32-little", Endianness::Little, false, 0x2000_0000),
        ("elf-32-big", Endianness::Big, false, 0x4000_0000),
        ("elf-64-little", Endianness::Little, true, 0x7FFF_0000_1000),
        ("elf-64-big", Endianness::Big, true, 0xFFFF_8000_0000_1000),
    ] {
        let core = elf(endian, is_64, address, &memory, "TRACE");
        let at = format!("{:#x}", address + 16);
        for place in [&[][..], &["--symbol", "TRACE"], &["--address", &at]] {
            let (ok, said, trace) = recover(name, &core, place);
            assert!(ok && said.contains(&format!("buffer at {at}")) && said.contains("3 packets"), "{said}");
            assert_eq!(trace.windows(2).filter(|bytes| bytes == &[0x40, 5]).count(), 3);
        }
        let (ok, said, _) = recover(name, &core, &["--symbol", "OTHER"]);
        assert!(!ok && said.contains("OTHER"), "{said}");
        let (ok, said, _) = recover(name, &core, &["--address", "0x10"]);
        assert!(!ok && said.contains("0x10"), "{said}");
    }
}

#[test]
fn segments_may_come_in_any_order() {
    let memory = region();
    let (headers, size) = (64 + 2 * 56, memory.len() as u64);
    // The chunks follow the header and the table.
    let cut = 256 + 4 * 48;
    let halves = [segment(0x2000 + cut, headers + cut, size - cut), segment(0x2000, headers, cut)];
    let core = segments(&halves, &memory);
    let core = Dump::parse(&core).expect("a core");
    let found = core.find(Place::Anywhere).expect("a buffer");
    assert_eq!((found.address, found.salvage.chunks_kept), (0x2000, 3));
}

#[test]
fn a_region_is_where_the_search_found_it_and_else_at_the_next_boundary() {
    let region = region();
    let odd = [&[0xEE; 4][..], &region].concat();
    let even = [&[0xEE; 8][..], &region].concat();
    for (dump, address, found) in [(&odd, "", 4), (&odd, "4", 4), (&even, "8", 8), (&even, "3", 8)] {
        let place = if address.is_empty() { &[][..] } else { &["--address", address] };
        let (ok, said, _) = recover("odd", dump, place);
        assert!(ok && said.contains(&format!("buffer at {found:#x}: ")), "{said}");
    }
    // The address asked for, in a dump that begins after it or ends before it.
    let core = segments(&[segment(0x2000, 64 + 56, region.len() as u64)], &region);
    let core = Dump::parse(&core).expect("a core");
    assert_eq!(core.find(Place::Address(0x1FFB)).expect("a buffer").address, 0x2000);
    for (address, why) in
        [(0x1FF3, "the dump has nothing at address 0x1ff3"), (0x2001, "no trace buffer found")]
    {
        assert_eq!(core.find(Place::Address(address)).expect_err("none").to_string(), why);
    }
    let end = Dump::parse(&even).expect("a dump").find(Place::Address(even.len() as u64 - 3));
    assert_eq!(end.expect_err("none").to_string(), "no trace buffer found");
}

#[test]
fn segments_that_are_more_than_the_file_are_malformed() {
    let memory = region();
    // The headers, followed by all of it.
    let (headers, size) = (64 + 2 * 56, memory.len() as u64);
    let core = |half| {
        let parts = [segment(0x2000, headers, half), segment(0x2000 + half, headers + half, size - half)];
        segments(&parts, &memory)
    };
    let found = Dump::parse(&core(512)).expect("a core").find(Place::Anywhere).expect("a buffer");
    assert!(found.address == 0x2000 && found.salvage.is_clean());
    let headers = 64 + 1000 * 56;
    let overlapping: Vec<_> = (0..1000).map(|n| segment(n << 32, 0, headers + size)).collect();
    let said = Dump::parse(&segments(&overlapping, &memory)).map(|_| ()).expect_err("no core").to_string();
    assert_eq!(said, "the dump cannot be read: its segments take more than there is");
}

#[test]
fn symbols_whose_names_are_more_than_the_file_are_malformed() {
    let name = "N".repeat(10_000);
    for (symbols, ok) in [(2, true), (1000, false)] {
        let core = elf_with(&vec![&name[..]; symbols], Endianness::Little, true, 0x2000, &[0; 20_000]);
        let said = Dump::parse(&core).map(|_| ()).map_err(|error| error.to_string());
        let too_long = "the dump cannot be read: its symbols' names take more than there is";
        assert_eq!(said, if ok { Ok(()) } else { Err(too_long.to_owned()) });
    }
}

#[test]
fn nothing_is_found_behind_the_last_address() {
    let mut memory = b"..TBUF..".to_vec();
    memory.extend(region());
    let core = segments(&[segment(u64::MAX, 64 + 56, memory.len() as u64)], &memory);
    let (ok, said, _) = recover("last-address", &core, &[]);
    assert!(!ok && said.contains("no trace buffer found"), "{said}");
}

#[test]
fn symbols_of_the_program_serve_a_dump_that_has_none() {
    let program = scratch("recover/program.elf");
    std::fs::write(&program, elf(Endianness::Little, false, 0xF0, &[0; 64], "TRACE")).expect("a file");
    let mut dump = vec![0xEE; 0x100];
    dump.extend(region());
    let (ok, said, _) =
        recover("program", &dump, &["--symbol", "TRACE", "--program", program.to_str().expect("a name")]);
    assert!(ok && said.contains("buffer at 0x100") && said.contains("3 packets"), "{said}");
    std::fs::write(&program, "no program").expect("a file");
    let program = program.to_str().expect("a name");
    let (ok, said, _) = recover("program", &dump, &["--symbol", "TRACE", "--program", program]);
    assert!(!ok && said.starts_with(&format!("error: {program}: no program can be read: ")), "{said}");
}

#[test]
fn a_core_cut_off_or_damaged_anywhere_is_an_answer() {
    let core = elf(Endianness::Little, false, 0x2000_0000, &region(), "TRACE");
    for cut in (0..core.len()).step_by(7) {
        let _ = Dump::parse(&core[..cut]).map(|dump| dump.find(Place::Anywhere).is_ok());
    }
    for at in 0..core.len().min(400) {
        let mut damaged = core.clone();
        damaged[at] ^= 0xFF;
        let _ = Dump::parse(&damaged).map(|dump| dump.find(Place::Anywhere).is_ok());
    }
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
