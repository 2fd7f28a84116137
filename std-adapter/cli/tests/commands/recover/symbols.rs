//! `tracebuf recover` by the name of a variable.

use object::Endianness;

use super::cores::elf_with;
use super::{recover, region};

/// The firmware's own ring as named by either mangling, and another crate's.
const LEGACY: &str = "_ZN17tracebuf_firmware8firmware5TRACE17h0123456789abcdefE";
const V0: &str = "_RNvNtCs1a2b3c_17tracebuf_firmware8firmware5TRACE";
const OTHER: &str = "_ZN4oven5TRACE17hfedcba9876543210E";

/// Runs the command over a core whose buffer has the first of these names, and memory after its start the others.
fn by(symbols: &[&str], name: &str) -> (bool, String) {
    let memory = [&[0xEE; 16], &region()[..]].concat();
    let core = elf_with(symbols, Endianness::Little, false, 0x2000_0000, &memory);
    let (ok, said, _) = recover(&format!("symbols-{}", symbols.len()), &core, &["--symbol", name]);
    (ok, said)
}

#[test]
fn a_static_of_rust_is_found_by_its_path_or_the_end_of_it() {
    for symbol in [LEGACY, V0] {
        for name in [symbol, "tracebuf_firmware::firmware::TRACE", "firmware::TRACE", "TRACE"] {
            let (ok, said) = by(&[symbol], name);
            assert!(ok && said.contains("buffer at 0x20000010: "), "{name}: {said}");
        }
        for name in ["RACE", "ware::TRACE", "trace", "firmware"] {
            let (ok, said) = by(&[symbol], name);
            let near =
                format!("no symbol {name}, but has tracebuf_firmware::firmware::TRACE at 0x20000010\n");
            assert!(!ok && said.contains(&near), "{said}");
        }
        let (ok, said) = by(&[symbol], "SNAPSHOT");
        assert!(!ok && said.contains("the dump has no symbol SNAPSHOT\n"), "{said}");
    }
}

#[test]
fn of_several_variables_the_one_of_just_this_name_is_meant_and_else_none() {
    let (ok, said) = by(&["TRACE", LEGACY, OTHER], "TRACE");
    assert!(ok, "{said}");
    let (ok, said) = by(&["_ZN5TRACE17h0123456789abcdefE", LEGACY], "TRACE");
    assert!(ok, "{said}");
    let (ok, said) = by(&[LEGACY, OTHER], "TRACE");
    let both =
        "TRACE may be each of tracebuf_firmware::firmware::TRACE at 0x20000010, oven::TRACE at 0x20000018: ";
    assert!(!ok && said.contains(both), "{said}");
    assert!(by(&[LEGACY, OTHER], "firmware::TRACE").0);
    // Of many, the first are listed.
    let names =
        ["a", "b", "c", "d", "e", "f", "g"].map(|part| format!("_ZN1{part}4RING17h0123456789abcdefE"));
    let (ok, said) = by(&names.each_ref().map(String::as_str), "RING");
    assert!(!ok && said.contains("e::RING at 0x20000030 and 2 more: "), "{said}");
    // Of several that are near, the nearest.
    let (ok, said) = by(&[OTHER, LEGACY], "firm");
    assert!(!ok && said.contains("no symbol firm, but has tracebuf_firmware::"), "{said}");
    let (ok, said) = by(&["firmware_trace_of_the_start_before", LEGACY, OTHER], "trac");
    assert!(!ok && said.contains("no symbol trac, but has oven::TRACE at 0x20000020, tracebuf"), "{said}");
}
