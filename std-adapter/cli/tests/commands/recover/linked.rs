//! Names that are only in the program's file, for dumps and for what a device sends.

use object::Endianness;
use tracebuf::inplace::{LINKED_NAMES, Name, Recorder, Region, Sender, Writer};
use tracebuf_analysis::Trace;

use super::cores::elf_with;
use super::recover;
use crate::trace::scratch;
use crate::{text, tracebuf};

/// What is at an address of the section, in a build.
#[derive(Clone, Copy)]
struct At<const OF: u32 = BUILD>(u32);

impl<const OF: u32> Name for At<OF> {
    fn address(self) -> usize {
        0
    }

    fn known_len(self) -> Option<usize> {
        None
    }

    fn text(self) -> &'static str {
        "not asked for"
    }

    fn number(self) -> Option<u32> {
        Some(LINKED_NAMES.start() + self.0)
    }

    fn build() -> u32 {
        OF
    }
}

/// Where `elf_with` puts the third symbol.
const BUILD: u32 = 32;
const MARK: &str = "__stop_tracebuf_build";

/// Where `elf_with` puts the first two symbols.
const MOTOR: At = At(16);
const LEVEL: At = At(24);

fn program(name: &str, symbols: &[&str], address: u64) -> String {
    let path = scratch(&format!("recover/{name}.elf"));
    std::fs::write(&path, elf_with(symbols, Endianness::Little, false, address, &[0; 64])).expect("a file");
    path.to_str().expect("a name").to_owned()
}

/// A device's memory and what it sends: a slice and an instant of the table between linked names.
fn recorded() -> (Vec<u8>, Vec<u8>) {
    let region = Region::<16, 32, 4>::zeroed();
    let ticks = std::cell::Cell::new(0);
    let clock = || {
        ticks.set(ticks.get() + 1);
        ticks.get()
    };
    let recorder = Recorder::new(&region, &clock, 1_000_000);
    let writer = recorder.writer("main loop");
    drop(writer.named(MOTOR).enter());
    writer.instant("hello");
    writer.named(LEVEL).count(7);
    writer.instant_with("door", |details| {
        details.arg(LEVEL, 1);
    });
    drop(writer);
    let memory = region.words().flat_map(u32::to_le_bytes).collect();
    let (mut sender, mut piece, mut sent) = (Sender::new(recorder), [0; 64], Vec::new());
    while let len @ 1.. = sender.fill(&mut piece) {
        sent.extend_from_slice(&piece[..len]);
    }
    (memory, sent)
}

/// The names of the slice, the instants and the counter.
fn names(trace: &[u8]) -> Vec<String> {
    let trace = Trace::of(trace).expect("a trace");
    let slices = trace.slices().map(|slice| slice.name().to_owned());
    let instants = trace.instants().map(|event| event.name().to_owned());
    slices.chain(instants).chain(trace.counters().map(|counter| counter.name().to_owned())).collect()
}

const RIGHT: [&str; 4] = ["motor µ", "hello", "door", "level"];
const UNKNOWN: [&str; 4] = ["linked name 0x10", "hello", "door", "linked name 0x18"];

#[test]
fn a_program_gives_a_dump_the_names_that_only_it_has() {
    let (memory, _) = recorded();
    let right = program("linked", &["tracebuf:motor µ", "tracebuf:level", MARK], 0);
    let (is_whole, said, trace) = recover("linked", &memory, &["--program", &right]);
    assert!(is_whole && !said.contains("with a name"), "{said}");
    assert_eq!(names(&trace), RIGHT);
    // Of another build, whose mark is in another place; or of none. That it has such numbers too says nothing.
    for symbols in [&["tracebuf:pump", "tracebuf:level"][..], &["tracebuf:pump", MARK, "tracebuf:level"]] {
        let other = program("linked-other", symbols, 0);
        let (is_whole, said, trace) = recover("linked", &memory, &["--program", &other]);
        assert!(
            !is_whole
                && said.contains("linked-other.elf: it is not known to be the build that recorded 3 events"),
            "{said}"
        );
        assert!(said.contains("give the very file that was flashed"), "{said}");
        assert_eq!(names(&trace), UNKNOWN);
    }
    let (is_whole, said, trace) = recover("linked", &memory, &[]);
    assert!(is_whole && said.contains("3 events with a name that only the program has"), "{said}");
    assert!(said.contains("give the very one that ran with --program"), "{said}");
    assert_eq!(names(&trace), UNKNOWN);
}

#[test]
fn a_dump_that_is_the_program_s_core_has_them_itself() {
    let (memory, _) = recorded();
    let core = elf_with(&["tracebuf:motor µ", "tracebuf:level", MARK], Endianness::Big, true, 0, &memory);
    let (is_whole, said, trace) = recover("linked-core", &core, &[]);
    assert!(is_whole && !said.contains("with a name"), "{said}");
    assert_eq!(names(&trace), RIGHT);
}

#[test]
fn names_that_cannot_be_told_apart_are_refused() {
    let (memory, _) = recorded();
    for address in [1008, 0x2000_0000] {
        let many = program("linked-many", &["tracebuf:motor", "tracebuf:level"], address);
        let (is_whole, said, _) = recover("linked-many", &memory, &["--program", &many]);
        assert!(!is_whole && said.contains("more than 1023"), "{address}: {said}");
    }
    // The last one that there is room for.
    let full = program("linked-full", &["tracebuf:last"], 1006);
    let (_, said, _) = recover("linked-full", &memory, &["--program", &full]);
    assert!(said.contains("build that recorded 3 events"), "{said}");
}

