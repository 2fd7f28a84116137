//! `tracebuf recover` and `tracebuf inspect` of a dump with more than one buffer.

use object::Endianness;

use super::cores::elf;
use super::{hex, recover, region};
use crate::text;
use crate::trace::scratch;

/// Looks at a dump; returns whether there was something, and all that was said.
fn inspect(dump: &[u8], more: &[&str]) -> (bool, String) {
    let path = scratch("recover/several.inspected");
    std::fs::write(&path, dump).expect("a file");
    let run = crate::inspect::inspect(&path, more);
    (run.status.success(), [text(&run.stderr), text(&run.stdout)].concat())
}

#[test]
fn of_several_buffers_the_first_is_taken_the_others_are_told_and_an_address_or_a_symbol_says_which() {
    // A snapshot, followed by what firmware records into: a number, shared memory, the ring.
    let (snapshot, ring) = (region(), [&[0xEE; 80][..], &region()].concat());
    let memory = [&[0xEE; 16], &snapshot[..], &ring].concat();
    let recorded = 0x2000 + 16 + snapshot.len() as u64;
    let at = recorded + 80;
    // Its symbol covers all but the first 16 bytes.
    let core = elf(Endianness::Little, false, recorded - 16, &memory[snapshot.len()..], "TRACE");
    let program = scratch("recover/several.elf");
    std::fs::write(&program, core).expect("a file");
    let dump = hex(0, 0x2000, &memory);
    let (ok, said, _) = recover("several", dump.as_bytes(), &[]);
    assert!(ok && said.contains("buffer at 0x2010: "), "{said}");
    assert!(said.contains(&format!("other buffers at {at:#x}: ")), "{said}");
    let (ok, said) = inspect(dump.as_bytes(), &[]);
    assert!(ok && said.starts_with(&format!("other buffers at {at:#x}: ")), "{said}");
    assert!(said.contains("trace buffer at 0x2010: "), "{said}");
    let symbol = ["--symbol", "TRACE", "--program", program.to_str().expect("a name")];
    let address = format!("{recorded:#x}");
    for place in [&symbol[..], &["--address", &address]] {
        let (ok, said, _) = recover("several", dump.as_bytes(), place);
        assert!(ok && said.contains(&format!("buffer at {at:#x}: ")) && !said.contains("other"), "{said}");
        let (ok, said) = inspect(dump.as_bytes(), place);
        assert!(ok && said.starts_with(&format!("trace buffer at {at:#x}: ")), "{said}");
    }
    let (ok, said) = inspect(dump.as_bytes(), &[&symbol[..], &["--svg", symbol[3]]].concat());
    assert!(!ok && said.ends_with("it is the file that is read\n"), "{said}");
    // What lies after the variable is not part of it.
    let small = elf(Endianness::Little, false, 0x2000 - 16, &[0; 16 + 8], "TRACE");
    std::fs::write(&program, small).expect("a file");
    let (ok, said, _) = recover("several", dump.as_bytes(), &symbol);
    assert!(!ok && said.contains("no trace buffer found"), "{said}");
    let (ok, said) = inspect(dump.as_bytes(), &symbol);
    assert!(!ok && said.ends_with("several.inspected: no trace buffer found\n"), "{said}");
    let many = recover("many", &region().repeat(12), &[]).1;
    assert!(
        many.contains("other buffers at 0x400, 0x800, ") && many.contains("0x2000 and elsewhere: "),
        "{many}"
    );
}
