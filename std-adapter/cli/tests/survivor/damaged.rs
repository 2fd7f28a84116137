//! Buffers' files that are cut short, or no longer say which of their parts count.

use std::fs;

use tracebuf_analysis::recover::{Damage, Dump, Survivor};

use super::appended::{Left, VALUES, recover, run};
use super::values;
use crate::trace::{Trace, folder};

#[test]
fn a_buffer_s_file_that_is_cut_or_damaged_is_not_taken_for_a_dump_without_saying_so() {
    let folder = folder("damaged file");
    let left = Left::in_folder(&folder);
    let [region, trace, out] = ["cut.region", "x.pftrace", "out.pftrace"].map(|name| folder.join(name));
    fs::write(&trace, &left.slots[0].bytes).expect("a file");
    let number = |at: usize| u64::from_le_bytes(left.file[at..at + 8].try_into().expect("eight")) as usize;
    let half = number(16).next_multiple_of(4096);
    let active = 4096 + half * (number(48) & 1);
    let with = |at: usize, value: u8| {
        let mut file = left.file.clone();
        file[at] = value;
        file
    };
    let [cut, before] = ["cut short: what was on its way", "cut short: the half that counts is not in it"];
    let (version, page) = ("of version 9, or its first page is damaged: ", "damaged in its first page: ");
    // Within the last slot, and within the ring. The file begins with the halves.
    for (file, damage, said) in [
        (left.file[..4096 + 2 * half + 100].to_vec(), Damage::Cut, cut),
        (left.file[..active + half / 2].to_vec(), Damage::Cut, cut),
        (left.file[..active].to_vec(), Damage::CutBefore, before),
        (left.file[..1000].to_vec(), Damage::CutBefore, before),
        (with(8, 9), Damage::Version(9), version),
        // Halves, slots, and which of them are valid.
        (with(24, 3), Damage::FirstPage, page),
        (with(24, 0), Damage::FirstPage, page),
        (with(32, 3), Damage::FirstPage, page),
        (with(48, 0xFF), Damage::FirstPage, page),
    ] {
        fs::write(&region, &file).expect("a file");
        for error in [Survivor::open(&region), Survivor::parse(&file)].map(|left| left.expect_err("an error"))
        {
            assert_eq!(
                (error.kind(), error.to_string()),
                (std::io::ErrorKind::InvalidData, damage.to_string())
            );
        }
        assert_eq!(Dump::parse(&file).expect("a dump").damage(), Some(damage));
        let _ = fs::remove_file(&out);
        let (code, told) = run(&["recover".as_ref(), &region, "-o".as_ref(), &out]);
        assert!(told.starts_with(&format!("{}: the file of a buffer is {said}", region.display())), "{told}");
        assert_eq!(code, Some(if out.exists() { 3 } else { 1 }), "{told}");
        // What lies before the cut is what counts.
        assert!(damage != Damage::Cut || !values(&Trace::read(&out)).is_empty(), "{told}");
        if damage == Damage::Cut || damage == Damage::Version(9) {
            let (_, shown) = run(&["inspect".as_ref(), &region]);
            assert!(shown.contains(said), "{shown}");
        }
        for how in ["--after", "--with"] {
            let (code, told) = recover(&region, how, &trace, &out);
            assert!(
                code == Some(1) && told.contains(said) && told.contains("need a whole file of a buffer"),
                "{told}"
            );
        }
    }
    // Nor is a file whose buffer is damaged said to be none.
    fs::write(&region, with(active, 0)).expect("a file");
    let (code, told) = recover(&region, "--with", &trace, &out);
    assert!(
        code == Some(1) && !told.contains("it is no file") && told.contains("--with need a whole"),
        "{told}"
    );
}

#[test]
fn without_clocks_in_the_buffer_s_file_no_trace_is_taken_for_its_session_s() {
    let folder = folder("no clocks");
    let left = Left::in_folder(&folder);
    let [region, trace, out] = ["x.region", "x.pftrace", "out.pftrace"].map(|name| folder.join(name));
    fs::write(&trace, &left.slots[0].bytes).expect("a file");
    // The clocks' length: none, or less than it is; and their tag.
    for (at, value) in [(256, 0), (256, 7), (264, 0x1A)] {
        let mut file = left.file.clone();
        file[at] = value;
        fs::write(&region, &file).expect("a file");
        for how in ["--after", "--with"] {
            let (code, said) = recover(&region, how, &trace, &out);
            let why = "x.pftrace: whether it is the session's is not known: the buffer's file has no readable clocks";
            assert!(code == Some(1) && said.contains(why) && !out.exists(), "{said}");
        }
    }
    // Alone it can be recovered.
    let (code, said) = run(&["recover".as_ref(), &region, "-o".as_ref(), &out]);
    assert_eq!((code, values(&Trace::read(&out)).len()), (Some(3), VALUES as usize), "{said}");
}