#[test]
fn a_program_gives_them_to_what_a_device_sends() {
    let (_, sent) = recorded();
    let [input, output] = ["sent", "pftrace"].map(|kind| scratch(&format!("recover/linked-sent.{kind}")));
    std::fs::write(&input, sent).expect("a file");
    let receive = |more: &[&str]| {
        let run = tracebuf(&["receive"]).arg(&input).arg("-o").arg(&output).args(more).output();
        let run = run.expect("the command runs");
        let said = [text(&run.stdout), text(&run.stderr)].concat();
        (run.status.success(), said, std::fs::read(&output).unwrap_or_default())
    };
    let right = program("linked-sent", &["tracebuf:motor µ", "tracebuf:level", MARK], 0);
    let (is_whole, said, trace) = receive(&["--program", &right]);
    assert!(is_whole && !said.contains("with a name"), "{said}");
    assert_eq!(names(&trace), RIGHT);
    let (is_whole, said, trace) = receive(&[]);
    assert!(is_whole && said.contains("3 events with a name that only the program has"), "{said}");
    assert_eq!(names(&trace), UNKNOWN);
    let other = program("linked-sent-other", &["tracebuf:pump", MARK, "tracebuf:level"], 0);
    let (is_whole, said, trace) = receive(&["--program", &other]);
    assert!(
        is_whole
            && said.contains("linked-sent-other.elf: it is not known to be the build that recorded 3 events"),
        "{said}"
    );
    assert_eq!(names(&trace), UNKNOWN);
    let (is_whole, said, _) = receive(&["--program", input.to_str().expect("a name")]);
    assert!(!is_whole && said.contains("linked-sent.sent"), "{said}");
    let (is_whole, said, _) = receive(&["--program", &right, "--program", &right]);
    assert!(!is_whole && said.contains("more programs than devices"), "{said}");
}

#[test]
fn after_an_update_each_build_s_file_has_the_names_of_what_that_build_recorded() {
    type Trace = Region<16, 32, 4>;
    type Main<'r> = Writer<'r, Trace, fn() -> u32>;
    let region = Trace::zeroed();
    let start = |record: fn(&Main<'_>)| {
        let (recorder, _) = Recorder::attach_or_new(&region, (|| 7) as fn() -> u32, 1_000_000);
        record(&recorder.writer("main loop"));
    };
    start(|writer| writer.named(MOTOR).instant());
    start(|writer| writer.named(At::<{ BUILD + 1 }>(LEVEL.0)).instant());
    start(|writer| writer.instant("hello"));
    let memory: Vec<u8> = region.words().flat_map(u32::to_le_bytes).collect();
    let before = program("linked-before", &["tracebuf:motor µ", "tracebuf:level", MARK], 0);
    let (is_whole, said, trace) = recover("linked-update", &memory, &["--program", &before]);
    assert!(!is_whole && said.contains("build that recorded 1 event"), "{said}");
    assert_eq!(names(&trace), ["motor µ", "linked name 0x18", "hello"]);
    // With addresses one higher: of the number of LEVEL it has none, but the mark is right.
    let after = program("linked-after", &["tracebuf:x", "tracebuf:y", MARK], 1);
    let (is_whole, said, trace) = recover("linked-update", &memory, &["--program", &after]);
    assert!(!is_whole && said.contains("build that recorded 2 events"), "{said}");
    assert_eq!(names(&trace), ["linked name 0x10", "linked name 0x18", "hello"]);
}

#[test]
fn a_program_that_cannot_be_one_is_an_answer() {
    let (memory, _) = recorded();
    let right =
        elf_with(&["tracebuf:motor µ", "tracebuf:level", MARK], Endianness::Little, false, 0, &[0; 64]);
    let given = scratch("recover/linked-given.elf");
    let run = |bytes: &[u8]| {
        std::fs::write(&given, bytes).expect("a file");
        recover("linked-given", &memory, &["--program", given.to_str().expect("a name")])
    };
    // Of another architecture, as far as its header says: names are names.
    let mut other = right.clone();
    other[18] = 62;
    assert_eq!(names(&run(&other).2), RIGHT);
    // Cut off, or damaged, anywhere: right names, numbers, or an error that names the file.
    let cut = (0..right.len()).step_by(5).map(|len| right[..len].to_vec());
    let damaged = (0..right.len()).step_by(3).map(|at| {
        let mut damaged = right.clone();
        damaged[at] ^= 0x11;
        damaged
    });
    for bytes in cut.chain(damaged) {
        let (is_whole, said, _) = run(&bytes);
        assert!(is_whole || said.contains("linked-given.elf: "), "{said}");
        assert!(!said.contains("panicked"), "{said}");
    }
    // Stripped, so that only a section says that there were names.
    let arm = (object::BinaryFormat::Elf, object::Architecture::Arm);
    let mut stripped = object::write::Object::new(arm.0, arm.1, Endianness::Little);
    stripped.add_section(Vec::new(), b"tracebuf_build".to_vec(), object::SectionKind::Other);
    let (is_whole, said, _) = run(&stripped.write().expect("an object"));
    assert!(!is_whole && said.contains("its linked names were stripped"), "{said}");
    // Larger than any, though there is nothing in it.
    let file = std::fs::File::create(&given).expect("a file");
    file.set_len((1 << 30) + 1).expect("a hole");
    let (is_whole, said, _) =
        recover("linked-given", &memory, &["--program", given.to_str().expect("a name")]);
    std::fs::remove_file(&given).expect("a file");
    assert!(!is_whole && said.contains("a program has 1 GiB at most"), "{said}");
}
