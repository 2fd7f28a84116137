//! Dumps in ELF: their segments and symbols, and where a region may lie in them.

use object::Endianness;
use object::elf::{EM_NONE, ET_CORE, PF_R, PT_LOAD, STB_GLOBAL, STT_OBJECT};
use object::write::elf::{FileHeader, ProgramHeader, Sym, Writer};
use tracebuf_analysis::recover::{Dump, Place};

use super::{recover, region};
use crate::trace::scratch;

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
pub(in super::super) fn elf(
    endian: Endianness,
    is_64: bool,
    address: u64,
    memory: &[u8],
    symbol: &str,
) -> Vec<u8> {
    elf_with(&[symbol], endian, is_64, address, memory)
}

/// The same with several variables, 8 bytes from one to the next.
pub(super) fn elf_with(
    symbols: &[&str],
    endian: Endianness,
    is_64: bool,
    address: u64,
    memory: &[u8],
) -> Vec<u8> {
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
